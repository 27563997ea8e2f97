"""Views that are not photographs of a capture: arrays with cameras, a single picture, or the built-in scene."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..ops.rendering import rasterization
from ..photos.capture import rigid_transform
from ..photos.pictures import check_unpacking, opened_picture, picture_header, read_resized
from ..scene.builtin import knot_scene
from ..scene.camera import orbit
from ..scene.colors import unit_colors
from ..scene.gaussians import SceneError
from ..scene.npz import read_npz
from .drawn_lenses import lens_camera
from .fit_memory import UNLIMITED, FitMemory, check_fitting
from .overlap import check_overlap, check_places, shared_points
from .views import Views, near_origin

_FOV = 50.0
_SAME = 1e-6
"""How far numbers of a matrix may be from what they must be."""
_FLOATS = 12
"""Bytes of a pixel whose colours are float32."""
_DARKEST = -0.5
"""Of colours: far below what is left around edges when pictures are made smaller."""
_REQUIRED = {"images": "[C, H, W, 3]", "viewmats": "[C, 4, 4]", "Ks": "[C, 3, 3]"}


def read_views(paths: Sequence[Path], points: int, seed: int, memory: FitMemory = UNLIMITED) -> Views:
    """Read the pictures that a command names.

    - None: the built-in scene, rendered from cameras around it.
    - One SCENE.npz: `images` [C, H, W, 3], `viewmats` [C, 4, 4] and `Ks` [C, 3, 3], and optionally `points` [P, 3] and
      their `colors` [P, 3]. Images and colours are integers up to their type's maximum, or floating-point from 0 to 1.
    - One picture: with an assumed camera.

    If there are no points, `points` random ones are drawn.

    Raises:
        SceneError: if the files hold something else; the message says what is required.
        OSError: if a file cannot be read.
    """
    generator = torch.Generator().manual_seed(seed)
    if not paths:
        return _builtin_views(points, generator)
    if len(paths) == 1 and paths[0].suffix.lower() == ".npz":
        return _read_npz(paths[0], points, generator, memory)
    if len(paths) > 1:
        raise SceneError(
            f"{len(paths)} pictures need camera poses: one SCENE.npz with "
            f"{', '.join(f'{name} {shape}' for name, shape in _REQUIRED.items())} is required "
            "(world-to-camera matrices, and intrinsics in pixels), or the folder of a COLMAP model, which has both; a "
            "single picture needs none"
        )
    return _one_picture(_read_picture(paths[0], memory), points, generator)


def _builtin_views(points: int, generator: torch.Generator) -> Views:
    """The built-in scene, from three rings of cameras."""
    count, width, height = 40, 200, 150
    scene = knot_scene()
    # Golden angles: no two cameras stand above each other.
    cameras = [
        orbit(scene, width, height, azimuth=i * 137.508, elevation=(5.0, 20.0, 40.0)[i % 3], fov=40, distance=0.9)
        for i in range(count)
    ]
    viewmats, Ks = torch.stack([c.viewmat for c in cameras]), torch.stack([c.K for c in cameras])
    with torch.no_grad():
        images, _, _ = rasterization(
            scene.means, scene.quats, scene.scales, scene.opacities, scene.sh, viewmats, Ks, width, height,
            sh_degree=scene.degree,
        )  # fmt: skip
    low, high = scene.bounds(outside=0.0)
    positions = low + (high - low) * torch.rand(points, 3, generator=generator)
    return Views(tuple(images.clamp(0, 1)), viewmats, Ks, positions, torch.full((points, 3), 0.5))


def _one_picture(image: Tensor, points: int, generator: torch.Generator) -> Views:
    """A camera in front of a thin box, looking along -z with y upwards; the longer side of the picture is 2 units."""
    height, width = image.shape[:2]
    focal = 0.5 * max(width, height) / math.tan(math.radians(_FOV) / 2)
    distance = 1 / math.tan(math.radians(_FOV) / 2)
    viewmat = torch.diag(torch.tensor([1.0, -1.0, -1.0, 1.0]))
    viewmat[2, 3] = distance
    K = torch.tensor([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])
    extent = torch.tensor([width, height, 0.1 * max(width, height)]) / max(width, height)
    positions = (2 * torch.rand(points, 3, generator=generator) - 1) * extent
    columns = ((positions[:, 0] / extent[0] + 1) / 2 * (width - 1)).round().long()
    rows = ((1 - positions[:, 1] / extent[1]) / 2 * (height - 1)).round().long()
    return Views((image,), viewmat[None], K[None], positions, image[rows, columns])


def _read_picture(path: Path, memory: FitMemory) -> Tensor:
    with opened_picture(path, "a picture (PNG, JPEG, ...) or a SCENE.npz", "neither"):
        pass
    size = picture_header(path).shown_size
    check_fitting(str(path), "picture", [size], _FLOATS, memory)
    check_unpacking(path, size, memory.reading)
    pixels = read_resized(path, size, turned=True)
    if pixels.transparent:
        warnings.warn(f"{path}: transparent in places; black is behind it and behind the scene", stacklevel=3)
    return _as_colors(pixels.colors, f"{path}")


def _read_npz(path: Path, points: int, generator: torch.Generator, memory: FitMemory) -> Views:
    arrays, found = read_npz(path, (*_REQUIRED, "points", "colors"), memory.reading)
    missing = [f"{name} {shape}" for name, shape in _REQUIRED.items() if name not in arrays]
    if missing:
        raise SceneError(f"{path}: {' and '.join(missing)} required, found {found}")
    shape = arrays["images"].shape
    if len(shape) != 4 or shape[-1] != 3 or 0 in shape:
        raise SceneError(f"{path}: images must have shape [C, H, W, 3], found {list(shape)}")
    sizes = [(shape[2], shape[1])] * shape[0]
    check_fitting(str(path), "picture", sizes, _FLOATS, memory)
    images = _as_colors(arrays["images"], f"{path}: images")
    count = len(images)
    viewmats, Ks = _as_doubles(arrays["viewmats"], f"{path}: viewmats"), _as_floats(arrays["Ks"], f"{path}: Ks")
    for name, values, expected in (("viewmats", viewmats, (count, 4, 4)), ("Ks", Ks, (count, 3, 3))):
        if tuple(values.shape) != expected:
            raise SceneError(f"{path}: {name} must have shape {list(expected)}, found {list(values.shape)}")
    _check_intrinsics(Ks, sizes[0], f"{path}: Ks")
    for number, matrix in enumerate(viewmats.numpy(), 1):
        what = f"{path}: viewmats: picture {number}"
        if np.abs(matrix[3] - (0, 0, 0, 1)).max() > _SAME:
            found = matrix[3].tolist()
            raise SceneError(f"{what}: 0 0 0 1 is required in the last row, found {found}; was it transposed?")
        rigid_transform(matrix[:3, :3], matrix[:3, 3], what)
    positions, colors = _points_of(path, arrays)
    viewmats, positions, offset = near_origin(f"{path}", viewmats, positions)
    seers = [lens_camera(*camera, None) for camera in zip(viewmats, Ks.double(), sizes, strict=True)]
    if len(positions):
        check_overlap(f"{path}", positions, seers)
    else:
        if count > 1:
            check_places(f"{path}", viewmats)
        positions = shared_points(f"{path}", points, seers, generator)
        colors = torch.full((points, 3), 0.5)
    return Views(tuple(images), viewmats.float(), Ks, positions.float(), colors, offset=offset)


def _points_of(path: Path, arrays: Mapping[str, npt.NDArray[np.generic]]) -> tuple[Tensor, Tensor]:
    """Points [P, 3], float64, and their colours; none if the file has none."""
    if "points" not in arrays:
        return torch.zeros(0, 3, dtype=torch.float64), torch.zeros(0, 3)
    positions = _as_doubles(arrays["points"], f"{path}: points")
    colors = _as_colors(arrays["colors"], f"{path}: colors") if "colors" in arrays else 0.5 + 0 * positions.float()
    if positions.ndim != 2 or positions.shape[1] != 3 or colors.shape != positions.shape or not len(positions):
        raise SceneError(
            f"{path}: points and colors must have shape [P, 3], found {list(positions.shape)} and {list(colors.shape)}"
        )
    return positions, colors


def _check_intrinsics(Ks: Tensor, size: tuple[int, int], what: str) -> None:
    """SceneError unless all intrinsics [C, 3, 3] are focal lengths and a principal point in pixels of this size."""
    others = Ks - torch.eye(3)
    for row, column in ((0, 0), (0, 2), (1, 1), (1, 2)):
        others[:, row, column] = 0
    bad = (others.abs() > _SAME).any(dim=2).any(dim=1)
    if bad.any():
        first = int(bad.int().argmax())
        raise SceneError(
            f"{what} must be fx 0 cx, 0 fy cy and 0 0 1, found {Ks[first].tolist()} for picture {first + 1}: there is "
            "no skew"
        )
    largest = float(Ks[:, :2].max())
    if largest < max(size) / 10:
        raise SceneError(f"{what} must be in pixels of {size[0]}x{size[1]}, found nothing above {largest:g}")


def _as_colors(values: npt.NDArray[np.generic], what: str) -> Tensor:
    """Values from 0 to 1, from integers or floating-point numbers."""
    _as_floats(values, what)
    found = unit_colors(values, values.dtype)
    if found.size and found.min() < _DARKEST:
        raise SceneError(
            f"{what} must be from 0 to 1, found {found.min():g}: is 0 in the middle between black and white?"
        )
    return torch.from_numpy(found).clamp(0, 1)


def _as_doubles(values: npt.NDArray[np.generic], what: str) -> Tensor:
    _as_floats(values, what)
    return torch.from_numpy(values.astype(np.float64))


def _as_floats(values: npt.NDArray[np.generic], what: str) -> Tensor:
    if values.dtype.kind not in "fiu":
        raise SceneError(f"{what} must be finite numbers, found {values.dtype}")
    with np.errstate(over="ignore"):  # values too large for float32 become infinite
        floats = values.astype(np.float32)
    if not np.isfinite(floats).all():
        raise SceneError(f"{what} must be finite numbers that float32 can hold, found others")
    return torch.from_numpy(floats)
