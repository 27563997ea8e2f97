"""Reading transforms.json, Nerfstudio's list of pictures and cameras; it may be damaged or hostile.

Cameras look along -z with y upwards (OpenGL), and `transform_matrix` leads from the camera to the world. Intrinsics
stand in the file or with a frame: `fl_x`, `fl_y`, `cx`, `cy`, `w`, `h`, or `camera_angle_x`, the horizontal field
of view in radians. `applied_transform` says how the world was rotated before the file was written; it is not undone,
for cameras or for the points of `ply_file_path`.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..scene.gaussians import SH_C0, SceneError
from ..scene.json_input import JsonLimits, read_json
from ..scene.names import listed, quoted
from ..scene.ply import read_ply
from .capture import UNDISTORT, Capture, Floats, Lens, Photograph, PictureFolder, require_files, rigid
from .pictures import picture_size

_MOST_FRAMES: Final = 100_000
_LIMITS: Final = JsonLimits(2**26, nests=10 * _MOST_FRAMES, values=60 * _MOST_FRAMES)
"""A frame has 6 objects and lists, and about 40 values."""
_UNDISTORTED: Final = ("OPENCV", "PINHOLE", "SIMPLE_PINHOLE")
_DISTORTION: Final = ("k1", "k2", "k3", "k4", "k5", "k6", "p1", "p2")
_AXES: Final = np.array([1.0, -1.0, -1.0])
"""The signs of OpenGL's axes of a camera, for those used here."""


def read_transforms(path: Path, pictures: Path | None = None) -> Capture:
    """Read a file whose pictures lie in its folder, or in `pictures`.

    Raises:
        SceneError: if it is damaged, a camera is not finite or its lens not a pinhole, or pictures are missing.
        OSError: if it cannot be opened.
    """
    values = _object(path)
    frames = values.get("frames")
    if not isinstance(frames, list) or not all(isinstance(frame, dict) for frame in frames):
        raise SceneError(f"{path}: frames, a list of pictures, required, found {listed(sorted(values))}")
    if len(frames) > _MOST_FRAMES:
        raise SceneError(f"{path}: at most {_MOST_FRAMES} frames are required, found {len(frames)}")
    folder = PictureFolder(path.parent if pictures is None else pictures)
    paths = [_picture(folder, frame, f"{path}: frame {index}") for index, frame in enumerate(frames)]
    require_files(path, paths)
    photographs = [
        Photograph(
            picture,
            _lens(ChainMap(frame, values), picture, f"{path}: {quoted(picture.name)}"),
            _viewmat(frame, f"{path}: {quoted(picture.name)}"),
        )
        for picture, frame in zip(paths, frames, strict=True)
    ]
    points, colors = np.zeros((0, 3)), np.zeros((0, 3), np.uint8)
    if "ply_file_path" in values:
        cloud = PictureFolder(path.parent).file(str(values["ply_file_path"]), f"{path}: ply_file_path")
        scene = read_ply(cloud)
        points = scene.means.double().numpy()
        colors = (0.5 + SH_C0 * scene.sh[:, 0]).clamp(0, 1).mul(255).round().byte().numpy()
    return Capture(path, tuple(sorted(photographs, key=lambda p: str(p.path))), points, colors)


def _object(path: Path) -> dict[str, Any]:
    values = read_json(path, "Nerfstudio's transforms.json", _LIMITS)
    if not isinstance(values, dict):
        raise SceneError(f"{path}: Nerfstudio's transforms.json is required, found JSON of something else")
    return values


def _picture(folder: PictureFolder, frame: dict[str, Any], what: str) -> Path:
    name = frame.get("file_path")
    if not isinstance(name, str):
        raise SceneError(f"{what}: file_path, the name of its picture, required, found {listed(sorted(frame))}")
    path = folder.file(name, what)
    # The scenes of the first NeRFs name their pictures without an ending.
    return path if path.suffix or path.exists() else folder.file(f"{name}.png", what)


def _number(values: Mapping[str, Any], name: str, what: str) -> float | None:
    """A finite number; None if there is none of this name."""
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e9 <= value <= 1e9:
        raise SceneError(f"{what}: {name} must be a finite number, found {str(value)[:40]}")
    return float(value)


def _lens(values: Mapping[str, Any], picture: Path, what: str) -> Lens:
    model = values.get("camera_model", "OPENCV")
    bent = [name for name in _DISTORTION if _number(values, name, what)]
    if model not in _UNDISTORTED or bent:
        found = f"{quoted(str(model))}{' with ' + ', '.join(bent) if bent else ''}"
        raise SceneError(
            f"{what}: a pinhole camera is required, found {found}; COLMAP takes distortion out of pictures: {UNDISTORT}"
        )
    sizes = [_number(values, name, what) for name in ("w", "h")]
    width, height = (int(size) for size in sizes if size) if all(sizes) else picture_size(picture)
    angle = _number(values, "camera_angle_x", what)
    fx = _number(values, "fl_x", what)
    if fx is None:
        if angle is None or not 0 < angle < math.pi:
            raise SceneError(f"{what}: fl_x in pixels, or camera_angle_x between 0 and pi, required, found neither")
        fx = 0.5 * width / math.tan(angle / 2)
    fy = _number(values, "fl_y", what)
    cx, cy = _number(values, "cx", what), _number(values, "cy", what)
    return Lens(
        width, height, fx, fx if fy is None else fy, width / 2 if cx is None else cx, height / 2 if cy is None else cy
    ).check(what)


def _viewmat(frame: dict[str, Any], what: str) -> Floats:
    try:
        matrix = np.array(frame.get("transform_matrix"), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.zeros(0)
    if matrix.shape not in ((4, 4), (3, 4)):
        raise SceneError(f"{what}: transform_matrix, 4 rows of 4 finite numbers, required, found something else")
    pose = rigid(matrix[:3, :3] * _AXES, matrix[:3, 3], what)
    rotation = pose[:3, :3].T
    return rigid(rotation, -rotation @ pose[:3, 3], what)
