"""`splat export`: what is in the page, without a browser; test_export_browser.py has one."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from string import Template

import pytest
import torch
from command_runs import run
from scene_files import some_scene

from splat.ops.defaults import EPS2D, MAX_ALPHA
from splat.page import scene_page as module
from splat.page.scene_page import PageView, most_gaussians, scene_page
from splat.scene.builtin import knot_scene
from splat.scene.camera import orbit
from splat.scene.camera_file import camera_json, write_camera
from splat.scene.formats import write_scene
from splat.scene.gaussians import Gaussians, SceneError
from splat.scene.spz import read_spz, write_spz

HOSTILE = "</title><script>alert(1)</script>&\"'><img src=x onerror=alert(2)>"


class Parts(HTMLParser):
    """The elements of a page with their attributes, and the text of each script, style and title."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: tuple[str, dict[str, str | None]] = ("", {})
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = (tag, dict(attrs))
        self.elements.append(self.inside)

    def handle_endtag(self, tag: str) -> None:
        self.inside = ("", {})

    def handle_data(self, data: str) -> None:
        self.texts.append((*self.inside, data))

    def text(self, name: str) -> str:
        """The text of the element with this id, or else of this kind."""
        return "".join(data for tag, attributes, data in self.texts if name in (attributes.get("id"), tag))


def first_view(scene: Gaussians) -> PageView:
    return PageView(orbit(scene, 80, 60, azimuth=45), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def page() -> str:
    scene = knot_scene()
    return scene_page("knot.ply", scene, first_view(scene)).decode()


def test_the_policy_allows_this_program_and_nothing_else(page: str) -> None:
    parts = Parts(page)
    policies = [attributes["content"] for tag, attributes in parts.elements if attributes.get("http-equiv")]
    rules = dict(rule.strip().split(" ", 1) for rule in str(policies[0]).split(";"))
    run_scripts = [text for tag, values, text in parts.texts if tag == "script" and values["type"] == "module"]

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert len(policies) == len(run_scripts) == 1
    assert rules == {
        "default-src": "'none'",
        "script-src": digest(run_scripts[0]),
        "style-src": digest(parts.text("style")),
        "worker-src": "blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    before = page[: page.index("http-equiv")]
    assert "<script" not in before
    assert "<style" not in before


def test_it_names_no_address_and_no_way_to_one(page: str) -> None:
    own = page.replace(Parts(page).text("scene"), "")
    ways = r"\w+://|//\w|url\(|\bimport\b|\bsrc=|\bhref=|\bfetch|XMLHttp|WebSocket|EventSource|Beacon"
    assert re.findall(ways, own) == []
    for tag, attributes in Parts(page).elements:
        assert not {name for name in attributes if name.startswith("on") or name == "style"}, tag


def test_our_own_code_is_small(page: str) -> None:
    assert len(page) - len(Parts(page).text("scene")) < 60_000


def test_the_browser_leaves_fingers_to_the_page(page: str) -> None:
    """Else it takes them for scrolling; those of a test are not taken, so a browser without a screen cannot tell."""
    assert re.search(r"canvas \{[^}]*touch-action: none", Parts(page).text("style"))


def test_every_file_of_ours_is_in_it(page: str) -> None:
    for file in resources.files("splat.page").iterdir():
        if not file.name.startswith(("_", "comparison.")) and not file.name.endswith((".py", ".html")):
            text = Template(file.read_text(encoding="utf-8")).safe_substitute(eps2d=EPS2D, max_alpha=MAX_ALPHA)
            assert text in page, file.name


def test_the_scene_in_it_is_what_convert_writes(page: str, tmp_path: Path) -> None:
    (tmp_path / "page.spz").write_bytes(base64.b64decode(Parts(page).text("scene"), validate=True))
    write_spz(tmp_path / "scene.spz", knot_scene())

    assert (tmp_path / "page.spz").read_bytes() == (tmp_path / "scene.spz").read_bytes()
    assert len(read_spz(tmp_path / "page.spz")) == len(knot_scene())


def test_the_bytes_are_the_same_on_each_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_scene(tmp_path / "a.ply", some_scene(9, 2))
    for name in ("1.html", "2.html"):
        monkeypatch.setattr("time.time", lambda name=name: float(name[0]) * 1e9)
        assert run(capsys, "export", tmp_path / "a.ply", "-o", tmp_path / name)[0] == 0
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()


def test_the_name_of_the_scene_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{HOSTILE.replace('/', '')}\x1b\u202e\udc80.ply"
    write_scene(tmp_path / name, some_scene(9))
    status, _, err = run(capsys, "export", tmp_path / name, "-o", tmp_path / "a.html")
    assert (status, err) == (0, "")

    text = (tmp_path / "a.html").read_bytes().decode()
    parts = Parts(text)
    assert parts.text("title").startswith(HOSTILE.replace("/", ""))
    assert parts.text("title").endswith("\\x1b\\u202e\\udc80.ply")
    assert [tag for tag, _ in parts.elements].count("script") == 6
    assert "img" not in [tag for tag, _ in parts.elements]
    other = scene_page(HOSTILE, some_scene(9), first_view(some_scene(9))).decode()
    assert Parts(other).text("title") == HOSTILE


def test_it_begins_with_the_camera_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = some_scene(9)
    write_scene(tmp_path / "a.ply", scene)
    camera = orbit(scene, 123, 45, azimuth=20)
    write_camera(tmp_path / "camera.json", camera)
    words = ("export", tmp_path / "a.ply", "--camera", tmp_path / "camera.json", "-o", tmp_path / "a.html")

    assert run(capsys, *words, "--background", "255,0,0")[0] == 0
    view = json.loads(Parts((tmp_path / "a.html").read_text()).text("view"))
    assert view["camera"] == json.loads(camera_json(camera))
    assert (view["up"], view["background"]) == (None, [1, 0, 0])

    assert run(capsys, *words, "--up", "-z")[0] == 0
    assert json.loads(Parts((tmp_path / "a.html").read_text()).text("view"))["up"] == [0, 0, -1]


def test_fewer_harmonics_make_a_smaller_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = []
    for degree in ("0", "3", "4"):
        status, out, _ = run(capsys, "export", "--sh-degree", degree, "-o", tmp_path / "a.html")
        sizes.append((tmp_path / "a.html").stat().st_size)
        size = sizes[-1]
        assert status == 0
        assert out == f"14409 Gaussians, SH degree {min(int(degree), 3)}, {size} bytes: {tmp_path / 'a.html'}\n"
    assert sizes[0] < sizes[1] == sizes[2]


def test_the_largest_scene_is_what_a_texture_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [most_gaussians(degree) for degree in range(5)] == [8388608, 5592405, 5592405, 3355443, 2796202]
    monkeypatch.setattr(module, "TEXTURE_SIDE", 10)  # pixels for 33 Gaussians of degree 2, and one is left
    scene = some_scene(34, 2)
    assert scene_page("", scene.select(torch.arange(34) < 33), first_view(scene))
    with pytest.raises(SceneError, match=r"at most 33 Gaussians .* degree 2.* 10x10 pixels, found 34; choose a lower"):
        scene_page("", scene, first_view(scene))


def test_what_a_page_cannot_hold_of_the_scene_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene = some_scene(9)
    write_scene(tmp_path / "a.ply", Gaussians(scene.means, scene.quats, scene.scales * 1e-9, scene.opacities, scene.sh))
    status, _, err = run(capsys, "export", tmp_path / "a.ply", "-o", tmp_path / "a.html")
    assert status == 0
    assert f"splat: warning: {tmp_path / 'a.html'}: standard deviations outside" in err


def test_errors_are_one_line_and_leave_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scene(tmp_path / "a.ply", some_scene(9))
    far = some_scene(900)
    far.means[0] = 1e9  # a single one: where all are far away, the page has another unit of length
    write_scene(tmp_path / "far.ply", far)
    write_scene(tmp_path / "none.ply", some_scene(9).select(torch.zeros(9, dtype=torch.bool)))
    before = {path.name for path in tmp_path.iterdir()}
    output = ("-o", tmp_path / "a.html")
    for status, words, found in (
        (2, ("-o", tmp_path / "a.htm"), "pages are written as HTML, so the name must end in .html, found"),
        (2, ("-o", tmp_path / "b" / "a.html"), "for 'a.html' must exist; make it first"),
        (2, (), "the following arguments are required: -o"),
        (2, (*output, "--camera", "a.json", "--fov", "9"), "leave out --fov"),
        (1, (*output, tmp_path / "missing.ply"), "missing.ply"),
        (1, (*output, tmp_path / "none.ply"), "the scene has no visible Gaussian (of 0)"),
        (1, (*output, tmp_path / "far.ply"), "must be within 8388607 of the origin"),
    ):
        code, out, err = run(capsys, "export", *words)
        assert (code, out) == (status, "")
        assert found in err.splitlines()[-1]
        assert status == 2 or err.count("\n") == 1
        assert {path.name for path in tmp_path.iterdir()} == before


def test_a_page_that_is_not_finished_leaves_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.html").write_text("before")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    status, _, err = run(capsys, "export", "-o", tmp_path / "a.html")
    assert (status, err) == (1, "splat: the disk is full\n")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.html": "before"}
