"""The folder a Plan is compiled in, kept so that the next compile rebuilds only what changed.

    <cache folder>/<package>/.build/kernelwheel-<digest>/   digest of the Plan without version and sources; private
        src/ recipe/ torch cuda build/ out/ tmp/    sources, our CMake module, links, CMake's folder, libraries
        headers/                                    links to headers besides torch's
        libraries/                                  links to libraries of the toolkit
        older/                                      sources for an older glibc, see toolchain/glibc_compat.py
        torch-stubs/                                sources for another platform's torch, see cross/cmake_files.py
        build.log                                   the latest output of CMake and the compilers
        reusable.json                               exists while the rest is intact: removed first, written last

If that folder cannot be used, a randomly named one in the temporary folder is, and is removed afterwards.
KernelWheel.cmake keeps the folder's name out of the libraries. Ninja decides what to rebuild, unless a file was edited
of which it may not know who reads it (files_read.py). Nor does it know of torch's headers and the toolkit's: the
folder's name covers the toolkit's digests, and reusable.json has those of other headers.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..project.build_platforms import HOST_PLATFORM
from ..project.source_files import file_sha256
from ..runtime.errors import BuildError, StoreError
from ..runtime.machine.files import json_sha256
from ..runtime.machine.fork_safe_locks import exclusive
from ..runtime.machine.permissions import FOLDER, PRIVATE, Trust
from ..runtime.store.store import REUSABLE, Store
from ..runtime.variables import own_variable
from ..store.temporary_folder import temporary_guard
from .cross.windows import zig
from .files_read import are_followed
from .headers import header_folders
from .plan import Headers, Plan
from .toolchain.binding import find_cuda_library
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit import Nvcc

LOG = "build.log"
# Bytes; with less free space than this, the cache is not used to compile in. nvcc's intermediate files take a few MB
# per source file.
ROOM = 1 << 28
# Folder paths that CMake, Ninja, nvcc and a shell can all handle, each by itself and all together.
FIT = re.compile(r"[\w /.=#()@+%&*!~-]{1,1000}")
# What the next compile does not need; nvcc's intermediate files take the most space.
TEMPORARY = ("torch", "cuda", "headers", "libraries", "out", "tmp", "recipe", "build/keep", zig.PROGRAM, zig.LIBRARIES)
# What CMake calls linked device code. It is linked each time, as all libraries are: Ninja is not told of archives.
DEVICE_LINKED = "cmake_device_link.o"


def work_path(store: Store, plan: Plan) -> Path:
    """The folder that a Plan is compiled in, if the Store's cache folder can be used."""
    return store.builds / work_name(plan.to_json())


def work_name(plan: Mapping[str, Any]) -> str:
    """The folder's name, from a Plan as JSON: the same for all versions of the package and all edits.

    An edited source may reach other headers, so those are left out too.
    """
    content, tools = dict(plan["content"]), dict(plan["tools"])
    del content["version"], content["sources"], tools["headers"]
    return f"kernelwheel-{json_sha256([content, tools, plan['target']])[:32]}"


@contextmanager
def locked_workdir(plan: Plan, store: Store | None, trust: Trust, say: Callable[[str], None]) -> Iterator[Path]:
    """Yield the Plan's folder in the user's own Store, locked; or else one in the temporary folder.

    `trust` says who may write to the latter; `say` receives a line if it is used, or if this has to wait.

    Raises:
        StoreError: other users could change the temporary folder too.
        BuildError: its path is one that CMake and nvcc cannot handle.
        OSError: the folder cannot be created.
    """
    with ExitStack() as held:
        work = _in_store(plan, store, say, held) if store else None
        yield work or _in_temporary_folder(plan, trust, held)


def _in_store(plan: Plan, store: Store, say: Callable[[str], None], held: ExitStack) -> Path | None:
    path = work_path(store, plan)
    try:
        if not FIT.fullmatch(str(path)):
            raise OSError(errno.EINVAL, "CMake and nvcc cannot handle this path", str(path))
        store.guard.check(store.builds.parent, make=FOLDER)
        store.guard.check(store.builds, make=PRIVATE)
        lock = exclusive(path.with_suffix(".lock"), lambda: say(f"waiting for the build in {path}"))
        held.enter_context(lock)  # compilers inherit it
        store.guard.check(path, make=PRIVATE)
        if shutil.disk_usage(path).free < ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return path
    except (StoreError, OSError) as error:
        reason = error.found if isinstance(error, StoreError) else error
        say(f"building in the temporary folder, because {path} cannot be used: {reason}")
        return None


def _in_temporary_folder(plan: Plan, trust: Trust, held: ExitStack) -> Path:
    guard = temporary_guard(plan.package, trust)
    guard.check(guard.folder)
    if not FIT.fullmatch(str(guard.folder)):
        raise BuildError(
            "kernels cannot be compiled in a folder with this path",
            required="a path of at most 1000 letters, digits, spaces and the characters /.=#()@+%&*!~-_",
            found=str(guard.folder),
            remedies=[
                f"set {own_variable(plan.package, 'cache-dir')} to another folder",
                "or set TMPDIR to another folder, which is used if the cache cannot be",
            ],
        )
    path = Path(tempfile.mkdtemp(prefix="kernelwheel-", dir=guard.folder))
    held.push(lambda _, error, __: _remove_all_but_named_log(path, error))
    return path


def _remove_all_but_named_log(path: Path, error: BaseException | None) -> None:
    """Clean up; after a failure whose error names the log, keep that."""
    if str(path / LOG) not in str(error):
        shutil.rmtree(path, ignore_errors=True)
        return
    for inside in path.iterdir():
        if inside.name != LOG:
            _remove(inside)


def prepare_workdir(
    work: Path, plan: Plan, toolchain: Toolchain, source_root: Path, generated: Mapping[str, str]
) -> None:
    """Prepare the folder for the Plan: update one that a compile left intact, or start from scratch.

    `generated` are further sources, which are not the package's own, by their names in the folder.

    Raises:
        BuildError: a source file has changed since the Plan was drawn up.
    """
    record = work / REUSABLE
    newest = max((path.lstat().st_mtime_ns for path in (work / "build").rglob("*")), default=0)
    # If the clock was set back, timestamps do not show what is older.
    if _is_reusable(work, plan) and newest < time.time_ns():
        record.unlink()
        remove_temporary(work)
    else:
        for path in work.iterdir():
            _remove(path)
    _copy_sources(work, plan, source_root)
    for name in ("out", "tmp", "recipe"):
        (work / name).mkdir()
    for path in (Path(__file__).parent.parent / "cmake").glob("*.cmake"):
        shutil.copyfile(path, work / "recipe" / path.name)  # without the mode: the original may be read-only
    _make_links(work, plan, toolchain)
    for name, text in generated.items():
        path = work / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:  # Ninja goes by its timestamp
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def mark_reusable(work: Path, plan: Plan) -> None:
    """Record that everything in the folder is good for the next compile."""
    with suppress(OSError):  # then the next compile starts over; a truncated record never matches
        text = json.dumps({**_contents(work, plan), "headers": plan.headers}, sort_keys=True)
        (work / REUSABLE).write_text(text, encoding="ascii")


def mark_rest_reusable(work: Path, plan: Plan) -> None:
    """After a compiler failed, keep the good objects, if Ninja exited normally and reported which are bad."""
    log = (work / LOG).read_text(encoding="utf-8", errors="replace")
    failed = re.findall(r"^FAILED: (?:\[code=\d+\] )?(.+?) *$", log, re.MULTILINE)
    if failed and re.search(r"^ninja: build stopped: ", log, re.MULTILINE):
        for output in failed:
            (work / "build" / output).unlink(missing_ok=True)
        mark_reusable(work, plan)


def _is_reusable(work: Path, plan: Plan) -> bool:
    """Whether the folder is as the last compile left it, and nothing has changed that Ninja does not follow.

    A header that only one of the two compiles reaches does not matter: the source that led to it was edited.
    """
    try:
        record = json.loads((work / REUSABLE).read_text(encoding="ascii"))
        before: Headers = record.pop("headers")
        same = all(
            plan.headers.get(origin, {}).get(name, digest) == digest
            for origin, named in before.items()
            for name, digest in named.items()
            if origin != "linked"  # all libraries are linked anew
        )
    except (OSError, ValueError, KeyError, AttributeError):  # none, or cut short
        return False
    return same and record == _contents(work, plan) and are_followed(work, _edited(work, plan))


def _contents(work: Path, plan: Plan) -> dict[str, Any]:
    """What reusable.json says of the folder, which neither its name nor Ninja covers.

    It has the names of all sources, because a new header may shadow another one, and the digests of all files, because
    after a power failure the disk may not hold what was written.
    """
    build = work / "build"
    every = (path for path in build.rglob("*") if path.is_file() and path.name != DEVICE_LINKED)
    files = (path for path in every if build / "keep" not in path.parents)
    return {
        "sources": sorted(plan.sources),
        "files": {path.relative_to(build).as_posix(): file_sha256(path) for path in files},
    }


def _copy_sources(work: Path, plan: Plan, source_root: Path) -> None:
    """Copy new and edited sources. The copies are newer than every object, so Ninja notices every edit."""
    for name in _edited(work, plan):
        target = work / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source_root / name, target)
        if file_sha256(target) != plan.sources[name]:
            raise BuildError(
                "the sources were edited during the build",
                required=f"{name} as it was when the build started",
                found="different contents",
                remedies=["build again"],
            )


def _edited(work: Path, plan: Plan) -> list[str]:
    """The sources of which the folder has no copy, or another one."""
    copies = ((name, digest, work / "src" / name) for name, digest in plan.sources.items())
    return [name for name, digest, copy in copies if not copy.is_file() or file_sha256(copy) != digest]


def remove_temporary(work: Path) -> None:
    """Remove what the next compile does not need."""
    for path in (*(work / name for name in TEMPORARY), *(work / "build").rglob(DEVICE_LINKED)):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# Links by which compilers reach torch, the toolkit and others: nothing that they are given depends on where these are


def _make_links(work: Path, plan: Plan, toolchain: Toolchain) -> None:
    """Make the links in an otherwise prepared folder; they must not be there yet."""
    (work / "torch").symlink_to(toolchain.torch.root)
    if toolchain.cuda.nvcc:
        link_toolkit(work / "cuda", toolchain.cuda.nvcc)
    toolchain.cxx.make_links(work)
    (work / "headers").mkdir()
    for language, folders in header_folders(plan, toolchain).items():
        for number, folder in enumerate(folders):
            (work / "headers" / f"{language}{number}").symlink_to(folder)
    _link_libraries(work, plan, toolchain)


def link_toolkit(folder: Path, nvcc: Nvcc) -> None:
    """Make the toolkit reachable below one folder. For another platform, with that platform's part in `targets`.

    nvcc looks for its parts from the path by which it was called.
    """
    if nvcc.target is None:
        folder.symlink_to(nvcc.root)
        return
    target = folder / "targets" / nvcc.target.name
    target.mkdir(parents=True)
    (target / "include").symlink_to(nvcc.include)
    (target / "lib").symlink_to(nvcc.target.lib)
    (folder / "nvvm").symlink_to(nvcc.root / "nvvm")
    if nvcc.clang:  # which finds all of a toolkit from the folder with its headers
        (target / "nvvm").symlink_to(nvcc.root / "nvvm")
        (target / "bin").symlink_to(nvcc.root / "bin")
    (folder / "bin").mkdir()
    for path in (nvcc.root / "bin").iterdir():
        (folder / "bin" / path.name).symlink_to(path)


def _link_libraries(work: Path, plan: Plan, toolchain: Toolchain) -> None:
    """Put links to the CUDA libraries that extensions name where the linker finds them, without a release number."""
    (work / "libraries").mkdir()
    nvcc = toolchain.cuda.nvcc
    for name in sorted({name for each in plan.built for name in each.libraries}):
        if nvcc and (found := find_cuda_library(name, nvcc, toolchain.torch.root.parent)):
            static, shared = HOST_PLATFORM.static(name), HOST_PLATFORM.shared(name)
            (work / "libraries" / (static if found.name == static else shared)).symlink_to(found)
