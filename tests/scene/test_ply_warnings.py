"""PLY files that may not mean what they seem to: one line says what was seen, and nothing is guessed."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from command_runs import run
from scene_files import some_scene

from splat.scene.formats import read_scene, write_scene
from splat.scene.gaussians import Gaussians


def ply(path: Path, columns: dict[str, np.ndarray], behind: bytes = b"", more: str = "") -> Path:
    """A binary file of float properties."""
    rows = np.stack([*columns.values()], axis=1).astype("<f4")
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(rows)}"]
    header += [f"property float {name}" for name in columns]
    path.write_bytes("\n".join([*header, f"{more}end_header\n"]).encode() + rows.tobytes() + behind)
    return path


def columns(
    scale: str = "scale_", rotation: str = "rot_", opacity: str = "opacity", color: str = "f_dc_", rest: str = ""
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    names = ["x", "y", "z", *(f"{color}{i}" for i in range(3)), opacity]
    names += [f"{scale}{i}" for i in range(3)] + [f"{rotation}{i}" for i in range(4)]
    names += [f"{rest}{i}" for i in range(9)] if rest else []
    return {name: rng.normal(size=20) for name in names}


def read_quietly(path: Path) -> Gaussians:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_scene(path)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            {"scale": "scaling_"},
            "the sizes are not read: scale_0 and its like are required, found scaling_0, ",
        ),
        ({"scale": "Scale_"}, "the sizes are not read: scale_0 and its like are required, found Scale_0"),
        ({"rotation": "rotation_"}, "the rotations are not read: rot_0 and its like are required, found rotation_0, "),
        ({"rotation": "quat_"}, "the rotations are not read: rot_0 and its like are required, found quat_0, "),
        ({"opacity": "opacities"}, "the opacities are not read: opacity and its like are required, found opacities"),
        ({"color": "features_dc_"}, "the colours are not read: f_dc_0 and its like are required, found features_dc_0"),
        ({"color": "n"}, "the Gaussians have no colours: f_dc_0 to f_dc_2 are required, found none; they are drawn"),
        ({"opacity": "n"}, "the Gaussians have no opacities: opacity is required, found none; they are drawn opaque"),
        ({"rest": "features_rest_"}, "the harmonics are not read: f_rest_0 and its like are required, found features_"),
    ],
)
def test_names_that_are_nearly_those(tmp_path: Path, names: dict[str, str], said: str) -> None:
    with pytest.warns(UserWarning, match=f"a.ply: {said}"):
        read_scene(ply(tmp_path / "a.ply", columns(**names)))


def test_rows_longer_than_the_header_says(tmp_path: Path) -> None:
    for behind, said in (
        (bytes(40), "40 bytes more than its header declares, 2 for each of 20 rows: if rows are longer"),
        (bytes(41), "41 bytes more than its header declares: if rows are longer"),
    ):
        with pytest.warns(UserWarning, match=f"a.ply: the file has {said}"):
            read_scene(ply(tmp_path / "a.ply", columns(), behind))
    faces = "element face 2\nproperty int a\n"
    with pytest.warns(UserWarning, match="the file has 20 bytes more"):
        read_scene(ply(tmp_path / "a.ply", columns(), bytes(28), faces))
    for behind, more in ((b"\n", ""), (bytes(8), faces), (bytes(99), "element face 1\nproperty list uchar int i\n")):
        read_quietly(ply(tmp_path / "a.ply", columns(), behind, more))


def test_values_after_activation(tmp_path: Path) -> None:
    values = columns()
    values["opacity"] = np.linspace(0, 1, 20)
    values.update({f"scale_{i}": np.exp(values[f"scale_{i}"]) for i in range(3)})
    with pytest.warns(UserWarning, match="a.ply: opacity and scale_0 to scale_2 are read as logits and logarithms,"):
        read_scene(ply(tmp_path / "a.ply", values))
    for name, value in (("opacity", -0.1), ("opacity", 1.1), ("scale_1", -0.1)):
        read_quietly(ply(tmp_path / "a.ply", {**values, name: np.append(values[name][1:], value)}))
    read_quietly(ply(tmp_path / "a.ply", {name: value[:10] for name, value in values.items()}))


def test_points_with_colours_are_named_and_nothing_else_is_doubted(tmp_path: Path) -> None:
    names = ("x", "y", "z", "nx", "ny", "nz", "red", "green", "blue", "alpha", "quality")
    path = ply(tmp_path / "a.ply", dict.fromkeys(names, np.linspace(0, 1, 20)))
    with pytest.warns(UserWarning, match="a point cloud, whose points have no sizes") as caught:
        read_scene(path)
    assert len(caught) == 1
    write_scene(tmp_path / "b.ply", some_scene())
    read_quietly(tmp_path / "b.ply")


def test_commands_say_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = ply(tmp_path / "a.ply", columns(scale="scaling_"), bytes(40))
    for words in (("info", path), ("render", path, "-o", tmp_path / "a.png", "--device", "cpu")):
        _, _, err = run(capsys, *words)
        assert [line.partition(": warning: ")[2].partition(": ")[2][:16] for line in err.splitlines()] == [
            "the sizes are no", "the file has 40 ",
        ]  # fmt: skip
