"""Captures as others lay them out: the files of NeRF's scenes, Nerfstudio's lists, and which pictures are held out."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import photographs
import pytest
import torch
from fit_runs import run
from PIL import Image

from splat.fit.held_out import HoldOut
from splat.fit.photograph_views import photograph_views
from splat.fit.views import Views
from splat.photos.folders import check_no_capture, read_capture
from splat.scene.gaussians import SceneError


def nerf_folder(folder: Path, splits: dict[str, range]) -> Path:
    """A folder like those of NeRF's synthetic scenes: names without an ending, an angle, and a file for each use."""
    said = photographs.transforms(photographs.take_pictures(folder / "pictures", 10))
    for split, indices in splits.items():
        (folder / split).mkdir()
        frames = []
        for place, index in enumerate(indices):
            (folder / "pictures" / f"{index:02}.png").rename(folder / split / f"r_{place}.png")
            frame = said["frames"][index]
            frames.append({"file_path": f"./{split}/r_{place}", "rotation": 0.0126, **pose(frame)})
        angle = 2 * math.atan(photographs.WIDTH / 2 / said["fl_x"])
        photographs.write_transforms(folder, {"camera_angle_x": angle, "frames": frames}, f"transforms_{split}.json")
    return folder


def pose(frame: dict[str, Any]) -> dict[str, Any]:
    return {"transform_matrix": frame["transform_matrix"]}


def test_a_scene_of_nerf_is_fitted_to_its_train_pictures_and_measured_by_its_test_pictures(tmp_path: Path) -> None:
    folder = nerf_folder(tmp_path / "a", {"train": range(6), "test": range(6, 9), "val": range(9, 10)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        views = photograph_views(read_capture(folder), 50, 0)
    words = [str(warning.message) for warning in caught]
    assert len(words) == 2
    assert "transforms_val.json: not used, " in words[0]
    assert words[0].endswith("transforms_test.json is what the scene is measured by")
    assert words[1].endswith("transforms_train.json: not used: rotation")
    chosen = HoldOut().choose(views)
    assert [views.names[view] for view in chosen] == ["test/r_0.png", "test/r_1.png", "test/r_2.png"]
    assert len(views) == 9
    whole = photograph_views(read_capture(photographs.transforms_folder(tmp_path / "b")), 50, 0)
    # In the order of their paths: test before train.
    order = [6, 7, 8, 0, 1, 2, 3, 4, 5]
    torch.testing.assert_close(views.viewmats, whole.viewmats[order])
    torch.testing.assert_close(views.Ks, whole.Ks[order])
    assert all(torch.equal(image, whole.images[place]) for image, place in zip(views.images, order, strict=True))


def test_a_scene_of_nerf_without_test_pictures(tmp_path: Path) -> None:
    folder = nerf_folder(tmp_path / "a", {"train": range(6), "val": range(6, 9)})
    with pytest.warns(UserWarning, match="not used: rotation"):
        views = photograph_views(read_capture(folder), 50, 0)
    assert len(HoldOut().choose(views)) == 3
    (folder / "transforms_val.json").unlink()
    with pytest.warns(UserWarning, match="not used: rotation"):
        views = photograph_views(read_capture(folder), 50, 0)
    assert len(views) == 6
    assert HoldOut().choose(views) == []


def test_lists_of_nerfstudio_say_what_is_held_out(tmp_path: Path) -> None:
    names = [f"images/{index:02}.png" for index in range(10)]
    said = {"train_filenames": names[:7], "val_filenames": names[7:8], "test_filenames": names[7:]}
    folder = photographs.transforms_folder(tmp_path / "a", changes=said)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        views = photograph_views(read_capture(folder), 50, 0)
    assert HoldOut().choose(views) == [7, 8, 9]
    assert HoldOut(every=5).choose(views) == [0, 5]


def read_with_lists(folder: Path, **lists: list[str]) -> tuple[Views, list[str]]:
    """A capture of ten pictures with these lists, and the warnings."""
    photographs.transforms_folder(folder, changes=lists)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        views = photograph_views(read_capture(folder), 50, 0)
    return views, [str(warning.message) for warning in caught]


def test_lists_that_are_stale_are_named(tmp_path: Path) -> None:
    names = [f"images/{index:02}.png" for index in range(10)]
    views, said = read_with_lists(
        tmp_path / "a", train_filenames=names[:5], test_filenames=[*names[5:7], "images/z.png"]
    )
    assert views.names == tuple(f"{index:02}.png" for index in range(7))
    assert HoldOut().choose(views) == [5, 6]
    assert len(said) == 2
    assert said[0].endswith("train_filenames and test_filenames name 1 pictures that no frame has: images/z.png")
    assert "3 of its 10 pictures are in none of train_filenames, " in said[1]
    assert "left out: images/07.png, images/08.png, images/09.png; " in said[1]
    views, said = read_with_lists(tmp_path / "b", train_filenames=["images/z.png"])
    assert (len(views), len(said)) == (10, 1), "lists of which nothing is there"
    views, said = read_with_lists(tmp_path / "c", test_filenames=names[:2])
    assert (HoldOut().choose(views), said) == ([0, 1], []), "the others are to be trained on"


@pytest.mark.parametrize(
    "form", ["./images/{}.png", "{}.png", "a/images/{}.png", "images\\{}.png", "images/x/../{}", "{}"]
)
def test_lists_may_name_pictures_in_another_way(tmp_path: Path, form: str) -> None:
    names = [form.format(f"{index:02}") for index in range(10)]
    views, said = read_with_lists(tmp_path / "a", train_filenames=names[:8], test_filenames=names[8:])
    assert (HoldOut().choose(views), said) == ([8, 9], [])


@pytest.mark.parametrize("form", ["other/{}.png", "images/{}.jpg", "x{}.png"])
def test_lists_of_other_pictures_are_not_taken_for_these(tmp_path: Path, form: str) -> None:
    views, said = read_with_lists(tmp_path / "a", test_filenames=[form.format(f"{index:02}") for index in range(10)])
    assert not any(views.held_out)
    assert len(said) == 1
    assert "10 pictures that no frame has" in said[0]


def test_a_picture_is_never_both_fitted_to_and_held_out(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    shutil.copy(folder / "images" / "03.png", folder / "images" / "00.png")
    Image.open(folder / "images" / "07.png").save(folder / "images" / "05.png", compress_level=0)
    views = photograph_views(read_capture(folder), 50, 0)
    same = r"4 of 10 pictures are there more than once: 00\.png = 03\.png, 05\.png = 07\.png; "
    (tmp_path / "names.txt").write_text("05.png\n01.png")
    for hold_out, expected in (
        (HoldOut(), [0, 3]),  # the first of eight different ones
        (HoldOut(every=4), [0, 3, 5, 7]),  # 0, 1, 2, 4, 5, 6, 8, 9
        (HoldOut(names=tmp_path / "names.txt"), [1, 5, 7]),
    ):
        with pytest.warns(UserWarning, match=same) as caught:
            assert hold_out.choose(views) == expected
        assert len(caught) == 1
    with pytest.warns(UserWarning, match=same):
        assert HoldOut().choose(replace(views, held_out=(None,) * 7 + (True,) + (False,) * 2)) == [5, 7]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert HoldOut(every=0).choose(views) == []


def test_the_command_names_pictures_that_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    shutil.copy(folder / "images" / "03.png", folder / "images" / "00.png")
    assert run(folder, "-o", tmp_path / "a.ply", "--steps", "2", "--gaussians", "100") == 0
    assert "warning: 2 of 10 pictures are there more than once: 00.png = 03.png;" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("every", "chosen"), [(None, [0, 8]), (3, [0, 3, 6, 9]), (0, []), (9, [0, 9])], ids=["default", "3", "none", "9"]
)
def test_one_picture_in_some_is_held_out(tmp_path: Path, every: int | None, chosen: list[int]) -> None:
    views = photograph_views(read_capture(photographs.colmap_folder(tmp_path / "a")), 50, 0)
    assert HoldOut(every).choose(views) == chosen


def test_pictures_are_held_out_by_name(tmp_path: Path) -> None:
    views = photograph_views(read_capture(photographs.colmap_folder(tmp_path / "a")), 50, 0)
    names = tmp_path / "names.txt"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):  # of Linux, and of Windows' editors and its PowerShell
        names.write_text("03.png\r\n\n 05.png \n", encoding)
        assert HoldOut(names=names).choose(views) == [3, 5]
    names.write_text("03.png\n33.png")
    with pytest.raises(
        SceneError, match=r"names\.txt: names of the pictures, like 00\.png, are required, found 33\.png"
    ):
        HoldOut(names=names).choose(views)
    names.write_text("".join(f"{index:02}.png\n" for index in range(10)))
    with pytest.raises(SceneError, match=r"found 10 of 10 held out; --hold-out 0 holds none"):
        HoldOut(names=names).choose(views)
    names.write_text("")
    with pytest.raises(SceneError, match=r"names\.txt: .* found 0 of 10 held out"):
        HoldOut(names=names).choose(views)
    names.write_text("picture 4\n")  # as those that have no names are called everywhere
    assert HoldOut(names=names).choose(replace(views, names=())) == [3]


def test_pictures_of_several_folders_keep_their_folders(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", binary=False)
    model, names = folder / "sparse" / "0" / "images.txt", []
    for index in range(10):
        names.append(f"cam{index % 2}/{index // 2}.png")
        (folder / "images" / names[-1]).parent.mkdir(exist_ok=True)
        (folder / "images" / f"{index:02}.png").rename(folder / "images" / names[-1])
        model.write_text(model.read_text().replace(f"{index:02}.png", names[-1]))
    views = photograph_views(read_capture(folder), 50, 0)
    assert sorted(views.names) == sorted(names)
    chosen = tmp_path / "names.txt"
    chosen.write_text("cam1/0.png")
    assert [views.names[view] for view in HoldOut(names=chosen).choose(views)] == ["cam1/0.png"]
    # One mask is not that of two photographs.
    (folder / "masks").mkdir()
    Image.new("L", (40, 30), "white").save(folder / "masks" / "0.png")
    with pytest.raises(SceneError, match=r"0\.png: a mask for each photograph is required, found one for .*0/0\.png"):
        read_capture(folder)
    for camera in ("cam0", "cam1"):
        (folder / "masks" / camera).mkdir()
        Image.new("L", (40, 30), "white").save(folder / "masks" / camera / "0.png")
    assert sum(photograph.mask is not None for photograph in read_capture(folder).photographs) == 2


def test_pictures_of_different_sizes_and_cameras(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    path = folder / "images" / "02.png"
    Image.open(path).resize((80, 60)).save(path)
    said = json.loads((folder / "transforms.json").read_text())
    said["frames"][2] |= {"w": 80, "h": 60, "fl_x": 2 * said["fl_x"], "fl_y": 2 * said["fl_y"], "cx": 40, "cy": 30}
    photographs.write_transforms(folder, said)
    views = photograph_views(read_capture(folder), 50, 0)
    assert views.sizes == [(40, 30)] * 2 + [(80, 60)] + [(40, 30)] * 7
    torch.testing.assert_close(views.Ks[2, :2], 2 * views.Ks[1, :2])


def test_both_angles_of_view_are_used(tmp_path: Path) -> None:
    said = {"fl_x": None, "fl_y": None, "camera_angle_x": math.pi / 2, "camera_angle_y": math.pi / 3}
    lens = read_capture(photographs.transforms_folder(tmp_path / "a", changes=said)).photographs[0].lens
    assert lens.fx == pytest.approx(20)
    assert lens.fy == pytest.approx(15 / math.tan(math.pi / 6))


def test_what_is_not_used_is_named_once(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"aabb_scale": 4, "\x1b[2J": 0})
    said = json.loads((folder / "transforms.json").read_text())
    for frame in said["frames"]:
        frame["sharpness"] = 3
    photographs.write_transforms(folder, said)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_capture(folder)
    (warning,) = caught
    assert str(warning.message).endswith(r"transforms.json: not used: '\x1b[2J', aabb_scale, sharpness")


def test_some_pictures_of_a_transforms_file_may_be_missing(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    for index in (1, 3, 5, 7, 9):
        (folder / "images" / f"{index:02}.png").unlink()
    with pytest.warns(UserWarning, match=r"5 of its 10 pictures are missing and left out: .*01\.png, .*09\.png"):
        assert len(read_capture(folder).photographs) == 5
    (folder / "images" / "02.png").unlink()
    with pytest.raises(SceneError, match=r"6 of its 10 pictures are missing: .*put them there"):
        read_capture(folder)


def test_pictures_of_a_model_in_scannet_s_folder(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    (folder / "images").rename(folder / "color")
    assert {photograph.path.parent.name for photograph in read_capture(folder).photographs} == {"color"}


def test_points_that_are_missing(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", changes={"ply_file_path": "sparse_pc.ply"})
    with pytest.raises(SceneError, match=r"ply_file_path, .*, is required, found no sparse_pc\.ply; put it there, or"):
        read_capture(folder)
    (folder / "sparse_pc.ply").mkdir()
    with pytest.raises(SceneError, match=r"ply_file_path, .*, is required, found no sparse_pc\.ply; put it there, or"):
        read_capture(folder)


def test_the_largest_of_several_models_is_taken(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    sparse = folder / "sparse"
    (sparse / "0").rename(sparse / "10")
    (sparse / "2").mkdir()
    for name, data in photographs.binary_model(photographs.cameras(10)[:3]).items():
        (sparse / "2" / name).write_bytes(data)
    with pytest.warns(UserWarning, match=r"sparse: 2 models, .*sparse/10 is used, the largest"):
        assert len(read_capture(folder).photographs) == 10


def test_pictures_without_cameras_are_counted(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    for name, data in photographs.binary_model(photographs.cameras(10)[:3]).items():
        (folder / "sparse" / "0" / name).write_bytes(data)
    with pytest.warns(UserWarning, match=r"no cameras for 7 of the 10 pictures of .*images; these are not used"):
        assert len(read_capture(folder).photographs) == 3


def test_pictures_that_were_made_smaller_are_found(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    (folder / "images").rename(folder / "images_4")
    assert {photograph.path.parent.name for photograph in read_capture(folder).photographs} == {"images_4"}


LAYOUTS = {
    "photographs": (["a.JPG", "b.jpg"], r"2 pictures without cameras.*automatic_reconstructor --image_path \S+/c "),
    "their folder": (["images/a.png"], r"1 pictures without cameras.*--image_path \S+images "),
    "ScanNet": (
        ["color/0.jpg", "color/1.jpg", "depth/0.png", "depth/1.png", "depth/2.png", "label-filt/0.png", "pose/0.txt"],
        r"2 pictures without cameras.*--image_path \S+color ",
    ),
    "another folder": (["images/a.txt", "frames/a.jpg", "masks/a.png"], r"1 pictures without.*--image_path \S+frames "),
    "a database": (
        ["database.db", "images/a.png"],
        r"colmap mapper --database_path \S+database.db --image_path \S+ima",
    ),
    "a model alone, a folder too deep": (
        ["b/sparse/0/cameras.bin"],
        r"pictures are required in \S+/c/b/images, .*name",
    ),
    "two captures": (
        ["b/sparse/0/cameras.bin", "b/images/a.jpg", "d/transforms.json"],
        "one folder of photographs with cameras is required, found 2 in it: b, d; fit one of them",
    ),
    "what macOS adds": (["._a.jpg", "__MACOSX/transforms.json", ".a/transforms.json"], "found none, and no pictures"),
    "Polycam": (["keyframes/corrected_cameras/1.json"], "ns-process-data polycam"),
    "Record3D": (["metadata.json", "rgb/0.jpg"], "ns-process-data record3d"),
    "OpenDroneMap": (["opensfm/reconstruction.json", "images/a.jpg"], "ns-process-data odm"),
    "Metashape": (["cameras.xml", "a.jpg"], "ns-process-data metashape"),
    "RealityCapture": (["cameras.csv", "a.jpg"], "ns-process-data realitycapture"),
    "LLFF": (["poses_bounds.npy", "images/a.jpg"], "poses_bounds.npy, which is not read"),
    "a video": (["clip.MOV"], "ns-process-data video"),
    "nothing": (["notes.txt"], "found none, and no pictures"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_without_cameras_is_told_what_makes_them(tmp_path: Path, layout: str) -> None:
    names, message = LAYOUTS[layout]
    with pytest.raises(SceneError, match=message):
        read_capture(laid_out(tmp_path / "c", names))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_command_can_be_given_to_a_shell_as_it_stands(tmp_path: Path, layout: str) -> None:
    folder = laid_out(tmp_path / "my c; ls", LAYOUTS[layout][0])
    with pytest.raises(SceneError) as raised:
        read_capture(folder)
    _, dashes, options = str(raised.value).partition(" --")
    words = shlex.split(dashes + options)
    assert not any("my c" in word and not word.startswith(str(folder)) for word in words)
    assert not any(word.endswith("my") for word in words)


def laid_out(folder: Path, names: list[str]) -> Path:
    """A folder of empty files."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_what_stands_for_no_capture(tmp_path: Path) -> None:
    (tmp_path / "a.zip").touch()
    with pytest.raises(SceneError, match=r"a\.zip: a folder of photographs is required, found an archive; unpack it"):
        check_no_capture(tmp_path / "a.zip")
    with pytest.raises(FileNotFoundError):
        check_no_capture(tmp_path / "none")
