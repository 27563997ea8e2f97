"""A headless browser for tests, and `splat view` as a process of its own."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import processes
import pytest
from PIL import Image
from programs import find_optional

from splat.view.session import NARROW

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Without a sandbox, because root cannot have one; WebGL is computed by the CPU.
ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
# A name of another site that leads here.
REBOUND = "rebound.example"
ARGUMENTS += [f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"]


def find_browser() -> str | None:
    """The program."""
    return next(filter(None, map(find_optional, NAMES)), None)


@contextlib.contextmanager
def open_browser() -> Iterator[Browser]:
    """A browser without a screen; skips the test if there is none."""
    program = find_browser()
    if program is None:
        pytest.skip("no browser here; Debian: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def serve(folder: Path, *words: str) -> Iterator[str]:
    """`splat view` with these arguments, in a folder; yields the page's address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "splat", "view", "--device", "cpu", "--port", "0", *words],
        cwd=folder,
        env=processes.clean_environment(),
        stdout=subprocess.PIPE,
        stderr=(folder / "view.log").open("w"),
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r"(http://127\.0\.0\.1:\d+) shows \d+ scenes?; Ctrl-C ends it\n", line)
        assert found, f"{line}{(folder / 'view.log').read_text()}"
        yield found[1]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert status == 0


FORBIDDEN = """
window.forbidden = [];
document.addEventListener("securitypolicyviolation", (event) => window.forbidden.push(event.violatedDirective));
"""


@contextlib.contextmanager
def opened(browser: Browser, path: Path, width: int, height: int, before: str = "", **options: Any) -> Iterator[Page]:
    """A page that is a file; what it asked the network for, or was forbidden, is an error."""
    wrong: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": height}, **options)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: None if is_own(request.url, path) else wrong.append(f"asked: {request.url}"))
    page.on("websocket", lambda socket: wrong.append(f"websocket: {socket.url}"))
    page.add_init_script(FORBIDDEN + before)
    page.goto(path.as_uri())
    yield page
    assert page.evaluate("window.forbidden") == []
    assert wrong == []
    page.close()


def is_own(url: str, path: Path) -> bool:
    return url.startswith(("blob:", "data:")) or url.split("/")[:-1] == path.as_uri().split("/")[:-1]


WIDTH, HEIGHT = 720, 440
PHONE = 576
"""Narrower pages have their panel at the bottom."""


def visit(browser: Browser, url: str, width: int = WIDTH, height: int = HEIGHT) -> tuple[Page, list[str]]:
    """The viewer's page, when it shows the scene with all pixels; and what goes wrong in it, from now on."""
    wrong: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": height})
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    page.on("request", lambda request: None if url in request.url else wrong.append(f"elsewhere: {request.url[:200]}"))
    # Else the page takes fewer pixels where WebGL is slow. The server takes no query.
    page.add_init_script("history.replaceState(null, '', '/?fixedDpr=1')")
    page.goto(url)
    if PHONE < width < NARROW:
        page.get_by_role("button", name="Expand panel").click(timeout=30000)
    all_pixels(page, width, height).wait_for(timeout=30000)
    notice = page.get_by_text("Software WebGL rendering detected")
    if notice.count():  # it lies above the picture
        page.locator(".mantine-Notification-closeButton").first.click()
        notice.wait_for(state="detached")
    return page, wrong


def unfold(page: Page, *folders: str) -> None:
    """Open these folders of the page's panel, which begin closed."""
    for folder in folders:
        page.get_by_text(folder, exact=True).click()


def all_pixels(page: Page, width: int = WIDTH, height: int = HEIGHT) -> Locator:
    """What the page says while it shows all pixels."""
    return page.get_by_text(re.compile(rf"^{width}x{height} of {width}x{height}, \d+ ms$"))


def picture(page: Page) -> np.ndarray:
    """What is seen of the page, float, [H, W, 3]."""
    with Image.open(io.BytesIO(page.screenshot())) as image:
        return np.asarray(image.convert("RGB"), dtype=float)


def resting_picture(page: Page, width: int = WIDTH, height: int = HEIGHT) -> np.ndarray:
    """What is seen of the page when it shows all pixels and does not change any more."""
    before, seen = picture(page), None
    for _ in range(60):
        page.wait_for_timeout(250)
        seen = picture(page)
        if all_pixels(page, width, height).count() and np.array_equal(before, seen):
            return seen
        before = seen
    raise AssertionError("the page does not come to rest")
