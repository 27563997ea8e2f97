"""Scenes that a page uploads: only with --allow-upload, one at a time, bounded, and for that page alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from viewer_page import FRONT, Drawn, Page, options, place, session_of, wait

from splat.scene.builtin import knot_scene
from splat.scene.formats import read_scene, write_scene
from splat.scene.gaussians import SceneError
from splat.view.open_page import UploadOptions
from splat.view.page_messages import LONGEST, is_expected
from splat.view.scene_choices import BUILT_IN, LoadedScene, loaded_scene
from splat.view.server import Viewer, open_viewer
from splat.view.upload_gate import LONGEST_PART, MOST_SECONDS, NO_ROOM, PART, UploadGate, UploadRoom

MOST = 3 * 2**20


def read(path: Path) -> LoadedScene:
    assert path.parent.stat().st_mode & 0o077 == 0, "nobody else can read it"
    scene = read_scene(path)
    return loaded_scene(scene, *place(scene, None))


@pytest.fixture
def drawn() -> Drawn:
    return Drawn()


@pytest.fixture
def viewer(drawn: Drawn) -> Iterator[Viewer]:
    with open_viewer("127.0.0.1", 0, replace(options(drawn), upload=UploadOptions(MOST, read)), BUILT_IN) as viewer:
        yield viewer


def messages(content: bytes, name: str = "a.ply", button: str = "u", **changes: object) -> list[dict[str, Any]]:
    """What a page says to upload a file."""
    ids = {"source_component_uuid": button, "transfer_uuid": "t"}
    parts = [content[start : start + PART] for start in range(0, len(content), PART)]
    start = {"filename": name, "mime_type": "", "part_count": len(parts), "size_bytes": len(content), **changes}
    return [
        {"type": "FileTransferStartUpload", **ids, **start},
        *(
            {"type": "FileTransferPart", **ids, "part_index": index, "content": part}
            for index, part in enumerate(parts)
        ),
    ]


def upload(page: Page, viewer: Viewer, content: bytes, name: str) -> None:
    session = session_of(viewer)
    for message in messages(content, name, session._upload._button._impl.uuid):
        page.socket.send(msgspec.msgpack.encode(message))


def test_an_uploaded_scene_is_shown_on_its_page_alone(viewer: Viewer, drawn: Drawn, tmp_path: Path) -> None:
    scene = knot_scene()
    part = scene.select(scene.means[:, 1] > -1)
    write_scene(tmp_path / "a.ply", part)
    page = Page(viewer.url)
    page.look()
    drawn.full()
    session = session_of(viewer)
    upload(page, viewer, (tmp_path / "a.ply").read_bytes(), "../../a.ply")
    while len(drawn.full()[0].scene) != len(part):
        pass
    wait(lambda: session._scene.value == session._name == "uploaded: ../../a.ply")
    assert session._upload._button.value.content == b"", "it is not kept"
    for content, name, message in (
        (b"GIF89a", "b.ply", "b.ply: a PLY file, which starts with"),
        (b"GIF89a", "b.exe", "b.exe: the name of a scene must end in one of"),
    ):
        page.received.clear()
        upload(page, viewer, content, name)
        page.wait_for(message)
        assert not any(b"/tmp" in text for text in page.received)
        assert session._name == "uploaded: ../../a.ply"
    session._scene.value = "other"
    wait(lambda: session._name == "other")
    upload(page, viewer, (tmp_path / "a.ply").read_bytes(), "c.ply")
    wait(lambda: session._name == "uploaded: c.ply")
    assert session._scene.options == (BUILT_IN, "other", "uploaded: c.ply")
    Page(viewer.url).look()
    wait(lambda: viewer.pages == 2)
    (other,) = (found for found in viewer._sessions.values() if found is not session)
    assert other._scene.options == (BUILT_IN, "other")


def test_many_uploads_leave_threads_to_the_controls(drawn: Drawn) -> None:
    gate, reads = threading.Event(), []

    def wait_for_gate(path: Path) -> LoadedScene:
        reads.append(path.read_bytes())
        assert gate.wait(20)
        raise SceneError("none")

    allowed = replace(options(drawn), upload=UploadOptions(MOST, wait_for_gate))
    with open_viewer("127.0.0.1", 0, allowed, BUILT_IN) as viewer:
        page = Page(viewer.url)
        page.look()
        drawn.full()
        for number in range(40):  # viser has 32 threads
            upload(page, viewer, bytes([number + 1]), "a.ply")
        session = session_of(viewer)
        page.say("GuiUpdateMessage", uuid=session._mode._impl.uuid, updates={"value": "count"})
        while drawn.full()[0].mode != "count":
            pass
        gate.set()
        wait(lambda: reads[-1] == bytes([40]))  # the newest one is not forgotten
        assert len(reads) < 40


LARGE = messages(bytes(2 * PART + 5))
START, FIRST, SECOND, LAST = LARGE
REFUSED: dict[str, list[dict[str, Any]]] = {
    "too large": messages(bytes(9), size_bytes=MOST + 1, part_count=7)[:1],
    "negative": messages(bytes(9), size_bytes=-1)[:1],
    "empty": messages(b""),
    "more parts": messages(bytes(9), part_count=2)[:1],
    "no start": [FIRST],
    "another start": [START, START],
    "no order": [START, SECOND],
    "twice": [START, FIRST, FIRST],
    "short part": [START, {**FIRST, "content": bytes(5)}],
    "long part": [START, FIRST, SECOND, {**LAST, "content": bytes(6)}],
    "another transfer": [START, {**FIRST, "transfer_uuid": "v"}],
    "another button": [START, {**FIRST, "source_component_uuid": "v"}],
    "beyond the end": [*LARGE, LAST],
    "long name": messages(bytes(9), "a" * 1001)[:1],
    "more": [{**START, "more": 1}],
    "text": [START, {**FIRST, "content": "a" * PART}],
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_upload_is_refused(case: str) -> None:
    gate = UploadGate(UploadRoom(MOST))
    *before, last = [msgspec.msgpack.encode(message) for message in REFUSED[case]]
    assert all(gate.takes(message) for message in before)
    assert not gate.takes(last)


def test_uploads_follow_each_other_and_other_messages_stay_short() -> None:
    gate = UploadGate(UploadRoom(MOST))
    for message in [*LARGE, *messages(b"abc"), *LARGE]:
        packed = msgspec.msgpack.encode(message)
        assert len(packed) <= LONGEST_PART
        assert gate.takes(packed)
        assert not is_expected(packed), "without the option"
    control = {"type": "GuiUpdateMessage", "uuid": "u", "updates": {"value": "a" * LONGEST}}
    assert not is_expected(msgspec.msgpack.encode(control))


def test_a_page_that_uploads_too_much_is_closed(viewer: Viewer, drawn: Drawn) -> None:
    for sent in (
        messages(bytes(9), size_bytes=MOST + 1, part_count=7)[:1],
        [START, SECOND],
        [{**FRONT, "type": "a" * PART}],
    ):
        page = Page(viewer.url)
        for message in sent:
            page.socket.send(msgspec.msgpack.encode(message))
        page.reader.join(20)
        assert page.socket.close_code == 1008
    assert viewer._server.gui._current_file_upload_states == {}


def test_an_upload_that_does_not_go_on_ends(viewer: Viewer, drawn: Drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    gate = UploadGate(UploadRoom(MOST), lambda: now[0])
    assert gate.seconds_left is None
    for message in (START, FIRST, SECOND):
        assert gate.takes(msgspec.msgpack.encode(message))
        assert gate.seconds_left == MOST_SECONDS
        now[0] += MOST_SECONDS - 1
        assert gate.seconds_left == 1
        assert not gate.takes(msgspec.msgpack.encode(FRONT)), "what a page says besides is no part"
        assert gate.seconds_left == 1
    now[0] += 5
    assert gate.seconds_left == 0
    assert gate.takes(msgspec.msgpack.encode(LAST))
    assert gate.seconds_left is None
    # The page is closed, and nothing kept.
    monkeypatch.setattr("splat.view.upload_gate.MOST_SECONDS", 0.2)
    page = Page(viewer.url)
    page.look()
    drawn.full()
    button = session_of(viewer)._upload._button._impl.uuid
    for message in messages(bytes(2 * PART + 5), "a.ply", button)[:2]:
        page.socket.send(msgspec.msgpack.encode(message))
    page.reader.join(20)
    assert page.socket.close_code == 1008
    assert "the next part of the upload is required within" in str(page.socket.close_reason)
    wait(lambda: viewer._server.gui._current_file_upload_states == {} and viewer.pages == 0)


def test_unfinished_uploads_of_all_pages_fit_into_the_memory(drawn: Drawn) -> None:
    start, *parts = map(msgspec.msgpack.encode, LARGE)
    size = 2 * PART + 5
    memory = [3 * size]
    room = UploadRoom(MOST, lambda: memory[0])
    first, second, third = UploadGate(room), UploadGate(room), UploadGate(room)
    assert first.takes(start)
    assert second.takes(start)
    assert not third.takes(start)
    assert not third.has_room
    memory[0] -= PART  # which have come
    assert first.takes(parts[0])
    assert not third.takes(start)
    second.close()
    assert third.takes(start)
    for part in parts:
        assert third.takes(part)
    assert second.takes(start), "one that is finished is not counted"
    # The page is told why.
    allowed = replace(options(drawn), upload=UploadOptions(MOST, read, lambda: 100))
    with open_viewer("127.0.0.1", 0, allowed, BUILT_IN) as viewer:
        page = Page(viewer.url)
        page.look()
        drawn.full()
        page.socket.send(start)
        page.reader.join(20)
        assert (page.socket.close_code, page.socket.close_reason) == (1008, NO_ROOM)
