"""Spherical harmonics: colours that depend on the viewing direction.

Shapes: K coefficients of spherical harmonics, of which (degree + 1)^2 are used.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import _kernels
from .arguments import check_sh_degree
from .autocast import in_float32
from .checks import check_count, check_dimensions, check_shape, check_tensor, shape_of


@in_float32
def spherical_harmonics(
    degrees_to_use: int,
    dirs: Tensor,
    coeffs: Tensor,
    masks: Tensor | None = None,
) -> Tensor:
    """Sums of real spherical harmonics, in the order and with the signs of 3DGS.

    The same as gsplat 1.5.3's function, except that `coeffs` may broadcast, so that many cameras can share one set.
    Differentiable with respect to dirs and coeffs.

    Args:
        degrees_to_use: 0 to 4.
        dirs: float32 [..., 3] directions; they need not be normalised.
        coeffs: float32 [..., K, 3] with K >= (degree + 1)^2; leading dimensions may be 1 where those of dirs are not.
        masks: bool [...]; where it is False, nothing is computed, and the result and the gradients are 0.

    Returns:
        float32 [..., 3]

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
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
