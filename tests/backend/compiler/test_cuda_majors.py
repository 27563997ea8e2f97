"""An nvcc of another CUDA major than torch's: who may use it, which one is taken, and what the Artifact then needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kernelwheel.cli.manifest_text import manifest_text
from kernelwheel.compiler.build_or_reuse import create_plan_for
from kernelwheel.compiler.compile_job import CompileJob, read_job
from kernelwheel.compiler.find_toolchain import nvcc_limits, toolchain_for
from kernelwheel.compiler.toolchain.cuda import CudaDecision, decide_cuda, no_nvcc
from kernelwheel.compiler.toolchain.nvcc import LIKE_TORCH, NvccLimits, NvccSearch, inspect_nvcc
from kernelwheel.compiler.toolchain.toolkit import Nvcc
from kernelwheel.compiler.toolchain.torch_files import Torch, read_torch
from kernelwheel.project.extension import is_of_cuda_major
from kernelwheel.project.package import Abi, PackageFacts, split_table
from kernelwheel.runtime.commands.doctor import targets_text
from kernelwheel.runtime.decision.carry_out import compile_request
from kernelwheel.runtime.decision.decision import Request
from kernelwheel.runtime.decision.snapshot import InstalledPackage
from kernelwheel.runtime.errors import BuildError
from kernelwheel.runtime.machine.host import Host
from kernelwheel.runtime.settings import Settings
from samples import CPU_LIBRARY, CUDA_LIBRARY, sample
from standins import (
    GPU_CODES,
    NOWHERE,
    inspect_beside,
    make_cxx,
    make_machine,
    make_toolkit,
    make_torch,
    settings_with,
    sources_of,
)

OPERATORS = NvccLimits(any_major=True)


@pytest.fixture
def cuda_torch(tmp_path: Path) -> Path:
    return make_torch(tmp_path / "site", "2.11.0+cu990", NOWHERE)


def decide(
    torch_root: Path, limits: NvccLimits = OPERATORS, *, path: Path | str = "", named: Mapping[str, str] | None = None
) -> CudaDecision:
    """The decision with no nvcc on PATH except in `path`, and with the variables that name one."""
    seen = {"PATH": str(path), **(named or {})}
    return decide_cuda(NvccSearch(settings_with(seen), read_torch(torch_root), seen, limits=limits))


def taken(torch_root: Path, limits: NvccLimits = OPERATORS, **places: Any) -> Nvcc:
    """The nvcc that is taken."""
    nvcc = decide(torch_root, limits, **places).nvcc
    assert nvcc is not None
    return nvcc


# Which nvcc


@pytest.mark.parametrize("release", ["11.8", "12.8", "13.2"])
@pytest.mark.parametrize("torch_cuda", ["12.4", "13.0"])
def test_operators_take_any_nvcc_and_modules_one_of_torch_s_major(
    tmp_path: Path, release: str, torch_cuda: str
) -> None:
    torch = make_torch(tmp_path / "site", "2.12.0", torch_cuda)
    toolkit = make_toolkit(tmp_path / "toolkit", f"{release}.88", GPU_CODES[release])
    alike = release.split(".")[0] == torch_cuda.split(".")[0]

    for_operators = decide(torch, named={"CUDA_HOME": str(toolkit)})

    assert for_operators.nvcc is not None
    assert for_operators.nvcc.root == toolkit
    needs = f"; with nvcc {release}.88, the kernels need a driver for CUDA {release.split('.')[0]}.0 or later"
    assert for_operators.reason == f"torch 2.12.0 is built for CUDA {torch_cuda}" + ("" if alike else needs)
    outcome = inspect_beside(torch_cuda, toolkit / "bin/nvcc", {}).outcome
    assert (outcome == f"is for CUDA {release}.88, torch is for CUDA {torch_cuda}") is not alike


def test_an_nvcc_of_torch_s_major_goes_before_those_of_others_wherever_they_are(
    tmp_path: Path, cuda_torch: Path
) -> None:
    make_toolkit(cuda_torch.parent / "nvidia/cu12", "12.8.93")
    toolkit = make_toolkit(tmp_path / "toolkit")

    decision = decide(cuda_torch, path=toolkit / "bin")

    assert decision.nvcc is not None
    assert decision.nvcc.root == toolkit
    assert [candidate.outcome for candidate in decision.candidates] == [
        "CUDA 12.8.93, of another major than torch's (99.0)",
        f"CUDA {NOWHERE}.1",
    ]


def test_of_several_nvccs_of_other_majors_the_first_is_taken(tmp_path: Path, cuda_torch: Path) -> None:
    first = make_toolkit(cuda_torch.parent / "nvidia/cu12", "12.8.93")
    toolkit = make_toolkit(tmp_path / "toolkit", "13.2.86")

    assert taken(cuda_torch, path=toolkit / "bin").root == first


@pytest.mark.parametrize(("variable", "place"), [("CUDACXX", "bin/nvcc"), ("CUDA_HOME", "")])
def test_an_nvcc_that_the_user_names_is_taken_whatever_its_major(
    tmp_path: Path, cuda_torch: Path, variable: str, place: str
) -> None:
    beside_torch = make_toolkit(cuda_torch.parent / "nvidia/cu99")
    toolkit = make_toolkit(tmp_path / "toolkit", "12.8.93")
    named = {variable: str(toolkit / place)}

    assert taken(cuda_torch, named=named).root == toolkit
    assert taken(cuda_torch, LIKE_TORCH, named=named).root == beside_torch  # for modules


@pytest.mark.parametrize(("driver", "version"), [((13, 0), "13.2.86"), ((12, 9), "12.8.93")])
def test_an_nvcc_of_another_major_must_be_one_that_the_driver_serves(
    tmp_path: Path, cuda_torch: Path, driver: tuple[int, int], version: str
) -> None:
    make_toolkit(cuda_torch.parent / "nvidia/cu13", "13.2.86")
    toolkit = make_toolkit(tmp_path / "toolkit", "12.8.93")

    decision = decide(cuda_torch, NvccLimits(any_major=True, driver=driver), path=toolkit / "bin")

    assert decision.nvcc is not None
    assert decision.nvcc.version == version
    if driver < (13, 0):
        served = ".".join(map(str, driver))
        assert decision.candidates[0].outcome == f"is for CUDA 13.2.86, the driver is for CUDA {served}"


def test_an_nvcc_of_torch_s_major_is_taken_whatever_the_driver(tmp_path: Path, cuda_torch: Path) -> None:
    """What torch itself cannot use is not for the choice of a compiler to find."""
    toolkit = make_toolkit(tmp_path / "toolkit")

    nvcc = taken(cuda_torch, NvccLimits(any_major=True, driver=(12, 0)), named={"CUDA_HOME": str(toolkit)})

    assert nvcc.root == toolkit


@pytest.mark.parametrize(
    ("torch_cuda", "driver", "required", "first"),
    [
        (
            "12.8", (13, 2), "nvcc from CUDA 12.x, or of another major, which the driver, for CUDA 13.2, serves",
            "pip install 'cuda-toolkit[nvcc,cudart,cccl,crt,nvvm]==13.0.*'; the kernels then need a driver for CUDA 13",
        ),
        (
            "12.8", (12, 9), "nvcc from CUDA 12.x, or of another major, which the driver, for CUDA 12.9, serves",
            "install clang 19 or later (Debian, Ubuntu: apt-get install clang-19), and in torch's environment",
        ),
    ],
)  # fmt: skip
def test_the_error_without_any_nvcc_says_which_majors_would_do(
    torch_cuda: str, driver: tuple[int, int] | None, required: str, first: str
) -> None:
    torch = Torch(Path("torch"), "2.11.0", torch_cuda, None)

    error = no_nvcc(NvccSearch(settings_with(), torch, {}, limits=NvccLimits(any_major=True, driver=driver)), [])

    assert error.problem.endswith("but no usable nvcc was found")
    assert error.required == required
    assert first in error.remedies[0]
    assert "cuda=off" in error.remedies[-1]


# A compile at run time


HOST = Host("linux-x86_64", "glibc 2.99", "GLIBCXX_3.4.99", "2.10.0+cu128", "12.8", "cp312", (13, 0), ((9, 0),))


@pytest.fixture
def earlier_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a torch for CUDA 12.8 and the nvcc of 13.2 alone; returns a folder with sources."""
    machine = make_machine(tmp_path / "machine")
    torch = read_torch(make_torch(tmp_path / "site", "2.10.0+cu128", "12.8"))
    monkeypatch.setattr("kernelwheel.compiler.find_toolchain.find_torch", lambda: torch)
    monkeypatch.setenv("CUDA_HOME", str(make_toolkit(tmp_path / "toolkit", "13.2.86", GPU_CODES["13.2"])))
    monkeypatch.setenv("CXX", str(make_cxx(tmp_path / "c++")))
    return machine.sources


@pytest.mark.parametrize(
    ("oldest", "torch_cuda", "taken"),
    [("12.4", "13.0", "12.4.131"), ("13.0", "13.0", "13.2.86"), ("", "13.0", "13.2.86"), ("12.0", "12.8", "12.4.131")],
)  # fmt: skip
def test_the_oldest_driver_that_a_wheel_must_serve_chooses_the_nvcc(
    tmp_path: Path, oldest: str, torch_cuda: str, taken: str
) -> None:
    """Whatever torch is for; the newer one comes first on PATH."""
    limits = limits_of(settings_with(drivers=oldest))
    torch = make_torch(tmp_path / "site", "2.11.0", torch_cuda)
    for name, version in (("new", "13.2.86"), ("old", "12.4.131")):
        make_toolkit(tmp_path / name, version, GPU_CODES[version.rpartition(".")[0]])
    places = [("PATH", str(tmp_path / name / "bin/nvcc")) for name in ("new", "old")]
    search = NvccSearch(settings_with(), read_torch(torch), os.environ, limits=limits)
    nvccs = [inspect_nvcc(*place, search) for place in places]

    decision = decide_cuda(search, nvccs)

    assert decision.nvcc is not None
    assert decision.nvcc.version == taken


def limits_of(chosen: Settings) -> NvccLimits:
    """The limits of a wheel's build of operators with these settings."""
    return nvcc_limits(
        CompileJob(PackageFacts("tiny", "native", "2.10", "stable").content("1.2.3", {}, {}), Path(), chosen, None)
    )


def test_without_an_nvcc_for_old_drivers_the_error_says_which_would_do(cuda_torch: Path, tmp_path: Path) -> None:
    toolkit = make_toolkit(tmp_path / "toolkit", "13.2.86", GPU_CODES["13.2"])
    with pytest.raises(BuildError, match=r"no usable nvcc for drivers from CUDA 12\.0 on") as caught:
        decide(cuda_torch, limits_of(settings_with(drivers="12.0")), path=toolkit / "bin")

    assert caught.value.required == "nvcc from CUDA 12.x, because drivers is 12.0"
    assert "is for CUDA 13.2.86, the kernels must run on drivers for CUDA 12.0" in caught.value.found
    assert "clang 19" in caught.value.remedies[0]
    assert "CUDA 12.x toolkit" in caught.value.remedies[1]
    assert "cuda-version=12.*" in caught.value.remedies[3]


def test_a_compile_at_run_time_serves_this_machine_s_driver_alone(earlier_cuda: Path) -> None:
    assert draw_here(earlier_cuda, HOST, TINY_DRIVERS="12.0") == "13.2.86"


def draw_here(folder: Path, host: Host, abi: Abi = "stable", **environ: str) -> str:
    """The release of CUDA that a compile at run time would use."""
    package = InstalledPackage("tiny", "1.2.3", folder.parent / "none", {})
    package.source = sources_of(PackageFacts("tiny", "native", "2.10", abi), folder)
    request = compile_request(package.read(host), Request("cuda"), settings_with({**os.environ, **environ}))
    job = read_job(request.to_json(), {**os.environ, **environ})
    plan = create_plan_for(job, toolchain_for(job, os.environ)).plan
    assert plan.cuda is not None
    assert [*map(str, plan.cuda.archs.sass)] == ["9.0"]
    return plan.cuda.toolkit["version"]


def test_an_nvcc_that_the_driver_does_not_serve_is_refused_before_anything_is_compiled(earlier_cuda: Path) -> None:
    with pytest.raises(BuildError, match="no usable nvcc was found") as caught:
        draw_here(earlier_cuda, HOST._replace(driver=(12, 9)))

    line = next(line for line in caught.value.found.splitlines() if line.startswith("environment variable CUDA_HOME"))
    assert line.endswith("is for CUDA 13.2.86, the driver is for CUDA 12.9")
    assert "clang 19" in caught.value.remedies[0]
    assert "CUDA 12.8 toolkit" in caught.value.remedies[1]


def test_modules_are_not_compiled_by_an_nvcc_of_another_major(earlier_cuda: Path) -> None:
    with pytest.raises(BuildError, match="no usable nvcc for CUDA 12 was found"):
        draw_here(earlier_cuda, HOST, abi="torch")


# What binds


@pytest.mark.parametrize(
    ("library", "binds"),
    [
        ("cublas", True), ("libcublas.so.13", True), ("cublasLt", True), ("libcudart.so.12", True), ("nvrtc", True),
        ("nvJitLink", True), ("libnvJitLink.so.13", True), ("libcusparse.so.12", True), ("nccl", True),
        ("libcuda.so.1", False), ("cuda", False), ("libnvidia-ml.so.1", False), ("cudart_static", False),
        ("libtorch_cuda.so", False), ("libcurl.so.4", False), ("z", False), ("libc.so.6", False),
    ],
)  # fmt: skip
def test_libraries_of_one_cuda_major_are_known_by_name(library: str, binds: bool) -> None:
    assert is_of_cuda_major(library) is binds


@pytest.mark.parametrize(
    ("kind", "cuda", "libraries", "binds"),
    [
        ("operators", "required", [], False), ("operators", "required", ["z"], False),
        ("operators", "required", ["cublas"], True), ("operators", "none", ["cublas"], False),
        ("torch-library", "required", [], True), ("module", "required", [], True),
    ],
)  # fmt: skip
def test_which_packages_need_an_nvcc_of_torch_s_major(kind: str, cuda: str, libraries: list[str], binds: bool) -> None:
    table = {"name": "tiny._C", "sources": ["a.cpp"], "kind": kind, "cuda": cuda, "libraries": libraries}

    facts, _ = split_table({"extension": [table]})

    assert facts.binds_cuda is binds


def test_reports_say_the_driver_and_which_torch() -> None:
    operators = sample(CPU_LIBRARY, CUDA_LIBRARY)
    bound = operators._replace(requires=operators.requires._replace(cuda=13))

    assert "for CUDA: torch with any CUDA, driver 13.0 (PTX: 13.2)" in manifest_text(operators)
    assert "for CUDA: torch with CUDA 13, driver 13.0 (PTX: 13.2)" in manifest_text(bound)
    assert "for CUDA" not in manifest_text(sample(CPU_LIBRARY))
    assert targets_text(operators) == "CPU; CUDA 13.0: SASS 9.0 12.0f, PTX 12.0f"
    assert targets_text(sample(CPU_LIBRARY)) == "CPU"
