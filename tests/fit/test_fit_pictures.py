"""What `fit` fits to each picture besides the scene, colours and cameras, and how such scenes are judged."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fit_runs import SMALL, interrupted_once, run
from PIL import Image
from torch import Tensor

from splat.commands import fit_command
from splat.fit.adapted_quality import judge_adapted
from splat.fit.camera_corrections import CameraCorrections
from splat.fit.checkpoints import resume, write_checkpoint
from splat.fit.color_maps import ColorMaps, with_colors_of
from splat.fit.perceptual import measure_lpips
from splat.fit.photograph_views import photograph_views
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views
from splat.photos.folders import read_capture
from splat.scene.camera_list import read_cameras
from splat.scene.gaussians import SceneError

pytestmark = [pytest.mark.usefixtures("one_thread")]
BOTH = ("--appearance", "affine", "--refine-cameras")


@pytest.fixture(scope="module")
def views(folder: Path) -> Views:
    return photograph_views(read_capture(folder), 200, 0)


def fitted(views: Views, **options: Any) -> Trainer:
    trainer = Trainer(views, FitOptions(250, 400, 0, **options))
    trainer.fit(lambda *_: None)
    return trainer


# Colours


def test_colors_by_least_squares_are_those_of_the_target() -> None:
    generator = torch.Generator().manual_seed(1)
    image = torch.rand(12, 10, 3, generator=generator)
    matrix = torch.eye(3) + 0.2 * torch.randn(3, 3, generator=generator)
    target = image @ matrix.T + torch.tensor([0.1, -0.05, 0.0])
    torch.testing.assert_close(with_colors_of(image, target, None), target, atol=1e-4, rtol=0)
    # What is not used says nothing about the others, and is changed like them.
    mask = torch.arange(12)[:, None].expand(12, 10) < 6
    spoiled = torch.where(mask[..., None], target, 0.0)
    torch.testing.assert_close(with_colors_of(image, spoiled, mask), target, atol=1e-4, rtol=0)
    # Where there is a single colour, many maps fit.
    grey = with_colors_of(torch.full((4, 4, 3), 0.5), torch.full((4, 4, 3), 0.6), None)
    torch.testing.assert_close(grey, torch.full((4, 4, 3), 0.6), atol=1e-4, rtol=0)


def test_maps_begin_at_the_identity_and_their_mean_stays_there() -> None:
    generator = torch.Generator().manual_seed(1)
    image = torch.rand(4, 5, 3, generator=generator)
    appearance = ColorMaps(3, 10, torch.device("cpu"))
    assert torch.equal(appearance.applied(image, 1), image)
    for step in range(1, 11):
        picture = step % 3
        brighter = appearance.applied(image, picture).mean() * (1 if picture else -1)
        (brighter + appearance.penalty(picture)).backward()
        appearance.values.step([picture], step)
    found = torch.stack([appearance.applied(image, picture) for picture in range(3)])
    assert (found - image).abs().max() > 0.01
    torch.testing.assert_close(found.mean(dim=0), image)


def test_pictures_of_other_exposures_get_maps_and_the_scene_stays_between(views: Views) -> None:
    dark = [view for view in range(16) if view % 3 == 0]
    images = tuple((image.float() * (0.6 if view in dark else 1)).byte() for view, image in enumerate(views.images))
    mixed = replace(views, images=images)
    trained, judged = mixed.select([i for i in range(16) if i % 8]), views.select([0, 8])
    kept = [i for i in range(16) if i % 8]
    off, affine = fitted(trained), fitted(trained, appearance="affine")
    assert affine.appearance
    grey = torch.full((1, 1, 3), 0.5)
    levels = torch.stack([affine.appearance.applied(grey, view).mean() for view in range(14)]).detach()
    darker = torch.tensor([view in dark for view in kept])
    assert levels[darker].max() < levels[~darker].min()
    assert levels.mean().item() == pytest.approx(0.5, abs=1e-4)
    qualities = [
        judge_adapted(trainer.gaussians(), judged, trainer.extent, cameras=False, colors=True).quality.psnr
        for trainer in (off, affine)
    ]
    print(qualities)
    assert qualities[1] > qualities[0] + 0.3


# Cameras


def turned(viewmats: Tensor, turn: float, shift: float) -> Tensor:
    """The cameras, each turned and moved by a random amount of this size."""
    generator = torch.Generator().manual_seed(3)
    found = viewmats.clone()
    for viewmat in found:
        axis = torch.nn.functional.normalize(torch.randn(3, generator=generator), dim=0)
        x, y, z = (turn * axis).tolist()
        viewmat[:3] = torch.linalg.matrix_exp(torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]])) @ viewmat[:3]
        viewmat[:3, 3] += shift * torch.nn.functional.normalize(torch.randn(3, generator=generator), dim=0)
    return found


def test_corrections_turn_and_move_a_camera(views: Views) -> None:
    cameras = CameraCorrections(views.viewmats, 1.0, 10)
    assert torch.equal(cameras.corrected(), views.viewmats)
    # A quarter turn about the world's z axis, which takes what looks along x to y, and a step along x.
    change = torch.tensor([0.0, 0.0, torch.pi / 2, 1.0, 0.0, 0.0])
    cameras.values.restore({**cameras.values.state(), "": torch.stack([change / cameras.values.reach] * 16)})
    alone = CameraCorrections(views.viewmats[:1], 1.0, 10, common=True)
    alone.values.restore({**alone.values.state(), "": (change / alone.values.reach)[None]})
    before, after = views.viewmats[0], alone.corrected()[0]
    quarter = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    torch.testing.assert_close(after[:3, :3].T, quarter @ before[:3, :3].T, atol=1e-5, rtol=0)
    center, moved = (-viewmat[:3, :3].T @ viewmat[:3, 3] for viewmat in (before, after))
    torch.testing.assert_close(moved, center + change[3:], atol=1e-5, rtol=0)
    # If all of them do so, that is no correction, nor is it if all of them move away from their middle.
    torch.testing.assert_close(cameras.corrected(), views.viewmats, atol=1e-5, rtol=0)
    away = torch.cat([torch.zeros(16, 3), 0.1 * cameras.centers], dim=1) / cameras.values.reach
    cameras.values.restore({**cameras.values.state(), "": away})
    torch.testing.assert_close(cameras.corrected(), views.viewmats, atol=1e-5, rtol=0)


def test_cameras_that_are_slightly_wrong_are_corrected(views: Views) -> None:
    trained, judged = views.select([i for i in range(16) if i % 8]), views.select([0, 8])
    wrong = replace(trained, viewmats=turned(trained.viewmats, 0.01, 0.02))
    off, refined = fitted(wrong), fitted(wrong, refine_cameras=True)

    def error(viewmats: Tensor) -> float:
        """How far apart pixels of true and found cameras are, in pixels, at the scene's points."""
        points = torch.cat([views.points, torch.ones_like(views.points[:, :1])], dim=1)
        ends = [points @ (trained.Ks @ found[:, :3]).mT for found in (trained.viewmats, viewmats)]
        pixels = [end[..., :2] / end[..., 2:] for end in ends]
        return float((pixels[0] - pixels[1]).norm(dim=-1).mean())

    before, after = error(wrong.viewmats), error(refined.refined_views().viewmats)
    qualities = [trainer.quality(judged).psnr for trainer in (off, refined)]
    print(before, after, qualities)
    assert after < 0.7 * before
    assert qualities[1] > qualities[0] + 0.3


def test_held_out_cameras_are_refined_by_themselves(views: Views) -> None:
    trained, judged = views.select([i for i in range(16) if i % 8]), views.select([0, 8])
    trainer = fitted(trained)
    wrong = replace(judged, viewmats=turned(judged.viewmats, 0.008, 0.008))
    scene = trainer.gaussians()
    good = trainer.quality(judged).psnr
    given = trainer.quality(wrong).psnr
    adapted = judge_adapted(scene, wrong, trainer.extent, cameras=True, colors=False)
    print(good, given, adapted.quality.psnr)
    assert adapted.quality.psnr > given + 0.5 * (good - given)
    assert adapted.what == "refining the camera"


# Files


def test_the_files_have_corrected_cameras_and_both_numbers(
    tmp_path: Path, folder: Path, views: Views, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, *BOTH) == 0
    out = capsys.readouterr().out
    said = json.loads((tmp_path / "a.quality.json").read_text())
    adapted = said["adapted"]
    assert adapted["cameras_refined"] is adapted["colors_fitted"] is True
    assert [picture["name"] for picture in adapted["pictures"]] == ["00.png", "08.png"]
    assert adapted["psnr"] == pytest.approx(sum(picture["psnr"] for picture in adapted["pictures"]) / 2)
    assert f"PSNR {said['psnr']:.1f} dB on 2 held-out pictures" in out
    assert (
        f"PSNR {adapted['psnr']:.1f} dB, SSIM {adapted['ssim']:.3f} after refining the camera and fitting the colours "
        "by each picture itself"
    ) in out
    cameras = read_cameras(tmp_path / "a.cameras.json")
    assert len(cameras) == 16
    order = [view for view in range(16) if view % 8] + [0, 8]  # those that are held out come last
    moved = [
        float((camera.viewmat - views.viewmats[view]).abs().max()) for view, camera in zip(order, cameras, strict=True)
    ]
    assert max(moved[14:]) < 1e-5
    assert 1e-5 < min(moved[:14]) < max(moved[:14]) < 0.1


def test_without_held_out_pictures_nothing_is_refined_twice(tmp_path: Path, folder: Path) -> None:
    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, "--refine-cameras", "--hold-out", "0") == 0
    said = json.loads((tmp_path / "a.quality.json").read_text())
    assert "adapted" not in said
    assert len(said["pictures"]) == 16


def test_an_interrupted_fit_of_pictures_goes_on_to_the_same_bytes(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole").mkdir()
    assert run(folder, "-o", tmp_path / "whole" / "a.ply", *SMALL, *BOTH) == 0
    fit = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", lambda t, report, stop: fit(t, report, lambda: t.done == 23))
    monkeypatch.setattr(fit_command, "catch_interrupt", interrupted_once)
    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, *BOTH) == 130
    between = (tmp_path / "a.cameras.json").read_bytes()
    monkeypatch.undo()
    assert run(folder, "-o", tmp_path / "a.ply", *SMALL, *BOTH, "--resume") == 0
    for name in ("a.ply", "a.cameras.json", "a.quality.json"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert between != (tmp_path / "a.cameras.json").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refine_cameras": True}, "with other --appearance: required off, found affine"),
        ({"appearance": "affine"}, "with other --refine-cameras: required False, found True"),
    ],
)
def test_checkpoints_belong_to_these_options(
    tmp_path: Path, views: Views, options: dict[str, Any], message: str
) -> None:
    both = FitOptions(20, 100, 0, appearance="affine", refine_cameras=True)
    trainer = Trainer(views, both)
    trainer.fit(lambda *_: None, stop=lambda: trainer.done == 3)
    path = tmp_path / "a.npz"
    write_checkpoint(path, trainer, "pictures")
    with pytest.raises(SceneError, match=message):
        resume(path, Trainer(views, FitOptions(20, 100, 0, **options)), "pictures")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["cameras.steps"] = arrays["cameras.steps"][:3]
    np.savez(path, **arrays)
    with pytest.raises(SceneError, match=r"cameras.steps must be float32 of shape \[16\], found float32 of \[3\]"):
        resume(path, Trainer(views, both), "pictures")


@pytest.mark.parametrize("options", [("--refine-cameras",), ("--appearance", "affine")])
def test_a_single_picture_has_nothing_to_differ_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    Image.new("RGB", (20, 16)).save(tmp_path / "a.png")
    assert run(tmp_path / "a.png", "-o", tmp_path / "b.ply", *options) == 1
    assert "--appearance and --refine-cameras are for several pictures to fit to, found 1" in capsys.readouterr().err


# LPIPS


LPIPS = """
import torch

class LPIPS(torch.nn.Module):
    def __init__(self, net, verbose):
        super().__init__()
        if net != "alex":
            raise OSError(net)

    def forward(self, a, b, normalize):
        assert normalize and a.shape == b.shape == (1, 3, 64, 72)
        return (a - b).abs().mean().view(1, 1, 1, 1)
"""


def test_lpips_needs_what_is_there_and_fetches_nothing(
    tmp_path: Path, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packages with the names and the calls of the real ones: the networks' weights are too large to be here."""
    scene = Trainer(views, FitOptions(1, 100, 0)).gaussians()
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not (Path(entry) / "lpips").exists()])
    monkeypatch.delitem(sys.modules, "lpips", raising=False)
    assert measure_lpips(scene, views) == ([], "LPIPS is not measured: the package lpips is not installed", "")
    for name, text in (("lpips", LPIPS), ("torchvision", "")):
        (tmp_path / "packages" / name).mkdir(parents=True)
        (tmp_path / "packages" / name / "__init__.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    found = measure_lpips(scene, views)
    assert found.values == []
    assert "vgg16-397923af.pth or alexnet-owt-7be5be79.pth is not in" in found.words
    (tmp_path / "torch" / "hub" / "checkpoints").mkdir(parents=True)
    (tmp_path / "torch" / "hub" / "checkpoints" / "alexnet-owt-7be5be79.pth").write_bytes(b"weights")
    assert "it needs pictures of at least 64x64 pixels" in measure_lpips(scene, views).words
    larger = replace(views, images=tuple(torch.full((64, 72, 3), 128, dtype=torch.uint8) for _ in views.images))
    found = measure_lpips(scene, larger)
    assert len(found.values) == 16
    assert min(found.values) > 0.2
    assert max(found.values) <= 0.51
    assert found.words.endswith("(alex)")
    # Whatever they do, the fit has its scene and its other numbers.
    (tmp_path / "torch" / "hub" / "checkpoints" / "vgg16-397923af.pth").write_bytes(b"weights")
    assert measure_lpips(scene, larger)[:2] == ([], "LPIPS is not measured: vgg")
    monkeypatch.delitem(sys.modules, "lpips", raising=False)
