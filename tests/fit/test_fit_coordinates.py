"""Captures at coordinates of a map: fitted near the origin, and written where they were."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import photographs
import pytest
import torch
from fit_runs import run

from splat.commands.command_files import load_scene
from splat.fit.checkpoints import digest_of
from splat.fit.photograph_views import photograph_views
from splat.fit.picture_views import read_views
from splat.fit.training import FitOptions, Trainer
from splat.fit.views import Views
from splat.photos.folders import read_capture
from splat.scene.camera_list import read_taken
from splat.scene.gaussians import SceneError

ORIGIN = np.array([500_000.25, 4_600_000.5, 300.125])


def numbers(values: list[float]) -> str:
    return " ".join(map(repr, values))


def on_a_map(folder: Path) -> Path:
    """The folder, its text files changed to coordinates of a map, in float64."""
    if (folder / "transforms.json").exists():
        said = json.loads((folder / "transforms.json").read_text())
        for frame in said["frames"]:
            for row, shift in zip(frame["transform_matrix"], ORIGIN.tolist(), strict=False):
                row[3] += shift
        photographs.write_transforms(folder, said)
        return folder
    parts = folder / "sparse" / "0"
    taken = {f"{n:02}.png": p.viewmat for n, p in enumerate(read_capture(folder).photographs)}
    lines = [line.split() for line in (parts / "images.txt").read_text().splitlines()]
    for words in lines:
        if words[-1:] and words[-1] in taken:
            viewmat = taken[words[-1]]
            words[5:8] = numbers((viewmat[:3, 3] - viewmat[:3, :3] @ ORIGIN).tolist()).split()
    (parts / "images.txt").write_text("\n".join(map(" ".join, lines)) + "\n")
    lines = [line.split() for line in (parts / "points3D.txt").read_text().splitlines()]
    for words in lines:
        words[1:4] = numbers((np.array(words[1:4], float) + ORIGIN).tolist()).split()
    (parts / "points3D.txt").write_text("\n".join(map(" ".join, lines)) + "\n")
    return folder


def as_read(folder: Path) -> Views:
    return photograph_views(read_capture(folder), 50, 0)


@pytest.mark.parametrize("kind", ["colmap", "transforms"])
def test_a_capture_on_a_map_is_read_as_well_as_at_the_origin(tmp_path: Path, kind: str) -> None:
    def made(name: str) -> Path:
        folder = tmp_path / name
        is_model = kind == "colmap"
        return photographs.colmap_folder(folder, binary=False) if is_model else photographs.transforms_folder(folder)

    here = as_read(made("a"))
    with pytest.warns(UserWarning, match=r"coordinates of a map; the offset 500000,4600\d+,300 is taken off") as caught:
        there = as_read(on_a_map(made("b")))
    assert len(caught) == 1
    assert here.offset == (0, 0, 0)
    moved = torch.tensor(ORIGIN - np.array(there.offset), dtype=torch.float64)
    turns, shifts = here.viewmats[:, :3, :3].double(), here.viewmats[:, :3, 3].double()
    torch.testing.assert_close(there.viewmats[:, :3, :3], here.viewmats[:, :3, :3])
    torch.testing.assert_close(there.viewmats[:, :3, 3].double(), shifts - turns @ moved, atol=2e-6, rtol=0)
    if kind == "colmap":
        torch.testing.assert_close(there.points.double(), here.points.double() + moved, atol=2e-6, rtol=0)


def test_a_fit_is_written_at_the_coordinates_of_the_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = on_a_map(photographs.colmap_folder(tmp_path / "a", binary=False))
    steps = ("--steps", "4", "--gaussians", "300", "--sh-degree", "0", "--checkpoint-every", "2")
    assert run(folder, "-o", tmp_path / "scene.ply", *steps) == 0
    assert capsys.readouterr().err.count("coordinates of a map") == 1
    scene = load_scene(tmp_path / "scene.ply")
    middle = scene.coordinates.median(dim=0).values.numpy()
    assert np.abs(middle - ORIGIN).max() < 3
    (taken, *_) = read_taken(tmp_path / "scene.cameras.json", scene)
    capture = {photograph.path.name: photograph.viewmat for photograph in read_capture(folder).photographs}
    turn, shift = (lambda m: (m[:3, :3], m[:3, 3]))(capture[taken.name])
    np.testing.assert_allclose(taken.camera.pose(scene.offset)[0].numpy(), -turn.T @ shift, atol=1e-5)


def test_a_checkpoint_is_of_one_place(tmp_path: Path) -> None:
    views = as_read(photographs.colmap_folder(tmp_path / "a"))
    options = FitOptions(steps=2, gaussians=300, sh_degree=0)
    digests = {digest_of(Trainer(replace(views, offset=(x, 0, 0)), options)) for x in (0.0, 1000.0)}
    assert len(digests) == 2


def written(tmp_path: Path, shift: np.ndarray[tuple[int], np.dtype[np.float64]], skew: float = 0) -> Path:
    taken = photographs.cameras(3)
    viewmats = np.stack([camera.viewmat.double().numpy() for camera in taken])
    viewmats[:, :3, 3] -= viewmats[:, :3, :3] @ shift
    Ks = np.stack([camera.K.numpy() for camera in taken])
    Ks[1, 0, 1] = skew
    images = np.stack([np.asarray(image) for image in photographs.pictures(3)])
    points, colors = photographs.points(20)
    path = tmp_path / "scene.npz"
    np.savez(path, images=images, viewmats=viewmats, Ks=Ks, points=points + shift, colors=colors)
    return path


def test_arrays_on_a_map_and_lenses_with_skew(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        here = read_views([written(tmp_path, 0 * ORIGIN)], 9, 0)
    with pytest.warns(UserWarning, match="coordinates of a map"):
        there = read_views([written(tmp_path, ORIGIN)], 9, 0)
    moved = torch.tensor(ORIGIN - np.array(there.offset)).float()
    torch.testing.assert_close(there.points, here.points + moved, atol=2e-6, rtol=0)
    with pytest.raises(SceneError, match=r"Ks must be fx 0 cx, .*, found \[\[.*, 5\.0, .* for picture 2: "):
        read_views([written(tmp_path, ORIGIN, skew=5)], 9, 0)
