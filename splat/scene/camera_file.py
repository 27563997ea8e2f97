"""Camera files: one camera as JSON, which `splat view` saves and `splat render --camera` takes.

An object with the keys

- `width`, `height`: the picture's size in pixels, 1 to 16384;
- `viewmat`: 4 rows of 4, world to camera; or `position`, 3 numbers, and `rotation`, a quaternion w, x, y, z that turns
  the camera's axes into the world's. The camera's axes are those of OpenCV: x right, y down, z forward;
- `K`: 3 rows of 3, focal lengths and principal point in pixels; or `fov`, the degrees that the shorter side covers;
- `near`: the distance of the near plane in world units; if it is absent, it is chosen for the scene's size.

The world is that of the scene's file: a scene's offset is taken off what is read, and added to what is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from .camera import Camera, rotation_rows
from .coordinates import NO_OFFSET, Offset
from .file_input import named_errors
from .file_output import check_writable, replacing
from .gaussians import Gaussians, SceneError
from .json_input import JsonLimits, read_json
from .names import listed, quoted
from .near_plane import NEAR, near_plane_of
from .rotations import quaternion

MAX_SIDE: Final = 16384
"""The largest width and height of a picture in pixels."""
MAX_BYTES: Final = 65536
"""The largest camera file; those that are written have about 500 bytes."""
_LIMITS: Final = JsonLimits(MAX_BYTES, nests=1000, values=2000)
_KEYS: Final = ("width", "height", "viewmat", "position", "rotation", "K", "fov", "near")
# float32 holds more on both sides, but products of such numbers must be finite and above 0 too.
_LARGEST: Final = 1e15
SMALLEST: Final = 1e-15
"""The least focal length in pixels, and the least distance of a near plane."""
# How far from a rotation a matrix may be: files are written by hand and with few digits.
_TOLERANCE: Final = 1e-3


def read_camera(path: str | Path, scene: Gaussians | None = None) -> Camera:
    """Read a camera file, for a scene.

    Raises:
        SceneError: if it is not one, or a value is missing, not finite or out of range; the message names the file.
        OSError: if it cannot be opened.
    """
    path = Path(path)
    values = read_json(path, "a camera as JSON", _LIMITS, **STRICT)
    with named_errors(path):
        return camera_from(values, scene)


def camera_json(camera: Camera, offset: Offset = NO_OFFSET) -> str:
    """The text of a camera file, with `viewmat`, `K` and `near`; for a scene with an offset, with `position` and
    `rotation` instead: beside coordinates of a map, the digits of a matrix would move the camera.
    """
    pose: dict[str, Any] = {"viewmat": camera.viewmat.tolist()}
    if offset != NO_OFFSET:
        position, turn = camera.pose(offset)
        pose = {"position": position.tolist(), "rotation": quaternion(turn).tolist()}
    rows = {name: json.dumps(value) for name, value in {**pose, "K": camera.K.tolist()}.items()}
    lines = [f'"width": {camera.width}', f'"height": {camera.height}']
    lines += [f'"{name}": {text.replace("], [", "],{0}[").format(chr(10) + " " * 4)}' for name, text in rows.items()]
    return "{\n  " + ",\n  ".join([*lines, f'"near": {json.dumps(camera.near)}']) + "\n}\n"


def write_camera(path: str | Path, camera: Camera, offset: Offset = NO_OFFSET) -> None:
    """Write a camera file, for a scene with this offset, complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not end in .json, OSError if the file cannot be written.
    """
    path = check_writable(path, ".json", "cameras")
    with replacing(path) as file:
        file.write(camera_json(camera, offset).encode())


def _refuse_constant(name: str) -> float:
    raise SceneError(f"all numbers of a camera must be finite, found {name}")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise SceneError(f"each key may be there once, found {listed([name for name, _ in pairs])}")
    return values


STRICT: Final[dict[str, Any]] = {"parse_constant": _refuse_constant, "object_pairs_hook": _without_repetition}
"""The hooks of `read_json` by which numbers are finite and keys there once."""


def camera_from(values: object, scene: Gaussians | None = None) -> Camera:
    """The camera of an object as camera files have it, once parsed, for a scene; SceneError if it is none."""
    if not isinstance(values, dict):
        raise SceneError(f"a JSON object with the camera is required, found {kind_of(values)}")
    unknown = [name for name in values if name not in _KEYS]
    if unknown:
        raise SceneError(f"a camera has the keys {', '.join(_KEYS)}; found {listed(unknown)} too")
    width, height = (_side(values, name) for name in ("width", "height"))
    viewmat = moved(_viewmat(values), scene)
    K = _intrinsics(values, width, height)
    near = checked_near(values, "near") or chosen_near(viewmat[None], scene)
    return Camera(viewmat=viewmat.float(), K=K.float(), width=width, height=height, near=near)


def checked_near(values: dict[str, Any], what: str) -> float | None:
    """The near plane that an object of a file names; None if it names none."""
    if "near" not in values:
        return None
    near = finite_numbers(values["near"], what, (1,))[0]
    if near < SMALLEST:
        raise SceneError(f"{what} must be at least {SMALLEST:g}, found {near:g}")
    return near


def chosen_near(viewmats: Tensor, scene: Gaussians | None) -> float:
    """The near plane of cameras [C, 4, 4] of files that name none, for a scene."""
    return NEAR if scene is None else near_plane_of(viewmats, scene.means)


def _side(values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_SIDE:
        raise SceneError(f"{name} must be a whole number of pixels from 1 to {MAX_SIDE}, found {_shown(value)}")
    return value


def _viewmat(values: dict[str, Any]) -> Tensor:
    """[4, 4] world to camera, float64."""
    if _one_way(values, "viewmat", ("position", "rotation")):
        rows = finite_numbers(values["viewmat"], "viewmat", (4, 4))
        viewmat = torch.tensor(rows, dtype=torch.float64).reshape(4, 4)
        turn = viewmat[:3, :3]
        if (turn @ turn.T - torch.eye(3)).abs().max() > _TOLERANCE or torch.linalg.det(turn) < 0:
            raise SceneError("the first 3 rows and columns of viewmat must be a rotation, without scale or reflection")
        if viewmat[3].tolist() != [0, 0, 0, 1]:
            raise SceneError(f"the last row of viewmat must be 0, 0, 0, 1, found {viewmat[3].tolist()}")
        return viewmat
    position = torch.tensor(finite_numbers(values["position"], "position", (3,)), dtype=torch.float64)
    w, x, y, z = finite_numbers(values["rotation"], "rotation", (4,))
    length = math.sqrt(w * w + x * x + y * y + z * z)
    if length < 1e-6:
        raise SceneError("rotation must be a quaternion w, x, y, z with a length above 0, found one of length 0")
    return viewmat_of([value / length for value in (w, x, y, z)], position)


def viewmat_of(rotation: Sequence[float], position: Tensor) -> Tensor:
    """[4, 4] world to camera, float64, from where the camera is.

    Args:
        rotation: quaternion w, x, y, z of length 1, from the camera's axes to the world's.
        position: [3] float64, the camera's place in the world.
    """
    viewmat = torch.eye(4, dtype=torch.float64)
    # The camera's axes in the world become rows.
    viewmat[:3, :3] = torch.tensor(rotation_rows(rotation), dtype=torch.float64).T
    viewmat[:3, 3] = -viewmat[:3, :3] @ position
    return viewmat


def moved(viewmat: Tensor, scene: Gaussians | None) -> Tensor:
    """[4, 4] float64 for a world from whose coordinates the scene's offset was taken."""
    viewmat = viewmat.clone()
    offset = NO_OFFSET if scene is None else scene.offset
    viewmat[:3, 3] += viewmat[:3, :3] @ torch.tensor(offset, dtype=torch.float64)
    return viewmat


def _intrinsics(values: dict[str, Any], width: int, height: int) -> Tensor:
    """[3, 3] in pixels, float64."""
    if not _one_way(values, "K", ("fov",)):
        (fov,) = finite_numbers(values["fov"], "fov", (1,))
        if not 1 <= fov <= 170:
            raise SceneError(f"fov must be from 1 to 170 degrees, found {fov:g}")
        focal = 0.5 * min(width, height) / math.tan(math.radians(fov) / 2)
        return torch.tensor([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]], dtype=torch.float64)
    K = torch.tensor(finite_numbers(values["K"], "K", (3, 3)), dtype=torch.float64).reshape(3, 3)
    if min(K[0, 0], K[1, 1]) < SMALLEST:
        raise SceneError(f"the focal lengths in K must be at least {SMALLEST:g}, found {K[0, 0]:g} and {K[1, 1]:g}")
    if [*K[:2, :2].flip(1).diag().tolist(), *K[2].tolist()] != [0, 0, 0, 0, 1]:
        raise SceneError("K must be fx, 0, cx; 0, fy, cy; 0, 0, 1: there is no skew")
    return K


def _one_way(values: dict[str, Any], one: str, other: tuple[str, ...]) -> bool:
    """Whether `one` is there, and not `other`; the same the other way round is False."""
    found = [name for name in (one, *other) if name in values]
    if found not in ([one], list(other)):
        raise SceneError(f"either {one} or {' and '.join(other)} is required, found {listed(found)}")
    return found == [one]


def finite_numbers(value: object, name: str, shape: tuple[int, ...]) -> list[float]:
    """The finite numbers of nested lists of this shape, in order; a shape of (1,) is a number by itself.

    Raises SceneError if `value` is something else; `name` is its key.
    """
    if len(shape) == 2 and isinstance(value, list) and len(value) == shape[0]:
        return [number for row in value for number in finite_numbers(row, name, shape[1:])]
    numbers = [value] if shape == (1,) else value
    if not isinstance(numbers, list) or len(numbers) != shape[-1]:
        raise SceneError(f"{name} must be {_required(name)}, found {_shown(value)}")
    for number in numbers:
        if not isinstance(number, (int, float)) or isinstance(number, bool) or not abs(number) <= _LARGEST:
            raise SceneError(f"{name} must be {_required(name)}, each at most {_LARGEST:g}, found {_shown(number)}")
    return [float(number) for number in numbers]


def _required(name: str) -> str:
    shapes = {"viewmat": "4 rows of 4", "K": "3 rows of 3", "position": "3", "rotation": "4", "camera_to_world": "16"}
    return f"{shapes[name]} numbers" if name in shapes else "a number"


def _shown(value: object) -> str:
    return kind_of(value) if isinstance(value, (list, dict)) else quoted(json.dumps(value))


def kind_of(value: object) -> str:
    """What a JSON value is, for a message."""
    return f"a list of {len(value)}" if isinstance(value, list) else type(value).__name__
