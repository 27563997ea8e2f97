"""`read_ply`: every way to write the same scene, what stands in for what is absent, and broken files."""

from __future__ import annotations

import contextlib
import io
import math
import os
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import how_many
from ply_files import FORMATS, NAMES, WHOLE, XYZ, columns, header, no_other_warning, ply, text
from scenes import real_scene

from splat.scene import ply_rows
from splat.scene.gaussians import SH_C0, Gaussians, SceneError
from splat.scene.ply import read_ply

NORMALS = ["nx", "ny", "nz"]


def read(tmp_path: Path, data: bytes) -> Gaussians:
    path = tmp_path / "scene.ply"
    path.write_bytes(data)
    return read_ply(path, only_points=True)


def assert_same(found: Gaussians, expected: Gaussians) -> None:
    for value, other in zip(found.tensors, expected.tensors, strict=True):
        assert torch.equal(value, other)


def test_what_the_properties_mean(tmp_path: Path) -> None:
    values = columns()
    found = read(tmp_path, ply(values))
    for i, axis in enumerate("xyz"):
        assert np.array_equal(found.means[:, i], values[axis])
        assert np.array_equal(found.sh[:, 0, i], values[f"f_dc_{i}"])
        assert np.allclose(found.scales[:, i], np.exp(values[f"scale_{i}"]), rtol=1e-6)
        # f_rest holds all coefficients of red, then of green, then of blue.
        for k in range(15):
            assert np.array_equal(found.sh[:, 1 + k, i], values[f"f_rest_{15 * i + k}"])
    for i in range(4):
        assert np.array_equal(found.quats[:, i], values[f"rot_{i}"])
    assert np.allclose(found.opacities, 1 / (1 + np.exp(-values["opacity"])), rtol=1e-6)
    assert found.degree == 3
    assert len(found) == 7
    for value in found.tensors:
        assert value.dtype == torch.float32
        assert value.is_contiguous()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_reads_the_same(tmp_path: Path, form: str, newline: str) -> None:
    values = columns()
    assert_same(read(tmp_path, ply(values, form, newline=newline)), read(tmp_path, ply(values)))


@settings(max_examples=how_many(25), deadline=None, derandomize=True)
@given(
    order=st.permutations(NAMES + NORMALS + ["extra"]),
    form=st.sampled_from(sorted(FORMATS)),
    doubles=st.sets(st.sampled_from(NAMES + NORMALS)),
    degree=st.integers(0, 3),
)
def test_order_types_and_extras_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, order: list[str], form: str, doubles: set[str], degree: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("ply")
    bands = 3 * ((degree + 1) ** 2 - 1)
    kept = {name: v for name, v in columns().items() if not name.startswith("f_rest_") or int(name[7:]) < bands}
    extra = {name: np.arange(7) for name in [*NORMALS, "extra"]}
    values = {name: {**kept, **extra}[name] for name in order if name in kept or name in extra}
    types = {**dict.fromkeys(doubles, "double"), "extra": "short"}
    found = read(tmp_path, ply(values, form, types))
    assert_same(found, read(tmp_path, ply(kept)))
    assert found.degree == degree


@pytest.mark.parametrize("form", FORMATS)
def test_other_elements_are_passed_over(tmp_path: Path, form: str) -> None:
    header = "element camera 2\nproperty float fx\nproperty uchar id\n"
    header += "element face 2\nproperty list uchar int vertex_indices\nproperty short flag\nproperty list int float t"
    if form == "ascii":
        body = b"1.5 3\n2.5 4\n3 0 1 2 9 1 0.5\n0 8 0\n"
    else:
        o = FORMATS[form]
        parts = [
            np.array([(1.5, 3), (2.5, 4)], [("fx", o + "f4"), ("id", "u1")]),
            *(np.array([3], "u1"), np.array([0, 1, 2], o + "i4"), np.array([9], o + "i2")),
            *(np.array([1], o + "i4"), np.array([0.5], o + "f4")),
            *(np.array([0], "u1"), np.array([8], o + "i2"), np.array([0], o + "i4")),
        ]
        body = b"".join(part.tobytes() for part in parts)
    values = columns()
    data = ply(values, form, before=(header, body))
    assert_same(read(tmp_path, data), read(tmp_path, ply(values)))
    behind = data.replace(b"end_header\n", b"element more 9\nproperty list uchar int bits\nend_header\n")
    assert_same(read(tmp_path, behind), read(tmp_path, ply(values)))


def without(*names: str) -> dict[str, np.ndarray]:
    return {name: value for name, value in columns().items() if name not in names}


def test_what_stands_in_for_absent_properties(tmp_path: Path) -> None:
    bare = read(tmp_path, ply({name: columns(400)[name] for name in "xyz"}))
    assert torch.equal(bare.opacities, torch.ones(400))
    assert torch.equal(bare.quats, torch.tensor([[1.0, 0, 0, 0]]).expand(400, -1))
    assert torch.equal(bare.sh, torch.zeros(400, 1, 3))
    size = bare.scales[0, 0].item()
    assert torch.equal(bare.scales, torch.full((400, 3), size))
    # Normally distributed points, 98 of 100 within 2.05 deviations of the middle on each axis.
    assert size == pytest.approx(0.5 * math.sqrt(3) * 2 * 2.05 / math.sqrt(400), rel=0.1)

    ball = read(tmp_path, ply(without("scale_1", "scale_2")))
    assert torch.equal(ball.scales, ball.scales[:, :1].expand(-1, 3))
    flat = read(tmp_path, ply(without("scale_2")))
    assert torch.equal(flat.scales[:, 2], torch.zeros(7))
    assert torch.equal(flat.scales[:, :2], read(tmp_path, ply(columns())).scales[:, :2])


@pytest.mark.parametrize(("kind", "scale"), [("uchar", 255), ("float", 1), ("double", 255)])
def test_point_cloud_colors(tmp_path: Path, kind: str, scale: float) -> None:
    values = {name: columns()[name] for name in "xyz"}
    rgb = np.array([[0, 51, 255]] * 7) / 255 * scale
    values |= {name: rgb[:, i] for i, name in enumerate(("red", "green", "blue"))}
    found = read(tmp_path, ply(values, types=dict.fromkeys(("red", "green", "blue"), kind)))
    assert torch.allclose(0.5 + SH_C0 * found.sh[:, 0], torch.tensor([0.0, 0.2, 1.0]).expand(7, -1), atol=1e-6)


def test_infinite_logits_are_opacities(tmp_path: Path) -> None:
    values = columns(4)
    values["opacity"] = np.array([-np.inf, np.inf, 0, -200], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read(tmp_path, ply(values))
    assert found.opacities.tolist() == [0, 1, 0.5, pytest.approx(0, abs=1e-30)]


@pytest.mark.parametrize("form", FORMATS)
def test_gaussians_that_are_not_finite_are_left_out_and_counted(tmp_path: Path, form: str) -> None:
    values = columns(9)
    values["x"][1] = np.nan
    values["y"][2] = np.inf
    values["f_rest_7"][3] = -np.inf
    values["opacity"][4] = np.nan
    values["scale_1"][5] = 200
    values["scale_2"][6] = -np.inf
    for i in range(4):
        values[f"rot_{i}"][7] = 0
    with pytest.warns(UserWarning, match="left out 6 of 9 Gaussians, which have a NaN, an infinity or a rotation of"):
        found = read(tmp_path, ply(values, form))
    kept = [0, 6, 8]
    assert np.array_equal(found.means[:, 0], values["x"][kept])
    assert found.scales[1, 2] == 0
    assert all(torch.isfinite(value).all() for value in found.tensors)


def test_a_file_of_no_gaussians(tmp_path: Path) -> None:
    for form in FORMATS:
        found = read(tmp_path, ply(columns(0), form))
        assert len(found) == 0
        assert found.sh.shape == (0, 16, 3)


def test_text_of_a_number_of_any_form(tmp_path: Path) -> None:
    data = ply({"x": np.zeros(1), "y": np.zeros(1), "z": np.zeros(1)}, "ascii").replace(b"0.0 0.0 0.0", b"1 -2.5e-1  3")
    assert read(tmp_path, data).means.tolist() == [[1, -0.25, 3]]


TEXT = ply(columns(3), "ascii")


BYTE = f"element vertex 1\n{XYZ}property uchar flag\n"

BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "a PLY file is required, found an empty file"),
    "foreign": (b"\x89PNG\r\n\x1a\n" + bytes(90), r"starts with the line 'ply', is required, found b'\\x89PNG"),
    "zip": (b"PK\x03\x04" + bytes(90), "starts with the line 'ply', is required"),
    "only magic": (b"ply\n", "must end with the line 'end_header', found line 2: b''"),
    "cut header": (WHOLE[:300], "must end with the line 'end_header', found line"),
    "endless line": (b"ply\ncomment " + bytes(200000), "must end with the line 'end_header', found line 2"),
    "cut rows": (WHOLE[:-1], r"7 rows of 'vertex' need 1652 bytes from byte \d+ on, found 1651: truncated"),
    "no rows": (WHOLE[: -7 * 59 * 4], "7 rows of 'vertex' need 1652 bytes .* found 0: truncated"),
    "cut text": (TEXT[: TEXT.rindex(b"\n", 0, -1) + 1], "3 rows of 'vertex' are required, found 2: truncated"),
    "cut text row": (TEXT[:-30], r"row 2 of 'vertex' must have 59 numbers, found 5\d"),
    "words": (TEXT[:-8] + b" zebra\n", r"rows of 'vertex' must be numbers: .*zebra|row 2 of 'vertex' must have 59"),
    "no format": (b"ply\nelement vertex 0\nend_header\n", r"must name a format \(ascii, .*\), found none"),
    "format": (WHOLE.replace(b"little", b"middle"), "header line 2 is not understood: b'format binary_middle"),
    "type": (WHOLE.replace(b"float x\n", b"quad x\n"), "line 5 is not understood: 'property quad x'"),
    "count": (WHOLE.replace(b"vertex 7", b"vertex -7"), "line 4 is not understood: b'element vertex -7"),
    "huge count": (WHOLE.replace(b"vertex 7", b"vertex 99999999999"), "99999999999 rows of 'vertex' need .* truncated"),
    "stray property": (header("property float x\n"), "line 3 is not understood: b'property float x"),
    "float length": (header("element face 1\nproperty list float int i\n"), "not understood: 'property list float int"),
    "no vertex": (header("element face 0\n"), "an element 'vertex' is required, found face"),
    "no element": (header(""), "an element 'vertex' is required, found none"),
    "no z": (header("element vertex 1\nproperty float x\nproperty float y\n"), "properties x, y and z, found x, y"),
    "nothing": (header("element vertex 5\n"), "must have the properties x, y and z, found none"),
    "list": (header(f"element vertex 1\n{XYZ}property list uchar int i\n"), "must be scalar, found lists: i"),
    "twice": (header(f"element vertex 1\n{XYZ}property int x\n"), "must differ in name, found twice: x"),
    "compressed": (
        header("element vertex 1\nproperty uint packed_position\n"),
        "'chunk' of a compressed PLY must have the properties min_x, .*; found none",
    ),
    "two of rot": (ply(without("rot_2", "rot_3")), "rot_0, .*, rot_3 belong together, found only rot_0, rot_1"),
    "two of f_dc": (ply(without("f_dc_1")), "f_dc_0, f_dc_1, f_dc_2 belong together, found only f_dc_0, f_dc_2"),
    "scale hole": (ply(without("scale_0")), "scale_0, scale_1 and scale_2 belong together, found only scale_1, sc"),
    "rest count": (ply(without("f_rest_44")), "f_rest_0 .* 0, 9, 24, 45 or 72 properties in a row, found 44"),
    "rest hole": (ply({**without("f_rest_3"), "f_rest_45": columns()["x"]}), "properties in a row, found 45"),
    "cut list": (header(f"element face 2\nproperty list uchar int i\nelement vertex 0\n{XYZ}") + b"\x02", "truncated"),
    "long list": (
        header(f"element face 2\nproperty list uint int i\nelement vertex 0\n{XYZ}") + b"\xff\xff\xff\xff" + bytes(90),
        "2 rows of 'face' need at least .* found 94: truncated",
    ),
    "digits": (header(f"element vertex {'9' * 5000}\n{XYZ}"), "at most 18 digits, found 5000 in header line 3"),
    "most digits": (header(f"element vertex {'9' * 18}\n{XYZ}"), "999999999999999999 rows of 'vertex' need .* found 0"),
    "most digits of text": (
        text(f"element vertex {'9' * 18}\n{XYZ}", b"1 2 3\n"),
        "need at least .* found 6: truncated",
    ),
    "elements": (
        header("element vertex 0\n" + "element e 0\n" * 256),
        "at most 256 elements .* found more: 257 and 0 up",
    ),
    "properties": (
        header("element vertex 0\n" + "".join(f"property int p{i}\n" for i in range(5000))),
        "at most 256 elements and 4096 properties, found more: 1 and 4097 up to line 4100",
    ),
    "long header": (header(f"comment {'c' * 60000}\n" * 20), "at most 1048576 bytes, found more: 20 lines so far"),
    "element twice": (header(f"element vertex 0\n{XYZ}element vertex 1\n"), "elements must differ .* twice: vertex"),
    "names": (
        header("element vertex 0\n" + "".join(f"property int {i}\x1b{'n' * 50}\n" for i in range(99))),
        r"found '0\\x1bn{38}', .*, and 87 more$",
    ),
    "long row": (text(f"element vertex 1\n{XYZ}", b"1 " * 2**20), "row 0 of 'vertex' must have fewer than 1048576 byt"),
    "white space": (
        text(f"element vertex 1\n{XYZ}", b" \n" * 2**20),
        "1 rows of 'vertex' are required, found 0: trunc",
    ),
    "cut face": (
        text(f"element face 3\nproperty int i\nelement vertex 1\n{XYZ}", b"1\n\n2"),
        "3 rows of 'face' .* found 2",
    ),
    "large byte": (
        text(BYTE, b"1 2 3 256\n"),
        "'flag' of 'vertex' must be a whole number from 0 to 255, found 256 in row 0",
    ),
    "broken byte": (text(BYTE, b"1 2 3 1.5\n"), "'flag' of 'vertex' must be a whole number .* found 1.5 in row 0"),
    "no byte": (text(BYTE, b"1 2 3 nan\n"), "'flag' of 'vertex' must be a whole number .* found nan in row 0"),
    "negative list": (
        header(f"element face 1\nproperty list char int i\nelement vertex 0\n{XYZ}") + b"\xff",
        "a list of 'face' must have a length of 0 or more, found -1",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(tmp_path: Path, case: str) -> None:
    data, message = BROKEN[case]
    with pytest.raises(SceneError, match=message) as raised:
        read(tmp_path, data)
    assert str(raised.value).startswith(f"{tmp_path / 'scene.ply'}: ")


LINES = [
    *["ply", "end_header", "comment c", "obj_info o", "", "format ascii 1.0", "format binary_little_endian 1.0"],
    *["format binary_big_endian 1.0", "element vertex 2", "element face 2", "element face 0"],
    *(f"property float {name}" for name in ("x", "y", "z", "opacity", "scale_0", "rot_0", "f_dc_0", "f_rest_0")),
    *["property uchar red", "property uchar green", "property uchar blue", "property double x", "property short y"],
    *[
        "property list uchar int i",
        "property list char double i",
        "property list uint uchar i",
        "property list float int i",
    ],
]
WORDS = ["element", "property", "list", "vertex", "face", "float", "uchar", "int", "x", "y", "z", "0", "1", "-1", "007"]
WORDS += ["1e3", "\xb2", "9" * 18, "9" * 19, "9" * 5000, "18446744073709551616", "4294967295", "\x00", "n" * 70000]
header_lines = st.lists(
    st.one_of(st.sampled_from(LINES), st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)), max_size=12
)
NUMBERS = [
    "0",
    "1",
    "-1",
    "255",
    "256",
    "nan",
    "-inf",
    "1e39",
    "1e400",
    "1_0",
    "0x1p3",
    "\x00",
    "9" * 400,
    "z",
    "\n",
    "",
]
bodies = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from(NUMBERS), max_size=40).map(lambda words: " ".join(words).encode()),
    st.lists(st.sampled_from([np.nan, np.inf, 3e38, -3e38, 1e-40, 100.0, 0.0]), max_size=40).map(
        lambda numbers: np.array(numbers, "<f4").tobytes()
    ),
)


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    """A file that was whole, cut and with bytes replaced, inserted or taken away."""
    rows = draw(st.sampled_from([3, 3, 3, 0]))
    values = {name: v for name, v in columns(rows).items() if not name.startswith("f_rest_") or draw(st.booleans())}
    lists = (
        "element face 2\nproperty list uchar short i\nproperty int flag",
        bytes([1, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    )
    form = draw(st.sampled_from(sorted(FORMATS)))
    whole = ply(values, form, before=lists if form != "ascii" and draw(st.booleans()) else ("", b""))
    damaged = bytearray(whole[: draw(st.integers(len(whole) // 2, len(whole)))])
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(damaged)))
        damaged[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(damaged)


@pytest.mark.slow
@settings(max_examples=how_many(150), deadline=None, derandomize=True)
@given(
    data=st.one_of(
        damaged_files(),
        st.builds(
            lambda lines, body: "\n".join(["ply", *lines, "end_header", ""]).encode("latin-1") + body,
            header_lines,
            bodies,
        ),
        st.builds(
            lambda form, names, body: text(
                "element vertex 2\n" + "".join(f"property {n}\n" for n in names), body
            ).replace(b"ascii", form.encode()),
            st.sampled_from(sorted(FORMATS)),
            st.permutations(["float x", "double y", "int z", "float opacity", "float scale_0", "float red", "uchar i"]),
            bodies,
        ),
        st.binary(max_size=100).map(lambda rest: b"ply\n" + rest),
        st.binary(max_size=100),
    )
)
def test_damaged_files_are_read_or_refused_but_never_crash(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.ply"
    path.write_bytes(data)
    with no_other_warning(), contextlib.suppress(SceneError):
        assert len(read_ply(path)) <= len(data)


class CountedFile(io.BytesIO):
    """A file that counts what is asked of it."""

    calls = 0
    bytes = 0

    def read(self, size: int | None = -1) -> Any:
        self.calls += 1
        data = super().read(size)
        self.bytes += len(data)
        return data

    def readline(self, size: int | None = -1) -> Any:
        self.calls += 1
        data = super().readline(size)
        self.bytes += len(data)
        return data


ROWS = 200_000
LISTS = f"element face {ROWS}\nproperty list uchar int i\nelement vertex 1\n{XYZ}"
MEGABYTE = 2**20
# What of a file is large, and how many times it may be read from it.
LARGE: dict[str, tuple[bytes, int]] = {
    "empty lists": (header(LISTS) + bytes(ROWS + 12), 20),
    "triangles": (header(LISTS) + (b"\3" + bytes(12)) * ROWS + bytes(12), 40),
    "lists of any length": (
        header(LISTS.replace("int", "uchar"))
        + b"".join(bytes([i % 3, *bytes(i % 3)]) for i in range(ROWS))
        + bytes(12),
        20,
    ),
    "long lists": (
        header(LISTS.replace(f"{ROWS}", "9").replace("uchar", "uint"))
        + (np.uint32(200_000).tobytes() + bytes(800_000)) * 9
        + bytes(12),
        30,
    ),
    "lists behind": (header(f"element vertex 1\n{XYZ}{LISTS[: LISTS.index('element vertex')]}") + bytes(ROWS), 12),
    "rows of nothing": (header(f"element face {'9' * 18}\nelement vertex 1\n{XYZ}") + bytes(12), 12),
    "rows before": (
        header(f"element e {ROWS}\nproperty double a\nelement vertex 1\n{XYZ}") + bytes(8 * ROWS + 12),
        12,
    ),
    "vertices": (header(f"element vertex {10**5}\n{XYZ}property double w\n") + bytes(20 * 10**5), 20),
    "row without end before": (
        text(f"element face 1\nproperty list uchar int i\nelement vertex 1\n{XYZ}", b"1 " * 2 * MEGABYTE + b"\n1 2 3"),
        80,
    ),
    "white space before": (text(f"element vertex 1\n{XYZ}", b" " * 4 * MEGABYTE + b"\n1 2 3"), 20),
    "row without end": (text(f"element vertex 1\n{XYZ}", b"1" * 4 * MEGABYTE), 12),
    "spaces without end": (text(f"element vertex 1\n{XYZ}", b" " * 4 * MEGABYTE), 20),
    "count": (header(f"element vertex {'9' * 18}\n{XYZ}") + bytes(100), 12),
    "header": (b"ply\n" + b"comment\n" * 10**6, 2**17 + 12),
    "line of the header": (b"ply\ncomment " + b"c" * 4 * MEGABYTE, 12),
}


@pytest.mark.parametrize("case", LARGE)
def test_work_and_memory_are_linear_in_the_size_of_the_file(case: str) -> None:
    data, most_calls = LARGE[case]
    file = CountedFile(data)
    tracemalloc.start()
    try:
        with no_other_warning(), contextlib.suppress(SceneError):
            ply_rows.read_vertices(file, lambda names: {"x", "y", "z"})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert file.calls <= most_calls
    assert file.bytes <= len(data) + 16 * file.calls
    assert peak <= 8 * MEGABYTE


@pytest.mark.parametrize("case", ["empty lists", "triangles", "lists of any length", "long lists"])
def test_files_of_lists_that_are_cut(tmp_path: Path, case: str) -> None:
    whole, _ = LARGE[case]
    assert len(read(tmp_path, whole)) == 1
    for cut in (1, 10**5):
        with pytest.raises(SceneError, match=r"rows of '(face|vertex)' need .* truncated"):
            read(tmp_path, whole[:-cut])


def test_a_file_that_shrinks_while_it_is_read_is_truncated() -> None:
    class Shrinking(CountedFile):
        def read(self, size: int | None = -1) -> Any:
            return super().read(size)[:-1]

    for data in (WHOLE, LARGE["empty lists"][0][:-12]):
        with pytest.raises(
            SceneError, match=r"the file must have \d+ bytes, as it had when it was opened, found \d+: truncated"
        ):
            ply_rows.read_vertices(Shrinking(data), lambda names: {"x", "y", "z"})


def test_numbers_that_float32_cannot_hold_are_left_out_without_a_word_of_numpy_s(tmp_path: Path) -> None:
    values = {name: columns(5)[name].astype(np.float64) for name in NAMES}
    values["x"][0], values["opacity"][1], values["scale_0"][2], values["f_dc_1"][3] = 1e300, -1e300, 1e4, -1e300
    for form in FORMATS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = read(tmp_path, ply(values, form, dict.fromkeys(NAMES, "double")))
        assert len(found) == 2
        assert found.opacities[0] == 0
        assert [str(warning.message).split(": ", 1)[1][:29] for warning in caught] == [
            "left out 3 of 5 Gaussians, whi"[:29]
        ]
    far = {name: np.array([-3e38, 3e38, 0]) for name in "xyz"}
    with no_other_warning():
        read(tmp_path, ply(far))


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_ply(tmp_path / "none.ply")
    with pytest.raises(IsADirectoryError):
        read_ply(tmp_path)


def test_a_pipe_is_no_file() -> None:
    reader, writer = os.pipe()
    os.write(writer, WHOLE)
    os.close(writer)
    try:
        with pytest.raises(SceneError, match=r"/dev/fd/\d+: a regular file is required, found a pipe"):
            read_ply(f"/dev/fd/{reader}")
    finally:
        os.close(reader)


def test_bulba() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bulba = read_ply(real_scene("bulba.ply"))
    assert len(bulba) == 11982
    assert bulba.degree == 3
    assert (bulba.opacities == 0).any()
    assert bulba.opacities.max() <= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quats": torch.zeros(7, 3)}, r"quats must have shape \[7, 4\], found \[7, 3\]"),
        ({"opacities": torch.zeros(7, 1)}, r"opacities must have shape \[7\], found \[7, 1\]"),
        ({"sh": torch.zeros(7, 5, 3)}, r"sh must have shape \[7, K, 3\] with K = 1, 4, .* found \[7, 5, 3\]"),
        ({"sh": torch.zeros(7, 0, 3)}, r"sh must have shape .* found \[7, 0, 3\]"),
    ],
)
def test_gaussians_check_their_shapes(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    values = vars(read(tmp_path, WHOLE))
    with pytest.raises(ValueError, match=message):
        Gaussians(**{**values, **changes})


def test_values_are_kept_once(tmp_path: Path) -> None:
    data = ply(columns(20_000))
    (tmp_path / "a.ply").write_bytes(data)
    tracemalloc.start()
    try:
        read_ply(tmp_path / "a.ply")
        assert tracemalloc.get_traced_memory()[1] < 1.5 * len(data)
    finally:
        tracemalloc.stop()
