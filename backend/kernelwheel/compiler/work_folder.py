"""The folder a Plan is compiled in, kept so that the next compile rebuilds only what changed.

    <cache folder>/<package>/.build/kernelwheel-<digest>/   digest of the Plan without version and sources; private
        src/ recipe/ torch cuda build/ out/ tmp/    sources, our CMake module, links, CMake's folder, libraries
        headers/                                    links to headers besides torch's
        libraries/                                  links to libraries of the toolkit
        older/                                      sources for an older glibc, see toolchain/glibc_compat.py
        torch-stubs/                                sources for another platform's torch, see torch_stubs.py
        build.log                                   the latest output of CMake and the compilers
        whole.json                                  exists while the rest is intact: removed first, written last

If that folder cannot be used, a randomly named one in the temporary folder is, and is removed afterwards.
KernelWheel.cmake keeps the folder's name out of the libraries. Ninja decides what to rebuild. It tracks every file that
an object depends on except torch's and the toolkit's: the folder's name covers the toolkit's digests, and whole.json
has those of other headers.
"""

from __future__ import annotations

import errno
import json
import os
import posixpath
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..runtime.errors import BuildError, StoreError
from ..runtime.files import file_sha256, json_sha256
from ..runtime.locks import exclusive
from ..runtime.permissions import FOLDER, PRIVATE, Trust
from ..runtime.places import temporary_guard
from ..runtime.store import WHOLE, Store
from ..runtime.variables import own_variable
from .headers import Headers
from .plan import Plan
from .toolchain.toolchain import Toolchain
from .work_links import link_all

LOG = "build.log"
# Bytes; with less free space than this, the cache is not used to compile in. nvcc's intermediate files take a few MB
# per source file.
ROOM = 1 << 28
# Folder paths that CMake, Ninja, nvcc and a shell can all handle, each by itself and all together.
FIT = re.compile(r"[\w /.=#()@+%&*!~-]{1,1000}")
# What the next compile does not need; nvcc's intermediate files take the most space.
PASSING = ("torch", "cuda", "headers", "libraries", "out", "tmp", "recipe", "build/keep")


@dataclass(frozen=True)
class Work:
    """A folder to compile in: its path, and the locks that compilers inherit; without a lock, it is temporary."""

    path: Path
    locks: tuple[int, ...]

    @property
    def log(self) -> Path:
        """The output of CMake and the compilers."""
        return self.path / LOG


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
def locked_work(plan: Plan, store: Store | None, trust: Trust, say: Callable[[str], None]) -> Iterator[Work]:
    """Yield the Plan's folder in a Store's cache folder, locked; or else one in the temporary folder.

    Args:
        plan: what to compile.
        store: the user's own Store; None if there is none to use.
        trust: who may write to the temporary folder.
        say: receives a line if this has to wait, or if the temporary folder is used.

    Raises:
        StoreError: other users could change the temporary folder too.
        BuildError: its path is one that CMake and nvcc cannot handle.
        OSError: the folder cannot be created.
    """
    with ExitStack() as held:
        work = _kept(plan, store, say, held) if store else None
        yield work or _passing(plan, trust, held)


def _kept(plan: Plan, store: Store, say: Callable[[str], None], held: ExitStack) -> Work | None:
    path = work_path(store, plan)
    try:
        if not FIT.fullmatch(str(path)):
            raise OSError(errno.EINVAL, "CMake and nvcc cannot handle this path", str(path))
        store.guard.make(store.builds.parent, FOLDER)
        store.guard.make(store.builds, PRIVATE)
        lock = exclusive(path.with_suffix(".lock"), lambda: say(f"waiting for the build in {path}"))
        descriptor = held.enter_context(lock)
        store.guard.make(path, PRIVATE)
        if shutil.disk_usage(path).free < ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return Work(path, (descriptor,))
    except (StoreError, OSError) as error:
        reason = error.found if isinstance(error, StoreError) else error
        say(f"building in the temporary folder, because {path} cannot be used: {reason}")
        return None


def _passing(plan: Plan, trust: Trust, held: ExitStack) -> Work:
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
    held.push(lambda kind, *_: _remove_all_but_log(path) if kind else shutil.rmtree(path, ignore_errors=True))
    return Work(path, ())


def _remove_all_but_log(path: Path) -> None:
    """Clean up after a failure, but keep the log, which the error names."""
    for inside in path.iterdir():
        if inside.name != LOG:
            _remove(inside)


def lay_out(
    work: Work, plan: Plan, toolchain: Toolchain, source_root: Path, headers: Headers, made: Mapping[str, str]
) -> None:
    """Prepare the folder for the Plan: update one that a compile left intact, or start from scratch.

    Args:
        work: the folder.
        plan: what will be compiled in it.
        toolchain: what it is compiled with.
        source_root: the folder with the Plan's sources.
        headers: those that the sources can reach outside the package.
        made: further sources, which are not the package's own, by their names in the folder.

    Raises:
        BuildError: a source file has changed since the Plan was drawn up.
    """
    record = work.path / WHOLE
    newest = max((path.lstat().st_mtime_ns for path in (work.path / "build").rglob("*")), default=0)
    # If the clock was set back, timestamps do not show what is older.
    if _is_whole(work, plan, headers) and newest < time.time_ns():
        record.unlink()
        _remove_passing(work)
    else:
        for path in work.path.iterdir():
            _remove(path)
    _copy_sources(work, plan, source_root)
    for name in ("out", "tmp", "recipe"):
        (work.path / name).mkdir()
    for path in (Path(__file__).parent.parent / "cmake").glob("*.cmake"):
        shutil.copyfile(path, work.path / "recipe" / path.name)  # without the mode: the original may be read-only
    link_all(work.path, plan, toolchain)
    for name, text in made.items():
        _write_if_new(work.path / name, text)


def _write_if_new(path: Path, text: str) -> None:
    """Write a file whose timestamp says whether its text has changed."""
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def mark_whole(work: Work, plan: Plan, headers: Headers) -> None:
    """Record that everything in the folder is good for the next compile."""
    with suppress(OSError):  # then the next compile starts over; a truncated record never matches
        text = json.dumps({**_contents(work, plan), "headers": headers}, sort_keys=True)
        (work.path / WHOLE).write_text(text, encoding="ascii")


def mark_rest_whole(work: Work, plan: Plan, headers: Headers) -> None:
    """After a compiler failed, keep the good objects, if Ninja exited normally and reported which are bad."""
    said = work.log.read_text(encoding="utf-8", errors="replace")
    failed = re.findall(r"^FAILED: (?:\[code=\d+\] )?(.+?) *$", said, re.MULTILINE)
    if failed and re.search(r"^ninja: build stopped: ", said, re.MULTILINE):
        for output in failed:
            (work.path / "build" / output).unlink(missing_ok=True)
        mark_whole(work, plan, headers)


def headers_read(work: Work) -> set[str]:
    """The headers of torch that the objects in the folder were compiled with, by their names in its include folder.

    From the dependency files as the compilers wrote them, which KernelWheel.cmake keeps (GNU make, "Rule Syntax").
    """
    start = re.escape(in_makefile(work.path / "torch" / "include"))
    names: set[str] = set()
    for file in (work.path / "build").rglob("*.d.read"):
        written = file.read_text(encoding="utf-8", errors="surrogateescape")
        names.update(re.findall(rf"{start}/((?:[^\s\\]|\\[^\n])+)", written))
    return {posixpath.normpath(name) for name in names}


def in_makefile(path: Path) -> str:
    """A path as dependency files write it: a backslash before a space or #, and a doubled $."""
    return re.sub(r"([ #])", r"\\\1", str(path)).replace("$", "$$")


def tidy(work: Work) -> None:
    """Remove what the next compile does not need."""
    if work.locks:
        _remove_passing(work)


def _is_whole(work: Work, plan: Plan, headers: Headers) -> bool:
    """Whether the folder is as the last compile left it, and no header has changed that its objects may depend on.

    A header that only one of the two compiles reaches does not matter: the source that led to it was edited.
    """
    try:
        record = json.loads((work.path / WHOLE).read_text(encoding="ascii"))
        before: Headers = record.pop("headers")
        same = all(
            headers.get(origin, {}).get(name, digest) == digest
            for origin, named in before.items()
            for name, digest in named.items()
        )
    except (OSError, ValueError, KeyError, AttributeError):  # none, or cut short
        return False
    return same and record == _contents(work, plan)


def _contents(work: Work, plan: Plan) -> dict[str, Any]:
    """What whole.json says of the folder, which neither its name nor Ninja covers.

    It has the names of all sources, because a new header may shadow another one, and the digests of all files, because
    after a power failure the disk may not hold what was written.
    """
    build = work.path / "build"
    files = (path for path in build.rglob("*") if path.is_file() and build / "keep" not in path.parents)
    return {
        "sources": sorted(plan.sources),
        "files": {path.relative_to(build).as_posix(): file_sha256(path) for path in files},
    }


def _copy_sources(work: Work, plan: Plan, source_root: Path) -> None:
    """Copy new and edited sources. The copies are newer than every object, so Ninja notices every edit."""
    for name, digest in plan.sources.items():
        target = work.path / "src" / name
        if target.is_file() and file_sha256(target) == digest:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source_root / name, target)
        if file_sha256(target) != digest:
            raise BuildError(
                "the sources were edited during the build",
                required=f"{name} as it was when the build started",
                found="different contents",
                remedies=["build again"],
            )


def _remove_passing(work: Work) -> None:
    for name in PASSING:
        _remove(work.path / name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
