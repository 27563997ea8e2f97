"""What compilers, assembler and linker really read, compared with what the Plan says.

Each of them writes a list (gcc(1), `-MD`; as(1), `--MD`; ld(1), `--dependency-file`). Whatever becomes part of a
library, as all that is linked does except shared libraries, must be in the work folder, which has copies of the
package's files, or count in the Plan by its content.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..flags.words import options_of, with_files
from ..project.source_files import file_sha256
from ..runtime.errors import BuildError
from ..version import LOADED
from .headers import headers_of, search_folders
from .linked_files import beginning, files_in, is_shared, linked_files
from .plan import Headers, Plan
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit_identity import identified_files

_OF_TOOLS = re.compile(r"(^|/)CMakeLists\.txt$|\.(cmake|so|[aoch]|cuh?|(cc|hh|[ch](pp|xx|\+\+)))$", re.IGNORECASE)
THIN = b"!<thin>\n"  # what an archive begins with that only names its members (ar(1), `--thin`)


class FilesRead(NamedTuple):
    """The files outside of a work folder that were read, by real paths, and by whom."""

    compiled: set[str]
    assembled: set[str]
    linked: set[str]
    options: set[str]  # files that the options of compilers name
    thin: set[str]  # archives that only name their members, inside it too: what a list says of them is their own name


def check_read(plan: Plan, toolchain: Toolchain, work: Path, *, by_content: bool) -> None:
    """Compare what was read for the objects and libraries in a work folder with the Plan, now that all are made.

    Where these are found `by_content` alone, what flags name must be there, but for the environment's own headers.

    Raises:
        BuildError: a file has changed meanwhile, or one was read that the Plan does not cover.
    """
    headers, linked = headers_of(plan, toolchain, work / "src"), linked_files(plan, toolchain)
    _refuse_changed(plan, {**headers.digests, **linked.digests})
    known = dict(zip(_places(headers.origins), headers.origins.values(), strict=True)) | linked.origins
    read = files_read(work)
    every = read.compiled | read.assembled | read.linked | read.options
    unknown = {path for path in every - known.keys() if not (path in read.linked and is_shared(path))}
    nvcc = toolchain.cuda.nvcc if plan.cuda else None
    if unknown and nvcc:
        unknown -= {*_places(map(str, identified_files(nvcc)))}
    if by_content:
        contents, environment = set(plan.sources.values()), os.path.realpath(f"{sys.prefix}/include") + "/"
        named = {path for path in every & known.keys() if known[path] == "flags" and not path.startswith(environment)}
        unknown |= {path for path in named if file_sha256(Path(path)) not in contents}
    if unknown | read.thin:
        raise _refusal(plan, toolchain, read, unknown, by_content)
    _refuse_unlisted(plan, toolchain, work)


def files_read(work: Path) -> FilesRead:
    """What the lists in a work folder name, and the commands in it."""
    build, own = work / "build", os.path.realpath(work) + "/"
    zig = os.path.realpath(build / "zig") + "/"  # its own libraries, which are in its identity

    def outside(paths: Iterator[str]) -> set[str]:
        return {path for path in paths if not path.startswith((own, zig))}

    lists = (name for file in (work / "tmp").glob("*.linked") for name in _in_lines(file))
    linked = {os.path.realpath(build / name) for name in lists if (build / name).is_file()}
    by_linker = files_in(_words_of_commands(_commands(work), "LINK_FLAGS|LINK_LIBRARIES", build), build)
    return FilesRead(
        outside(_compiled(build)),
        outside(_assembled(build)),
        outside(chain(linked, by_linker)),
        outside(_options(work)),
        {path.removeprefix(f"{own}src/") for path in linked if beginning(path, len(THIN)) == THIN},
    )


def are_followed(work: Path, edited: Iterable[str]) -> bool:
    """Whether Ninja notices edits of these sources: it knows the compilers' lists, but no other, and what CMake reads.

    What is written in a compiler's language is compiled, or read in a way that is listed, or not at all. What can be
    linked is: all libraries are linked anew.
    """
    others = {*_assembled(work / "build"), *_options(work)}
    known = {*_compiled(work / "build")} - others
    paths = dict(zip(edited, _places(str(work / "src" / name) for name in edited), strict=True))
    return all(path in known or (path not in others and _OF_TOOLS.search(name)) for name, path in paths.items())


def _compiled(build: Path) -> Iterator[str]:
    kept = [file for file in build.rglob("*.d.read") if file.with_suffix("").with_suffix("").is_file()]
    return _places(str(build / name) for name in {name for file in kept for name in names_in_rule(file)})


def _assembled(build: Path) -> Iterator[str]:
    # The assembler lists its temporary inputs, too, and names of debugging information.
    names = {name for file in build.rglob("*.as") for name in names_in_rule(file)}
    return (os.path.realpath(build / name) for name in names if (build / name).is_file())


def _options(work: Path) -> Iterator[str]:
    return files_in(_words_of_commands(_commands(work), "FLAGS", work / "build"), work / "build")


def names_in_rule(file: Path) -> Iterator[str]:
    """The names in a rule of make: a backslash before a space or #, and a doubled $ (GNU make, "Rule Syntax")."""
    text = file.read_text(encoding="utf-8", errors="surrogateescape").replace("\\\n", " ")
    for name in re.findall(r"(?:[^\s\\]|\\.)+", text):
        if not name.endswith(":"):
            yield re.sub(r"\\([ #\\])", r"\1", name).replace("$$", "$")


def _in_lines(file: Path) -> Iterator[str]:
    """The names in a linker's list, which has one in each line and escapes none."""
    for line in file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]:
        if (name := line.strip().removesuffix("\\").rstrip()) and not name.endswith(":"):
            yield name


def _commands(work: Path) -> str:
    return (work / "build" / "build.ninja").read_text(encoding="utf-8", errors="surrogateescape")


def _words_of_commands(commands: str, variables: str, build: Path) -> set[str]:
    """The words in these variables of a build.ninja, and in the files of options that they name, with their paths."""
    files = []

    def read(name: str) -> list[str] | None:
        file = build / name
        if not file.is_file():
            return None
        files.append(str(file))
        return _split(file.read_text(encoding="utf-8", errors="surrogateescape"))

    lines = re.findall(rf"^  (?:{variables}) = (.*)$", commands, re.MULTILINE)
    words = {word for line in lines for word in with_files(_split(re.sub(r"\$(.)", r"\1", line)), read)}
    return {*words, *files}


def _split(text: str) -> list[str]:
    """The words that programs get, whatever passes them on."""
    try:
        return options_of(shlex.split(text))
    except ValueError:  # quotes of another grammar
        return text.split()


def _places(paths: Iterable[str]) -> Iterator[str]:
    """The paths without links in the names of their folders, each of which is looked up once."""
    real = cache(os.path.realpath)
    for folder, name in map(os.path.split, paths):
        yield os.path.normpath(f"{real(folder)}/{name}")


# What is refused


def _refuse_changed(plan: Plan, now: Headers) -> None:
    if changed := sorted(origin for origin in {*now, *plan.headers} if plan.headers.get(origin) != now.get(origin)):
        raise BuildError(
            "headers or libraries were changed during the build",
            required="those that the Plan was drawn up with",
            found=f"other ones: {', '.join(changed)}",
            remedies=["build again, while nothing is being installed"],
        )


def _refusal(plan: Plan, toolchain: Toolchain, read: FilesRead, unknown: set[str], by_content: bool) -> BuildError:
    loaded = plan.version == LOADED
    remedies = []
    if included := sorted(unknown & (read.compiled | read.assembled)):
        searched = search_folders(plan, toolchain, () if by_content else plan.compiler_flags)
        folders = [str(each) for every in searched.values() for each in every]
        name = _as_included(included[0], folders)
        how = "name its folder in extra_include_paths and include it by name" if loaded else "put it in the package"
        remedies.append(how)
        if loaded or not by_content or name[0] == "<":
            remedies.append(f"or name it in a source, so that a change is noticed: #if 0, #include {name}, #endif")
    if by_content and not loaded:
        remedies.append("or install a wheel instead, whose build takes account of this file: pip install .")
    elif unknown & read.linked - {*included}:
        where = "list the archive or object itself in extra_ldflags" if loaded else "name it in link-flags"
        remedies.append(f"{where}, by its path; if it is, it was changed meanwhile: try again")
    if unknown & read.options - {*included}:
        remedies.append("write what a file of options has into the flags themselves, or put the file into the package")
    if read.thin:
        remedies.append("make an archive that has its members, not only their names: ar rcs, without T")
    found = sorted(unknown | read.thin)
    return BuildError(
        f"a file was compiled into {plan.package} that the Plan does not cover, so no change would be noticed",
        required="files of the package and of compilers, as these kernels are found by the package's content alone"
        if by_content and not loaded
        else "files that the sources and flags name where they can be found by reading",
        found="\n".join(found[:10]) + (f"\nand {len(found) - 10} more" if found[10:] else ""),
        remedies=remedies,
    )


def _as_included(path: str, folders: list[str]) -> str:
    """How a source can include it."""
    for folder in map(os.path.realpath, folders):
        if path.startswith(folder + "/"):
            return f"<{os.path.relpath(path, folder)}>"
    return f'"{path}"'


def _refuse_unlisted(plan: Plan, toolchain: Toolchain, work: Path) -> None:
    """Where the assembler writes no list, as in clang: reject a source whose `.incbin` is not one of a literal name."""
    nvcc = toolchain.cuda.nvcc if plan.cuda else None
    by_gcc = toolchain.cxx.kind == "gcc" and not toolchain.launchers.cxx and not toolchain.launchers.cuda
    objects = (file for file in (work / "build").rglob("*.d.read") if ".cu." not in file.name)
    listed = all(file.with_name(file.name.replace(".d.read", ".as")).is_file() for file in objects)
    if listed and " -flto" not in _commands(work) and (nvcc is None or (by_gcc and not nvcc.clang)):
        return
    for name in plan.sources:
        if re.search(rb'incbin(?![\s\\]*")', (work / "src" / name).read_bytes()):
            raise BuildError(
                f"{name} has an .incbin whose file cannot be found by reading",
                required='.incbin "FILE", with the name itself, where the assembler cannot list what it reads',
                found=f"another spelling, and {toolchain.cxx.kind} without such a list",
                remedies=["write the name of the file after .incbin, or compile with gcc and no cache for compilers"],
            )
