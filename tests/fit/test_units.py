"""Scenes and captures in any unit of length give the same pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import photographs
import pytest
import torch
from PIL import Image

from splat.cli import main
from splat.fit.drawn_lenses import DrawnLens
from splat.fit.overlap import looked_at
from splat.fit.picture_quality import judge
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views
from splat.page.scene_page import PageView, in_page_units
from splat.scene.camera import Camera, orbit
from splat.scene.camera_list import read_cameras, write_cameras
from splat.scene.edits import scale_scene
from splat.scene.formats import write_scene
from splat.scene.near_plane import NEAR, near_plane_of
from splat.scene.spz_values import spz_losses
from splat.view.crop_controls import slider_ends
from splat.view.pose import aim_of

SMALL, LARGE = FACTORS = (2.0**-13, 2.0**17)
LENS = DrawnLens("pinhole", (0.01, 0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0))


def scaled_camera(camera: Camera, factor: float) -> Camera:
    viewmat = camera.viewmat.clone()
    viewmat[:3, 3] *= factor
    return replace(camera, viewmat=viewmat, near=camera.near * factor)


@cache
def views() -> Views:
    """The photographs of the built-in scene, with points of it."""
    taken = photographs.cameras(6)
    images = tuple(torch.from_numpy(np.array(image)) for image in photographs.pictures(6))
    points, colors = (torch.from_numpy(values) for values in photographs.points(150))
    viewmats, Ks = torch.stack([camera.viewmat for camera in taken]), torch.stack([camera.K for camera in taken])
    return Views(images, viewmats, Ks, points, colors.float() / 255, measured=True)


def scaled_views(factor: float) -> Views:
    viewmats = views().viewmats.clone()
    viewmats[:, :3, 3] *= factor
    return replace(views(), viewmats=viewmats, points=views().points * factor, near=0.0)


@cache
def quality(factor: float, how: str) -> float:
    """PSNR of a short fit."""
    before = scaled_views(factor)
    if how == "lenses":
        before = replace(before, lenses=(LENS,) * len(before))
    strategy = how if how in ("default", "mcmc") else "grow"
    trainer = Trainer(before, FitOptions(40, 300, 1, strategy=strategy, refine_cameras=True))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        trainer.fit(lambda *_: None)
        return judge(trainer.gaussians(), trainer.refined_views()).psnr
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("factor", "how"),
    [(2.0**-40, "grow"), (LARGE, "mcmc"), (LARGE, "default"), (SMALL, "lenses")],
)
def test_a_capture_is_fitted_as_well_in_any_unit(factor: float, how: str) -> None:
    assert quality(1.0, how) > 15
    assert quality(factor, how) == pytest.approx(quality(1.0, how), abs=0.3)


def test_the_near_plane_follows_from_the_distance() -> None:
    away = float(torch.linalg.inv(views().viewmats[0])[:3, 3].norm())
    assert views().near == pytest.approx(1e-3 * away, rel=0.2), "the scene is around the origin"
    for factor in FACTORS:
        assert scaled_views(factor).near == pytest.approx(factor * views().near)
        assert scaled_views(factor).select([0]).near == scaled_views(factor).near, "one of them keeps that of all"
    assert near_plane_of(torch.eye(4)[None], torch.zeros(0, 3)) == NEAR
    assert near_plane_of(torch.eye(4)[None], torch.full((3, 3), torch.nan)) == NEAR


@pytest.mark.parametrize("factor", FACTORS)
def test_what_parallel_cameras_look_at_is_as_far_as_they_are_apart(factor: float) -> None:
    centers, axes = torch.eye(3)[:2].double(), torch.tensor([[0, 0, 1.0]] * 2).double()
    one = looked_at(centers, axes)
    assert one[2] > 0.1
    torch.testing.assert_close(looked_at(factor * centers, axes), factor * one, rtol=1e-4, atol=0)


def rendered(scene: Path, *options: str) -> npt.NDArray[Any]:
    out = scene.with_suffix(".png")
    assert main(["render", str(scene), "-o", str(out), "--device", "cpu", *options]) == 0
    return np.asarray(Image.open(out), float)


@pytest.mark.parametrize("factor", FACTORS)
def test_a_scene_is_drawn_alike_in_any_unit(tmp_path: Path, factor: float) -> None:
    pictures = {}
    for name, unit in (("one", 1.0), ("other", factor)):
        write_scene(tmp_path / f"{name}.ply", scale_scene(photographs.knot(), unit))
        file = tmp_path / f"{name}.cameras.json"
        write_cameras(file, [scaled_camera(photographs.cameras(6)[0], unit)], ["a"])
        by_ours = rendered(tmp_path / f"{name}.ply", "--size", "40x30")
        (camera,) = json.loads(file.read_text())
        assert camera.pop("near") == read_cameras(file)[0].near
        file.write_text(json.dumps([camera]))
        by_theirs = rendered(tmp_path / f"{name}.ply", "--size", "40x30")
        assert np.array_equal(by_ours, by_theirs), "a list without near planes, as 3DGS writes it"
        alone = {
            "width": 40,
            "height": 30,
            "position": camera["position"],
            "rotation": [0.5, 0.5, 0.5, 0.5],
            "fov": 120,
        }
        (tmp_path / "camera.json").write_text(json.dumps(alone))
        by_one = rendered(tmp_path / f"{name}.ply", "--camera", str(tmp_path / "camera.json"))
        pictures[name] = by_ours, by_one
        assert by_ours.max() > 100
    for one, other in zip(pictures["one"], pictures["other"], strict=True):
        assert np.abs(one - other).max() <= 2


@pytest.mark.parametrize("factor", FACTORS)
def test_the_viewer_and_the_page_follow_the_unit(factor: float) -> None:
    scene = scale_scene(photographs.knot(), factor)
    camera = orbit(scene, 40, 30)
    plain = orbit(photographs.knot(), 40, 30)
    aim = aim_of(camera, (0.0, 1.0, 0.0), scene.middle())
    assert aim.near == camera.near == pytest.approx(factor * plain.near)
    low, high = (np.array(corner) for corner in slider_ends(scene))
    assert (high - low) / factor == pytest.approx(np.subtract(*slider_ends(photographs.knot())[::-1]), rel=0.05)
    view = PageView(camera, None, (0.0, 0.0, 0.0))
    inside, shown = in_page_units(scene, view)
    assert not any("standard deviations" in loss for loss in spz_losses(inside))
    assert 0.1 < shown.camera.near / plain.near < 10
    assert shown.camera.viewmat[2, 3] / shown.camera.near == pytest.approx(camera.viewmat[2, 3] / camera.near)
    usual = PageView(plain, None, (0.0, 0.0, 0.0))
    assert in_page_units(photographs.knot(), usual) == (photographs.knot(), usual)
    cut = replace(view, camera=replace(camera, near=100 * camera.near))  # what is in front is cut off: no other unit
    assert in_page_units(scene, cut)[0].scales.equal(inside.scales)


def test_a_capture_in_a_small_unit_is_fitted_by_the_command(tmp_path: Path) -> None:
    said = photographs.transforms(photographs.take_pictures(tmp_path / "images"))
    for frame in said["frames"]:
        for row in frame["transform_matrix"][:3]:
            row[3] *= 1e-4
    photographs.write_transforms(tmp_path, said)
    out = tmp_path / "a.ply"
    options = ("--steps", "40", "--gaussians", "300", "--device", "cpu")
    assert main(["fit", str(tmp_path), "-o", str(out), *options]) == 0
    assert json.loads((tmp_path / "a.cameras.json").read_text())[0]["near"] < 1e-6
    assert rendered(out).max() > 50, "it is not black"
