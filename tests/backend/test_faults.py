"""A machine on which something fails for a while: disks, network mounts, quotas, limits, paths that are too long.

What fails is said by an error of ours; nothing whole is put away, nothing half is left, and the next try succeeds.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from editables import REQUIRE, Editable
from kernelwheel.store.publishing import intact_entry

# The first try meets the fault, the second one comes when it is over.
TWICE = """
import os, tiny
from tiny._kernelwheel.errors import KernelWheelError
try:
    tiny.KERNELS.require("cpu")
    print("no error")
except KernelWheelError as error:
    print(type(error).__name__, str(error).replace("\\n", " "))
os.unlink(os.environ["FAULT_FILE"])
tiny.KERNELS.require("cpu")
print(tiny.KERNELS.info()["loaded"]["cpu"])
"""


@dataclass(frozen=True)
class Fault:
    """A call that fails for files whose path has a part, with an error, for as long as the test wants."""

    shim: Path
    folder: Path
    call: str
    part: str
    code: int

    @property
    def file(self) -> Path:
        return self.folder / "fault"

    def environment(self) -> dict[str, str]:
        self.file.touch()
        return {
            "LD_PRELOAD": str(self.shim),
            "FAULT_CALL": self.call,
            "FAULT_PATH": self.part,
            "FAULT_ERRNO": str(self.code),
            "FAULT_FILE": str(self.file),
        }


def test_a_disk_that_does_not_answer_is_said_and_nothing_is_put_away(compiled: Editable, shim: Path) -> None:
    """runtime/test_passing_faults.py has what cannot be opened."""
    fault = Fault(shim, compiled.folder, "read", "/libtiny_cpu.so", errno.EIO)
    before = sorted(path.name for path in compiled.store.root.rglob("*"))
    done = compiled.python(TWICE, **fault.environment())

    first, second = done.stdout.splitlines()
    assert first.startswith(("UnreadableStoreError", "UnreadableArtifactError"))
    assert os.strerror(errno.EIO) in first
    assert str(compiled.store.root) in second
    assert compiled.compiled() == []
    assert sorted(path.name for path in compiled.store.root.rglob("*")) == before


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("part", "code"),
    [("/.work/", errno.EDQUOT), ("/.build/kernelwheel-", errno.EIO), ("/reusable.json", errno.EIO)],
)
def test_a_disk_that_takes_nothing_more_is_said_and_leaves_nothing_half(
    small: Editable, shim: Path, part: str, code: int
) -> None:
    fault = Fault(shim, small.folder, "write", part, code)
    done = small.python(TWICE, **fault.environment())

    first, second = done.stdout.splitlines()
    if part == "/reusable.json":  # then the next compile begins from nothing, and that is all
        assert first == "no error"
    else:
        assert first.startswith(("StoreError", "BuildError"))
        assert os.strerror(code) in first
    (entry,) = small.store.entries()
    assert second == str(entry.folder)
    assert intact_entry(small.store, entry.folder.name) == entry
    assert list((small.store.root / ".work").iterdir()) == []


@pytest.mark.parametrize("name", ["x" * 300, "/".join(["y" * 250] * 20)], ids=["a name", "a path"])
def test_a_cache_folder_of_too_long_a_name_is_said(small: Editable, name: str) -> None:
    said = small.failure(TINY_CACHE_DIR=str(small.folder / name))

    assert "StoreError: " in said.splitlines()[0]
    assert os.strerror(errno.ENAMETOOLONG) in said
    assert "TINY_CACHE_DIR" in said


@pytest.mark.minutes
def test_a_long_path_that_the_system_takes_is_used_but_not_to_compile_in(small: Editable) -> None:
    cache = small.folder / "/".join(["z" * 200] * 10)
    done = small.python(REQUIRE, TINY_CACHE_DIR=str(cache))

    assert "building in the temporary folder" in done.stderr
    assert done.stdout.startswith(str(cache))
