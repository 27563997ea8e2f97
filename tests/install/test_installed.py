"""The splat that is installed here, from the wheel that an isolated build made on a machine without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from folders import REPOSITORY
from processes import RunPython

import splat
from splat._schemas import SCHEMAS

pytestmark = pytest.mark.both

DEFAULT_SASS = ["7.5", "8.0", "9.0", "10.0", "11.0", "12.0"]


def test_the_wheel_serves_every_python_of_the_platform(splat_wheel: Path) -> None:
    assert "-py3-none-manylinux_2_28_" in splat_wheel.name


def test_the_wheel_is_small(splat_wheel: Path) -> None:
    with ZipFile(splat_wheel) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())

    assert splat_wheel.stat().st_size < 10e6
    assert unpacked < 10e6


def test_the_wheel_says_what_is_compiled_into_it(splat_wheel: Path) -> None:
    with ZipFile(splat_wheel) as archive:
        (name,) = (name for name in archive.namelist() if ".dist-info/sboms/" in name)
        (licences,) = (name for name in archive.namelist() if name.endswith("/licenses/compiled-in/LICENSES.txt"))
        components = {each["name"] for each in json.loads(archive.read(name))["components"]}
        text = archive.read(licences).decode()

    assert name.endswith("/splat_kernels.cdx.json")
    assert {"cccl", "cuda-crt", "cuda-runtime", "kernelwheel", "libstdc++", "torch"} < components
    assert "text: none was found" not in text


@pytest.mark.usefixtures("splat_wheel")
def test_its_cuda_kernels_are_there_for_every_default_architecture() -> None:
    manifest = splat.build_info()["manifest"]
    cuda = [library for library in manifest["libraries"] if library["device"] == "cuda"]
    assert len(cuda) == 4
    for library in cuda:
        assert (library["sass"], library["ptx"]) == (DEFAULT_SASS, DEFAULT_SASS[-1:])
    assert manifest["built_with"]["cuda"]["enabled"] is True
    assert manifest["built_with"]["settings"]["archs"]["origin"] == "default"


@pytest.mark.usefixtures("splat_wheel")
def test_it_was_not_built_with_the_torch_that_runs_it() -> None:
    """One wheel for every torch of the stable ABI: the tests run with two others than the builder's."""
    assert splat.build_info()["manifest"]["built_with"]["torch"] != torch.__version__


def test_it_fits_this_machine() -> None:
    info = splat.build_info()
    assert info["verdict"] == []
    assert info["damage"] is None
    assert "cpu" in info["loaded"]
    assert not any("cuda" in each for each in info["loaded"])
    assert json.loads(json.dumps(info)) == info


@pytest.mark.needs_torch("cuda")
def test_no_kernel_spills_and_eight_blocks_of_a_tile_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    import kernel_resources

    libraries = kernel_resources.installed_libraries().glob("libsplat_cuda*.so")
    uses = {kernel: use for library in libraries for kernel, use in kernel_resources.read(library).items()}
    assert not [kernel for kernel, use in uses.items() if use.stack]
    # A multiprocessor has 65536 registers, and gives out 8 at a time to each of a block's 128 threads.
    assert uses["sm_90", "rasterize<3>"].registers <= 64


@pytest.mark.needs_torch("cuda")
def test_importing_loads_the_kernels_is_silent_and_initialises_no_cuda(run_python: RunPython) -> None:
    """Only the command puts the check off (test_help_and_the_store_s_path_need_no_torch), not a script's arguments."""
    script = """
import sys, splat
print("torch" in sys.modules)
import torch
print(torch.cuda.is_initialized(), list(splat.build_info()["loaded"]))
"""
    done = run_python(script, "--version")
    assert done.stdout == "True\nFalse ['cpu']\n"
    assert done.stderr == ""


def test_importing_defines_all_operators_and_no_function_that_calls_them(run_with_torch: RunPython) -> None:
    """A program that was exported names operators, and imports nothing but splat."""
    script = """
import sys, torch, splat
print(*(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("splat::")))
print("splat.ops.rendering" in sys.modules, splat.rasterization.__module__)
"""
    defined, imported = run_with_torch(script).stdout.splitlines()
    assert {*defined.split()} >= {f"splat::{schema.partition('(')[0]}" for schema in SCHEMAS}
    assert imported == "False splat.ops.rendering"


def test_importing_leaves_torch_s_compiler_out(run_with_torch: RunPython) -> None:
    script = """
import sys, torch
before = "torch._dynamo" in sys.modules
import splat
assert ("torch._dynamo" in sys.modules) == before
"""
    run_with_torch(script)


def test_a_cuda_call_without_a_gpu_says_what_is_missing(run_with_torch: RunPython) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    script = """
import splat, torch
from splat import _kernels
try:
    _kernels.require(torch.device("cuda", 0))
except splat.IncompatibleArtifactError as error:
    print(error)
"""
    said = run_with_torch(script).stdout
    assert "splat has no CUDA kernels for this machine" in said
    assert "required:  an NVIDIA GPU" in said


def test_the_source_tree_says_that_it_is_not_installed(run_python: RunPython) -> None:
    done = run_python("import splat", path=[REPOSITORY], check=False)
    assert done.returncode == 1
    assert f"this is splat's source tree ({REPOSITORY / 'splat'})" in done.stderr
    assert "pip install ." in done.stderr


def test_errors_are_of_one_family() -> None:
    assert issubclass(splat.BuildError, splat.KernelWheelError)
    assert issubclass(splat.IncompatibleArtifactError, splat.KernelWheelError)


def test_the_backend_is_vendored_and_knows_nothing_of_splat(splat_wheel: Path) -> None:
    with ZipFile(splat_wheel) as archive:
        names = archive.namelist()
        modules = [name for name in names if name.startswith("splat/_kernelwheel/") and name.endswith(".py")]
        assert len(modules) > 10
        assert not any(name.startswith("kernelwheel/") for name in names)
        for module in modules:
            lines = archive.read(module).decode().splitlines()
            assert not [line for line in lines if line.startswith(("import splat", "from splat", "import kernelwheel"))]
