"""Photographs with cameras: COLMAP's models and transforms.json, whole, damaged, hostile, and of no use to a fit."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import struct
import tracemalloc
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import photographs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import how_many
from PIL import Image

from splat.fit.drawn_lenses import lens_camera
from splat.fit.fit_memory import FitMemory, scene_bytes
from splat.fit.overlap import seen_by, shared_points
from splat.fit.parameters import neighbour_distances
from splat.fit.photograph_views import Preparation, photograph_views
from splat.fit.views import Views
from splat.photos.capture import Capture, CaptureFolder
from splat.photos.colmap_model import read_model
from splat.photos.folders import read_capture
from splat.photos.lens_models import Lens
from splat.scene.gaussians import SceneError

# What pycolmap 4.2.1 wrote of one model.
WRITTEN = {
    "cameras.bin": "AgAAAAAAAAABAAAAAAAAADAAAAAAAAAAJAAAAAAAAAAAAAAAAABJQAAAAAAAADhAAAAAAAAAMkACAAAAAQAAACQAAAAAAAAA"
    "MAAAAAAAAAAAAAAAAABJQAAAAAAAgElAAAAAAACAMkAAAAAAAAA4QA==",
    "images.bin": "AgAAAAAAAAABAAAAAAAAAAAA8D8AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEEABAAAA"
    "YS5wbmcAAgAAAAAAAAAAAAAAAAAkQAAAAAAAABRAAQAAAAAAAAAAAAAAAAAIQAAAAAAAABxAAgAAAAAAAAACAAAAKi7IO1jX"
    "7z8AAAAAAAAAAFWLBmMTebk/AAAAAAAAAAAAAAAAAADgPwAAAAAAAAAAAAAAAAAAEEACAAAAc3ViL2IucG5nAAIAAAAAAAAA"
    "AAAAAAAAJkAAAAAAAAAUQAEAAAAAAAAAAAAAAAAACEAAAAAAAAAgQAIAAAAAAAAA",
    "points3D.bin": "AgAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAA0D8AAAAAAAAAgAoU/wAAAAAAAPC/AgAAAAAAAAABAAAAAAAAAAIAAAAA"
    "AAAAAgAAAAAAAACamZmZmZm5PwAAAAAAANA/AAAAAAAA4L8KFf8AAAAAAADwvwIAAAAAAAAAAQAAAAEAAAACAAAAAQAAAA==",
    "cameras.txt": "# Camera list\n1 SIMPLE_PINHOLE 48 36 50 24 18\n2 PINHOLE 36 48 50 51 18.5 24\n",
    "images.txt": "# Image list\n1 1 0 0 0 0 0 4 1 a.png\n10 5 1 3 7 2 \n"
    "2 0.99503719020998926 0 0.099503719020998929 0 0.5 0 4 2 sub/b.png\n11 5 1 3 8 2 \n",
    "points3D.txt": "1 0 0.25 -0 10 20 255 -1 1 0 2 0\n2 0.10000000000000001 0.25 -0.5 10 21 255 -1 1 1 2 1\n",
}


def read(folder: Path, **options: Any) -> Views:
    return photograph_views(read_capture(folder), 50, 0, **options)


def parts(folder: Path) -> Path:
    return folder / "sparse" / "0"


# What is read


@pytest.mark.parametrize("ending", [".bin", ".txt"])
def test_a_model_that_colmap_wrote(tmp_path: Path, ending: str) -> None:
    for name, text in WRITTEN.items():
        if name.endswith(ending):
            (tmp_path / name).write_bytes(base64.b64decode(text) if ending == ".bin" else text.encode())
    (tmp_path / "images" / "sub").mkdir(parents=True)
    for name in ("a.png", "sub/b.png"):
        (tmp_path / "images" / name).write_bytes(b"")
    capture = read_model(CaptureFolder(tmp_path), CaptureFolder(tmp_path / "images"))
    first, second = capture.photographs
    assert [p.path.relative_to(tmp_path / "images").as_posix() for p in capture.photographs] == ["a.png", "sub/b.png"]
    assert first.lens == Lens(width=48, height=36, fx=50, fy=50, cx=24, cy=18)
    assert second.lens == Lens(width=36, height=48, fx=50, fy=51, cx=18.5, cy=24)
    assert np.array_equal(first.viewmat, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]])
    angle = 2 * np.arctan(0.1)
    turned = [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    np.testing.assert_allclose(second.viewmat[:3, :3], turned, atol=1e-12)
    assert second.viewmat[:3, 3].tolist() == [0.5, 0, 4]
    assert capture.points.tolist() == [[0, 0.25, 0], [0.1, 0.25, -0.5]]
    assert capture.colors.tolist() == [[10, 20, 255], [10, 21, 255]]


def test_every_way_of_writing_gives_the_same_cameras_and_pictures(tmp_path: Path) -> None:
    folders = [
        photographs.colmap_folder(tmp_path / "binary"),
        photographs.colmap_folder(tmp_path / "text", binary=False),
        photographs.transforms_folder(tmp_path / "transforms"),
    ]
    taken = photographs.cameras(10)
    for folder in folders:
        views = read(folder)
        assert views.names == tuple(f"{index:02}.png" for index in range(10))
        torch.testing.assert_close(views.viewmats, torch.stack([camera.viewmat for camera in taken]), atol=1e-6, rtol=0)
        torch.testing.assert_close(views.Ks, torch.stack([camera.K for camera in taken]))
        for index, image in enumerate(views.images):
            with Image.open(folder / "images" / f"{index:02}.png") as picture:
                assert np.array_equal(image.numpy(), np.asarray(picture))
        assert views.measured == (folder.name != "transforms")
    places, colors = photographs.points(300)
    views = read(folders[0])
    assert np.array_equal(views.points.numpy(), places)
    assert np.array_equal((views.colors * 255).round().byte().numpy(), colors)
    # The folder of the model, or the file, may be named itself.
    assert read(parts(folders[0])).names == read(folders[2] / "transforms.json").names


def test_frames_have_intrinsics_of_their_own_and_angles_do(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    said = json.loads((folder / "transforms.json").read_text())
    focal = said.pop("fl_x")
    for name in ("fl_y", "cx", "cy", "w", "h"):
        del said[name]
    said["camera_angle_x"] = 2 * np.arctan(photographs.WIDTH / 2 / focal)
    said["frames"][3] |= {"fl_x": 99.0, "cx": 7.0}
    for frame in said["frames"]:
        frame["file_path"] = frame["file_path"].removesuffix(".png")
    (folder / "transforms.json").write_text(json.dumps(said))
    Ks = read(folder).Ks
    assert Ks[0].flatten().tolist() == pytest.approx([focal, 0, 20, 0, focal, 15, 0, 0, 1])
    assert Ks[3].flatten().tolist() == pytest.approx([99, 0, 7, 0, 99, 15, 0, 0, 1])


def test_a_matrix_has_the_intrinsics(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    expected = read(folder).Ks
    said = json.loads((folder / "transforms.json").read_text())
    for name in ("fl_x", "fl_y", "cx", "cy"):
        del said[name]
    for frame in said["frames"]:
        frame["K"] = expected[0].tolist()
    said["frames"][3]["K"] = [[99.0, 0, 7.0], [0, 98.0, 8.0], [0, 0, 1]]
    (folder / "transforms.json").write_text(json.dumps(said))
    Ks = read(folder).Ks
    assert Ks[0].tolist() == expected[0].tolist()
    assert Ks[3].tolist() == said["frames"][3]["K"]


def test_the_points_of_a_ply_file_are_taken(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"ply_file_path": "cloud.ply"})
    places, colors = photographs.points(20)
    lines = [f"{' '.join(map(str, [*place, *color]))}" for place, color in zip(places, colors.tolist(), strict=True)]
    header = "ply\nformat ascii 1.0\nelement vertex 20\n" + "".join(f"property float {name}\n" for name in "xyz")
    header += "".join(f"property uchar {name}\n" for name in ("red", "green", "blue")) + "end_header\n"
    (folder / "cloud.ply").write_text(header + "\n".join(lines) + "\n")
    views = read(folder)
    assert views.measured
    np.testing.assert_allclose(views.points.numpy(), places, rtol=1e-6)
    assert np.array_equal((views.colors * 255).round().byte().numpy(), colors)


@pytest.mark.parametrize(
    ("preparation", "size"),
    [(Preparation(downscale=2), (20, 15)), (Preparation(max_size=10), (10, 8)), (Preparation(max_size=400), (40, 30))],
)
def test_smaller_pictures_have_the_camera_of_their_pixels(
    tmp_path: Path, preparation: Preparation, size: tuple[int, int]
) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    whole, views = read(folder), read(folder, preparation=preparation)
    assert set(views.sizes) == {size}
    factors = torch.tensor([[size[0] / 40], [size[1] / 30], [1]])
    torch.testing.assert_close(views.Ks, whole.Ks * factors)
    if size == (20, 15):
        mean = whole.target(0).reshape(15, 2, 20, 2, 3).mean((1, 3))
        assert (views.target(0) - mean).abs().max() < 1.01 / 255


def test_pictures_that_were_made_smaller_before_fit_their_camera(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    (folder / "images_4").mkdir()
    for path in (folder / "images").iterdir():
        with Image.open(path) as picture:
            picture.resize((13, 10)).save(folder / "images_4" / path.name)
    views = photograph_views(read_capture(folder, folder / "images_4"), 50, 0)
    assert set(views.sizes) == {(13, 10)}
    assert views.Ks[0, 0, 2].item() == pytest.approx(6.5)


def test_what_is_transparent_is_black(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    Image.new("RGBA", (40, 30), (200, 100, 50, 51)).save(folder / "images" / "00.png")
    with pytest.warns(UserWarning, match="1 of 10 photographs are transparent in places; the colour 0,0,0 is behind"):
        assert read(folder).images[0][4, 4].tolist() == pytest.approx([40, 20, 10], abs=1)


# What a fit has no use for


def test_one_picture_is_not_enough(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", count=1)
    with pytest.raises(SceneError, match="at least 2 photographs are required, found 1; a single picture"):
        read(folder)


def test_pictures_that_do_not_overlap(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", count=2)
    said = json.loads((folder / "transforms.json").read_text())
    # Back to back.
    for frame, sign in zip(said["frames"], (1, -1), strict=True):
        frame["transform_matrix"] = np.diag([sign, 1.0, sign, 1.0]).tolist()
        frame["transform_matrix"][2][3] = -float(sign)
    (folder / "transforms.json").write_text(json.dumps(said))
    with pytest.raises(SceneError, match="found none that show the same part of it; check the cameras' poses"):
        read(folder)


def test_points_that_no_two_pictures_show_and_pictures_that_share_none(tmp_path: Path) -> None:
    capture = read_capture(photographs.colmap_folder(tmp_path / "a"))
    behind = Capture(**{**vars(capture), "points": capture.points + 1e4})
    with pytest.raises(SceneError, match="found none that show the same part"):
        photograph_views(behind, 50, 0)
    away = np.diag([-1.0, 1, -1, 1]) @ capture.photographs[0].viewmat
    first = type(capture.photographs[0])(capture.photographs[0].path, capture.photographs[0].lens, away)
    with pytest.warns(UserWarning, match="1 of 10 pictures show nothing that any other picture shows"):
        photograph_views(Capture(**{**vars(capture), "photographs": (first, *capture.photographs[1:])}), 50, 0)


def test_pictures_from_one_place(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", count=3)
    said = json.loads((folder / "transforms.json").read_text())
    for frame in said["frames"]:
        for row in frame["transform_matrix"][:3]:
            row[3] = 1.0
    (folder / "transforms.json").write_text(json.dumps(said))
    with pytest.raises(SceneError, match="photographs from several places are required, found 3 from a single one"):
        read(folder)


def test_pictures_that_do_not_fit_into_memory_are_not_read(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    message = r"10 photographs of up to 0\.0 megapixels need about .* GiB of memory; make them smaller: --downscale 2"
    with pytest.raises(SceneError, match=message):
        read(folder, memory=FitMemory(None, 100_000))
    assert len(read(folder, memory=FitMemory(2_000_000, 2_000_000))) == 10
    message = r"need about 0\.1 GiB, of which the Gaussians 0\.1, found 0\.0 GiB of memory; fit fewer with --gaussians"
    with pytest.raises(SceneError, match=message):
        read(folder, memory=FitMemory(2_000_000, 2_000_000, scene_bytes(100_000, 2)))


def test_pictures_that_do_not_fit_into_memory_are_not_unpacked_to_make_them_smaller(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    Image.new("RGB", (400, 300)).save(folder / "images" / "03.png")
    Image.new("RGB", (400, 300)).save(folder / "images" / "04.jpg")
    (folder / "images" / "04.jpg").replace(folder / "images" / "04.png")
    message = r"03\.png: unpacking a picture of 400x300 pixels needs about 0\.0 GiB, found 0\.0 GiB of memory; make it"
    with pytest.raises(SceneError, match=message):
        photograph_views(read_capture(folder), 50, 0, Preparation(max_size=10), memory=FitMemory(10**6, None))
    Image.new("RGB", (40, 30)).save(folder / "images" / "03.png")
    # A JPEG is unpacked at an eighth of its size.
    assert len(photograph_views(read_capture(folder), 50, 0, Preparation(max_size=10), FitMemory(10**6, None))) == 10


def test_pictures_of_other_proportions_or_too_small(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    with pytest.raises(SceneError, match="at least 8x8 pixels are required, found 8x6; choose a smaller --downscale"):
        read(folder, preparation=Preparation(downscale=5))
    Image.new("RGB", (30, 40)).save(folder / "images" / "03.png")
    with pytest.raises(SceneError, match=r"03\.png: a picture of its camera's proportions, 40x30, .* found 30x40"):
        read(folder)


def test_random_points_are_where_two_cameras_look(tmp_path: Path) -> None:
    views = read(photographs.transforms_folder(tmp_path / "a"))
    seers = list(map(lens_camera, views.viewmats, views.Ks, views.sizes, [None] * len(views)))
    seen = seen_by(views.points.double(), seers)
    assert views.points.shape == (50, 3)
    assert (seen.sum(dim=0) >= 2).all()
    # What a camera sees is in front of it and inside its picture.
    ahead = (torch.linalg.inv(views.viewmats[2]) @ torch.tensor([0.0, 0, 1, 1]))[:3]
    behind = (torch.linalg.inv(views.viewmats[2]) @ torch.tensor([0.0, 0, -1, 1]))[:3]
    beside = (torch.linalg.inv(views.viewmats[2]) @ torch.tensor([1.0, 0, 1, 1]))[:3]
    found = seen_by(torch.stack([ahead, behind, beside]).double(), seers[2:3])
    assert found.tolist() == [[True, False, False]]
    again = [shared_points("a", 9, seers, seed()) for _ in range(2)]
    assert torch.equal(*again)


def seed() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def test_distances_to_the_nearest_points() -> None:
    points = torch.rand(300, 3, generator=seed())
    exact = torch.cdist(points, points).sort(dim=1).values[:, 1:4].mean(dim=1)
    torch.testing.assert_close(neighbour_distances(points), exact, rtol=1e-4, atol=1e-5)
    parted = neighbour_distances(points, cell=100)
    assert (parted >= exact - 1e-5).all()
    assert (parted.mean() / exact.mean()).item() < 1.3
    assert neighbour_distances(points[:1]).tolist() == [0]
    assert neighbour_distances(torch.tensor([[0.0, 0, 0], [0, 0, 2]])).tolist() == [2, 2]


# Files that are damaged, half written or hostile


@pytest.mark.parametrize("name", ["cameras.bin", "images.bin", "points3D.bin"])
def test_a_model_that_is_half_written(tmp_path: Path, name: str) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    path = parts(folder) / name
    whole = path.read_bytes()
    for size in {0, 5, 8, 20, 70, len(whole) // 2, len(whole) - 1}:
        if size >= len(whole):
            continue
        path.write_bytes(whole[:size])
        with pytest.raises(SceneError, match=f"{name}: .*(the file ends in the middle|is required, found none)"):
            read_capture(folder)
    path.write_bytes(whole + b"x")
    with pytest.raises(SceneError, match=f"{name}: .*found more behind them"):
        read_capture(folder)
    path.unlink()
    if name == "points3D.bin":
        with pytest.warns(UserWarning, match="no points3D; Gaussians start at random places that two cameras see"):
            assert not read(folder).measured
        return
    with pytest.raises(SceneError, match=f"both .bin or both .txt, and points3D; found no {name}; was it written to"):
        read_capture(folder)


HUGE = struct.pack("<Q", 2**62)
HOSTILE: dict[str, tuple[str, Any, str]] = {
    # pycolmap 4.2.1 takes all memory for this one.
    "a name without an end": ("images.bin", lambda b: b[:72], "a name of at most 4096 bytes and a zero is required"),
    "a long name": ("images.bin", lambda b: b[:72] + b"a" * 9999, "a name of at most 4096 bytes"),
    "many images": ("images.bin", lambda b: HUGE + b[8:], "the file ends in the middle"),
    "many observations": ("images.bin", lambda b: b[:79] + HUGE + b[87:], "the file ends in the middle"),
    "many points": ("points3D.bin", lambda b: HUGE + b[8:], "the file ends in the middle"),
    "a long track": ("points3D.bin", lambda b: b[:51] + HUGE + b[59:], "the file ends in the middle"),
    "many cameras": ("cameras.bin", lambda b: HUGE + b[8:], "the file ends in the middle"),
    "a path": (
        "images.bin",
        lambda b: b.replace(b"00.png", b"../a.p"),
        r"inside .*images is required, found \.\./a\.p",
    ),
    "another root": ("images.bin", lambda b: b.replace(b"00.png", b"/a.png"), "found /a.png"),
    "another camera": (
        "images.bin",
        lambda b: b[:68] + b"\x09" + b[69:],
        "its camera 9 is required in the model's cameras",
    ),
    "a pose that is NaN": ("images.bin", lambda b: b[:44] + b"\xff" * 8 + b[52:], "00.png: a finite pose is required"),
    "no rotation": ("images.bin", lambda b: b[:12] + bytes(32) + b[44:], "00.png: a finite pose with a rotation"),
    "a focal length of NaN": (
        "cameras.bin",
        lambda b: b[:32] + b"\xff" * 8 + b[40:],
        "camera 7: focal lengths above 0",
    ),
    "no focal length": ("cameras.bin", lambda b: b[:32] + bytes(8) + b[40:], "camera 7: focal lengths above 0"),
    "no pixels": ("cameras.bin", lambda b: b[:16] + bytes(8) + b[24:], "camera 7: a size from 1 to 32768 pixels"),
    "many pixels": ("cameras.bin", lambda b: b[:16] + HUGE + b[24:], "camera 7: a size from 1 to 32768 pixels"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_models(tmp_path: Path, case: str) -> None:
    name, change, message = HOSTILE[case]
    folder = photographs.colmap_folder(tmp_path / "a")
    path = parts(folder) / name
    path.write_bytes(change(path.read_bytes()))
    tracemalloc.start()
    try:
        with pytest.raises(SceneError, match=message) as raised:
            read_capture(folder)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(raised.value).startswith(str(folder))
    assert peak < 2**20


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "cameras.txt",
            "SIMPLE_PINHOLE",
            "LATER",
            "camera 7 has the lens model LATER; required: .*FISHEYE.*colmap image_undistorter",
        ),
        ("cameras.txt", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "SIMPLE_RADIAL has 4 parameters, found 3"),
        (
            "cameras.txt",
            "SIMPLE_PINHOLE 40 30",
            "SIMPLE_RADIAL 40 30 nan",
            "coefficients of distortion up to 1000|all fin",
        ),
        ("cameras.txt", " 40 30 ", " 40 30 1 ", "SIMPLE_PINHOLE has 3 parameters, found 4"),
        ("cameras.txt", " 40 ", " many ", r"cameras\.txt: line 2: invalid literal for int"),
        ("images.txt", " 7 00.png", "", r"images\.txt: line 3: at least 10 words are required, found 8"),
        ("images.txt", " 7 00.png", " 7 ../00.png", "inside .* is required"),
        ("points3D.txt", " 0.5 ", " ", None),
    ],
)
def test_damaged_text(tmp_path: Path, name: str, old: str, new: str, message: str | None) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", binary=False)
    path = parts(folder) / name
    path.write_text(path.read_text().replace(old, new, 1))
    if message is None:
        assert len(read(folder)) == 10
        return
    with pytest.raises(SceneError, match=message):
        read(folder)


def test_a_lens_of_a_later_colmap(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    path = parts(folder) / "cameras.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:12] + struct.pack("<i", 99) + whole[16:])
    with pytest.raises(
        SceneError, match=r"camera 7 has the lens model number 99; required: 0 to 17, .*output_type TXT"
    ):
        read_capture(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frames": None}, "frames, a list of pictures, required, found camera_model"),
        ({"frames": [3]}, "frames, a list of pictures, required"),
        ({"frames": [{}]}, "frame 0: file_path, the name of its picture, required, found none"),
        ({"frames": [{"file_path": "../a.png"}]}, "inside .* is required, found ../a.png"),
        ({"frames": [{"file_path": "images/none.png"}]}, "1 of its 1 pictures are missing: .*none.png; put them there"),
        (
            {"frames": [{"file_path": "images/00.png"}]},
            "00.png: transform_matrix, 4 rows of 4 finite numbers, required",
        ),
        ({"frames": [{"file_path": "images/00.png", "transform_matrix": [[float("nan")] * 4] * 4}]}, "a finite pose"),
        ({"frames": [{"file_path": "images/00.png", "transform_matrix": [[2, 1, 0, 0]] * 4}]}, "stretches or mirrors"),
        ({"frames": [{"file_path": "images/00.png", "transform_matrix": [[1e999] * 4] * 4}]}, "a finite pose"),
        ({"frames": [{"file_path": "images/00.png", "transform_matrix": [[1e300] * 4] * 4}]}, "stretches or mirrors"),
        ({"frames": [{"file_path": "images/00.png", "transform_matrix": [10**400]}]}, "4 rows of 4 finite numbers"),
        ({"k4": 0.1}, "OPENCV without k4 is required, found 0.1: programs do not agree .* camera_model is FULL_OPENCV"),
        ({"k1": 1e4}, "coefficients of distortion up to 1000 required, found 10000, 0"),
        ({"camera_model": "OMNIDIRECTIONAL"}, "a camera_model of .* is required, found OMNIDIRECTIONAL"),
        ({"camera_model": []}, r"a camera_model of .* is required, found \[\]"),
        ({"fl_x": None}, "fl_x in pixels, K, or camera_angle_x between 0 and pi, required"),
        ({"fl_x": float("inf")}, "fl_x must be a finite number, found inf"),
        ({"K": 7}, "K must have the rows fl_x 0 cx, 0 fl_y cy and 0 0 1, found 7"),
        ({"K": [[9, 1, 2], [0, 9, 3], [0, 0, 1]]}, "K must have the rows .* lenses with skew are not supported"),
        ({"K": [[9, 0, 2], [0, 9, 3], [0, 0, float("nan")]]}, "K must have the rows"),
        (
            {"K": [[float("nan"), 0, 20], [0, 41.2122, 15], [0, 0, 1]], "fl_x": None},
            "fl_x must be a finite number, found nan",
        ),
        ({"K": [[9, 0, 2], [0, 9, 3], [0, 0, 1]]}, "K and fl_x must agree, found 9 and 41.2122; remove the wrong one"),
        ({"fl_x": "wide"}, "fl_x must be a finite number, found wide"),
        ({"fl_x": -3}, "focal lengths above 0"),
        ({"w": 10**9}, "a size from 1 to 32768 pixels required"),
        ({"ply_file_path": "/etc/passwd"}, "inside .* is required, found /etc/passwd"),
    ],
    ids=str,
)
def test_transforms_that_are_something_else(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes=changes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SceneError, match=message) as raised:
            read(folder)
    assert str(raised.value).startswith(str(folder))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"a": ' * 50_000, "\ud800"])
def test_transforms_that_are_no_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SceneError, match=r"a\.json: Nerfstudio's transforms.json is required, found"):
        read_capture(tmp_path / "a.json")


def test_folders_without_cameras_or_pictures(tmp_path: Path) -> None:
    with pytest.raises(
        SceneError, match=r"a transforms\.json or a transforms_train\.json; found none, and no pictures"
    ):
        read_capture(tmp_path)
    folder = photographs.colmap_folder(tmp_path / "a")
    with pytest.raises(SceneError, match="a folder of pictures is required for --images, found none"):
        read_capture(folder, tmp_path / "none")
    for name in ("01.png", "05.png"):
        (folder / "images" / name).unlink()
    os.mkfifo(folder / "images" / "01.png")  # reading it would never end
    with pytest.warns(UserWarning, match=r"2 of its 10 pictures are missing and left out: .*/01\.png, .*/05\.png"):
        assert len(read_capture(folder).photographs) == 8
    for index in (0, 2, 3, 4):
        (folder / "images" / f"{index:02}.png").unlink()
    with pytest.raises(SceneError, match=r"6 of its 10 pictures are missing: .*; put them there, or name their folder"):
        read_capture(folder)
    (folder / "images").rename(folder / "pictures")
    with pytest.raises(SceneError, match=r"found no such folder; name it: --images .*/a/pictures$"):
        read_capture(folder)


@cache
def small_model(binary: bool) -> dict[str, bytes]:
    taken = photographs.cameras(2)
    if binary:
        return photographs.binary_model(taken, 3)
    return {name: text.encode() for name, text in photographs.text_model(taken, 3).items()}


@settings(max_examples=how_many(50), deadline=None, derandomize=True)
@given(data=st.data())
def test_damaged_models_are_read_or_refused_in_little_memory(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "images" / "00.png").touch()
    (folder / "images" / "01.png").touch()
    binary = data.draw(st.booleans())
    for name in WRITTEN:
        (folder / name).unlink(missing_ok=True)
    files = small_model(binary)
    chosen = data.draw(st.sampled_from(sorted(files)))
    damaged = bytearray(files[chosen])
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + 1] = data.draw(st.binary(max_size=3))
    for name, content in {**files, chosen: bytes(damaged)}.items():
        (folder / name).write_bytes(content)
    tracemalloc.start()
    try:
        with warnings.catch_warnings(), contextlib.suppress(SceneError):
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".* not used: |.* left out: |.*: no cameras for |.* not quite those ")
            read_capture(folder)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20


PIECES = [b"", b"9", b"-", b"e99", b"[", b"]", b"{", b"}", b",", b"null", b"NaN", b'"', b"..", b"\\u0000", b"\xff"]


@settings(max_examples=how_many(50), deadline=None, derandomize=True)
@given(data=st.data())
def test_damaged_transforms_are_read_or_refused_in_little_memory(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged_transforms"
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "images" / "00.png").touch()
    (folder / "images" / "01.png").touch()
    damaged = bytearray(json.dumps(photographs.transforms(photographs.cameras(2))).encode())
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(damaged)))
        damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.sampled_from(PIECES) | st.binary(max_size=2))
    (folder / "transforms.json").write_bytes(damaged)
    tracemalloc.start()
    try:
        with warnings.catch_warnings(), contextlib.suppress(SceneError):
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".* not used: |.* left out: |.* not quite those ")
            read_capture(folder)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20


# Links


def linked(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        path.rename(target)
    else:
        path.replace(target)
    path.symlink_to(target)


OUT = r"a file inside .*a is required, found a link from .* to .*secret.*; copy it there"


@pytest.mark.parametrize("kind", ["colmap", "transforms"])
@pytest.mark.parametrize("name", ["images/03.png", "images"])
def test_links_that_lead_out_of_a_capture(tmp_path: Path, kind: str, name: str) -> None:
    make = photographs.colmap_folder if kind == "colmap" else photographs.transforms_folder
    folder = make(tmp_path / "a")
    linked(folder / name, tmp_path / "secret")
    with pytest.raises(SceneError, match=OUT + ", or name its folder with --images") as raised:
        read(folder)
    assert str(raised.value).startswith(str(folder))
    # As many links as one likes, within the capture or to it.
    (folder / "here").mkdir()
    (folder / name).unlink()
    (tmp_path / "secret").rename(folder / "here" / "photo")
    (folder / name).symlink_to(Path("here", "photo") if name == "images" else Path("..", "here", "photo"))
    (tmp_path / "b").symlink_to(folder)
    assert len(read(tmp_path / "b")) == 10


def test_a_link_that_a_picture_without_an_ending_becomes(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    path = folder / "transforms.json"
    path.write_text(path.read_text().replace("03.png", "03"))
    linked(folder / "images" / "03.png", tmp_path / "secret")
    with pytest.raises(SceneError, match=OUT):
        read(folder)


def test_links_out_of_the_folder_that_images_names(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    (folder / "images").rename(tmp_path / "pictures")
    assert len(photograph_views(read_capture(folder, tmp_path / "pictures"), 50, 0)) == 10
    linked(tmp_path / "pictures" / "03.png", tmp_path / "secret")
    with pytest.raises(SceneError, match=OUT.replace("a is", "pictures is") + ", or name its folder with --images"):
        read_capture(folder, tmp_path / "pictures")


def test_a_link_from_the_masks_of_a_capture(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    (tmp_path / "secret").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "secret" / "03.png.png")
    (folder / "masks").symlink_to(tmp_path / "secret")
    with pytest.raises(SceneError, match="the mask of .*" + OUT + ", or name its folder with --masks"):
        read(folder)


@pytest.mark.parametrize(
    "name",
    [
        "sparse",
        "sparse/0",
        *(f"sparse/0/{part}.{ending}" for part in ("cameras", "images", "points3D") for ending in ("bin", "txt")),
        "sparse/0/points3D.ply",
        "transforms.json",
        "transforms_train.json",
        "transforms_test.json",
    ],
)
def test_a_link_from_what_a_capture_is_known_by(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a"
    if name.startswith("transforms"):
        photographs.transforms_folder(folder)
        said = (folder / "transforms.json").read_bytes()
        if name != "transforms.json":
            (folder / "transforms.json").rename(folder / "transforms_train.json")
            (folder / name).write_bytes(said)
    else:
        photographs.colmap_folder(folder, binary=not name.endswith(".txt"))
        if name.endswith(".ply"):
            (parts(folder) / "points3D.bin").unlink()
            (folder / name).write_bytes(b"")
    linked(folder / name, tmp_path / "secret")
    with pytest.raises(SceneError, match=OUT + "$") as raised:
        read(folder)
    assert str(raised.value).startswith(str(folder))
    # The capture itself may be one, and so may a file that was asked for by its name.
    (folder / name).unlink()
    (tmp_path / "secret").rename(folder / "kept")
    (folder / name).symlink_to(folder / "kept")
    (tmp_path / "b").symlink_to(folder)
    if not name.endswith(".ply"):
        assert len(read_capture(tmp_path / "b").photographs) >= 10
    if name == "transforms.json":
        (folder / name).unlink()
        (folder / "kept").rename(tmp_path / "secret")
        (folder / name).symlink_to(tmp_path / "secret")
        assert len(read_capture(folder / name).photographs) == 10


def test_a_link_from_ply_file_path(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"ply_file_path": "cloud.ply"})
    (folder / "cloud.ply").write_bytes(b"")
    linked(folder / "cloud.ply", tmp_path / "secret.ply")
    with pytest.raises(SceneError, match="ply_file_path: " + OUT + "$"):
        read(folder)


def test_a_circle_of_links_is_no_picture(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    path = folder / "images" / "03.png"
    path.unlink()
    path.symlink_to(path)
    with pytest.warns(UserWarning, match=r"1 of its 10 pictures are missing and left out: .*03\.png"):
        assert len(read_capture(folder).photographs) == 9


@pytest.mark.parametrize("name", ["\0", " ", "a\ud800", "", "a/../../00.png", "a" * 5000])
def test_names_that_no_picture_has(tmp_path: Path, name: str) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"frames": [{"file_path": name}]})
    with pytest.raises(SceneError, match=r"frame 0: the name of a file inside .* is required, found") as raised:
        read(folder)
    assert str(raised.value).isprintable()


def test_frames_share_what_the_file_says_of_all(tmp_path: Path) -> None:
    """And do not copy it: names that mean nothing took a time that grew with their square."""
    more = {f"a{i}": i for i in range(100_000)}
    folder = photographs.transforms_folder(tmp_path / "a", count=2, changes=more)
    said = json.loads((folder / "transforms.json").read_text())
    said["frames"] *= 2000
    (folder / "transforms.json").write_text(json.dumps(said))
    with pytest.warns(UserWarning, match="not used: a0, a1, .* and 99988 more"):
        assert len(read_capture(folder).photographs) == 4000
