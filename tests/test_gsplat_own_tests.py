"""gsplat 1.5.3's own tests: which tests of ours have their cases, and a run of them with splat's functions on the CPU.

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

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "gsplat.md"
SOURCE = os.environ.get("SPLAT_TEST_GSPLAT_SOURCE", "")
NEEDS_SOURCE = pytest.mark.skipif(not SOURCE, reason="SPLAT_TEST_GSPLAT_SOURCE does not name gsplat's unpacked sdist")
FILES = ("test_basic.py", "test_rasterization.py", "test_strategy.py")
# Put where gsplat's own functions are, in the process that runs its tests: those read them from their modules.
CONFTEST = """
import importlib
import splat
import torch

torch.set_num_threads(1)
for name in ("", ".cuda._wrapper", ".cuda._torch_impl", ".rendering", ".relocation", ".strategy.ops"):
    module = importlib.import_module("gsplat" + name)
    for function in splat.__all__:
        if hasattr(module, function) and not function.startswith("__"):
            setattr(module, function, getattr(splat, function))
"""


def page_s_rows() -> dict[str, list[str]]:
    """For each test of gsplat, file::name, the tests that the page names; none for what splat has not."""
    section = PAGE.read_text().partition("## gsplat's own tests")[2]
    rows = re.findall(r"\| `(test_\w+)` \| (.+?) \| (.+?) \|", section)
    return {f"{file}.py::{name}": names_in(ours) for file, names, ours in rows for name in names_in(names)}


def names_in(words: str) -> list[str]:
    return re.findall(r"`(\w+)`", words)


def test_the_tests_that_the_page_names_are_here() -> None:
    there = {
        name for path in TESTS.glob("test_*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    rows = page_s_rows()
    assert len(rows) >= 15
    assert {name for ours in rows.values() for name in ours} - there == set()
    # What has no counterpart is what splat does not have at all.
    assert {row for row, ours in rows.items() if not ours} == {
        "test_2dgs.py::test_projection_2dgs", "test_2dgs.py::test_fully_fused_projection_packed_2dgs",
        "test_2dgs.py::test_rasterize_to_pixels_2dgs", "test_compression.py::test_png_compression",
    }  # fmt: skip


@NEEDS_SOURCE
def test_the_page_lists_every_test_of_gsplat() -> None:
    theirs = {
        f"{path.name}::{name}"
        for path in Path(SOURCE, "tests").glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
        if name != "test_data"  # a fixture
    }
    assert theirs == set(page_s_rows())


@NEEDS_SOURCE
@pytest.mark.slow
def test_gsplat_s_own_tests_pass_but_for_rounding(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    shutil.copy(real_scene("test_garden.npz"), tmp_path / "assets")
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    for name in FILES:
        text = Path(SOURCE, "tests", name).read_text()
        text = text.replace('torch.device("cuda:0")', 'torch.device("cpu")')
        (folder / name).write_text(text.replace("not torch.cuda.is_available()", "False"))
    options = ("-q", "-p", "no:cacheprovider", f"--junitxml={tmp_path / 'found.xml'}")
    run([sys.executable, "-m", "pytest", folder, *options], cwd=tmp_path, check=False, limit=3600)
    cases = list(ET.parse(tmp_path / "found.xml").iter("testcase"))
    assert len(cases) == 188
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
