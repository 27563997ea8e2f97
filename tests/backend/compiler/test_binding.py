"""What a module is bound to, and the headers that it needs: found beside torch, or reported missing by name."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwheel.compiler.headers import header_folders
from kernelwheel.compiler.toolchain import binding
from kernelwheel.compiler.toolchain.binding import CUDA_HEADERS, Binding
from kernelwheel.compiler.toolchain.toolchain import Toolchain
from kernelwheel.runtime.errors import BuildError
from packaging import tags
from standins import Machine, make_machine, settings_with


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path / "machine")


def found(machine: Machine, *, cuda: str = "on", release: str | None = None) -> Toolchain:
    """The machine's Toolchain; with `release`, as if its nvcc were from that CUDA release."""
    chosen = settings_with({"CUDA_HOME": str(machine.toolkit), "CXX": str(machine.cxx)}, cuda=cuda)
    tools = machine.toolchain(chosen)
    if release and tools.cuda.nvcc:
        return replace(tools, cuda=replace(tools.cuda, nvcc=replace(tools.cuda.nvcc, version=f"{release}.1")))
    return tools


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def refusal(tools: Toolchain) -> BuildError:
    with pytest.raises(BuildError) as caught:
        binding.bind(tools, python=True)
    return caught.value


# Python and torch


def test_a_module_is_bound_to_the_running_python_and_the_torch_at_hand(machine: Machine) -> None:
    tag = next(tags.sys_tags())

    assert binding.bind(found(machine, cuda="off"), python=True) == Binding(tag.abi, "2.11.0+cu990")


def test_a_library_without_python_is_bound_to_the_torch_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/no/headers")

    assert binding.bind(found(machine, cuda="off"), python=False) == Binding(None, "2.11.0+cu990")


def test_another_torch_release_gives_another_plan_for_modules_and_the_same_for_operators(
    machine: Machine, tmp_path: Path
) -> None:
    other = make_machine(tmp_path / "other")
    version = other.torch / "version.py"
    version.write_text(version.read_text().replace("2.11.0", "2.11.1"))

    assert other.draw(cuda="off").fingerprint == machine.draw(cuda="off").fingerprint
    assert other.draw(cuda="off", abi="torch").fingerprint != machine.draw(cuda="off", abi="torch").fingerprint


def test_another_python_gives_another_plan_for_modules_and_the_same_for_operators(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stable, bound = machine.draw(cuda="off"), machine.draw(cuda="off", abi="torch")
    monkeypatch.setattr(binding, "python_abi", lambda: "cp399")

    assert machine.draw(cuda="off").fingerprint == stable.fingerprint
    assert machine.draw(cuda="off", abi="torch").fingerprint not in {bound.fingerprint, stable.fingerprint}


def test_python_s_headers_are_found(machine: Machine) -> None:
    folders = binding.python_folders()

    assert any((folder / "Python.h").is_file() for folder in folders)
    assert any((folder / "pyconfig.h").is_file() for folder in folders)


def test_a_python_without_headers_is_an_error_with_the_packages_that_bring_them(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))

    error = refusal(found(machine, cuda="off"))

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"Python.h of Python {version}" in error.required
    assert f"{tmp_path}/include: no Python.h" in error.found
    assert f"python{version}-dev" in error.remedies[0]


def test_a_torch_without_its_python_half_is_an_error(machine: Machine) -> None:
    (machine.torch / "lib/libtorch_python.so").unlink()

    error = refusal(found(machine, cuda="off"))

    assert "libtorch_python.so" in error.required
    assert "--force-reinstall 'torch==2.11.0+cu990'" in error.remedies[0]


# The headers of CUDA's libraries


def cuda_folders(machine: Machine, release: str | None = None) -> list[Path]:
    tools = found(machine, release=release)
    assert tools.cuda.nvcc is not None
    folders = binding.cuda_folders(tools.cuda.nvcc, machine.site)
    return [folder for folder in folders if machine.folder in folder.parents]


def toolkits_own(machine: Machine) -> list[Path]:
    return [machine.toolkit / "include", machine.toolkit / "include/cccl"]


def test_they_are_those_of_a_whole_toolkit(machine: Machine) -> None:
    put(machine.toolkit / "include", *CUDA_HEADERS)

    assert cuda_folders(machine) == toolkits_own(machine)


def test_else_they_are_those_beside_torch_in_one_folder_after_the_toolkit_s_own(machine: Machine) -> None:
    whole = put(machine.site / "nvidia/cu99/include", *CUDA_HEADERS)
    put(machine.site / "nvidia/cu13/include", *CUDA_HEADERS)

    assert cuda_folders(machine) == [*toolkits_own(machine), whole]


def test_a_toolkit_before_cuda_13_has_no_folder_of_cccl(machine: Machine) -> None:
    assert header_folders(machine.draw(), found(machine))["cuda"] == tuple(toolkits_own(machine))

    (machine.toolkit / "include/cccl").rename(machine.toolkit / "cccl")
    put(machine.toolkit / "include/nv", "target")

    assert header_folders(machine.draw(), found(machine))["cuda"] == (machine.toolkit / "include",)


def test_or_in_a_folder_for_each_library(machine: Machine) -> None:
    each = [
        put(machine.site / f"nvidia/{library}/include", *(h for h, of in CUDA_HEADERS.items() if of == library))
        for library in ("cublas", "cusolver", "cusparse")
    ]

    assert cuda_folders(machine) == [*toolkits_own(machine), *each]


@pytest.mark.parametrize(
    ("release", "remedy"),
    [
        ("13.2", "in torch's environment: pip install 'cuda-toolkit[cusparse,cusolver]==13.2.*'"),
        ("12.8", "in torch's environment: pip install nvidia-cusparse-cu12 nvidia-cusolver-cu12"),
    ],
)
def test_where_some_are_nowhere_the_error_says_which_and_what_brings_them(
    machine: Machine, release: str, remedy: str
) -> None:
    put(machine.site / "nvidia/cublas/include", "cublas_v2.h", "cublasLt.h")

    error = refusal(found(machine, release=release))

    assert error.required == f"cusparse.h, cusolverDn.h for CUDA {release.partition('.')[0]}"
    assert str(machine.toolkit / "include") in error.found
    assert str(machine.site / "nvidia/cublas/include") in error.found
    assert error.remedies[0] == remedy


def test_headers_of_another_cuda_are_not_taken(machine: Machine) -> None:
    put(machine.site / "nvidia/cu13/include", *CUDA_HEADERS)

    assert "cusparse.h" in refusal(found(machine)).required
