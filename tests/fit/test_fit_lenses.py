"""`splat fit --lenses as-taken`: photographs are not straightened, scenes are drawn through their lenses."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import lens_photographs
import numpy as np
import photographs
import pytest
import torch
from fit_runs import SMALL, run
from PIL import Image
from torch import Tensor

from splat.commands.fit_arguments import add_fit_arguments
from splat.commands.fit_job import fit_job
from splat.commands.fit_outputs import find_outputs
from splat.commands.fit_work import read_pictures
from splat.fit.camera_corrections import CameraCorrections
from splat.fit.checkpoints import digest_of, resume, write_checkpoint
from splat.fit.drawn_lenses import AS_TAKEN, DrawnLens, drawn_lens, intrinsics
from splat.fit.photograph_views import Preparation, photograph_views
from splat.fit.shards import Shards
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views, render
from splat.photos.folders import read_capture
from splat.photos.lens_formulas import FISHEYE, POLYNOMIAL, Distortion
from splat.photos.lens_models import LENS_MODELS, Lens, lens_of
from splat.photos.undistortion import undistorted_lens
from splat.scene.gaussians import Gaussians, SceneError

pytestmark = [pytest.mark.usefixtures("one_thread")]

WIDTH, HEIGHT = 48, 36
LENSES = {
    "OPENCV": Lens(WIDTH, HEIGHT, 24, 24, 24, 18, Distortion(POLYNOMIAL, (-0.12, 0.02, *[0.0] * 6))),
    # Its corners look 104 degrees away from the axis.
    "OPENCV_FISHEYE": Lens(WIDTH, HEIGHT, 17, 17, 24, 18, Distortion(FISHEYE, (-0.02, 0.003, *[0.0] * 6))),
}
HELD_OUT = [0, 8]
STRAIGHT = DrawnLens("pinhole", (0.0,) * 6, (0.0, 0.0))


@pytest.fixture(scope="module", params=LENSES)
def taken(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lens, Views]:
    lens = LENSES[request.param]
    capture = lens_photographs.capture(tmp_path_factory.mktemp("taken"), lens)
    rest = r"; up to 4\.4 % of a picture, behind the camera or " if "FISHEYE" in request.param else "$"
    with pytest.warns(UserWarning, match=f"the pictures of 1 are drawn as they were taken{rest}"):
        return lens, photograph_views(capture, 300, 0, Preparation(lenses=AS_TAKEN))


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Views:
    """Photographs of pinhole cameras, whose pictures both ways of drawing make."""
    folder = photographs.colmap_folder(tmp_path_factory.mktemp("straight") / "a", count=16)
    return photograph_views(read_capture(folder), 200, 0)


def fitted(views: Views, **options: Any) -> Trainer:
    trainer = Trainer(views, FitOptions(**{"steps": 150, "gaussians": 1000, "sh_degree": 1, **options}))
    trainer.fit(lambda *_: None)
    return trainer


def others(views: Views) -> Views:
    return views.select([view for view in range(len(views)) if view not in HELD_OUT])


@pytest.mark.parametrize("taken", ["OPENCV_FISHEYE"], indirect=True)
def test_held_out_photographs_are_shown_up_to_their_borders(taken: tuple[Lens, Views]) -> None:
    lens, views = taken
    judged = views.select(HELD_OUT)
    assert judged.sizes == [(WIDTH, HEIGHT)] * 2
    first = lens_photographs.photograph(lens, lens_photographs.viewmats(16)[0])
    assert np.array_equal(judged.images[0].numpy(), np.asarray(first))
    rays = torch.from_numpy(lens_photographs.rays(lens))
    used, pinhole = judged.masks[0], undistorted_lens(lens, "a lens")
    used = torch.ones(HEIGHT, WIDTH, dtype=torch.bool) if used is None else used
    assert not bool((used & (rays[..., 2] <= 0)).any()), "what is behind the camera cannot be drawn"
    places = rays[..., :2] / rays[..., 2:] * torch.tensor([pinhole.fx, pinhole.fy]) + torch.tensor([24.0, 18.0])
    cropped = used & ((places < 0) | (places > torch.tensor([WIDTH, HEIGHT]))).any(dim=-1)
    assert cropped.double().mean() > 0.05
    border = replace(judged, masks=(cropped,) * 2)
    trainer = Trainer(others(views), FitOptions(1, 1000, 1))
    before = [trainer.quality(each).psnr for each in (judged, border)]
    trainer = fitted(others(views))
    after = [trainer.quality(each).psnr for each in (judged, border)]
    print(before, after, float(used.double().mean()), float(cropped.double().mean()))
    assert min(after) > max(before) + 8
    assert min(after) > 19


@pytest.mark.minutes
@pytest.mark.parametrize("taken", ["OPENCV_FISHEYE"], indirect=True)
@pytest.mark.parametrize("strategy", ["default", "mcmc"])
def test_every_strategy_fits_through_a_lens(taken: tuple[Lens, Views], strategy: str) -> None:
    _, views = taken
    trainer = fitted(others(views), steps=100, strategy=strategy)
    assert len(trainer.table) > 600
    assert trainer.quality(views.select(HELD_OUT)).psnr > 15


def through(views: Views, lens: DrawnLens = STRAIGHT) -> Views:
    return replace(views, lenses=(lens,) * len(views))


def test_a_scene_looks_the_same_by_both_ways_of_drawing(straight: Views) -> None:
    scene = fitted(straight, gaussians=500).gaussians()
    images = [render(scene, views, 3, 1)[0] for views in (straight, through(straight))]
    assert float((images[0] - images[1]).square().mean()) < 10**-3.7


def test_a_strategy_gets_the_gradients_of_the_projection(straight: Views) -> None:
    scene = fitted(straight, steps=50, gaussians=300).gaussians()
    found = []
    for views in (straight, through(straight)):
        leaves = Gaussians(*(each.clone().requires_grad_() for each in scene.tensors))
        image, meta = render(leaves, views, 2, 1)
        means2d: Any = meta["means2d"]
        means2d.retain_grad()
        (image - views.target(2)).square().sum().backward()
        found.append(means2d.grad[0].flatten())
    assert found[0].abs().max() > 0
    cosine = torch.nn.functional.cosine_similarity(*found, dim=0)
    share = found[1].norm() / found[0].norm()
    print(float(cosine), float(share))
    assert cosine > 0.95
    assert 0.85 < share < 1.15


def moved_cameras(views: Views) -> CameraCorrections:
    cameras = CameraCorrections(views.viewmats, 3.0, 10, common=True)
    change = torch.tensor([0.02, -0.03, 0.04, 0.05, 0.03, -0.06])
    cameras.values.restore({**cameras.values.state(), "": (change / cameras.values.reach).repeat(len(views), 1)})
    return cameras


@pytest.mark.parametrize("taken", ["OPENCV_FISHEYE"], indirect=True)
def test_a_camera_that_moves_sees_what_one_there_sees(taken: tuple[Lens, Views]) -> None:
    _, views = taken
    scene = fitted(others(views), steps=30).gaussians()
    scene = replace(
        scene, quats=torch.ones_like(scene.quats), scales=torch.tensor([0.4, 0.2, 0.03]).expand_as(scene.scales)
    )
    cameras = moved_cameras(views)
    there = replace(views, viewmats=cameras.corrected())
    expected, given = (render(scene, each, 1, 1)[0] for each in (there, views))
    image, _ = render(scene, views, 1, 1, viewmats=cameras.viewmats_of([1]))
    assert (given - expected).abs().mean() > 0.01
    # The world moves instead, so Gaussians at the borders may be listed in other tiles.
    assert (image - expected).abs().mean() < 1e-4


def test_cameras_are_corrected_through_a_lens(taken: tuple[Lens, Views]) -> None:
    """The gradient is that of differences, where few Gaussians cover others: their order is as good as constant."""
    _, views = taken
    rows = torch.arange(0, len(views.points), 8)
    means = views.points[rows]
    scene = Gaussians(
        means,
        torch.tensor([1.0, 0.5, 0.0, 0.0]).expand(len(rows), 4),
        torch.tensor([0.3, 0.2, 0.1]).expand(len(rows), 3),
        torch.full((len(rows),), 0.9),
        torch.randn(len(rows), 4, 3, generator=torch.Generator().manual_seed(1)),
    )
    cameras = CameraCorrections(views.viewmats, 3.0, 10, common=True)

    def value() -> Tensor:
        image, _ = render(scene, views, 0, 1, viewmats=cameras.viewmats_of([0]))
        return (image - views.target(0)).square().sum()

    def moved(number: int, step: float) -> float:
        change = torch.zeros(len(views), 6)
        change[0, number] = step
        cameras.values.restore({**cameras.values.state(), "": change})
        with torch.no_grad():
            return float(value())

    value().backward()
    gradient = cameras.values.rows[0].grad
    assert gradient is not None
    numeric = torch.tensor([(moved(number, 0.5) - moved(number, -0.5)) for number in range(6)])
    print(gradient, numeric)
    assert (gradient - numeric).norm() < 0.1 * numeric.norm()


def test_a_checkpoint_of_other_lenses_is_refused(tmp_path: Path, taken: tuple[Lens, Views]) -> None:
    views = others(taken[1])
    first, second = (Trainer(each, FitOptions(20, 400, 0)) for each in (views, replace(views, lenses=())))
    first.fit(lambda *_: None, stop=lambda: first.done == 3)
    write_checkpoint(tmp_path / "a.npz", first, digest_of(first))
    with pytest.raises(SceneError, match=r"to other pictures, cameras or points; give those, and its .*--lenses, "):
        resume(tmp_path / "a.npz", second, digest_of(second))


DRAWN = {
    "SIMPLE_RADIAL", "RADIAL", "OPENCV", "OPENCV_FISHEYE", "FULL_OPENCV", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE",
    "SIMPLE_FISHEYE", "FISHEYE",
}  # fmt: skip


@pytest.mark.parametrize("model", [name for name in LENS_MODELS if "PINHOLE" not in name])
def test_the_lenses_that_are_drawn_show_points_where_colmap_does(model: str) -> None:
    names = LENS_MODELS[model].parameters
    small = {name: 0.01 * (index - 5.5) for index, name in enumerate(names) if name[0] not in "fcwh"}
    lens = lens_of(model, (320, 240), {"f": 80.0, "fx": 80.0, "fy": 84.0, "cx": 150.0, "cy": 130.0, **small}, "a")
    found = drawn_lens(lens.distortion)
    assert (found is not None) == (model in DRAWN)
    if not found:
        return
    x, y = np.array([[0.3, 0.5], [-0.8, 0.1], [1.0, -0.9]]).T * (3 if "FISHEYE" in model else 0.6)
    expected = np.stack(lens.distortion.bend(x, y)).T * (lens.fx, lens.fy) + (lens.cx, lens.cy)
    K = intrinsics(lens).float()
    means = torch.tensor(np.stack([x, y, np.ones(3)], axis=1)).float()
    views = Views((torch.zeros(240, 320, 3),), torch.eye(4)[None], K[None], means, means, lenses=(found,))
    places = torch.meshgrid(torch.arange(240) + 0.5, torch.arange(320) + 0.5, indexing="ij")
    for mean, place in zip(means, expected, strict=True):
        spot = Gaussians(mean[None], torch.eye(4)[:1], torch.full((1, 3), 0.003), torch.ones(1), torch.ones(1, 1, 3))
        image = render(spot, views, 0, 0)[0].mean(dim=-1)
        middle = [float((image * each).sum() / image.sum()) for each in places[::-1]]
        assert np.abs(middle - place).max() < 0.1


def test_a_thin_prism_is_straightened_and_said(tmp_path: Path) -> None:
    taken = LENSES["OPENCV_FISHEYE"]
    prism = Distortion(FISHEYE, (*taken.distortion.coefficients[:6], 1e-9, 0.0))
    capture = lens_photographs.capture(tmp_path, taken)
    lenses = [replace(taken, distortion=prism)] * 8 + [taken] * 8
    several = [replace(each, lens=lens) for each, lens in zip(capture.photographs, lenses, strict=True)]
    several[3].path.write_bytes(several[3].path.read_bytes()[:300])
    with pytest.warns() as said:
        views = photograph_views(replace(capture, photographs=tuple(several)), 50, 0, Preparation(lenses=AS_TAKEN))
    words = " ".join(str(each.message) for each in said)
    assert "pictures of 1 of 2 are straightened, since only OPENCV's and OPENCV_FISHEYE's can be drawn, and" in words
    assert "the pictures of 1 are drawn as they were taken" in words
    assert [lens is None for lens in views.lenses] == [True] * 7 + [False] * 8
    assert [lens is None for lens in views.select([9, 6]).lenses] == [False, True]
    # Both are fitted to together.
    qualities = fitted(others(views), steps=100).quality(views.select(HELD_OUT)).psnrs
    print(qualities)
    assert min(qualities) > 13


def test_without_opencv_and_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lens = LENSES["OPENCV_FISHEYE"]
    monkeypatch.setitem(sys.modules, "cv2", None)
    capture = lens_photographs.capture(tmp_path, lens)
    unseen = replace(capture, points=np.zeros((0, 3)), colors=np.zeros((0, 3), np.uint8))
    views = photograph_views(unseen, 500, 0, Preparation(lenses=AS_TAKEN))
    # Some are only where no pinhole camera of 72 degrees to each side looks.
    places = views.points @ views.viewmats[0, :3, :3].T + views.viewmats[0, :3, 3]
    angles = torch.rad2deg(torch.atan2(places[:, :2].norm(dim=1), places[:, 2]))
    assert bool(((angles > 75) & (angles < 90)).any())
    with pytest.raises(SceneError, match="OpenCV is required"):
        photograph_views(unseen, 500, 0)


def test_masks_of_photographs_and_of_lenses_are_both_used(tmp_path: Path, taken: tuple[Lens, Views]) -> None:
    lens, whole = taken
    capture = lens_photographs.capture(tmp_path / "a", lens)
    half = np.full((HEIGHT, WIDTH), 255, np.uint8)
    half[:, : WIDTH // 2] = 0
    Image.fromarray(half).save(tmp_path / "half.png")
    masked = tuple(replace(each, mask=tmp_path / "half.png") for each in capture.photographs)
    views = photograph_views(replace(capture, photographs=masked), 300, 0, Preparation(lenses=AS_TAKEN))
    used, drawn = views.masks[3], whole.masks[3]
    assert used is not None
    wanted = torch.from_numpy(half > 127)
    assert torch.equal(used, wanted if drawn is None else wanted & drawn)


def test_a_lens_that_shows_nearly_nothing(tmp_path: Path) -> None:
    """Points are in its picture, though."""
    lens = replace(LENSES["OPENCV"], distortion=Distortion(POLYNOMIAL, (-9.0, *[0.0] * 7)))
    capture = lens_photographs.capture(tmp_path, LENSES["OPENCV"], points=9000)
    capture = replace(capture, photographs=tuple(replace(each, lens=lens) for each in capture.photographs))
    with pytest.raises(SceneError, match="a distortion that can be drawn is required, found the coefficients -9, 0"):
        photograph_views(capture, 50, 0, Preparation(lenses=AS_TAKEN))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"k1": -0.1})
    words = [str(word) for word in (folder, "-o", tmp_path / "b.ply", *SMALL, "--lenses", AS_TAKEN)]
    assert run(*words) == 0
    assert (
        "lenses that bend straight lines: the pictures of 1 are drawn as they were taken\n" in capsys.readouterr().err
    )
    assert (tmp_path / "b.comparison.html").exists()
    parser = argparse.ArgumentParser()
    add_fit_arguments(parser)
    job = fit_job(parser.parse_args(words), torch.device("cpu"))
    with pytest.raises(ValueError, match="--lenses as-taken is for a single process, found 2"):
        read_pictures(job, find_outputs(job), Shards(0, 2))
