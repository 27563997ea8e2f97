"""Whatever a command is given to read is a regular file: a pipe is not waited for, and a device is not opened."""

from __future__ import annotations

import os
import signal
import socket
import stat
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import photographs
import pytest

from splat.fit.picture_views import read_views
from splat.photos.folders import read_capture
from splat.photos.pictures import picture_size, read_resized
from splat.scene.camera_file import read_camera
from splat.scene.camera_path import read_path
from splat.scene.file_input import opened_file
from splat.scene.formats import FORMATS, read_scene
from splat.scene.gaussians import SceneError
from splat.scene.npz import read_npz

# What reads a file, by the name that the file has.
SCENES = {suffix: suffix[1:] if suffix.startswith("/") else f"a{suffix}" for suffix in FORMATS}
READERS: list[tuple[str, Callable[[Path], Any]]] = [
    *((name, read_scene) for name in SCENES.values()),
    *((f"a{suffix}", FORMATS[suffix].describe) for suffix in (".ply", ".spz")),
    *((name, FORMATS[suffix].read) for suffix, name in SCENES.items()),
    ("camera.json", read_camera),
    ("path.json", read_path),
    ("a.png", lambda path: read_views([path], 9, 0)),
    ("a.png", picture_size),
    ("a.png", lambda path: read_resized(path, (9, 9))),
    ("a.npz", lambda path: read_views([path], 9, 0)),
    ("checkpoint.npz", lambda path: read_npz(path, ["fit"])),
    ("transforms.json", read_capture),
]


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    # Bound by its name alone: those of sockets are short, and those of tests' folders are long.
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


OTHERS: dict[str, Callable[[Path], None]] = {
    "a pipe": make_pipe,
    "a socket": make_socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """What waits for a pipe is ended, and fails."""

    def fail(number: int, frame: FrameType | None) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("found", OTHERS)
@pytest.mark.parametrize(("name", "read"), READERS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_no_regular_file_is_refused(tmp_path: Path, name: str, read: Callable[[Path], Any], found: str) -> None:
    OTHERS[found](tmp_path / name)
    with pytest.raises(SceneError) as raised:
        read(tmp_path / name)
    assert str(raised.value) == (
        f"{tmp_path / name}: a regular file is required, found {found}; save it to a file first"
    )


@pytest.mark.parametrize(("name", "read"), READERS, ids=lambda value: value if isinstance(value, str) else "")
def test_folders_and_names_that_lead_nowhere(tmp_path: Path, name: str, read: Callable[[Path], Any]) -> None:
    (tmp_path / name).symlink_to(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        read(tmp_path / name)
    if read is not read_capture:  # which takes a folder
        (tmp_path / "none").mkdir()
        with pytest.raises(IsADirectoryError):
            read(tmp_path / name)


@pytest.mark.parametrize("part", ["cameras.bin", "images.bin", "points3D.bin"])
def test_a_model_with_a_pipe_in_it(tmp_path: Path, part: str) -> None:
    folder = photographs.colmap_folder(tmp_path / "a", count=2)
    path = folder / "sparse" / "0" / part
    path.unlink()
    make_pipe(path)
    with pytest.raises(SceneError, match=f"{part}: a regular file is required, found a pipe"):
        read_capture(folder)


def test_a_transforms_json_that_names_a_pipe_of_points(tmp_path: Path) -> None:
    folder = photographs.transforms_folder(tmp_path / "a", count=2, changes={"ply_file_path": "a.ply"})
    make_pipe(folder / "a.ply")
    with pytest.raises(SceneError, match=r"a\.ply: a regular file is required, found a pipe"):
        read_capture(folder)


def test_a_file_that_becomes_a_pipe_while_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_pipe(tmp_path / "a.ply")
    (tmp_path / "b.ply").touch()
    regular = (tmp_path / "b.ply").stat()
    monkeypatch.setattr(Path, "stat", lambda self, **_: regular)
    with pytest.raises(SceneError, match="a regular file is required, found a pipe"):
        read_scene(tmp_path / "a.ply")


def test_a_file_is_read_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with opened_file(tmp_path / "a") as file:
        assert stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        assert not os.get_inheritable(file.fileno())
        assert file.read() == b"abc"
    assert file.closed


def test_what_is_asked_of_a_file_takes_no_more_memory_than_it_has(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    tracemalloc.start()
    try:
        with opened_file(tmp_path / "a") as file:
            assert file.read(1) == b"a"
            assert file.read(2**32) == b"bc"
            assert file.read(2**32) == b""
            file.seek(0)
            assert file.read() == b"abc"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "a pointer of Git LFS.*git lfs pull"),
        (b"\n\n  <!DOCTYPE html>\n<html>", "a web page.*download the raw file"),
    ],
)
@pytest.mark.parametrize("name", ["a.ply", "a.splat", "a.ksplat", "a.spz", "a.sog", "a.glb", "a.gltf"])
def test_what_clones_and_downloads_leave_in_a_files_place(
    tmp_path: Path, name: str, content: bytes, found: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SceneError, match=rf"{name}: the file itself is required, found {found}"):
        read_scene(tmp_path / name)
