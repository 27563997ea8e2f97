"""Photographs found by the names that files and pages give: with or without an ending, and only in their folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat.photos.named_picture import find_picture, read_small
from splat.scene.gaussians import SceneError


def test_pictures_are_found_by_name_and_only_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    (folder / "left").mkdir(parents=True)
    for path in (folder / "a.png", folder / "left" / "b.JPG", tmp_path / "secret.png"):
        path.touch()
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "circle.png").symlink_to(folder / "circle.png")
    for name, found in (("a.png", "a.png"), ("a", "a.png"), ("left/b.JPG", "left/b.JPG"), ("left/b", "left/b.JPG")):
        assert find_picture(folder, name) == folder / found
    assert find_picture(folder, "left/../a.png") == folder / "a.png"
    outside = ("../secret.png", "../secret", str(tmp_path / "secret.png"), "left/../../secret.png", "link.png", "link")
    for name in (*outside, "circle.png", "none.png", "", ".", "left", "a.png\0", "x" * 9999, "/", "a.png/b"):
        assert find_picture(folder, name) is None, name
    (tmp_path / "other").symlink_to(folder)
    assert find_picture(tmp_path / "other", "a.png") == folder / "a.png", "the folder itself may be a link"


def test_pictures_are_read_small_and_turned(tmp_path: Path) -> None:
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, :40] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    found = read_small(tmp_path / "a.png", 20)
    assert found.shape == (20, 10, 3)
    assert (found[0, 0, 0], found[-1, 0, 0]) == (255, 0)
    assert read_small(tmp_path / "a.png", 999).shape == (80, 40, 3), "not larger than it is"
    (tmp_path / "b.png").write_bytes(b"GIF89a")
    with pytest.raises(SceneError, match=r"b\.png"):
        read_small(tmp_path / "b.png", 20)
