"""Scene formats: files built by hand from their descriptions, round trips within their precision, and broken files."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
import os
import re
import struct
import sys
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command_runs import run
from gltf_files import gaussians, glb, one_primitive
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ksplat_files import KsplatPart, ksplat_file
from mutations import how_many
from ply_files import WHOLE, XYZ, header, no_other_warning, text
from scene_files import MEBIBYTE, angles, refused_in_little_memory, some_scene
from scenes import real_scene
from sog_files import sog_archive, sog_meta, sog_parts

import splat
from splat.scene import formats, spz, spz_values
from splat.scene.compressed_ply_writer import chunk_order, nearby
from splat.scene.file_input import LeftOutWarning, usable
from splat.scene.formats import FORMATS, WRITERS, losses_of, read_scene, write_scene
from splat.scene.gaussians import SH_C0, Gaussians, SceneError
from splat.scene.ply import read_ply
from splat.scene.splat_file import RECORD, decode_splat, encode_splat
from splat.scene.spz import encode_spz_file, read_spz, write_spz


def zstd_missing() -> bool:
    for name in ("compression.zstd", "backports.zstd"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
            return False
    return True


needs_zstd = pytest.mark.skipif(zstd_missing(), reason="neither Python 3.14 nor backports.zstd is here")


@pytest.mark.parametrize("length", [1e-38, 1e-30, 1e-20, 1e-13, 1e20, 1e30, 1e38])
@pytest.mark.parametrize("ending", [".ply", ".splat", ".spz", ".sog", ".glb"])
def test_rotations_of_any_length_are_rotations(tmp_path: Path, ending: str, length: float) -> None:
    """Its square is 0 or infinite in float32, and a rotation was lost, or another one drawn."""
    scene = some_scene(50, degree=0)
    unit = torch.nn.functional.normalize(scene.quats, dim=1)
    long = replace(scene, quats=unit * length)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_scene(tmp_path / f"unit{ending}", replace(scene, quats=unit))
        write_scene(tmp_path / f"long{ending}", long)
        expected, found = (read_scene(tmp_path / f"{name}{ending}").quats for name in ("unit", "long"))
        torch.testing.assert_close(found, expected)
        assert angles(usable(long, tmp_path).quats, unit).max() < 1e-3


# .splat


def splat_record(mean: tuple[float, ...], scale: tuple[float, ...], color: list[int], quat: list[int]) -> bytes:
    return struct.pack("<6f8B", *mean, *scale, *color, *quat)


def test_a_splat_file_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "a.splat"
    path.write_bytes(
        splat_record((1.5, -2, 3), (0.1, 0.2, -0.3), [0, 51, 255, 102], [192, 128, 64, 128])
        + splat_record((0, 0, 0), (1, 1, 1), [255, 255, 255, 255], [255, 128, 128, 128])
    )
    found = read_scene(path)
    assert found.means.tolist() == [[1.5, -2, 3], [0, 0, 0]]
    torch.testing.assert_close(found.scales[0], torch.tensor([0.1, 0.2, 0.3]))
    torch.testing.assert_close(0.5 + SH_C0 * found.sh[0, 0], torch.tensor([0, 0.2, 1]))
    torch.testing.assert_close(found.opacities, torch.tensor([0.4, 1]))
    expected = torch.nn.functional.normalize(torch.tensor([[64.5, 0.5, -63.5, 0.5], [127.5, 0.5, 0.5, 0.5]]), dim=1)
    torch.testing.assert_close(found.quats, expected)
    assert found.degree == 0


def test_rotations_are_read_as_other_programs_write_them() -> None:
    """convert.py of antimatter15/splat and splat-transform leave out what is behind the point of 128 q + 128."""
    rng = np.random.default_rng(0)
    quats = rng.normal(size=(20_000, 4))
    quats /= np.linalg.norm(quats, axis=1, keepdims=True)
    table = np.zeros(len(quats), RECORD)
    table["quat"] = (quats * 128 + 128).clip(0, 255).astype(np.uint8)
    found = decode_splat(table).quats.double()
    assert (found - torch.from_numpy(quats)).mean(dim=0).abs().max() < 1e-4  # not half a step too small
    assert angles(found, torch.from_numpy(quats)).max() < 0.016
    # As splat-transform reads them.
    middles = table["quat"] / 255 * 2 - 1
    expected = torch.from_numpy(middles / np.linalg.norm(middles, axis=1, keepdims=True))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_rotations_are_written_as_other_programs_write_them() -> None:
    scene = some_scene(1000, degree=0)
    quats = torch.nn.functional.normalize(scene.quats.double(), dim=1).numpy()
    expected = (quats * 128 + 128).clip(0, 255).astype(np.uint8)
    differ = encode_splat(scene)["quat"].astype(int) - expected
    assert (differ != 0).mean() < 1e-3  # where float32 and float64 are on two sides of a whole number


def test_splat_bytes_by_hand() -> None:
    scene = Gaussians(
        means=torch.tensor([[1.5, -2, 3]]),
        quats=torch.tensor([[5.0, 0, 0, 0]]),
        scales=torch.tensor([[0.1, 0.2, 0.3]]),
        opacities=torch.tensor([0.4]),
        sh=(torch.tensor([[[-0.3, 0.2, 1.5]]]) - 0.5) / SH_C0,
    )
    expected = splat_record((1.5, -2, 3), (0.1, 0.2, 0.3), [0, 51, 255, 102], [255, 128, 128, 128])
    assert encode_splat(scene).tobytes() == expected


def test_splat_round_trip(tmp_path: Path) -> None:
    scene = some_scene(degree=0)
    scene = Gaussians(**{**vars(scene), "sh": scene.sh.clamp(-1, 1)})
    write_scene(tmp_path / "a.splat", scene)
    found = read_scene(tmp_path / "a.splat")
    assert (tmp_path / "a.splat").stat().st_size == 32 * len(scene)
    assert torch.equal(found.means, scene.means)
    assert torch.equal(found.scales, scene.scales)
    assert (found.opacities - scene.opacities).abs().max() <= 0.5 / 255 + 1e-6
    assert (SH_C0 * (found.sh - scene.sh)).abs().max() <= 0.5 / 255 + 1e-6
    assert angles(found.quats, scene.quats).max() < 0.016
    assert losses_of(".splat", scene) == []


def test_a_rotation_of_nothing_in_a_splat_file_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.splat"
    whole = splat_record((0, 0, 0), (1, 1, 1), [0] * 4, [255, 128, 128, 128])
    path.write_bytes(whole + splat_record((0, 0, 0), (1, 1, 1), [0] * 4, [128] * 4))
    with pytest.warns(LeftOutWarning, match=r"a\.splat: left out 1 of 2 Gaussians, which have a NaN") as caught:
        assert len(read_scene(path)) == 1
    assert isinstance(caught[0].message, LeftOutWarning)
    assert caught[0].message.left_out == 1


# .spz

POSITION = b"\x00\x18\x00\x00\xfc\xff\x00\x20\x00"  # 1.5, -0.25 and 2 in steps of 1/4096
ALPHA = b"\x66"  # 102 of 255
COLORS = b"\x00\x33\xff"
SCALES = bytes([160, 144, 176])  # logarithms 0, -1 and 1
FIRST_THREE = bytes([191, 128, 64])
# w is the largest; x is 361/511 and z is -361/511 of the square root of a half.
SMALLEST_THREE = struct.pack("<I", 3 << 30 | 361 << 20 | 0 << 10 | 512 | 361)
HARMONICS = bytes([192, 128, 64, 128, 0, 255, 160, 128, 96])


def gzip_header(version: int, count: int = 1, degree: int = 1, bits: int = 12, flags: int = 0) -> bytes:
    return b"NGSP" + struct.pack("<IIBBBB", version, count, degree, bits, flags, 0)


def spz_by_hand(version: int, flags: int = 0, extensions: bytes = b"") -> bytes:
    """A file of one Gaussian with spherical harmonics of degree 1."""
    position = np.array([1.5, -0.25, 2], "<f2").tobytes() if version == 1 else POSITION
    rotation = SMALLEST_THREE if version >= 3 else FIRST_THREE
    parts = [position, ALPHA, COLORS, SCALES, rotation, HARMONICS]
    if version < 4:
        return gzip.compress(gzip_header(version, flags=flags) + b"".join(parts) + extensions)
    frames = [zstd_frame(part) for part in parts]
    table = b"".join(struct.pack("<QQ", len(f), len(p)) for f, p in zip(frames, parts, strict=True))
    start = b"NGSP" + struct.pack("<IIBBBBI12x", 4, 1, 1, 12, flags, len(parts), 32 + len(extensions))
    return start + extensions + table + b"".join(frames)


def zstd_frame(data: bytes) -> bytes:
    """A frame of RFC 8878 with the size in a byte and one block that is not compressed."""
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + (len(data) << 3 | 1).to_bytes(3, "little") + data


VERSIONS = [1, 2, 3, pytest.param(4, marks=needs_zstd)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_spz_file_by_hand(tmp_path: Path, version: int) -> None:
    (tmp_path / "a.spz").write_bytes(spz_by_hand(version))
    found = read_scene(tmp_path / "a.spz")
    # y and z of the file point the other way.
    assert found.means.tolist() == [[1.5, 0.25, -2]]
    torch.testing.assert_close(found.scales.log(), torch.tensor([[0.0, -1, 1]]))
    torch.testing.assert_close(found.opacities, torch.tensor([0.4]))
    torch.testing.assert_close(0.15 * found.sh[0, 0] + 0.5, torch.tensor([0, 0.2, 1]))
    assert found.sh[0, 1:].tolist() == [[-0.5, 0, 0.5], [0, 1, -127 / 128], [0.25, 0, -0.25]]
    half = 361 / 511 * 0.5**0.5
    xyz = (half, 0, -half) if version >= 3 else (191 / 127.5 - 1, 128 / 127.5 - 1, 64 / 127.5 - 1)
    w = (1 - sum(value * value for value in xyz)) ** 0.5
    torch.testing.assert_close(found.quats, torch.tensor([[w, xyz[0], -xyz[1], -xyz[2]]]))
    assert FORMATS[".spz"].describe(tmp_path / "a.spz").startswith(f".spz version {version}, centres in ")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_spz_file_that_was_unpacked_on_the_way(tmp_path: Path, version: int) -> None:
    packed = spz_by_hand(version)
    (tmp_path / "a.spz").write_bytes(packed)
    (tmp_path / "b.spz").write_bytes(gzip.decompress(packed))
    found = [read_scene(tmp_path / f"{name}.spz").tensors for name in "ab"]
    assert all(torch.equal(value, other) for value, other in zip(*found, strict=True))
    (tmp_path / "b.spz").write_bytes(gzip.decompress(packed)[:-1])
    with pytest.raises(SceneError, match=r"are required for 1 Gaussians, found .*: truncated"):
        read_scene(tmp_path / "b.spz")
    (tmp_path / "b.spz").write_bytes(gzip.decompress(packed) + bytes(2**16 + 1))
    with pytest.raises(SceneError, match="may follow the attributes, found more"):
        read_scene(tmp_path / "b.spz")


@pytest.mark.parametrize("version", [2, 3])
def test_spz_bytes_by_hand(version: int) -> None:
    """What is written, byte for byte: the values of the file above, in the axes of 3DGS."""
    quat = {2: [0.703, 191 / 127.5 - 1, -(128 / 127.5 - 1), -(64 / 127.5 - 1)], 3: [0.7077, 0.49955, 0, 0.49955]}
    scene = Gaussians(
        means=torch.tensor([[1.5, 0.25, -2]]),
        quats=-2 * torch.tensor([quat[version]]),
        scales=torch.tensor([[0.0, -1, 1]]).exp(),
        opacities=torch.tensor([0.4]),
        sh=torch.tensor([[[-0.5 / 0.15, -0.3 / 0.15, 4], [-0.5, 0, 0.5], [0, 1, -1], [0.25, 0, -0.25]]]),
    )
    parts = [POSITION, ALPHA, COLORS, SCALES, {2: FIRST_THREE, 3: SMALLEST_THREE}[version], HARMONICS]
    assert gzip.decompress(encode_spz_file(scene, version)) == gzip_header(version) + b"".join(parts)


@pytest.mark.parametrize("degree", range(5))
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_spz_round_trip(tmp_path: Path, version: int, degree: int) -> None:
    scene = some_scene(degree=degree)
    write_spz(tmp_path / "a.spz", scene, version)
    found = read_spz(tmp_path / "a.spz")
    assert (found.means - scene.means).abs().max() <= 0.5 / 4096 + 1e-6
    assert (found.scales.log() - scene.scales.log()).abs().max() <= 0.5 / 16 + 1e-4
    assert (found.opacities - scene.opacities).abs().max() <= 0.5 / 255 + 1e-6
    assert (0.15 * (found.sh - scene.sh)[:, 0]).abs().max() <= 0.5 / 255 + 1e-6
    rest = (found.sh - scene.sh)[:, 1:].abs()
    assert (rest[:, :3] <= 4 / 128 + 1e-6).all()
    assert (rest[:, 3:] <= 8 / 128 + 1e-6).all()
    # The w of version 2 is what is missing from a length of 1, which says little where it is small.
    assert angles(found.quats, scene.quats).max() < (0.004 if version >= 3 else 0.3)
    assert angles(found.quats, scene.quats).median() < 0.02
    assert losses_of(".spz", scene) == []


def test_an_spz_file_that_is_read_and_written_again_stays_the_same(tmp_path: Path) -> None:
    write_spz(tmp_path / "a.spz", some_scene())
    write_spz(tmp_path / "b.spz", read_spz(tmp_path / "a.spz"))
    a, b = (gzip.decompress((tmp_path / name).read_bytes()) for name in ("a.spz", "b.spz"))
    different = np.frombuffer(a, np.uint8).astype(int) - np.frombuffer(b, np.uint8)
    assert abs(different).max() <= 1  # of a rotation whose largest two components are nearly the same
    assert (different != 0).mean() < 0.01


AXES = [(x, y, z) for x in (1, -1) for y in (1, -1) for z in (1, -1)]


@pytest.mark.parametrize("axes", AXES)
def test_axes_of_spz_change_nothing_that_is_seen(axes: tuple[int, int, int]) -> None:
    scene = some_scene(40, degree=4)
    values, bits = spz_values.encode_spz(scene, 3)
    stored = spz_values.decode_spz(values, 3, bits, (1, 1, 1))
    found = spz_values.decode_spz(values, 3, bits, axes)
    flips = torch.tensor(axes, dtype=torch.float32)
    assert torch.equal(found.means, stored.means * flips)
    covars, _ = splat.quat_scale_to_covar_preci(stored.quats, stored.scales, compute_preci=False)
    flipped, _ = splat.quat_scale_to_covar_preci(found.quats, found.scales, compute_preci=False)
    torch.testing.assert_close(flipped, covars * flips * flips[:, None], rtol=1e-4, atol=1e-6)
    directions = torch.nn.functional.normalize(torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    seen = splat.spherical_harmonics(4, directions, stored.sh)
    torch.testing.assert_close(splat.spherical_harmonics(4, directions * flips, found.sh), seen)


def coordinate_system(number: int) -> bytes:
    return struct.pack("<III", 0xADBE0003, 4, number)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_extension_that_names_the_axes(tmp_path: Path, version: int) -> None:
    means = {}
    for number in range(9):
        (tmp_path / "a.spz").write_bytes(spz_by_hand(version, 2, coordinate_system(number)))
        means[number] = read_scene(tmp_path / "a.spz").means[0].tolist()
    # LDB, RDB, LUB, RUB, LDF, RDF, LUF, RUF; 0 says nothing.
    left, right, y, z = -1.5, 1.5, 0.25, 2
    assert means == {
        **{0: [right, y, -z], 1: [left, -y, -z], 2: [right, -y, -z], 3: [left, y, -z], 4: [right, y, -z]},
        **{5: [left, -y, z], 6: [right, -y, z], 7: [left, y, z], 8: [right, y, z]},
    }
    (tmp_path / "a.spz").write_bytes(spz_by_hand(version, 2, coordinate_system(12)))
    with pytest.raises(SceneError, match=r"a\.spz: a coordinate system with y up or down .* required, found 12"):
        read_scene(tmp_path / "a.spz")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_of_an_spz_file_is_not_used_is_said(tmp_path: Path, version: int) -> None:
    other = struct.pack("<IIf", 0xADBE0002, 4, 1)
    for flags, extensions, words in (
        (2, other + other, "24 bytes of extensions are not used"),
        (0, other, "12 bytes of extensions are not used"),
    ):
        (tmp_path / "a.spz").write_bytes(spz_by_hand(version, flags, extensions))
        with pytest.warns(UserWarning, match=rf"a\.spz: {words}"):
            read_scene(tmp_path / "a.spz")


def test_centres_that_lie_far_out_have_fewer_bits(tmp_path: Path) -> None:
    scene = some_scene(5)
    scene.means[2, 1] = -70_000
    write_scene(tmp_path / "a.spz", scene)
    found = read_scene(tmp_path / "a.spz")
    assert (found.means - scene.means).abs().max() <= 0.5 / 64
    assert "steps of 1/64" in FORMATS[".spz"].describe(tmp_path / "a.spz")
    assert losses_of(".spz", scene) == [
        "centres are rounded to 1/64 instead of 1/4096, because one is 70000 from the origin; `splat convert --crop` "
        "leaves it out"
    ]
    scene.means[2, 1] = 1e9
    with pytest.raises(SceneError, match=r"within 8388607 of the origin, found one at 1e\+09; `splat convert` leaves"):
        write_scene(tmp_path / "b.spz", scene)
    assert not (tmp_path / "b.spz").exists()
    assert losses_of(".spz", scene)[0].startswith("centres in an .spz file must be within 8388607")


def test_centres_of_a_small_scene_have_more_bits(tmp_path: Path) -> None:
    scene = some_scene(50, extent=1e-3)
    write_scene(tmp_path / "a.spz", scene)
    furthest = scene.means.abs().max()
    assert (read_scene(tmp_path / "a.spz").means - scene.means).abs().max() <= furthest / 2**13 * 1.01
    scene.means[:] = 0
    assert spz_values.fractional_bits(scene.means.numpy()) == 12
    scene.means[0] = 1e-30
    assert spz_values.fractional_bits(scene.means.numpy()) == 24


def test_what_a_format_cannot_hold_is_said() -> None:
    scene = some_scene(10, degree=2)
    scene.scales[1, 0] = 0
    scene.scales[2, 1] = 1e4
    scene.sh[3, 0, 0] = 5
    scene.sh[4:6, 5, 1] = -1.5
    assert losses_of(".ply", scene) == []
    assert losses_of(".splat", scene) == [
        "spherical harmonics of degree 1 to 2 are dropped: colours will look the same from everywhere",
        "colours outside 0 to 1 are clamped (in 1 of 10 Gaussians)",
    ]
    assert losses_of(".spz", scene) == [
        "standard deviations outside 4.5e-05 to 379 are clamped (in 2 of 10 Gaussians)",
        "constant SH coefficients outside -3.33 to 3.33 are clamped (in 1 of 10 Gaussians)",
        "higher SH coefficients outside -1 to 1 are clamped (in 2 of 10 Gaussians)",
    ]


def test_version_4_without_zstandard_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.spz").write_bytes(spz_by_hand(4))
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SceneError, match=r"a\.spz: version 4 .* found neither; to fix: .* install backports\.zstd"):
        read_spz(tmp_path / "a.spz")
    with pytest.raises(SceneError, match=r"version 4 of \.spz is compressed with Zstandard"):
        write_spz(tmp_path / "b.spz", some_scene(), 4)
    assert not (tmp_path / "b.spz").exists()


@pytest.mark.parametrize("version", [0, 1, 5])
def test_versions_that_cannot_be_written(tmp_path: Path, version: int) -> None:
    with pytest.raises(ValueError, match=rf"version 2, 3 or 4 of \.spz can be written, found {version}"):
        write_spz(tmp_path / "a.spz", some_scene(), version)


# .compressed.ply

LIMITS = [f"{end}_{name}" for name in ("x", "y", "z", "scale_x", "scale_y", "scale_z") for end in ("min", "max")]
COLOR_LIMITS = [f"{end}_{color}" for color in "rgb" for end in ("min", "max")]


def compressed(
    words: list[tuple[int, int, int, int]],
    limits: list[list[float]],
    colors: bool = False,
    harmonics: list[bytes] | None = None,
) -> bytes:
    names = LIMITS + (COLOR_LIMITS if colors else [])
    text = f"element chunk {len(limits)}\n" + "".join(f"property float {name}\n" for name in names)
    text += f"element vertex {len(words)}\n"
    text += "".join(f"property uint packed_{name}\n" for name in ("position", "rotation", "scale", "color"))
    if harmonics is not None:
        text += f"element sh {len(harmonics)}\n"
        text += "".join(f"property uchar f_rest_{i}\n" for i in range(len(harmonics[0])))
    rows = np.array(limits, "<f4").tobytes() + np.array(words, "<u4").tobytes() + b"".join(harmonics or [])
    return header(text) + rows


BOX = [0.0, 1, -1, 1, 10, 20, -2, 0, -2, 0, -4, -2]
HALF = round(1023 * (0.5 / 2**0.5 + 0.5))  # a component of a half
WORDS = (2047 << 21 | 0 << 11 | 2047, 1 << 30 | HALF << 20 | HALF << 10 | HALF, 0 << 21 | 1023 << 11 | 0, 0x0033FF66)


@pytest.mark.parametrize("degree", range(4))
def test_a_compressed_ply_as_it_is_written(tmp_path: Path, degree: int) -> None:
    """Half a step of each field: 11 bits of the chunk's extent, 8 of colour, 1/32 of a coefficient."""
    scene = some_scene(600, degree)
    order = nearby(scene.means.double().numpy())

    write_scene(tmp_path / "a.compressed.ply", scene)
    found = read_scene(tmp_path / "a.compressed.ply")

    assert found.degree == degree
    for start in range(0, 600, 256):
        rows, chunk = slice(start, start + 256), order[start : start + 256]
        for values, others, bits in (
            (found.means, scene.means, torch.tensor([11, 10, 11])),
            (found.scales.log(), scene.scales.log(), torch.tensor([11, 10, 11])),
            (found.sh[:, 0], scene.sh[:, 0], torch.tensor([8, 8, 8])),
        ):
            extent = others[chunk].amax(0) - others[chunk].amin(0)
            assert ((values[rows] - others[chunk]).abs() <= extent * (0.5 / (2**bits - 1)) + 1e-5).all()
    assert (found.opacities - scene.opacities[order]).abs().max() <= 0.5 / 255 + 1e-6
    turns = [torch.nn.functional.normalize(each, dim=1) for each in (found.quats, scene.quats[order])]
    assert (turns[0] * turns[1]).sum(1).abs().min() > 1 - 1e-5
    if degree:
        assert (found.sh[:, 1:] - scene.sh[order, 1:].clamp(-4, 4)).abs().max() <= 1 / 64 + 1e-6


def test_what_is_written_is_laid_out_as_by_hand(tmp_path: Path) -> None:
    """The two Gaussians of one file by hand, which have the extremes of each field."""
    unturned = 512 << 20 | 512 << 10 | 512
    greatest, least = (2**32 - 1, unturned, 0, 2**32 - 1), (0, unturned, 2**32 - 1, 0)
    (tmp_path / "a.ply").write_bytes(compressed([greatest, least], [[*BOX, 0.0, 1, 0, 1, 0, 1]], colors=True))

    write_scene(tmp_path / "b.compressed.ply", read_scene(tmp_path / "a.ply"))

    content = (tmp_path / "b.compressed.ply").read_bytes()
    assert np.frombuffer(content[-32:], "<u4").reshape(2, 4).tolist() == [[*least], [*greatest]]
    assert np.frombuffer(content[-104:-32], "<f4").tolist() == pytest.approx(
        [0, -1, 10, 1, 1, 20, -2, -2, -4, 0, 0, -2, 0, 0, 0, 1, 1, 1], abs=1e-5
    )


def test_neighbours_share_a_chunk() -> None:
    cells = torch.tensor([[x, y, z] for x in range(8) for y in range(8) for z in range(8)], dtype=torch.float64)
    shuffled = cells[torch.randperm(512, generator=torch.Generator().manual_seed(0))].numpy()

    first = shuffled[nearby(shuffled)][:64]

    assert sorted(map(tuple, first)) == sorted(map(tuple, cells[(cells < 4).all(1)].numpy()))
    far = np.full((1, 3), 1e6)  # which leaves one cell for all others
    assert nearby(np.concatenate([shuffled, far])).tolist() == [*nearby(shuffled).tolist(), 512]


def test_harmonics_of_nothing_add_up_to_nothing_in_a_compressed_ply(tmp_path: Path) -> None:
    """No byte stands for 0: always the same one of its neighbours would make every colour brighter."""
    scene = some_scene(600)
    scene.sh[:, 1:] = 0
    write_scene(tmp_path / "a.compressed.ply", scene)
    rest = read_scene(tmp_path / "a.compressed.ply").sh[:, 1:]
    assert rest.abs().eq(1 / 64).all()
    assert rest.mean(dim=0).abs().max() < 0.1 / 64
    assert rest.mean(dim=(1, 2)).abs().max() < 0.1 / 64


def test_a_few_far_gaussians_cost_a_compressed_ply_no_place_but_of_the_faintest(tmp_path: Path) -> None:
    scene = some_scene(3000, 0)
    scene.means[[0, 1000, 2000]] = torch.tensor([[1e6, 0, 0], [0, -1e5, 0], [0, 0, 1e4]])
    scene.scales[:] = 0.1
    scene.opacities[:] = torch.linspace(0.5, 1, 3000)
    write_scene(tmp_path / "a.compressed.ply", scene)
    order, found = chunk_order(scene), read_scene(tmp_path / "a.compressed.ply")
    assert sorted(order) == [*range(3000)]
    assert sorted(order[:256]) == [*range(254), 1000, 2000]
    assert (found.means[256:] - scene.means[order[256:]]).abs().max() < 0.02


def test_what_a_compressed_ply_cannot_hold_of_some_gaussians_is_said() -> None:
    scene = some_scene(600)
    assert losses_of(".compressed.ply", scene) == []
    scene.means[0] = 1e4
    scene.sh[1, 0] = 50
    scene.sh[2, 5] = -5
    scene.scales[3] = 1e9
    shared = "because some of the 256 that share their limits"
    wanted = (
        rf"centres of \d+ of 600 Gaussians are rounded to steps of up to [\d.]+, {shared} lie far from them; `.*",
        rf"colours of \d+ of 600 Gaussians are rounded to steps of up to 0.0\d+, {shared} are much brighter or darker",
        r"standard deviations outside e\^-20 to e\^20 are clamped \(in 1 of 600 Gaussians\)",
        r"higher SH coefficients outside -4 to 4 are clamped \(in 1 of 600 Gaussians\)",
    )
    for said, pattern in zip(losses_of(".compressed.ply", scene), wanted, strict=True):
        assert re.fullmatch(pattern, said)


def test_a_compressed_ply_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "a.compressed.ply"
    sh = bytes([0, 255, 128, *range(6)])
    path.write_bytes(compressed([WORDS], [BOX], harmonics=[sh]))
    found = read_scene(path)
    assert found.means.tolist() == [[1, -1, 20]]
    torch.testing.assert_close(found.scales.log(), torch.tensor([[-2.0, 0, -4]]))
    torch.testing.assert_close(0.5 + SH_C0 * found.sh[0, 0], torch.tensor([0, 0.2, 1]))
    torch.testing.assert_close(found.opacities, torch.tensor([0.4]))
    # x is the largest; all four are a half.
    torch.testing.assert_close(found.quats, torch.full((1, 4), 0.5), atol=1e-3, rtol=0)
    assert found.degree == 1
    assert found.sh[0, 1:, 0].tolist() == [-4, 4, 0.5 / 256 * 8]
    assert found.sh[0, 1:, 1].tolist() == [-4, (1.5 / 256 - 0.5) * 8, (2.5 / 256 - 0.5) * 8]
    assert FORMATS[".compressed.ply"].describe(path) == "compressed PLY, binary, little-endian"
    # SuperSplat can write it under any name that ends in .ply.
    (tmp_path / "b.ply").write_bytes(path.read_bytes())
    assert torch.equal(read_ply(tmp_path / "b.ply").means, found.means)


@pytest.mark.parametrize("largest", range(4))
def test_the_largest_of_four(tmp_path: Path, largest: int) -> None:
    path = tmp_path / "a.ply"
    word = largest << 30 | 1023 << 20 | 512 << 10 | 512  # the first of the others is the square root of a half
    path.write_bytes(compressed([(0, word, 0, 0)], [BOX]))
    expected = torch.zeros(4)
    expected[[largest, 0 if largest else 1]] = 0.5**0.5
    torch.testing.assert_close(read_scene(path).quats[0], expected, atol=2e-3, rtol=0)


def test_chunks_have_limits_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a.compressed.ply"
    other = [value + 100 for value in BOX]
    path.write_bytes(compressed([WORDS] * 300, [[*BOX, 0.5, 1, 0, 2, 0, 1], other + [0, 1] * 3], colors=True))
    with pytest.warns(LeftOutWarning, match="left out 44 of 300"):  # scales of e^100
        found = read_scene(path)
    assert len(found) == 256
    torch.testing.assert_close(0.5 + SH_C0 * found.sh[0, 0], torch.tensor([0.5, 0.4, 1]))
    other[6:] = BOX[6:]
    path.write_bytes(compressed([WORDS] * 300, [BOX, other]))
    assert read_scene(path).means[[0, 255, 256, 299], 0].tolist() == [1, 1, 101, 101]


# Names


def test_names_decide_the_format(tmp_path: Path) -> None:
    scene = some_scene(5)
    for name in ("a.ply", "b.SPLAT", "c.Spz", "d.Compressed.ply"):
        write_scene(tmp_path / name, scene)
        assert len(read_scene(tmp_path / name)) == 5
    with pytest.raises(
        SceneError, match=r"scene\.obj: the name of a scene to write must end in one of \.compressed\.ply, \.ply, "
    ):
        write_scene(tmp_path / "scene.obj", scene)
    with pytest.raises(FileNotFoundError):
        read_scene(tmp_path / "none.obj")
    (tmp_path / "scene.obj").write_bytes(WHOLE)
    with pytest.raises(SceneError, match=r"scene\.obj: the name of a scene must end in"):
        read_scene(tmp_path / "scene.obj")
    with pytest.raises(IsADirectoryError):
        read_scene(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["a.ply", "b.SPLAT", "c.Spz", "d.Compressed.ply", "scene.obj"]


def test_what_is_not_finite_is_not_written(tmp_path: Path) -> None:
    for suffix in WRITERS:
        scene = some_scene(5)
        scene.means[1, 0] = torch.nan
        scene.quats[3] = 0
        with pytest.warns(LeftOutWarning, match="left out 2 of 5 Gaussians"):
            write_scene(tmp_path / f"a{suffix}", scene)
        assert len(read_scene(tmp_path / f"a{suffix}")) == 3


def test_a_pipe_is_no_scene() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    try:
        for read in (read_spz, FORMATS[".splat"].read):
            with pytest.raises(SceneError, match="a regular file is required, found a pipe"):
                read(Path(f"/dev/fd/{reader}"))
    finally:
        os.close(reader)


def test_bulba_in_every_format(tmp_path: Path) -> None:
    bulba = read_scene(real_scene("bulba.ply"))
    sizes = {}
    for suffix in WRITERS:
        path = tmp_path / f"bulba{suffix}"
        write_scene(path, bulba)
        found = read_scene(path)
        sizes[suffix] = path.stat().st_size
        order = nearby(bulba.means.double().numpy()) if suffix in (".compressed.ply", ".sog") else slice(None)
        assert (found.means - bulba.means[order]).abs().max() < 1e-3
        assert (found.opacities - bulba.opacities[order]).abs().max() < 0.01
        assert found.degree == (0 if suffix == ".splat" else 3)
    assert sizes[".spz"] * 5 < sizes[".ply"]
    assert sizes[".sog"] * 5 < sizes[".ply"]


# Broken files

NO_HARMONICS = gzip_header(3, degree=0)
FOUR = spz_by_hand(4)
INNER = gzip.decompress(spz_by_hand(3))

BROKEN: dict[str, tuple[str, bytes, str]] = {
    "short splat": ("a.splat", bytes(31), "a .splat file has 32 bytes for each Gaussian, found 31 bytes"),
    "cut splat": ("a.splat", bytes(95), "has 32 bytes for each Gaussian, found 95 bytes"),
    "empty spz": ("a.spz", b"", "an .spz file is required, found nothing"),
    "foreign spz": ("a.spz", b"\x89PNG" + bytes(90), r"begins with NGSP, found b'\\x89PNG"),
    "short spz": ("a.spz", b"NGSP", "begins with NGSP, found b'NGSP'"),
    "other gzip": ("a.spz", gzip.compress(b"hello, this is no scene"), "begins with NGSP, found b'hello, this is n'"),
    "short gzip": ("a.spz", gzip.compress(b"NGSP"), "begins with NGSP, found b'NGSP'"),
    "empty gzip": ("a.spz", gzip.compress(b""), "an .spz file is required, found nothing"),
    "no gzip": ("a.spz", b"\x1f\x8b" + bytes(90), "the gzip stream is damaged: "),
    "version 0": ("a.spz", gzip.compress(gzip_header(0)), "version 1 or 2 or 3 is required .* found 0"),
    "version 4 in gzip": ("a.spz", gzip.compress(gzip_header(4)), "version 1 or 2 or 3 is required .* found 4"),
    "version 5": ("a.spz", FOUR.replace(b"NGSP\4", b"NGSP\5"), "version 4 is required in such an .spz file, found 5"),
    "version 0 outside": ("a.spz", b"NGSP\0" + FOUR[5:], "version 4 is required in such an .spz file, found 0"),
    "degree": ("a.spz", gzip.compress(gzip_header(3, degree=5)), "spherical harmonics must be 0 to 4, found 5"),
    "bits": ("a.spz", gzip.compress(gzip_header(3, bits=25)), "at most 24 fractional bits, found 25"),
    "cut gzip": ("a.spz", gzip.compress(INNER[:-1]), "9 bytes of sh are required for 1 Gaussians, found 8: truncated"),
    "cut stream": ("a.spz", spz_by_hand(3)[:-6], "the gzip stream must have an end, found none: truncated"),
    "check sum": ("a.spz", spz_by_hand(3)[:-8] + bytes(8), "the gzip stream is damaged: .*incorrect data check"),
    "many": ("a.spz", gzip.compress(gzip_header(3, 2**32 - 1)), "says that 124554051555 bytes are packed into the"),
    "million": ("a.spz", gzip.compress(gzip_header(3, 10**6)), "9000000 bytes of positions are required .* found 0"),
    "follows": ("a.spz", gzip.compress(INNER + bytes(10**5)), "at most 65536 bytes may follow the attributes"),
    "cut record": ("a.spz", spz_by_hand(3, 2, b"\1\2\3"), "an extension must begin with 8 bytes, found 3: truncated"),
    "long record": (
        "a.spz",
        spz_by_hand(3, 2, struct.pack("<II", 7, 99)),
        "extension 0x00000007 must have 99 bytes, found 0",
    ),
    "frames": ("a.spz", FOUR[:15] + b"\5" + FOUR[16:], r"6 attributes are required \(positions, .*\), found 5"),
    "table": ("a.spz", FOUR[:16] + struct.pack("<I", 31) + FOUR[20:], "must begin at byte 32 .* found 31"),
    "far table": ("a.spz", FOUR[:16] + struct.pack("<I", 2**32 - 1) + FOUR[20:], "must begin at byte 32 .* found 429"),
    "cut table": ("a.spz", FOUR[:100], "a table of 6 sizes is required at byte 32: truncated"),
    "sizes": ("a.spz", FOUR[:40] + b"\7" + FOUR[41:], "9 bytes of positions are required for 1 Gaussians, found 7"),
    "cut frames": ("a.spz", FOUR[:-1], r"\d+ bytes are required behind the table of sizes, found \d+: truncated"),
    "text": ("a.ply", compressed([WORDS], [BOX]).replace(b"binary_little_endian", b"ascii"), "must be binary, found t"),
    "no chunk": (
        "a.ply",
        header("element vertex 1\nproperty uint packed_position\n"),
        "'chunk' of a compressed PLY mu",
    ),
    "chunks": ("a.ply", compressed([WORDS], [BOX, BOX]), "1 rows of 'vertex' need 1 rows of 'chunk', found 2"),
    "no rotation": (
        "a.ply",
        compressed([WORDS], [BOX]).replace(b"packed_rotation", b"packed_whatever"),
        "'vertex' of a compressed PLY must have the properties packed_rotation, of type uint; found packed_positi",
    ),
    "wrong type": (
        "a.ply",
        compressed([WORDS], [BOX]).replace(b"uint packed_scale", b"int packed_scale"),
        "must have the properties packed_scale, of type uint",
    ),
    "half of the colours": (
        "a.ply",
        compressed([WORDS], [BOX + [0, 1] * 3], colors=True).replace(b"max_g", b"max_h"),
        "'chunk' of a compressed PLY must have the properties max_g, floats",
    ),
    "harmonics": (
        "a.ply",
        compressed([WORDS], [BOX], harmonics=[bytes(10)]),
        "must have 9, 24 or 45 properties, found",
    ),
    "harmonics twice": ("a.ply", compressed([WORDS], [BOX], harmonics=[bytes(9)] * 2), "'sh' must have 1 rows, as"),
    "lists": (
        "a.ply",
        compressed([WORDS], [BOX]).replace(b"element vertex", b"element e 1\nproperty list uint int l\nelement vertex"),
        "a compressed PLY has no lists, found some in 'e'",
    ),
    "twice": (
        "a.ply",
        compressed([WORDS], [BOX]).replace(b"element vertex 1\n", b"property float min_x\nelement vertex 1\n"),
        "the properties of 'chunk' must differ in name, found twice: min_x",
    ),
    "cut compressed": ("a.ply", compressed([WORDS], [BOX])[:-1], "1 rows of 'vertex' need 16 bytes .* found 15: trunc"),
    "huge compressed": (
        "a.ply",
        compressed([WORDS], [BOX])
        .replace(b"vertex 1", b"vertex 255999999999")
        .replace(b"chunk 1", b"chunk 1000000000"),
        "1000000000 rows of 'chunk' need 48000000000 bytes .* truncated",
    ),
}
NEED_ZSTD = {
    "zstd": (FOUR[:128] + b"X" + FOUR[129:], "the frame of positions is damaged: "),
    "zstd size": (FOUR.replace(zstd_frame(ALPHA), zstd_frame(ALPHA)[:-1]), "required behind the table of sizes, found"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_scenes(tmp_path: Path, case: str) -> None:
    name, data, message = BROKEN[case]
    (tmp_path / name).write_bytes(data)
    refused_in_little_memory(tmp_path / name, message)


@needs_zstd
@pytest.mark.parametrize("case", NEED_ZSTD)
def test_broken_frames(tmp_path: Path, case: str) -> None:
    data, message = NEED_ZSTD[case]
    (tmp_path / "a.spz").write_bytes(data)
    with pytest.raises(SceneError, match=message):
        read_scene(tmp_path / "a.spz")


@needs_zstd
def test_a_frame_holds_what_the_table_says(tmp_path: Path) -> None:
    zstd = spz._zstandard()
    good = FOUR[: -len(zstd_frame(HARMONICS))]
    for data, message in (
        (zstd.compress(bytes(64 * MEBIBYTE)), "the frame of sh must hold 9 bytes, found more"),
        (zstd.compress(bytes(10)), "the frame of sh must hold 9 bytes, found more"),
        (zstd.compress(bytes(9)) + b"more", "the frame of sh must hold 9 bytes, found more"),
        (zstd.compress(bytes(8)), "9 bytes of sh are required for 1 Gaussians, found 8"),
        (zstd.compress(bytes(9))[:-1], "the frame of sh must have an end, found none: truncated"),
    ):
        at = 32 + 5 * 16
        (tmp_path / "a.spz").write_bytes(good[:at] + struct.pack("<QQ", len(data), 9) + good[at + 16 :] + data)
        tracemalloc.start()
        try:
            with pytest.raises(SceneError, match=message):
                read_scene(tmp_path / "a.spz")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 4 * MEBIBYTE


def bomb(head: bytes, size: int) -> bytes:
    """A gzip stream of a header and zeros, of a thousandth of their size."""
    packer = zlib.compressobj(wbits=31)
    parts = [packer.compress(head)]
    parts += [packer.compress(bytes(MEBIBYTE)) for _ in range(size // MEBIBYTE)]
    return b"".join([*parts, packer.flush()])


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (gzip_header(3, 4 * MEBIBYTE), "more than 100 times as many: it is damaged"),
        (NO_HARMONICS, "at most 65536 bytes may follow the attributes, found more"),
    ],
)
def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path, head: bytes, message: str) -> None:
    (tmp_path / "a.spz").write_bytes(bomb(head, 64 * MEBIBYTE))
    refused_in_little_memory(tmp_path / "a.spz", message)


@pytest.mark.parametrize("suffix", [".compressed.ply", ".sog", ".splat", ".spz", ".glb", ".gltf"])
def test_memory_is_a_small_multiple_of_the_scene(tmp_path: Path, suffix: str) -> None:
    scene = some_scene(20_000, degree=0 if suffix == ".splat" else 3)
    write_scene(tmp_path / f"a{suffix}", scene)
    held = sum(value.nbytes for value in scene.tensors)
    tracemalloc.start()
    try:
        read_scene(tmp_path / f"a{suffix}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * held


def wholes_of_nothing() -> dict[str, bytes]:
    """A file of 0 Gaussians in each format and version, as others write it or as it is written here."""
    head = b"NGSP" + struct.pack("<IIBBBBI12x", 4, 0, 1, 12, 0, 0, 32)
    harmonics = b"element sh 0\n" + b"".join(b"property uchar f_rest_%d\n" % i for i in range(9)) + b"end_header"
    return {
        "0.ply": text(f"element vertex 0\n{XYZ}", b""),
        "0b.ply": header(f"element vertex 0\n{XYZ}"),
        "0.compressed.ply": compressed([], []),
        "0c.compressed.ply": compressed([], [], colors=True).replace(b"end_header", harmonics),
        "0.ksplat": ksplat_file(0, []),
        "0s.ksplat": ksplat_file(2, [KsplatPart([], degree=2, room=0)]),
        "0.sog": sog_archive(sog_parts(sog_meta(count=0))),
        "0.splat": b"",
        **{f"0v{version}.spz": gzip.compress(gzip_header(version, 0)) for version in (1, 2, 3)},
        "0v4.spz": head,
        "0.glb": glb(b'{"asset":{"version":"2.0"},"extensionsUsed":["KHR_gaussian_splatting"],"scenes":[{}]}', None),
    }


NOTHING = wholes_of_nothing()


def wholes() -> dict[str, bytes]:
    small = some_scene(3, degree=1)
    return {
        "a.splat": encode_splat(small).tobytes(),
        "a.sog": sog_archive(sog_parts(sog_meta())),
        **{f"{level}.ksplat": ksplat_file(level, [KsplatPart([0, 1], degree=1)]) for level in range(3)},
        "a.compressed.ply": compressed([WORDS] * 3, [BOX + [0, 1] * 3], colors=True, harmonics=[bytes(range(9))] * 3),
        "1.spz": spz_by_hand(1),
        "2.spz": encode_spz_file(small, 2),
        "3.spz": spz_by_hand(3, 3, coordinate_system(6) + struct.pack("<II", 7, 0)),
        "4.spz": spz_by_hand(4, 2, coordinate_system(6)),
        "a.glb": one_primitive(gaussians(3, degree=1)).glb(),
        "a.gltf": one_primitive(gaussians(3)).gltf(),
    }


WHOLES = wholes()


@st.composite
def damaged_scenes(draw: st.DrawFn) -> tuple[str, bytes]:
    """A file that was whole, cut and with bytes replaced, inserted or taken away; inside of gzip, too."""
    files = draw(st.sampled_from([WHOLES, WHOLES, WHOLES, NOTHING]))
    name = draw(st.sampled_from(sorted(files)))
    whole = files[name]
    inside = whole[:2] == b"\x1f\x8b" and draw(st.booleans())
    damaged = bytearray(gzip.decompress(whole) if inside else whole)
    if draw(st.booleans()):
        del damaged[draw(st.integers(0, len(damaged))) :]
    for _ in range(draw(st.integers(0, 4))):
        # Headers are where the numbers are that others depend on.
        at = draw(st.one_of(st.integers(0, len(damaged)), st.integers(0, min(len(damaged), 40))))
        damaged[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return name, gzip.compress(bytes(damaged), 1) if inside else bytes(damaged)


@pytest.mark.slow
@settings(max_examples=how_many(150), deadline=None, derandomize=True)
@given(damaged=damaged_scenes())
def test_damaged_scenes_are_read_or_refused_but_never_crash(
    tmp_path_factory: pytest.TempPathFactory, damaged: tuple[str, bytes]
) -> None:
    name, data = damaged
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with warnings.catch_warnings(), contextlib.suppress(SceneError):
            warnings.simplefilter("error")
            warnings.filterwarnings(
                "ignore", message=".*: left out|.* (is|are) not used$|.*unknown and not used$|.* clamped "
            )
            assert len(read_scene(path)) <= max(len(data), 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * MEBIBYTE


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=how_many(25), deadline=None, derandomize=True)
@given(
    numbers=st.lists(finite, min_size=23, max_size=23),
    scales=st.lists(st.floats(0, 2.0**127, width=32), min_size=3, max_size=3),
    opacity=st.floats(0, 1, width=32),
)
@example(numbers=[0.0] * 7 + [2.0**127] * 16, scales=[1.0, 0.0, 2.0**127], opacity=1.0)
def test_any_scene_is_written_and_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[float], scales: list[float], opacity: float
) -> None:
    values = torch.tensor(numbers, dtype=torch.float32)
    scene = Gaussians(
        means=values[None, :3],
        quats=values[None, 3:7] + (values[3:7].abs().max() == 0),
        scales=torch.tensor([scales], dtype=torch.float32),
        opacities=torch.tensor([opacity], dtype=torch.float32),
        sh=values[7:19].reshape(1, 4, 3),
    )
    folder = tmp_path_factory.getbasetemp()
    write: dict[str, Callable[[Gaussians], list[str]]] = {s: WRITERS[s].losses for s in WRITERS}
    for suffix, losses in write.items():
        path = folder / f"any{suffix}"
        path.unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=".*: left out 1 of 1")
            losses(scene)
            with contextlib.suppress(SceneError):
                write_scene(path, scene)
                assert len(read_scene(path)) <= 1


def test_decoding_needs_no_file() -> None:
    scene = some_scene(7)
    assert torch.equal(decode_splat(encode_splat(scene)).means, scene.means)
    with no_other_warning():
        assert formats.losses_of(".spz", some_scene(0)) == []


# Scenes of no Gaussians


@pytest.mark.parametrize("name", NOTHING)
def test_a_scene_of_no_gaussians_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(NOTHING[name])
    with no_other_warning():
        assert len(read_scene(tmp_path / name)) == 0
    assert FORMATS[formats.suffix_of(tmp_path / name)].describe(tmp_path / name)


@pytest.mark.parametrize("degree", range(5))
@pytest.mark.parametrize("suffix", WRITERS)
def test_a_scene_of_no_gaussians_is_written(tmp_path: Path, suffix: str, degree: int) -> None:
    with no_other_warning():
        write_scene(tmp_path / f"a{suffix}", some_scene(0, degree))
        found = read_scene(tmp_path / f"a{suffix}")
    assert len(found) == 0
    # glTF has no list of no numbers.
    assert found.degree == (0 if suffix in (".glb", ".gltf") else min(degree, WRITERS[suffix].max_degree))


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_an_spz_file_of_no_gaussians_is_written_in_every_version(tmp_path: Path, version: int) -> None:
    write_spz(tmp_path / "a.spz", some_scene(0), version)
    assert (len(read_spz(tmp_path / "a.spz")), read_spz(tmp_path / "a.spz").degree) == (0, 3)


def test_a_scene_of_which_nothing_can_be_used_is_written_as_one_of_nothing(tmp_path: Path) -> None:
    scene = some_scene(5)
    scene.quats[:] = 0
    for suffix in WRITERS:
        with pytest.warns(LeftOutWarning, match="left out 5 of 5 Gaussians"):
            write_scene(tmp_path / f"a{suffix}", scene)
        assert len(read_scene(tmp_path / f"a{suffix}")) == 0


@pytest.mark.parametrize("name", ["0.ply", "0.splat", "0.sog"])
def test_commands_on_a_scene_of_no_gaussians(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """`info` says that there are none; what would show or write something says that there is nothing."""
    path = tmp_path / name
    path.write_bytes(NOTHING[name])
    status, out, err = run(capsys, "info", path)
    assert (status, err) == (0, "")
    assert "\n0 Gaussians, SH degree " in out
    status, out, err = run(capsys, "info", path, "--json", "--histograms", tmp_path / "a.png")
    assert (status, err) == (0, "")
    assert json.loads(out)["quantiles"] == {}
    for suffix in WRITERS:
        status, out, err = run(capsys, "convert", path, tmp_path / f"out{suffix}")
        assert (status, out) == (1, "")
        assert err == f"splat: {path}: a scene with Gaussians is required, found none in it\n"
    status, out, err = run(capsys, "render", path, "-o", tmp_path / "b.png", "--device", "cpu")
    assert (status, out) == (1, "")
    assert err == "splat: the scene has no visible Gaussian (of 0), so it has no bounds\n"
    assert sorted(found.name for found in tmp_path.iterdir()) == sorted([name, "a.png"])
