"""Whether an Artifact may be loaded on a Host: each dimension by itself, and from the arguments alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from folders import BACKEND
from kernelwheel.runtime.artifact.compatible import Mismatch, Wanted, check
from kernelwheel.runtime.artifact.manifest import Manifest
from kernelwheel.runtime.machine.host import Host
from kernelwheel.store import manifest_file
from processes import RunPython
from samples import CPU_LIBRARY, CUDA_MANIFEST, HOST, PLAN, sample

CUDA_LIBRARY = CUDA_MANIFEST.libraries[1]
CPU_MANIFEST = CUDA_MANIFEST._replace(
    built_with={"cuda": {"enabled": False, "because": "cuda is off (-C cuda)"}},
    requires=CUDA_MANIFEST.requires._replace(driver=None, driver_for_ptx=None),
    libraries=(CPU_LIBRARY,),
)


# One module for CPU and GPU, as of an existing torch extension.
MODULE_MANIFEST = CUDA_MANIFEST._replace(
    requires=CUDA_MANIFEST.requires._replace(torch="2.11.*", python="cp312", cuda=13),
    libraries=(CUDA_LIBRARY._replace(file="_C.so", module="_C"),),
)
CPU_MODULE_MANIFEST = CPU_MANIFEST._replace(
    requires=CPU_MANIFEST.requires._replace(torch="2.11.*", python="cp312"),
    libraries=(CPU_LIBRARY._replace(file="_C.so", module="_C"),),
)
# Operators of an extension, in one library for CPU and GPU.
WHOLE_MANIFEST = CUDA_MANIFEST._replace(
    plan={**PLAN, "content": {**PLAN["content"], "extensions": [{"name": "tiny._C", "cuda": "required", "archs": ""}]}},
    libraries=(CUDA_LIBRARY._replace(file="tiny._C.so"),),
)


def for_cpu(**features: str) -> Manifest:
    """The manifest of libraries that were compiled for more than every CPU has."""
    return CUDA_MANIFEST._replace(plan={**PLAN, "target": {**PLAN["target"], "cpu": features}})


# Of NVIDIA's containers.
BETWEEN = "2.13.0a0+5228986c39.nv26.06"


def bound_to(torch: str) -> Manifest:
    return MODULE_MANIFEST._replace(requires=MODULE_MANIFEST.requires._replace(torch=torch))


def requiring(**needs: Any) -> Manifest:
    return CUDA_MANIFEST._replace(requires=CUDA_MANIFEST.requires._replace(**needs))


def host(**has: Any) -> Host:
    return HOST._replace(**has)


def only(manifest: Manifest, machine: Host, version: str | None = "1.2.3") -> Mismatch:
    """The only mismatch."""
    (mismatch,) = check(manifest, machine, Wanted(version))
    return mismatch


FITTING = {
    "the machine that it was built for": (CUDA_MANIFEST, HOST),
    "a newer torch": (CUDA_MANIFEST, host(torch="2.15.0+cu132", cuda="13.2")),
    "operators beside a torch of an earlier CUDA": (CUDA_MANIFEST, host(torch="2.10.0+cu128", cuda="12.8")),
    "operators beside a torch of a later CUDA": (CUDA_MANIFEST, host(torch="3.0.0+cu140", cuda="14.0", driver=(14, 0))),
    "operators beside a torch of an earlier CUDA, and an unknown driver": (
        CUDA_MANIFEST, host(torch="2.10.0+cu128", cuda="12.8", driver=None, capabilities=None),
    ),
    "a release that sorts before as text": (requiring(torch="2.9"), host(torch="2.10.0")),
    "a nightly of the target": (CUDA_MANIFEST, host(torch="2.10.0.dev20251101+cu130")),
    "a libc that sorts before as text": (requiring(libc="glibc 2.4"), host(libc="glibc 2.34")),
    "a C++ library that sorts before as text": (requiring(libstdcxx="GLIBCXX_3.4.9"), host(libstdcxx="GLIBCXX_3.4.30")),
    "a library without versioned symbols": (requiring(libc="", libstdcxx=""), host(libc="", libstdcxx="")),
    "a driver older than the PTX, with SASS": (CUDA_MANIFEST, host(driver=(13, 0))),
    "SASS of an earlier revision": (CUDA_MANIFEST, host(capabilities=((8, 6),))),
    "a later GPU, by PTX": (CUDA_MANIFEST, host(capabilities=((12, 0),))),
    "no GPU": (CUDA_MANIFEST, host(capabilities=(), driver=None)),
    "GPUs that were not asked for": (CUDA_MANIFEST, host(capabilities=None, driver=None)),
    "a CPU torch": (CUDA_MANIFEST, host(torch="2.13.0+cpu", cuda=None, driver=None, capabilities=None)),
    "operators in another Python": (CUDA_MANIFEST, host(python="cp314t")),
    "a CPU that has what it was compiled for": (for_cpu(avx2="cpu", fma="flags"), host(cpu=("avx2", "fma", "sse2"))),
    "every CPU, on one that nobody knows": (CUDA_MANIFEST, host(cpu=())),
    "a module for this minor release of torch": (MODULE_MANIFEST, host(torch="2.11.7+cu131", cuda="13.1")),
    "a module for this build between releases": (
        bound_to(BETWEEN), host(torch=BETWEEN),
    ),
    "a module for a CPU torch": (CPU_MODULE_MANIFEST, host(torch="2.11.0+cpu", cuda=None, driver=None)),
}  # fmt: skip


@pytest.mark.parametrize(("manifest", "machine"), FITTING.values(), ids=FITTING)
def test_an_artifact_that_fits_is_usable(manifest: Manifest, machine: Host) -> None:
    found = check(manifest, machine, Wanted("1.2.3"))

    assert found == ()


# dimension, the device that it forbids, whether a compile cures it, manifest, host; words of required, found, remedy
MISFITS = {
    "an older torch": (
        "torch", "cpu", False, CUDA_MANIFEST, host(torch="2.9.1+cu130"),
        "torch >= 2.10", "torch 2.9.1+cu130", "torch>=2.10",
    ),
    "a module for an older torch": (
        "torch", "cpu", True, MODULE_MANIFEST, host(torch="2.12.0+cu130"),
        "torch == 2.11.*", "torch 2.12.0+cu130", "pip install 'torch==2.11.*', or build a wheel",
    ),
    "a module for another Python": (
        "python", "cpu", True, MODULE_MANIFEST, host(python="cp313"), "ABI cp312", "ABI cp313", "cp313 in its name",
    ),
    "a module for the same Python with the GIL": (
        "python", "cpu", True, MODULE_MANIFEST, host(python="cp312t"), "ABI cp312", "ABI cp312t", "cp312t in its name",
    ),
    "a module for a release, beside a build before it": (
        "torch", "cpu", True, MODULE_MANIFEST, host(torch="2.11.0a0+1.nv26.02"),
        "torch == 2.11.*", "torch 2.11.0a0+1.nv26.02", "pip install 'torch==2.11.*', or build a wheel",
    ),
    "a module for a build between releases, beside another": (
        "torch", "cpu", True, bound_to(BETWEEN), host(torch="2.13.0a0+2.nv26.07"),
        f"torch == {BETWEEN}", "torch 2.13.0a0+2.nv26.07", "use that torch, or build a wheel",
    ),
    "a module for a build between releases, beside the release": (
        "torch", "cpu", True, bound_to("2.13.0.dev20261101+cu130"), host(torch="2.13.0+cu130"),
        "torch == 2.13.0.dev20261101+cu130", "torch 2.13.0+cu130", "use that torch, or build a wheel",
    ),
    "a module that needs libtorch_cuda beside a CPU torch": (
        "cuda", "cpu", True, MODULE_MANIFEST, host(torch="2.11.0+cpu", cuda=None, driver=None, capabilities=None),
        "a torch for CUDA 13", "torch 2.11.0+cpu, which has no CUDA", "install a torch for CUDA 13",
    ),
    "a module beside a torch of an earlier CUDA": (
        "cuda", "cpu", True, MODULE_MANIFEST, host(torch="2.11.0+cu128", cuda="12.8"),
        "CUDA 13", "CUDA 12.8", "CUDA 13",
    ),
    "another processor": (
        "platform", "cpu", True, CUDA_MANIFEST, host(platform="linux-aarch64"),
        "linux-x86_64", "linux-aarch64", "wheel of tiny",
    ),
    "a CPU without what the option cpu, or native, let a compiler use": (
        "cpu", "cpu", True, for_cpu(avx512f="cpu", avx2="cpu", fma="flags"), host(cpu=("fma", "sse2")),
        "a CPU with avx2, avx512f, fma", "a CPU without avx2, avx512f", "or build from source here",
    ),
    "a CPU without what its flags name": (
        "cpu", "cpu", False, for_cpu(avx512f="flags", avx2="cpu"), host(cpu=("avx",)),
        "a CPU with avx2, avx512f", "a CPU without avx2, avx512f", "rebuild it without the flags",
    ),
    "an older libc": (
        "libc", "cpu", True, CUDA_MANIFEST, host(libc="glibc 2.31"), "glibc 2.34", "glibc 2.31", "build from source",
    ),
    "an older C++ library": (
        "libstdcxx", "cpu", True, CUDA_MANIFEST, host(libstdcxx="GLIBCXX_3.4.9"),
        "GLIBCXX_3.4.30", "GLIBCXX_3.4.9", "libstdc++",
    ),
    "an unknown C++ library": (
        "libstdcxx", "cpu", False, CUDA_MANIFEST, host(libstdcxx=""), "GLIBCXX_3.4.30", "no libstdc++", "libstdc++",
    ),
    "operators with CUDA's own libraries, beside a torch of an earlier CUDA": (
        "cuda", "cuda", True, requiring(cuda=13), host(torch="2.10.0+cu128", cuda="12.8"),
        "a torch for CUDA 13", "for CUDA 12.8", "install a torch for CUDA 13, or rebuild",
    ),
    "operators that need libtorch_cuda beside a CPU torch": (
        "cuda", "cpu", True, WHOLE_MANIFEST, host(torch="2.11.0+cpu", cuda=None, driver=None, capabilities=None),
        "a torch with CUDA", "torch 2.11.0+cpu, which has no CUDA", "install a torch with CUDA",
    ),
    "CPU kernels beside a torch with CUDA": (
        "cuda", "cuda", True, CPU_MANIFEST, HOST, "CUDA kernels", "cuda is off (-C cuda)", "rebuild the wheel",
    ),
    "a driver of an earlier CUDA": (
        "driver", "cuda", False, CUDA_MANIFEST, host(driver=(12, 9)),
        "CUDA 13.0", "CUDA 12.9", "update the NVIDIA driver",
    ),
    "a driver that serves torch, and not the kernels of a later nvcc": (
        "driver", "cuda", True, CUDA_MANIFEST, host(torch="2.10.0+cu128", cuda="12.8", driver=(12, 9)),
        "a driver for CUDA 13.0 or later", "a driver for CUDA 12.9",
        "update the NVIDIA driver, or rebuild the wheel with an nvcc of CUDA 12",
    ),
    "a GPU that is too old": (
        "capability", "cuda", True, CUDA_MANIFEST, host(capabilities=((7, 5),)),
        "compute capability 7.5", "SASS for 8.0, 9.0; PTX for 9.0", "TORCH_CUDA_ARCH_LIST=7.5",
    ),
    "an unknown driver and a GPU that needs PTX": (
        "capability", "cuda", True, CUDA_MANIFEST, host(capabilities=((12, 0),), driver=None),
        "compute capability 12.0", "driver for CUDA unknown", "TORCH_CUDA_ARCH_LIST=12.0",
    ),
    "a Tegra that shares its generation with SASS only": (
        "capability", "cuda", True,
        CUDA_MANIFEST._replace(libraries=(CPU_LIBRARY, CUDA_LIBRARY._replace(ptx=()))), host(capabilities=((8, 7),)),
        "compute capability 8.7", "PTX for none", "TORCH_CUDA_ARCH_LIST=8.7",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISFITS.values(), ids=MISFITS)
def test_each_misfit_is_found_by_itself_with_required_found_and_remedy(case: tuple[Any, ...]) -> None:
    dimension, device, compile_cures, manifest, machine, required, found, remedy = case

    mismatch = only(manifest, machine)

    assert (mismatch.dimension, mismatch.device, mismatch.compile_cures) == (dimension, device, compile_cures)
    assert required in mismatch.required
    assert found in mismatch.found
    assert remedy in mismatch.remedy


def test_kernels_of_another_version_are_refused_with_both_versions() -> None:
    mismatch = only(CUDA_MANIFEST, HOST, version="1.3.0")

    assert (mismatch.dimension, mismatch.device, mismatch.compile_cures) == ("version", "cpu", False)
    assert "1.3.0" in mismatch.required
    assert "1.2.3" in mismatch.found


def test_the_version_is_no_question_where_nobody_asks() -> None:
    assert not check(CUDA_MANIFEST, HOST)


@pytest.mark.parametrize("name", MISFITS)
def test_a_mismatch_says_whether_it_rules_out_all_kernels_or_those_for_cuda(name: str) -> None:
    device, found = MISFITS[name][1], check(*MISFITS[name][3:5], Wanted("1.2.3"))

    assert [mismatch.device for mismatch in found] == [device]


@pytest.mark.parametrize("nvcc", [11, 12, 13])
@pytest.mark.parametrize("torch", [11, 12, 13])
@pytest.mark.parametrize("driver", [11, 12, 13])
def test_operators_need_a_driver_for_their_nvcc_whatever_torch_is_for(nvcc: int, torch: int, driver: int) -> None:
    manifest = requiring(driver=f"{nvcc}.0", driver_for_ptx=f"{nvcc}.2")

    found = check(manifest, host(cuda=f"{torch}.8", driver=(driver, 0)))

    assert [mismatch.dimension for mismatch in found] == (["driver"] if driver < nvcc else [])
    # Where torch itself cannot use the driver, there is no GPU to compile for.
    assert [mismatch.compile_cures for mismatch in found] == [torch <= driver] * len(found)


@pytest.mark.parametrize("torch", [11, 12, 13, 14])
def test_modules_need_a_torch_of_their_cuda_major_whatever_the_driver(torch: int) -> None:
    found = check(MODULE_MANIFEST, host(cuda=f"{torch}.0", driver=(14, 0)))

    assert [mismatch.dimension for mismatch in found] == ([] if torch == 13 else ["cuda"])


def test_each_gpu_that_does_not_fit_is_named() -> None:
    found = check(CUDA_MANIFEST, host(capabilities=((7, 0), (7, 5), (9, 0))))

    assert [m.required.split()[-1] for m in found] == ["7.0", "7.5"]


def test_a_gpu_needs_every_cuda_library() -> None:
    second = CUDA_LIBRARY._replace(file="libtiny_more.so", sass=("9.0", "12.0"), ptx=())
    manifest = CUDA_MANIFEST._replace(libraries=(CPU_LIBRARY, CUDA_LIBRARY, second))

    assert not check(manifest, host(capabilities=((9, 0),)))
    assert check(manifest, host(capabilities=((8, 0),)))
    assert check(manifest, host(capabilities=((7, 5),)))


def test_a_gpu_may_be_served_by_sass_in_one_library_and_by_ptx_in_another() -> None:
    by_sass = CUDA_LIBRARY._replace(file="libtiny_sass.so", sass=("12.0",), ptx=())
    by_ptx = CUDA_LIBRARY._replace(file="libtiny_ptx.so", sass=("9.0",), ptx=("9.0",))
    manifest = CUDA_MANIFEST._replace(libraries=(CPU_LIBRARY, by_sass, by_ptx))

    assert not check(manifest, host(capabilities=((12, 0),)))


def test_every_misfit_is_reported_at_once() -> None:
    machine = host(torch="2.9.0", driver=(12, 9), libc="glibc 2.31")

    assert [m.dimension for m in check(CUDA_MANIFEST, machine, Wanted("2.0"))] == ["version", "libc", "torch", "driver"]


def test_another_platform_is_the_only_thing_said_of_it() -> None:
    machine = host(platform="win32-AMD64", libc="", libstdcxx="", torch="2.9.0")

    assert only(CUDA_MANIFEST, machine).dimension == "platform"


PURE = """
import json, sys
sys.modules["torch"] = None
from kernelwheel.runtime.artifact import manifest as manifests
from kernelwheel.runtime.artifact.compatible import Wanted, check
from kernelwheel.runtime.machine.host import Host
manifest = manifests.from_bytes(sys.argv[1].encode(), "a test")
machines = [Host(*values[:6], *(tuple(map(tuple, v)) if v and isinstance(v[0], list) else v and tuple(v)
                                for v in values[6:])) for values in json.loads(sys.argv[2])]
events = []
sys.addaudithook(lambda event, arguments: events.append((event, str(arguments))))
outcomes = [check(manifest, machine, Wanted("9.9.9")) for machine in machines]
seen, events = events, []
assert all(len(found) > 0 for found in outcomes)
print(json.dumps(seen))
"""


def test_the_check_reads_nothing_but_its_arguments(run_python: RunPython) -> None:
    machines = [HOST, host(torch="2.9.0", libc="glibc 2.1"), host(cuda="12.8"), host(capabilities=((7, 5),))]
    values = [[*machine._asdict().values()] for machine in machines]

    done = run_python(PURE, manifest_file.to_bytes(sample()).decode(), json.dumps(values), path=[BACKEND])

    assert json.loads(done.stdout) == []
