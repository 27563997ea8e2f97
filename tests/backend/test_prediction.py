"""What `doctor` says of the next call is what the next call does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from kept import fill
from kernelwheel.compiler.tools import INSTALL_TOOLS
from kernelwheel.runtime.errors import REINSTALL
from kernelwheel.runtime.store import Store
from patched_compiler import patched_compiler
from processes import RunPython
from samples import rewrite_manifest

pytestmark = pytest.mark.once

BACKEND = Path(__file__).parents[2] / "backend"
# What it predicts for CPU kernels, then what happens; a compile ends as soon as it starts.
ASK = """
import json, os, sys
from pathlib import Path
from kernelwheel.cli import doctor
from kernelwheel.runtime import Kernels, compiler_process
from kernelwheel.runtime.errors import KernelWheelError
compiler_process.program = lambda: Path(sys.argv[2])
kernels = Kernels("tiny", "1.2.3", Path(sys.argv[1]))
(expected,) = [each for each in doctor.examine(kernels, os.environ, sys.path)["next"] if each["device"] == "cpu"]
try:
    kernels.require("cpu")
    happened, error = "load", ""
except KernelWheelError as refused:
    happened, error = "compile" if refused.problem == "started" else "fail", str(refused)
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

    def edit(self, path: Path, offset: int = 100) -> None:
        data = bytearray(path.read_bytes())
        data[offset] ^= 1
        path.write_bytes(data)


State = Callable[[Machine], Mapping[str, str]]


def fits(machine: Machine) -> Mapping[str, str]:
    return {}


def nothing(machine: Machine) -> Mapping[str, str]:
    """As in a wheel built from other sources."""
    rewrite_manifest(machine.native, lambda values: values["requires"].update(libc="glibc 9.99"))
    return {}


def no_compiler(machine: Machine) -> Mapping[str, str]:
    return {**nothing(machine), "PATH": str(machine.folder)}


def no_packages(machine: Machine) -> Mapping[str, str]:
    return {**nothing(machine), "WITHOUT": "elftools"}


def never(machine: Machine) -> Mapping[str, str]:
    return {**nothing(machine), "TINY_JIT": "never"}


def never_and_entry(machine: Machine) -> Mapping[str, str]:
    return {**entry_fits(machine), "TINY_JIT": "never"}


def bad_setting(machine: Machine) -> Mapping[str, str]:
    return {**nothing(machine), "TINY_JIT": "sometimes"}


def always(machine: Machine) -> Mapping[str, str]:
    return {"TINY_JIT": "always"}


def no_sources(machine: Machine) -> Mapping[str, str]:
    shutil.rmtree(machine.native / "src")
    return nothing(machine)


def other_version(machine: Machine) -> Mapping[str, str]:
    rewrite_manifest(machine.native, lambda values: values["plan"]["content"].update(version="1.2.2"))
    return {}


def damaged_manifest(machine: Machine) -> Mapping[str, str]:
    (machine.native / "manifest.json").write_text("{")
    return {}


def damaged_library(machine: Machine) -> Mapping[str, str]:
    machine.edit(machine.native / "libtiny_cpu.so")
    return {}


def unsafe(machine: Machine) -> Mapping[str, str]:
    entry_fits(machine)
    machine.store.root.chmod(0o777)
    return {}


def unsafe_and_wheel(machine: Machine) -> Mapping[str, str]:
    fill(machine.store, machine.entry)
    machine.store.root.chmod(0o777)
    return {}


def entry_fits(machine: Machine) -> Mapping[str, str]:
    fill(machine.store, machine.entry)
    return nothing(machine)


def damaged_entry(machine: Machine) -> Mapping[str, str]:
    entry_fits(machine)
    machine.edit(machine.store.root / machine.entry.name / "libtiny_cpu.so")
    return {}


def damaged_entry_of_others(machine: Machine) -> Mapping[str, str]:
    damaged_entry(machine)
    return {"TINY_CACHE_PATH": str(machine.store.folder), "TINY_CACHE_DIR": str(machine.folder / "own")}


# What a call on the CPU does, and part of the reason
STATES: dict[State, tuple[str, str]] = {
    fits: ("load", "the kernels in the wheel fit"),
    nothing: ("compile", "libc: required glibc 9.99"),
    no_compiler: ("fail", "compiling would fail: no C++ compiler"),
    no_packages: ("fail", "compiling would fail: the kernels cannot be compiled here (found: pyelftools missing)"),
    never: ("fail", "jit is never (environment variable TINY_JIT)"),
    never_and_entry: ("load", "the kernels in the store fit"),
    bad_setting: ("fail", "option 'jit' cannot be 'sometimes'"),
    always: ("compile", "jit is always (environment variable TINY_JIT)"),
    no_sources: ("fail", "no sources are installed to compile from"),
    other_version: ("fail", "compiling would not fix that"),
    damaged_manifest: ("fail", "the compiled kernels are damaged"),
    damaged_library: ("fail", "the compiled kernels are damaged"),
    unsafe: ("fail", "the store of compiled kernels is not safe"),
    unsafe_and_wheel: ("load", "the kernels in the wheel fit"),
    entry_fits: ("load", "the kernels in the store fit"),
    damaged_entry: ("compile", "libc: required glibc 9.99"),
    damaged_entry_of_others: ("fail", "the compiled kernels are damaged"),
}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_call_does_what_doctor_predicts(
    state: State, entry: Path, tiny_checkout: Path, tmp_path: Path, run_with_torch: RunPython
) -> None:
    machine = Machine(tmp_path, entry)
    shutil.copytree(entry, machine.native)
    shutil.copytree(tiny_checkout / "native", machine.native / "src")
    environ = {"TINY_CACHE_DIR": str(machine.store.folder), **state(machine)}
    outcome, because = STATES[state]

    done = run_with_torch(ASK, machine.native, patched_compiler(tmp_path, REFUSE), path=[BACKEND], env=environ)
    expected, happened, loaded, error = json.loads(done.stdout)

    assert (expected["outcome"], happened) == (outcome, outcome), error
    assert because in expected["because"]
    assert expected["artifact"] == loaded
    if state is no_packages:
        assert INSTALL_TOOLS in expected["remedies"]
        assert INSTALL_TOOLS in error
        assert REINSTALL not in error
