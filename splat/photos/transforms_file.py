"""Reading transforms.json, the list of pictures and cameras of Nerfstudio, instant-ngp and the first NeRFs.

It may be damaged or hostile. Cameras look along -z with y upwards (OpenGL), and `transform_matrix` leads from the
camera to the world. Intrinsics stand in the file or with a frame: `fl_x`, `fl_y`, `cx`, `cy`, `w`, `h`; instead of the
first four the matrix `K`, or `camera_angle_x` and `camera_angle_y`, fields of view in radians. So does the distortion.
`applied_transform` says how the world was rotated before the file was written; it is not undone, for cameras or for the
points of `ply_file_path`.
"""

from __future__ import annotations

import math
import warnings
from collections import ChainMap
from collections.abc import Iterable, Mapping
from itertools import compress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..scene.gaussians import SceneError
from ..scene.json_input import JsonLimits, read_json
from ..scene.names import listed, name_end, quoted
from .capture import NO_POINTS, Capture, CaptureFolder, Floats, Photograph, pictures_exist, read_cloud, rigid_transform
from .lens_formulas import PANORAMA, POLYNOMIAL
from .lens_models import LENS_MODELS, Lens, lens_of
from .name_matching import find_files
from .pictures import picture_size
from .splits import SPLITS, uses_of

_MOST_FRAMES: Final = 100_000
_LIMITS: Final = JsonLimits(2**26, nests=10 * _MOST_FRAMES, values=60 * _MOST_FRAMES)
"""A frame has 6 objects and lists, and about 40 values."""
_OF_MATRIX: Final = {"fl_x": (0, 0), "fl_y": (1, 1), "cx": (0, 2), "cy": (1, 2)}
"""Where they stand in a `K`, whose other elements are those of the identity."""
_INTRINSICS: Final = (*_OF_MATRIX, "K", "w", "h", "camera_angle_x", "camera_angle_y", "camera_model")
_OF_FRAMES: Final = frozenset(
    (
        *_INTRINSICS,
        *(name for model in LENS_MODELS.values() for name in model.family.coefficients),
        "is_fisheye",
        "file_path",
        "mask_path",
        "transform_matrix",
    )
)
"""Names of values that are used, of a frame; a file's hold for all of its frames."""
_OF_FILES: Final = _OF_FRAMES | {"frames", "ply_file_path", *SPLITS}
_HIGHER: Final = ("k4", "k5", "k6")
"""Coefficients that mean one thing to COLMAP's FULL_OPENCV and another to Nerfstudio."""
_ENDINGS: Final = ("", ".png", ".jpg", ".jpeg", ".JPG")
"""Of the file that a name without one stands for."""
_AXES: Final = np.array([1.0, -1.0, -1.0])
"""The signs of OpenGL's axes of a camera, for those used here."""


class _Frame(NamedTuple):
    """A picture, and what a file says of it and of all of its pictures."""

    picture: Path
    mask: Path | None
    values: ChainMap[str, Any]
    held_out: bool | None


def read_transforms(path: Path, pictures: Path | None = None, within: Path | None = None) -> Capture:
    """Read a file whose pictures lie in its folder, or in `pictures`; a warning names what of it is not used.

    So does one about pictures that are missing, up to a half of them. `within` is the capture's folder, in which names
    may lead upwards, if that is not the file's.

    Raises:
        SceneError: if it is damaged, a camera is not finite or its lens not a known one, or more pictures are missing.
        OSError: if it cannot be opened.
    """
    return read_splits({path: None}, pictures, within)


def read_splits(paths: Mapping[Path, bool | None], pictures: Path | None = None, within: Path | None = None) -> Capture:
    """Read several files as one, by their paths and whether their pictures are held out; see `read_transforms`.

    None: as the file says, or whoever fits a scene to them.
    """
    frames: list[_Frame] = []
    unused: set[str] = set()
    clouds: list[Path] = []
    for path, held_out in paths.items():
        values = _object(path)
        if values.get("ply_file_path") is not None:
            clouds.append(_cloud(path, str(values["ply_file_path"]), within))
        folder = CaptureFolder(
            pictures or path.parent, None if pictures else within, "--images", upwards=True, named=bool(pictures)
        )
        frames += _frames(path, values, folder, held_out)
        unused |= set(values) - _OF_FILES
        unused |= {name for frame in values["frames"] for name in frame} - _OF_FRAMES
    source = next(iter(paths))
    frames = list(compress(frames, pictures_exist(source, [frame.picture for frame in frames])))
    masks = [frame.mask for frame in frames if frame.mask]
    if missing := [name_end(str(mask)) for mask in masks if not mask.is_file()]:
        raise SceneError(f"{source}: {len(missing)} of its {len(masks)} masks are missing: {listed(missing)}")
    photographs = [_photograph(frame, source) for frame in frames]
    if unused:
        warnings.warn(f"{source}: not used: {listed(sorted(unused))}", stacklevel=2)
    points, colors = read_cloud(clouds[0]) if clouds else NO_POINTS
    return Capture(source, tuple(sorted(photographs, key=lambda p: str(p.path))), points, colors)


def _cloud(path: Path, name: str, within: Path | None) -> Path:
    what = f"{path}: ply_file_path"
    found = find_files(path, CaptureFolder(path.parent, within, upwards=True), {name: what})[name]
    if not found.exists() or found.is_dir():
        raise SceneError(
            f"{what}, a file of points, is required, found no {name_end(name)}; put it there, or remove ply_file_path: "
            "Gaussians then start at random places"
        )
    return found


def _object(path: Path) -> dict[str, Any]:
    values = read_json(path, "Nerfstudio's transforms.json", _LIMITS)
    if not isinstance(values, dict):
        raise SceneError(f"{path}: Nerfstudio's transforms.json is required, found JSON of something else")
    return values


def _frames(path: Path, values: dict[str, Any], folder: CaptureFolder, held_out: bool | None) -> Iterable[_Frame]:
    frames = values.get("frames")
    if not isinstance(frames, list) or not all(isinstance(frame, dict) for frame in frames):
        raise SceneError(f"{path}: frames, a list of pictures, required, found {listed(sorted(values))}")
    if len(frames) > _MOST_FRAMES:
        raise SceneError(f"{path}: at most {_MOST_FRAMES} frames are required, found {len(frames)}")
    names: dict[str, str] = {}
    for index, frame in enumerate(frames):
        what = f"{path}: frame {index}"
        names.setdefault(_name(frame, "file_path", "the name of its picture", what), what)
        if _has_mask(frame):
            names.setdefault(_name(frame, "mask_path", "the name of its mask", what), what)
    found = find_files(path, folder, names, _ENDINGS)
    uses = uses_of(path, values, [frame["file_path"] for frame in frames])
    for frame in (frame for frame in frames if frame["file_path"] in uses):
        name, mask = frame["file_path"], found[frame["mask_path"]] if _has_mask(frame) else None
        yield _Frame(found[name], mask, ChainMap(frame, values), uses[name] if held_out is None else held_out)


def _has_mask(frame: Mapping[str, Any]) -> bool:
    return frame.get("mask_path") not in (None, "")


def _photograph(frame: _Frame, source: Path) -> Photograph:
    what = f"{source}: {quoted(frame.picture.name)}"
    lens = _lens(frame.values, frame.picture, what)
    return Photograph(frame.picture, lens, _viewmat(frame.values, what), frame.mask, frame.held_out)


def _name(frame: Mapping[str, Any], key: str, meaning: str, what: str) -> str:
    name = frame.get(key)
    if not isinstance(name, str):
        raise SceneError(f"{what}: {key}, {meaning}, required, found {listed(sorted(frame))}")
    return name


def _number(values: Mapping[str, Any], name: str, what: str) -> float | None:
    """A finite number; None if there is none of this name."""
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e9 <= value <= 1e9:
        raise SceneError(f"{what}: {name} must be a finite number, found {str(value)[:40]}")
    return float(value)


def _lens(values: ChainMap[str, Any], picture: Path, what: str) -> Lens:
    values = values.new_child(_of_matrix(values, what))
    model = _model(values, what)
    sizes = [_number(values, name, what) for name in ("w", "h")]
    width, height = (int(size) for size in sizes if size) if all(sizes) else picture_size(picture)
    family = LENS_MODELS[model].family
    if family is PANORAMA:
        return lens_of(model, (width, height), {}, what)
    fx, fy = _focal(values, "x", width, what), _focal(values, "y", height, what)
    if fx is None:
        raise SceneError(f"{what}: fl_x in pixels, K, or camera_angle_x between 0 and pi, required, found none of them")
    cx, cy = _number(values, "cx", what), _number(values, "cy", what)
    # Nerfstudio takes all of these, whichever of its models without a fisheye lens is named.
    names = family.coefficients if family is POLYNOMIAL else LENS_MODELS[model].parameters
    known = {name: _number(values, name, what) or 0.0 for name in names if name in family.coefficients}
    higher = [name for name in _HIGHER if known.get(name)]
    if higher and family is POLYNOMIAL and model != "FULL_OPENCV":
        raise SceneError(
            f"{what}: {model} without {', '.join(higher)} is required, found {known[higher[0]]:g}: programs do "
            "not agree on what they mean; if they are COLMAP's, its camera_model is FULL_OPENCV"
        )
    places = {"cx": width / 2 if cx is None else cx, "cy": height / 2 if cy is None else cy}
    return lens_of(model, (width, height), {"fx": fx, "fy": fx if fy is None else fy, **places, **known}, what)


def _of_matrix(values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """What a `K` says, by the names that stand in a file without one; nothing if there is none."""
    if values.get("K") is None:
        return {}
    matrix = _array(values["K"])
    places = tuple(zip(*_OF_MATRIX.values(), strict=True))
    rest = matrix.copy()
    if matrix.shape == (3, 3):
        rest[places] = np.eye(3)[places]
    if not np.array_equal(rest, np.eye(3)):
        raise SceneError(
            f"{what}: K must have the rows fl_x 0 cx, 0 fl_y cy and 0 0 1, found {quoted(str(values['K']))}: "
            "lenses with skew are not supported"
        )
    of_matrix = {name: float(matrix[place]) for name, place in _OF_MATRIX.items()}
    for name, value in of_matrix.items():
        other = _number(values, name, what)
        if other is not None and abs(other - value) > 0.01:
            raise SceneError(f"{what}: K and {name} must agree, found {value:g} and {other:g}; remove the wrong one")
    return of_matrix


def _model(values: Mapping[str, Any], what: str) -> str:
    """The name of the lens's model; instant-ngp says only of fisheye lenses that they are."""
    model = values.get("camera_model")
    if model is None:
        return "OPENCV_FISHEYE" if values.get("is_fisheye") is True else "OPENCV"
    if not isinstance(model, str) or model not in LENS_MODELS:
        raise SceneError(f"{what}: a camera_model of {', '.join(LENS_MODELS)} is required, found {quoted(str(model))}")
    return model


def _focal(values: Mapping[str, Any], axis: str, size: int, what: str) -> float | None:
    """A focal length in pixels: as it stands there, or of a field of view; None if there is neither."""
    focal = _number(values, f"fl_{axis}", what)
    angle = _number(values, f"camera_angle_{axis}", what)
    if focal is not None or angle is None or not 0 < angle < math.pi:
        return focal
    return 0.5 * size / math.tan(angle / 2)


def _viewmat(frame: Mapping[str, Any], what: str) -> Floats:
    matrix = _array(frame.get("transform_matrix"))
    if matrix.shape not in ((4, 4), (3, 4)):
        raise SceneError(f"{what}: transform_matrix, 4 rows of 4 finite numbers, required, found something else")
    pose = rigid_transform(matrix[:3, :3] * _AXES, matrix[:3, 3], what)
    rotation = pose[:3, :3].T
    return rigid_transform(rotation, -rotation @ pose[:3, 3], what)


def _array(rows: object) -> Floats:
    """Lists of numbers; an empty array for anything else."""
    try:
        return np.array(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.zeros(0)
