"""Camera models are listed in two tables, of C++ and of Python, which agree; those of lenses have one of their own."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections import Counter

import pytest
import reference_rasterizer as reference
import torch
from folders import REPOSITORY

import splat
from splat import _kernels
from splat.ops import camera_models
from splat.ops.camera_models import CAMERA_MODELS

_kernels.require(torch.device("cpu"))
CSRC, PACKAGE = REPOSITORY / "csrc", REPOSITORY / "splat"
PROGRAM = """
#include <cstdio>

#include "math/camera_models.h"

int main() {
#define PRINT(value, name) std::printf("%d " #value " " #name "\\n", static_cast<int>(splat::value));
  SPLAT_CAMERA_MODELS(PRINT)
}
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """The enumerators and names of csrc's table, by their numbers."""
    if not shutil.which("c++"):
        pytest.skip("needs a C++ compiler")
    folder = tmp_path_factory.mktemp("camera_models")
    (folder / "program.cpp").write_text(PROGRAM)
    subprocess.run(["c++", "-std=c++17", f"-I{CSRC}", folder / "program.cpp", "-o", folder / "program"], check=True)
    printed = subprocess.run([folder / "program"], check=True, capture_output=True, text=True).stdout
    rows = sorted((int(number), value, name) for number, value, name in map(str.split, printed.splitlines()))
    assert [number for number, _, _ in rows] == list(range(len(rows)))
    return [(value, name) for _, value, name in rows]


def test_the_tables_agree(native: list[tuple[str, str]]) -> None:
    assert [name for _, name in native] == list(CAMERA_MODELS)
    assert [model.name for model in CAMERA_MODELS.values()] == list(CAMERA_MODELS)


def test_constants_that_stand_twice_agree() -> None:
    shader = (PACKAGE / "page" / "gaussians.vert").read_text()
    said = {
        name: float(value) for name, value in re.findall(r"^const float (\w+) = ([\d.e+-]+);", shader, re.MULTILINE)
    }
    (margin,) = re.findall(r"kFrustumMargin = ([\d.]+)f;", (CSRC / "math" / "constants.h").read_text())
    assert said["MARGIN"] == camera_models._FRUSTUM_MARGIN == float(margin)


def test_the_operators_take_the_number_of_every_model_and_no_other() -> None:
    one = (torch.tensor([[0.0, 0.0, 2.0]]), torch.tensor([[1.0, 0.0, 0.0, 0.0]]), torch.ones(1, 3), None)
    Ks = torch.tensor([[[8.0, 0.0, 4.0], [0.0, 8.0, 4.0], [0.0, 0.0, 1.0]]])

    def project(number: int) -> torch.Tensor:
        settings = (8, 8, 0.3, 0.01, 1e10, 0.0, False, number, 0, None)
        radii: torch.Tensor = torch.ops.splat.project(*one, None, None, torch.eye(4)[None], Ks, *settings)[0]
        return radii

    for number in range(len(CAMERA_MODELS)):
        assert (project(number) > 0).all()
    for number in (-1, len(CAMERA_MODELS)):
        with pytest.raises(RuntimeError, match=f"camera_model must be between 0 and {len(CAMERA_MODELS) - 1}"):
            project(number)


def test_the_reference_has_every_model() -> None:
    assert set(reference.CAMERAS) == set(CAMERA_MODELS)


def test_the_documentation_names_every_model() -> None:
    (described,) = re.findall(r"^ *camera_model: (.*)$", splat.rasterization.__doc__ or "", re.MULTILINE)
    assert re.findall(r'"(\w+)"', described) == list(CAMERA_MODELS)
    rows = re.findall(r"^\| `camera_model` \|.*\| (.*) \|$", (REPOSITORY / "docs/gsplat.md").read_text(), re.MULTILINE)
    listed = [re.findall(r"\w+", row.partition(";")[0]) for row in rows if row != "as above"]
    assert listed
    assert all([word for word in words if word != "and"] == list(CAMERA_MODELS) for words in listed)


def test_no_other_module_lists_the_models() -> None:
    """Only the first is named elsewhere, as a default; and some by the lenses, of which there is another table."""
    default = next(iter(CAMERA_MODELS))
    found = []
    for module in PACKAGE.rglob("*.py"):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        defaults = {
            id(value)
            for node in ast.walk(tree)
            if isinstance(node, (ast.FunctionDef, ast.AnnAssign))
            for value in (
                [node.value] if isinstance(node, ast.AnnAssign) else [*node.args.defaults, *node.args.kw_defaults]
            )
            if isinstance(value, ast.Constant) and value.value == default
        }
        found += [
            module.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in CAMERA_MODELS and id(node) not in defaults
        ]
    named = {"camera_models.py": len(CAMERA_MODELS), "lens_cameras.py": 2, "arguments.py": 1, "overlay.py": 2}
    named |= {"drawn_lenses.py": 4}
    assert Counter(found) == named


def test_no_other_source_lists_the_models(native: list[tuple[str, str]]) -> None:
    pattern = re.compile("|".join(rf"\b({value}|linearize_{name}\w*)\b" for value, name in native))
    naming = {path.name for path in CSRC.rglob("*") if path.is_file() and pattern.search(path.read_text())}
    assert naming == {"camera_models.h", *(f"{name}.h" for _, name in native)}
