"""Scenes of glTF, KHR_gaussian_splatting: files built by hand from the specification, round trips, and broken files."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_runs import run
from gltf_files import KHR, GltfFile, gaussians, glb, one_primitive
from PIL import Image
from ply_files import no_other_warning
from scene_files import angles, refused_in_little_memory, some_scene

import splat
from splat.scene.edits import merge_scenes
from splat.scene.formats import FORMATS, losses_of, read_scene, write_scene
from splat.scene.gaussians import SH_C0, Gaussians, SceneError
from splat.scene.spz import encode_spz_file, read_spz

FLIP = torch.tensor([-1.0, -1, 1])
"""From the axes of glTF, x left, y up and z forward, to those in memory."""
SPZ = f"{KHR}_compression_spz_2"


def read(folder: Path, data: bytes, name: str = "a.glb") -> Gaussians:
    (folder / name).write_bytes(data)
    return read_scene(folder / name)


def covariances(scene: Gaussians) -> torch.Tensor:
    covars, _ = splat.quat_scale_to_covar_preci(scene.quats, scene.scales, compute_preci=False)
    assert covars is not None
    return covars


def seen(scene: Gaussians, directions: torch.Tensor) -> torch.Tensor:
    return splat.spherical_harmonics(scene.degree, directions, scene.sh)


def some_directions(n: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(n, 3, generator=torch.Generator().manual_seed(0)), dim=1)


# Reading


def test_a_glb_by_hand(tmp_path: Path) -> None:
    arrays = gaussians(
        degree=1,
        POSITION=np.array([[1.5, 2, 3]], np.float32),
        ROTATION=np.array([[0.1, 0.5, 0.7, 0.5]], np.float32),  # x, y, z, w
        SCALE=np.array([[0.1, 0.2, 0]], np.float32),
        OPACITY=np.array([[0.4]], np.float32),
        COEF_0=np.array([[0.3, 0.2, 0.1]], np.float32),
        COLOR_0=np.array([[1, 1, 1, 1]], np.float32),  # for viewers that know points alone
    )
    with no_other_warning():
        found = read(tmp_path, one_primitive(arrays).glb())
    assert found.means.tolist() == [[-1.5, -2, 3]]
    torch.testing.assert_close(found.quats, torch.tensor([[0.5, -0.1, -0.5, 0.7]]))
    torch.testing.assert_close(found.scales, torch.tensor([[0.1, 0.2, 0]]))
    torch.testing.assert_close(found.opacities, torch.tensor([0.4]))
    torch.testing.assert_close(found.sh[0, 0], torch.tensor([0.3, 0.2, 0.1]))
    # The colour that the specification has from a direction x, y, z: -y, z and -x times 0.4886 for degree 1.
    x, y, z = direction = torch.tensor([0.6, 0.64, 0.48])
    basis = [SH_C0, *(0.4886025119029199 * part for part in (-y, z, -x))]
    names = [f"{KHR}:SH_DEGREE_{name}" for name in ("0_COEF_0", "1_COEF_0", "1_COEF_1", "1_COEF_2")]
    expected = sum(weight * torch.from_numpy(arrays[name]) for weight, name in zip(basis, names, strict=True))
    torch.testing.assert_close(seen(found, (direction * FLIP)[None]), expected)
    assert FORMATS[".glb"].describe(tmp_path / "a.glb") == f"glTF 2.0 with 1 primitives of {KHR}"


@pytest.mark.parametrize("degree", range(4))
def test_harmonics_of_every_degree_are_seen_from_the_same_side(tmp_path: Path, degree: int) -> None:
    arrays = gaussians(40, degree)
    found = read(tmp_path, one_primitive(arrays).glb())
    stored = torch.stack([torch.from_numpy(array) for name, array in arrays.items() if "COEF" in name], dim=1)
    directions = some_directions(40)
    expected = splat.spherical_harmonics(degree, directions, stored)
    torch.testing.assert_close(seen(found, directions * FLIP), expected)


def test_numbers_of_every_type(tmp_path: Path) -> None:
    arrays = gaussians(
        2,
        POSITION=np.array([[1, -2, 3], [4, 5, 6]], np.int16),
        ROTATION=(np.array([[127, 0, -128, 0], [0, 0, 0, 127]], np.int8), True),
        SCALE=np.array([[1, 2, 3], [0, 5, 255]], np.uint8),
        OPACITY=(np.array([[0], [65535]], np.uint16), True),
    )
    found = read(tmp_path, one_primitive(arrays).glb())
    assert found.means.tolist() == [[-1, 2, 3], [-4, -5, 6]]
    assert found.quats.tolist() == [[0, -1, 0, -1], [1, 0, 0, 0]]
    assert found.scales.tolist() == [[1, 2, 3], [0, 5, 255]]
    assert found.opacities.tolist() == [0, 1]
    arrays["POSITION"] = (np.array([[32767, -32768, 0]] * 2, np.int16), True)
    assert read(tmp_path, one_primitive(arrays).glb()).means[0].tolist() == [-1, 1, 0]


def test_attributes_that_share_a_view_in_turns(tmp_path: Path) -> None:
    arrays = gaussians(5)
    file = one_primitive(arrays)
    table = np.hstack(list(arrays.values()))
    index, start = file.view(table.tobytes(), byteStride=table.itemsize * table.shape[1]), 0
    for accessor, array in zip(file.root["accessors"], arrays.values(), strict=True):
        accessor.update(bufferView=index, byteOffset=start)
        start += 4 * array.shape[1]
    for found in (read(tmp_path, file.glb()), read(tmp_path, file.gltf(), "a.gltf")):
        assert torch.equal(found.means * FLIP, torch.from_numpy(arrays["POSITION"]))
        assert torch.equal(found.scales, torch.from_numpy(arrays[f"{KHR}:SCALE"]))


def test_a_buffer_in_a_file_of_the_folder(tmp_path: Path) -> None:
    file = one_primitive(gaussians(5))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a b.bin").write_bytes(file.data)
    found = read(tmp_path, file.gltf("parts/a%20b.bin"), "a.gltf")
    assert torch.equal(found.means, read(tmp_path, file.glb()).means)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("../secret.bin", "the name of a buffer's file inside .* is required, found '../secret.bin'"),
        ("%2e%2e/secret.bin", "the name of a buffer's file inside .* is required, found '../secret.bin'"),
        ("/etc/passwd", "the name of a buffer's file inside .* is required, found '/etc/passwd'"),
        ("link.bin", "the name of a buffer's file inside .* is required, found 'link.bin'"),
        ("\0", "the name of a buffer's file inside .* is required"),
        ("none.bin", "the buffer none.bin cannot be read: No such file"),
        ("https://example.org/a.bin", "the buffer a.bin cannot be read: No such file"),
        ("short.bin", "buffer 0 must have 280 bytes, found 3: truncated"),
        ("data:text/plain,abc", "the data of buffer 0 must be base64"),
        ("data:;base64,a?bc", "the data of buffer 0 must be base64"),
        ("data:;base64,\u00fc", "the data of buffer 0 must be base64"),
    ],
)
def test_a_buffer_that_is_elsewhere(tmp_path: Path, uri: str, message: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    (tmp_path / "in" / "short.bin").write_bytes(b"abc")
    (tmp_path / "in" / "link.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(SceneError, match=f"a.gltf: {message}"):
        read(tmp_path / "in", one_primitive(gaussians(5)).gltf(uri), "a.gltf")


# Nodes

COS, SIN = np.cos(0.7), np.sin(0.7)
TURN = [COS, SIN, 0, 0, -SIN, COS, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
"""Columns of a matrix that turns about z."""


def moved(scene: Gaussians, matrix: np.ndarray[Any, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Centres and covariances that the specification has for Gaussians below a node, in memory's axes."""
    flip = np.diag([-1.0, -1, 1, 1])
    own = torch.from_numpy(flip @ matrix @ flip)
    linear = own[:3, :3].float()
    return scene.means @ linear.T + own[:3, 3].float(), linear @ covariances(scene) @ linear.T


def turn_matrix() -> np.ndarray[Any, Any]:
    matrix: np.ndarray[Any, Any] = np.array(TURN).reshape(4, 4).T
    return matrix


def shift_matrix(*shift: float) -> np.ndarray[Any, Any]:
    matrix = np.eye(4)
    matrix[:3, 3] = shift
    return matrix


NODES: dict[str, tuple[list[dict[str, Any]], np.ndarray[Any, Any]]] = {
    "translation": ([{"translation": [1, 2, 3]}], shift_matrix(1, 2, 3)),
    "scale": ([{"scale": [2, 2, 2]}], np.diag([2.0, 2, 2, 1])),
    "matrix": ([{"matrix": TURN}], turn_matrix()),
    "stretch": ([{"scale": [2, 0.5, 3]}], np.diag([2.0, 0.5, 3, 1])),
    "two negative": ([{"scale": [2, -2, -2]}], np.diag([2.0, -2, -2, 1])),
    "all": (
        [{"translation": [1, 2, 3], "rotation": [0, 0, np.sin(0.35), np.cos(0.35)], "scale": [2, 3, 4]}],
        shift_matrix(1, 2, 3) @ turn_matrix() @ np.diag([2.0, 3, 4, 1]),
    ),
    "below another": (
        [{"translation": [1, 2, 3], "children": [1]}, {"matrix": TURN, "children": [2]}, {"scale": [3, 3, 3]}],
        shift_matrix(1, 2, 3) @ turn_matrix() @ np.diag([3.0, 3, 3, 1]),
    ),
}


@pytest.mark.parametrize("case", NODES)
def test_nodes_turn_enlarge_and_move(tmp_path: Path, case: str) -> None:
    nodes, matrix = NODES[case]
    file = one_primitive(gaussians(40, degree=3))
    plain = read(tmp_path, file.glb())
    file.root["nodes"] = [*nodes[:-1], {**nodes[-1], "mesh": 0}]
    found = read(tmp_path, file.glb())
    means, covars = moved(plain, matrix)
    torch.testing.assert_close(found.means, means, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(covariances(found), covars, rtol=1e-4, atol=1e-5)
    rotation = matrix[:3, :3] / np.linalg.norm(matrix[:3, :3], axis=0)
    back = some_directions(40) * FLIP @ torch.from_numpy(rotation).float() * FLIP
    torch.testing.assert_close(seen(found, some_directions(40)), seen(plain, back), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "node",
    [
        {"scale": [1, 1, -1]},
        {"scale": [1, 0, 1]},
        {"scale": [1e30, 1e30, 1e30], "children": [1]},
        {"matrix": [1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]},
        {"matrix": [1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]},
    ],
)
def test_nodes_that_do_more_are_refused(tmp_path: Path, node: dict[str, Any]) -> None:
    file = one_primitive(gaussians())
    more = [{"scale": [1e30] * 3, "children": [i]} for i in range(2, 20)]
    file.root["nodes"] = [{**node, "mesh": 0}] if "children" not in node else [node, *more, {"mesh": 0}]
    with pytest.raises(SceneError, match=r"a\.glb: a matrix that turns, enlarges and moves is required"):
        read(tmp_path, file.glb())


def test_what_is_not_finite_below_a_stretched_node_is_left_out(tmp_path: Path) -> None:
    file = one_primitive(gaussians(2, SCALE=np.array([[np.inf, 1, 1], [1, 1, 1]], np.float32)))
    file.root["nodes"][0]["scale"] = [1, 2, 3]
    with pytest.warns(UserWarning, match="left out 1 of 2"):
        assert len(read(tmp_path, file.glb())) == 1


def test_primitives_and_meshes_in_several_places(tmp_path: Path) -> None:
    file = GltfFile()
    parts = [gaussians(3, degree=1), gaussians(4), gaussians(5, degree=2)]
    for arrays, mesh in zip(parts, (0, 0, 1), strict=True):
        file.primitive(arrays, mesh)
    file.root["meshes"][1]["primitives"].append({"attributes": {"POSITION": 0}, "indices": 99})  # triangles
    file.root["meshes"].append({"primitives": [{"attributes": {"POSITION": 0}}]})
    nodes = [{"mesh": 1}, {"mesh": 0, "translation": [9, 0, 0]}, {"mesh": 0}, {"mesh": 2}, {"camera": 0}, {"mesh": 0}]
    file.root.update(nodes=nodes, scenes=[{"nodes": [5]}, {"nodes": [0, 1, 2, 3, 4]}], scene=1)
    found = read(tmp_path, file.glb())
    one, two, three = (read(tmp_path, one_primitive(arrays).glb()) for arrays in parts)
    expected = merge_scenes([three, one, two, one, two])
    expected.means[5:12, 0] -= 9
    assert found.degree == 2
    torch.testing.assert_close(found.means, expected.means)
    assert torch.equal(found.sh, expected.sh)
    assert FORMATS[".glb"].describe(tmp_path / "a.glb") == f"glTF 2.0 with 1 primitives of {KHR}"


def test_coordinates_of_a_map_are_in_nodes(tmp_path: Path) -> None:
    file = one_primitive(gaussians(50))
    file.root["nodes"][0]["translation"] = [-500_000.25, -4_600_000.5, 300]
    found = read(tmp_path, file.glb())
    there = torch.tensor([500_000.25, 4_600_000.5, 300], dtype=torch.float64)
    means = torch.from_numpy(gaussians(50)["POSITION"]) * FLIP
    torch.testing.assert_close(found.coordinates - there, means.double(), rtol=0, atol=1e-6)


# What the extension says


@pytest.mark.parametrize("name", [SPZ, f"{KHR}_compression_spz", "KHR_spz_gaussian_splats_compression"])
def test_gaussians_as_spz(tmp_path: Path, name: str) -> None:
    data = encode_spz_file(some_scene(30, degree=2), 3)
    (tmp_path / "a.spz").write_bytes(data)
    expected = read_spz(tmp_path / "a.spz")
    file = GltfFile()
    packed = {name: {"bufferView": file.view(data)}}
    beside = name.startswith("KHR_spz")
    file.extended(packed if beside else {KHR: {"extensions": packed}}, {"POSITION": 0})
    file.root["extensionsRequired"] = file.root["extensionsUsed"] = [KHR, name]
    found = read(tmp_path, file.glb())
    assert all(torch.equal(*pair) for pair in zip(found.tensors, expected.tensors, strict=True))
    file.root["nodes"][0]["translation"] = [0, 5, 0]
    torch.testing.assert_close(read(tmp_path, file.glb()).means, expected.means - torch.tensor([0, 5.0, 0]))


def srgb(linear: float) -> float:
    return float(12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055)


def test_linear_light_is_shown_as_it_looks(tmp_path: Path) -> None:
    linear = [0.5, 0.001, 1.2]
    constant = (np.array([linear]) - 0.5) / SH_C0
    arrays = gaussians(1, degree=1, DEGREE_0_COEF_0=constant.astype(np.float32))
    with pytest.warns(UserWarning, match=r"a\.glb: colours are linear light"):
        found = read(tmp_path, one_primitive(arrays, colorSpace="lin_rec709_display").glb())
    torch.testing.assert_close(0.5 + SH_C0 * found.sh[0, 0], torch.tensor([srgb(value) for value in linear]))
    plain = read(tmp_path, one_primitive(arrays).glb())
    slopes = torch.tensor([(srgb(value + 1e-4) - srgb(value - 1e-4)) / 2e-4 for value in linear])
    torch.testing.assert_close(found.sh[:, 1:], plain.sh[:, 1:] * slopes, rtol=1e-3, atol=1e-6)


def test_what_is_unknown_is_not_used(tmp_path: Path) -> None:
    file = one_primitive(gaussians(), kernel="cube", sortingMethod=["zDepth"])
    with (
        pytest.warns(UserWarning, match=r"a\.glb: the kernel cube is unknown and not used"),
        pytest.warns(UserWarning, match="the sortingMethod .* is unknown and not used"),
    ):
        assert len(read(tmp_path, file.glb())) == 1


def test_values_beyond_their_range(tmp_path: Path) -> None:
    arrays = gaussians(2, OPACITY=np.array([[-3], [0.5]], np.float32), SCALE=-np.ones((2, 3), np.float32))
    with pytest.warns(UserWarning, match=r"a\.glb: opacities outside 0 to 1 are clamped \(in 1 Gaussians\)"):
        found = read(tmp_path, one_primitive(arrays).glb())
    assert found.opacities.tolist() == [0, 0.5]
    assert found.scales.min() == 1


# Writing


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
@pytest.mark.parametrize("degree", range(5))
def test_a_round_trip_is_that_of_a_ply_file(tmp_path: Path, degree: int, suffix: str) -> None:
    scene = some_scene(degree=degree)
    for name in (f"a{suffix}", "a.ply"):
        write_scene(tmp_path / name, scene)
    found, ply = (read_scene(tmp_path / name) for name in (f"a{suffix}", "a.ply"))
    kept = min((degree + 1) ** 2, 16)
    assert torch.equal(found.means, scene.means)
    assert torch.equal(found.sh, scene.sh[:, :kept])
    assert torch.equal(found.scales, scene.scales)
    assert torch.equal(found.opacities, scene.opacities)
    assert torch.equal(found.quats, ply.quats)
    assert angles(found.quats, scene.quats).max() < 1e-3
    dropped = ["spherical harmonics of degree 4 are dropped"]
    assert losses_of(suffix, scene) == (dropped if degree == 4 else [])
    write_scene(tmp_path / f"b{suffix}", found)
    assert (tmp_path / f"b{suffix}").stat().st_size == (tmp_path / f"a{suffix}").stat().st_size


def test_a_glb_is_laid_out_as_the_specification_says(tmp_path: Path) -> None:
    scene = some_scene(7, degree=1)
    write_scene(tmp_path / "a.glb", scene)
    data = (tmp_path / "a.glb").read_bytes()
    magic, version, total, size, kind = struct.unpack("<4sIII4s", data[:20])
    assert (magic, version, total, kind) == (b"glTF", 2, len(data), b"JSON")
    root = json.loads(data[20 : 20 + size])
    binary = data[20 + size + 8 :]
    assert size % 4 == 0
    assert struct.unpack("<I4s", data[20 + size :][:8]) == (len(binary), b"BIN\0")
    (primitive,) = root["meshes"][0]["primitives"]
    assert primitive["mode"] == 0
    assert primitive["extensions"][KHR] == {
        "kernel": "ellipse",
        "colorSpace": "srgb_rec709_display",
        "projection": "perspective",
        "sortingMethod": "cameraDistance",
    }
    assert root["extensionsUsed"] == [KHR]
    assert list(primitive["attributes"]) == list(gaussians(degree=1))
    position = root["accessors"][primitive["attributes"]["POSITION"]]
    stored = (scene.means * FLIP).tolist()
    assert position["min"] == [min(column) for column in zip(*stored, strict=True)]
    assert position["max"] == [max(column) for column in zip(*stored, strict=True)]
    assert np.frombuffer(binary, "<f4", 21).reshape(7, 3).tolist() == stored
    turns = np.frombuffer(binary, "<f4", 28, 84).reshape(7, 4)
    assert np.allclose(np.linalg.norm(turns, axis=1), 1, atol=1e-6)
    write_scene(tmp_path / "a.gltf", scene)
    in_json = json.loads((tmp_path / "a.gltf").read_text())
    assert base64.b64decode(in_json["buffers"][0].pop("uri").partition(",")[2]) == binary
    assert in_json == root


@pytest.mark.parametrize("suffix", [".glb", ".gltf"])
def test_a_scene_that_is_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr("splat.scene.gltf_writer._MOST_BYTES", 1000)
    monkeypatch.setattr("splat.scene.gltf_writer.LIMITS", type("Limits", (), {"bytes": 1000}))
    with pytest.raises(SceneError, match=r"1000 bytes, which this scene exceeds; write it as"):
        write_scene(tmp_path / f"a{suffix}", some_scene(50))
    assert not list(tmp_path.iterdir())


def test_commands_take_it_as_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scene(tmp_path / "a.ply", some_scene(60, degree=2))
    pictures = []
    for name in ("a.ply", "b.glb", "c.gltf", "d.ply"):
        if not (tmp_path / name).exists():
            before = max(tmp_path.glob("?.[gp]l*"))
            assert run(capsys, "convert", before, tmp_path / name)[::2] == (0, "")
        assert run(capsys, "info", tmp_path / name)[0] == 0
        assert run(capsys, "render", tmp_path / name, "-o", tmp_path / "a.png", "--size", "60x40")[::2] == (0, "")
        pictures.append(np.asarray(Image.open(tmp_path / "a.png"), np.int64))
    assert pictures[0].std() > 5
    assert max(np.abs(picture - pictures[0]).max() for picture in pictures) <= 1


# Broken and hostile files


def changed(change: Callable[[dict[str, Any]], Any]) -> bytes:
    """A file whose JSON is another one."""
    file = one_primitive(gaussians(5))
    file.glb()
    change(file.root)
    return glb(json.dumps(file.root).encode(), file.data)


def entry(kind: str, index: int = 0, **values: Any) -> bytes:
    return changed(lambda root: root[kind][index].update(values))


def primitive(**values: Any) -> bytes:
    return changed(lambda root: root["meshes"][0]["primitives"][0].update(values))


def without(name: str) -> bytes:
    return changed(lambda root: root["meshes"][0]["primitives"][0]["attributes"].pop(name))


def spz(view: Any) -> bytes:
    return primitive(extensions={KHR: {"extensions": {SPZ: {"bufferView": view}}}})


WHOLE = one_primitive(gaussians(5)).glb()
BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "a .glb file or glTF as JSON is required, found something else"),
    "zeros": (bytes(99), "a .glb file or glTF as JSON is required, found something else"),
    "list": (b"[]", "version 2 of glTF is required as 'asset', found None"),
    "no asset": (b"{}", "version 2 of glTF is required as 'asset', found None"),
    "first version": (b'{"asset": {"version": "1.0"}}', "version 2 of glTF is required as 'asset', found 1.0"),
    "version": (b'{"asset": {"version": 2}}', "version 2 of glTF is required as 'asset', found 2"),
    "old container": (glb(b"{}", None, 1), "version 2 of .glb is required, found b'.x01"),
    "magic": (b"glTF", "version 2 of .glb is required"),
    "no chunk": (WHOLE[:12], "a chunk needs a header and 0 bytes, found 0: truncated"),
    "short header": (WHOLE[:17], "a chunk needs a header and 0 bytes, found 5: truncated"),
    "cut JSON": (WHOLE[:99], "a chunk needs a header and [0-9]* bytes, found 79: truncated"),
    "cut data": (WHOLE[:-1], "a chunk needs a header and 280 bytes, found 279: truncated"),
    "chunks": (WHOLE[:16] + b"BIN\0" + WHOLE[20:], "the first chunk of a .glb file must be b'JSON', found b'BIN"),
    "deep": (b'{"a":' * 100_000, "found something else"),
    "objects": (b"[" + b"{}," * 300_000, "at most 200000 objects and lists is required"),
    "digits": (b'{"asset": {"version": 1' + b"0" * 5000 + b"}}", "found something else"),
    "no scene": (changed(lambda root: root.pop("scenes")), "the index of an object in 'scenes' is required, found 0"),
    "scene": (changed(lambda root: root.update(scene=-1)), "object in 'scenes' is required, found -1"),
    "nodes": (entry("scenes", nodes=3), "'nodes' must be a list of indices"),
    "node": (entry("scenes", nodes=[1]), "the index of an object in 'nodes' is required, found 1"),
    "true": (entry("scenes", nodes=[True]), "the index of an object in 'nodes' is required, found True"),
    "circle": (entry("nodes", children=[0]), "a node must be in one place, found node 0 in several"),
    "matrix": (entry("nodes", matrix=[1] * 15), "'matrix' must be a list of 16 to 16 numbers"),
    "not finite": (entry("nodes", translation=[0, 0, float("inf")]), "'translation' must hold finite numbers alone"),
    "no rotation": (entry("nodes", rotation=[0] * 4), "must be a quaternion, found one of length 0"),
    "mesh": (entry("nodes", mesh=[0]), r"the index of an object in 'meshes' is required, found \[0\]"),
    "primitives": (entry("meshes", primitives={}), "'primitives' must be a list"),
    "a primitive": (entry("meshes", primitives=[3]), "'extensions' must be an object"),
    "no Gaussians": (
        changed(lambda root: root.update(extensionsUsed=[], meshes=[{}])),
        f"a scene that has a primitive with {KHR} is required, found none",
    ),
    "required": (
        changed(lambda root: root.update(extensionsRequired=["KHR_draco_mesh_compression"])),
        "without required extensions but .* is read, found 'KHR_draco_mesh_compression'",
    ),
    "mode": (primitive(mode=4), f"the mode of a primitive with {KHR} must be 0, found 4"),
    "extension": (primitive(extensions={KHR: 3}), f"'{KHR}' must be an object"),
    "attributes": (primitive(attributes=[]), "'attributes' must be an object"),
    "no opacity": (without(f"{KHR}:OPACITY"), f"must have the attribute {KHR}:OPACITY, found POSITION, "),
    "part of a degree": (
        changed(lambda root: root["meshes"][0]["primitives"][0]["attributes"].update({f"{KHR}:SH_DEGREE_2_COEF_1": 0})),
        f"must have the attribute {KHR}:SH_DEGREE_1_COEF_0, found",
    ),
    "accessor": (primitive(attributes={**dict.fromkeys(gaussians(), 99)}), "'accessors' is required, found 99"),
    "kind": (entry("accessors", type="VEC4"), "accessor 0 must be of type VEC3 and whole, found VEC4"),
    "sparse": (entry("accessors", sparse={}), "accessor 0 must be of type VEC3 and whole, found a sparse one"),
    "component": (entry("accessors", componentType=5125), "must be one of .*5126.*, found 5125"),
    "no view": (entry("accessors", bufferView=None), "the index of an object in 'bufferViews' is required, found None"),
    "count": (entry("accessors", count=2**31), "accessor 0 needs 25769803776 bytes of its buffer view, found 60"),
    "one more": (entry("accessors", count=6), "accessor 0 needs 72 bytes of its buffer view, found 60: truncated"),
    "one less": (entry("accessors", count=4), "must be of as many Gaussians, found 4 and 5"),
    "none": (entry("accessors", count=0), "'count' must be a whole number from 1 to"),
    "fraction": (entry("accessors", count=1.5), "'count' must be a whole number from 1 to .*, found 1.5"),
    "offset": (entry("accessors", byteOffset=1), "accessor 0 needs 61 bytes of its buffer view, found 60: truncated"),
    "below 0": (entry("accessors", byteOffset=-4), "'byteOffset' must be a whole number from 0"),
    "stride": (entry("bufferViews", byteStride=4), "'byteStride' must be a whole number from 12 to 252, found 4"),
    "view": (entry("bufferViews", byteLength=2**40), "a buffer view needs 1099511627776 bytes .* found 280: truncated"),
    "before": (entry("bufferViews", byteOffset=-1), "'byteOffset' must be a whole number from 0"),
    "buffer": (entry("bufferViews", buffer=1), "the index of an object in 'buffers' is required, found 1"),
    "size": (entry("buffers", byteLength=281), "buffer 0 must have 281 bytes, found 280: truncated"),
    "elsewhere": (entry("buffers", uri=3), "the buffer 3 cannot be read"),
    "spz": (spz(0), "an .spz file is required, a gzip stream or a file that begins with NGSP"),
    "no spz": (spz(None), "the index of an object in 'bufferViews' is required, found None"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(tmp_path: Path, case: str) -> None:
    data, message = BROKEN[case]
    (tmp_path / "a.glb").write_bytes(data)
    refused_in_little_memory(tmp_path / "a.glb", message)


def test_gaussians_in_too_many_places(tmp_path: Path) -> None:
    file = one_primitive(gaussians(2000))
    file.root["nodes"] = [{"mesh": 0} for _ in range(9999)]
    file.root["scenes"] = [{"nodes": [*range(9999)]}]
    (tmp_path / "a.glb").write_bytes(file.glb())
    with pytest.raises(SceneError, match=r"a\.glb: .* bytes are packed into .* more than 100 times as many"):
        read_scene(tmp_path / "a.glb")
    file = one_primitive(gaussians(1))
    file.root["meshes"][0]["primitives"] *= 101
    file.root.update(nodes=[{"mesh": 0} for _ in range(100)], scenes=[{"nodes": [*range(100)]}])
    (tmp_path / "a.glb").write_bytes(file.glb())
    refused_in_little_memory(tmp_path / "a.glb", "at most 10000 placed primitives .* are read, found more")


def test_spz_that_is_unpacked_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = GltfFile()
    view = file.view(encode_spz_file(some_scene(1000, degree=0), 3))
    for _ in range(9):
        file.extended({KHR: {"extensions": {SPZ: {"bufferView": view}}}}, {})
    (tmp_path / "a.glb").write_bytes(file.glb())
    assert len(read_scene(tmp_path / "a.glb")) == 9000
    monkeypatch.setattr("splat.scene.file_input.ALWAYS_ALLOWED", 9 * 1000 * 56)
    monkeypatch.setattr("splat.scene.file_input.MOST_TIMES", 0)
    with pytest.raises(SceneError, match="bytes are packed into"):
        read_scene(tmp_path / "a.glb")
