"""docs/gsplat.md, which says for each parameter what became of it, is about the functions that are here."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch
from folders import REPOSITORY
from scenes import random_scene

import splat
from splat.compat import gsplat14

PAGE = REPOSITORY / "docs" / "gsplat.md"
VERDICTS = {"same", "better", "stricter", "not supported"}
VERDICTS_14 = {"same", "new", "renamed", "changed"}
NOT_OF_GSPLAT = (
    "build_info",
    "fused_ssim",
    "export_splats",  # gsplat's, beside its page's functions
    # of 1.6.0:
    "rasterize_contributing_gaussian_ids",
    "rasterize_num_contributing_gaussians",
    "rasterize_top_contributing_gaussian_ids",
)
FUNCTIONS = [name for name in splat.__all__ if inspect.isfunction(getattr(splat, name)) and name not in NOT_OF_GSPLAT]
# Values that gsplat 1.6.0 takes.
UNSUPPORTED = {
    "lidar_coeffs": object(),
    "external_distortion_coeffs": object(),
    "renderer_config": object(),
}


def tables(column: int = 2) -> dict[str, dict[str, str]]:
    """The verdict on each parameter of each function: in column 2 about gsplat 1.5.3, in column 3 about 1.4.0."""
    found: dict[str, dict[str, str]] = {}
    for section in PAGE.read_text().split("\n## "):
        name = section.partition("\n")[0]
        if re.fullmatch(r"\w+", name):
            rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ([a-z ]+) \| ([a-z]+) \|", section, re.MULTILINE)
            for words, since in (("Same", "same"), ("New and same", "new")):
                rows += [(names, "same", since) for names in re.findall(rf"\b{words}: ((?:`\w+`,?\s?)+)", section)]
            named = [(parameter, row[column - 1]) for row in rows for parameter in re.findall(r"\w+", row[0])]
            found[name] = dict(named)
            assert len(named) == len(found[name]), f"{name}: a parameter is there twice"
    return found


def test_the_page_has_every_function_and_every_parameter() -> None:
    page = tables()
    assert sorted(page) == sorted(FUNCTIONS)
    for name in FUNCTIONS:
        assert set(page[name]) == set(inspect.signature(getattr(splat, name)).parameters), name
        assert set(page[name].values()) <= VERDICTS


def test_what_is_new_since_1_4_is_not_in_its_function() -> None:
    page = tables(column=3)
    for name in FUNCTIONS:
        assert set(page[name]) == set(inspect.signature(getattr(splat, name)).parameters), name
        assert set(page[name].values()) <= VERDICTS_14
    old = inspect.signature(gsplat14.rasterization).parameters
    assert {name for name, verdict in page["rasterization"].items() if verdict != "new"} == set(old)
    new = inspect.signature(splat.rasterization).parameters
    assert all(old[name].default == new[name].default for name in old)


UNSCENTED: dict[str, Any] = {"with_ut": True, "packed": False}
ROLLING = {**UNSCENTED, "rolling_shutter": splat.RollingShutterType.ROLLING_LEFT_TO_RIGHT}
# What is stricter, with a value that gsplat takes.
STRICTER: dict[str, dict[str, Any]] = {
    "viewmats": {"viewmats": torch.zeros(1, 4, 4)},
    "Ks": {"Ks": torch.diag(torch.tensor([-50.0, 50.0, 1.0]))[None]},
    "near_plane": {"near_plane": -1.0},
    "far_plane": {"far_plane": 0.01},
    "radius_clip": {"radius_clip": -1.0},
    "eps2d": {"eps2d": -0.1},
    "sh_degree": {"sh_degree": 5, "colors": torch.zeros(10, 36, 3)},
    "absgrad": {"absgrad": True, "with_eval3d": True, "packed": False},
    "radial_coeffs": {"radial_coeffs": torch.zeros(1, 4), **UNSCENTED},
    "tangential_coeffs": {"tangential_coeffs": torch.zeros(1, 2), "camera_model": "fisheye", **UNSCENTED},
    "thin_prism_coeffs": {"thin_prism_coeffs": torch.zeros(1, 4), "camera_model": "fisheye", **UNSCENTED},
    "viewmats_rs": {"viewmats_rs": torch.diag(torch.tensor([2.0, 2, 2, 1]))[None], **ROLLING},
}


def test_what_is_stricter_is_known() -> None:
    page = tables()["rasterization"]
    assert {name for name, verdict in page.items() if verdict == "stricter"} == set(STRICTER)


@pytest.mark.parametrize("name", STRICTER)
def test_what_is_stricter_is_refused(name: str) -> None:
    arguments: dict[str, Any] = random_scene(1, 10, 8, 6, views=("front",)).arguments
    splat.rasterization(**arguments)
    with pytest.raises(ValueError, match=f"{name} must"):
        splat.rasterization(**{**arguments, **STRICTER[name]})


@pytest.mark.parametrize("degree", [None, 1])
@pytest.mark.parametrize("function", [splat.rasterization, splat.rasterization_2dgs])
def test_the_last_row_of_viewmats_has_no_gradient(function: Any, degree: int | None) -> None:
    arguments: dict[str, Any] = random_scene(1, 40, 20, 15, size="mixed", views=("front",)).arguments
    arguments["viewmats"] = arguments["viewmats"].clone().requires_grad_()
    if degree is not None:
        arguments |= {"colors": torch.rand(40, 4, 3), "sh_degree": degree}
    picture, *_ = function(**arguments)
    (gradient,) = torch.autograd.grad(picture.square().sum(), arguments["viewmats"])
    assert gradient[:, :3].any()
    assert not gradient[:, 3].any()
    arguments["viewmats"] = arguments["viewmats"].detach() + torch.eye(4)[3, :, None] * torch.tensor([0.3, 0, 0.2, 1])
    assert torch.equal(function(**arguments)[0], picture)


def test_what_is_not_supported_is_known() -> None:
    found = [(function, name) for function, rows in tables().items() for name in rows if rows[name] == "not supported"]
    assert sorted(found) == sorted(("rasterization", name) for name in UNSUPPORTED)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_supported_raises(name: str) -> None:
    arguments: dict[str, Any] = random_scene(1, 10, 8, 6).arguments
    with pytest.raises(NotImplementedError, match=f"{name}.* is not implemented"):
        splat.rasterization(**arguments, **{name: UNSUPPORTED[name]})
