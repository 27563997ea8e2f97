"""Files appear whole or not at all, in a folder that others can write to as well."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from splat.scene import file_output
from splat.scene.file_output import check_writable, replacing


def test_a_file_takes_the_place_of_another_when_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "scene").write_bytes(b"old")
    with replacing(tmp_path / "scene") as file:
        file.write(b"new")
        assert (tmp_path / "scene").read_bytes() == b"old"

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"scene": b"new"}


def write_half(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "scene").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "scene")

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"scene": b"old"}


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "scene.ply")
    with pytest.raises(FileExistsError, match=r"a file that can be replaced is required, found a pipe or a device at"):
        check_writable(tmp_path / "scene.ply", ".ply", "scenes")


@pytest.mark.parametrize("size", [100, 100_000])
@pytest.mark.parametrize(
    "write",
    [lambda file, size: file.write(bytes(size)), lambda file, size: np.savez(file, a=np.zeros(size, np.uint8))],
    ids=["bytes", "arrays"],
)
def test_a_full_disk_names_the_file(tmp_path: Path, write: Callable[[BinaryIO, int], object], size: int) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))  # a larger file fails as on a full disk
    try:
        with pytest.raises(OSError, match="scene") as raised, replacing(tmp_path / "scene") as file:
            write(file, size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.filename == str(tmp_path / "scene")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_through_a_link_that_somebody_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_output.secrets, "token_hex", lambda size: "guessed")
    (tmp_path / "precious").write_bytes(b"precious")
    link = tmp_path / ".scene.guessed.tmp"
    link.symlink_to("precious")

    with pytest.raises(FileExistsError):
        write_half(tmp_path / "scene")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert link.is_symlink()  # it is not ours to remove
