"""Camera paths: the cameras that a moving camera passes, as JSON; others' files are read too.

An object with the keys

- `keyframes`: 1 to 10000 cameras, each an object as in a camera file (`camera_file.py`);
- `seconds`: how long the whole path takes, with the same time between all neighbours; may be absent;
- `fps`: pictures a second; may be absent;
- `closed`: whether the path leads back to the first camera; false if absent.

Nerfstudio's camera_path.json and a list of cameras as 3DGS writes it (`camera_list.py`) are told by their form.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from .camera import Camera
from .camera_file import STRICT, camera_from, camera_json, finite_numbers, kind_of
from .camera_list import LIMITS, cameras_from
from .coordinates import NO_OFFSET, Offset
from .file_input import named_errors
from .file_output import check_writable, replacing
from .gaussians import Gaussians, SceneError
from .json_input import read_json
from .names import listed

MOST_KEYFRAMES: Final = 10_000
SECONDS: Final = (0.01, 600.0)
"""The shortest and the longest path."""
FPS: Final = (1.0, 120.0)
"""The fewest and the most pictures a second."""
_KEYS: Final = ("keyframes", "seconds", "fps", "closed")
_SHAPING: Final = ("keyframes", "smoothness_value", "default_fov", "default_transition_sec")
"""Keys of Nerfstudio, of what the cameras in camera_path were made from."""
_NERFSTUDIO: Final = frozenset(
    ("camera_path", "camera_type", "render_width", "render_height", "seconds", "fps", "is_cycle", *_SHAPING)
)
_FRAME: Final = frozenset(("camera_to_world", "fov", "aspect"))


@dataclass(frozen=True)
class CameraPath:
    """Cameras on the way of a moving one. Raises SceneError if a value is out of range."""

    keyframes: tuple[Camera, ...]
    """Of any sizes."""
    seconds: float | None = None
    """How long the whole path takes; None if whoever renders it says so."""
    fps: float | None = None
    """Pictures a second; None if whoever renders it says so."""
    closed: bool = False
    """Whether it leads back to the first camera."""

    def __post_init__(self) -> None:
        """Check the values."""
        if not 1 <= len(self.keyframes) <= MOST_KEYFRAMES:
            raise SceneError(f"a path has 1 to {MOST_KEYFRAMES} cameras, found {len(self.keyframes)}")
        for name, (least, most) in (("seconds", SECONDS), ("fps", FPS)):
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise SceneError(f"{name} must be from {least:g} to {most:g}, found {value:g}")


def read_path(path: str | Path, scene: Gaussians | None = None) -> CameraPath:
    """Read a path file, or one of the others, for a scene.

    A warning names what of Nerfstudio's is not used.

    Raises:
        SceneError: if it is none of them, or a value is missing, not finite or out of range; the message names the
            file.
        OSError: if it cannot be opened.
    """
    path = Path(path)
    values = read_json(path, "a camera path as JSON", LIMITS, **STRICT)
    with named_errors(path):
        if isinstance(values, list):
            return CameraPath(tuple(cameras_from(values, scene)))
        if isinstance(values, dict) and "camera_path" in values:
            found = _from_nerfstudio(values, scene)
            unused = {*values} - _NERFSTUDIO | {name for frame in values["camera_path"] for name in frame} - _FRAME
            if unused:
                warnings.warn(f"{path}: not used: {listed(sorted(unused))}", stacklevel=2)
            return found
        return path_from(values, scene)


def path_from(values: object, scene: Gaussians | None = None) -> CameraPath:
    """The path of an object as path files have it, once parsed, for a scene; SceneError if it is none."""
    if not isinstance(values, dict) or "keyframes" not in values:
        found = f"one with {listed(sorted(values))}" if isinstance(values, dict) else kind_of(values)
        raise SceneError(f"a camera path, an object with keyframes, is required, found {found}")
    unknown = [name for name in values if name not in _KEYS]
    if unknown:
        raise SceneError(f"a camera path has the keys {', '.join(_KEYS)}; found {listed(unknown)} too")
    closed = values.get("closed", False)
    if not isinstance(closed, bool):
        raise SceneError(f"closed must be true or false, found {kind_of(closed)}")
    cameras = _each(values["keyframes"], "keyframe", lambda value: camera_from(value, scene))
    return CameraPath(cameras, _number(values, "seconds"), _number(values, "fps"), closed)


def path_json(path: CameraPath, offset: Offset = NO_OFFSET) -> str:
    """The text of a path file, for a scene with this offset."""
    lines = [f'"{name}": {json.dumps(value)}' for name in ("seconds", "fps") if (value := getattr(path, name))]
    cameras = ",\n".join(camera_json(camera, offset).rstrip() for camera in path.keyframes).replace("\n", "\n    ")
    lines += [f'"closed": {json.dumps(path.closed)}', f'"keyframes": [\n    {cameras}\n  ]']
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"


def write_path(file: str | Path, path: CameraPath, offset: Offset = NO_OFFSET) -> None:
    """Write a path file, for a scene with this offset, complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not end in .json, OSError if the file cannot be written.
    """
    with replacing(check_writable(file, ".json", "camera paths")) as opened:
        opened.write(path_json(path, offset).encode())


def _from_nerfstudio(values: dict[str, Any], scene: Gaussians | None) -> CameraPath:
    """The path of Nerfstudio's viewer: a camera for each picture; axes are OpenGL's, fields of view the height's."""
    kind = values.get("camera_type", "perspective")
    if kind != "perspective":
        raise SceneError(f"a camera_type of perspective is required, found {json.dumps(kind)[:40]}")
    width, height = (finite_numbers(values.get(name), name, (1,))[0] for name in ("render_width", "render_height"))

    def camera(frame: object) -> Camera:
        if not isinstance(frame, dict):
            raise SceneError(f"an object with camera_to_world and fov is required, found {kind_of(frame)}")
        rows = finite_numbers(frame.get("camera_to_world"), "camera_to_world", (16,))
        to_world = torch.tensor(rows, dtype=torch.float64).reshape(4, 4)
        viewmat = torch.eye(4, dtype=torch.float64)
        viewmat[:3, :3] = to_world[:3, :3].T * torch.tensor([[1.0], [-1.0], [-1.0]])
        viewmat[:3, 3] = -viewmat[:3, :3] @ to_world[:3, 3]
        (fov,) = finite_numbers(frame.get("fov"), "fov", (1,))
        if not 1 <= fov <= 170:
            raise SceneError(f"fov must be from 1 to 170 degrees, found {fov:g}")
        focal = height / 2 / math.tan(math.radians(fov) / 2)
        K = [[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]]
        # Sizes are written as 1080.0, too.
        sides = {
            name: int(side) if side == int(side) else side for name, side in (("width", width), ("height", height))
        }
        return camera_from({**sides, "viewmat": viewmat.tolist(), "K": K}, scene)

    cameras = _each(values["camera_path"], "camera", camera)
    seconds, fps = _number(values, "seconds"), _number(values, "fps")
    if seconds and seconds > 0:  # each of its cameras is a picture, whatever fps says
        fps = min(max(len(cameras) / seconds, FPS[0]), FPS[1])
    return CameraPath(cameras, seconds, fps, values.get("is_cycle") is True)


def _each(values: object, what: str, camera: Callable[[object], Camera]) -> tuple[Camera, ...]:
    """The cameras of a list; an error says at which of them it was."""
    if not isinstance(values, list) or not 1 <= len(values) <= MOST_KEYFRAMES:
        raise SceneError(f"a list of 1 to {MOST_KEYFRAMES} cameras is required, found {kind_of(values)}")
    found = []
    for number, value in enumerate(values):
        try:
            found.append(camera(value))
        except SceneError as error:
            raise SceneError(f"{what} {number}: {error}") from error
    return tuple(found)


def _number(values: dict[str, Any], name: str) -> float | None:
    return finite_numbers(values[name], name, (1,))[0] if name in values else None
