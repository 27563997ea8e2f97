"""The server of `splat view`: what it takes from pages, friendly and hostile ones, and what it refuses at the start."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import queue
import socket
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from splat import cli
from splat.commands import view_command
from splat.scene.builtin import knot_scene
from splat.scene.camera import Camera, orbit
from splat.scene.gaussians import Gaussians, SceneError
from splat.view.choices import BUILT_IN, Choices
from splat.view.drawing import Look, Picture
from splat.view.server import MOST_PAGES, Viewer, ViewError, check_address, meant_for, open_viewer
from splat.view.session import UP, ViewTerms

viser = pytest.importorskip("viser", reason="pip install 'viser>=1.1,<1.2'")
import msgspec  # noqa: E402
import websockets.sync.client  # noqa: E402
import zstandard  # noqa: E402

pytestmark = pytest.mark.once

EYE = {"wxyz": [1, 0, 0, 0], "position": [0, 0, -5], "look_at": [0, 0, 0], "up_direction": [0, -1, 0]}
FRONT = {**EYE, "fov": 0.8, "near": 0.01, "far": 1000, "image_height": 60, "image_width": 80}


class Drawn:
    """A drawing function that notes what it drew, and what is drawn at this moment."""

    def __init__(self) -> None:
        self.pictures: queue.Queue[tuple[Look, Camera]] = queue.Queue()
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, look: Look, camera: Camera) -> Picture:
        self.pictures.put((look, camera))
        assert self.gate.wait(20)
        if self.error is not None:
            raise self.error
        return np.zeros((camera.height, camera.width, 3), np.uint8)

    def full(self) -> tuple[Look, Camera]:
        """The next picture with all pixels."""
        while True:
            look, camera = self.pictures.get(timeout=20)
            if camera.width == FRONT["image_width"]:
                return look, camera


class Page:
    """A page without a browser: what viser's page says, in its words."""

    def __init__(self, url: str, **headers: str) -> None:
        address = url.replace("http", "ws")
        names = [websockets.Subprotocol(f"viser-v{viser.__version__}")]
        self.socket = websockets.sync.client.connect(
            address, subprotocols=names, additional_headers=headers, max_size=None
        )
        self.received: list[bytes] = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            for message in self.socket:
                assert isinstance(message, bytes)
                size = int.from_bytes(message[8:16], "little")  # of the part without pictures, which is compressed
                self.received.append(zstandard.decompress(message[16 : 16 + size]))

    def say(self, kind: str, **values: object) -> None:
        self.socket.send(msgspec.msgpack.encode({"type": kind, **values}))

    def look(self, **changes: object) -> None:
        self.say("ViewerCameraMessage", **{**FRONT, **changes})

    def wait_for(self, text: str) -> None:
        wait(lambda: any(text.encode() in message for message in self.received))


def wait(condition: Callable[[], bool]) -> None:
    """Until it is true; the test fails after long."""
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def painters() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("splat-view-")]


def terms(
    drawn: Callable[[Look, Camera], Picture], read: Callable[[Path | None], Gaussians] | None = None
) -> ViewTerms:
    choices = Choices({BUILT_IN: None, "other": Path("other")}, read or (lambda _: knot_scene()), place)
    return ViewTerms(choices, drawn, UP["y"], (0.0, 0.0, 0.0), 4)


def place(scene: Gaussians) -> Camera:
    return orbit(scene, 80, 60)


@pytest.fixture
def drawn() -> Drawn:
    return Drawn()


@pytest.fixture
def viewer(drawn: Drawn) -> Iterator[Viewer]:
    with open_viewer("127.0.0.1", 0, terms(drawn), BUILT_IN) as viewer:
        yield viewer
    assert painters() == []


def test_the_end_waits_for_the_pictures_in_the_making(drawn: Drawn) -> None:
    with open_viewer("127.0.0.1", 0, terms(drawn), BUILT_IN) as viewer:
        stays, goes = Page(viewer.url), Page(viewer.url)
        drawn.gate.clear()
        for page in (stays, goes):
            page.look()
            drawn.pictures.get(timeout=20)
        goes.socket.close()
        wait(lambda: viewer.pages == 1)
        threading.Timer(0.5, drawn.gate.set).start()
    assert drawn.gate.is_set()
    assert painters() == []


def test_a_page_gets_the_picture_of_its_camera(viewer: Viewer, drawn: Drawn) -> None:
    page = Page(viewer.url)
    page.look()
    look, camera = drawn.full()
    assert (look.mode, look.degree, len(look.scene)) == ("colour", 3, len(knot_scene()))
    assert camera.viewmat.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 5], [0, 0, 0, 1]]
    assert camera.K[1, 1].item() == pytest.approx(30 / math.tan(0.4))
    page.wait_for("BackgroundImageMessage")
    page.wait_for("80x60 of 80x60")
    page.look(position=[0, 0, -7])
    assert drawn.full()[1].viewmat[2, 3] == 7


def test_controls_decide_what_is_drawn(viewer: Viewer, drawn: Drawn) -> None:
    page = Page(viewer.url)
    page.look()
    drawn.full()
    wait(lambda: viewer.pages == 1)
    session: Any = next(iter(viewer._sessions.values()))
    for control, value, reached in (
        ("_background", (255, 0, 51), lambda look: look.background == (1, 0, 0.2)),
        ("_degree", 1, lambda look: look.degree == 1),
        ("_degree", 4, lambda look: look.degree == 3),  # the scene has no more
        ("_mode", "count", lambda look: look.mode == "count"),
    ):
        getattr(session, control).value = value
        while not reached(drawn.full()[0]):
            pass
    session._fov.value = 90
    while drawn.full()[1].K[1, 1].item() != pytest.approx(30):
        pass
    page.wait_for("SetCameraFovMessage")


def test_two_pages_have_cameras_of_their_own(viewer: Viewer, drawn: Drawn) -> None:
    first, second = Page(viewer.url), Page(viewer.url)
    first.look(position=[0, 0, -3])
    second.look(position=[0, 0, -4])
    assert {drawn.full()[1].viewmat[2, 3].item() for _ in range(2)} == {3, 4}
    first.look(position=[0, 0, -6])
    assert drawn.full()[1].viewmat[2, 3] == 6
    assert len(painters()) == viewer.pages == 2


@pytest.mark.parametrize("how", ["closes", "vanishes"])
def test_a_page_that_goes_costs_nothing(viewer: Viewer, drawn: Drawn, how: str) -> None:
    page = Page(viewer.url)
    page.look()
    drawn.full()
    drawn.gate.clear()
    page.look(position=[0, 0, -9])
    drawn.pictures.get(timeout=20)  # while a picture is drawn for it
    if how == "closes":
        page.socket.close()
    else:
        page.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
        page.socket.socket.shutdown(socket.SHUT_RDWR)
        page.socket.socket.close()
    wait(lambda: viewer.pages == 0)
    drawn.gate.set()
    wait(lambda: not painters())
    other = Page(viewer.url)
    other.look()
    drawn.full()


@pytest.mark.filterwarnings("ignore:.*does not match annotation")
def test_cameras_that_are_none_are_said_on_the_page_and_the_next_one_works(viewer: Viewer, drawn: Drawn) -> None:
    page = Page(viewer.url)
    finite, pixel = "must be finite and at most 1e+15, found others; reset the view", "and at least one pixel, found"
    for changes, message in (
        ({"position": [math.nan, 0, 0]}, finite),
        ({"fov": math.inf}, finite),
        ({"wxyz": [0, 0, 0, 0]}, "a camera must have a rotation of length 1"),
        ({"wxyz": []}, "a camera must have a rotation of length 1"),
        ({"image_width": 0}, pixel),
        ({"image_height": -(10**9)}, pixel),
    ):
        page.received.clear()
        page.look(**changes)
        page.wait_for(message)
        page.look()
        drawn.full()
    page.look(image_width=10**9, image_height=10**9)
    while drawn.pictures.get(timeout=20)[1].width < 2000:
        pass


def test_a_picture_that_fails_is_said_on_the_page(viewer: Viewer, drawn: Drawn) -> None:
    drawn.error = RuntimeError("drawing needs more memory than there is")
    page = Page(viewer.url)
    page.look()
    page.wait_for("drawing needs more memory than there is")
    drawn.error = None
    page.look(fov=0.9)
    page.wait_for("80x60 of 80x60")


def test_nobody_can_publish_the_viewer_or_fill_its_memory(viewer: Viewer, drawn: Drawn) -> None:
    page = Page(viewer.url)
    page.look()
    drawn.full()
    server: Any = viewer._server
    wait(lambda: bool(server.get_clients()))
    (client,) = server.get_clients().values()
    before = len(page.received)
    page.say("ShareUrlRequest")
    for scope in (server, client):
        for uuid in list(scope.gui._gui_input_handle_from_uuid) or ["none"]:
            page.say(
                "FileTransferStartUpload",
                source_component_uuid=uuid,
                transfer_uuid="t",
                filename="f",
                mime_type="*",
                part_count=9,
                size_bytes=9,
            )
            page.say("FileTransferPart", source_component_uuid=uuid, transfer_uuid="t", part_index=0, content=b"x")
    page.look(position=[0, 0, -8])
    while drawn.full()[1].viewmat[2, 3] != 8:
        pass
    assert server._share_tunnel is None
    assert client.gui._current_file_upload_states == server.gui._current_file_upload_states == {}
    assert not any(b"ShareUrlUpdated" in message for message in page.received[before:])


@pytest.mark.parametrize(
    ("host", "origin", "asked", "expected"),
    [
        ("127.0.0.1", None, "127.0.0.1:80", True),
        ("127.0.0.1", "http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("127.0.0.1", "http://localhost:9", "localhost:9", True),  # through a tunnel
        ("127.0.0.1", "http://evil.example", "127.0.0.1:8080", False),
        ("127.0.0.1", "http://127.0.0.1:9999", "127.0.0.1:8080", False),  # another program's page
        ("127.0.0.1", "http://evil.example:8080", "evil.example:8080", False),  # a name that leads here
        ("127.0.0.1", "null", "127.0.0.1:8080", False),
        ("127.0.0.1", "http://[::1", "127.0.0.1:8080", False),
        ("::1", "http://[::1]:8080", "[::1]:8080", True),
        ("0.0.0.0", "http://desk.example:8080", "desk.example:8080", True),
        ("0.0.0.0", "http://evil.example", "desk.example:8080", False),
    ],
)
def test_pages_from_elsewhere_are_not_served(host: str, origin: str | None, asked: str, expected: bool) -> None:
    headers = {"Host": asked} | ({"Origin": origin} if origin is not None else {})
    assert meant_for(host, headers) is expected


def test_a_page_from_elsewhere_gets_no_session(viewer: Viewer, drawn: Drawn) -> None:
    stranger = Page(viewer.url, Origin="http://evil.example")
    stranger.look()
    own = Page(viewer.url, Origin=viewer.url)
    own.look(position=[0, 0, -6])
    assert drawn.full()[1].viewmat[2, 3] == 6
    assert viewer.pages == 1


def test_so_many_pages_and_no_more(viewer: Viewer, drawn: Drawn) -> None:
    pages = [Page(viewer.url) for _ in range(MOST_PAGES + 1)]
    for page in pages:
        page.look()
    wait(lambda: viewer.pages == MOST_PAGES)
    wait(lambda: any(b"pages are open, which is the most" in message for page in pages for message in page.received))
    assert len(painters()) == MOST_PAGES


def test_swapping_scenes_disturbs_no_picture_and_keeps_no_scene(drawn: Drawn) -> None:
    scenes: dict[Path | None, weakref.ref[Gaussians]] = {}
    wrong = {"is": False}

    def read(path: Path | None) -> Gaussians:
        if wrong["is"]:
            raise SceneError("other: a PLY file is required")
        scene = knot_scene().select(torch.arange(14409) % (1 if path is None else 2) == 0)
        scenes[path] = weakref.ref(scene)
        return scene

    gc.disable()
    with contextlib.ExitStack() as stack:
        stack.callback(gc.enable)
        viewer = stack.enter_context(open_viewer("127.0.0.1", 0, terms(drawn, read), BUILT_IN))
        page = Page(viewer.url)
        page.look()
        drawn.full()
        wait(lambda: viewer.pages == 1)
        (session,) = viewer._sessions.values()
        choose = lambda name: setattr(session._scene, "value", name)  # noqa: E731 - as the page does

        wrong["is"] = True
        choose("other")
        page.wait_for("other: a PLY file is required")
        assert session._scene.value == BUILT_IN
        wrong["is"] = False

        drawn.gate.clear()
        page.look(position=[0, 0, -9])
        look, _ = drawn.pictures.get(timeout=20)
        choose("other")
        wait(lambda: Path("other") in scenes)
        assert len(look.scene) == 14409, "the picture in the making has the scene before"
        drawn.gate.set()
        while len(drawn.full()[0].scene) != 7205:
            pass
        page.wait_for("SetCameraPositionMessage")
        choose(BUILT_IN)
        while len(drawn.full()[0].scene) != 14409:
            pass
        del look
        wait(lambda: gone(scenes, drawn))
        choose("other")
        while len(drawn.full()[0].scene) != 7205:
            pass
        page.socket.close()
        wait(lambda: gone(scenes, drawn))


def gone(scenes: dict[Path | None, weakref.ref[Gaussians]], drawn: Drawn) -> bool:
    """Whether the other scene is in memory no more; not by and by, as the garbage collector comes to it."""
    with contextlib.suppress(queue.Empty):
        while True:
            drawn.pictures.get_nowait()
    return scenes[Path("other")]() is None


def view(*words: str) -> int:
    return cli.main(["view", "--device", "cpu", *words])


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        yield other.getsockname()[1]


def test_what_is_wrong_is_one_line(
    tmp_path: Path, taken: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BROWSER", "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(view_command.webbrowser, "_tryorder", [])
    monkeypatch.setattr(view_command.webbrowser, "_browsers", {})
    (tmp_path / "bad.ply").write_bytes(b"GIF89a")
    (tmp_path / "camera.json").write_text(json.dumps({"width": math.nan}))
    for words, message in (
        (["--port", str(taken)], f"a free port is required, found {taken} of 127.0.0.1 in use; choose another with"),
        (["--host", "192.0.2.1", "--port", "0"], "an address of this machine and a port that you may use are required"),
        (["--host", "no such host"], "choose others with --host and --port"),
        (["--open", "--port", "0"], "--open needs a browser, found none on this machine; leave it out"),
        (["none.ply"], "No such file or directory: 'none.ply'"),
        (["bad.ply", "--port", "0"], "bad.ply: a PLY file, which starts with"),
        (["--camera", "camera.json", "--port", "0"], "all numbers of a camera must be finite, found NaN"),
    ):
        assert view(*words) == 1
        out, err = capsys.readouterr()
        assert out == "", words
        assert err.startswith("splat: "), words
        assert message in err, words
        assert err.count("\n") == 1, words
    assert not painters()


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        (["--port", "65536"], "a number from 0 to 65535 is required, found '65536'"),
        (["--camera", "a.json", "--azimuth", "3"], "leave out --azimuth"),
    ):
        with pytest.raises(SystemExit) as raised:
            view(*words)
        assert raised.value.code == 2
        assert message in capsys.readouterr().err


def test_without_viser_it_says_what_installs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    assert view("--port", "0") == 1
    assert "the viewer needs viser, which is not installed" in (err := capsys.readouterr().err)
    assert err.endswith("to fix: python -m pip install 'viser>=1.1,<1.2'\n")


def test_a_port_that_viser_would_replace_is_refused(drawn: Drawn, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken between the check and viser's own attempt."""
    monkeypatch.setattr("splat.view.server.check_address", lambda host, port: None)
    with (
        pytest.raises(ViewError, match=f"a free port is required, found {taken}"),
        open_viewer("127.0.0.1", taken, terms(drawn), BUILT_IN),
    ):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_address("127.0.0.1", 0)
