"""What `splat view` is made of, without a server: resolutions, cameras, pictures, the render thread, the scenes."""

from __future__ import annotations

import gc
import itertools
import math
import queue
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from photographs import knot
from render_runs import render

from splat.scene.builtin import knot_scene
from splat.scene.camera import Camera, FirstView, orbit
from splat.scene.camera_list import TakenPicture
from splat.scene.formats import write_scene
from splat.scene.gaussians import SH_C0, Gaussians, SceneError
from splat.view.clicks import Click, is_double, point_seen
from splat.view.crop_controls import box_lines, slider_ends, unlimited
from splat.view.drawing import TILE, Look, depth_as_grey, draw
from splat.view.edited_scene import MOST_STEPS, EditedScene, tinted
from splat.view.frusta import MOST_SHOWN, clicked_frustum, frustum_corners, frustum_lines, shown_pictures
from splat.view.pose import MOST_PIXELS, Pose, aim_of, camera_of, part_of, resized
from splat.view.prominence import Prominence, prominences
from splat.view.render_thread import RenderThread
from splat.view.resolution import (
    AT_ONCE,
    FEWEST,
    FIRST,
    FULL,
    IN_TIME,
    LEAST,
    MOST,
    Cost,
    CostModel,
    Detail,
    moving_detail,
    resting_detail,
    scaled_size,
    updated_model,
)
from splat.view.scene_choices import BUILT_IN, SceneChoices, find_scenes

# Seconds for all Gaussians, and for all pixels of the page: from a GPU to a CPU that is too slow for the scene.
MACHINES = [Cost(0.001, 0.002), Cost(0.01, 0.05), Cost(0.02, 0.3), Cost(0.03, 3.0), Cost(0.25, 0.1), Cost(2.0, 1.0)]


def rested(model: CostModel | None, machine: Cost, detail: Detail) -> tuple[CostModel, list[Detail]]:
    """What is known, and what was drawn, when the camera has come to rest after a picture of this detail."""
    details = [detail]
    while True:
        model = updated_model(model, details[-1], machine.of(details[-1]))
        if details[-1] == FULL:
            return model, details
        assert len(details) < 6, "it comes to an end"
        details.append(resting_detail(details[-1], model.cost))


def moved(model: CostModel, machine: Cost, detail: Detail, pictures: int) -> list[Detail]:
    """The details of so many pictures of a drag, the first one included."""
    details = [detail]
    for _ in range(pictures):
        model = updated_model(model, details[-1], machine.of(details[-1]))
        details.append(moving_detail(model.cost, details[-1]))
    return details


def is_least(detail: Detail) -> bool:
    return detail.scale == LEAST or detail.share == FEWEST


@pytest.mark.parametrize("rests", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_drawn_follows_the_machine(machine: Cost, rests: bool) -> None:
    model = updated_model(None, FIRST, machine.of(FIRST))
    if rests:
        model, _ = rested(None, machine, FIRST)
    details = moved(model, machine, moving_detail(model.cost, FIRST), 12)

    seconds = [machine.of(detail) for detail in details]
    assert seconds[-1] <= 0.05 or is_least(details[-1])
    assert details[-1] == FULL or is_least(details[-1]) or seconds[-1] > 0.6 * IN_TIME, "no coarser than it must be"
    assert details[-3:] == [details[-1]] * 3, "it does not flicker"
    assert all(after <= max(before, 2 * IN_TIME) for before, after in itertools.pairwise(seconds)), "growing is safe"


@pytest.mark.parametrize("machine", MACHINES)
def test_fewer_gaussians_are_drawn_where_they_take_the_time(machine: Cost) -> None:
    model, _ = rested(None, machine, FIRST)
    scale, share = moving_detail(model.cost, FIRST)
    assert (share == 1) == (machine.gaussians <= IN_TIME / 2)
    assert share == 1 or share <= MOST
    if share not in (1, MOST, FEWEST) and machine.gaussians > machine.pixels / 10:
        assert machine.gaussians * share == pytest.approx(IN_TIME / 2, rel=0.25), "they have half of the time"
    assert (scale == 1) == (machine.pixels < IN_TIME / 2)


@pytest.mark.parametrize("machine", MACHINES)
def test_pictures_tell_the_gaussians_time_from_the_pixels(machine: Cost) -> None:
    model: CostModel | None = None
    for detail in (FIRST, Detail(0.4, 0.1), Detail(0.5), FULL, Detail(0.4, 0.1), FULL):
        model = updated_model(model, detail, machine.of(detail))
    assert model is not None
    small = 0.03 * sum(machine)  # a part that is hardly noticed cannot be told, and does not matter
    assert tuple(model.cost) == pytest.approx(tuple(machine), rel=0.2, abs=small)


def test_a_drag_alone_tells_that_the_machine_has_become_slower() -> None:
    model, _ = rested(None, Cost(0.2, 0.1), FIRST)
    detail = Detail(0.5, 0.1)
    for _ in range(30):
        model = updated_model(model, detail, Cost(0.6, 0.3).of(detail))  # something else keeps it busy now
    assert model.cost.of(detail) == pytest.approx(Cost(0.6, 0.3).of(detail), rel=0.05)


def test_another_scene_is_learned_anew() -> None:
    model, _ = rested(None, Cost(0.001, 0.01), FIRST)
    model = updated_model(model, FULL, 0.8)
    assert model.cost == (0.4, 0.4)
    assert model.drawn == ((FULL, 0.8),)
    assert updated_model(model, FULL, 0.0).cost.of(FULL) > 0, "nothing is divided by 0"


def test_times_that_vary_a_little_change_nothing() -> None:
    model, _ = rested(None, Cost(0.25, 0.1), FIRST)
    detail = moved(model, Cost(0.25, 0.1), moving_detail(model.cost, FIRST), 5)[-1]
    for factor in itertools.islice(itertools.cycle([0.8, 1.2, 1.0, 1.25, 0.75]), 30):
        model = updated_model(model, detail, factor * Cost(0.25, 0.1).of(detail))
        assert moving_detail(model.cost, detail) == detail


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("detail", [Detail(LEAST), Detail(0.4, FEWEST), Detail(0.99, MOST), Detail(1.0, 0.2)])
def test_at_rest_everything_is_drawn_in_steps(machine: Cost, detail: Detail) -> None:
    model, _ = rested(None, machine, FIRST)
    _, details = rested(model, machine, detail)
    assert details[-1] == FULL
    assert all(step.share == 1 for step in details[1:])
    if machine.of(FULL) < 0.8 * AT_ONCE or machine.gaussians > machine.pixels:
        assert len(details) == 2, "steps would take as long"
    for before, after in itertools.pairwise(details):
        assert after.scale <= 2 * before.scale or after == FULL


def test_a_picture_has_at_least_one_pixel() -> None:
    assert scaled_size(3, 1000, LEAST) == (1, 125)
    assert scaled_size(640, 480, 1.0) == (640, 480)


def pose_of(camera: Camera) -> Pose:
    """What a page says whose camera this is."""
    turn = camera.viewmat[:3, :3].double().T
    w = math.sqrt(max(0.0, 1 + float(turn.trace()))) / 2
    assert w > 0.05, "choose another camera: this inverse is the simple one"
    xyz = torch.stack([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / (4 * w)
    position = -turn @ camera.viewmat[:3, 3].double()
    fov = 2 * math.atan(camera.height / (2 * float(camera.K[1, 1])))
    return Pose((w, *xyz.tolist()), tuple(position.tolist()), fov, camera.width, camera.height)


@pytest.mark.parametrize(("azimuth", "up", "size"), [(30, "-y", (90, 60)), (140, "-y", (60, 90)), (80, "-z", (50, 50))])
def test_a_page_s_camera_is_the_rasterizer_s(azimuth: float, up: str, size: tuple[int, int]) -> None:
    camera = orbit(knot(), *size, azimuth=azimuth, elevation=12, fov=47, up=up)

    found = camera_of(pose_of(camera), camera.near)

    torch.testing.assert_close(found.viewmat, camera.viewmat, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.K, camera.K, atol=1e-3, rtol=0)
    assert (found.width, found.height, found.near) == (*size, camera.near)


def test_a_page_is_pointed_at_the_middle_of_the_scene() -> None:
    scene = knot()
    camera = orbit(scene, 80, 60, azimuth=70, elevation=35, fov=40)
    lower, upper = scene.bounds()
    middle = (lower + upper) / 2

    aim = aim_of(camera, (0.0, 1.0, 0.0), tuple(middle.tolist()))

    assert aim.look_at == pytest.approx(middle.tolist(), abs=1e-4)
    assert math.degrees(aim.fov) == pytest.approx(40, abs=1e-3)
    assert aim.position == pytest.approx((-camera.viewmat[:3, :3].T @ camera.viewmat[:3, 3]).tolist(), abs=1e-4)
    behind = aim_of(camera, (0.0, 1.0, 0.0), aim.position)
    assert math.dist(behind.look_at, behind.position) == pytest.approx(camera.near, rel=1e-2)


def test_without_an_upright_direction_a_rolled_camera_stays_so() -> None:
    camera = orbit(knot(), 80, 60, azimuth=70, elevation=35)
    roll = torch.eye(4)
    roll[:2, :2] = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    viewmat = roll @ camera.viewmat

    aim = aim_of(replace(camera, viewmat=viewmat), None, (0.0, 0.0, 0.0))

    assert aim.up == pytest.approx((-viewmat[1, :3]).tolist(), abs=1e-6)


@pytest.mark.parametrize(("width", "height"), [(160, 60), (30, 300)])
@pytest.mark.parametrize("shape", [(80, 60), (60, 80)])
def test_a_page_of_any_shape_shows_all_that_the_camera_does(shape: tuple[int, int], width: int, height: int) -> None:
    camera = orbit(knot(), *shape, azimuth=70, elevation=35)
    pose = FRONT._replace(width=width, height=height)
    aim = aim_of(camera, None, (0.0, 0.0, 0.0), pose)
    seen = camera_of(pose._replace(fov=aim.fov), 0.1)
    across, down = ((side / 2 / seen.K[at, at]).item() for at, side in enumerate((width, height)))
    taken = [(side / 2 / camera.K[at, at]).item() for at, side in enumerate(shape)]
    assert across >= taken[0] - 1e-4
    assert down >= taken[1] - 1e-4
    assert min(across / taken[0], down / taken[1]) == pytest.approx(1, abs=1e-4)
    for bad in (0, -5, 10**30):
        assert aim_of(camera, None, (0.0, 0.0, 0.0), pose._replace(width=bad)) == aim_of(camera, None, (0.0, 0.0, 0.0))


def test_a_smaller_picture_shows_the_same() -> None:
    camera = orbit(knot(), 91, 60)
    small = resized(camera, 0.5)
    assert (small.width, small.height) == (46, 30)
    assert small.K[0].tolist() == pytest.approx((camera.K[0] * 46 / 91).tolist())
    assert small.K[1].tolist() == pytest.approx((camera.K[1] / 2).tolist())


FRONT = Pose((1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1.0, 80, 60)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rotation": (math.nan, 0, 0, 0)}, "the numbers of a camera must be finite"),
        ({"position": (0, math.inf, 0)}, "the numbers of a camera must be finite"),
        ({"position": (0, 1e200, 0)}, r"at most 1e\+15"),
        ({"position": ("0", 0, 0)}, "the numbers of a camera must be finite"),
        ({"fov": None}, "the numbers of a camera must be finite"),
        ({"position": (0, 0)}, "a camera must have a rotation of length 1 and a position"),
        ({"rotation": (0, 0, 0, 0)}, "a camera must have a rotation of length 1 and a position"),
        ({"fov": 4.0}, "between 0 and 180 degrees and at least one pixel, found 229.183 degrees"),
        ({"width": 0}, "found 57.2958 degrees, 0x60; reset the view"),
        ({"height": -5}, "found 57.2958 degrees, 80x-5"),
    ],
)
def test_cameras_that_are_none(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SceneError, match=message):
        camera_of(FRONT._replace(**changes), 0.01)  # type: ignore[arg-type]


@pytest.mark.parametrize(("width", "height"), [(7680, 4320), (10**9, 10**9), (10**15, 1), (3, 10**12)])
def test_no_page_asks_for_too_many_pixels(width: int, height: int) -> None:
    camera = camera_of(FRONT._replace(width=width, height=height), 0.01)
    assert camera.width * camera.height <= 1.1 * MOST_PIXELS


def look(scene: Gaussians, mode: str) -> Look:
    return Look(scene, mode, scene.degree, (1.0, 0.0, 0.5), 0.01)


def test_colours_are_those_of_render(tmp_path: Path) -> None:
    scene = knot()
    camera = orbit(scene, 100, 70, azimuth=30, elevation=15, fov=40, distance=0.9)
    place = ["--azimuth", "30", "--elevation", "15", "--size", "100x70", "--background", "255,0,127.5"]
    assert np.array_equal(draw(look(scene, "colour"), camera), render(tmp_path / "a.png", *place))


def test_modes_show_what_they_say() -> None:
    scene = knot()
    camera = orbit(scene, 100, 70, azimuth=30, elevation=40)
    pictures = {mode: draw(look(scene, mode), camera).astype(int) for mode in ("depth", "alpha", "count")}
    assert all((picture == picture[..., :1]).all() for picture in pictures.values()), "grey"
    alpha, depth, count = (pictures[mode][..., 0] for mode in ("alpha", "depth", "count"))

    assert alpha[0, 0] == 0
    assert alpha.max() >= 250
    assert ((depth > 0) == (alpha >= 128)).mean() > 0.99, "black where less than half is covered"
    assert count.max() == 255
    tiles = count[: 70 // TILE * TILE, : 100 // TILE * TILE].reshape(70 // TILE, TILE, 100 // TILE, TILE)
    assert (tiles == tiles[:, :1, :, :1]).all(), "one number for each tile"
    assert count[0, 0] < count[35, 50]


def test_what_is_near_is_bright_in_the_mode_depth() -> None:
    means = torch.tensor([[-1.0, 0, 2], [1.5, 0, 3], [0, 2.0, 4]])
    scene = Gaussians(means, torch.eye(4)[:1].expand(3, 4), torch.full((3, 3), 0.3), torch.ones(3), torch.ones(3, 1, 3))
    camera = Camera(torch.eye(4), torch.tensor([[30.0, 0, 30], [0, 30, 30], [0, 0, 1]]), 60, 60, 0.01)
    depth = draw(look(scene, "depth"), camera)[..., 0]
    assert [depth[30, 15], depth[30, 45], depth[45, 30], depth[5, 5]] == [255, 140, 26, 0]


def test_a_scene_of_nothing_is_black_in_every_mode() -> None:
    scene = knot()
    camera = orbit(scene, 40, 30)
    behind = Camera(camera.viewmat * torch.tensor([[1.0], [1], [-1], [1]]), camera.K, 40, 30, 0.01)
    for mode in ("depth", "alpha", "count"):
        assert draw(look(scene, mode), behind).max() == 0, mode


def test_one_far_pixel_does_not_darken_the_depth() -> None:
    depth, alpha = torch.linspace(1, 2, 400).reshape(20, 20), torch.ones(20, 20)
    depth[0, 0], alpha[5, 5] = 1e6, 0.4
    grey = depth_as_grey(depth, alpha)
    assert grey[0, 1] > 0.95
    assert grey[19, 19] == pytest.approx(0.1, abs=0.02)
    assert grey[5, 5] == 0


def test_the_point_that_is_clicked_is_at_the_expected_depth() -> None:
    """A wall of Gaussians across the left half, slanted, before a camera that is turned and off centre."""
    across, down = torch.meshgrid(torch.linspace(-3, 0, 60), torch.linspace(-2, 2, 60), indexing="ij")
    means = torch.stack([across.flatten(), down.flatten(), 5 + across.flatten() / 2], dim=1)
    count = len(means)
    scene = Gaussians(
        means,
        torch.eye(4)[:1].expand(count, 4),
        torch.full((count, 3), 0.05),
        torch.ones(count),
        torch.ones(count, 1, 3),
    )
    camera = camera_of(FRONT._replace(rotation=(1.0, 0.05, -0.1, 0.2), position=(0.1, -0.2, 0.3)), 0.01)
    for place in ((-2.0, 0.5, 4.0), (-1.0, -1.0, 4.5), (-0.5, 0.7, 4.75)):
        x, y, depth = (camera.K @ (camera.viewmat[:3, :3] @ torch.tensor(place) + camera.viewmat[:3, 3])).tolist()
        x, y = int(x / depth), int(y / depth)
        click = Click((x + 0.5) / camera.width, (y + 0.5) / camera.height)
        point = point_seen(look(scene, "colour"), camera, click)
        assert point is not None
        assert point[2] == pytest.approx(5 + point[0] / 2, abs=0.06), "on the wall"
        seen = camera.K @ (camera.viewmat[:3, :3] @ torch.tensor(point) + camera.viewmat[:3, 3])
        assert (seen[:2] / seen[2]).tolist() == pytest.approx([x + 0.5, y + 0.5], abs=1e-2), "under the pixel"
    for across_page, down_page in ((0.95, 0.5), (-0.1, 0.5), (0.3, 1.5), (math.nan, 0.5), (0.5, math.inf)):
        assert point_seen(look(scene, "colour"), camera, Click(across_page, down_page)) is None


@pytest.mark.parametrize(
    ("second", "expected"),
    [((0.51, 0.49, 1.4), True), ((0.5, 0.5, 1.6), False), ((0.53, 0.5, 1.1), False), ((0.5, 0.45, 1.1), False)],
)
def test_two_clicks_are_a_double_click_if_they_are_close(second: tuple[float, float, float], expected: bool) -> None:
    assert is_double(Click(0.5, 0.5, 1.0), Click(*second)) is expected
    assert not is_double(None, Click(*second))


def test_frusta_are_where_the_cameras_are() -> None:
    cameras = [orbit(knot(), 80, 60, azimuth=azimuth) for azimuth in (0, 130, 260)]
    corners = frustum_corners(cameras, (0.0, 0.0, 0.0))
    for camera, (centre, *ends) in zip(cameras, corners, strict=True):
        turn, shift = camera.viewmat[:3, :3].double(), camera.viewmat[:3, 3].double()
        assert (turn @ centre + shift).norm() < 1e-5
        pixels = [camera.K.double() @ (turn @ end + shift) for end in ends]
        found = [(pixel[:2] / pixel[2]).round().tolist() for pixel in pixels]
        assert found == [[0, 0], [80, 0], [80, 60], [0, 60]]
    lines = frustum_lines(corners)
    assert lines.shape == (8 * len(cameras), 2, 3)
    assert np.allclose(lines[0, 0], corners[0, 0])

    alone = frustum_corners(cameras[:1], (0.0, 0.0, 0.0))[0]
    assert 0 < (alone[1] - alone[0]).norm() < 0.2 * alone[0].norm()


def test_the_frustum_under_a_click_is_found() -> None:
    cameras = [orbit(knot(), 80, 60, azimuth=azimuth) for azimuth in (0, 20, 180)]
    corners = frustum_corners(cameras, (0.0, 0.0, 0.0))
    viewer = orbit(knot(), 400, 300, azimuth=10, elevation=30, distance=4)
    for index in range(3):
        place = viewer.K @ (viewer.viewmat[:3, :3] @ corners[index].mean(dim=0).float() + viewer.viewmat[:3, 3])
        across, down = float(place[0] / place[2] / 400), float(place[1] / place[2] / 300)
        assert clicked_frustum(corners, viewer, across, down) == index
    assert clicked_frustum(corners, viewer, 0.02, 0.02) is None
    assert clicked_frustum(corners, viewer, math.nan, 0.5) is None
    assert clicked_frustum(corners, cameras[0], 0.5, 0.5) != 0, "the one that looks is not seen"
    inside = cameras[0].viewmat.clone()
    inside[2, 3] -= float((corners[0, 1:].mean(dim=0) - corners[0, 0]).norm()) / 2
    for across in (0.3, 0.5, 0.7):
        assert clicked_frustum(corners[:1], replace(cameras[0], viewmat=inside), across, 0.4) is None, "half behind"


@pytest.mark.parametrize("count", [0, MOST_SHOWN, 20_000])
def test_of_many_cameras_some_are_shown(count: int) -> None:
    camera = orbit(knot(), 8, 6)
    shown = shown_pictures([TakenPicture(str(index), camera) for index in range(count)])
    names = [int(picture.name) for picture in shown]
    assert len(names) == len(set(names)) == min(count, MOST_SHOWN)
    assert names == sorted(names)
    assert not names or (names[0], names[-1]) == (0, count - 1)


def test_boxes_have_twelve_edges_and_no_limit_at_the_ends() -> None:
    lower, upper = (-1.0, -2.0, -3.0), (1.0, 2.0, 3.0)
    lines = box_lines(lower, upper)
    assert lines.shape == (12, 2, 3)
    assert sorted(np.abs(lines[:, 1] - lines[:, 0]).sum(axis=1).tolist()) == [2] * 4 + [4] * 4 + [6] * 4
    assert unlimited((-1.0, -1.9, -3.5), (0.5, 2.0, 2.9), lower, upper) == (
        (-math.inf, -1.9, -math.inf),
        (0.5, math.inf, 2.9),
    )
    scene = knot()
    low, high = (torch.tensor(corner) for corner in slider_ends(scene))
    least, most = scene.bounds()
    assert ((low < least) & (high > most)).all()
    one = scene.select(torch.arange(len(scene)) == 7)
    assert all(a < b for a, b in zip(*slider_ends(one), strict=True)), "a point has a box, too"
    far = replace(one, means=one.means + 3e13)
    assert all(a < b for a, b in zip(*slider_ends(far), strict=True)), "and one that is far away"


def test_a_part_of_a_picture_is_that_part() -> None:
    scene = knot()
    camera = orbit(scene, 80, 60)
    whole, part = draw(look(scene, "colour"), camera), part_of(camera, (0.75, 0.2), (0.25, 0.5))
    assert np.abs(draw(look(scene, "colour"), part).astype(int) - whole[12:30, 20:60]).max() <= 1
    assert part_of(camera, (2, -1), (-3, 5)).K.equal(camera.K)
    point = part_of(camera, (1, 1), (1, 1))
    assert (point.width, point.height) == (1, 1)
    for bad in (math.nan, math.inf):
        with pytest.raises(SceneError, match="two corners of a box in the picture are required, found others"):
            part_of(camera, (0, bad), (1, 1))


def test_a_scene_is_edited_step_by_step_and_back() -> None:
    scene = knot()
    camera = orbit(scene, 80, 60)
    left, right = part_of(camera, (0, 0), (0.4, 1)), part_of(camera, (0.2, 0), (1, 1))
    in_left, in_right = (part.sees(scene.means.double())[1] for part in (left, right))
    assert (in_left & in_right).any()
    edited = EditedScene.of(scene)
    assert edited.left() is edited.drawn() is scene
    chosen = edited.select(left, adds=True).select(right, adds=False)
    assert chosen.choice.selected.equal(in_left & ~in_right)
    assert chosen.left() is scene
    deleted = chosen.delete()
    kept = ~in_left | in_right
    assert deleted.drawn().means.equal(scene.means[kept])
    assert not deleted.select(left, adds=True).choice.selected[~kept].any(), "what is deleted is not selected again"
    assert deleted.unselect().undo().undo().choice is chosen.choice
    assert deleted.restore().left() is scene
    assert deleted.restore().undo().left().means.equal(scene.means[kept])
    assert edited.undo() is edited

    lower = (-math.inf, 0.0, -math.inf)
    boxed = deleted.within((lower, (math.inf,) * 3))
    inside = scene.means[:, 1] >= 0
    assert boxed.left().means.equal(scene.means[kept & inside])
    assert not boxed.select(right, adds=True).choice.selected[~inside].any(), "what is not drawn is not selected"
    assert boxed.undo().within(None).left() is scene

    for _ in range(MOST_STEPS + 5):
        edited = edited.unselect()
    assert len(edited.before) == MOST_STEPS


def test_what_is_selected_has_another_colour_and_nothing_else() -> None:
    scene = knot()
    selected = torch.arange(len(scene)) % 3 == 0
    drawn = tinted(scene, selected)
    assert all(a is b for a, b in zip(drawn.tensors[:4], scene.tensors[:4], strict=True))
    assert drawn.sh[~selected].equal(scene.sh[~selected])
    color = 0.5 + SH_C0 * drawn.sh[selected][:, 0]
    assert torch.allclose(
        color, 0.3 * (0.5 + SH_C0 * scene.sh[selected][:, 0]) + 0.7 * torch.tensor([1, 0.8, 0]), atol=1e-6
    )


def strewn(**changes: object) -> Gaussians:
    """Four Gaussians that differ in what is given, 1 away from the middle."""
    places = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]])
    values = {"means": places, "quats": torch.eye(4), "scales": torch.ones(4, 3), "opacities": torch.ones(4)}
    return Gaussians(**{**values, "sh": torch.zeros(4, 1, 3), **changes})  # type: ignore[arg-type]


MIDDLE = (0.0, 0.0, 0.0)


def test_what_is_opaque_large_or_near_the_middle_is_prominent() -> None:
    opaque = prominences(strewn(opacities=torch.tensor([0.1, 0.2, 0, 1])), MIDDLE)
    assert (opaque / opaque[3]).tolist() == pytest.approx([0.1, 0.2, 0, 1])
    sizes = torch.tensor([[1.0, 2, 3], [3, 1, 2], [2, 3, 0], [0, 0, 6]])
    large = prominences(strewn(scales=sizes), MIDDLE)
    assert (large / large[0]).tolist() == pytest.approx([1, 1, 1, 0]), "by the area of the two largest scales"
    away = torch.tensor([1.0, 1, 1, 10])
    near = prominences(strewn(means=strewn().means * away[:, None]), MIDDLE)
    assert (near / near[0]).tolist() == pytest.approx([1, 1, 1, 2 / 101]), "what is far away looks small"
    infinite = prominences(strewn(opacities=torch.tensor([math.nan, math.inf, -math.inf, 1])), MIDDLE)
    assert infinite.nonzero().tolist() == [[3]]
    assert not prominences(strewn(means=torch.zeros(4, 3)), MIDDLE).isinf().any()


def test_a_share_of_a_scene_is_its_most_prominent_part() -> None:
    scene = strewn(opacities=torch.tensor([0.3, 0.9, 0.9, 0.1]))
    prominence = Prominence(scene, MIDDLE)
    assert prominence.first(1) is scene, "in its own order: what is drawn at rest is what render draws"
    assert prominence.first(0.01).means.tolist() == scene.means[[1]].tolist(), "one at least"
    three = prominence.first(0.75)
    assert three.means.tolist() == scene.means[[1, 2, 0]].tolist()
    assert three.opacities.tolist() == scene.opacities[[1, 2, 0]].tolist()
    again = prominence.first(0.5)
    assert again.means.tolist() == scene.means[[1, 2]].tolist()
    assert again.sh.data_ptr() == three.sh.data_ptr(), "no second copy"


class Painted:
    """A render thread whose pictures the test lets through one by one, and which take what it says."""

    def __init__(self, cost: Cost = MACHINES[1]) -> None:
        self.pictures: queue.Queue[tuple[object, Detail]] = queue.Queue()
        self.errors: queue.Queue[Exception] = queue.Queue()
        self.go = threading.Semaphore(0)
        self.cost = cost
        self.thread: RenderThread[object] = RenderThread("painted", self.paint, self.errors.put)

    def paint(self, request: object, detail: Detail) -> float:
        self.pictures.put((request, detail))
        assert self.go.acquire(timeout=20)
        if request == "bad":
            raise RuntimeError("no picture")
        return self.cost.of(detail)

    def next(self) -> tuple[object, Detail]:
        return self.pictures.get(timeout=20)


def test_only_the_newest_request_is_drawn() -> None:
    painted = Painted()
    painted.thread.ask(0)
    assert painted.next() == (0, FIRST)
    for i in range(1, 100):
        painted.thread.ask(i)
    painted.go.release(50)
    assert painted.next()[0] == 99
    painted.thread.close()


def test_at_rest_it_gets_finer_to_the_end_and_then_nothing_is_drawn() -> None:
    painted = Painted()
    painted.go.release(100)
    painted.thread.ask("view")
    details = [painted.next()[1]]
    while details[-1] != FULL:
        details.append(painted.next()[1])
    assert details == sorted(details)
    assert details[0] == FIRST
    with pytest.raises(queue.Empty):
        painted.pictures.get(timeout=0.3)
    painted.thread.close()


def test_in_motion_it_draws_fewer_gaussians_and_all_of_them_at_rest() -> None:
    painted = Painted(Cost(0.25, 0.1))
    painted.thread.ask("view")
    while painted.next()[1] != FULL:
        painted.go.release()
    painted.thread.ask("moved")  # while the one before is drawn
    painted.go.release()
    moving = painted.next()
    assert moving[0] == "moved"
    assert FEWEST < moving[1].share < 0.2
    for _ in range(9):
        painted.thread.ask("again")
        painted.go.release()
        assert painted.next()[1].share == moving[1].share, "it does not flicker"
    painted.go.release(2)
    assert painted.next() == ("again", FULL), "at rest"
    painted.thread.close()
    assert painted.thread.ended(20)


def test_a_picture_that_fails_is_reported_and_the_next_is_drawn() -> None:
    painted = Painted()
    painted.go.release(100)
    painted.thread.ask("bad")
    assert str(painted.errors.get(timeout=20)) == "no picture"
    assert painted.next()[0] == "bad"
    painted.thread.ask("good")
    assert painted.next()[0] == "good"
    painted.thread.close()


def test_an_errand_is_done_between_two_pictures_and_no_other_one_until_then() -> None:
    painted = Painted()
    errand = partial(painted.paint, detail=FULL)
    done: queue.Queue[str] = queue.Queue()
    painted.thread.ask("first")
    assert painted.next()[0] == "first"
    assert painted.thread.send(lambda: errand("errand"))
    assert not any(painted.thread.send(lambda: done.put("never")) for _ in range(60))
    painted.thread.ask("second")
    painted.go.release()
    assert painted.next() == ("errand", FULL), "before the next picture, and not beside one"
    assert not painted.thread.send(lambda: done.put("never")), "it is being done"
    painted.go.release(100)
    assert painted.next()[0] == "second"
    assert painted.thread.send(lambda: errand("bad"))
    assert str(painted.errors.get(timeout=20)) == "no picture"
    while not painted.thread.send(lambda: done.put("last")):
        pass
    assert done.get(timeout=20) == "last"
    painted.thread.close()
    assert painted.thread.ended(20)
    assert not painted.thread.send(lambda: done.put("never"))
    assert done.empty()


class Request:
    """Something that can be watched."""


def test_a_closed_painter_ends_and_keeps_nothing() -> None:
    painted = Painted()
    request = Request()
    gone = weakref.ref(request)
    painted.thread.ask(request)
    painted.next()
    assert painted.thread.send(partial(painted.paint, request, FULL))
    painted.thread.close()
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "painted")
    painted.go.release(9)
    thread.join(timeout=20)
    assert not thread.is_alive()
    assert painted.pictures.empty(), "what was being drawn was the last"
    del request
    gc.collect()
    assert gone() is None


def place(scene: Gaussians, path: Path | None) -> tuple[FirstView, Sequence[TakenPicture]]:
    return FirstView(orbit(scene, 80, 60), None), ()


def test_scenes_are_read_once_and_kept_as_long_as_somebody_looks() -> None:
    read = []

    def knot(path: Path | None) -> Gaussians:
        read.append(path)
        return knot_scene()

    choices = SceneChoices({BUILT_IN: None, "b.ply": Path("b.ply")}, knot, place)
    assert choices.names == [BUILT_IN, "b.ply"]
    first = choices.get("b.ply")
    assert choices.get("b.ply") is first
    assert read == [Path("b.ply")]
    del first
    gc.collect()
    choices.get("b.ply")
    assert len(read) == 2
    with pytest.raises(SceneError, match="the name of one of the scenes on offer is required"):
        choices.get("/etc/passwd")


def test_scenes_of_files_and_folders(tmp_path: Path) -> None:
    for name in ("a/one.ply", "a/two.spz", "a/notes.txt", "b/one.ply"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()

    assert find_scenes([]) == {BUILT_IN: None}
    assert list(find_scenes([tmp_path / "a"])) == ["one.ply", "two.spz"]
    both = find_scenes([tmp_path / "b" / "one.ply", tmp_path / "a"])
    assert list(both) == [str(tmp_path / "b" / "one.ply"), str(tmp_path / "a" / "one.ply"), "two.spz"]
    with pytest.raises(FileNotFoundError):
        find_scenes([tmp_path / "none.ply"])
    (tmp_path / "odd\u202e.ply").touch()  # as are names that are not UTF-8, which no page could be told of
    assert list(find_scenes([tmp_path / "odd\u202e.ply"])) == ["odd\\u202e.ply"]
    with pytest.raises(SceneError, match=r"a folder with 1 to 1000 scenes \(.*\) is required, found 0"):
        find_scenes([tmp_path / "empty"])


def test_a_scene_is_shown_as_it_was_read(tmp_path: Path) -> None:
    write_scene(tmp_path / "knot.ply", knot())
    from splat.scene.formats import read_scene

    loaded = SceneChoices(find_scenes([tmp_path]), lambda path: read_scene(path or ""), place).get("knot.ply")
    assert loaded.middle == knot().middle()
    assert len(loaded.scene) == len(knot())
