"""`.sog` files: one made by hand, what is written and how precisely, and broken and hostile ones."""

from __future__ import annotations

import json
import math
import os
import re
import struct
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scene_files import MEBIBYTE, angles, refused_in_little_memory, some_scene
from sog_files import sog_archive, sog_meta, sog_parts, webp

from splat.scene import sog_writer
from splat.scene.codebooks import codebook, palette
from splat.scene.compressed_ply_writer import nearby
from splat.scene.file_input import LeftOutWarning
from splat.scene.formats import FORMATS, losses_of, read_scene, write_scene
from splat.scene.gaussians import SceneError


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_sog_file_by_hand(tmp_path: Path, method: int) -> None:
    path = tmp_path / "a.sog"
    path.write_bytes(sog_archive({**sog_parts(sog_meta()), "thumbnail.png": b"of no use"}, method))
    found = read_scene(path)
    e = math.e
    half = -1 + 2 * (128 * 256) / 65535
    expected = [[0, e - 1, 0], [e - 1, math.expm1(half), math.expm1(0.5)]]
    torch.testing.assert_close(found.means, torch.tensor(expected))
    torch.testing.assert_close(found.scales.log(), torch.tensor([[-2.0, -1, 0], [0, 0, 0]]))
    torch.testing.assert_close(found.opacities, torch.tensor([0.4, 0]))
    assert found.sh[:, 0].tolist() == [[-1, 0.5, 0.5], [0.5, -1, -1]]
    # The first has the second entry of the palette.
    assert found.sh[:, 1:].tolist() == [
        [[-0.25, 0.25, 0], [0, 0.25, -0.25], [0.25, 0.25, 0.25]],
        [[0.25, 0, -0.25], [0, 0, 0], [-0.25, -0.25, 0.25]],
    ]
    third = (218 / 127.5 - 1) / 2**0.5
    torch.testing.assert_close(found.quats[1], torch.tensor([(1 - 3 * third**2) ** 0.5, third, third, third]))
    torch.testing.assert_close(found.quats[0], torch.tensor([0.5**0.5, 0.5**0.5, 0, 0]), atol=4e-3, rtol=0)
    assert FORMATS[".sog"].describe(path) == ".sog version 2"
    meta = unpacked(tmp_path / "b", sog_parts(sog_meta()))
    other = read_scene(meta)
    assert all(map(torch.equal, found.tensors, other.tensors))
    assert FORMATS["/meta.json"].describe(meta) == ".sog version 2, unpacked"


def unpacked(folder: Path, parts: dict[str, bytes]) -> Path:
    """The meta.json of a folder of these files."""
    folder.mkdir()
    for name, data in parts.items():
        (folder / name).write_bytes(data)
    return folder / "meta.json"


def test_a_sog_file_without_harmonics_and_with_rotations_of_nothing(tmp_path: Path) -> None:
    parts = sog_parts(sog_meta(shN=None), quats_webp=webp([[255, 128, 128, 251], [218, 218, 218, 255]]))
    (tmp_path / "a.sog").write_bytes(sog_archive(parts))
    with pytest.warns(LeftOutWarning, match="left out 1 of 2"):
        found = read_scene(tmp_path / "a.sog")
    assert (len(found), found.degree) == (1, 0)


@pytest.mark.parametrize("degree", range(5))
def test_a_sog_file_as_it_is_written(tmp_path: Path, degree: int) -> None:
    scene = some_scene(700, degree)
    order = nearby(scene.means.double().numpy())
    write_scene(tmp_path / "a.sog", scene)
    found = read_scene(tmp_path / "a.sog")
    logarithms = scene.means.sign() * scene.means.abs().log1p()
    extent = logarithms.amax(0) - logarithms.amin(0)
    # Half a step of 65536, as wide as the centre is far from the origin.
    assert ((found.means - scene.means[order]).abs() <= (scene.means[order].abs() + 1) * extent / 131070 + 1e-5).all()
    # Half a step of what 256 equal steps would be is half of what is found on average.
    assert (found.scales.log() - scene.scales[order].log()).abs().mean() < 14 / 256 / 3
    assert (found.sh[:, 0] - scene.sh[order, 0]).abs().mean() < 1.8 / 256 / 2
    assert (found.opacities - scene.opacities[order]).abs().max() <= 0.5 / 255 + 1e-6
    assert angles(found.quats, scene.quats[order]).max() < 0.02
    assert found.degree == min(degree, 3)
    if degree:
        rest = found.sh[:, 1:] - scene.sh[order, 1 : found.sh.shape[1]]
        assert rest.abs().mean() < 1.8 / 256 / 2  # each has its own entry
    assert losses_of(".sog", scene) == (["spherical harmonics of degree 4 are dropped"] if degree == 4 else [])


@pytest.mark.parametrize("name", ["means", "quats", "scales", "opacities", "sh"])
@pytest.mark.parametrize("value", [1e-45, 1e30, -3.2e38, 3.2e38, float(np.finfo(np.float32).max)])
def test_extreme_values_are_read_as_they_were_written(tmp_path: Path, name: str, value: float) -> None:
    scene = some_scene(50, 1)
    getattr(scene, name)[:20] = abs(value) if name == "scales" else value
    write_scene(tmp_path / "a.sog", scene)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_scene(tmp_path / "a.sog")
    assert len(found) == len(scene)
    if abs(value) > 1 and name in ("means", "scales", "sh"):
        extremes = getattr(found, name).abs().flatten().sort().values[-getattr(scene, name)[:20].numel() :]
        torch.testing.assert_close(extremes, torch.full_like(extremes, abs(value)), rtol=1e-3, atol=0)


def test_colours_that_are_not_seen_are_kept_in_a_sog_file(tmp_path: Path) -> None:
    scene = some_scene(20, degree=0)
    scene.opacities[:] = 0
    write_scene(tmp_path / "a.sog", scene)
    order = nearby(scene.means.double().numpy())
    torch.testing.assert_close(read_scene(tmp_path / "a.sog").sh, scene.sh[order])  # 60 values have an entry each


def test_a_sog_file_is_the_same_on_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = some_scene(3000)
    written = []
    for name, now in (("a.sog", 1e9), ("b.sog", 1.6e9)):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        write_scene(tmp_path / name, scene)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]


def test_few_entries_stand_for_many_harmonics() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(40, 9)).astype(np.float32)
    vectors = kinds[rng.integers(0, 40, 5000)] + rng.normal(size=(5000, 9)).astype(np.float32) * np.float32(0.01)
    entries, labels = palette(vectors, 1000)
    assert len(entries) <= 1000
    assert np.abs(entries[labels] - vectors).max() < 0.1
    assert np.sqrt(((entries[labels] - vectors) ** 2).mean()) < 0.01
    # Of few vectors, each has its own.
    entries, labels = palette(vectors[:50], 1000)
    assert np.array_equal(entries[labels], vectors[:50])


def test_a_codebook_is_fine_where_values_are() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4000, 3)).astype(np.float32) ** 3
    entries, indices = codebook(values)
    assert len(entries) == 256
    assert (np.diff(entries) >= 0).all()
    error = np.abs(entries[indices] - values)
    assert np.array_equal(np.abs(entries[:, None] - values.reshape(-1)).min(axis=0), error.reshape(-1))
    even = (values.max() - values.min()) / 255
    assert np.sqrt((error**2).mean()) < even / 12**0.5 / 4
    few = np.array([[3, 1], [1, 2]], np.float32)
    entries, indices = codebook(few)
    assert np.array_equal(entries[indices], few)


def test_many_gaussians_share_harmonics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = some_scene(2**16 + 1, degree=1)
    assert losses_of(".sog", scene) == [
        "65537 Gaussians share at most 65536 sets of spherical harmonics of degree 1 and higher"
    ]
    monkeypatch.setattr(sog_writer, "MOST_PALETTE", 500)
    scene = some_scene(2000, degree=1)
    order = nearby(scene.means.double().numpy())
    write_scene(tmp_path / "a.sog", scene)
    found = read_scene(tmp_path / "a.sog").sh[:, 1:]
    assert len(found.unique(dim=0)) <= 500
    assert (found - scene.sh[order, 1:]).square().mean().sqrt() < 0.6 * scene.sh[:, 1:].std()


# Broken files

SOG = sog_archive(sog_parts(sog_meta()))
NOISE = np.random.default_rng(0).integers(0, 256, (90, 3)).tolist()
LARGE = webp([[0] * 3])[:21] + (0x3FFE | 0x3FFE << 14).to_bytes(4, "little") + webp([[0] * 3])[25:]
CANVAS = b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0" + bytes(4) + b"\xff" * 6 + webp([[0] * 3])[12:]
OTHER_SIZE = CANVAS[:24] + bytes([3, 0, 0, 1, 0, 0]) + CANVAS[30:]


def book(values: list[Any]) -> dict[str, Any]:
    return {"codebook": values, "files": ["scales.webp"]}


def sog_case(message: str, scales_webp: bytes = b"", **changes: Any) -> tuple[str, bytes, str]:
    images = {"scales_webp": scales_webp} if scales_webp else {}
    return "a.sog", sog_archive(sog_parts(sog_meta(**changes), **images)), message


BROKEN = {
    "empty sog": ("a.sog", b"", "a .sog file, a ZIP archive, is required, found nothing"),
    "foreign sog": ("a.sog", b"\x89PNG" + bytes(90), "a ZIP archive, is required, found File is not a zip file"),
    "cut sog": ("a.sog", SOG[:-30], "a .sog file, a ZIP archive, is required, found"),
    "cut front": (
        "a.sog",
        SOG[500:],
        r"means_l\.webp is damaged: \[Errno 22\]",
    ),
    "no meta": ("a.sog", sog_archive({"scene/meta.json": b"{}"}), "meta.json is required in the archive, found none"),
    "no json": (
        "a.sog",
        sog_archive({"meta.json": b"{"}),
        "meta.json with one JSON object is required, found some",
    ),
    "list": ("a.sog", sog_archive({"meta.json": b"[]"}), "meta.json must hold one JSON object, found another value"),
    "version 1": sog_case("version 2 of .sog is required, found 1; splat-transform", version=1),
    "no version": ("a.sog", sog_archive({"meta.json": b"{}"}), "version 2 of .sog is required, found 1"),
    "many of sog": sog_case("the header says that 395136991232 bytes are packed into the", count=2**32),
    "few pixels": sog_case("5 pixels, or not many more, are required of means_l, found 4x1", count=5),
    "negative": sog_case("'count' must be a whole number from 0 to 4294967296, found -1", count=-1),
    "half": sog_case("'count' must be a whole number from 0 to 4294967296, found 0.5", count=0.5),
    "true": sog_case("'count' must be a whole number from 0 to 4294967296, found True", count=True),
    "no means": sog_case("meta.json must have an object 'means', found none", means=[]),
    "no mins": sog_case("'mins' must be a list of 3 to 3 numbers", means={"files": ["a", "b"]}),
    "null": sog_case("'codebook' must hold finite numbers", scales=book([None])),
    "infinite": sog_case("'codebook' must hold finite", scales=book([math.inf])),
    "nan": sog_case("'codebook' must hold finite", scales=book([math.nan])),
    "huge number": sog_case("'codebook' must hold finite", scales=book([10**400])),
    "short codebook": sog_case("codebook of scales must have an entry 2, found 1", scales=book([1])),
    "long codebook": sog_case("must be a list of 1 to 256 n", scales=book([1] * 257)),
    "files": sog_case("'files' of 'quats' must be a list of 1 names", quats={"files": ["a", "b"]}),
    "path": sog_case("the image quats is required in the archive, found none called", quats={"files": ["/etc/passwd"]}),
    "up": sog_case("the image quats is required in the archive, found none", quats={"files": ["../quats.webp"]}),
    "bands": sog_case("'bands' must be a whole number from 1 to 3, found 4", shN={"bands": 4}),
    "palette": sog_case("'count' must be a whole number from 1 to 65536, f", shN={"bands": 1, "count": 65537}),
    "label": sog_case("labels of a palette of 1 entries are required, found 1", shN={**sog_meta()["shN"], "count": 1}),
    "rows of the palette": sog_case("192 columns, and rows for 65 entries", shN={**sog_meta()["shN"], "count": 65}),
    "columns of the palette": sog_case("512 columns, and rows for 2 entries", shN={**sog_meta()["shN"], "bands": 2}),
    "large image": sog_case("2 pixels, or not many more, are required of scales, found 16383x16383", scales_webp=LARGE),
    "large canvas": sog_case("2 pixels, or not many .* found 16777216x16777216", scales_webp=CANVAS),
    "animation": sog_case(
        "a lossless WebP image is required for scales", scales_webp=CANVAS[:20] + b"\2" + CANVAS[21:]
    ),
    "lossy": sog_case(
        "a lossless WebP image is required for scales", scales_webp=webp([[0] * 3])[:12] + b"VP8 " + bytes(90)
    ),
    "no image": sog_case("a lossless WebP image is required for scales, found another", scales_webp=b"\x89PNG\r\n"),
    "cut image": sog_case("the image scales is damaged", scales_webp=webp(NOISE)[:-40]),
    "size of the image": sog_case("the image scales is damaged|pixels are required of scales", scales_webp=OTHER_SIZE),
    "bzip2": (
        "a.sog",
        sog_archive(sog_parts(sog_meta()), zipfile.ZIP_BZIP2),
        "must be stored or deflated, found method 12",
    ),
    "check": ("a.sog", SOG.replace(b"codebook", b"codeb00k", 1), "'meta.json' is damaged: .*CRC|meta.json is damaged"),
    "deep": ("a.sog", sog_archive({"meta.json": b"[" * 99 + b"]" * 99}), "must hold one JSON object"),
    "deeper": ("a.sog", sog_archive({"meta.json": b"[" * 9999}), "of at most 100 objects and lists is required"),
    "large meta": ("a.sog", sog_archive({"meta.json": bytes(2**20 + 1)}), "meta.json must have at most 1048576 bytes"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_archives(tmp_path: Path, case: str) -> None:
    name, data, message = BROKEN[case]
    (tmp_path / name).write_bytes(data)
    refused_in_little_memory(tmp_path / name, message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.webp", "the image quats is required in the folder, found none called 'none.webp'"),
        ("../b.webp", "the name of a file beside meta.json is required, found '../b.webp'"),
        ("..", "the name of a file beside meta.json is required, found '..'"),
        ("", "the name of a file beside meta.json is required, found ''"),
        ("/etc/passwd", "the name of a file beside meta.json is required, found '/etc/passwd'"),
        ("..\\b.webp", "the name of a file beside meta.json is required"),
        ("link.webp", "a file beside meta.json is required, found a link to elsewhere: link.webp"),
        ("pipe.webp", "a regular file is required, found a pipe"),
        ("x" * 999, "cannot be opened"),
        ("a\0b", "cannot be opened"),
        ("meta.json", "a lossless WebP image is required for quats, found another file"),
    ],
)
def test_names_beside_a_meta_json(tmp_path: Path, name: str, message: str) -> None:
    path = unpacked(tmp_path / "a", sog_parts(sog_meta(quats={"files": [name]})))
    (tmp_path / "b.webp").write_bytes(sog_parts(sog_meta())["quats.webp"])
    (tmp_path / "a" / "link.webp").symlink_to(tmp_path / "b.webp")
    os.mkfifo(tmp_path / "a" / "pipe.webp")
    refused_in_little_memory(path, message)


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    parts = sog_parts(sog_meta(), scales_webp=bytes(64 * MEBIBYTE))
    (tmp_path / "a.sog").write_bytes(sog_archive(parts, zipfile.ZIP_DEFLATED))
    del parts
    refused_in_little_memory(tmp_path / "a.sog", "more than 100 times as many: it is damaged")


def test_an_archive_that_says_less_than_it_unpacks_to(tmp_path: Path) -> None:
    data = sog_archive(sog_parts(sog_meta(), scales_webp=bytes(64 * MEBIBYTE)), zipfile.ZIP_DEFLATED)
    (tmp_path / "a.sog").write_bytes(data.replace(struct.pack("<I", 64 * MEBIBYTE), struct.pack("<I", 90)))
    refused_in_little_memory(tmp_path / "a.sog", r"scales\.webp'? is damaged: ")


def test_names_twice_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.sog", "w") as archive:
        for name, data in sog_parts(sog_meta()).items():
            archive.writestr(name, data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            archive.writestr("meta.json", json.dumps(sog_meta(count=1)))
    with pytest.raises(SceneError, match=r"a\.sog: the names in the archive must differ, found twice: meta\.json"):
        read_scene(tmp_path / "a.sog")


def test_an_archive_of_many_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.sog", "w") as archive:
        for number in range(2000):
            archive.writestr(zipfile.ZipInfo(f"{number}"), b"")
    refused_in_little_memory(tmp_path / "a.sog", "with a directory of at most 65536 bytes is required, found a larger")


def test_vectors_of_which_few_differ_are_kept_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    few = rng.normal(size=(10, 45)).astype(np.float32)
    which = np.concatenate([np.arange(10), rng.integers(0, 10, 3000)])
    entries, labels = palette(few[which], 256)
    assert np.array_equal(entries, few)
    assert np.array_equal(labels, which)
    monkeypatch.setattr("splat.scene.codebooks._MULTIPLIER", np.uint64(0))  # all have one digest now
    entries, labels = palette(few[which], 256)
    assert np.abs(entries[labels] - few[which]).max() < 1e-6
    assert len(entries) > 10


def test_a_few_far_gaussians_make_all_coarse_and_that_is_said(tmp_path: Path) -> None:
    scene = some_scene(200, degree=0)
    scene.means[0, 1] = 1e5
    assert losses_of(".sog", scene) == []
    scene.means[0, 1] = 1e30
    (said,) = losses_of(".sog", scene)
    write_scene(tmp_path / "a.sog", scene)
    error = np.sort(read_scene(tmp_path / "a.sog").means[:, 1].numpy()) - np.sort(scene.means[:, 1].numpy())
    step = re.fullmatch(
        r"centres are rounded to steps of ([\d.]+), because a few lie far from the others; `splat convert --crop` "
        r"leaves them out",
        said,
    )
    assert step
    assert float(step.group(1)) / 4 < np.abs(error[:-1]).max() < float(step.group(1))
    assert losses_of(".sog", scene.select(slice(1, None))) == []


def test_a_scene_of_a_large_scale_is_coarse_and_that_is_said() -> None:
    scene = some_scene(200, degree=0)
    scene.means.mul_(1e7)
    (said,) = losses_of(".sog", scene)
    advised = re.search(r"because the scene's scale is large; `splat convert --scale ([\de-]+)` makes it small$", said)
    assert advised
    scene.means.mul_(float(advised.group(1)))
    assert losses_of(".sog", scene) == []
