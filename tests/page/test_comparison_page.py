"""The page of photographs, renders and differences: what is in it, and its sliders in a browser."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import browser
import numpy as np
import pytest
import torch
from PIL import Image

from splat.page.comparison_page import BRIGHTER, MOST_ROWS, MOST_SIDE, Measured, Pair, comparison
from splat.page.parts import policy, source

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

HOSTILE = "</h2><script>alert(1)</script>\"'><img src=x onerror=alert(2)>$policy\x1b\u202e\udc80.png"
RED, BLUE = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)


class Elements(HTMLParser):
    """The elements of a page with their attributes, and what is written in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def pictures(self) -> Iterator[tuple[str | None, np.ndarray]]:
        """What each picture is called, and its pixels, 0 to 1."""
        for tag, attributes in self.elements:
            if tag == "img":
                kind, data = str(attributes["src"]).split(",")
                assert kind == "data:image/jpeg;base64"
                with Image.open(io.BytesIO(base64.b64decode(data, validate=True))) as picture:
                    yield attributes["alt"], np.asarray(picture, dtype=float) / 255


def filled(color: Sequence[float], width: int = 40, height: int = 30) -> torch.Tensor:
    return torch.tensor(color).expand(height, width, 3)


def named(*psnrs: float) -> list[Measured]:
    return [Measured(f"{psnr}.png", psnr, 0.5) for psnr in psnrs]


def test_the_worst_is_first_with_its_numbers() -> None:
    asked = []

    def pair(number: int) -> Pair:
        asked.append(number)
        return Pair(filled(RED), filled(BLUE), None)

    page = Elements(comparison("title", "facts", named(30.123, float("inf"), 20, 25), pair))
    assert asked == [2, 3, 0, 1]
    assert re.findall(r"(\S+)\.pngPSNR (\S+) dB, SSIM 0\.500", page.words) == [
        ("20", "20.00"), ("25", "25.00"), ("30.123", "30.12"), ("inf", "inf")
    ]  # fmt: skip
    assert [name for name, _ in page.pictures()][:3] == [
        "photograph of 20.png", "render of 20.png", "difference of 20.png"
    ]  # fmt: skip


def test_the_difference_is_brighter_and_only_where_it_was_measured() -> None:
    used = torch.ones(30, 40, dtype=torch.bool)
    used[:, 32:] = False  # at a border of JPEG's blocks
    # What a picture cannot hold is no difference: renders are clamped before they are measured.
    pair = Pair(filled((0.5, 0.5, 1.0)), filled((0.6, 0.3, 1.5)), used)
    *_, (name, seen) = Elements(comparison("", "", named(20), lambda _: pair)).pictures()
    assert name == "difference of 20.png"
    assert seen[:, :32].mean(axis=(0, 1)) == pytest.approx([0.1 * BRIGHTER, 0.2 * BRIGHTER, 0], abs=0.03)
    assert seen[:, 32:].mean() < 0.01


def test_the_page_is_bounded() -> None:
    image = torch.rand(10, MOST_SIDE + 80, 3)
    page = comparison("", "", named(*range(60)), lambda _: Pair(image, image, None))
    assert f"the {MOST_ROWS} worst of 60" in page
    shown = [pixels for _, pixels in Elements(page).pictures()]
    assert len(shown) == 3 * MOST_ROWS
    assert max(max(pixels.shape) for pixels in shown) == MOST_SIDE
    assert len(page) < 3 * MOST_ROWS * MOST_SIDE * 10 * 4


def test_names_are_only_text() -> None:
    plain, hostile = (
        Elements(comparison(name, name, [Measured(name, 20, 0.5)], lambda _: Pair(filled(RED), filled(RED), None)))
        for name in ("name", HOSTILE)
    )
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in plain.elements]
    assert hostile.words.count(HOSTILE.replace("\x1b\u202e\udc80", r"\x1b\u202e\udc80")) == 3


def test_the_policy_allows_this_program_and_nothing_else() -> None:
    page = comparison("", "", named(20), lambda _: Pair(filled(RED), filled(BLUE), None))
    program, style = source("comparison.js"), source("comparison.css")
    policies = [attributes["content"] for _, attributes in Elements(page).elements if attributes.get("http-equiv")]
    assert policies == [policy(program, style, "img-src data:")]
    assert page.count("<script") == page.count(f'<script type="module">{program}</script>') == 1
    assert page.count("<style") == page.count(f"<style>{style}</style>") == 1
    own = re.sub(r"base64,\S+", "", page)
    assert re.findall(r"\w+://|//\w|url\(|\bimport\b|\bhref=|\bfetch|\bon\w+=|\bstyle=", own) == []


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.open_browser() as opened:
        yield opened


@pytest.fixture
def colors(tmp_path: Path) -> Path:
    """A red photograph and its blue render."""
    pair = Pair(filled(RED), filled(BLUE), None)
    (tmp_path / "a.html").write_text(comparison("a", "b", named(20, 30), lambda _: pair))
    return tmp_path / "a.html"


def place(element: Locator) -> tuple[float, float, float, float]:
    """Where it is on the page: left, top, width, height."""
    box = element.bounding_box()
    assert box is not None
    return box["x"], box["y"], box["width"], box["height"]


def share(seen: np.ndarray, color: Sequence[float]) -> float:
    """Of the pixels, those of a color."""
    return float((np.abs(seen - np.array(color) * 255).max(axis=-1) < 40).mean())


@pytest.mark.slow
def test_a_slider_shows_the_photograph_over_its_render(chromium: Browser, colors: Path) -> None:
    with browser.opened(chromium, colors, 400, 2000) as page:
        first, other = (page.locator("section").nth(row) for row in (0, 1))
        slider, render = first.get_by_role("slider"), first.locator(".render")

        def reds(row: Locator = render) -> float:
            left, top, wide, high = map(int, place(row))
            return share(browser.picture(page)[top : top + high, left : left + wide], RED)

        assert reds() == pytest.approx(0.5, abs=0.07)
        left, top, wide, high = place(slider)
        assert place(slider) == place(first.locator(".photograph")) == place(render)
        page.mouse.move(left + wide / 2, top + high / 2)
        page.mouse.down()
        page.mouse.move(left + wide / 5, top + high / 3)
        page.mouse.up()
        assert reds() == pytest.approx(0.2, abs=0.05)
        assert reds(other.locator(".render")) == pytest.approx(0.5, abs=0.07)
        page.keyboard.press("End")
        assert reds() > 0.9
        page.keyboard.press("Home")
        assert reds() < 0.03


@pytest.mark.slow
def test_without_its_program_the_page_has_all_pictures(chromium: Browser, colors: Path) -> None:
    page = chromium.new_page(viewport={"width": 900, "height": 600}, java_script_enabled=False)
    page.goto(colors.as_uri())
    assert page.get_by_role("slider").count() == 0
    kinds = ("photograph", "render", "difference")
    assert len({place(page.locator(f".{kind}").first)[0] for kind in kinds}) == 3
    page.close()
