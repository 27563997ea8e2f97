"""Exported pages in a real browser without a screen: pictures against `render`'s, hands, frames, and no network."""

from __future__ import annotations

import base64
import gzip
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import browser
import numpy as np
import pytest
import torch
from command_runs import run
from render_runs import render
from scene_files import some_scene
from scenes import real_scene

from splat.scene.builtin import knot_scene
from splat.scene.camera import Camera, orbit
from splat.scene.camera_file import write_camera
from splat.scene.camera_list import write_cameras
from splat.scene.edits import limit_degree
from splat.scene.formats import read_scene, write_scene
from splat.scene.gaussians import Gaussians

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

pytestmark = [pytest.mark.slow]

WIDTH, HEIGHT = 360, 240
SIZE = f"{WIDTH}x{HEIGHT}"
# Of 255, on average: far below the 1 that is promised, so that a broken formula shows.
MOST_APART = 0.2
# What it does not say aloud: how often it draws.
WATCH = """
window.draws = 0;
const draw = WebGL2RenderingContext.prototype.drawArraysInstanced;
WebGL2RenderingContext.prototype.drawArraysInstanced = function (...words) { ++window.draws; draw.apply(this, words); };
"""

BYTES_ALONE = "WebGL2RenderingContext.prototype.getExtension = () => null;"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in scene as .spz, so that `render` draws the numbers that are in the page; and its page."""
    folder = tmp_path_factory.mktemp("export")
    write_scene(folder / "knot.spz", knot_scene())
    return folder


@pytest.fixture
def export(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    def exported(*words: str | Path) -> None:
        status, _, err = run(capsys, "export", *words)
        assert status == 0, err

    return exported


@contextmanager
def opened(
    chromium: Browser, path: Path, width: int = WIDTH, height: int = HEIGHT, before: str = "", **options: Any
) -> Iterator[Page]:
    """A page that has come to rest, or failed."""
    with browser.opened(chromium, path, width, height, WATCH + before, **options) as page:
        rest(page)
        yield page


def rest(page: Page | Frame) -> None:
    page.wait_for_selector("body[data-state=resting], body[data-state=failed]", timeout=60000)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).mean())


def shot(page: Page, expected: np.ndarray) -> np.ndarray:
    """The page's picture when it is at rest; waits for this one, which it may take a moment to reach."""
    for _ in range(40):
        rest(page)
        seen = browser.picture(page)
        if apart(seen, expected) < MOST_APART:
            break
        page.wait_for_timeout(100)
    return seen


def check_picture(page: Page, expected: np.ndarray) -> None:
    assert expected.std() > 20, "there is something to see"
    assert apart(shot(page, expected), expected) < MOST_APART


@pytest.mark.minutes
@pytest.mark.parametrize("degree", [0, 1, 2, 4])
def test_the_picture_is_render_s(chromium: Browser, tmp_path: Path, export: Callable[..., None], degree: int) -> None:
    scene = knot_scene()
    if degree == 4:
        sh = torch.randn(len(scene), 9, 3, generator=torch.Generator().manual_seed(0)) / 4
        scene = replace(scene, sh=torch.cat([scene.sh, sh], dim=1))
    path = tmp_path / "a.spz"
    write_scene(path, limit_degree(scene, degree))
    expected = render(tmp_path / "a.png", path, "--size", SIZE)
    export(path, "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html") as page:
        check_picture(page, expected)


def test_an_antialiased_scene_is_drawn_so(chromium: Browser, tmp_path: Path, export: Callable[..., None]) -> None:
    knot = knot_scene()
    path = tmp_path / "a.spz"
    write_scene(path, replace(knot, scales=knot.scales / 2, antialiased=True))
    expected = render(tmp_path / "a.png", path, "--size", SIZE)
    assert apart(render(tmp_path / "b.png", path, "--size", SIZE, "--no-antialiased"), expected) > 5
    export(path, "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html") as page:
        check_picture(page, expected)


CAMERAS = {
    "rolled": lambda camera: replace(camera, viewmat=rolled(camera.viewmat)),
    "off centre": lambda camera: replace(camera, K=camera.K + torch.tensor([[0, 0, 40.0], [0, 0, -25.0], [0, 0, 0]])),
    "two focal lengths": lambda camera: replace(camera, K=camera.K * torch.tensor([[0.7], [1.2], [1.0]])),
    "inside": lambda camera: replace(camera, viewmat=camera.viewmat - moved(2, 0.8 * camera.viewmat[2, 3]), near=0.01),
}


def rolled(viewmat: torch.Tensor) -> torch.Tensor:
    roll = torch.eye(4)
    roll[:2, :2] = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    return roll @ viewmat


def moved(axis: int, by: float | torch.Tensor) -> torch.Tensor:
    shift = torch.zeros(4, 4)
    shift[axis, 3] = by
    return shift


@pytest.mark.minutes
@pytest.mark.parametrize("kind", CAMERAS)
def test_the_picture_of_a_camera_s_file_is_render_s(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None], kind: str
) -> None:
    camera: Camera = CAMERAS[kind](orbit(knot_scene(), WIDTH, HEIGHT, azimuth=30, elevation=10))
    write_camera(tmp_path / "a.json", camera)
    words = (folder / "knot.spz", "--camera", tmp_path / "a.json", "--background", "90,60,200")
    expected = render(tmp_path / "a.png", *words)
    export(*words, "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html") as page:
        check_picture(page, expected)


def test_a_trained_scene_looks_as_render_draws_it(
    chromium: Browser, tmp_path: Path, export: Callable[..., None]
) -> None:
    whole = real_scene("bulba.ply")
    write_scene(tmp_path / "a.spz", read_scene(whole))
    expected = render(tmp_path / "a.png", tmp_path / "a.spz", "--size", SIZE)
    export(tmp_path / "a.spz", "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html") as page:
        check_picture(page, expected)
    # What 8 bits and 24 cost, beside the scene as it was trained.
    assert apart(expected, render(tmp_path / "b.png", whole, "--size", SIZE, "--up", "-y")) < 1


@pytest.mark.parametrize("largest", [2, pytest.param(100, marks=pytest.mark.minutes)])
def test_needles_discs_and_walls_around_the_camera_of_a_file_are_render_s(
    chromium: Browser, tmp_path: Path, export: Callable[..., None], largest: float
) -> None:
    scene = some_scene(3000, 1)  # of every size; many reach into the picture from beside it
    scene = replace(scene, scales=scene.scales.clamp(max=largest), opacities=scene.opacities / 3)
    write_scene(tmp_path / "a.spz", scene)
    camera = orbit(scene, WIDTH, HEIGHT, azimuth=30, fov=30)
    viewmat = rolled(camera.viewmat)
    viewmat[:3, 3] = 0
    write_camera(tmp_path / "a.json", replace(camera, viewmat=viewmat, near=0.05))
    words = (tmp_path / "a.spz", "--camera", tmp_path / "a.json", "--background", "90,60,200")
    expected = render(tmp_path / "a.png", *words)
    export(*words, "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html") as page:
        assert expected.std() > 5
        assert apart(shot(page, expected), expected) < 0.15


@pytest.mark.parametrize(("before", "most"), [("", 3), pytest.param(BYTES_ALONE, 20, marks=pytest.mark.minutes)])
def test_layers_that_are_fainter_than_a_step_of_the_picture_add_up(
    chromium: Browser, tmp_path: Path, export: Callable[..., None], before: str, most: float
) -> None:
    """Each was rounded away: behind a mist, the background shone through by 8 of 255, or 64 with steps of 8 bits."""
    scene = some_scene(8000, 0, extent=1)
    mist = replace(scene, scales=0 * scene.scales + 1, opacities=0 * scene.opacities + 0.008, sh=0 * scene.sh)
    write_scene(tmp_path / "a.spz", mist)
    words = (tmp_path / "a.spz", "--background", "255,255,255")
    expected = render(tmp_path / "a.png", *words, "--size", SIZE)
    export(*words, "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html", before=before) as page:
        assert expected.std() > 20
        assert np.abs(browser.picture(page) - expected).max() <= most


def test_without_a_picture_of_floats_it_is_coarser(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None]
) -> None:
    expected = render(tmp_path / "a.png", folder / "knot.spz", "--size", SIZE)
    export(folder / "knot.spz", "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html", before=BYTES_ALONE) as page:
        assert 0.02 < apart(shot(page, expected), expected) < 2


@pytest.mark.parametrize(("width", "height"), [(200, 330), pytest.param(420, 200, marks=pytest.mark.minutes)])
def test_the_shorter_side_sees_what_the_picture_s_shorter_side_sees_and_a_finer_screen_sees_it_finer(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None], width: int, height: int
) -> None:
    export(folder / "knot.spz", "-o", tmp_path / "a.html", "--fov", "55")
    expected = render(tmp_path / "a.png", folder / "knot.spz", "--size", f"{width}x{height}", "--fov", "55")
    with opened(chromium, tmp_path / "a.html", device_scale_factor=2) as page:
        page.set_viewport_size({"width": width // 2, "height": height // 2})
        check_picture(page, expected)


@pytest.mark.parametrize(("width", "height"), [pytest.param(420, 200, marks=pytest.mark.minutes), (150, 330)])
def test_all_of_the_first_picture_is_seen(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None], width: int, height: int
) -> None:
    """Of a capture that was taken upright, as of any other, and by `render` as on a page."""
    write_scene(tmp_path / "a.spz", knot_scene())
    camera = orbit(knot_scene(), 60, 80, azimuth=30, elevation=10, distance=0.7)
    write_cameras(tmp_path / "a.cameras.json", [camera], ["a.png"])
    expected = render(tmp_path / "a.png", tmp_path / "a.spz", "--size", f"{width}x{height}")
    part = Camera(camera.viewmat, camera.of_size(width, height).K, width, height, camera.near)
    write_camera(tmp_path / "b.json", part)
    assert apart(render(tmp_path / "b.png", tmp_path / "a.spz", "--camera", tmp_path / "b.json"), expected) < 1
    export(tmp_path / "a.spz", "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html") as page:
        page.set_viewport_size({"width": width, "height": height})
        check_picture(page, expected)


def drag(page: Page, x: float, y: float, button: Any = "left") -> None:
    page.mouse.move(WIDTH / 2, HEIGHT / 2)
    page.mouse.down(button=button)
    page.mouse.move(WIDTH / 2 + x, HEIGHT / 2 + y, steps=3)
    page.mouse.up(button=button)


def pinch(page: Page, *places: tuple[tuple[float, float], ...]) -> None:
    """Fingers that lie on the page, move from place to place, and leave."""
    session = page.context.new_cdp_session(page)
    for index, fingers in enumerate([*places, ()]):
        kind = "touchStart" if not index else "touchMove" if fingers else "touchEnd"
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(fingers)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


TURN = HEIGHT / 180  # pixels for each degree
# A hand, and the options of `render` that show what it should see then.
HANDS: dict[str, tuple[Callable[[Page], None], tuple[str, ...]]] = {
    "drag right": (lambda page: drag(page, 40 * TURN, 0), ("--azimuth", "5")),
    "drag down": (lambda page: drag(page, 0, 25 * TURN), ("--elevation", "45")),
    "drag over the pole": (lambda page: drag(page, 0, 85 * TURN), ("--elevation", "89.427")),
    "wheel": (lambda page: page.mouse.wheel(0, 200), ("--distance", "1.25605")),
    "key left": (lambda page: page.keyboard.press("ArrowLeft"), ("--azimuth", "52.5")),
    "key up": (lambda page: page.keyboard.press("ArrowUp"), ("--elevation", "12.5")),
    "key +": (lambda page: page.keyboard.press("+"), ("--distance", "0.81")),
    "one finger": (lambda page: pinch(page, ((100, 99),), ((100 - 30 * TURN, 99),)), ("--azimuth", "75")),
    "two fingers": (
        lambda page: pinch(page, ((150, 120), (210, 120)), ((130, 120), (230, 120))),
        ("--distance", "0.54"),
    ),
}


OFTEN = ("wheel", "two fingers")  # a drag: test_a_frame_of_another_origin_shows_it


@pytest.mark.parametrize("hands", [OFTEN, pytest.param([*HANDS], marks=pytest.mark.minutes)], ids=["often", "all"])
def test_hands_move_the_camera_as_the_options_of_render_do(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None], hands: Sequence[str]
) -> None:
    export(folder / "knot.spz", "-o", tmp_path / "a.html")
    first = render(tmp_path / "a.png", folder / "knot.spz", "--size", SIZE)
    with opened(chromium, tmp_path / "a.html", has_touch=True) as page:
        for act, options in map(HANDS.__getitem__, hands):
            then = render(tmp_path / "b.png", folder / "knot.spz", "--size", SIZE, *options)
            assert apart(first, then) > 5
            page.mouse.move(WIDTH / 2, HEIGHT / 2)
            act(page)
            check_picture(page, then)
            page.keyboard.press("Home")
            check_picture(page, first)


def pull_with_shift(page: Page) -> None:
    page.keyboard.down("Shift")
    drag(page, 50, 20)
    page.keyboard.up("Shift")


PULLS: list[Callable[[Page], None]] = [
    lambda page: drag(page, 50, 20, "right"),
    pull_with_shift,
    lambda page: pinch(page, ((100, 99), (150, 99)), ((150, 119), (200, 119))),
]


@pytest.mark.minutes
def test_a_hand_pulls_the_middle_along(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None]
) -> None:
    camera = orbit(knot_scene(), WIDTH, HEIGHT, azimuth=45, elevation=20, fov=40, distance=0.9)
    distance = float(camera.viewmat[2, 3])  # of a scene whose middle lies near the origin
    middle = sum(knot_scene().bounds()) / 2
    distance = float(camera.viewmat[2, :3] @ middle) + distance
    across, down = (pixels * distance / float(camera.K[0, 0]) for pixels in (50, 20))
    write_camera(tmp_path / "a.json", camera)
    shifted = replace(camera, viewmat=camera.viewmat + moved(0, across) + moved(1, down))
    write_camera(tmp_path / "b.json", shifted)
    expected = render(tmp_path / "b.png", folder / "knot.spz", "--camera", tmp_path / "b.json")
    export(folder / "knot.spz", "--camera", tmp_path / "a.json", "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html", has_touch=True) as page:
        for pull in PULLS:
            page.keyboard.press("Home")
            rest(page)
            assert apart(browser.picture(page), expected) > 5
            pull(page)
            check_picture(page, expected)


LOSE = """
document.querySelector("canvas").getContext("webgl2").getExtension("WEBGL_lose_context").loseContext()
"""


def test_it_draws_only_when_something_changes_and_says_that_its_context_was_lost(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None]
) -> None:
    export(folder / "knot.spz", "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html") as page:
        drawn = page.evaluate("window.draws")
        assert 1 <= drawn <= 4
        page.mouse.move(5, 5)
        page.mouse.move(99, 99)
        page.wait_for_timeout(1000)
        assert page.evaluate("window.draws") == drawn
        page.keyboard.press("+")
        rest(page)
        assert page.evaluate("window.draws") > drawn

        page.evaluate(LOSE)
        page.wait_for_selector("body[data-state=failed]")
        page.keyboard.press("+")
        page.wait_for_timeout(300)
        assert text_of(page) == "The browser took the graphics memory away; reload the page."


def test_a_frame_of_another_origin_shows_it(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None]
) -> None:
    export(folder / "knot.spz", "-o", tmp_path / "a.html")
    expected = render(tmp_path / "a.png", folder / "knot.spz", "--size", SIZE)
    (tmp_path / "host.html").write_text(
        f'<body data-state="resting" style="margin: 0"><iframe sandbox="allow-scripts" src="a.html" '
        f'style="border: 0; display: block; width: {WIDTH}px; height: {HEIGHT}px"></iframe>'
    )
    with opened(chromium, tmp_path / "host.html") as page:
        frame = page.frames[1]
        rest(frame)
        assert frame.evaluate("window.origin") == "null"
        check_picture(page, expected)
        drag(page, 40 * TURN, 0)
        turned = render(tmp_path / "b.png", folder / "knot.spz", "--size", SIZE, "--azimuth", "5")
        check_picture(page, turned)
        assert frame.evaluate("window.forbidden") == []


ESCAPE = """async (address) => {
  await fetch(address, { mode: "no-cors" }).catch(() => null);
  for (const tag of ["img", "iframe", "script"]) {
    const element = document.createElement(tag);
    element.src = address;
    document.body.append(element);
  }
  const script = document.createElement("script");
  script.textContent = "window.ran = true";
  document.body.append(script);
  await new Promise((resolve) => setTimeout(resolve, 500));
}"""


def received(server: socket.socket) -> Iterator[bytes]:
    """What was sent to a server. Chromium connects to a frame's server before it asks the policy, and sends nothing."""
    with suppress(BlockingIOError):
        while True:
            connection, _ = server.accept()
            connection.settimeout(0.5)
            with connection, suppress(TimeoutError):
                if data := connection.recv(100):
                    yield data


def test_nothing_can_leave_the_page(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None]
) -> None:
    """Whatever ran in it: the policy forbids it before a name is looked up."""
    export(folder / "knot.spz", "-o", tmp_path / "a.html")
    page = chromium.new_page()
    page.add_init_script(browser.FORBIDDEN)
    page.goto((tmp_path / "a.html").as_uri())
    rest(page)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        page.evaluate(ESCAPE, f"http://127.0.0.1:{server.getsockname()[1]}/")
        assert list(received(server)) == []
    assert {word.split("-")[0] for word in page.evaluate("window.forbidden")} >= {"connect", "img", "frame", "script"}
    assert page.evaluate("window.ran") is None
    page.close()


def text_of(page: Page) -> str:
    assert page.evaluate("document.body.dataset.state") == "failed"
    return page.locator("p").inner_text()


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (
            "HTMLCanvasElement.prototype.getContext = () => null;",
            "This browser cannot draw the scene: it has no WebGL2, or it is switched off.",
        ),
        (
            "delete window.DecompressionStream;",
            "This browser cannot unpack the scene: it has no DecompressionStream, which browsers have since 2023.",
        ),
        (
            "WebGL2RenderingContext.prototype.getParameter = () => 2048;",
            "This browser cannot draw the scene: its graphics driver has no textures of 4096 pixels a side.",
        ),
        (
            "WebGL2RenderingContext.prototype.getError = () => WebGL2RenderingContext.OUT_OF_MEMORY;",
            "This browser cannot draw the scene: its graphics memory is too small for it.",
        ),
    ],
)
def test_what_the_browser_lacks_is_said(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None], before: str, said: str
) -> None:
    export(folder / "knot.spz", "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html", before=before) as page:
        assert text_of(page) == said


def test_without_scripts_that_is_said(
    chromium: Browser, folder: Path, tmp_path: Path, export: Callable[..., None]
) -> None:
    export(folder / "knot.spz", "-o", tmp_path / "a.html")
    page = chromium.new_page(java_script_enabled=False)
    page.goto((tmp_path / "a.html").as_uri())
    shown = [text.inner_text() for text in page.locator("p").all() if text.is_visible()]
    assert shown == ["This page draws its scene with JavaScript, which is switched off here."]
    page.close()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[: len(data) // 2], "it is truncated|.*"),
        (lambda data: packed(unpacked(data)[:-1]), "it is truncated"),
        (
            lambda data: packed(unpacked(data)[:8] + b"\xff\xff\xff\xff" + unpacked(data)[12:]),
            "it has too many Gaussians",
        ),
    ],
)
def test_a_damaged_scene_is_said(
    chromium: Browser, tmp_path: Path, export: Callable[..., None], damage: Callable[[bytes], bytes], said: str
) -> None:
    write_scene(tmp_path / "a.spz", some_scene(50))
    export(tmp_path / "a.spz", "-o", tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    found = re.search(r'id="scene">([^<]*)<', text)
    assert found
    damaged = base64.b64encode(damage(base64.b64decode(found[1]))).decode()
    (tmp_path / "a.html").write_text(text.replace(found[1], damaged))
    with opened(chromium, tmp_path / "a.html") as page:
        wanted = rf"This browser cannot draw the scene: the scene in it is damaged: ({said})\."
        assert re.fullmatch(wanted, text_of(page))


def unpacked(data: bytes) -> bytes:
    return gzip.decompress(data)


def packed(data: bytes) -> bytes:
    return gzip.compress(data)


def test_the_scene_of_no_harmonics_and_one_gaussian(
    chromium: Browser, tmp_path: Path, export: Callable[..., None]
) -> None:
    scene = Gaussians(
        torch.zeros(1, 3), torch.tensor([[1.0, 0, 0, 0]]), torch.full((1, 3), 0.5), torch.ones(1), torch.ones(1, 1, 3)
    )
    write_scene(tmp_path / "a.spz", scene)
    expected = render(tmp_path / "a.png", tmp_path / "a.spz", "--size", SIZE)
    export(tmp_path / "a.spz", "-o", tmp_path / "a.html")
    with opened(chromium, tmp_path / "a.html") as page:
        check_picture(page, expected)
