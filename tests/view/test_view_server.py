"""The server of `splat view`: what it takes from pages, friendly and hostile ones, and what it refuses at the start."""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import math
import os
import queue
import socket
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
import websockets.sync.client
from photographs import knot
from PIL import Image
from viewer_page import FRONT, Drawn, Page, options, painters, place, session_of, viser, wait

from splat import cli
from splat.commands import view_command
from splat.scene.camera import UP, Camera, FirstView, orbit
from splat.scene.camera_list import TakenPicture
from splat.scene.camera_path import read_path
from splat.scene.coordinates import NO_OFFSET
from splat.scene.formats import read_scene, write_scene
from splat.scene.gaussians import Gaussians, SceneError
from splat.view.clicks import Click
from splat.view.drawing import Look, Picture
from splat.view.edited_scene import EditedScene
from splat.view.guard import MOST_CONNECTIONS, MOST_PAGES
from splat.view.headers import HEADERS
from splat.view.open_page import BUSY, ViewerOptions
from splat.view.origin import is_host_name, is_loopback, name_refusal, origin_refusal, query_refusal
from splat.view.page_messages import LONGEST, is_expected
from splat.view.pose import part_of
from splat.view.resolution import Detail
from splat.view.scene_choices import BUILT_IN, SceneChoices
from splat.view.server import Viewer, ViewError, check_address, open_viewer


@pytest.fixture
def drawn() -> Drawn:
    return Drawn()


@pytest.fixture
def viewer(drawn: Drawn) -> Iterator[Viewer]:
    with open_viewer("127.0.0.1", 0, options(drawn, lambda _: knot()), BUILT_IN) as viewer:
        yield viewer
    assert painters() == []


def test_the_end_waits_for_the_pictures_in_the_making(drawn: Drawn) -> None:
    with open_viewer("127.0.0.1", 0, options(drawn), BUILT_IN) as viewer:
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
    assert (look.mode, look.degree, len(look.scene)) == ("colour", 3, len(knot()))
    assert camera.viewmat.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 5], [0, 0, 0, 1]]
    assert camera.K[1, 1].item() == pytest.approx(30 / math.tan(0.4))
    page.wait_for("BackgroundImageMessage")
    page.wait_for("80x60 of 80x60")
    page.look(position=[0, 0, -7])
    assert drawn.full()[1].viewmat[2, 3] == 7


@pytest.mark.parametrize(("size", "shift"), [(1e-9, 0.0), (1e12, 1e14)], ids=str)
def test_a_page_opens_however_large_or_far_its_scene_is(drawn: Drawn, size: float, shift: float) -> None:
    scene = knot()
    flat = replace(scene, means=size * scene.means * torch.tensor([1, 1, 0]) + shift, scales=size * scene.scales)
    with open_viewer("127.0.0.1", 0, options(drawn, lambda path: flat if path is None else scene), BUILT_IN) as viewer:
        page = Page(viewer.url)
        page.look()
        session = session_of(viewer)
        page.wait_for("80x60 of 80x60")
        for name, reached in (("other", scene), (BUILT_IN, flat)):  # its limits replace those of the other
            session._scene.value = name
            while drawn.full()[0].scene is not reached:
                pass
            assert session.client.camera.min_orbit_distance < session.client.camera.max_orbit_distance
    assert not any(b"red" in message for message in page.received)  # errors are


def test_a_page_that_is_opened_later_shows_the_file_as_it_is_then(drawn: Drawn, tmp_path: Path) -> None:
    path = tmp_path / "a.ply"
    write_scene(path, knot())
    shared = replace(options(drawn), choices=SceneChoices({"a.ply": path}, lambda path: read_scene(path or ""), place))
    with open_viewer("127.0.0.1", 0, shared, "a.ply") as viewer:
        page = Page(viewer.url)
        page.look()
        before = drawn.full()[0].scene
        for count in (100, 50):
            write_scene(path, knot().select(slice(count)))
            Page(viewer.url).look()
            while len(drawn.full()[0].scene) != count:
                pass
        path.unlink()
        assert not shared.choices.has_changed("a.ply")
        page.look(fov=0.9)
        assert drawn.full()[0].scene is before


def test_a_page_in_motion_gets_part_of_the_scene_and_all_of_it_at_rest(
    viewer: Viewer, drawn: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("splat.view.render_thread.moving_detail", lambda cost, last: Detail(0.5, 0.25))
    page = Page(viewer.url)
    page.look()
    scene = drawn.full()[0].scene
    page.look(position=[0, 0, -7])
    some, camera = drawn.pictures.get(timeout=20)
    assert (len(some.scene), camera.width, camera.viewmat[2, 3]) == (round(len(scene) / 4), 40, 7)
    page.wait_for(f"40x30 of 80x60, {len(some.scene)} of {len(scene)} Gaussians, ")
    assert drawn.full()[0].scene is scene
    crop = scene.select(slice(len(scene) // 2))
    session_of(viewer).change(lambda look: replace(look, scene=crop))
    assert len(drawn.pictures.get(timeout=20)[0].scene) == round(len(crop) / 4)
    assert drawn.full()[0].scene is crop


def test_controls_decide_what_is_drawn(viewer: Viewer, drawn: Drawn) -> None:
    page = Page(viewer.url)
    page.look()
    drawn.full()
    wait(lambda: viewer.pages == 1)
    session: Any = next(iter(viewer._sessions.values()))
    for control, value, reached in (
        (session._picture._background, (255, 0, 51), lambda look: look.background == (1, 0, 0.2)),
        (session._picture._degree, 1, lambda look: look.degree == 1),
        (session._picture._degree, 4, lambda look: look.degree == 3),  # the scene has no more
        (session._mode, "count", lambda look: look.mode == "count"),
    ):
        control.value = value
        while not reached(drawn.full()[0]):
            pass
    session.camera._fov.value = 90
    while drawn.full()[1].K[1, 1].item() != pytest.approx(30):
        pass
    page.wait_for("SetCameraFovMessage")


def test_a_scene_with_higher_harmonics_than_the_first_has_them_all(drawn: Drawn) -> None:
    flat = replace(knot(), sh=knot().sh[:, :1])
    with open_viewer("127.0.0.1", 0, options(drawn, lambda path: knot() if path else flat), BUILT_IN) as viewer:
        page = Page(viewer.url)
        page.look()
        assert drawn.full()[0].degree == 0
        session_of(viewer)._scene.value = "other"
        while drawn.full()[0].degree != 3:
            pass


def test_what_is_up_can_be_chosen(viewer: Viewer, drawn: Drawn) -> None:
    page = Page(viewer.url)
    page.look(up_direction=[0, 1, 0], wxyz=[0, 0, 0, 1])
    assert drawn.full()[1].viewmat[1, :3].tolist() == [0, -1, 0]
    camera = session_of(viewer).camera
    for chosen, down in (
        ("-y", [0, 1, 0]),
        ("x", [-1, 0, 0]),
        ("as opened", [0, -1, 0]),
        ("upside down", [0, 1, 0]),
        ("-x", [1, 0, 0]),
        ("this picture's", [1, 0, 0]),
    ):
        page.received.clear()
        camera._up.value = chosen
        if chosen != "this picture's":  # which changes nothing
            page.wait_for("SetCameraUpDirectionMessage")
            while not np.allclose((found := drawn.full()[1].viewmat)[1, :3], down, atol=1e-6):
                pass
            assert found[:3, 3].tolist() == pytest.approx([0, 0, 5]), "the camera stays where it is"
    camera.show_all()
    wait(lambda: np.allclose(page_up(viewer), UP["y"]))
    assert camera._up.value == "as opened"


def test_a_double_click_makes_the_camera_look_there(drawn: Drawn) -> None:
    asked: list[tuple[Camera, Click]] = []
    found: list[tuple[float, float, float] | None] = [None, (1.0, 0.5, 3.0)]

    def measure(look: Look, camera: Camera, click: Click) -> tuple[float, float, float] | None:
        asked.append((camera, click))
        return found.pop(0)

    with open_viewer("127.0.0.1", 0, replace(options(drawn), measure=measure), BUILT_IN) as viewer:
        page = Page(viewer.url)
        page.look()
        drawn.full()
        (client,) = viewer._server.get_clients().values()
        before = client.camera.look_at.tolist()
        page.say("ScenePointerMessage", **CLICK)
        page.say("ScenePointerMessage", **{**CLICK, "screen_pos": [[0.7, 0.25]]})  # two single clicks
        page.say("ScenePointerMessage", **{**CLICK, "screen_pos": [[0.71, 0.26]]})  # the second of a double-click
        wait(lambda: len(asked) == 1)
        assert (asked[0][0].width, asked[0][1].across, asked[0][1].down) == (80, 0.71, 0.26)
        page.look(position=[0, 0, -6])
        while drawn.full()[1].viewmat[2, 3] != 6:
            pass
        assert client.camera.look_at.tolist() == before, "there is nothing"
        for _ in range(2):
            page.say("ScenePointerMessage", **CLICK)
        wait(lambda: client.camera.look_at.tolist() == [1, 0.5, 3])
        page.wait_for("SetCameraLookAtMessage")
        assert client.camera.position.tolist() == [0, 0, -6]
        assert len(asked) == 2


def test_cameras_are_drawn_and_gone_to_and_their_photographs_shown(drawn: Drawn) -> None:
    asked: list[str] = []

    def photograph(name: str) -> Picture | None:
        asked.append(name)
        return np.zeros((3, 4, 3), np.uint8) if name == "a.png" else None

    cameras = [orbit(knot(), 80, 60, azimuth=azimuth) for azimuth in (40, 130)]
    taken = [TakenPicture("a.png", cameras[0]), TakenPicture("../b.png", cameras[1])]
    choices = SceneChoices(
        {"one": None, "other": Path("other")},
        lambda _: knot(),
        lambda scene, path: (FirstView(orbit(scene, 80, 60), UP["y"]), () if path else taken),
    )
    with open_viewer(
        "127.0.0.1", 0, ViewerOptions(choices, drawn, (0, 0, 0), 4, photograph=photograph), "one"
    ) as viewer:
        page = Page(viewer.url)
        page.look(position=[0, 0, -9])
        drawn.full()
        session = session_of(viewer)
        photos = session.photos
        assert photos._folder.visible
        assert photos._chosen.options == ("none", "1: a.png", "2: ../b.png")
        page.say("ScenePointerMessage", **CLICK)  # they are not drawn
        photos._drawn.value = True
        page.wait_for("LineSegmentsMessage")
        assert asked == []

        photos._chosen.value = "1: a.png"
        while not torch.allclose(drawn.full()[1].viewmat, cameras[0].viewmat, atol=1e-4):
            pass
        wait(lambda: photos._photograph.visible)
        assert photos._photograph.image.shape == (3, 4, 3)
        photos._chosen.value = "2: ../b.png"
        page.wait_for("the photograph '../b.png' in the folder is required, found none")
        assert not photos._photograph.visible
        assert asked == ["a.png", "../b.png"]

        centre = session.photos._corners[0].mean(dim=0)
        page.look(position=[*(centre - torch.tensor([0, 0, 5.0])).tolist()])
        while drawn.full()[1].viewmat[2, 3].item() != pytest.approx(5 - centre[2].item(), abs=1e-4):
            pass
        page.say("ScenePointerMessage", **{**CLICK, "screen_pos": [[0.5, 0.5]]})
        wait(lambda: photos._chosen.value == "1: a.png")

        session._scene.value = "other"
        wait(lambda: not photos._folder.visible)
        assert photos._chosen.value == "none"


def test_many_photographs_leave_threads_to_the_controls(drawn: Drawn) -> None:
    gate, reads = threading.Event(), []

    def photograph(name: str) -> Picture | None:
        reads.append(name)
        assert gate.wait(20)
        return np.zeros((3, 4, 3), np.uint8)

    camera = orbit(knot(), 80, 60)
    taken = [TakenPicture(f"{number}.png", camera) for number in range(41)]
    choices = SceneChoices({"one": None}, lambda _: knot(), lambda scene, path: (FirstView(camera, UP["y"]), taken))
    with open_viewer(
        "127.0.0.1", 0, ViewerOptions(choices, drawn, (0, 0, 0), 4, photograph=photograph), "one"
    ) as viewer:
        page = Page(viewer.url)
        page.look()
        drawn.full()
        session = session_of(viewer)
        for name in session.photos._chosen.options[1:]:  # viser has 32 threads
            page.say("GuiUpdateMessage", uuid=session.photos._chosen._impl.uuid, updates={"value": name})
        page.say("GuiUpdateMessage", uuid=session._mode._impl.uuid, updates={"value": "count"})
        while drawn.full()[0].mode != "count":
            pass
        gate.set()
        wait(lambda: reads[-1] == "40.png")  # the newest one is not forgotten
        wait(lambda: session.photos._photograph.visible)
        assert len(reads) < 41


def test_a_photograph_that_takes_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("RGB", (2000, 1500)).save(tmp_path / "a.png")
    read = view_command._photographs(tmp_path)
    for memory_mb in (None, 1024):
        there = memory_mb and memory_mb << 20
        monkeypatch.setattr(view_command, "available_memory", lambda there=there: there)
        assert (picture := read("a.png")) is not None
        assert picture.shape == (480, 640, 3)
        assert read("b.png") is None
    monkeypatch.setattr(view_command, "available_memory", lambda: 300 << 20)
    with pytest.raises(
        SceneError, match=r"a\.png: unpacking a picture of 2000x1500 pixels needs about 0\.1 GiB, found"
    ):
        read("a.png")


def test_a_box_limits_what_is_drawn_and_saved(viewer: Viewer, drawn: Drawn, tmp_path: Path) -> None:
    page = Page(viewer.url)
    page.look()
    assert len(drawn.full()[0].scene) == len(knot())
    session = session_of(viewer)
    edit, crop, saved = session._edit, session._edit._crop, queue.Queue[tuple[str, bytes]]()
    session.download = lambda name, content: saved.put((name, content))
    uuids = {slider._impl.props.label: slider._impl.uuid for slider in crop._sliders}
    crop._on.value = True
    page.wait_for("LineSegmentsMessage")
    (_, high), depth = crop._sliders[0].value, crop._sliders[2].value
    page.say("GuiUpdateMessage", uuid=uuids["x"], updates={"value": [-0.5, high]})
    page.say("GuiUpdateMessage", uuid=uuids["z"], updates={"value": [depth[0], 0.25]})
    scene = knot()
    inside = (scene.means[:, 0] >= -0.5) & (scene.means[:, 2] <= 0.25)
    count = int(inside.sum())
    assert 0 < count < len(scene)
    while len(drawn.full()[0].scene) != count:
        pass
    for ending in (".ply", ".splat"):
        edit._format.value = ending
        wait(lambda: session._thread._errand is None)  # one is refused until the one before it has returned
        session.send(edit._save)
        name, content = saved.get(timeout=20)
        assert name == f"edited{ending}"
        write_scene(tmp_path / f"whole{ending}", scene.select(inside))
        assert content == (tmp_path / f"whole{ending}").read_bytes()
    page.wait_for("edited.splat: ")

    page.say("GuiUpdateMessage", uuid=uuids["x"], updates={"value": [high, high]})
    page.say("GuiUpdateMessage", uuid=uuids["z"], updates={"value": [depth[0], depth[0]]})
    while len(drawn.full()[0].scene):
        pass
    session.send(edit._save)
    page.wait_for("Gaussians are required to be left, found none")
    page.say("GuiUpdateMessage", uuid=uuids["y"], updates={"value": [1, 2, 3]})  # no range
    while len(drawn.full()[0].scene) != len(scene):
        pass
    assert saved.empty()
    session._scene.value = "other"
    wait(lambda: session._name == "other")
    wait(lambda: crop._sliders[0]._impl.uuid not in uuids.values())
    assert not crop._on.value


def test_what_a_box_selects_is_deleted_and_a_scene_is_not_left_unsaved(
    viewer: Viewer, drawn: Drawn, tmp_path: Path
) -> None:
    page = Page(viewer.url)
    page.look()
    page.say("ScenePointerMessage", **BOX)  # the left button orbits still
    page.look(position=[0, 0, -6])
    while (camera := drawn.full()[1]).viewmat[2, 3] != 6:
        pass
    session, scene = session_of(viewer), knot()
    edit, saved = session._edit, queue.Queue[bytes]()
    session.download = lambda name, content: saved.put(content)
    box, part = (part_of(camera, (0.25, 0.25), (across, 0.75)).sees(scene.means.double())[1] for across in (0.5, 0.4))
    kept = ~box | part
    assert 0 < int(part.sum()) < int(box.sum()) < len(scene)
    edit._dragging.value = True
    wait(lambda: len(session.client.scene._scene_pointer_cb) == 3)
    page.say("ScenePointerMessage", **{**BOX, "screen_pos": [[0.5, 0.25], [0.25, 0.75]]})
    wait(lambda: edit._words.content == f"{box.sum()} selected, 0 deleted of {len(scene)}")
    page.say("ScenePointerMessage", **{**BOX, "screen_pos": [[0.25, 0.25], [0.4, 0.75]], "modifier": "shift"})
    wait(lambda: edit._words.content == f"{(~kept).sum()} selected, 0 deleted of {len(scene)}")
    page.say("ScenePointerMessage", **{**BOX, "screen_pos": [[math.nan, 0], [1, 1]]})
    page.wait_for("two corners of a box in the picture are required, found others")

    edit._edit(EditedScene.delete)
    while len(drawn.full()[0].scene) != kept.sum():
        pass
    session._scene.value = "other"
    page.wait_for("a scene without unsaved edits is required to leave it; save it, or restore all of it")
    wait(lambda: session._scene.value == BUILT_IN)
    edit._edit(EditedScene.undo)
    while len(drawn.full()[0].scene) != len(scene):
        pass
    assert edit._words.content == f"{(~kept).sum()} selected, 0 deleted of {len(scene)}"
    edit._edit(EditedScene.delete)

    session.send(edit._save)
    write_scene(tmp_path / "kept.ply", scene.select(kept))
    assert saved.get(timeout=20) == (tmp_path / "kept.ply").read_bytes()
    wait(lambda: session._thread._errand is None)
    session._scene.value = "other"
    wait(lambda: session._name == "other")
    wait(lambda: edit._words.content == f"0 selected, 0 deleted of {len(scene)}")


def test_a_file_that_is_large_is_not_saved(viewer: Viewer, drawn: Drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splat.view.edit_controls.MOST_BYTES", 2**21)
    page = Page(viewer.url)
    page.look()
    drawn.full()
    session = session_of(viewer)
    session.send(session._edit._save)
    page.wait_for(
        "a file of at most 2 MB is required, found 3 MB of .ply; choose a format that takes less, such as .spz"
    )


def test_a_page_that_reads_no_file_gets_no_second_one(viewer: Viewer, drawn: Drawn) -> None:
    page = Page(viewer.url)
    page.look()
    drawn.full()
    page.reads.clear()
    session = session_of(viewer)
    # The socket's buffers and the page's library keep some 50 MB of messages with one part each; zeros would be
    # compressed to nothing.
    session.client._websock_connection.get_message_buffer().max_window_size = 1
    session.send(lambda look, pose: session.download("a.bin", os.urandom(100 << 20)))
    wait(lambda: session._is_sending())
    wait(lambda: session._thread._errand is None)
    again: list[int] = []
    session.send(lambda look, pose: again.append(1))
    assert session._said_busy
    page.reads.set()
    wait(lambda: not session._is_sending())
    session.send(lambda look, pose: again.append(2))
    wait(lambda: again == [2])
    page.wait_for(BUSY)


def test_keyframes_are_played_and_saved(viewer: Viewer, drawn: Drawn, tmp_path: Path) -> None:
    page = Page(viewer.url)
    page.look()
    drawn.full()
    session = session_of(viewer)
    path, saved = session._path, tmp_path / "path.json"
    session.download = lambda name, content: (tmp_path / name).write_bytes(content)
    with pytest.raises(SceneError, match="one keyframe or more is required, found none"):
        path._save(NO_OFFSET)
    for depth in (-5, -6, -8, -7):
        page.look(position=[0, 0, depth])
        while drawn.full()[1].viewmat[2, 3] != -depth:
            pass
        path._add()
    assert path._count.content == "4 keyframes"
    path._remove()
    path._seconds.value = 1
    path._save(NO_OFFSET)
    found = read_path(saved)
    assert [camera.viewmat[2, 3].item() for camera in found.keyframes] == [5, 6, 8]
    assert (found.seconds, found.keyframes[0].width, found.closed) == (1, 80, False)

    (client,) = viewer._server.get_clients().values()
    passed: list[float] = []
    point = session.camera.point
    session.camera.point = lambda aim: (passed.append(aim.position[2]), point(aim))
    path._play()
    assert passed == sorted(passed, reverse=True)
    assert (passed[0], passed[-1]) == (pytest.approx(-5, abs=0.1), pytest.approx(-8))
    assert any(-6.5 < depth < -5.5 for depth in passed)
    assert client.camera.position.tolist() == pytest.approx([0, 0, -8])

    path._seconds.value = 60
    player = threading.Thread(target=path._play)
    player.start()
    wait(path._playing.locked)
    path._play()
    player.join(20)
    assert not player.is_alive(), "the second click stops it"
    player = threading.Thread(target=path._play)
    player.start()
    wait(path._playing.locked)
    page.socket.close()
    player.join(20)
    assert not player.is_alive(), "and so does the page when it goes"


def page_up(viewer: Viewer) -> np.ndarray:
    (client,) = viewer._server.get_clients().values()
    return client.camera.up_direction


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


def test_cameras_that_are_none_are_said_on_the_page_and_the_next_one_works(viewer: Viewer, drawn: Drawn) -> None:
    page = Page(viewer.url)
    finite, pixel = "must be finite and at most 1e+15, found others; reset the view", "and at least one pixel, found"
    for changes, message in (
        ({"position": [math.nan, 0, 0]}, finite),
        ({"fov": math.inf}, finite),
        ({"wxyz": [0, 0, 0, 0]}, "a camera must have a rotation of length 1"),
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
    drawn.error = RuntimeError("drawing \udcff.ply needs more memory than there is")  # its name is not UTF-8
    page = Page(viewer.url)
    page.look()
    page.wait_for("drawing \\udcff.ply needs more memory than there is")
    drawn.error = None
    page.look(fov=0.9)
    page.wait_for("80x60 of 80x60")


UPLOAD = {
    "source_component_uuid": "u",
    "transfer_uuid": "t",
    "filename": "f",
    "mime_type": "*",
    "part_count": 9,
    "size_bytes": 9,
}
CLICK = {
    "event_type": "click",
    "ray_origin": [0, 0, -5],
    "ray_direction": [0, 0, 1],
    "screen_pos": [[0.5, 0.25]],
    "modifier": None,
}
BOX: dict[str, object] = {
    **CLICK,
    "event_type": "rect-select",
    "ray_origin": None,
    "ray_direction": None,
    "screen_pos": [[0, 0], [1, 1]],
}
# What is no camera, no value of a control, no click and no box, though viser would take some of it.
STRANGE: list[object] = [
    {"type": "ShareUrlRequest"},
    {"type": "ShareUrlDisconnect"},
    {"type": "FileTransferStartUpload", **UPLOAD},
    {"type": "FileTransferPart", "source_component_uuid": "u", "transfer_uuid": "t", "part_index": 0, "content": b"x"},
    {"type": "GuiFormDirtyMessage", "uuid": "u"},
    {"type": "GuiUpdateMessage", "uuid": "u", "updates": {"update_cb": []}},
    {"type": "GuiUpdateMessage", "uuid": "u", "updates": {"value": True, "removed": True}},
    {"type": "GuiUpdateMessage", "uuid": "u", "updates": {"value": {"a": 1}}},
    {"type": "GuiUpdateMessage", "uuid": "u", "updates": {"value": [1, 2, 3, 4]}},
    {"type": "GuiUpdateMessage", "uuid": "u", "updates": {"value": [[1], [2]]}},
    {"type": "ScenePointerMessage", **CLICK, "event_type": "rect-select"},
    {"type": "ScenePointerMessage", **CLICK, "screen_pos": [[0.1, 0.1], [0.2, 0.2]]},
    {"type": "ScenePointerMessage", **CLICK, "screen_pos": []},
    {"type": "ScenePointerMessage", **CLICK, "ray_origin": None},
    {"type": "ScenePointerMessage", **CLICK, "modifier": "shift"},
    {"type": "ScenePointerMessage", **BOX, "screen_pos": [[0.1, 0.1]]},
    {"type": "ScenePointerMessage", **BOX, "modifier": "ctrl"},
    {"type": "ScenePointerMessage", **BOX, "ray_origin": [0, 0, 0]},
    {"type": "ScenePointerMessage", **CLICK, "more": 1},
    {"type": "ViewerCameraMessage"},
    {"type": "ViewerCameraMessage", **FRONT, "wxyz": []},
    {"type": "ViewerCameraMessage", **FRONT, "fov": "wide"},
    {"type": "ViewerCameraMessage", **FRONT, "image_width": 1.5},
    {"type": "ViewerCameraMessage", **FRONT, "more": 1},
    {"type": ["ViewerCameraMessage"]},
    {},
    [],
    None,
]


@pytest.mark.filterwarnings("error")
def test_a_page_that_sends_something_else_is_closed(
    viewer: Viewer, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    raw = [msgspec.msgpack.encode(message) for message in STRANGE]
    raw += [b"", b"\xc1", b"\x91" * 60000, b"\xdf\xff\xff\xff\xff", bytes(LONGEST + 1)]
    for sent in [*raw, "text"]:
        page = Page(viewer.url)
        page.socket.send(sent)
        page.reader.join(20)
        assert not page.reader.is_alive()
        assert page.socket.close_code == (1009 if len(sent) > LONGEST else 1008), sent[:80]
    server: Any = viewer._server
    assert server._share_tunnel is None
    assert server.gui._current_file_upload_states == {}
    wait(lambda: viewer.pages == 0)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_of_viser_s_messages_three_are_taken() -> None:
    from viser import _messages

    kinds = {kind.__name__ for kind in _messages.Message.get_subclasses()}
    camera = {**FRONT, **{"type": "ViewerCameraMessage"}}
    control = {"type": "GuiUpdateMessage", "uuid": "u", "updates": {"value": 1}}
    assert is_expected(msgspec.msgpack.encode(camera))
    for value in (True, 3, 0.5, "depth", [255, 0, 7], [-0.5, 2]):
        assert is_expected(msgspec.msgpack.encode({**control, "updates": {"value": value}}))
    click = {**CLICK, "type": "ScenePointerMessage"}
    for pointed in (click, {**click, **BOX}, {**click, **BOX, "modifier": "shift"}):
        assert is_expected(msgspec.msgpack.encode(pointed))
    assert len(kinds) > 100
    taken = {"ViewerCameraMessage", "GuiUpdateMessage", "ScenePointerMessage"}
    assert taken <= kinds
    for kind in kinds - taken:
        for message in (camera, control, click, {}):
            assert not is_expected(msgspec.msgpack.encode({**message, "type": kind})), kind


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("127.0.0.1:8080", True),
        ("127.0.0.1", True),
        ("127.8.9.10:8080", True),
        ("192.168.1.5:8080", True),
        ("[::1]:8080", True),
        ("[fe80::1]", True),
        ("localhost:9", True),  # through a tunnel
        ("LOCALHOST:8080", True),
        ("desk.example:8080", True),
        ("Desk.Example", True),
        ("evil.example:8080", False),
        ("evil.desk.example:8080", False),
        ("desk.example.:8080", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:8080", False),
        ("localhost.", False),
        ("2130706433:8080", False),
        ("127.1:8080", False),
        ("0x7f.0.0.1", False),
        ("127.0.0.1:8080:8080", False),
        ("127.0.0.1:evil", False),
        ("127.0.0.1, evil.example", False),
        ("user@127.0.0.1", False),
        ("127.0.0.1:8080/", False),
        ("127.0.0.1:8080\n", False),
        ("::1", False),
        ("[127.0.0.1]", False),
        ("[::1", False),
        ("[]", False),
        ("", False),
        ("\udce4", False),
    ],
)
def test_names_by_which_it_may_be_reached(asked: str, expected: bool) -> None:
    assert (name_refusal([asked], {"desk.example"}) is None) is expected
    assert name_refusal([], {"desk.example"}) is not None
    assert name_refusal([asked, asked], {"desk.example"}) is not None


@pytest.mark.parametrize(
    ("origin", "asked", "expected"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("http://localhost:9", "localhost:9", True),  # through a tunnel
        ("http://[::1]:8080", "[::1]:8080", True),
        ("https://desk.example", "desk.example", True),  # a proxy with a certificate
        ("http://Desk.example:8080", "desk.example:8080", True),
        ("http://evil.example", "127.0.0.1:8080", False),
        ("http://127.0.0.1:9999", "127.0.0.1:8080", False),  # another program's page
        ("http://127.0.0.1", "127.0.0.1:8080", False),
        ("http://localhost:8080", "127.0.0.1:8080", False),
        ("ws://127.0.0.1:8080", "127.0.0.1:8080", False),
        ("chrome-extension://127.0.0.1:8080", "127.0.0.1:8080", False),
        ("http://evil.example@127.0.0.1:8080", "127.0.0.1:8080", False),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080", False),
        ("http://127.0.0.1:8080, http://evil.example", "127.0.0.1:8080", False),
        ("null", "127.0.0.1:8080", False),
        ("", "127.0.0.1:8080", False),
        ("http://[::1", "127.0.0.1:8080", False),
    ],
)
def test_pages_of_other_sites_open_no_websocket(origin: str, asked: str, expected: bool) -> None:
    assert (origin_refusal([origin], asked) is None) is expected
    assert origin_refusal([origin, origin], asked) is not None
    assert origin_refusal([], asked) is None, "a program that is no browser"


def test_addresses_of_this_machine_alone() -> None:
    hosts = ("127.0.0.1", "127.3.2.1", "::1", "localhost", "0.0.0.0", "::", "192.168.1.5", "desk.example")
    assert [is_loopback(host) for host in hosts] == [True] * 4 + [False] * 4
    assert [is_host_name(text) for text in ("desk", "Desk.example", "a b", "desk:80", "[::1]", "", "ä", "*")] == [
        *[True] * 2,
        *[False] * 6,
    ]
    assert [query_refusal(target) is None for target in ("/", "/%3Fwebsocket=ws://x", "/?", "/?a", "?a", "//x/?a")] == [
        *[True] * 2,
        *[False] * 4,
    ]


def ask(viewer: Viewer, target: str = "/", *headers: str, host: str | None = None) -> tuple[int, dict[str, str], bytes]:
    """The answer to a request, until the connection ends."""
    port = viewer._server.get_port()
    lines = [f"GET {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}", *headers, "", ""]
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        connection.sendall("\r\n".join(lines).encode())
        answer = b""
        while part := connection.recv(1 << 20):
            answer += part
            if b" 101 " in answer[:20] and b"\r\n\r\n" in answer:
                break
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *said = head.decode().split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in said), body


OPENING = (
    *("Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {'A' * 22}==", "Sec-WebSocket-Version: 13"),
    f"Sec-WebSocket-Protocol: viser-v{viser.__version__}",
)


def test_every_answer_says_what_pages_may_do(viewer: Viewer) -> None:
    """The page, what is missing, refusals of every kind, what is no websocket, and a websocket."""
    found = []
    for target, headers, host in (
        ("/", (), None),
        ("/index.html", ("Accept-Encoding: gzip",), None),
        ("/missing", (), None),
        ("/?websocket=ws://evil.example", (), None),
        ("//evil.example/?", (), None),
        ("/", (), "evil.example"),
        ("/", ("Host: 127.0.0.1",), None),
        ("/", (*OPENING, "Origin: http://evil.example"), None),
        ("/", (*OPENING, f"Origin: {viewer.url}", "Origin: http://evil.example"), None),
        ("/", (*OPENING, "Origin: http://evil.example"), "evil.example"),
        ("/?", OPENING, None),
        ("/", OPENING[:1], None),
        ("/", (*OPENING, "Upgrade: h2c"), None),
        ("/", (*OPENING, f"Origin: {viewer.url}"), None),
    ):
        status, said, _ = ask(viewer, target, *headers, host=host)
        assert {name: said[name] for name in HEADERS} == HEADERS, target
        assert said.get("Location") == ("./" if status == 303 else None)
        found.append(status)
    assert found == [200, 200, 404, 303, 303, 403, 403, 403, 403, 403, 303, 426, 500, 101]
    policy = HEADERS["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "connect-src 'self' data:", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe-eval" not in HEADERS["Content-Security-Policy"].replace("wasm-unsafe-eval", "")
    assert viewer.pages == 0


def test_the_page_begins_with_a_script_of_ours(viewer: Viewer) -> None:
    """That a browser then has nothing to refuse is what every page of `browser.visit` shows."""
    _, said, plain = ask(viewer)
    assert plain.startswith(b"<!doctype html><script>")
    assert int(said["Content-Length"]) == len(plain)
    _, said, packed = ask(viewer, "/index.html", "Accept-Encoding: gzip")
    assert int(said["Content-Length"]) == len(packed)
    assert gzip.decompress(packed) == plain
    for answer in (ask(viewer, "/none"), ask(viewer, host="evil.example")):
        assert b"<script" not in answer[2]


def test_names_that_were_given_are_served(drawn: Drawn) -> None:
    with open_viewer("localhost", 0, options(drawn), BUILT_IN, ["Desk.example"]) as viewer:
        for host, status in (("desk.example:80", 200), ("localhost", 200), ("127.0.0.1", 200), ("evil.example", 403)):
            assert ask(viewer, host=host)[0] == status
            found = ask(viewer, "/", *OPENING, f"Origin: http://{host}", host=host)[0]
            assert found == (101 if status == 200 else 403)
    with open_viewer("0.0.0.0", 0, options(drawn), BUILT_IN) as viewer:
        assert ask(viewer, host="desk.example")[0] == 403
        assert ask(viewer)[0] == 200


def test_a_page_from_elsewhere_is_refused_when_it_opens_its_websocket(viewer: Viewer, drawn: Drawn) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}):
        with pytest.raises(websockets.InvalidStatus, match="403"):
            Page(viewer.url, **headers)
    own = Page(viewer.url, Origin=viewer.url)
    own.look(position=[0, 0, -6])
    assert drawn.full()[1].viewmat[2, 3] == 6
    assert viewer.pages == 1


def test_so_many_pages_and_no_more(viewer: Viewer, drawn: Drawn) -> None:
    """Those that say nothing count as well."""
    pages = [Page(viewer.url) for _ in range(MOST_PAGES)]
    for page in pages[1:]:
        page.look()
    wait(lambda: viewer.pages == MOST_PAGES - 1)
    with pytest.raises(websockets.InvalidStatus, match="503"):
        Page(viewer.url)
    status, _, text = ask(viewer)
    assert (status, text) == (
        503,
        b"splat view: 16 pages are already open, which is the limit; close one, then reload\n",
    )
    pages[0].socket.close()
    wait(lambda: ask(viewer)[0] == 200)
    Page(viewer.url).look()
    wait(lambda: viewer.pages == MOST_PAGES)
    assert len(painters()) == MOST_PAGES


def test_a_page_counts_until_its_last_picture_is_drawn(viewer: Viewer, drawn: Drawn) -> None:
    """Else one that comes and goes would have as many threads as it likes."""
    drawn.gate.clear()
    for _ in range(MOST_PAGES):
        page = Page(viewer.url)
        page.look()
        drawn.pictures.get(timeout=20)
        page.socket.close()
    wait(lambda: viewer.pages == 0)
    with pytest.raises(websockets.InvalidStatus, match="503"):
        Page(viewer.url)
    assert len(painters()) == MOST_PAGES
    drawn.gate.set()
    wait(lambda: ask(viewer)[0] == 200)


def test_so_many_connections_and_no_more(viewer: Viewer, drawn: Drawn, caplog: pytest.LogCaptureFixture) -> None:
    """Of which some send nothing, some half a request, some what is no request, and none is a page."""
    with knock(viewer, b"\xff\x00\r\n") as connection, contextlib.suppress(ConnectionError):
        assert connection.recv(1) == b""
    own = Page(viewer.url)
    own.look()
    drawn.full()
    (server,) = {connection.server for connection in viewer._server._websock_server._live_connections.values()}
    assert server.open_timeout == 10
    server.open_timeout = 600.0
    with contextlib.ExitStack() as stack:
        for i in range(3 * MOST_CONNECTIONS):
            said = (b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"\xff\x00\r\n")[i % 3]
            stack.enter_context(knock(viewer, said))
        wait(lambda: MOST_CONNECTIONS // 2 < len(server.handlers) <= MOST_CONNECTIONS)
        own.look(position=[0, 0, -7])
        assert drawn.full()[1].viewmat[2, 3] == 7
    wait(lambda: len(server.handlers) == 1)
    assert ask(viewer)[0] == 200
    assert caplog.records == [], "anybody can send such things"


def knock(viewer: Viewer, said: bytes) -> socket.socket:
    """A connection on which this was said."""
    connection = socket.create_connection(("127.0.0.1", viewer._server.get_port()), 20)
    with contextlib.suppress(ConnectionError):
        connection.sendall(said)
    return connection


def test_one_picture_is_saved_at_a_time_and_the_page_says_so(viewer: Viewer, drawn: Drawn) -> None:
    page = Page(viewer.url)
    page.look()
    page.wait_for("80x60 of 80x60")
    (client,) = viewer._server.get_clients().values()
    button = next(
        uuid
        for uuid, handle in client.gui._gui_input_handle_from_uuid.items()
        if handle._impl.props.label == "Save picture"
    )
    drawn.gate.clear()
    for _ in range(60):
        page.say("GuiUpdateMessage", uuid=button, updates={"value": True})
    page.wait_for(BUSY)
    page.look(position=[0, 0, -7])
    threading.Event().wait(0.3)
    assert len(painters()) == 1
    assert drawn.most == 1, "no two pictures of a page are drawn at once"
    drawn.gate.set()
    page.wait_for("FileTransferPart")
    while drawn.full()[1].viewmat[2, 3] != 7:
        pass
    assert sum(message.count(b"FileTransferStartDownload") for message in page.received) == 1
    assert sum(message.count(BUSY.encode()) for message in page.received) == 1
    for _ in range(2):  # and it is said whenever it fails
        page.received.clear()
        drawn.error = RuntimeError("drawing needs more memory than there is")
        page.say("GuiUpdateMessage", uuid=button, updates={"value": True})
        page.wait_for("drawing needs more memory than there is")


def test_a_viser_that_listens_in_another_way_is_refused(drawn: Drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than unguarded: it took the function before we could give it ours."""
    from viser.infra import _infra

    original = websockets.asyncio.server.serve
    ours = type("Websockets", (), {"__getattr__": lambda self, name: getattr(websockets, name)})()
    ours.asyncio = type("Asyncio", (), {"server": type("Server", (), {"serve": original})})
    monkeypatch.setattr(_infra, "websockets", ours)
    with (
        pytest.raises(ViewError, match=r"viser 1\.1 is required"),
        open_viewer("127.0.0.1", 0, options(drawn), BUILT_IN),
    ):
        pass
    assert websockets.asyncio.server.serve is original


def test_swapping_scenes_disturbs_no_picture_and_keeps_no_scene(drawn: Drawn) -> None:
    scenes: dict[Path | None, weakref.ref[Gaussians]] = {}
    wrong = {"is": False}

    def read(path: Path | None) -> Gaussians:
        if wrong["is"]:
            raise SceneError("other: a PLY file is required")
        scene = knot().select(torch.arange(14409) % (1 if path is None else 2) == 0)
        scenes[path] = weakref.ref(scene)
        return scene

    gc.disable()
    with contextlib.ExitStack() as stack:
        stack.callback(gc.enable)
        viewer = stack.enter_context(open_viewer("127.0.0.1", 0, options(drawn, read), BUILT_IN))
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
        (["--host", "desk..example", "--port", "0"], "found desk..example and 0 ("),
        (["--host", "\udcff", "--port", "0"], "an address of this machine and a port that you may use are required"),
        (["--open", "--port", "0"], "--open needs a browser, found none on this machine; leave it out"),
        (["--photographs", "none", "--port", "0"], "--photographs: a folder is required, found 'none'"),
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
        (["--allow-name", "desk:80"], "a name such as desk.example, without a port, is required, found 'desk:80'"),
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
        open_viewer("127.0.0.1", taken, options(drawn), BUILT_IN),
    ):
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_address("127.0.0.1", 0)


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..b", "x\0y"])
def test_a_host_that_no_machine_can_have_is_an_error(host: str) -> None:
    with pytest.raises(ViewError, match="an address of this machine and a port that you may use are required"):
        check_address(host, 0)


def test_a_page_of_a_large_scene_has_all_controls(drawn: Drawn) -> None:
    """viser refuses a least distance above the largest one, which is 10,000 at first."""
    large = replace(knot(), means=knot().means * 1e8)
    with open_viewer("127.0.0.1", 0, options(drawn, lambda _: large), BUILT_IN) as viewer:
        page = Page(viewer.url)
        page.look()
        page.wait_for("Save scene")
        assert drawn.pictures.get(timeout=20)
