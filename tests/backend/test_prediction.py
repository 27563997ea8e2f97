"""`doctor` and `cache explain` make the same predictions, and a call and `cache build` fulfil them."""

from __future__ import annotations

import json
import os
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
# What each of them predicts for CPU kernels, then what happens; a compile ends as soon as it starts.
ASK = """
import argparse, contextlib, io, json, os, sys
from pathlib import Path
from kernelwheel.runtime import compiler_process
from kernelwheel.cli import cache_build, cache_commands, doctor
from kernelwheel.runtime import Kernels
compiler_process.program = lambda: Path(sys.argv[2])
explain = cache_commands.COMMANDS["explain"]
parser = argparse.ArgumentParser()
explain.declare(parser)
view = doctor.examine(Kernels("tiny", "1.2.3", Path(sys.argv[1])), os.environ, sys.path)
page = doctor.page(view, Kernels("tiny", "1.2.3", Path(sys.argv[1])))

def cache(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        kernels = Kernels("tiny", "1.2.3", Path(sys.argv[1]))
        status = explain.run(parser.parse_args(words), kernels)
    return out.getvalue() or err.getvalue()

def outcome(act):
    from kernelwheel.runtime.errors import KernelWheelError
    try:
        act(Kernels("tiny", "1.2.3", Path(sys.argv[1])))
    except KernelWheelError as error:
        return "compile" if error.problem == "started" else "fail", str(error)
    return "load", ""

def build(kernels):
    if kernels.host.cuda:
        kernels.probe_gpus()
    cuda = cache_build.wants_cuda(kernels.installed, kernels.host)
    return cache_build.build(kernels.installed, kernels.host, cuda, "", lambda line: None)

explained = json.loads(cache("--json"))
cpu = json.loads(cache("--json", "--cuda", "off"))
print(json.dumps({
    "doctor": view, "page": page, "explain": explained, "text": cache(), "cpu": cpu,
    "build": outcome(build), "call": outcome(lambda kernels: kernels.require("cpu")),
}))
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
def test_doctor_and_explain_predict_what_happens(
    state: State, entry: Path, tiny_checkout: Path, tmp_path: Path, run_with_torch: RunPython
) -> None:
    """For CPU kernels, and for the default of `cache build`: with CUDA kernels if torch has CUDA."""
    machine = Machine(tmp_path, entry)
    shutil.copytree(entry, machine.native)
    shutil.copytree(tiny_checkout / "native", machine.native / "src")
    environ = {"TINY_CACHE_DIR": str(machine.store.folder)}
    outcome, because = STATES[state]

    done = run_with_torch(
        ASK, machine.native, patched_compiler(tmp_path, REFUSE), path=[BACKEND], env={**environ, **state(machine)}
    )
    said = json.loads(done.stdout)
    doctor, explain = said["doctor"], said["explain"]

    call = next(each for each in doctor["next"] if each["device"] == "cpu")
    assert (call["outcome"], said["call"][0]) == (outcome, outcome), said["call"]
    assert because in call["because"]
    assert said["cpu"]["next"] == [call]
    assert explain["next"] == [each for each in doctor["next"] if each["device"] == explain["device"]]
    assert explain["build"] == doctor["build"]
    assert doctor["build"]["outcome"] == said["build"][0], f"{doctor['build']}\n{said['build'][1]}"
    for row in (line for line in said["text"].splitlines() if line.startswith("  cache build  ")):
        assert row in said["page"]
    assert "  cache build  " in said["text"]


def test_what_helps_a_machine_without_tools_names_them_and_not_the_package(
    entry: Path, tiny_checkout: Path, tmp_path: Path, run_with_torch: RunPython
) -> None:
    machine = Machine(tmp_path, entry)
    shutil.copytree(entry, machine.native)
    shutil.copytree(tiny_checkout / "native", machine.native / "src")

    environ = {"TINY_CACHE_DIR": str(machine.store.folder), "TINY_CUDA": "off", **no_packages(machine)}
    said = json.loads(
        run_with_torch(ASK, machine.native, patched_compiler(tmp_path, REFUSE), path=[BACKEND], env=environ).stdout
    )

    assert INSTALL_TOOLS in said["doctor"]["next"][0]["remedies"]
    assert INSTALL_TOOLS in said["call"][1]
    assert REINSTALL not in said["call"][1]
    assert os.linesep not in INSTALL_TOOLS
