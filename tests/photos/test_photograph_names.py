"""Captures as other systems and programs leave them: other names, other folders, one bad line, one bad picture."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import photographs
import pytest
from PIL import Image

from splat.fit.photograph_views import photograph_views
from splat.photos.capture import CaptureFolder
from splat.photos.folders import read_capture
from splat.photos.name_matching import find_files
from splat.scene.gaussians import SceneError

CLOUD = """\
ply
format ascii 1.0
element vertex 2
property float x
property float y
property float z
property uchar red
property uchar green
property uchar blue
end_header
0 0 0 9 8 7
0.1 0 0 255 0 0
"""


def said_while_reading(folder: Path, images: Path | None = None) -> tuple[list[str], list[str]]:
    """The names of the photographs, relative to the folder, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        views = photograph_views(capture := read_capture(folder, images), 50, 0)
    assert len(views) == len(capture.photographs)
    return [os.path.relpath(p.path, folder) for p in capture.photographs], [str(w.message) for w in caught]


def renamed(folder: Path, change: Callable[[str], str]) -> None:
    """Change the names that the capture's files have of its pictures."""
    if (folder / "transforms.json").exists():
        said = json.loads((folder / "transforms.json").read_text())
        for frame in said["frames"]:
            frame["file_path"] = change(frame["file_path"])
        photographs.write_transforms(folder, said)
        return
    path = folder / "sparse" / "0" / "images.txt"
    lines = [line.split() for line in path.read_text().splitlines()]
    lines = [[*words[:9], change(words[9])] if len(words) == 10 else words for words in lines]
    path.write_text("\n".join(" ".join(words) for words in lines) + "\n")


OTHERS: dict[str, Callable[[str], str]] = {
    "absolute": lambda name: f"/data/capture/{name}",
    "a drive": lambda name: "C:\\data\\" + name.replace("/", "\\"),
    "backslashes": lambda name: ".\\" + name.replace("/", "\\"),
    "another case": lambda name: name.upper(),
    "a folder too many": lambda name: f"capture/{name}",
}


@pytest.mark.parametrize("kind", ["colmap", "transforms"])
@pytest.mark.parametrize("other", OTHERS)
def test_names_of_another_system_are_found(tmp_path: Path, kind: str, other: str) -> None:
    made = tmp_path / "a"
    if kind == "colmap":
        photographs.colmap_folder(made, binary=False)
    else:
        photographs.transforms_folder(made)
    renamed(made, OTHERS[other])
    names, said = said_while_reading(made)
    assert names == [f"images/{index:02}.png" for index in range(10)]
    (words,) = said
    assert "10 of its 10 names are not quite those of the files, which are taken: " in words
    # And if the folder of the pictures is given.
    if kind == "transforms" and other != "backslashes":
        assert said_while_reading(made, made / "images")[0] == names


def test_names_that_lack_a_folder_are_found(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    renamed(folder, lambda name: Path(name).stem)
    assert said_while_reading(folder)[0] == [f"images/{index:02}.png" for index in range(10)]


def test_accents_may_be_composed_or_not(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    renamed(folder, lambda name: unicodedata.normalize("NFC", name.replace("03", "bäume")))
    (folder / "images" / "03.png").rename(folder / "images" / unicodedata.normalize("NFD", "bäume.png"))
    names, said = said_while_reading(folder)
    assert unicodedata.normalize("NFD", "images/bäume.png") in names
    assert "1 of its 10 names are not quite" in said[0]


@pytest.mark.parametrize("page", ["cp1252", "cp437", "cp936"])
@pytest.mark.parametrize("files", ["utf-8", "the same"])
def test_names_in_the_code_page_of_a_windows_machine(tmp_path: Path, page: str, files: str) -> None:
    name = "图.png" if page == "cp936" else "bäume.png"
    folder = photographs.colmap_folder(tmp_path / "a", binary=False)
    path = folder / "sparse" / "0" / "images.txt"
    path.write_bytes(path.read_text().replace("03.png", name).encode(page))
    there = name if files == "utf-8" else os.fsdecode(name.encode(page))
    (folder / "images" / "03.png").rename(folder / "images" / there)
    names, said = said_while_reading(folder)
    assert sorted(names)[-1] == f"images/{there}"
    assert len(said) == (files == "utf-8")


def test_no_name_is_taken_for_another_pictures(tmp_path: Path) -> None:
    """Two cameras, whose pictures have the same names; those of one are missing."""
    folder = photographs.transforms_folder(tmp_path / "a")
    for index in range(5):
        (folder / "left").mkdir(exist_ok=True)
        (folder / "images" / f"{index:02}.png").rename(folder / "left" / f"{index:02}.png")
        (folder / "images" / f"{index + 5:02}.png").unlink()
    renamed(folder, lambda name: f"{'left' if int(name[-6:-4]) < 5 else 'right'}/{int(name[-6:-4]) % 5:02}.png")
    names, said = said_while_reading(folder)
    assert names == [f"left/{index:02}.png" for index in range(5)]
    assert said[0].count("5 of its 10 pictures are missing and left out: ") == len(said) == 1
    # If folders have gone, neither answers.
    for path in sorted((folder / "left").iterdir()):
        path.rename(folder / path.name)
    with pytest.raises(SceneError, match=r"found only 00\.png for 2 of them, like left/00\.png and right/00\.png"):
        read_capture(folder)


def test_a_name_that_several_files_have_or_another_name_has_is_not_taken(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    for place in ("b", "c"):
        (folder / place).mkdir()
        shutil.copy(folder / "images" / "00.png", folder / place / "twin.png")
    (folder / "c" / "other.png").write_bytes((folder / "images" / "00.png").read_bytes())
    # Of two folders; in a folder of another name; and another picture's own file.
    others = {"images/01.png": "twin.png", "images/02.png": "d/other.png", "images/03.png": "04.png"}
    renamed(folder, lambda name: others.get(name, name))
    names, said = said_while_reading(folder)
    assert names == [f"images/{index:02}.png" for index in (0, 4, 5, 6, 7, 8, 9)]
    assert said[0].count("3 of its 10 pictures are missing and left out: ") == len(said) == 1


def test_a_name_that_was_looked_for_leads_no_further_than_others(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    (folder / "images" / "03.png").rename(tmp_path / "secret.png")
    (folder / "images" / "03.png").symlink_to(tmp_path / "secret.png")
    renamed(folder, OTHERS["absolute"])
    with pytest.raises(SceneError, match=r"a file inside .*a is required, found a link from images/03\.png to "):
        read_capture(folder)
    renamed(folder, lambda name: f"../{name}")
    with pytest.raises(SceneError, match=r"the name of a file inside .* is required, found "):
        read_capture(folder)


UPWARDS: dict[str, Callable[[str], str]] = {
    "upwards": lambda name: f"../{name}",
    "upwards on Windows": lambda name: "..\\" + name.replace("/", "\\"),
    "there and back": lambda name: f"../images/../{name}",
    "by another way": lambda name: f"a/../../{name}",
    "by its own name": lambda name: f"../../c/{name}",
}


@pytest.mark.parametrize("way", UPWARDS)
def test_a_list_of_pictures_beside_their_folder(tmp_path: Path, way: str) -> None:
    whole = tmp_path / "c"
    photographs.transforms_folder(whole / "nerf", changes={"ply_file_path": UPWARDS[way]("a.ply")})
    (whole / "nerf" / "images").rename(whole / "images")
    (whole / "a.ply").write_text(CLOUD)
    renamed(whole / "nerf", UPWARDS[way])
    names, said = said_while_reading(whole)
    assert names == [f"images/{index:02}.png" for index in range(10)]
    assert said[0] == f"{whole}: the cameras are those of the folder {whole / 'nerf'} in it"
    assert (len(said) == 1) == ("\\" not in UPWARDS[way](""))
    # Alone, it leads out of what was given, and the message says what works.
    for given in (whole / "nerf", whole / "nerf" / "transforms.json"):
        with pytest.raises(SceneError, match=r"ply_file_path: the name of a file inside .*nerf is required") as raised:
            read_capture(given)
        command = str(raised.value).partition("to fix: splat fit ")[2].partition(", which")[0]
        assert said_while_reading(Path(command))[0] == names
    said_of_all = json.loads((whole / "nerf" / "transforms.json").read_text())
    del said_of_all["ply_file_path"]
    photographs.write_transforms(whole / "nerf", said_of_all)
    with pytest.raises(SceneError, match=r"frame 0: the name of a file inside .*nerf is required, found ") as raised:
        read_capture(whole / "nerf")
    option = str(raised.value).partition("add --images ")[2]
    assert said_while_reading(whole / "nerf", Path(option))[0] == [f"../{name}" for name in names]


def test_names_that_lead_upwards_stay_in_the_capture(tmp_path: Path) -> None:
    whole = tmp_path / "c"
    photographs.transforms_folder(whole / "nerf")
    (whole / "nerf" / "images").rename(tmp_path / "images")
    for name in ("../../images", "../x/../../images", "..//../images", "images/../../../images"):
        renamed(whole / "nerf", lambda old, name=name: f"{name}/{old[-6:]}")  # type: ignore[misc]
        with pytest.raises(SceneError, match=r"frame 0: the name of a file inside .*c is required, found .*00\.png"):
            read_capture(whole)
    # And what they lead to may be a link no more than elsewhere.
    renamed(whole / "nerf", lambda old: f"../images/{old[-6:]}")
    (whole / "images").symlink_to(tmp_path / "images")
    with pytest.raises(SceneError, match=r"a file inside .*c is required, found a link from \.\./images/00\.png to "):
        read_capture(whole)


@pytest.mark.parametrize(
    "name", ["images/../images/00.png", "./images//00.png", "{}/images/00.png", "../a/images/00.png"]
)
def test_names_that_lead_back_into_the_folder_are_its_files(tmp_path: Path, name: str) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    renamed(folder, lambda old: name.format(folder) if old.endswith("00.png") else old)
    assert said_while_reading(folder) == ([f"images/{index:02}.png" for index in range(10)], [])


@pytest.mark.parametrize("kind", ["colmap", "transforms"])
def test_pictures_of_another_format(tmp_path: Path, kind: str) -> None:
    """Programs that remove backgrounds write PNG files for JPEG ones."""
    made = tmp_path / "a"
    if kind == "colmap":
        photographs.colmap_folder(made, binary=False)
    else:
        photographs.transforms_folder(made)
    renamed(made, lambda name: f"{name[:-4]}.JPG")
    names, said = said_while_reading(made)
    assert names == [f"images/{index:02}.png" for index in range(10)]
    (words,) = said
    assert "10 of its 10 names are not quite those of the files, which are taken: " in words
    # Of two, neither is taken; nor is a mask.
    shutil.copy(made / "images" / "03.png", made / "images" / "03.webp")
    (made / "images" / "masks").mkdir()
    (made / "images" / "04.png").rename(made / "images" / "masks" / "04.png")
    said = said_while_reading(made)[1]
    assert "2 of its 10 pictures are missing and left out: " in " ".join(said)


def test_a_mask_is_not_taken_for_a_photograph_nor_a_photograph_for_a_mask(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    said = json.loads((folder / "transforms.json").read_text())
    for frame in said["frames"]:
        frame["mask_path"] = f"/data/masks/{frame['file_path'][-6:]}"
        frame["file_path"] = f"/data/{frame['file_path']}"
    photographs.write_transforms(folder, said)
    with pytest.raises(SceneError, match=r"found only 00\.png for 2 of them, like .*; name the folder that has all of"):
        read_capture(folder, folder / "images")
    shutil.copytree(folder / "images", folder / "masks")
    with pytest.warns(UserWarning, match="20 of its 20 names are not quite"):
        assert read_capture(folder).photographs[3].mask == folder / "masks" / "03.png"
    renamed(folder, lambda name: name[-6:])
    shutil.rmtree(folder / "images")
    with pytest.raises(SceneError, match="10 of its 10 pictures are missing"):
        read_capture(folder)


def work(count: int, folder: Path) -> int:
    """Instructions of Python that it takes to look for as many names of as many files, alike but for their case."""
    folder.mkdir()
    letters = "abcdefghijklmnop"
    names = ["".join(c.upper() if i >> at & 1 else c for at, c in enumerate(letters)) for i in range(2 * count)]
    for name in names[:count]:
        (folder / f"{name}.png").touch()
    done = 0

    def count_instructions(frame: FrameType, event: str, _: object) -> object:
        nonlocal done
        if "photos" not in frame.f_code.co_filename and not frame.f_code.co_filename.endswith("pathlib.py"):
            return None
        frame.f_trace_opcodes = True
        done += event == "opcode"
        return count_instructions

    before = sys.gettrace()
    sys.settrace(count_instructions)
    try:
        found = find_files(folder, CaptureFolder(folder), dict.fromkeys(names[count:], "a"), ("", ".png"))
    finally:
        sys.settrace(before)
    assert len(found) == count
    return done


def test_the_work_grows_with_the_names_and_files_and_not_with_their_product(tmp_path: Path) -> None:
    assert work(128, tmp_path / "b") < 4.5 * work(32, tmp_path / "a")


def test_a_message_shows_the_end_of_a_long_name(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    renamed(folder, lambda name: f"/home/somebody/with/a/long/name/captures/of/last/year/other/{name}x")
    with pytest.raises(SceneError, match=r"found \.\.\..*/of/last/year/other/images/00\.pngx"):
        read_capture(folder)


# Folders


@pytest.mark.parametrize("deeper", ["capture", "dense/0"])
@pytest.mark.parametrize("kind", ["colmap", "transforms"])
def test_the_folder_may_be_some_levels_deeper(tmp_path: Path, deeper: str, kind: str) -> None:
    make = photographs.colmap_folder if kind == "colmap" else photographs.transforms_folder
    folder = make(tmp_path / deeper)
    (tmp_path / "__MACOSX" / deeper).mkdir(parents=True)
    names, said = said_while_reading(tmp_path)
    assert names[0] == f"{deeper}/images/00.png"
    assert said == [f"{tmp_path}: the cameras are those of the folder {folder} in it"]


def test_the_undistorted_pictures_are_used_where_the_others_are_elsewhere(tmp_path: Path) -> None:
    photographs.colmap_folder(tmp_path / "dense" / "0")
    shutil.copytree(tmp_path / "dense" / "0" / "sparse", tmp_path / "sparse")
    assert said_while_reading(tmp_path)[0][0] == "dense/0/images/00.png"


def test_the_model_that_convert_py_begins_with(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    (folder / "images").rename(folder / "input")
    (folder / "distorted").mkdir()
    (folder / "sparse").rename(folder / "distorted" / "sparse")
    names, said = said_while_reading(folder)
    assert names[0] == "input/00.png"
    assert said == [f"{folder}: the cameras are those of the folder {folder / 'distorted'} in it"]


# One bad line, one bad picture


@pytest.mark.parametrize("bad", ["-nan(ind) 0.5 0.5 1 2 3", "1.#QNAN 0 0 1 2 3", "nan 0 0 1 2 3", "0 0 inf 1 2 3", "x"])
def test_one_bad_point_is_left_out(tmp_path: Path, bad: str) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", binary=False)
    path = folder / "sparse" / "0" / "points3D.txt"
    path.write_text(f"# points\n{path.read_text()}7 {bad} 0.5\n")
    with pytest.warns(UserWarning, match=r"points3D\.txt: .*left out: 1 of 301 .*the first in line 302: ") as caught:
        assert len(photograph_views(read_capture(folder), 50, 0).points) == 300
    assert len(caught) == 1
    path.write_text("# points\n" + f"7 {bad} 0.5\n" * 9)
    with pytest.raises(SceneError, match=r"points3D\.txt: finite points are required, found 9 of 9 .* in line 2: "):
        read_capture(folder)


def test_one_bad_point_of_a_binary_file_is_left_out(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    path = folder / "sparse" / "0" / "points3D.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:16] + b"\xff" * 8 + whole[24:])
    with pytest.warns(UserWarning, match="left out: 1 of 300 that are not"):
        assert len(read_capture(folder).points) == 299


def test_points_of_a_ply_file_beside_a_model(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    (folder / "sparse" / "0" / "points3D.bin").unlink()
    (folder / "sparse" / "0" / "points3D.ply").write_text(CLOUD)
    capture = read_capture(folder)
    assert capture.points.round(6).tolist() == [[0, 0, 0], [0.1, 0, 0]]
    assert capture.colors.tolist() == [[9, 8, 7], [255, 0, 0]]


def test_images_of_one_line_each(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", binary=False)
    path = folder / "sparse" / "0" / "images.txt"
    path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines() if line.endswith(".png")))
    assert said_while_reading(folder) == ([f"images/{index:02}.png" for index in range(10)], [])


def test_windows_puts_a_mark_in_front_of_text(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", binary=False)
    for path in (folder / "sparse" / "0").iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert said_while_reading(folder)[1] == []
    other = photographs.transforms_folder(tmp_path / "b")
    path = other / "transforms.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert said_while_reading(other)[1] == []


def test_a_file_that_is_no_json_says_where(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a")
    path = folder / "transforms.json"
    path.write_bytes(path.read_bytes().replace(b"images/03.png", b"images/b\xe4ume.png"))
    with pytest.raises(SceneError, match=r"'utf-8' codec can't decode byte 0xe4 in position \d+: invalid continuation"):
        read_capture(folder)
    path.write_text('{"frames": [\n\n{"file_path": }]}')
    with pytest.raises(SceneError, match="Expecting value: line 3 column 15"):
        read_capture(folder)


@pytest.mark.parametrize("kind", ["empty", "text", "truncated"])
def test_one_damaged_picture_is_left_out(tmp_path: Path, kind: str) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    path = folder / "images" / "03.png"
    path.write_bytes({"empty": b"", "text": b"not a picture", "truncated": path.read_bytes()[:600]}[kind])
    with pytest.warns(UserWarning, match=r"1 of 10 pictures cannot be read and are left out: .*03\.png.*, found "):
        views = photograph_views(read_capture(folder), 50, 0)
    assert views.names == tuple(f"{index:02}.png" for index in range(10) if index != 3)
    assert len(views.viewmats) == len(views.Ks) == len(views.images) == len(views.held_out) == 9
    for index in range(6):
        (folder / "images" / f"{index:02}.png").write_bytes(path.read_bytes())
    with pytest.raises(SceneError, match=r"6 of 10 pictures cannot be read: .*0[0-5]\.png: a picture "):
        photograph_views(read_capture(folder), 50, 0)


def test_what_macos_leaves_beside_each_file_is_no_picture(tmp_path: Path) -> None:
    folder = photographs.colmap_folder(tmp_path / "a")
    for path in list((folder / "images").iterdir()):
        path.with_name(f"._{path.name}").write_bytes(b"Mac OS X")
    assert said_while_reading(folder)[1] == []
    Image.new("RGB", (40, 30)).save(folder / "images" / "another.png")
    assert "no cameras for 1 of the 11 pictures" in said_while_reading(folder)[1][0]
