"""Spherical harmonics: colours that depend on the viewing direction.

Shapes: K coefficients of spherical harmonics, of which (degree + 1)^2 are used.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, overload

import torch
from torch import Tensor
from torch.nn.functional import pad

from .. import _kernels
from .arguments import check_sh_degree
from .autocast import in_float32, widened
from .checks import check_channels, check_count, check_dimensions, check_ids, check_shape, check_tensor, shape_of


@overload
def spherical_harmonics(degrees_to_use: int, dirs: Tensor, coeffs: Tensor, masks: Tensor | None = None) -> Tensor: ...
@overload
def spherical_harmonics(
    degrees_to_use: int,
    means: Tensor,
    viewmats: Tensor,
    coeffs: Tensor,
    masks: Tensor | None = None,
    batch_ids: Tensor | None = None,
    camera_ids: Tensor | None = None,
    gaussian_ids: Tensor | None = None,
    viewmats_rs: Tensor | None = None,
) -> Tensor: ...
@in_float32
def spherical_harmonics(degrees_to_use: int, *args: Any, **kwargs: Any) -> Tensor:
    """Sums of real spherical harmonics, in the order and with the signs of 3DGS.

    With dirs, coeffs and masks, the same as gsplat 1.5.3's function, except that `coeffs` may broadcast, so that many
    cameras can share one set. With means, viewmats and coeffs, the same as gsplat 1.6.0's: the directions are those
    from cameras to Gaussians. Differentiable with respect to every tensor of numbers.

    Args:
        degrees_to_use: 0 to 4.
        dirs: float32 [..., 3] directions; they need not be normalised.
        coeffs: float32 [..., K, 3] with K >= (degree + 1)^2; leading dimensions may be 1 where those of dirs are not.
            With `means`, float32 or float16 [N, K, D] for all cameras, or [M, K, D] for the pairs of `gaussian_ids`.
        masks: bool [...]; where it is False, nothing is computed, and the result and the gradients are 0.
        means: float32 [..., N, 3].
        viewmats: float32 [..., C, 4, 4], without scale or shear.
        batch_ids: int64 [M], with `camera_ids` and `gaussian_ids`: for M pairs alone.
        camera_ids: int64 [M].
        gaussian_ids: int64 [M].
        viewmats_rs: float32 [..., C, 4, 4]; with it, each camera is half way between its two places.

    Returns:
        float32 [..., 3]; with `means`, [..., C, N, D] or [M, D].

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    # Coefficients end in 3.
    second_is_camera = len(args) > 1 and isinstance(args[1], Tensor) and args[1].shape[-2:] == (4, 4)
    if second_is_camera or kwargs.keys() & {"means", "viewmats"}:
        return _harmonics_of_cameras(degrees_to_use, *args, **kwargs)
    return _harmonics(degrees_to_use, *args, **kwargs)


def _harmonics(degrees_to_use: int, dirs: Tensor, coeffs: Tensor, masks: Tensor | None = None) -> Tensor:
    check_tensor("dirs", dirs)
    check_tensor("coeffs", coeffs, dirs)
    check_dimensions("coeffs", coeffs, 2, "[..., K, 3]")
    lead, own = tuple(dirs.shape[:-1]), tuple(coeffs.shape[:-2])
    check_shape("dirs", dirs, (*lead, 3), "[..., 3]")
    if len(own) != len(lead) or any(a not in (1, b) for a, b in zip(own, lead, strict=True)) or coeffs.shape[-1] != 3:
        raise ValueError(
            f"coeffs must have shape [..., K, 3] with ... = {list(lead)} as in dirs, or 1, found {shape_of(coeffs)}"
        )
    check_count("directions", *lead, remedy="take fewer at once")
    if masks is not None:
        check_tensor("masks", masks, dirs, torch.bool)
        check_shape("masks", masks, lead, "[...]")
    degree = check_sh_degree(degrees_to_use, coeffs.shape[-2], "degrees_to_use")
    _kernels.require_for(dirs, coeffs)

    # The operator takes directions [I, N, 3] and coefficients [1, N, K, 3]: dimensions that share coefficients come
    # first and become I, the others become N.
    shared = [i for i, size in enumerate(own) if size != lead[i]]
    order = [*shared, *(i for i in range(len(lead)) if i not in shared)]
    sizes = [lead[i] for i in order]
    flat = (math.prod(sizes[: len(shared)]), math.prod(sizes[len(shared) :]))
    values: Tensor = torch.ops.splat.spherical_harmonics(
        degree,
        dirs.permute(*order, -1).reshape(*flat, 3),
        coeffs.reshape(1, flat[1], *coeffs.shape[-2:]),
        None if masks is None else masks.permute(order).reshape(flat),
    )
    back = sorted(range(len(order)), key=order.__getitem__)
    return values.reshape(*sizes, 3).permute(*back, -1)


spherical_harmonics.__signature__ = inspect.signature(_harmonics)  # type: ignore[attr-defined] # of 1.5.3, for help()


def _harmonics_of_cameras(
    degrees_to_use: int,
    means: Tensor,
    viewmats: Tensor,
    coeffs: Tensor,
    masks: Tensor | None = None,
    batch_ids: Tensor | None = None,
    camera_ids: Tensor | None = None,
    gaussian_ids: Tensor | None = None,
    viewmats_rs: Tensor | None = None,
) -> Tensor:
    check_tensor("means", means)
    check_dimensions("means", means, 2, "[..., N, 3]")
    *batch, count = means.shape[:-1]
    check_shape("means", means, (*batch, count, 3), "[..., N, 3]")
    check_tensor("viewmats", viewmats, means)
    check_dimensions("viewmats", viewmats, 3, "[..., C, 4, 4]")
    cameras = viewmats.shape[-3]
    check_shape("viewmats", viewmats, (*batch, cameras, 4, 4), "[..., C, 4, 4]")
    places = camera_centres(viewmats)
    if viewmats_rs is not None:
        check_tensor("viewmats_rs", viewmats_rs, means)
        check_shape("viewmats_rs", viewmats_rs, viewmats.shape, "[..., C, 4, 4]")
        places = (places + camera_centres(viewmats_rs)) / 2
    ids = {"batch_ids": batch_ids, "camera_ids": camera_ids, "gaussian_ids": gaussian_ids}
    given = [each for each in ids.values() if each is not None]
    if len(given) not in (0, 3):
        raise ValueError(
            f"batch_ids, camera_ids and gaussian_ids are required together; missing: "
            f"{', '.join(name for name, each in ids.items() if each is None)}"
        )
    if given:
        for name, each, limit in zip(ids, given, (math.prod(batch), cameras, count), strict=True):
            check_tensor(name, each, means, torch.int64)
            # On a GPU, checking would wait for it; in a graph they have no values yet.
            if not (each.is_cuda or torch.compiler.is_compiling()):
                check_ids(name, each, limit)
        scenes, views, rows = given
        dirs = means.reshape(-1, 3)[scenes * count + rows] - places.reshape(-1, 3)[scenes * cameras + views]
    else:
        dirs = means[..., None, :, :] - places[..., None, :]
    return harmonics_of_channels(degrees_to_use, dirs, coeffs, masks)


def harmonics_of_channels(degrees_to_use: int, dirs: Tensor, coeffs: Tensor, masks: Tensor | None) -> Tensor:
    """`spherical_harmonics` of directions [..., N, 3] with any number of channels: coeffs [N, K, D]."""
    coeffs = widened(coeffs)
    check_tensor("coeffs", coeffs, dirs)
    check_dimensions("coeffs", coeffs, 3, "[N, K, D]")
    channels = coeffs.shape[-1]
    check_shape("coeffs", coeffs, (dirs.shape[-2], *coeffs.shape[-2:]), "[N, K, D], or [M, K, D] with ids,")
    check_channels(coeffs, name="coeffs")
    # The operator takes three channels at a time.
    shared = pad(coeffs, (0, -channels % 3))[(None,) * (dirs.ndim - 2)]
    parts = [_harmonics(degrees_to_use, dirs, shared[..., first : first + 3], masks) for first in range(0, channels, 3)]
    return torch.cat(parts, dim=-1)[..., :channels]


def camera_centres(viewmats: Tensor) -> Tensor:
    """Where cameras [..., 4, 4] without scale or shear are, [..., 3]: -R^T t."""
    return -(viewmats[..., :3, :3] * viewmats[..., :3, 3:]).sum(-2)
