"""Checking what is passed to `splat.rasterization`.

Two kinds of refusal: `refuse_unsupported` for what gsplat can do and splat cannot yet (NotImplementedError),
and `check` for what is wrong (TypeError, ValueError). Every message names the argument, what is required and
what was found.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from enum import Enum
from typing import Final

import torch
from torch import Tensor

RENDER_MODES: Final = ("RGB", "D", "ED", "RGB+D", "RGB+ED")
RASTERIZE_MODES: Final = ("classic", "antialiased")
CAMERA_MODELS: Final = ("pinhole", "ortho", "fisheye", "ftheta")
MAX_SH_DEGREE: Final = 4
# What the kernels take: a tile's pixels are the threads of one CUDA block.
MAX_TILE_SIZE: Final = 32
MAX_SIDE: Final = 2**20


class RollingShutterType(Enum):
    """The readout order of the sensor. Only GLOBAL, all rows at once, can be rendered."""

    ROLLING_TOP_TO_BOTTOM = 0
    ROLLING_LEFT_TO_RIGHT = 1
    ROLLING_BOTTOM_TO_TOP = 2
    ROLLING_RIGHT_TO_LEFT = 3
    GLOBAL = 4


@dataclass(frozen=True)
class Arguments:
    """Checked inputs: N Gaussians and C cameras, float32 tensors on one device."""

    means: Tensor
    quats: Tensor
    scales: Tensor
    opacities: Tensor
    colors: Tensor
    """[N, D] or [C, N, D] values, or with `sh_degree` [N, K, 3] or [C, N, K, 3] coefficients."""
    viewmats: Tensor
    Ks: Tensor
    backgrounds: Tensor | None
    width: int
    height: int
    near_plane: float
    far_plane: float
    radius_clip: float
    eps2d: float
    sh_degree: int | None
    tile_size: int
    render_mode: str
    antialiased: bool

    @property
    def device(self) -> torch.device:
        """Where all the tensors are."""
        return self.means.device

    @property
    def cameras(self) -> int:
        """C, the number of images."""
        return self.viewmats.shape[0]

    @property
    def renders_color(self) -> bool:
        """Whether the image holds `colors`."""
        return self.render_mode.startswith("RGB")

    @property
    def renders_depth(self) -> bool:
        """Whether the image's last channel is depth."""
        return self.render_mode.endswith("D")

    @property
    def expects_depth(self) -> bool:
        """Whether the depth is divided by the accumulated opacity."""
        return self.render_mode.endswith("ED")


_DISTORTION = "undistort the images and their intrinsics before"
_GRADIENTS = "gradients are not implemented; leave it False and render under torch.no_grad()"
_WAYS_OUT: Final = {
    "covars": "pass quats and scales: eigenvectors and square roots of the eigenvalues of each covariance",
    "sparse_grad": _GRADIENTS,
    "absgrad": _GRADIENTS,
    "distributed": "let each process render its own cameras with all Gaussians",
    "segmented": "leave it False: the image is the same, only another sort is used",
    "with_ut": "leave it False: the projection is linearised at each Gaussian's mean",
    "with_eval3d": "leave it False: Gaussians are evaluated in the image plane",
    "radial_coeffs": _DISTORTION,
    "tangential_coeffs": _DISTORTION,
    "thin_prism_coeffs": _DISTORTION,
    "ftheta_coeffs": _DISTORTION,
    "viewmats_rs": "pass one pose per image, in viewmats",
}


def refuse_unsupported(camera_model: str, rolling_shutter: object, **values: object) -> None:
    """Raise NotImplementedError for a feature of gsplat that is not here yet.

    `values` are arguments, by name, for which None and False are the only values that work.
    """
    _one_of("camera_model", camera_model, CAMERA_MODELS)
    if camera_model != "pinhole":
        raise NotImplementedError(
            f"camera_model={camera_model!r} is not implemented, only 'pinhole' works; "
            "resample the images to a pinhole camera"
        )
    # By name, so that gsplat's own enumeration may be passed.
    if getattr(rolling_shutter, "name", None) != "GLOBAL":
        raise NotImplementedError(
            f"rolling_shutter={rolling_shutter} is not implemented, only GLOBAL works; pass one pose per image"
        )
    for name, value in values.items():
        if value is not None and value is not False:
            found = "a tensor" if isinstance(value, Tensor) else repr(value)
            raise NotImplementedError(f"{name} is not implemented (found {found}); {_WAYS_OUT[name]}")


def check(
    *,
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    near_plane: float,
    far_plane: float,
    radius_clip: float,
    eps2d: float,
    sh_degree: int | None,
    tile_size: int,
    backgrounds: Tensor | None,
    render_mode: str,
    rasterize_mode: str,
    channel_chunk: int,
) -> Arguments:
    """Check types and devices, then shapes, then values, so that the first message names the first cause."""
    tensors = {
        "means": means,
        "quats": quats,
        "scales": scales,
        "opacities": opacities,
        "colors": colors,
        "viewmats": viewmats,
        "Ks": Ks,
    }
    if backgrounds is not None:
        tensors["backgrounds"] = backgrounds
    for name, tensor in tensors.items():
        _check_tensor(name, tensor, means)

    _one_of("render_mode", render_mode, RENDER_MODES)
    _one_of("rasterize_mode", rasterize_mode, RASTERIZE_MODES)
    _positive_int("channel_chunk", channel_chunk)
    near_plane = _number("near_plane", near_plane)
    far_plane = _number("far_plane", far_plane, allow_infinity=True)
    if far_plane <= near_plane:
        raise ValueError(f"far_plane must be beyond near_plane, found {far_plane} and {near_plane}")

    _check_dimensions("means", means, 2, "[N, 3]")
    _check_dimensions("viewmats", viewmats, 3, "[C, 4, 4], with C = 1 for a single camera")
    n, c = means.shape[0], viewmats.shape[0]
    _check_shape("means", means, (n, 3), "[N, 3]")
    _check_shape("quats", quats, (n, 4), "[N, 4]")
    _check_shape("scales", scales, (n, 3), "[N, 3]")
    _check_shape("opacities", opacities, (n,), "[N]")
    _check_shape("viewmats", viewmats, (c, 4, 4), "[C, 4, 4]")
    _check_shape("Ks", Ks, (c, 3, 3), "[C, 3, 3]")
    sh_degree = _check_colors(colors, n, c, sh_degree)
    if backgrounds is not None and render_mode.startswith("RGB"):
        _check_shape("backgrounds", backgrounds, (c, colors.shape[-1]), "[C, D], with colors' D,")
    _check_cameras(viewmats, Ks)

    return Arguments(
        means=means,
        quats=quats,
        scales=scales,
        opacities=opacities,
        colors=colors,
        viewmats=viewmats,
        Ks=Ks,
        backgrounds=backgrounds,
        width=_positive_int("width", width, MAX_SIDE),
        height=_positive_int("height", height, MAX_SIDE),
        near_plane=near_plane,
        far_plane=far_plane,
        radius_clip=_number("radius_clip", radius_clip),
        eps2d=_number("eps2d", eps2d),
        sh_degree=sh_degree,
        tile_size=_positive_int("tile_size", tile_size, MAX_TILE_SIZE),
        render_mode=render_mode,
        antialiased=rasterize_mode == "antialiased",
    )


def _check_tensor(name: str, tensor: object, means: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a float32 torch.Tensor, found {type(tensor).__name__}")
    if tensor.dtype != torch.float32:
        raise TypeError(f"{name} must be float32, found {tensor.dtype}; pass {name}.float()")
    if tensor.device != means.device:
        raise ValueError(
            f"{name} must be on the device of means, {means.device}, found {tensor.device}; "
            f"pass {name}.to({str(means.device)!r})"
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError(
            f"{name} requires grad, and gradients are not implemented; "
            f"render under torch.no_grad() or pass {name}.detach()"
        )


def _check_dimensions(name: str, tensor: Tensor, dimensions: int, words: str) -> None:
    if tensor.ndim > dimensions:
        raise NotImplementedError(
            f"{name} of shape {_shape(tensor)} has leading batch dimensions, which are not implemented; "
            "call rasterization once for each scene (several cameras in one call do work)"
        )
    if tensor.ndim < dimensions:
        raise ValueError(f"{name} must have shape {words}, found {_shape(tensor)}")


def _check_shape(name: str, tensor: Tensor, shape: tuple[int, ...], words: str) -> None:
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} must have shape {words} = {list(shape)}, found {_shape(tensor)}")


def _check_colors(colors: Tensor, n: int, c: int, sh_degree: int | None) -> int | None:
    shape = tuple(colors.shape)
    if sh_degree is None:
        if shape[:-1] not in ((n,), (c, n)) or shape[-1] == 0:
            raise ValueError(
                f"colors must have shape [N, D] or [C, N, D] with N={n}, C={c} and D >= 1, "
                f"found {_shape(colors)}; for spherical harmonics [N, K, 3] pass sh_degree"
            )
        return None
    sh_degree = _int("sh_degree", sh_degree)
    if not 0 <= sh_degree <= MAX_SH_DEGREE:
        raise ValueError(f"sh_degree must be None or 0 to {MAX_SH_DEGREE}, found {sh_degree}")
    if shape[:-2] not in ((n,), (c, n)) or shape[-1] != 3:
        raise ValueError(
            f"with sh_degree, colors must have shape [N, K, 3] or [C, N, K, 3] with N={n} and C={c}, "
            f"found {_shape(colors)}"
        )
    if shape[-2] < (sh_degree + 1) ** 2:
        raise ValueError(
            f"sh_degree={sh_degree} needs K >= {(sh_degree + 1) ** 2} coefficients, "
            f"found colors of shape {_shape(colors)}"
        )
    return sh_degree


def _check_cameras(viewmats: Tensor, Ks: Tensor) -> None:
    """One copy to the CPU each: cameras are few, and a bad one gives a black image without a word."""
    poses, intrinsics = viewmats.detach().cpu(), Ks.detach().cpu()
    for name, values in (("viewmats", poses), ("Ks", intrinsics)):
        for camera in (~torch.isfinite(values)).flatten(1).any(1).nonzero().flatten().tolist():
            raise ValueError(f"{name} must be finite, found {name}[{camera}] = {values[camera].tolist()}")
    for camera in (torch.linalg.det(poses.double()) == 0).nonzero().flatten().tolist():
        raise ValueError(f"viewmats must be invertible, found viewmats[{camera}] = {poses[camera].tolist()}")
    focal = intrinsics[:, (0, 1), (0, 1)]
    for camera in (focal <= 0).any(1).nonzero().flatten().tolist():
        raise ValueError(f"Ks must have focal lengths above 0, found Ks[{camera}] with {focal[camera].tolist()}")


def _one_of(name: str, value: str, values: tuple[str, ...]) -> None:
    if value not in values:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, values))}, found {value!r}")


def _int(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an int, found {value!r} ({type(value).__name__})") from None


def _positive_int(name: str, value: int, most: int | None = None) -> int:
    number = _int(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be above 0, found {number}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, found {number}")
    return number


def _number(name: str, value: float, allow_infinity: bool = False) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, found {value!r} ({type(value).__name__})") from None
    if not number >= 0 or (math.isinf(number) and not allow_infinity):
        raise ValueError(f"{name} must be {'' if allow_infinity else 'finite and '}at least 0, found {number}")
    return number


def _shape(tensor: Tensor) -> str:
    return str(list(tensor.shape))
