"""`splat fit`: scenes learn, densify, and are written; and what is said when they cannot be."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fit_runs import run
from photographs import colmap_folder
from PIL import Image
from scenes import random_scene, real_scene

import splat
from splat.commands import fit_work
from splat.fit.losses import psnr
from splat.fit.picture_views import read_views
from splat.fit.training import FitOptions, Trainer
from splat.ops.densification import rotate
from splat.scene.gaussians import Gaussians
from splat.scene.ply import read_ply
from splat.scene.ply_writer import write_ply


def scene_file(path: Path, views: int = 9, changes: dict[str, Any] | None = None) -> Path:
    """An .npz file with pictures, 48 x 36, of a few large Gaussians, from all around."""
    scene = random_scene(3, 25, 48, 36, size="mixed", opacity="solid", views=("front",) * views)
    with torch.no_grad():
        images, _, _ = splat.rasterization(**scene.arguments)
    arrays = {
        "images": (images.clamp(0, 1) * 255).round().byte().numpy(),
        "viewmats": scene.viewmats.numpy(),
        "Ks": scene.Ks.numpy(),
        **(changes or {}),
    }
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


def test_a_scene_is_fitted_and_judged_by_pictures_it_has_not_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scene.ply"
    source = scene_file(tmp_path / "views.npz", views=16)
    assert run(source, "-o", out, "--steps", "250", "--gaussians", "300", "--sh-degree", "0") == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert text.startswith("300 Gaussians from 14 pictures of 48x36, 250 steps, cpu, ")
    assert f"comparison: {tmp_path / 'scene.png'}" in text
    quality = float(text.split("PSNR ")[1].split(" dB on 2 held-out pictures")[0])
    assert quality > 22
    scene = read_ply(out)
    assert len(scene) == 300
    assert scene.degree == 0
    with Image.open(tmp_path / "scene.png") as picture:
        assert picture.size == (96, 36)
        pixels = np.asarray(picture, dtype=float) / 255
    # The target beside what the scene makes of it.
    assert psnr(torch.from_numpy(pixels[:, 48:]), torch.from_numpy(pixels[:, :48])) > 20


def test_a_picture_that_does_not_fit_into_memory_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_work, "available_memory", lambda: 50 << 20)
    Image.new("RGB", (700, 400)).save(tmp_path / "a.png")
    scene_file(tmp_path / "a.npz", changes={"images": np.zeros((9, 400, 700, 3), np.uint8)})
    for name, words, they in (("a.png", "a picture of", "it"), ("a.npz", "9 pictures of up to", "them")):
        assert run(tmp_path / name, "-o", tmp_path / "a.ply", "--steps", "1", "--gaussians", "9") == 1
        err = capsys.readouterr().err
        needs = "needs about 0.1" if name == "a.png" else "need about 0.1"
        assert err == (
            f"splat: {tmp_path / name}: {words} 0.3 megapixels {needs} GiB, found 0.0 GiB of memory; make {they} "
            "smaller first\n"
        )
    small = tmp_path / "b.png"
    Image.new("RGB", (100, 80), "white").save(small)
    assert run(small, "-o", tmp_path / "c.ply", "--steps", "1", "--gaussians", "9") == 0


def test_one_picture_is_shown_again_from_the_front(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, columns = np.mgrid[0:30, 0:40]
    pixels = np.stack([columns * 6, rows * 8, np.full_like(rows, 60)], axis=-1).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    out = tmp_path / "a.ply"
    picture = tmp_path / "both.png"
    assert run(tmp_path / "a.png", "-o", out, "--picture", picture, "--steps", "150", "--gaussians", "200") == 0
    text = capsys.readouterr().out
    assert "from 1 picture of 40x30, 150 steps" in text
    assert float(text.split("PSNR ")[1].split(" dB on the picture it was fitted to")[0]) > 25
    with Image.open(picture) as image:
        assert np.array_equal(np.asarray(image)[:, :40], pixels)


def test_adam_remembers_those_that_stay_and_forgets_those_that_are_new() -> None:
    trainer = Trainer(read_views([], 300, 0), FitOptions(steps=60, gaussians=400, sh_degree=1))
    for step in range(1, 6):
        trainer.step(range(step, step + 1))
    table = trainer.table
    before = {name: (value, dict(table.optimizer.state[value])) for name, value in table.parameters.items()}
    table.parameters["opacities"].data[:10] = -9.0
    trainer.strategy.counts = {"pull": torch.arange(300.0), "seen": torch.ones(300)}
    trainer.strategy.after_step(table, trainer._moment(range(40, 41)))
    for name, (values, state) in before.items():
        now = table.parameters[name]
        # 10 became transparent, the 110 that are pulled at the most became two.
        assert torch.equal(now[:180], values[10:190]), name
        assert len(now) == 400
        for moment in ("exp_avg", "exp_avg_sq"):
            found = table.optimizer.state[now][moment]
            assert torch.equal(found[:180], state[moment][10:190]), name
            assert not found[180:].any(), name
    # One half where the parent was, the others at the end, the most pulled first.
    scales = before["scales"][0][190:] - math.log(1.6)
    assert torch.equal(table.parameters["scales"][180:290], scales)
    assert torch.equal(table.parameters["scales"][290:].flip(0), scales)
    both = table.parameters["means"][180:290] + table.parameters["means"][290:].flip(0)
    torch.testing.assert_close(both / 2, before["means"][0][190:])


@pytest.mark.slow
def test_another_seed_gives_another_scene() -> None:
    """The same one gives the same scene: test_a_fit_that_goes_on_gives_the_same_scene."""
    scenes = []
    for seed in (1, 2):
        trainer = Trainer(read_views([], 100, seed), FitOptions(steps=20, gaussians=150, sh_degree=0, seed=seed))
        trainer.fit(lambda *_: None)
        scenes.append(trainer.gaussians())
    for first, other in zip(*(scene.tensors for scene in scenes), strict=True):
        assert not torch.equal(first, other)


def test_a_picture_that_is_read_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photograph = colmap_folder(tmp_path / "capture") / "images" / "03.png"
    for source, options in (
        (photograph, ("-o", photograph.with_suffix(".ply"))),
        (tmp_path / "capture", ("-o", tmp_path / "a.ply", "--picture", photograph)),
    ):
        before = photograph.read_bytes()
        assert run(source, *options, "--steps", "1", "--gaussians", "9") == 1
        assert f"splat: {photograph}: a name of its own is required for each file" in capsys.readouterr().err
        assert photograph.read_bytes() == before


# What it is made of


def test_psnr_of_known_errors() -> None:
    assert psnr(torch.full((4, 4, 3), 0.6), torch.full((4, 4, 3), 0.5)) == pytest.approx(20, abs=1e-3)
    assert psnr(torch.zeros(2, 2, 3), torch.zeros(2, 2, 3)) == math.inf


def test_vectors_turn_as_rotation_matrices_turn_them() -> None:
    generator = torch.Generator().manual_seed(1)
    quats, vectors = torch.randn(9, 4, generator=generator), torch.randn(9, 3, generator=generator)
    # A covariance with one axis is the outer product of that axis.
    scales = torch.tensor([[0.0, 1.0, 0.0]]).expand(9, 3)
    covars, _ = splat.quat_scale_to_covar_preci(quats, scales, compute_preci=False)
    axes = rotate(quats, scales)
    torch.testing.assert_close(axes[:, :, None] * axes[:, None], covars)
    torch.testing.assert_close(rotate(quats, vectors).norm(dim=1), vectors.norm(dim=1))


@pytest.mark.parametrize("bases", [1, 4, 16])
def test_a_scene_that_is_written_is_read_again(tmp_path: Path, bases: int) -> None:
    generator = torch.Generator().manual_seed(1)
    scene = random_scene(2, 40)
    opacities = torch.cat([torch.tensor([0.0, 1.0]), torch.rand(38, generator=generator)])
    sh = torch.randn(40, bases, 3, generator=generator)
    write_ply(tmp_path / "a.ply", Gaussians(scene.means, scene.quats, scene.scales, opacities, sh))
    found = read_ply(tmp_path / "a.ply")
    assert torch.equal(found.means, scene.means)
    assert torch.equal(found.sh, sh)
    torch.testing.assert_close(found.scales, scene.scales)
    torch.testing.assert_close(found.opacities, opacities, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.quats, torch.nn.functional.normalize(scene.quats, dim=1))
    assert [path.name for path in tmp_path.iterdir()] == ["a.ply"]


# What cannot be fitted


def test_pictures_without_cameras_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    assert run(tmp_path / "a.png", tmp_path / "b.png", "-o", tmp_path / "a.ply") == 1
    err = capsys.readouterr().err
    assert "2 pictures need camera poses: one SCENE.npz with images [C, H, W, 3], viewmats" in err
    assert not (tmp_path / "a.ply").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": None}, r"images [C, H, W, 3] required, found viewmats, Ks"),
        ({"Ks": None, "viewmats": None}, r"viewmats [C, 4, 4] and Ks [C, 3, 3] required, found images"),
        ({"images": np.zeros((9, 8, 8), np.uint8)}, "images must have shape [C, H, W, 3], found [9, 8, 8]"),
        (
            {"images": np.zeros((9, 8, 8, 3), np.complex64)},
            "images must be finite numbers, found complex64",
        ),
        ({"viewmats": np.zeros((8, 4, 4))}, "viewmats must have shape [9, 4, 4], found [8, 4, 4]"),
        ({"viewmats": np.zeros((9, 4, 4))}, "viewmats: picture 1: 0 0 0 1 is required in the last row, found [0.0, 0."),
        ({"viewmats": np.tile(np.diag([2, 2, 2, 1.0]), (9, 1, 1))}, "picture 1: a rotation is required in its pose"),
        ({"viewmats": np.tile(np.diag([-1, 1, 1, 1.0]), (9, 1, 1))}, "found a matrix that stretches or mirrors"),
        ({"Ks": np.full((9, 3, 3), np.nan)}, "Ks must be finite numbers"),
        ({"points": np.zeros((5, 2))}, "points and colors must have shape [P, 3], found [5, 2]"),
        ({"points": np.zeros((5, 3)), "colors": np.zeros((4, 3))}, "found [5, 3] and [4, 3]"),
    ],
    ids=str,
)
def test_files_that_hold_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    source = scene_file(tmp_path / "a.npz", changes=changes)
    assert run(source, "-o", tmp_path / "a.ply", "--steps", "2", "--gaussians", "9") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("splat: ")


@pytest.mark.parametrize(("kind", "most"), [(np.uint16, 4095), (np.int32, 255)])
def test_numbers_of_fewer_bits_than_their_type_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: type, most: int
) -> None:
    values = np.linspace(0, most, 1200).reshape(30, 40).astype(kind)
    Image.fromarray(values).save(tmp_path / "a.tiff")
    assert run(tmp_path / "a.tiff", "-o", tmp_path / "a.ply", "--steps", "1", "--gaussians", "9") == 1
    share = f"{round(255 * most / 65535) / 255:.1%}"
    assert f"a.tiff: pictures with something to see are required, found nothing brighter than {share} of the" in (
        capsys.readouterr().err
    )


def test_points_alone_are_not_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(real_scene("test_garden.npz"), "-o", tmp_path / "a.ply") == 1
    assert "images [C, H, W, 3] required, found means3d, colors" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"text"])
@pytest.mark.parametrize("name", ["a.npz", "a.jpg"])
def test_files_that_are_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    assert run(tmp_path / name, "-o", tmp_path / "a.ply") == 1
    assert f"splat: {tmp_path / name}: " in capsys.readouterr().err
    assert run(tmp_path / "none.npz", "-o", tmp_path / "a.ply") == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: -o"),
        (["-o", "a.npz"], "a.npz: the name of a scene to write must end in one of .compressed.ply, .ply, .splat, .sog"),
        (["-o", "a.ply", "--picture", "a.jpg"], "the name must end in .png, found 'a.jpg'"),
        (["-o", "none/a.ply"], "the folder 'none' for 'a.ply' must exist"),
        (["-o", "a.ply", "--steps", "0"], "a whole number from 1 to 2147483647 is required, found '0'"),
        (["-o", "a.ply", "--gaussians", "many"], "a whole number from 1 to 2147483647 is required, found 'many'"),
        (["-o", "a.ply", "--sh-degree", "4"], "argument --sh-degree: invalid choice"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as raised:
        run(*arguments)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err
