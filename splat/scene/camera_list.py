"""The cameras that a scene was fitted to, beside it: cameras.json as 3DGS's own training writes it.

A list of objects with `img_name`, `width`, `height`, `fx`, `fy`, `position` (where the camera is) and `rotation` (3
rows of 3, from the camera's axes to the world's; x right, y down, z forward), which other programs read. `cx`, `cy` and
`near` are ours, and may be missing: 3DGS has the principal point in the middle, and the near plane follows from the
scene's size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

from .camera import Camera
from .camera_file import MAX_SIDE, SMALLEST, checked_near, chosen_near, moved
from .coordinates import NO_OFFSET, Offset
from .file_input import named_errors
from .file_output import check_writable, replacing
from .gaussians import Gaussians, SceneError
from .json_input import JsonLimits, read_json

MOST_CAMERAS: Final = 20_000
"""Cameras of a list."""
LIMITS: Final = JsonLimits(2**24, nests=8 * MOST_CAMERAS, values=60 * MOST_CAMERAS)
"""What a file of cameras may have."""
_LONGEST_NAME: Final = 1000
_LARGEST: Final = 1e9
_TOLERANCE: Final = 1e-3
_STEM: Final = re.compile(r"(\.compressed)?\.[^.]+$", re.IGNORECASE)


def cameras_path(scene: Path) -> Path:
    """Where the cameras of a scene are written: SCENE.cameras.json for SCENE.ply."""
    return scene.with_name(f"{_STEM.sub('', scene.name)}.cameras.json")


def find_cameras(scene: Path) -> Path | None:
    """The file of the cameras of a scene, if there is one: beside it, or two folders above, where 3DGS writes it."""
    places = [cameras_path(scene), scene.with_name("cameras.json")]
    if scene.parent.name.startswith("iteration_"):
        places.append(scene.parent.parent.parent / "cameras.json")
    return next((place for place in places if place.is_file()), None)


def check_cameras(path: str | Path) -> Path:
    """Raise ValueError or OSError if `write_cameras` could not write a file of this name."""
    return check_writable(path, ".json", "cameras")


def write_cameras(path: Path, cameras: Sequence[Camera], names: Sequence[str], offset: Offset = NO_OFFSET) -> None:
    """Write the cameras of a scene with this offset, with the names of their pictures, complete or not at all."""
    values = []
    for number, (camera, name) in enumerate(zip(cameras, names, strict=True)):
        position, turn = camera.pose(offset)
        (fx, _, cx), (_, fy, cy), _ = camera.K.tolist()
        values.append(
            {
                "id": number, "img_name": name, "width": camera.width, "height": camera.height,
                "position": position.tolist(), "rotation": turn.tolist(),
                "fx": fx, "fy": fy, "cx": cx, "cy": cy, "near": camera.near,
            }
        )  # fmt: skip
    with replacing(path) as file:
        file.write(("[\n" + ",\n".join(map(json.dumps, values)) + "\n]\n").encode())


class TakenPicture(NamedTuple):
    """A picture that a scene was fitted to."""

    name: str
    """As the list has it: a path, or a file's name, with or without its ending; empty if it has none."""
    camera: Camera
    """Which took it."""


def read_cameras(path: Path) -> list[Camera]:
    """Read the cameras of a list. Raises as `read_taken`."""
    return [picture.camera for picture in read_taken(path)]


def read_taken(path: Path, scene: Gaussians | None = None) -> list[TakenPicture]:
    """Read the cameras of a list, with the names of their pictures, for a scene.

    Raises:
        SceneError: if it is no such list, or a camera is not finite; the message names the file.
        OSError: if it cannot be opened.
    """
    values = read_json(path, "a list of cameras as 3DGS writes it", LIMITS)
    with named_errors(path):
        cameras = cameras_from(values, scene)
    return [TakenPicture(_name(value), camera) for value, camera in zip(values, cameras, strict=True)]


def cameras_from(values: object, scene: Gaussians | None = None) -> list[Camera]:
    """The cameras of such a list, once parsed, for a scene; SceneError if it is none."""
    if not isinstance(values, list) or not 0 < len(values) <= MOST_CAMERAS:
        raise SceneError(f"a list of 1 to {MOST_CAMERAS} cameras, as 3DGS writes it, is required, found something else")
    cameras = [_camera(value, f"camera {number}", scene) for number, value in enumerate(values)]
    near = chosen_near(torch.stack([camera.viewmat for camera in cameras]), scene)
    return [camera if camera.near else replace(camera, near=near) for camera in cameras]


def up_of(cameras: Sequence[Camera]) -> tuple[float, float, float] | None:
    """The direction that is up in most of the pictures, of length 1; None if they do not agree on any."""
    ups = -torch.stack([camera.viewmat[1, :3].double() for camera in cameras]).mean(dim=0)
    length = float(ups.norm())
    if length <= 0.1:
        return None
    x, y, z = (ups / length).tolist()
    return x, y, z


def _name(value: dict[str, Any]) -> str:
    name = value.get("img_name")
    return name[:_LONGEST_NAME] if isinstance(name, str) else ""


def _camera(value: object, what: str, scene: Gaussians | None) -> Camera:
    """A camera, whose near plane is 0 if none is named."""
    if not isinstance(value, dict):
        raise SceneError(f"{what}: an object with position, rotation, fx and fy is required, found something else")
    width, height = (_number(value, name, what) for name in ("width", "height"))
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise SceneError(f"{what}: a size from 1 to {MAX_SIDE} pixels is required, found {width:g}x{height:g}")
    fx, fy = (_number(value, name, what) for name in ("fx", "fy"))
    if min(fx, fy) < SMALLEST:
        raise SceneError(f"{what}: focal lengths of at least {SMALLEST:g} are required, found {fx:g} and {fy:g}")
    cx = _number(value, "cx", what) if "cx" in value else width / 2
    cy = _number(value, "cy", what) if "cy" in value else height / 2
    position = torch.tensor(_numbers(value, "position", what, 3), dtype=torch.float64)
    rows = value.get("rotation")
    if not isinstance(rows, list) or len(rows) != 3:
        raise SceneError(f"{what}: rotation, 3 rows of 3 numbers, is required, found something else")
    turn = torch.tensor([_numbers({"rotation": row}, "rotation", what, 3) for row in rows], dtype=torch.float64).T
    if (turn @ turn.T - torch.eye(3)).abs().max() > _TOLERANCE or torch.linalg.det(turn) < 0:
        raise SceneError(f"{what}: a rotation without scale or reflection is required, found another matrix")
    viewmat = torch.eye(4, dtype=torch.float64)
    viewmat[:3, :3], viewmat[:3, 3] = turn, -turn @ position
    K = torch.tensor([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    near = checked_near(value, f"{what}: near") or 0.0
    return Camera(moved(viewmat, scene).float(), K.float(), int(width), int(height), near)


def _number(value: dict[str, Any], name: str, what: str) -> float:
    number = value.get(name)
    if not isinstance(number, (int, float)) or isinstance(number, bool) or not abs(number) <= _LARGEST:
        raise SceneError(f"{what}: {name}, a number of at most {_LARGEST:g}, is required, found {str(number)[:40]!r}")
    return float(number)


def _numbers(value: dict[str, Any], name: str, what: str, count: int) -> list[float]:
    numbers = value.get(name)
    if not isinstance(numbers, list) or len(numbers) != count:
        raise SceneError(f"{what}: {name}, {count} numbers, is required, found something else")
    return [_number({name: number}, name, what) for number in numbers]
