"""Kernels for drivers of CUDA 12, by a real clang with pip's real parts of CUDA 12.9: what a builder has with PyPI and
Debian's clang alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import Wheel, build, device_code, needs_cuda_torch
from processes import RunPython
from programs import CLANG, CUDA_12

pytestmark = [
    pytest.mark.slow,
    pytest.mark.minutes,
    pytest.mark.every_program,
    needs_cuda_torch,
    pytest.mark.skipif(not CUDA_12, reason="SPLAT_TEST_CUDA12 names no folder with CUDA 12.9; ci/test makes one"),
    pytest.mark.skipif(not CLANG, reason="no clang++-19 or later on PATH; Debian: apt-get install clang-19"),
]
# Of what it makes by default (test_clang_toolkit.py), the oldest, the one with PTX, and the newest.
ENVIRON = {"PYTHONPATH": CUDA_12, "TINY_DRIVERS": "12.0", "TORCH_CUDA_ARCH_LIST": "7.5;9.0+PTX;12.0"}


@pytest.fixture(scope="module")
def clang_wheel(checkout: Callable[[], Path], build_root: Path) -> Wheel:
    return build(checkout(), build_root / "clang", env=ENVIRON)


def test_the_wheel_serves_every_driver_from_cuda_12_on(clang_wheel: Wheel) -> None:
    manifest = clang_wheel.manifest

    assert re.fullmatch(r"clang \d+\.\d+\.\d+ with CUDA 12\.9\.\d+", manifest["built_with"]["nvcc"])
    assert manifest["requires"]["cuda"] is None
    assert (manifest["requires"]["driver"], manifest["requires"]["driver_for_ptx"]) == ("12.0", "12.0")


def test_its_sass_is_made_by_the_ptxas_of_cuda_12_and_its_ptx_is_of_12_0(clang_wheel: Wheel) -> None:
    said = device_code(clang_wheel.native / "libtiny_cuda.so", "--dump-elf-symbols")

    image = r"^Fatbin (elf|ptx) code:\n=+\narch = (\w+)\ncode version = \[(\d+),(\d+)\]"
    images = re.findall(image, said, re.MULTILINE)
    sass = {arch: f"{major}.{minor}" for kind, arch, major, minor in images if kind == "elf"}
    # CUDA 13 marks all of its SASS 1.8; CUDA 12 only what no driver before 12.8 knows.
    assert (sass.pop("sm_75"), sass.pop("sm_90"), *sass) == ("1.7", "1.7", "sm_120")
    assert [image for image in images if image[0] == "ptx"] == [("ptx", "sm_90", "8", "0")]


def test_nothing_in_it_is_packed_in_a_way_that_old_drivers_cannot_unpack(clang_wheel: Wheel) -> None:
    """Zstandard, which begins with its magic number (RFC 8878, 3.1.1), came with CUDA 12.4."""
    assert b"\x28\xb5\x2f\xfd" not in (clang_wheel.native / "libtiny_cuda.so").read_bytes()


def test_it_says_what_of_clang_and_cuda_is_in_it_with_the_terms_of_cuda(clang_wheel: Wheel) -> None:
    (bill,) = clang_wheel.unpacked.glob("*.dist-info/sboms/*.json")
    found = {each["name"]: each.get("version") for each in json.loads(bill.read_text())["components"]}

    assert f"clang {found['clang']} with CUDA {found['cuda-crt']}" == clang_wheel.manifest["built_with"]["nvcc"]
    assert "no text was found of the licence of cuda" not in clang_wheel.output


def test_it_loads_beside_a_torch_for_another_cuda(clang_wheel: Wheel, run_python: RunPython) -> None:
    script = "import ctypes, os, sys, torch; ctypes.CDLL(sys.argv[1], os.RTLD_NOW); print('loaded')"

    assert run_python(script, clang_wheel.native / "libtiny_cuda.so").stdout.strip() == "loaded"


@pytest.mark.minutes
def test_the_same_bytes_come_out_in_any_folder(
    checkout: Callable[[], Path], clang_wheel: Wheel, tmp_path: Path
) -> None:
    (tmp_path / "temporary files").mkdir()

    again = build(checkout(), tmp_path / "another folder", env={**ENVIRON, "TMPDIR": str(tmp_path / "temporary files")})

    assert again.file.read_bytes() == clang_wheel.file.read_bytes()
