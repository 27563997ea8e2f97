"""`.ksplat` files: ones made by hand of each compression level, and broken ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from ksplat_files import KsplatPart, ksplat_file
from scene_files import refused_in_little_memory

from splat.scene.file_input import LeftOutWarning
from splat.scene.formats import FORMATS, read_scene
from splat.scene.gaussians import SH_C0, Gaussians


def scene_of(tmp_path: Path, data: bytes) -> Gaussians:
    (tmp_path / "a.ksplat").write_bytes(data)
    return read_scene(tmp_path / "a.ksplat")


@pytest.mark.parametrize("degree", range(3))
@pytest.mark.parametrize("level", range(3))
def test_a_ksplat_file_by_hand(tmp_path: Path, level: int, degree: int) -> None:
    found = scene_of(tmp_path, ksplat_file(level, [KsplatPart([0, 1, 2, 2], degree)]))
    if level:
        expected = [[10.0, 18, 32], [-12, 0, 0], [-2, 0, 5], [-2, 0, 5]]
    else:
        expected = [[32.767, 0, 65.534], *[[0, 32.767, 32.767]] * 3]
    torch.testing.assert_close(found.means, torch.tensor(expected))
    assert found.scales.tolist() == [[0.5, 0.25, 2]] * 4
    assert found.quats.tolist() == [[0, 0.5, -0.5, 1]] * 4
    torch.testing.assert_close(found.opacities, torch.full((4,), 0.4))
    torch.testing.assert_close(0.5 + SH_C0 * found.sh[:, 0], torch.tensor([[0, 0.2, 1]] * 4))
    assert found.degree == degree
    if degree:
        numbers = torch.arange(9.0 if degree == 1 else 24)
        values = numbers / 255 * 4 - 2 if level == 2 else numbers / 64
        # Of each degree, those of red come first.
        torch.testing.assert_close(found.sh[0, 1:4], values[:9].reshape(3, 3).T)
        if degree == 2:
            torch.testing.assert_close(found.sh[0, 4:], values[9:].reshape(3, 5).T)
    assert FORMATS[".ksplat"].describe(tmp_path / "a.ksplat") == f".ksplat version 0.1, compression level {level}"


def test_full_buckets_come_first(tmp_path: Path) -> None:
    found = scene_of(tmp_path, ksplat_file(1, [KsplatPart([0, 0, 1, 1, 2], full=2)]))
    assert found.means[:, 2].tolist() == [32, 30, 0, 0, 5]
    halves = scene_of(tmp_path, ksplat_file(1, [KsplatPart([0, 0, 1, 1, 2], full=2, steps=65534)]))
    assert halves.means[0].tolist() == [9, 18, 30]


def test_sections_of_different_degrees(tmp_path: Path) -> None:
    parts = [KsplatPart([0]), KsplatPart([], room=0), KsplatPart([1, 2], degree=2), KsplatPart([0], degree=1)]
    found = scene_of(tmp_path, ksplat_file(1, parts))
    assert (len(found), found.degree) == (4, 2)
    assert found.means[:, 0].tolist() == [10, -10, -2, 10]
    assert not found.sh[0, 1:].any()
    assert not found.sh[3, 4:].any()
    assert found.sh[3, 3, 2] == 8 / 64


def test_what_is_not_finite_is_left_out(tmp_path: Path) -> None:
    data = bytearray(ksplat_file(1, [KsplatPart([0, 1])]))
    data[-2 * 24 + 6 : -2 * 24 + 8] = b"\0\x7c"  # an infinite standard deviation
    with pytest.warns(LeftOutWarning, match="left out 1 of 2"):
        assert len(scene_of(tmp_path, bytes(data))) == 1


def changed(at: int, value: int, size: int = 4, level: int = 1) -> bytes:
    """A file with another number at a position."""
    data = bytearray(ksplat_file(level, [KsplatPart([0, 1])]))
    data[at : at + size] = value.to_bytes(size, "little")
    return bytes(data)


BROKEN = {
    "nothing": (b"", "a .ksplat file begins with 4096 bytes, found 0"),
    "header": (bytes(4095), "a .ksplat file begins with 4096 bytes, found 4095"),
    "zeros": (bytes(9999), "version 0.1 of .ksplat is required, found 0.0"),
    "version": (changed(0, 1, 1), "version 0.1 of .ksplat is required, found 1.1"),
    "level": (ksplat_file(1, [KsplatPart([0])], said_level=3), "a compression level from 0 to 2 is required, found 3"),
    "sections": (
        ksplat_file(1, [KsplatPart([0])], sections=99),
        "99 sections need as many headers, found fewer",
    ),
    "many sections": (ksplat_file(1, [], sections=2**32 - 1), "4294967295 sections need as many headers, found fewer"),
    "other number": (ksplat_file(1, [KsplatPart([0])], gaussians=9), "the sections must hold 9 Gaussians, found 1"),
    "degree": (changed(4096 + 40, 3, 2), "the degree of the spherical harmonics must be 0 to 2, found 3"),
    "more": (changed(4096, 3), "a section must have bytes for its 3 Gaussians, found 2"),
    "room": (
        changed(4096 + 4, 2**32 - 1),
        "a section of 4294967295 Gaussians needs 103079215128 bytes, found 96",
    ),
    "floats": (changed(4096 + 4, 3, level=0), "a section of 3 Gaussians needs 132 bytes, found 88: truncated"),
    "buckets": (changed(4096 + 12, 2**32 - 1), "needs 51539607600 bytes, found 96: truncated"),
    "few buckets": (changed(4096 + 12, 2), "3 buckets need as many centres, found 2"),
    "partial": (changed(4096 + 36, 2**32 - 1), "needs 17179869264 bytes, found 96: truncated"),
    "full": (changed(4096 + 32, 2**32 - 1), "4294967298 buckets need as many centres, found 3"),
    "short buckets": (changed(5120, 0), "the buckets of a section must hold its 2 Gaussians, found 1"),
    "centre": (changed(4096 + 20, 16, 2), "a bucket's centre must have 12 bytes, found 16"),
    "cut": (ksplat_file(1, [KsplatPart([0])])[:-1], "a section of 1 Gaussians needs 72 bytes, found 71: truncated"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(tmp_path: Path, case: str) -> None:
    data, message = BROKEN[case]
    (tmp_path / "a.ksplat").write_bytes(data)
    refused_in_little_memory(tmp_path / "a.ksplat", message)
