"""What the system refuses once (a descriptor, a read) is no damage: it is said, nothing is put away or compiled for it,
and the next call loads what the first one would have.

Between a program and libc stands a library that lets the n-th opening or looking at a file fail, for each n.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import BACKEND
from kept import fill
from kernelwheel.runtime.store.store import Store
from processes import RunPython

# One process for each fault, made by fork: torch is imported once.
SWEEP = """
import ctypes, json, os, sys
from pathlib import Path
import torch
from kernelwheel.runtime.errors import KernelWheelError
from kernelwheel.runtime import Kernels
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
native, error, looks, folder = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].encode()

def attempt(act):
    try:
        act()
    except KernelWheelError as refusal:
        return [type(refusal).__name__, str(refusal)]
    except BaseException as raw:
        import traceback
        return ["raw", traceback.format_exc()]

def calls(nth, lasting):
    kernels = []
    def make():
        kernels.append(Kernels("tiny", "1.2.3", native))
        kernels[0].load_if_usable()
    shim.fault(nth, error, lasting, looks, folder)
    said = [attempt(make), attempt(lambda: kernels[0].require("cpu")), attempt(lambda: kernels[0].info())]
    fired = shim.faults()
    shim.fault(0, 0, 0, 0, b"")
    after = attempt(lambda: kernels[0].require("cpu"))
    loaded = kernels[0].info()["loaded"].get("cpu") if kernels else None
    return {"nth": nth, "lasting": lasting, "fired": fired, "said": said, "after": after, "loaded": loaded}

def in_a_child(nth, lasting):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, json.dumps(calls(nth, lasting)).encode())
        os._exit(0)
    os.close(writer)
    text = b""
    while block := os.read(reader, 65536):
        text += block
    os.close(reader)
    os.waitpid(child, 0)
    return json.loads(text)

for lasting in (0, 1):
    nth = 1
    while (done := in_a_child(nth, lasting))["fired"]:
        print(json.dumps(done))
        nth += 1
"""


def wheel_and_store(folder: Path, entry: Path, checkout: Path) -> tuple[Path, Path, dict[str, str]]:
    """A wheel that fits, and the same kernels in the store, which nobody is to take instead."""
    native = folder / "site" / "tiny" / "_native"
    shutil.copytree(entry, native)
    fill(Store(folder / "cache", "tiny", "1.2.3"), entry)
    return native, native, {}


def store_alone(folder: Path, entry: Path, checkout: Path) -> tuple[Path, Path, dict[str, str]]:
    """A wheel that is not to be used, and kernels in the store."""
    native, _, _ = wheel_and_store(folder, entry, checkout)
    return native, folder / "cache" / "tiny" / "1.2.3" / entry.name, {"TINY_JIT": "always"}


def editable(folder: Path, entry: Path, checkout: Path) -> tuple[Path, Path, dict[str, str]]:
    """An editable install, and kernels of its sources in the store."""
    shutil.copytree(checkout, folder / "site", ignore=shutil.ignore_patterns("backend"))
    made = fill(Store(folder / "cache", "tiny", "1.2.3"), entry)
    return folder / "site" / "tiny" / "_native", made.folder, {}


Layout = Callable[[Path, Path, Path], tuple[Path, Path, dict[str, str]]]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.mark.parametrize(
    "layout", [wheel_and_store, *(pytest.param(each, marks=pytest.mark.minutes) for each in (store_alone, editable))]
)
@pytest.mark.parametrize(("number", "looks"), [(errno.EMFILE, False), (errno.EIO, True)], ids=["EMFILE", "EIO"])
def test_whatever_is_refused_for_a_while_is_said_and_then_forgotten(
    layout: Layout,
    number: int,
    looks: bool,
    shim: Path,
    entry: Path,
    tiny_checkout: Path,
    tmp_path: Path,
    run_python: RunPython,
) -> None:
    """Too many open files are met anywhere; a disk that does not answer, at the package's files and the store's."""
    native, expected, environ = layout(tmp_path, entry, tiny_checkout)
    environ |= {"LD_PRELOAD": str(shim), "TINY_CACHE_DIR": str(tmp_path / "cache")}
    before = files(tmp_path)

    done = run_python(
        SWEEP, native, str(number), str(int(looks)), tmp_path if looks else "", path=[BACKEND], env=environ
    )

    outcomes: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert any(said for each in outcomes for said in each["said"]), "no fault was ever met"
    bad = [each for each in outcomes if not is_good(each, str(expected), number)]
    assert not bad, f"{len(bad)} of {len(outcomes)}:\n" + "\n".join(map(shown, bad[:3]))
    assert files(tmp_path) == before
    assert done.stderr == ""


def is_good(outcome: dict[str, Any], expected: str, number: int) -> bool:
    """Making kernels raised nothing, a call raised what happened or nothing, and the next call loads."""
    import_, call, info = outcome["said"]
    honest = all(said is None or (said[0] != "raw" and os.strerror(number) in said[1]) for said in (call, info))
    return import_ is None and honest and outcome["after"] is None and outcome["loaded"] == expected


def shown(outcome: dict[str, Any]) -> str:
    said = "\n".join(f"{said[0]}: {said[1]}" for said in (*outcome["said"], outcome["after"]) if said)
    return f"fault {outcome['nth']}{' and all after' * outcome['lasting']}, loaded {outcome['loaded']}:\n{said}"


VERIFY = """
import ctypes, os, sys
from pathlib import Path
from kernelwheel.store import verification
from kernelwheel.runtime.store.store import Store
shim, store, nth = ctypes.CDLL(os.environ["LD_PRELOAD"]), Store(Path(sys.argv[1]), "tiny", "1.2.3"), 1
verification.verify_entries(store)
while True:
    shim.fault(nth, int(sys.argv[2]), 0, 1, sys.argv[1].encode())
    seen, damaged = verification.verify_entries(store)
    if not shim.faults():
        break
    shim.fault(0, 0, 0, 0, b"")
    said = "; ".join([*(each.damage for each in damaged), *(error.found for error in seen.refused)])
    print(nth, [each.moved for each in damaged if each.moved], said)
    nth += 1
"""


def test_verify_puts_no_entry_away_that_cannot_be_read_now(
    shim: Path, entry: Path, tmp_path: Path, run_python: RunPython
) -> None:
    fill(Store(tmp_path / "cache", "tiny", "1.2.3"), entry)
    before = files(tmp_path)

    done = run_python(
        VERIFY, tmp_path / "cache", str(errno.EIO), path=[BACKEND], env={"LD_PRELOAD": str(shim)}, check=False
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > 10
    assert [line for line in lines if " [] " not in line] == []
    assert sum("Input/output error" in line for line in lines) > 10, done.stdout
    assert files(tmp_path) == before
