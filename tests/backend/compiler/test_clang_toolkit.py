"""clang and pip's parts of CUDA 12 are a toolkit like any other: found, checked, identified and chosen as nvcc is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernelwheel.compiler.toolchain.clang_toolkit import OLDEST, PARTS
from kernelwheel.compiler.toolchain.cuda import CudaDecision, decide_cuda, parts_for_clang
from kernelwheel.compiler.toolchain.nvcc import NvccCandidate, NvccLimits, NvccSearch
from kernelwheel.compiler.toolchain.toolkit import Nvcc
from kernelwheel.compiler.toolchain.toolkit_identity import toolkit_identity
from kernelwheel.compiler.toolchain.torch_files import Torch, read_torch
from kernelwheel.project import arch_choice
from kernelwheel.runtime.errors import BuildError, SettingsError
from standins import (
    GPU_CODES,
    inspect_beside,
    make_clang,
    make_cuda12_parts,
    make_program,
    make_toolkit,
    make_torch,
    settings_with,
)

OPERATORS = NvccLimits(any_major=True)
OLD_DRIVERS = NvccLimits(any_major=True, oldest=(12, 0))
CUDA_13 = "13.0"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with a torch for CUDA 13, pip's nvcc 13, and the parts of CUDA 12."""
    make_torch(tmp_path / "site", cuda=CUDA_13)
    make_toolkit(tmp_path / "site/nvidia/cu13", "13.0.88")
    make_program(tmp_path / "site/nvidia/cu13/bin/fatbinary", "echo --compress-mode")
    return make_cuda12_parts(tmp_path / "site")


@pytest.fixture
def clang(tmp_path: Path) -> Path:
    return make_clang(tmp_path / "bin/clang++-19")


def inspect(clang: Path, *sites: Path) -> NvccCandidate:
    return inspect_beside(CUDA_13, clang, os.environ, sites, OPERATORS)


def found(clang: Path, site: Path) -> Nvcc:
    """What stands in nvcc's place."""
    nvcc = inspect(clang, site).nvcc
    assert nvcc is not None
    return nvcc


def decide(torch: Torch, path: Path, limits: NvccLimits = OPERATORS, **options: str) -> CudaDecision:
    return decide_cuda(
        NvccSearch(settings_with(**options), torch, {"PATH": f"{path}:{os.environ['PATH']}"}, [], limits)
    )


# What it is


def test_it_compiles_as_the_release_of_ptxas_and_says_that_it_is_clang(clang: Path, site: Path) -> None:
    nvcc = found(clang, site)

    assert (nvcc.version, nvcc.clang) == ("12.9.86", "19.1.7")
    outcome = inspect(clang, site).outcome
    assert outcome == "clang 19.1.7 with CUDA 12.9.86, of another major than torch's (13.0)"
    assert nvcc.cudart is not None
    for name in ("cuda_runtime.h", "crt/host_config.h", "nv/target", "curand_mtgp32_kernel.h"):
        assert (nvcc.include / name).is_file(), name
    assert (nvcc.root / "nvvm/libdevice/libdevice.10.bc").is_file()
    for name in ("nvcc", "clang++", "ptxas", "fatbinary", "cuobjdump"):
        assert os.access(nvcc.root / "bin" / name, os.X_OK), name


def test_sass_is_for_what_ptxas_knows_and_ptx_for_what_clang_knows(clang: Path, site: Path) -> None:
    nvcc = found(clang, site)

    assert " ".join(f"sm_{str(arch).replace('.', '')}" for arch in nvcc.supported) == GPU_CODES["12.8"]
    assert str(max(nvcc.virtual)) == "9.0"
    assert str(arch_choice.default(nvcc.supported, virtual=nvcc.virtual)) == "7.5;8.0;9.0+PTX;10.0;12.0"


@pytest.mark.parametrize(
    ("archs", "refused", "remedy"),
    [
        ("9.0;12.0+PTX", "12.0 as PTX", 'leave out +PTX of 12.0: TORCH_CUDA_ARCH_LIST="9.0;12.0"'),
        ("9.0;10.0a", "10.0a", 'leave out 10.0a: TORCH_CUDA_ARCH_LIST="9.0"'),
    ],
)
def test_what_neither_makes_is_refused_and_never_left_out(
    clang: Path, site: Path, archs: str, refused: str, remedy: str
) -> None:
    nvcc, wanted = found(clang, site), arch_choice.parse(archs, "a test")

    with pytest.raises(SettingsError) as caught:
        arch_choice.check_supported(wanted, nvcc.supported, nvcc.name, "a test", nvcc.virtual)

    assert caught.value.problem == f"clang 19.1.7 with CUDA 12.9.86 cannot compile for {refused}"
    assert caught.value.found.endswith("; as PTX, up to 9.0")
    assert caught.value.remedies[0] == remedy


# What is missing


@pytest.mark.parametrize(
    ("part", "package"),
    [("cuda_nvcc/bin/ptxas", "nvidia-cuda-nvcc-cu12"), ("cuda_cccl/include/nv/target", "nvidia-cuda-cccl-cu12")],
)
def test_a_part_that_is_missing_is_named_with_the_command_that_brings_it(
    clang: Path, site: Path, part: str, package: str
) -> None:
    (site / "nvidia" / part).unlink()

    candidate = inspect(clang, site)

    assert candidate.nvcc is None
    (requirement,) = (each for each in PARTS if each.startswith(package))
    assert candidate.outcome == (
        f"is clang 19.1.7, but for CUDA 12 it lacks parts that pip has (pip install '{requirement}')"
    )


def test_so_are_fatbinary_and_a_clang_that_is_new_enough(
    clang: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = make_clang(tmp_path / "bin/clang++", f"{OLDEST - 1}.1.8")
    (site / "nvidia/cu13/bin/fatbinary").unlink()
    monkeypatch.setenv("PATH", "/nowhere")

    assert inspect(clang, site).outcome.endswith("(pip install 'cuda-toolkit[nvcc,cuobjdump]')")
    assert inspect(older, site).outcome == f"is clang {OLDEST - 1}.1.8; from {OLDEST} on, clang compiles with CUDA 12"


def test_the_parts_may_be_in_several_folders_of_packages(clang: Path, site: Path, tmp_path: Path) -> None:
    (tmp_path / "overlay/nvidia").mkdir(parents=True)
    (site / "nvidia/cuda_cccl").rename(tmp_path / "overlay/nvidia/cuda_cccl")

    assert inspect(clang, site).nvcc is None
    assert inspect(clang, site, tmp_path / "overlay").nvcc is not None


# Identity


def test_it_is_identified_by_the_content_of_its_parts_wherever_they_are(
    clang: Path, site: Path, tmp_path: Path
) -> None:
    before = toolkit_identity(found(clang, site))
    assert before["clang"] == "19.1.7"
    for changed, part in {
        clang.parent / "resources/include/__clang_cuda_runtime_wrapper.h": "nvcc",
        clang.parent / "clang": "nvcc",
        site / "nvidia/cu13/bin/fatbinary": "nvcc",
        site / "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc": "nvvm",
        site / "nvidia/cuda_runtime/include/cuda_runtime.h": "cudart",
        site / "nvidia/cuda_cccl/include/nv/target": "cccl",
    }.items():
        text = changed.read_text()
        changed.write_text(f"{text}\n# changed\n")
        other = toolkit_identity(found(clang, site))
        assert {name for name in before if before[name] != other[name]} == {part}, changed
        changed.write_text(text)
    elsewhere = make_clang(tmp_path / "elsewhere/clang++")
    site.rename(tmp_path / "other site")
    assert toolkit_identity(found(elsewhere, tmp_path / "other site")) == before


# The choice


def test_it_is_taken_for_drivers_that_nvcc_13_does_not_serve(clang: Path, site: Path) -> None:
    torch = read_torch(site / "torch")

    assert (by_default := decide(torch, clang.parent).nvcc) is not None
    assert by_default.clang == ""
    chosen = decide(torch, clang.parent, OLD_DRIVERS)
    assert chosen.nvcc is not None
    assert chosen.nvcc.clang == "19.1.7"
    assert "with clang 19.1.7 with CUDA 12.9.86, the kernels need a driver for CUDA 12.0 or later" in chosen.reason
    assert any("is for CUDA 13.0.88" in each.outcome for each in chosen.candidates)


def test_at_run_time_it_is_taken_for_a_driver_that_nvcc_13_does_not_serve(
    clang: Path, site: Path, tmp_path: Path
) -> None:
    torch = read_torch(make_torch(tmp_path / "other", cuda="12.8"))
    torch.root.parent.joinpath("nvidia").symlink_to(site / "nvidia")
    limits = NvccLimits(any_major=True, driver=(12, 4))

    chosen = decide(torch, clang.parent, limits).nvcc

    assert chosen is not None
    assert chosen.clang == "19.1.7"
    with pytest.raises(BuildError, match="no usable nvcc") as caught:
        decide(torch, Path("/nowhere"), limits)
    assert "is for CUDA 13.0.88, the driver is for CUDA 12.4" in caught.value.found
    assert f"apt-get install clang-{OLDEST}" in caught.value.remedies[0]


def test_the_default_clang_is_tried_first_and_then_the_newest(tmp_path: Path, site: Path) -> None:
    make_clang(tmp_path / "bin/clang++", "14.0.6")
    make_clang(tmp_path / "bin/clang++-19", "19.1.7")
    make_clang(tmp_path / "more/clang++-21", "21.1.0")
    path = {"PATH": f"{tmp_path / 'bin'}:{tmp_path / 'more'}:/usr/bin:/bin"}

    chosen = decide_cuda(NvccSearch(settings_with(), read_torch(site / "torch"), path, [], OLD_DRIVERS))

    assert chosen.nvcc is not None
    assert chosen.nvcc.clang == "21.1.0"
    places = [Path(each.place).name for each in chosen.candidates if each.origin == "clang on PATH"]
    assert places[:2] == ["clang++", "clang++-21"]


def test_an_nvcc_12_is_preferred_to_it_unless_a_setting_names_it(clang: Path, site: Path, tmp_path: Path) -> None:
    torch = read_torch(site / "torch")
    home = make_toolkit(tmp_path / "cuda-12.4", "12.4.131", GPU_CODES["12.4"])

    nvcc_12 = decide(torch, clang.parent, OLD_DRIVERS, **{"cuda-home": str(home)}).nvcc
    named = decide(torch, Path("/nowhere"), nvcc=str(clang)).nvcc

    assert nvcc_12 is not None
    assert (nvcc_12.version, nvcc_12.clang) == ("12.4.131", "")
    assert named is not None
    assert named.clang == "19.1.7"


def test_without_clang_the_error_says_how_to_get_it(site: Path) -> None:
    with pytest.raises(BuildError) as caught:
        decide(read_torch(site / "torch"), Path("/nowhere"), OLD_DRIVERS, drivers="12.0")

    first = caught.value.remedies[0]
    assert f"apt-get install clang-{OLDEST}" in first
    assert "pip install 'cuda-toolkit[nvcc,cuobjdump]'" in first  # the other parts are there


# What a build in isolation asks pip for


def test_the_parts_are_asked_for_if_only_clang_can_serve_the_drivers(tmp_path: Path) -> None:
    make_toolkit(tmp_path / "site/nvidia/cu13", "13.0.88")
    torch = read_torch(make_torch(tmp_path / "site", cuda=CUDA_13))

    def asked(limits: NvccLimits, **options: str) -> tuple[str, ...]:
        return parts_for_clang(NvccSearch(settings_with(**options), torch, {"PATH": os.environ["PATH"]}, [], limits))

    assert asked(OPERATORS) == ()
    assert asked(OLD_DRIVERS) == tuple(PARTS)
    assert asked(OLD_DRIVERS, cuda="off") == ()
    home = make_toolkit(tmp_path / "cuda-12.4", "12.4.131", GPU_CODES["12.4"])
    assert asked(OLD_DRIVERS, **{"cuda-home": str(home)}) == ()
