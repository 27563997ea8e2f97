"""`splat view` in a real browser without a screen: what the page shows, what a hand does to it, two pages at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import browser
import numpy as np
import pytest
import torch
from PIL import Image
from render_runs import render

from splat.scene.builtin import knot_scene
from splat.scene.camera import orbit
from splat.scene.camera_file import write_camera
from splat.scene.formats import read_scene, write_scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow]

# Where neither the controls nor a notice lie above the picture.
FREE = (slice(120, 435), slice(10, 390))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes to choose from."""
    folder = tmp_path_factory.mktemp("view")
    scene = knot_scene()
    write_scene(folder / "knot.ply", scene)
    write_scene(folder / "part.ply", scene.select(scene.means[:, 1] > -1))  # without the floor
    (folder / "bad.ply").write_bytes(b"GIF89a")
    return folder


@pytest.fixture(scope="module")
def url(chromium: Browser, folder: Path) -> Iterator[str]:
    with browser.serve(folder, "knot.ply", "part.ply", "bad.ply", "--azimuth", "30") as address:
        yield address


def shot(page: Page) -> np.ndarray:
    """What is seen of the picture when the page is at rest."""
    return browser.resting_picture(page)[FREE]


def until(page: Page, reached: Callable[[np.ndarray], bool], what: str) -> np.ndarray:
    """The resting picture that has been reached; however long that takes, nothing of it is measured."""
    for _ in range(40):
        seen = shot(page)
        if reached(seen):
            return seen
    raise AssertionError(f"it never came to this: {what}")


def apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).mean())


def saved(page: Page, button: str, folder: Path) -> Path:
    """The file that a button of the page saves."""
    with page.expect_download(timeout=30000) as download:
        page.get_by_role("button", name=button).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def choose(page: Page, label: str, value: str) -> None:
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=value, exact=True).click()


def drag(page: Page, x: float, y: float) -> None:
    page.mouse.move(200, 250)
    page.mouse.down()
    page.mouse.move(200 + x, 250 + y, steps=4)
    page.mouse.up()


def test_the_page_shows_what_render_draws_and_a_drag_turns_it(
    chromium: Browser, url: str, folder: Path, tmp_path: Path
) -> None:
    knot = folder / "knot.ply"
    placed = render(tmp_path / "a.png", knot, "--size", f"{browser.WIDTH}x{browser.HEIGHT}", "--azimuth", "30")[FREE]
    assert placed.std() > 30, "there is something to see"
    page, wrong = browser.visit(chromium, url)
    seen = until(page, lambda seen: apart(seen, placed) < 2, "the page begins where render would")

    browser.unfold(page, "Camera", "Picture")
    drag(page, 100, 30)
    turned = until(page, lambda turned: apart(turned, seen) > 10, "a drag turns it")
    camera, picture = (saved(page, button, tmp_path) for button in ("Save camera", "Save picture"))
    again = render(tmp_path / "b.png", knot, "--camera", camera)
    assert apart(again[FREE], turned) < 2, "render takes the camera that was saved"
    with Image.open(picture) as image:
        assert np.array_equal(np.asarray(image, dtype=float), again), "the picture that was saved is render's"
    page.close()
    assert wrong == []


@pytest.mark.minutes
def test_a_field_of_view_the_whole_scene_and_a_double_click(chromium: Browser, url: str) -> None:
    page, wrong = browser.visit(chromium, url)
    seen = shot(page)
    browser.unfold(page, "Camera")
    angle = page.locator("input[type=text]").nth(0)
    angle.fill("70")
    angle.press("Enter")
    until(page, lambda wide: apart(wide, seen) > 10, "another field of view")
    page.get_by_role("button", name="Whole scene").click()
    until(page, lambda whole: apart(whole, seen) < 2, "the whole scene, as in the beginning")

    page.mouse.dblclick(300, 250)  # on the knot
    focused = until(page, lambda focused: apart(focused, seen) > 5, "a double-click looks there")
    middle = focused[200 - 120 : 240 - 120, 340 - 10 : 380 - 10]
    before = seen[230 - 120 : 270 - 120, 280 - 10 : 320 - 10]
    assert apart(middle, before) < 40, "what was clicked is in the middle"
    page.mouse.dblclick(20, 20)
    assert apart(shot(page), focused) < 1, "where nothing is, nothing happens"
    page.get_by_role("button", name="Whole scene").click()
    until(page, lambda whole: apart(whole, seen) < 2, "the whole scene again")
    page.close()
    assert wrong == []


@pytest.mark.minutes
@pytest.mark.parametrize("kind", ["rolled", "identity"])
def test_the_page_begins_with_a_camera_s_file_as_render_draws_it(
    chromium: Browser, folder: Path, tmp_path: Path, kind: str
) -> None:
    scene = knot_scene()
    camera = orbit(scene, browser.WIDTH, browser.HEIGHT, azimuth=30)
    viewmat = torch.eye(4)
    if kind == "rolled":
        viewmat[:2, :2] = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
        viewmat = viewmat @ camera.viewmat
    else:
        middle = sum(scene.bounds()) / 2
        viewmat[:3, 3] = camera.viewmat[:3, :3] @ middle + camera.viewmat[:3, 3] - middle
    write_camera(folder / f"{kind}.json", replace(camera, viewmat=viewmat))
    expected = render(tmp_path / "a.png", folder / "knot.ply", "--camera", folder / f"{kind}.json")[FREE]
    assert expected.std() > 30, "there is something to see"

    with browser.serve(folder, "knot.ply", "--camera", f"{kind}.json") as address:
        page, wrong = browser.visit(chromium, address)
        until(page, lambda seen: apart(seen, expected) < 2, "the page begins with that camera")
        page.close()

    assert wrong == []


@pytest.mark.minutes
def test_modes_scenes_and_what_cannot_be_opened(chromium: Browser, url: str) -> None:
    page, wrong = browser.visit(chromium, url)
    seen = shot(page)
    for mode in ("depth", "alpha", "count"):
        choose(page, "Show", mode)
        until(page, lambda grey: np.ptp(grey, axis=2).mean() < 2 and grey.std() > 20, mode)
    choose(page, "Show", "colour")
    until(page, lambda coloured: apart(coloured, seen) < 1, "colours again")
    choose(page, "Scene", "bad.ply")
    page.get_by_text("bad.ply: a PLY file, which starts with").wait_for(timeout=30000)
    assert apart(shot(page), seen) < 1, "the scene before is still there"
    choose(page, "Scene", "part.ply")
    until(page, lambda part: apart(part, seen) > 10, "another scene")
    page.close()
    assert wrong == []


def spread_two_fingers(page: Page, middle: tuple[int, int]) -> None:
    """From 15 to 135 pixels on both sides of a point."""
    x, y = middle
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    for away in range(15, 150, 15):
        points = [{"x": x + side * away, "y": y, "id": side + 1} for side in (-1, 1)]
        session.send(
            "Input.dispatchTouchEvent", {"type": "touchStart" if away == 15 else "touchMove", "touchPoints": points}
        )
        page.wait_for_timeout(20)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def shown(seen: np.ndarray) -> float:
    """The share of a picture that is not the background, which is black."""
    return float((seen.max(axis=2) > 16).mean())


@pytest.mark.minutes
def test_a_phone_shows_the_scene_and_what_is_up_can_be_chosen(chromium: Browser, url: str) -> None:
    page, wrong = browser.visit(chromium, url, 390, 844)
    folded = page.get_by_text("Controls", exact=True)
    box = folded.bounding_box()
    assert box is not None
    assert box["y"] > 0.8 * 844, "the panel takes the lowest part"
    assert page.get_by_role("combobox", name="Show").count() == 0
    above = (slice(140, 640), slice(None))
    seen = browser.resting_picture(page, 390, 844)[above]
    browser.unfold(page, "Controls", "Camera")
    choose(page, "Up", "upside down")
    browser.unfold(page, "Controls")
    turned = browser.resting_picture(page, 390, 844)[204:704][::-1, ::-1]
    assert seen.std() > 30
    assert apart(turned, seen) < 4, "the same, turned by 180 degrees"
    spread_two_fingers(page, (195, 350))
    near = browser.resting_picture(page, 390, 844)[204:704][::-1, ::-1]
    assert shown(near) > 1.03 * shown(seen), "two fingers that move apart bring the scene nearer"
    page.close()
    assert wrong == []


@pytest.mark.minutes
def test_what_is_dragged_over_is_selected_deleted_brought_back_and_saved(
    chromium: Browser, url: str, folder: Path, tmp_path: Path
) -> None:
    page, wrong = browser.visit(chromium, url)
    whole = shot(page)
    browser.unfold(page, "Edit")
    page.get_by_text("Select by dragging").click()
    page.get_by_text(f"0 selected, 0 deleted of {len(knot_scene())}").wait_for()
    drag(page, 90, 120)
    page.get_by_text(re.compile(r"^[1-9]\d* selected, 0 deleted of")).wait_for()
    chosen = until(page, lambda seen: apart(seen, whole) > 2, "it is seen what was selected")
    page.keyboard.down("Shift")
    drag(page, 90, 40)
    page.keyboard.up("Shift")
    until(page, lambda seen: apart(seen, chosen) > 1, "with Shift, no longer")
    words = page.get_by_text(re.compile(r"^[1-9]\d* selected, 0 deleted of")).inner_text()
    page.screenshot(path=tmp_path / "selected.png")
    page.get_by_role("button", name="Delete").click()
    page.get_by_text(re.compile(r"^0 selected, [1-9]")).wait_for()
    holed = until(page, lambda seen: apart(seen, chosen) > 2, "it is gone")
    file = saved(page, "Save scene", tmp_path)
    count = int(words.split()[0])
    assert len(read_scene(file)) == len(knot_scene()) - count
    page.get_by_role("button", name="Restore all").click()
    page.get_by_text(f"0 selected, 0 deleted of {len(knot_scene())}").wait_for()
    until(page, lambda seen: apart(seen, whole) < 1, "all is there again")
    page.get_by_role("button", name="Undo").click()
    until(page, lambda seen: apart(seen, holed) < 1, "and can be undone, too")
    page.close()
    assert wrong == []
