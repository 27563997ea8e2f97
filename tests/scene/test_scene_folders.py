"""Folders that stand for a scene: what 3DGS's training leaves, and a streamed .sog of several levels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from command_runs import run
from scene_files import some_scene

from splat.scene.camera import orbit
from splat.scene.camera_list import write_cameras
from splat.scene.formats import FORMATS, read_scene, write_scene
from splat.scene.gaussians import Gaussians, SceneError
from splat.view.scene_choices import find_scenes


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """What 3DGS's training leaves."""
    folder = tmp_path / "output"
    for iteration, count in ((7000, 20), (30000, 40), (900, 10)):
        place = folder / "point_cloud" / f"iteration_{iteration}"
        place.mkdir(parents=True)
        write_scene(place / "point_cloud.ply", some_scene(count))
    (folder / "point_cloud" / "iteration_best").mkdir()
    write_scene(folder / "input.ply", some_scene(99))
    write_cameras(folder / "cameras.json", [orbit(some_scene(40), 40, 30)], ["a.png"])
    return folder


def test_the_last_scene_of_a_training_is_shown(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = trained / "point_cloud" / "iteration_30000" / "point_cloud.ply"
    assert json.loads(run(capsys, "info", trained, "--json")[1])["file"] == str(last)
    out = trained.with_name("a.png")
    status, said, err = run(capsys, "render", trained, "--device", "cpu", "-o", out)
    assert (status, err) == (0, "")
    assert said.startswith("40 Gaussians, 800x600"), "through the first of its cameras"
    assert run(capsys, "convert", trained, trained.with_name("a.spz"))[0] == 0
    assert run(capsys, "export", trained, "-o", trained.with_name("a.html"))[0] == 0
    assert find_scenes([trained]) == {"point_cloud.ply": last}
    assert find_scenes([last.parent]) == {"point_cloud.ply": last}
    assert run(capsys, "info", last.parent)[0] == 0


def test_a_folder_of_no_scene_or_of_several_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], trained: Path
) -> None:
    write_scene(tmp_path / "a.ply", some_scene(9))
    write_scene(tmp_path / "b.ply", some_scene(9))
    for folder, count in ((tmp_path, 2), (trained / "point_cloud", 0)):
        status, _, err = run(capsys, "info", folder)
        assert status == 1
        assert err.startswith(
            f"splat: {folder}: the file of a scene is required, or a folder with one scene or of 3DGS's"
        )
        assert err.endswith(f"found a folder with {count} scenes; name one\n")


def test_a_folder_that_may_not_be_read_is_one_error(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "iterdir", refuse)
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: refuse(folder))
    status, _, err = run(capsys, "info", trained)
    assert (status, err) == (1, f"splat: [Errno 13] Permission denied: '{trained}'\n")


def streamed(folder: Path, *chunks: Gaussians, **changes: Any) -> Path:
    """Chunks as levels 0, 0, 1 and so on, and their lod-meta.json."""
    names = []
    for index, chunk in enumerate(chunks):
        place = folder / f"chunk{index}"
        place.mkdir(parents=True)
        write_scene(folder / "a.sog", chunk)
        with ZipFile(folder / "a.sog") as archive:
            archive.extractall(place)
        (folder / "a.sog").unlink()
        names.append(f"chunk{index}/meta.json")
    leaves = [
        {"lods": {"0": {"file": 0, "offset": 0, "count": 30}, "1": {"file": 2, "offset": 0, "count": 5}}},
        {"lods": {"0": {"file": 0, "offset": 30, "count": 30}}},
        {"lods": {"10": {"file": 3, "offset": 0, "count": 9}, "2": {"file": 1, "offset": 5, "count": 10}}},
    ]
    tree = {"children": [leaves[0], {"children": leaves[1:]}]}
    meta = {"version": 1, "lodLevels": 3, "filenames": names, "tree": tree, **changes}
    (folder / "lod-meta.json").write_text(json.dumps(meta))
    return folder / "lod-meta.json"


def chunks() -> list[Gaussians]:
    return [replace(some_scene(count, 1, seed), antialiased=True) for seed, count in enumerate((60, 20, 10, 9))]


def test_the_finest_level_of_a_streamed_sog_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = streamed(tmp_path / "lod", *chunks())
    found = read_scene(path)
    parts = [read_scene(tmp_path / "lod" / f"chunk{i}" / "meta.json") for i in range(2)]
    assert torch.equal(found.means, torch.cat([parts[0].means, parts[1].means[5:15]]))
    assert torch.equal(found.sh, torch.cat([parts[0].sh, parts[1].sh[5:15]]))
    assert found.antialiased
    assert FORMATS["/lod-meta.json"].describe(path) == "streamed SOG, the finest of 3 levels of detail"
    assert "streamed SOG, the finest of 3" in run(capsys, "info", path.parent)[1]
    assert find_scenes([path.parent]) == {"lod-meta.json": path}


def test_its_environment_is_read_too(tmp_path: Path) -> None:
    path = streamed(tmp_path / "lod", *chunks(), environment="chunk3/meta.json")
    assert len(read_scene(path)) == 60 + 10 + 9
    values = json.loads(path.read_text())
    del values["version"]
    path.write_text(json.dumps({**values, "environment": None}))
    assert len(read_scene(path)) == 60 + 10


def test_coordinates_of_a_map_in_chunks(tmp_path: Path) -> None:
    there = torch.tensor([500_000, 4_600_000, 300], dtype=torch.float64)
    parts = [part.placed(part.coordinates + there) for part in chunks()]
    found = read_scene(streamed(tmp_path / "lod", *parts))
    low, high = (np.quantile((found.coordinates - there).numpy(), share) for share in (0.02, 0.98))
    assert -10 < low < high < 10
    assert found.offset == (500_000, 4_600_000, 300)


RUN = {"file": 0, "offset": 0, "count": 9}
DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"version": 2}, "version 1 of streamed SOG is required, found 2"),
    "filenames": ({"filenames": 3}, "'filenames', a list of the chunks' names, is required"),
    "index": ({"filenames": ["chunk0/meta.json"]}, "the tree names chunk 1, found 1 filenames"),
    "no tree": ({"tree": None}, "a node of the tree must be an object"),
    "children": ({"tree": {"children": 3}}, "must have a list 'children' or an object 'lods'"),
    "empty": ({"tree": {}}, "at least one chunk is required in the tree, found none"),
    "levels": ({"tree": {"lods": {"-1": RUN}}}, "the names of 'lods' must be levels"),
    "run": ({"tree": {"lods": {"0": {**RUN, "count": -1}}}}, "must have 'file', 'offset' and 'count'"),
    "count": ({"tree": {"lods": {"0": {**RUN, "count": 61}}}}, "61 Gaussians are required for lod-meta.json, found 60"),
    "above": ({"filenames": ["../secret/meta.json"] * 4}, "inside .* is required, found '../secret/meta.json'"),
    "absolute": ({"filenames": ["/etc/meta.json"] * 4}, "inside .* is required, found '/etc/meta.json'"),
    "link": ({"filenames": ["link/meta.json"] * 4}, "inside .* is required, found 'link/meta.json'"),
    "other": ({"filenames": ["chunk0/sh0.webp"] * 4}, "the name of a meta.json inside .* found 'chunk0/sh0.webp'"),
    "number": ({"filenames": [1, 2, 3, 4]}, "the name of a meta.json inside .* is required, found '1'"),
    "nul": ({"filenames": ["\0/meta.json"] * 4}, "the name of a meta.json inside .* is required"),
    "environment": ({"environment": {"a": 3}}, "the name of a meta.json inside .* is required"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_streamed_sog_that_is_damaged_or_leads_elsewhere(tmp_path: Path, case: str) -> None:
    changes, message = DAMAGED[case]
    streamed(tmp_path / "secret", *chunks())
    path = streamed(tmp_path / "lod", *chunks(), **changes)
    (path.parent / "link").symlink_to(tmp_path / "secret" / "chunk0")
    with pytest.raises(SceneError, match=f"lod-meta.json: .*{message}"):
        read_scene(path)


def test_a_chunk_that_is_named_again_and_again_is_read_once(tmp_path: Path) -> None:
    tree = {"children": [{"lods": {"0": {"file": index, "offset": 0, "count": 60}}} for index in range(5000)]}
    names = {"filenames": [f"{'./' * (index % 9)}chunk0/meta.json" for index in range(5000)]}
    assert len(read_scene(streamed(tmp_path / "lod", *chunks(), tree=tree, **names))) == 60


def test_the_sizes_of_all_chunks_are_checked_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = streamed(tmp_path / "lod", *chunks())
    monkeypatch.setattr("splat.scene.file_input.ALWAYS_ALLOWED", 4 * 65 * 23)
    monkeypatch.setattr("splat.scene.file_input.MOST_TIMES", 0)
    with pytest.raises(SceneError, match=r"7360 bytes are packed"):
        read_scene(path)
