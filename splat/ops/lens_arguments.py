"""Checking the arguments about lenses and shutters.

Shapes: `...` leading batch dimensions, C cameras of each batch.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor

from .arguments import LensArguments, RollingShutterType, Sizes
from .checks import check_shape, check_tensor, one_of
from .lens_cameras import LENS_COEFFICIENTS, LensCameras
from .lenses import FThetaCameraDistortionParameters, FThetaPolynomialType

_SHUTTERS: Final = tuple(each.name for each in RollingShutterType)


def check_lens_cameras(
    sizes: Sizes,
    means: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    camera_model: str,
    given: LensArguments,
) -> LensCameras:
    """Check lenses and shutters, of cameras whose other arguments were checked.

    Raises:
        TypeError, ValueError: one is wrong, or does not fit the others.
        NotImplementedError: one requires a gradient.
    """
    radial_coeffs, tangential_coeffs, thin_prism_coeffs, ftheta_coeffs, rolling_shutter, viewmats_rs = given
    counts = LENS_COEFFICIENTS[one_of("camera_model", camera_model, tuple(LENS_COEFFICIENTS))]
    tensors = {
        "radial_coeffs": radial_coeffs,
        "tangential_coeffs": tangential_coeffs,
        "thin_prism_coeffs": thin_prism_coeffs,
    }
    images = (*sizes.batch, sizes.cameras)
    flat: list[Tensor | None] = []
    for (name, tensor), count in zip(tensors.items(), counts, strict=True):
        if tensor is not None and count == 0:
            raise ValueError(f"{name} must be None for camera_model={camera_model!r}, whose lens has no such part")
        if tensor is not None:
            check_constant(name, tensor, means)
            check_shape(name, tensor, (*images, count), f"[..., C, {count}] for camera_model={camera_model!r}")
        flat.append(None if tensor is None else tensor.reshape(-1, count))
    ftheta = None if ftheta_coeffs is None else _checked_ftheta(ftheta_coeffs)
    if (ftheta is None) == (camera_model == "ftheta"):
        needed = "FThetaCameraDistortionParameters" if ftheta is None else "None"
        raise ValueError(f"ftheta_coeffs must be {needed} for camera_model={camera_model!r}, found {ftheta_coeffs!r}")
    # Compared by name, so that gsplat's own enumeration works too.
    shutter = one_of("rolling_shutter", getattr(rolling_shutter, "name", str(rolling_shutter)), _SHUTTERS)
    if (viewmats_rs is None) != (shutter == "GLOBAL"):
        found = "found none" if viewmats_rs is None else "found a tensor"
        needed = "None" if shutter == "GLOBAL" else "the poses when the last row or column is taken"
        raise ValueError(f"viewmats_rs must be {needed} for rolling_shutter={shutter}, {found}")
    _check_rotations("viewmats", viewmats)
    if viewmats_rs is not None:
        check_constant("viewmats_rs", viewmats_rs, means)
        check_shape("viewmats_rs", viewmats_rs, (*images, 4, 4), "[..., C, 4, 4]")
        _check_rotations("viewmats_rs", viewmats_rs)
        viewmats_rs = viewmats_rs.reshape(-1, 4, 4)
    poses, matrices = viewmats.reshape(-1, 4, 4), Ks.reshape(-1, 3, 3)
    return LensCameras(camera_model, width, height, poses, matrices, tuple(flat), ftheta, shutter, viewmats_rs)


def _checked_ftheta(given: Any) -> FThetaCameraDistortionParameters:
    """gsplat's objects, too."""
    try:
        return FThetaCameraDistortionParameters(
            FThetaPolynomialType[given.reference_poly.name],
            _numbers(given.pixeldist_to_angle_poly, 6),  # type: ignore[arg-type]
            _numbers(given.angle_to_pixeldist_poly, 6),  # type: ignore[arg-type]
            float(given.max_angle),
            _numbers(given.linear_cde, 3),  # type: ignore[arg-type]
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise TypeError(
            "ftheta_coeffs must be FThetaCameraDistortionParameters, with polynomials of 6 numbers and a linear_cde of "
            f"3, found {given!r} ({error})"
        ) from None


def _numbers(values: Any, count: int) -> tuple[float, ...]:
    found = tuple(map(float, values))
    if len(found) != count or not all(map(math.isfinite, found)):
        raise ValueError(f"{count} finite numbers required")
    return found


def check_constant(name: str, tensor: Tensor, means: Tensor) -> None:
    """Raise NotImplementedError for a tensor that requires a gradient which neither projection nor rays have."""
    check_tensor(name, tensor, means)
    if not (tensor.is_cuda or torch.compiler.is_compiling() or tensor.isfinite().all()):
        raise ValueError(f"{name} must be finite, found {tensor.tolist()}")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError(
            f"{name} requires grad, and there is no gradient of lenses, shutters and rays; pass {name}.detach()"
        )


def _check_rotations(name: str, viewmats: Tensor) -> None:
    """Raise ValueError unless they are poses: rays go back the other way. On a GPU, checking would wait for it."""
    if viewmats.is_cuda or torch.compiler.is_compiling():
        return
    rotations = viewmats.detach()[..., :3, :3].double()
    off = (rotations @ rotations.mT - torch.eye(3, dtype=torch.float64, device=rotations.device)).abs()
    if not (off < 1e-3).all() or not (torch.linalg.det(rotations) > 0).all():
        raise ValueError(
            f"{name} must have rotations without scale, for lenses and rays, found {viewmats.tolist()}; divide each by "
            "its scale"
        )
