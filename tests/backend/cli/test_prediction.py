"""What `doctor` says of the next call is what the next call does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from folders import BACKEND
from kept import fill
from kernelwheel.compiler.tools import INSTALL_TOOLS
from kernelwheel.runtime.errors import REINSTALL
from kernelwheel.runtime.store.store import Store
from patched_compiler import patched_compiler
from processes import RunPython
from samples import flip, rewrite_manifest

# What it predicts for CPU kernels, then what happens; a compile ends as soon as it starts.
ASK = """
import json, os, sys
from pathlib import Path
from kernelwheel.cli import doctor
from kernelwheel.runtime import Kernels
from kernelwheel.runtime import compiler_process
from kernelwheel.runtime.errors import KernelWheelError
compiler_process.program = lambda: Path(sys.argv[2])
kernels = Kernels("tiny", "1.2.3", Path(sys.argv[1]))
(expected,) = [each for each in doctor.examine(kernels, os.environ, sys.path)["next"] if each["device"] == "cpu"]
try:
    kernels.require("cpu")
    happened, error = "load", ""
except KernelWheelError as refused:
    happened, error = "compile" if refused.problem.endswith("started") else "fail", str(refused)
print(json.dumps([expected, happened, kernels.info()["loaded"].get("cpu"), error]))
"""
# In the compiler
REFUSE = """
import os
from kernelwheel.runtime.errors import BuildError
if "WITHOUT" in os.environ:
    sys.modules[os.environ["WITHOUT"]] = None
else:
    from kernelwheel.compiler import build_or_reuse
    def refuse(*_, **__):
        raise BuildError("started", required="", found="", remedies=[])
    build_or_reuse.compile_plan = refuse
"""


@dataclass(frozen=True)
class Machine:
    """A user with tiny installed as a wheel with CPU kernels, and a store."""

    folder: Path
    entry: Path

    @property
    def native(self) -> Path:
        return self.folder / "site" / "tiny" / "_native"

    @property
    def store(self) -> Store:
        return Store(self.folder / "cache", "tiny", "1.2.3")


# What is done to the machine


def other_libc(machine: Machine) -> None:
    """So that the wheel does not fit."""
    rewrite_manifest(machine.native, lambda values: values["requires"].update(libc="glibc 9.99"))


def fill_store(machine: Machine) -> None:
    fill(machine.store, machine.entry)


def damage_entry(machine: Machine) -> None:
    flip(machine.store.root / machine.entry.name / "libtiny_cpu.so")


Step = Callable[[Machine], object]
NOWHERE = {"PATH": "/nowhere"}
NEVER, ALWAYS = ({"TINY_JIT": value} for value in ("never", "always"))
# What is done, further variables, what a call on the CPU does, and part of the reason: one for each way to an outcome;
# runtime/test_decision.py has all reasons.
STATES: dict[str, tuple[list[Step], dict[str, str], str, str]] = {
    "no compiler": ([other_libc], NOWHERE, "fail", "compiling would fail: no C++ compiler"),
    "no packages": (
        [other_libc], {"WITHOUT": "elftools"}, "fail",
        "compiling would fail: the kernels cannot be compiled here (found: pyelftools missing)",
    ),
    "never, and an entry": ([other_libc, fill_store], NEVER, "load", "the kernels in the store fit"),
    "always": ([], ALWAYS, "compile", "jit is always (environment variable TINY_JIT)"),
    "a damaged library": (
        [lambda machine: flip(machine.native / "libtiny_cpu.so")], {}, "fail",
        "the compiled kernels are damaged",
    ),
    "a damaged entry": ([other_libc, fill_store, damage_entry], {}, "compile", "libc: required glibc 9.99"),
    "a damaged entry of others": (
        [other_libc, fill_store, damage_entry], {"TINY_CACHE_PATH": "{cache}", "TINY_CACHE_DIR": "{cache}/own"},
        "fail", "the compiled kernels are damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_a_call_does_what_doctor_predicts(
    state: str, entry: Path, tiny_checkout: Path, tmp_path: Path, run_with_torch: RunPython
) -> None:
    machine = Machine(tmp_path, entry)
    shutil.copytree(entry, machine.native)
    shutil.copytree(tiny_checkout / "native", machine.native / "src")
    steps, variables, outcome, because = STATES[state]
    for step in steps:
        step(machine)
    cache = str(machine.store.folder)
    environ = {name: value.format(cache=cache) for name, value in {"TINY_CACHE_DIR": cache, **variables}.items()}

    done = run_with_torch(ASK, machine.native, patched_compiler(tmp_path, REFUSE), path=[BACKEND], env=environ)
    expected, happened, loaded, error = json.loads(done.stdout)

    assert (expected["outcome"], happened) == (outcome, outcome), error
    assert because in expected["because"]
    assert expected["artifact"] == loaded
    if state == "no packages":
        assert INSTALL_TOOLS in expected["remedies"]
        assert INSTALL_TOOLS in error
        assert REINSTALL not in error
