"""Names from outside reach no terminal as they are: each command is given hostile ones, wherever it takes some."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import photographs
import pytest
from command_runs import run
from folders import REPOSITORY
from PIL import Image
from ply_files import columns, header, ply
from scene_files import some_scene

from splat import cli
from splat.commands import fit_command
from splat.commands.progress_bar import progress_bar
from splat.scene.formats import write_scene
from splat.scene.names import one_line

# Turns the terminal red and its title into another, begins a line of its own, goes back in the line, turns letters
# round, ends a C1 sequence, and is no UTF-8.
HOSTILE = "\x1b[31m\x1b]0;x\x07\nsplat: all is well\r\b\u202etxt\u2066\x9b\u2028\udc80"
QUOTED = "\\x1b[31m\\x1b]0;x\\x07\\nsplat: all is well\\r\\x08\\u202etxt\\u2066\\x9b\\u2028\\udc80"


def check_printed(text: str) -> str:
    """What was printed, if all of it may reach a terminal."""
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines), ascii(text)
    assert "splat: all is well" not in lines
    return text


def test_a_line_of_progress_is_no_markup(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with progress_bar("fit", 3) as show:
        assert show(1, "[/x]")
    assert "[/x]" in capsys.readouterr().err


def scene_at(path: Path) -> Path:
    write_scene(path, some_scene(5))
    return path


def broken_at(path: Path) -> Path:
    path.write_bytes(b"nothing")
    return path


def warned_at(path: Path) -> Path:
    values = columns(20)
    values["x"][:3] = np.nan
    path.write_bytes(ply(values))
    return path


def ply_of(path: Path, text: str) -> Path:
    path.write_bytes(header("X").replace(b"X", text.encode("utf-8", "surrogateescape")))
    return path


XYZ = "property float x\nproperty float y\nproperty float z\n"
WORD = HOSTILE.replace("\n", "").replace("\r", "").replace(" ", "").replace("\u2028", "")
RENDER = ("render", "-o", "a.png", "--size", "8x8", "--device", "cpu")
MOVING = (*RENDER[3:], "--seconds", "0.1", "--fps", "10", "--path")
FIT = ("fit", "-o", "a.ply", "--steps", "1", "--gaussians", "9", "--device", "cpu")


def colmap(folder: Path, name: str) -> Path:
    """A model whose second picture has another name."""
    photographs.colmap_folder(folder, count=2, binary=False)
    path = folder / "sparse" / "0" / "images.txt"
    path.write_text(path.read_text().replace("01.png", name), errors="surrogateescape")
    return folder


def transforms(folder: Path, **changes: object) -> Path:
    return photographs.transforms_folder(folder, count=2, changes=changes)


def hostile_picture(folder: Path) -> Path:
    """A folder that is fitted, with a picture of a hostile name."""
    photographs.transforms_folder(folder, count=2)
    (folder / "images" / "01.png").rename(folder / "images" / HOSTILE)
    path = folder / "transforms.json"
    path.write_text(path.read_text().replace('images/01.png"', f'images/"+{json.dumps(HOSTILE)}').replace('"+"', ""))
    return folder


CASES: dict[str, Callable[[Path], tuple[str | Path, ...]]] = {
    "info": lambda t: ("info", scene_at(t / f"{HOSTILE}.ply")),
    "info json": lambda t: ("info", "--json", scene_at(t / f"{HOSTILE}.ply")),
    "info broken": lambda t: ("info", broken_at(t / f"{HOSTILE}.ply")),
    "info missing": lambda t: ("info", t / f"{HOSTILE}.ply"),
    "info ending": lambda t: ("info", broken_at(t / f"a.{HOSTILE}")),
    "info warning": lambda t: ("info", warned_at(t / f"{HOSTILE}.ply")),
    "info two": lambda t: ("info", t / "a.ply", t / f"{HOSTILE}.ply"),
    "element": lambda t: ("info", ply_of(t / "a.ply", f"element {WORD} 1\n{XYZ}")),
    "property": lambda t: ("info", ply_of(t / "a.ply", f"element vertex 1\n{XYZ}property float {WORD}\n" * 2)),
    "property twice": lambda t: ("info", ply_of(t / "a.ply", f"element vertex 1\n{XYZ}{f'property int {WORD}' * 2}\n")),
    "header line": lambda t: ("info", ply_of(t / "a.ply", f"{WORD} 1\n")),
    "magic": lambda t: ("info", broken_at(t / "a.ply")),
    "convert": lambda t: ("convert", scene_at(t / f"{HOSTILE}.ply"), t / f"{HOSTILE}.splat"),
    "convert ending": lambda t: ("convert", scene_at(t / "a.ply"), t / f"b.{HOSTILE}"),
    "convert folder": lambda t: ("convert", scene_at(t / "a.ply"), t / HOSTILE / "a.ply"),
    "convert nothing": lambda t: ("convert", "--crop=9,9,9,9,9,9", scene_at(t / f"{HOSTILE}.ply"), t / "b.ply"),
    "render": lambda t: (*RENDER[:2], t / f"{HOSTILE}.png", *RENDER[3:], scene_at(t / f"{HOSTILE}.ply")),
    "render broken": lambda t: (*RENDER, broken_at(t / f"{HOSTILE}.spz")),
    "render camera": lambda t: ("render", "-o", "a.png", "--camera", broken_at(t / f"{HOSTILE}.json")),
    "render path": lambda t: ("render", "-o", t / "a", "--path", broken_at(t / f"{HOSTILE}.json")),
    "path key": lambda t: ("render", "-o", t / "a", "--path", keyed(t / "a.json")),
    "path warning": lambda t: (*RENDER[:2], t / HOSTILE, *MOVING, nerfstudio_path(t / f"{HOSTILE}.json")),
    "render video": lambda t: (*RENDER[:2], t / f"{HOSTILE}.mp4", *MOVING, "orbit"),
    "render frames": lambda t: (*RENDER[:2], t / HOSTILE, *MOVING, "orbit"),
    "render full folder": lambda t: (
        *RENDER[:2],
        photograph_at(folder_at(t / HOSTILE) / "a.png").parent,
        *MOVING,
        "orbit",
    ),
    "camera key": lambda t: ("render", "-o", "a.png", "--camera", keyed(t / "a.json")),
    "export": lambda t: ("export", "-o", t / f"{HOSTILE}.html", scene_at(t / f"{HOSTILE}.ply")),
    "export ending": lambda t: ("export", "-o", t / f"a.{HOSTILE}", scene_at(t / "a.ply")),
    "export broken": lambda t: ("export", "-o", t / "a.html", broken_at(t / f"{HOSTILE}.spz")),
    "export camera": lambda t: ("export", "-o", t / "a.html", "--camera", broken_at(t / f"{HOSTILE}.json")),
    "view": lambda t: ("view", "--port", "0", t / f"{HOSTILE}.ply"),
    "view folder": lambda t: ("view", "--port", "0", folder_at(t / HOSTILE)),
    "view host": lambda t: ("view", "--port", "0", "--host", HOSTILE[:9], scene_at(t / "a.ply")),
    "fit picture": lambda t: (*FIT, broken_at(t / f"{HOSTILE}.png")),
    "fit npz": lambda t: (*FIT, broken_at(t / f"{HOSTILE}.npz")),
    "npz name": lambda t: (*FIT, npz_at(t / "a.npz")),
    "fit folder": lambda t: (*FIT, folder_at(t / HOSTILE)),
    "fit output": lambda t: (*FIT[:2], t / f"{HOSTILE}.ply", *FIT[3:], photograph_at(t / "a.png")),
    "fit page": lambda t: (*FIT[:2], t / f"{HOSTILE}.ply", *FIT[3:], hostile_picture(t / HOSTILE)),
    "image name": lambda t: (*FIT, colmap(t / "a", WORD)),
    "image path": lambda t: (*FIT, colmap(t / "a", f"../{WORD}")),
    "lens": lambda t: (*FIT, lens(t / "a")),
    "file_path": lambda t: (*FIT, transforms(t / "a", frames=[{"file_path": HOSTILE}])),
    "file_path out": lambda t: (*FIT, transforms(t / "a", frames=[{"file_path": f"../{HOSTILE}"}])),
    "frame key": lambda t: (*FIT, transforms(t / "a", frames=[{HOSTILE: 1}])),
    "key": lambda t: (*FIT, transforms(t / "a", frames=None, **{HOSTILE: 1})),
    "camera_model": lambda t: (*FIT, transforms(t / "a", camera_model=HOSTILE)),
    "number": lambda t: (*FIT, transforms(t / "a", fl_x=HOSTILE)),
    "ply_file_path": lambda t: (*FIT, transforms(t / "a", ply_file_path=f"{HOSTILE}.ply")),
    "option": lambda t: ("info", f"--{HOSTILE}", t / "a.ply"),
    "command": lambda t: (HOSTILE,),
    "value": lambda t: ("render", "-o", "a.png", "--size", HOSTILE),
}


def keyed(path: Path) -> Path:
    path.write_text(json.dumps({HOSTILE: 1, "near": HOSTILE}))
    return path


def nerfstudio_path(path: Path) -> Path:
    """A path with keys that are not used."""
    frame = {"camera_to_world": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 9, 0, 0, 0, 1], "fov": 50, HOSTILE: 1}
    path.write_text(json.dumps({"camera_path": [frame], "render_width": 8, "render_height": 6, HOSTILE: 1}))
    return path


def folder_at(path: Path) -> Path:
    path.mkdir()
    return path


def npz_at(path: Path) -> Path:
    np.savez(path, **{WORD.replace("\udc80", ""): np.zeros(1)})  # type: ignore[arg-type]
    return path


def photograph_at(path: Path) -> Path:
    Image.new("RGB", (9, 9)).save(path)
    return path


def lens(folder: Path) -> Path:
    photographs.colmap_folder(folder, count=2, binary=False)
    path = folder / "sparse" / "0" / "cameras.txt"
    path.write_text(path.read_text().replace("SIMPLE_PINHOLE", WORD), errors="surrogateescape")
    return folder


@pytest.mark.parametrize("case", CASES)
def test_no_name_reaches_the_terminal_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _, out, err = run(capsys, *CASES[case](tmp_path))
    assert out + err
    check_printed(out)
    check_printed(err)


def test_names_are_shown_so_that_they_can_be_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = scene_at(tmp_path / f"{HOSTILE}.ply")
    assert run(capsys, "info", path)[1].startswith(f"{tmp_path}/{QUOTED}.ply: PLY, binary, ")
    assert json.loads(run(capsys, "info", path, "--json")[1])["file"] == str(path)
    path.unlink()
    assert f"{QUOTED}.ply" in run(capsys, "info", path)[2]
    path = scene_at(tmp_path / "ü 日本.ply")
    assert run(capsys, "info", path)[1].startswith(f"{path}: PLY, ")


def test_a_lack_of_memory_names_what_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scene_at(tmp_path / f"{HOSTILE}.ply")

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("splat.scene.ply.read_vertices", fail)
    for words in (("info", path), (*RENDER, path), ("convert", path, tmp_path / "a.spz")):
        status, _, err = run(capsys, *words)
        assert status == 1
        assert f"{QUOTED}.ply needs more memory than there is" in check_printed(err)


def test_an_interrupted_fit_names_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*FIT[:2], tmp_path / f"{HOSTILE}.ply", *FIT[3:], hostile_picture(tmp_path / "a"), "--steps", "2")
    monkeypatch.setattr(fit_command, "catch_interrupt", lambda **_: nullcontext(lambda: True))
    status, _, err = run(capsys, *words)
    assert status == 130
    assert f"is in {tmp_path}/{QUOTED}.ply; run the same command with --resume" in check_printed(err)
    monkeypatch.undo()
    _, _, err = run(capsys, *words)
    assert f"{QUOTED}.checkpoint.npz: this is the checkpoint of an unfinished fit" in check_printed(err)


def test_what_is_printable_stays() -> None:
    assert one_line("a ü 日本 \\ '\"") == "a ü 日本 \\ '\""
    assert one_line(HOSTILE) == QUOTED


def test_nothing_but_one_module_prints() -> None:
    """So that whatever a command says has gone through `one_line`. Strategies, if asked, say numbers of Gaussians."""
    folder = REPOSITORY / "splat"
    printing = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write")
    }
    assert printing == {"commands/printing.py", "strategy/default.py", "strategy/mcmc.py"}


def test_every_command_of_ours_is_tried() -> None:
    """The backend's own are in its tests."""
    tried = {name.split()[0] for name in CASES}
    assert set(cli.COMMANDS) - tried == {"doctor", "cache", "inspect"}
