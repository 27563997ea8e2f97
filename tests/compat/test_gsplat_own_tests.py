"""gsplat 1.5.3's own tests: which tests of ours have their cases, and a run of them by `splat.as_gsplat --device cpu`.

They are in gsplat's sdist and not here. SPLAT_TEST_GSPLAT_SOURCE names the folder that it was unpacked to:

    BUILD_NO_CUDA=1 pip download --no-deps --no-binary gsplat --no-build-isolation gsplat==1.5.3
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from processes import run
from scenes import real_scene

TESTS = Path(__file__).resolve().parents[1]
SOURCE = os.environ.get("SPLAT_TEST_GSPLAT_SOURCE", "")
NEEDS_SOURCE = pytest.mark.skipif(not SOURCE, reason="SPLAT_TEST_GSPLAT_SOURCE does not name gsplat's unpacked sdist")
FILES = ("test_2dgs.py", "test_basic.py", "test_ftheta.py", "test_rasterization.py", "test_strategy.py")
# For each test of gsplat the tests here that have its cases; none for what splat does not have at all.
STRATEGIES = ["test_gsplat_s_default_strategy_trains_with_splat", "test_the_mcmc_strategy_is_gsplat_s_in_each_step"]
CASES: dict[str, list[str]] = {
    "test_basic.py::test_quat_scale_to_covar_preci": [
        "test_covariances_are_those_of_gsplat", "test_gradients_of_covariances_are_those_of_the_definition",
    ],
    "test_basic.py::test_proj": ["test_proj_is_that_of_gsplat"],
    "test_basic.py::test_projection": [
        "test_projection_is_that_of_gsplat", "test_covariances_stand_for_rotations_and_scales",
        "test_gradients_are_those_of_the_reference",
    ],
    "test_basic.py::test_fully_fused_projection_packed": [
        "test_packed_projections_are_the_visible_ones", "test_a_projection_s_sparse_gradients",
    ],
    "test_basic.py::test_isect": ["test_tiles_are_those_of_gsplat"],
    "test_basic.py::test_rasterize_to_pixels": [
        "test_the_lists_accumulated_are_the_picture_and_its_gradients", "test_every_kind_and_number_of_channels",
    ],
    "test_basic.py::test_sh": ["test_harmonics_are_those_of_gsplat", "test_gradients_of_spherical_harmonics"],
    "test_rasterization.py::test_rasterization": [
        "test_every_mode", "test_colors_of_each_camera", "test_spherical_harmonics",
        "test_the_pieces_together_are_rasterization",
    ],
    "test_strategy.py::test_strategy": STRATEGIES,
    "test_strategy.py::test_strategy_requires_grad": STRATEGIES,
    "test_ftheta.py::test_rasterization": ["test_every_lens_is_the_reference_s"],
    "test_2dgs.py::test_projection_2dgs": ["test_the_projection_of_2d_gaussians_is_that_of_gsplat"],
    "test_2dgs.py::test_fully_fused_projection_packed_2dgs": ["test_layouts_and_batches_of_2d_gaussians_give_the_same"],
    "test_2dgs.py::test_rasterize_to_pixels_2dgs": [
        "test_images_and_gradients_of_2d_gaussians_are_those_of_the_reference"
    ],
    "test_compression.py::test_png_compression": [],
}  # fmt: skip


def test_the_tests_named_here_exist() -> None:
    there = {
        name for path in TESTS.rglob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert {name for ours in CASES.values() for name in ours} - there == set()


@NEEDS_SOURCE
def test_every_test_of_gsplat_is_listed() -> None:
    theirs = {
        f"{path.name}::{name}"
        for path in Path(SOURCE, "tests").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
        if name != "test_data"  # a fixture
    }
    assert theirs == set(CASES)


@NEEDS_SOURCE
@pytest.mark.slow
def test_gsplat_s_own_tests_pass_but_for_rounding(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    shutil.copy(real_scene("test_garden.npz"), tmp_path / "assets")
    folder = tmp_path / "tests"
    folder.mkdir()
    for name in FILES:
        text = Path(SOURCE, "tests", name).read_text()
        text = text.replace("not torch.cuda.is_available()", "False")
        # pytest 9 takes no marks of fixtures.
        text = text.replace(
            '@pytest.fixture\n@pytest.mark.skipif(False, reason="No CUDA device")\n', "@pytest.fixture\n"
        )
        (folder / name).write_text(text)
    options = ("-q", "-p", "no:cacheprovider", f"--junitxml={tmp_path / 'found.xml'}")
    program = (sys.executable, "-m", "splat.as_gsplat", "--device", "cpu", "-m", "pytest", folder, *options)
    run(program, cwd=tmp_path, check=False, limit=3600, env={"OMP_NUM_THREADS": "1"})
    cases = list(ET.parse(tmp_path / "found.xml").iter("testcase"))
    assert len(cases) == 201
    wrong, rounded = [], []
    for case in cases:
        outcome = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        if outcome is None:
            continue
        # Numbers near 0 beside large ones, or a pixel in which 1e-4 is crossed: some of millions differ.
        mismatch = re.search(r"Mismatched elements: (\d+) / (\d+)", outcome.text or "")
        few = mismatch and int(mismatch[1]) <= 1e-4 * int(mismatch[2])
        (rounded if few else wrong).append(f"{case.get('name')}: {outcome.get('message')}")
    assert wrong == []
    assert len(rounded) <= 24
