"""The GPUs that NVIDIA's management library names: a fake of it, for machines that nobody has here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from builds import Wheel, needs_cuda_torch
from folders import BACKEND
from processes import RunPython

pytestmark = [pytest.mark.slow]

ASK = """
import json, os, sys
from kernelwheel.runtime.machine.host import visible_capabilities
said = visible_capabilities(os.environ)
assert "torch" not in sys.modules
print(json.dumps(said))
"""
TWO = "GPU-aaaa-1:9.0,GPU-aabb-2:8.0"
EQUAL = "GPU-aaaa-1:9.0,GPU-aabb-2:9.0"
BOTH, NEWER, OLDER = [[8, 0], [9, 0]], [[9, 0]], [[8, 0]]


@pytest.fixture(scope="session")
def fake_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for LD_LIBRARY_PATH with NVIDIA's two libraries; fake_nvml.c says how to describe the machine."""
    folder = tmp_path_factory.mktemp("nvidia")
    source = Path(__file__).with_name("fake_nvml.c")
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        subprocess.run(["cc", "-shared", "-fPIC", "-w", source, "-o", folder / name], check=True)
    return folder


def ask(run_python: RunPython, folder: Path, **env: str | None) -> list[list[int]] | None:
    done = run_python(ASK, path=[BACKEND], env={"LD_LIBRARY_PATH": str(folder), **UNSET, **env})
    found: list[list[int]] | None = json.loads(done.stdout)
    return found


UNSET: dict[str, str | None] = {"CUDA_VISIBLE_DEVICES": None, "CUDA_DEVICE_ORDER": None}


@pytest.mark.parametrize(
    ("gpus", "visible", "expected"),
    [
        (TWO, None, BOTH), (EQUAL, None, NEWER), (TWO, "", []), (TWO, "none", []), (TWO, "1", OLDER),
        (TWO, " 1 , 0", BOTH), (TWO, "1,2,0", OLDER), (TWO, "1,-1,0", OLDER), (TWO, "1,GPU-aaaa", OLDER),
        (EQUAL, "GPU-aaaa", NEWER), (TWO, "MIG-cccc,MIG-dddd", BOTH),
    ],
)  # fmt: skip
def test_the_capabilities_are_those_of_the_gpus_that_cuda_may_show(
    run_python: RunPython, fake_gpus: Path, gpus: str, visible: str | None, expected: list[list[int]]
) -> None:
    env = {"CUDA_VISIBLE_DEVICES": visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

    assert ask(run_python, fake_gpus, FAKE_GPUS=gpus, **env) == expected


@pytest.mark.parametrize(("gpus", "visible", "expected"), [(TWO, "0", BOTH), (TWO, "2", []), (EQUAL, "0", NEWER)])
def test_numbers_in_an_order_that_only_cuda_knows_select_no_gpu_of_a_mixed_machine(
    run_python: RunPython, fake_gpus: Path, gpus: str, visible: str, expected: list[list[int]]
) -> None:
    assert ask(run_python, fake_gpus, FAKE_GPUS=gpus, CUDA_VISIBLE_DEVICES=visible) == expected


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("nvmlInit_v2:9", []),  # NVML_ERROR_DRIVER_NOT_LOADED
        ("nvmlInit_v2:18", None),  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
        ("nvmlDeviceGetCount_v2:999", None),
        ("nvmlDeviceGetCudaComputeCapability:3", None),  # NVML_ERROR_NOT_SUPPORTED
    ],
)
def test_a_function_that_fails_leaves_the_question_to_cuda_unless_it_says_that_there_is_no_driver(
    run_python: RunPython, fake_gpus: Path, tmp_path: Path, failure: str, expected: list[list[int]] | None
) -> None:
    log = tmp_path / "calls"

    said = ask(run_python, fake_gpus, FAKE_GPUS=TWO, FAKE_FAILURE=failure, FAKE_LOG=str(log))

    assert said == expected
    assert ("nvmlShutdown" in log.read_text()) == (not failure.startswith("nvmlInit")), "what is open is closed"


def test_a_library_that_lacks_a_function_leaves_the_question_to_cuda(
    run_python: RunPython, fake_gpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "old.c").write_text("int nvmlInit_v2(void) { return 0; } int nvmlShutdown(void) { return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "old.c", "-o", tmp_path / "libnvidia-ml.so.1"], check=True)

    assert ask(run_python, tmp_path) is None
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"")
    assert ask(run_python, tmp_path) is None, "nor is there one"


# What is made of it

LISTED = """
import json, os, sys, torch
from kernelwheel.runtime.machine import host
host.with_gpus = lambda found: "CUDA was asked"
for env, initialized, _ in json.loads(sys.argv[1]):
    if os.fork():  # the libraries are loaded once in a process
        os.wait()
        continue
    os.environ.update(env)
    torch.cuda.is_initialized = lambda: initialized
    seen = host.with_listed_gpus(host.probe()._replace(cuda="13.0"))
    print(seen if isinstance(seen, str) else json.dumps([seen.driver, seen.capabilities]))
    sys.exit()
"""
CASES = (
    ({"FAKE_DRIVER": "13020"}, False, "[[13, 2], [[8, 0], [9, 0]]]"),
    ({"FAKE_DRIVER": "13020"}, True, "CUDA was asked"),
    ({"FAKE_DRIVER": "12090"}, False, "[[12, 9], []]"),
    ({"FAKE_FAILURE": "cuDriverGetVersion:34"}, False, "[null, []]"),  # CUDA_ERROR_STUB_LIBRARY
)


def test_the_host_has_gpus_that_torch_could_use_and_cuda_is_asked_only_if_need_be(
    run_python: RunPython, fake_gpus: Path
) -> None:
    env = {**UNSET, "LD_LIBRARY_PATH": str(fake_gpus), "FAKE_GPUS": TWO}

    done = run_python(LISTED, json.dumps(CASES), path=[BACKEND], env=env)

    assert done.stdout.splitlines() == [said for *_, said in CASES]


FITS = """
import torch, classic
torch.cuda.is_available = torch.cuda.device_count = None
module = classic.KERNELS.module("_C")
assert classic.KERNELS.host.capabilities == ((9, 0),)
assert not torch.cuda.is_initialized()
"""


@pytest.mark.minutes
@needs_cuda_torch
def test_a_module_that_fits_the_gpu_is_imported_without_a_call_into_cuda(
    classic_wheel: Wheel, fake_gpus: Path, run_python: RunPython, tmp_path: Path
) -> None:
    log = tmp_path / "calls"
    env = {"LD_LIBRARY_PATH": str(fake_gpus), "FAKE_GPUS": "GPU-aaaa:9.0", "CLASSIC_JIT": "never", **UNSET}

    run_python(FITS, path=[classic_wheel.unpacked], env={**env, "FAKE_LOG": str(log)})

    assert {name for name in log.read_text().split() if name.startswith("cu")} == {"cuDriverGetVersion"}
