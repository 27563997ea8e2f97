"""A page of another site in the same browser as the viewer's: it gets nothing, whatever it opens, sends or embeds."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import browser
import numpy as np
import pytest

from splat.scene.builtin import knot_scene
from splat.scene.camera import Camera, FirstView, orbit
from splat.view.drawing import Look, Picture
from splat.view.open_page import ViewerOptions
from splat.view.scene_choices import BUILT_IN, SceneChoices
from splat.view.server import Viewer, open_viewer
from splat.view.session import NARROW

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

viser = pytest.importorskip("viser", reason="pip install 'viser>=1.1,<1.2'")
import msgspec  # noqa: E402
import websockets.sync.server  # noqa: E402
import zstandard  # noqa: E402

pytestmark = [pytest.mark.slow]

SCRIPT = "document.title = 'taken'; window.taken = true"


def batch(*messages: dict[str, object]) -> bytes:
    """Messages as a server of viser sends them to its page."""
    inner = msgspec.msgpack.encode({"messages": messages, "timestampSec": 0.0, "binaryBufferLengths": []})
    packed = zstandard.compress(inner)
    return len(inner).to_bytes(8, "little") + len(packed).to_bytes(8, "little") + packed


class Site:
    """Another site: its web server and its websocket server, and who came to them."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.visits: list[str] = []
        self.sockets = 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.visits.append(self.path)
                place = site.pages.get(self.path, "")
                self.send_response(302 if place.startswith("http") else 200)
                self.send_header("Location" if place.startswith("http") else "Content-Type", place or "text/html")
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()
                self.wfile.write(place.encode())

            def log_message(self, *_: object) -> None:
                pass

        def greet(socket: Any) -> None:
            self.sockets += 1
            socket.send(batch({"type": "RunJavascriptMessage", "source": SCRIPT}))
            for _ in socket:
                pass

        self.web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.web.daemon_threads = True
        self.socket = websockets.sync.server.serve(
            greet, "127.0.0.1", 0, select_subprotocol=lambda _, offered: offered[0] if offered else None
        )
        for server in (self.web, self.socket):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.web.server_port}"
        self.socket_url = f"ws://127.0.0.1:{self.socket.socket.getsockname()[1]}"

    def close(self) -> None:
        self.web.shutdown()
        self.web.server_close()
        self.socket.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.open_browser() as opened:
        yield opened


def black(look: Look, camera: Camera) -> Picture:
    return np.zeros((camera.height, camera.width, 3), np.uint8)


@pytest.fixture(scope="module")
def viewer() -> Iterator[Viewer]:
    choices = SceneChoices(
        {BUILT_IN: None}, lambda _: knot_scene(), lambda scene, _: (FirstView(orbit(scene, 80, 60), None), ())
    )
    with open_viewer("127.0.0.1", 0, ViewerOptions(choices, black, (0.0, 0.0, 0.0), 4), BUILT_IN) as viewer:
        yield viewer


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture
def page(chromium: Browser, viewer: Viewer) -> Iterator[Page]:
    page = chromium.new_page(viewport={"width": NARROW, "height": 600})
    yield page
    page.close()
    wait(lambda: viewer.pages == 0)


def wait(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


def shows_the_viewer(page: Page) -> bool:
    """Whether it does; the page has then done all that its address makes it do."""
    page.wait_for_timeout(20)
    return page.get_by_text(re.compile(r"^\d+x\d+ of \d+x\d+, \d+ ms$")).count() == 1


def taken(page: Page) -> bool:
    return bool(page.evaluate("window.taken === true")) or page.title() == "taken"


def test_a_redirect_into_the_viewer_gets_nothing(page: Page, viewer: Viewer, site: Site) -> None:
    """The server answers any query with the page without one (test_every_answer_says_what_pages_may_do)."""
    site.pages["/"] = f"{viewer.url}/?darkMode&websocket={site.socket_url}"

    page.goto(site.url)
    wait(lambda: shows_the_viewer(page) or site.sockets > 0)

    assert site.sockets == 0
    assert not taken(page)
    assert page.url == f"{viewer.url}/"


@pytest.mark.minutes
def test_an_address_that_a_script_puts_there_leads_nowhere(page: Page, viewer: Viewer, site: Site) -> None:
    """As if the server had let the query pass: the policy that it sends with the page still forbids the connection."""
    page.add_init_script(f"history.replaceState(null, '', '/?websocket={site.socket_url}')")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))

    page.goto(viewer.url)
    wait(lambda: page.wait_for_timeout(20) or any(site.socket_url in text for text in said))
    page.wait_for_timeout(1000)  # it has tried, and would be there by now

    assert site.sockets == 0
    assert site.visits == []
    assert not taken(page)


@pytest.mark.minutes
def test_what_stands_behind_the_hash_leads_nowhere(page: Page, viewer: Viewer, site: Site) -> None:
    for behind in (f"#websocket={site.socket_url}", f"#?websocket={site.socket_url}", f"#&websocket={site.socket_url}"):
        page.goto("about:blank")  # or another hash is no new page
        page.goto(f"{viewer.url}/{behind}")
        page.wait_for_timeout(400)
    assert site.sockets == 0
    assert not taken(page)


def test_a_script_that_comes_by_the_websocket_is_not_run_and_the_page_s_own_takes_nothing_else_from_its_address(
    page: Page, viewer: Viewer
) -> None:
    from viser import _messages

    page.goto(viewer.url)
    wait(lambda: shows_the_viewer(page))
    # What viser's client reads of it: a release that reads the hash, too, is to be looked at before it is allowed.
    code = page.evaluate("document.querySelector('script[type=module]').textContent")
    assert len(code) > 1_000_000
    assert set(re.findall(r"\blocation\.(\w+)", code)) == {"search", "href", "host", "protocol"}
    assert set(re.findall(r"URLSearchParams\(([^)]*)\)", code)) == {"window.location.search"}
    assert len(re.findall(r"new WebSocket\(", code)) == 1
    others = ("document.URL", "document.referrer", "document.baseURI", "window.name", "window.opener", "onhashchange=")
    assert [other for other in others if other in code] == []

    refused: list[str] = []
    page.on("pageerror", lambda error: refused.append(str(error)))
    page.on("console", lambda message: refused.append(message.text))
    viewer._server._websock_server.queue_message(_messages.RunJavascriptMessage(SCRIPT))

    wait(lambda: page.wait_for_timeout(20) or any("unsafe-eval" in text for text in refused))
    assert not taken(page)


def test_a_frame_of_another_site_stays_empty(page: Page, viewer: Viewer, site: Site) -> None:
    site.pages["/"] = f"<iframe src='{viewer.url}'></iframe>"
    page.goto(site.url)
    page.wait_for_timeout(1000)
    assert [frame.url for frame in page.frames[1:]] == ["chrome-error://chromewebdata/"]
    assert viewer.pages == 0


def test_a_websocket_of_another_site_is_not_opened(page: Page, viewer: Viewer, site: Site) -> None:
    page.goto(site.url)
    address, name = viewer.url.replace("http", "ws"), f"viser-v{viser.__version__}"
    found = page.evaluate(
        """([address, name]) => new Promise(done => {
            const socket = new WebSocket(address, [name]);
            socket.onopen = () => done("open");
            socket.onerror = () => done("refused");
        })""",
        [address, name],
    )
    assert found == "refused"


def test_a_name_that_leads_here_shows_nothing(page: Page, viewer: Viewer) -> None:
    """DNS rebinding: the other site's own name, with which its scripts may read the answer."""
    answer = page.goto(viewer.url.replace("127.0.0.1", browser.REBOUND))
    assert answer is not None
    assert answer.status == 403
    assert "--allow-name" in page.inner_text("body")
