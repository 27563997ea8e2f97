"""Symbols that nothing defines: a library that no process could load is no Artifact."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from builds import TORCH
from kernelwheel.compiler.missing_symbols import refuse_missing_symbols
from kernelwheel.compiler.plan import Plan
from kernelwheel.compiler.toolchain.binding import Binding
from kernelwheel.compiler.toolchain.cxx import inspect_cxx
from kernelwheel.compiler.toolchain.toolchain import Toolchain
from kernelwheel.runtime.errors import BuildError
from standins import Machine, make_machine, settings_with

pytestmark = pytest.mark.slow

# Bound to what, if not to the stable ABI alone.
MODULE, OPERATORS = Binding("cp311", TORCH.version), Binding(None, TORCH.version)
NOWHERE = "int _ZN2ns7nowhereEf(float); int f(void) { return _ZN2ns7nowhereEf(1); }"

OF_OPENMP = "int omp_get_num_threads(void); int f(void) { return omp_get_num_threads(); }"


def compile_c(text: str, to: Path, *options: str | Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-x", "c", "-fPIC", "-w", "-", "-o", to, "-x", "none", *options]
    subprocess.run(command, input=text.encode(), check=True)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path / "machine")


@pytest.fixture
def tools(machine: Machine) -> Toolchain:
    """With this machine's own compiler and torch."""
    cxx = inspect_cxx("/usr/bin/c++")
    assert not isinstance(cxx, str)
    standin = machine.toolchain(settings_with({"CXX": str(machine.cxx)}, cuda="off"))
    return replace(standin, torch=TORCH, cxx=replace(cxx, environ={"PATH": os.environ["PATH"]}))


@pytest.fixture
def plan(machine: Machine) -> Plan:
    return machine.draw(cuda="off")


@pytest.mark.parametrize(
    ("text", "linked", "binding", "missing"),
    [
        (NOWHERE, [], None, "ns::nowhere(float)"),
        ("__attribute__((weak)) int maybe(void); int f(void) { return maybe ? maybe() : 0; }", [], None, None),
        ("int PyLong_New(void); int f(void) { return PyLong_New(); }", [], MODULE, None),
        ("int PyLong_New(void); int f(void) { return PyLong_New(); }", [], OPERATORS, "PyLong_New"),
        # torch's libraries need it, and what is bound to them has it through them.
        (OF_OPENMP, ["torch_cpu"], MODULE, None),
        (OF_OPENMP, ["torch_cpu"], None, "omp_get"),
        ("double cos(double); double f(double x) { return cos(x); }", ["m"], None, None),
        ("int cuInit(int); int f(void) { return cuInit(0); }", ["cuda"], None, None),
        ("int cudaFree(int); int f(void) { return cudaFree(0); }", ["cuda"], None, "cudaFree"),
    ],
)  # fmt: skip
def test_a_symbol_is_one_of_the_libraries_that_are_needed_or_refused(
    tmp_path: Path,
    plan: Plan,
    tools: Toolchain,
    text: str,
    linked: list[str],
    binding: Binding | None,
    missing: str | None,
) -> None:
    work, driver = tmp_path / "work", tmp_path / "driver"
    compile_c("", driver / "libcuda.so", "-shared", "-Wl,-soname,libcuda.so.1")
    compile_c(text, work / "build/CMakeFiles/x.dir/csrc/x.c.o", "-c")
    folders = [f"-L{driver}", f"-L{TORCH.root / 'lib'}", "-Wl,--no-as-needed"]
    compile_c(text, work / "out/x.so", "-shared", *folders, *(f"-l{each}" for each in linked))
    said: list[str] = []
    bound = replace(plan, binding=binding)

    if missing is None:
        refuse_missing_symbols(bound, tools, work, said.append)
    else:
        with pytest.raises(BuildError) as caught:
            refuse_missing_symbols(bound, tools, work, said.append)
        assert caught.value.found.startswith(f"x.so: {missing}")
        assert caught.value.found.endswith(", used by csrc/x.c")
    assert said == []


def test_what_a_library_that_is_not_here_may_have_is_not_refused_but_said(
    tmp_path: Path, plan: Plan, tools: Toolchain
) -> None:
    work = tmp_path / "work"
    compile_c("", tmp_path / "gone/libgone.so", "-shared")
    compile_c(NOWHERE, work / "out/x.so", "-shared", "-Wl,--no-as-needed", tmp_path / "gone/libgone.so")
    (tmp_path / "gone/libgone.so").unlink()
    said: list[str] = []

    refuse_missing_symbols(plan, tools, work, said.append)

    assert "libgone.so" in said[0]
    compile_c("", work / "build/libgone.so", "-shared")
    with pytest.raises(BuildError, match=r"x\.so needs \S*libgone\.so, which this build made and no wheel has"):
        refuse_missing_symbols(plan, tools, work, said.append)


def test_device_code_that_nothing_links_has_a_remedy_of_its_own(tmp_path: Path, plan: Plan, tools: Toolchain) -> None:
    name = "__cudaRegisterLinkedBinary_9d9a9c52_4_a_cu"
    compile_c(f"void {name}(void); void f(void) {{ {name}(); }}", tmp_path / "work/out/x.so", "-shared")

    with pytest.raises(BuildError) as caught:
        refuse_missing_symbols(plan, tools, tmp_path / "work", print)

    assert "CUDA_SEPARABLE_COMPILATION" in caught.value.remedies[0]
