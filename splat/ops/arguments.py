"""Checking the arguments of `splat.rasterization` and of the functions it is made of.

The checks raise TypeError or ValueError. Types and devices are checked first, then shapes, then values, so that the
first message names the first cause.

Shapes: `...` leading batch dimensions, N Gaussians, C cameras of each batch, D channels, K coefficients.
"""

from __future__ import annotations

import math
from copy import copy
from enum import Enum
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from .camera_models import CAMERA_MODELS, CameraModel
from .checks import (
    MAX_COUNT,
    MAX_SIDE,
    MAX_TILES,
    check_backgrounds,
    check_channels,
    check_count,
    check_dimensions,
    check_shape,
    check_tensor,
    integer,
    number,
    one_of,
    positive_int,
    shape_of,
)

RenderMode = Literal["RGB", "D", "ED", "RGB+D", "RGB+ED"]
RasterizeMode = Literal["classic", "antialiased"]
RENDER_MODES: Final[tuple[str, ...]] = get_args(RenderMode)
RASTERIZE_MODES: Final[tuple[str, ...]] = get_args(RasterizeMode)
MAX_SH_DEGREE: Final = 4


class RollingShutterType(Enum):
    """The order in which a sensor's rows or columns are read; GLOBAL: all at once."""

    ROLLING_TOP_TO_BOTTOM = 0
    ROLLING_LEFT_TO_RIGHT = 1
    ROLLING_BOTTOM_TO_TOP = 2
    ROLLING_RIGHT_TO_LEFT = 3
    GLOBAL = 4


class LensArguments(NamedTuple):
    """Arguments about lenses and shutters, as they are given."""

    radial_coeffs: Tensor | None = None
    tangential_coeffs: Tensor | None = None
    thin_prism_coeffs: Tensor | None = None
    ftheta_coeffs: Any = None
    rolling_shutter: Any = RollingShutterType.GLOBAL
    viewmats_rs: Tensor | None = None


def camera_model_named(name: str) -> CameraModel:
    """A row of `CAMERA_MODELS`: ValueError for another name."""
    if name == "ftheta":
        raise ValueError(
            f"camera_model must be one of {', '.join(map(repr, CAMERA_MODELS))} here, found 'ftheta', which needs the "
            "unscented transform: rasterization(with_ut=True), or fully_fused_projection_with_ut"
        )
    return CAMERA_MODELS[one_of("camera_model", name, tuple(CAMERA_MODELS))]


def without_ftheta(name: str) -> str:
    """The camera model whose intrinsics those of this one are checked as: "ftheta" uses the principal point alone."""
    return "fisheye" if name == "ftheta" else name


def has_lens(given: LensArguments) -> bool:
    """Whether any is not what it is by default."""
    *coefficients, rolling_shutter, viewmats_rs = given
    # Compared by name, so that gsplat's own enumeration works too.
    is_global = getattr(rolling_shutter, "name", "") == "GLOBAL"
    return not is_global or any(each is not None for each in (*coefficients, viewmats_rs))


class ProjectionSettings:
    """How Gaussians are projected; checked values. `camera_model` is its number in the operators.

    Without `z_order`, the depths of the unscented transform are distances; `ut_params` are its parameters.

    Raises:
        TypeError, ValueError: one of them is wrong.
    """

    def __init__(
        self,
        *,
        width: int,
        height: int,
        eps2d: float,
        near_plane: float,
        far_plane: float,
        radius_clip: float,
        antialiased: bool = False,
        camera_model: str = "pinhole",
        z_order: bool = True,
        ut_params: object | None = None,
    ) -> None:
        self.z_order, self.ut_params = z_order, ut_params
        self.camera_model = list(CAMERA_MODELS).index(camera_model_named(camera_model).name)
        self.near_plane = number("near_plane", near_plane)
        self.far_plane = number("far_plane", far_plane, allow_infinity=True)
        if self.far_plane <= self.near_plane:
            raise ValueError(f"far_plane must be beyond near_plane, found {self.far_plane} and {self.near_plane}")
        self.width = positive_int("width", width, MAX_SIDE)
        self.height = positive_int("height", height, MAX_SIDE)
        self.eps2d = number("eps2d", eps2d)
        self.radius_clip = number("radius_clip", radius_clip)
        self.antialiased = bool(antialiased)

    def for_images(self, width: int, height: int) -> ProjectionSettings:
        """The same for images of another size, which was checked."""
        other = copy(self)
        other.width, other.height = width, height
        return other


class Sizes:
    """The sizes on which the shapes of Gaussians and cameras agree: of `batches` scenes, `images`, C for each."""

    def __init__(self, batch: tuple[int, ...], gaussians: int, cameras: int) -> None:
        self.batch = batch
        self.gaussians = gaussians
        self.cameras = cameras
        self.batches = math.prod(batch)
        self.images = self.batches * cameras


def check_scene(
    *,
    means: Tensor,
    quats: Tensor | None,
    scales: Tensor | None,
    covars: Tensor | None = None,
    covars_shape: tuple[int, ...] = (),
    opacities: Tensor | None = None,
    opacities_required: bool = False,
    viewmats: Tensor,
    Ks: Tensor,
    camera_model: str = "pinhole",
) -> Sizes:
    """Check Gaussians and cameras. `covars_shape` is the shape of one covariance: (6,) or (3, 3)."""
    if covars is None and (quats is None or scales is None):
        missing = " and ".join(name for name, value in (("quats", quats), ("scales", scales)) if value is None)
        raise ValueError(f"quats and scales, or covars, are required; found no covars and no {missing}")
    tensors = {"means": means, "quats": quats, "scales": scales, "covars": covars, "opacities": opacities}
    required = ("means", "opacities") if opacities_required else ("means",)  # checked whatever they are
    given: dict[str, Any] = {name: each for name, each in tensors.items() if each is not None or name in required}
    for name, tensor in {**given, "viewmats": viewmats, "Ks": Ks}.items():
        check_tensor(name, tensor, None if tensor is means else means)
    if Ks.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError(
            "Ks requires grad, and gradients for the intrinsics are not implemented; pass Ks.detach()"
        )

    check_dimensions("means", means, 2, "[..., N, 3]")
    check_dimensions("viewmats", viewmats, 3, "[..., C, 4, 4], with C = 1 for a single camera")
    batch, n, c = tuple(means.shape[:-2]), means.shape[-2], viewmats.shape[-3]
    if 0 in batch:
        raise ValueError(f"means must have batch dimensions above 0, found {shape_of(means)}")
    endings: dict[str, tuple[int, ...]] = {
        "means": (3,), "quats": (4,), "scales": (3,), "covars": covars_shape, "opacities": (),
    }  # fmt: skip
    for name, tensor in given.items():
        if tensor.shape != (shape := (*batch, n, *endings[name])):
            check_shape(name, tensor, shape, f"[{', '.join(['...', 'N', *map(str, endings[name])])}]")
    check_shape("viewmats", viewmats, (*batch, c, 4, 4), "[..., C, 4, 4]")
    check_shape("Ks", Ks, (*batch, c, 3, 3), "[..., C, 3, 3]")
    sizes = Sizes(batch, n, c)
    check_count("images", sizes.images, most=MAX_TILES)
    check_count("images x Gaussians", max(sizes.images, sizes.batches), n)
    # Checking cameras on a GPU would wait for it, and those of a graph have no values yet.
    if not (viewmats.is_cuda or torch.compiler.is_compiling()):
        views, intrinsics = (cameras.detach().flatten(0, -3).tolist() for cameras in (viewmats, Ks))
        _check_camera_values(views, intrinsics, camera_model_named(camera_model))
    return sizes


def _check_camera_values(viewmats: list[list[list[float]]], Ks: list[list[list[float]]], model: CameraModel) -> None:
    """Cameras are few, so checking them is cheap; a bad one would silently give a black image.

    As numbers of Python, since the first call of each function of torch takes longer than all of them.
    """
    for name, cameras in (("viewmats", viewmats), ("Ks", Ks)):
        for i, rows in enumerate(cameras):
            if not all(map(math.isfinite, chain.from_iterable(rows))):
                raise ValueError(f"{name} must be finite, found {name}[{i}] = {rows}")
    for i, rows in enumerate(viewmats):
        if _determinant(rows) == 0:
            raise ValueError(f"viewmats must be invertible, found viewmats[{i}] = {rows}")
    for i, ((fx, *_), (_, fy, _), _) in enumerate(Ks):
        if model.flips and (fx == 0 or fy == 0):
            raise ValueError(f"Ks must have focal lengths other than 0, found Ks[{i}] with {[fx, fy]}")
        if not model.flips and (fx <= 0 or fy <= 0):
            flipping = " or ".join(repr(other.name) for other in CAMERA_MODELS.values() if other.flips)
            raise ValueError(
                f"Ks must have focal lengths above 0, found Ks[{i}] with {[fx, fy]}; to flip an axis of a {model.name} "
                f"camera, negate a row of viewmats, or use camera_model={flipping}"
            )


def _determinant(viewmat: list[list[float]]) -> float:
    """Of the rotation; the last row is taken to be 0, 0, 0, 1."""
    (a, b, c, _), (d, e, f, _), (g, h, i, _), _ = viewmat
    return a * (e * i - f * h) + b * (f * g - d * i) + c * (d * h - e * g)


def check_distributed(sizes: Sizes, per_camera: bool) -> None:
    """Raise ValueError for what cannot be spread over processes."""
    if sizes.batch:
        raise ValueError(f"distributed=True needs Gaussians without batch dimensions, found {list(sizes.batch)}")
    if per_camera:
        raise ValueError(
            "distributed=True needs one set of colours, [N, D] or [N, K, 3], as the cameras are those of all ranks; "
            "found one for each camera"
        )


def checked_capacity(capacity: int | None, packed: bool, distributed: bool) -> int | None:
    """The room for pairs of Gaussian and tile, if any; ValueError where the layout does not allow one."""
    if capacity is None:
        return None
    if packed or distributed:
        raise ValueError(
            "capacity needs packed=False and distributed=False: other layouts wait for their own sizes; found "
            f"packed={packed} and distributed={distributed}"
        )
    return positive_int("capacity", capacity, MAX_COUNT)


def check_sh_degree(degree: int, bases: int, name: str = "sh_degree") -> int:
    """Check a degree of spherical harmonics: 0 to 4, with no more coefficients than `bases`."""
    degree = integer(name, degree)
    if not 0 <= degree <= MAX_SH_DEGREE:
        raise ValueError(f"{name} must be 0 to {MAX_SH_DEGREE}, found {degree}")
    if bases < (degree + 1) ** 2:
        raise ValueError(f"{name}={degree} needs K >= {(degree + 1) ** 2} coefficients, found {bases}")
    return degree


def check_colors(
    colors: Tensor | None,
    backgrounds: Tensor | None,
    sizes: Sizes,
    sh_degree: int | None,
    means: Tensor,
    render_mode: str,
    more: int = 0,
) -> bool:
    """Check the colours and backgrounds of `rasterization`, which has `more` channels behind the colours'; return
    whether each camera has its own colours.
    """
    for name, tensor in (("colors", colors), ("backgrounds", backgrounds)):
        if tensor is not None:
            check_tensor(name, tensor, means)
            check_dimensions(name, tensor, 1, "[..., D]")
    batch, n, c = sizes.batch, sizes.gaussians, sizes.cameras
    shown = (colors.shape[-1] if colors is not None and render_mode.startswith("RGB") else 0) + more
    if backgrounds is not None and shown:
        check_backgrounds(backgrounds, (*batch, c), shown)
    if colors is None:
        if render_mode.startswith("RGB"):
            raise ValueError(f"colors=None needs a render_mode of depth alone, 'D' or 'ED', found {render_mode!r}")
        return False
    facts = f"N={n}, C={c}" + (f" and batch {list(batch)}" if batch else "")
    shape = tuple(colors.shape)
    if sh_degree is None:
        if shape[:-1] not in ((*batch, n), (*batch, c, n)) or shape[-1] == 0:
            raise ValueError(
                f"colors must have shape [..., N, D] or [..., C, N, D] with {facts} and D >= 1, "
                f"found {shape_of(colors)}; for spherical harmonics [..., N, K, 3] pass sh_degree"
            )
        check_channels(colors, more=more + render_mode.startswith("RGB+"))
    else:
        if shape[:-2] not in ((*batch, n), (*batch, c, n)) or shape[-1] != 3:
            raise ValueError(
                f"with sh_degree, colors must have shape [..., N, K, 3] or [..., C, N, K, 3] with {facts}, "
                f"found {shape_of(colors)}"
            )
        check_sh_degree(sh_degree, shape[-2])
    return len(shape) == len(batch) + (3 if sh_degree is None else 4)
