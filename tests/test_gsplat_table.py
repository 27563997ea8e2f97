"""docs/gsplat.md, which says for each parameter what became of it, is about the functions that are here."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from scenes import random_scene

import splat

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gsplat.md"
VERDICTS = {"same", "better", "not supported"}
FUNCTIONS = [name for name in splat.__all__ if inspect.isfunction(getattr(splat, name)) and name != "build_info"]
# Values that gsplat takes.
UNSUPPORTED = {
    "distributed": True,
    "with_ut": True,
    "with_eval3d": True,
    "radial_coeffs": torch.zeros(1, 6),
    "tangential_coeffs": torch.zeros(1, 2),
    "thin_prism_coeffs": torch.zeros(1, 4),
    "ftheta_coeffs": object(),
    "rolling_shutter": splat.RollingShutterType.ROLLING_LEFT_TO_RIGHT,
    "viewmats_rs": torch.eye(4)[None],
}


def tables() -> dict[str, dict[str, str]]:
    """The verdict on each parameter of each function."""
    found: dict[str, dict[str, str]] = {}
    for line in PAGE.read_text().splitlines():
        if match := re.match(r"## (\w+)$", line):
            found[match[1]] = {}
        elif match := re.match(r"\| `(\w+)` \| ([a-z ]+) \|", line):
            found[list(found)[-1]][match[1]] = match[2]
    return found


def test_the_page_has_every_function_and_every_parameter() -> None:
    page = tables()
    assert sorted(page) == sorted(FUNCTIONS)
    for name in FUNCTIONS:
        assert list(page[name]) == list(inspect.signature(getattr(splat, name)).parameters), name
        assert set(page[name].values()) <= VERDICTS


def test_what_is_not_supported_is_known() -> None:
    page = tables()
    assert {name for name, verdict in page["rasterization"].items() if verdict == "not supported"} == set(UNSUPPORTED)
    others = [verdict for function, rows in page.items() if function != "rasterization" for verdict in rows.values()]
    assert "not supported" not in others


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_supported_raises(name: str) -> None:
    arguments: dict[str, Any] = random_scene(1, 10, 8, 6).arguments
    splat.rasterization(**arguments)
    with pytest.raises(NotImplementedError, match=f"{name}.* is not implemented"):
        splat.rasterization(**arguments, **{name: UNSUPPORTED[name]})


def test_an_ftheta_camera_raises() -> None:
    with pytest.raises(NotImplementedError, match="camera_model='ftheta' is not implemented"):
        splat.rasterization(**random_scene(1, 10, 8, 6).arguments, camera_model="ftheta")
