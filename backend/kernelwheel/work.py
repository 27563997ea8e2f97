"""The folder that a Plan is compiled in, kept afterwards, so that the next compile makes only what an edit changed.

    <temporary folder>/kernelwheel-<digest>/        its path is made from the Plan without what edits change
        src/ recipe/ torch cuda build/ out/ tmp/    sources, our CMake module, links, CMake's folder, libraries
        headers/                                    links to those that a module of Python needs
        build.log                                   what CMake and the compilers said last
        whole.json                                  there while all else is whole: removed first, written last

nvcc hashes the current folder into the names of internal symbols, so objects can be used again, and bytes come out the
same, in one fixed folder only. Ninja decides what is made anew. It knows every file that an object was made from, but
torch's and the toolkit's: the toolkit's digests are in the folder's path, torch's version is in whole.json.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .digests import file_sha256, json_sha256
from .errors import BuildError
from .extension import header_folders
from .locks import NO_LOCKS, exclusive
from .plan import Plan
from .toolchain import Toolchain

LOG = "build.log"
WHOLE = "whole.json"
# What a compile needs and the next one does not; nvcc's intermediate files are the largest of all.
PASSING = ("out", "tmp", "recipe", "headers", "job.json", "build/keep")


@dataclass(frozen=True)
class Work:
    """A folder to compile in: its path, and the lock on it that compilers share; without a lock it is not kept."""

    path: Path
    locks: tuple[int, ...]

    @property
    def log(self) -> Path:
        """What CMake and the compilers said."""
        return self.path / LOG


def work_path(plan: Plan) -> Path:
    """The folder that a Plan is compiled in, unless another user is there already."""
    return Path(tempfile.gettempdir()) / work_name(plan.to_json())


def work_name(plan: Mapping[str, Any]) -> str:
    """The folder's name, from a Plan as JSON: the same for every version of the package and every edit."""
    return f"kernelwheel-{json_sha256({key: plan[key] for key in plan if key not in ('version', 'sources')})[:32]}"


@contextmanager
def claimed(plan: Plan, say: Callable[[str], None]) -> Iterator[Work]:
    """The Plan's folder, locked while it is in use.

    Where another user was there first, or the filesystem has no locks: a folder of a random name, for this once.

    Raises:
        BuildError: what is there is no folder.
        OSError: it cannot be made.
    """
    path = work_path(plan)
    with ExitStack() as held:
        try:
            lock = exclusive(path.with_suffix(".lock"), lambda: say(f"waiting for the build in {path}"))
            descriptor = held.enter_context(lock)
            _make_ours(path)
            work = Work(path, (descriptor,))
        except OSError as error:
            if not isinstance(error, PermissionError) and error.errno not in NO_LOCKS:
                raise
            work = Work(Path(tempfile.mkdtemp(prefix=f"{path.name}.")), ())
        yield work


def _make_ours(path: Path) -> None:
    """A folder that nobody else can have put an object into."""
    with suppress(FileNotFoundError):
        info = path.lstat()
        if not stat.S_ISDIR(info.st_mode):
            raise BuildError(
                "the folder to build in is not ours",
                required=f"{path}: a folder of this user, or nothing",
                found=f"owner {info.st_uid}, mode {stat.filemode(info.st_mode)}",
                remedies=["remove it, or set TMPDIR to a folder of your own"],
            )
        if info.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is another user's", str(path))
        if stat.S_IMODE(info.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            shutil.rmtree(path)
    path.mkdir(mode=0o700, exist_ok=True)


def lay_out(work: Work, plan: Plan, toolchain: Toolchain, source_root: Path) -> None:
    """Bring the folder to the Plan: from nothing, or, where a compile left it whole, by what was edited since.

    Raises:
        BuildError: a source file is not the Plan's any more.
    """
    record = work.path / WHOLE
    newest = max((path.lstat().st_mtime_ns for path in (work.path / "build").rglob("*")), default=0)
    # Where the clock was set back, dates do not say what is older.
    if record.is_file() and record.read_bytes() == _record(plan, toolchain) and newest < time.time_ns():
        record.unlink()
        _remove_passing(work)
    else:
        for path in work.path.iterdir():
            _remove(path)
    _copy_sources(work, plan, source_root)
    for name in ("out", "tmp", "recipe"):
        (work.path / name).mkdir()
    for path in (Path(__file__).parent / "cmake").glob("*.cmake"):
        shutil.copyfile(path, work.path / "recipe" / path.name)  # without its mode: it may be read-only
    _link(work.path / "torch", toolchain.torch.root)
    if toolchain.cuda.nvcc:
        _link(work.path / "cuda", toolchain.cuda.nvcc.root)
    if plan.binding:
        (work.path / "headers").mkdir()
        for number, folder in enumerate(header_folders(toolchain)):
            _link(work.path / "headers" / str(number), folder)


def mark_whole(work: Work, plan: Plan, toolchain: Toolchain) -> None:
    """Say that everything in the folder is good for the next compile."""
    with suppress(OSError):  # then it is made anew; half a record is not equal to a whole one
        (work.path / WHOLE).write_bytes(_record(plan, toolchain))


def mark_rest_whole(work: Work, plan: Plan, toolchain: Toolchain) -> None:
    """After a compiler failed: keep what others made, where Ninja ended in order and says which are bad."""
    said = work.log.read_text(encoding="utf-8", errors="replace")
    failed = re.findall(r"^FAILED: (?:\[code=\d+\] )?(.+?) *$", said, re.MULTILINE)
    if failed and re.search(r"^ninja: build stopped: ", said, re.MULTILINE):
        for output in failed:
            (work.path / "build" / output).unlink(missing_ok=True)
        mark_whole(work, plan, toolchain)


def tidy(work: Work) -> None:
    """Remove what the next compile does not need; everything, where there will be none in this folder."""
    if work.locks:
        _remove_passing(work)
    else:
        shutil.rmtree(work.path)


def _record(plan: Plan, toolchain: Toolchain) -> bytes:
    """What objects rest on that neither the folder's path nor Ninja knows.

    The names of all sources: a new header may take the place of another one. The boot: what was written before a
    power failure need not be what is on the disk.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = secrets.token_hex()  # equal to none: then nothing is used again
    values = {"boot": boot, "torch": toolchain.torch.version, "sources": sorted(plan.sources)}
    return json.dumps(values).encode("ascii")


def _copy_sources(work: Work, plan: Plan, source_root: Path) -> None:
    """Copy what is not there yet; it is newer than all that was made from what was there, so Ninja sees every edit."""
    for name, digest in plan.sources.items():
        target = work.path / "src" / name
        if target.is_file() and file_sha256(target) == digest:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source_root / name, target)
        if file_sha256(target) != digest:
            raise BuildError(
                "the sources were edited while they were being built",
                required=f"{name} as it was when the build began",
                found="another content",
                remedies=["build again"],
            )


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _remove_passing(work: Work) -> None:
    for name in PASSING:
        _remove(work.path / name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
