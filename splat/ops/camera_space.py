"""Gaussians in a camera's coordinates, and their images, as expressions of torch.

Shapes: `...` leading batch dimensions, N Gaussians, C cameras of each batch. `fully_fused_projection` does both steps
in one kernel, with culling; programs that go step by step call these.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .arguments import camera_model_named
from .autocast import in_float32
from .checks import MAX_SIDE, check_dimensions, check_shape, check_tensor, positive_int


@in_float32
def world_to_cam(means: Tensor, covars: Tensor, viewmats: Tensor) -> tuple[Tensor, Tensor]:
    r"""Centres and covariances in the cameras' coordinates, :math:`W m + t` and :math:`W \Sigma W^T`.

    Zwicker et al., *EWA Splatting* (2002), section 5. Differentiable. The same as gsplat 1.5.3's function.

    Args:
        means: float32 [..., N, 3] centres; the other tensors are on the same device.
        covars: float32 [..., N, 3, 3] covariances.
        viewmats: float32 [..., C, 4, 4] world-to-camera matrices; the last row is not used.

    Returns:
        float32 [..., C, N, 3] and [..., C, N, 3, 3].

    Raises:
        TypeError, ValueError: if a tensor is not float32, or the shapes do not fit together.
    """
    check_tensor("means", means)
    check_tensor("covars", covars, means)
    check_tensor("viewmats", viewmats, means)
    check_dimensions("means", means, 2, "[..., N, 3]")
    check_dimensions("viewmats", viewmats, 3, "[..., C, 4, 4]")
    batch, n, cameras = tuple(means.shape[:-2]), means.shape[-2], viewmats.shape[-3]
    check_shape("means", means, (*batch, n, 3), "[..., N, 3]")
    check_shape("covars", covars, (*batch, n, 3, 3), "[..., N, 3, 3]")
    check_shape("viewmats", viewmats, (*batch, cameras, 4, 4), "[..., C, 4, 4]")
    rotations = viewmats[..., :, None, :3, :3]
    centres = _product(rotations, means[..., None, :, :, None])[..., 0] + viewmats[..., :, None, :3, 3]
    return centres, _congruence(rotations, covars[..., None, :, :, :])


@in_float32
def proj(
    means: Tensor, covars: Tensor, Ks: Tensor, width: int, height: int, camera_model: str = "pinhole"
) -> tuple[Tensor, Tensor]:
    r"""Centres and covariances on the images, from those in the cameras' coordinates: :math:`J \Sigma J^T`.

    The EWA approximation of Zwicker et al., *EWA Splatting* (2002), section 5, without `eps2d` and without culling.
    Differentiable, with respect to Ks too. The same as gsplat 1.5.3's function.

    Args:
        means: float32 [..., C, N, 3] centres; the other tensors are on the same device.
        covars: float32 [..., C, N, 3, 3] covariances.
        Ks: float32 [..., C, 3, 3] intrinsics in pixels.
        width: image width in pixels; a pinhole camera's J is taken at most 0.3 half images outside.
        height: image height in pixels.
        camera_model: as for `rasterization`.

    Returns:
        float32 [..., C, N, 2], pixels, and [..., C, N, 2, 2].

    Raises:
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    model = camera_model_named(camera_model)
    width, height = positive_int("width", width, MAX_SIDE), positive_int("height", height, MAX_SIDE)
    check_tensor("means", means)
    check_tensor("covars", covars, means)
    check_tensor("Ks", Ks, means)
    check_dimensions("means", means, 3, "[..., C, N, 3]")
    lead = tuple(means.shape[:-1])
    check_shape("means", means, (*lead, 3), "[..., C, N, 3]")
    check_shape("covars", covars, (*lead, 3, 3), "[..., C, N, 3, 3]")
    check_shape("Ks", Ks, (*lead[:-1], 3, 3), "[..., C, 3, 3]")
    size = torch.tensor([width, height], dtype=torch.float32, device=means.device)
    focal = torch.stack([Ks[..., None, 0, 0], Ks[..., None, 1, 1]], dim=-1)  # [..., C, 1, 2]
    centre = torch.stack([Ks[..., None, 0, 2], Ks[..., None, 1, 2]], dim=-1)
    unit, rows = model.unit_image(means, focal, centre, size)
    return focal * unit + centre, _congruence(focal[..., None] * rows, covars)


def camera_to_world(viewmats: Tensor) -> tuple[Tensor, Tensor]:
    """Of cameras [..., 4, 4]: rotations [..., 3, 3] into the world, with a scale if they have one, and places [..., 3].

    By the inverse, as gsplat 1.5.3: its derivative by a pose is not that of the transpose, which `camera_centres` has,
    as 1.6.0. Sums, since torch can compute products with less precision.
    """
    back, _ = torch.linalg.inv_ex(viewmats[..., :3, :3])
    return back, -(back * viewmats[..., None, :3, 3]).sum(-1)


def camera_places(viewmats: Tensor, viewmats_rs: Tensor | None) -> Tensor:
    """Where cameras are, [..., 3], or half way between their two places."""
    _, places = camera_to_world(viewmats)
    return places if viewmats_rs is None else (places + camera_to_world(viewmats_rs)[1]) / 2


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Matrix products, by sums: torch can be set to compute its own with less precision than float32."""
    return (a[..., :, :, None] * b[..., None, :, :]).sum(-2)


def _congruence(a: Tensor, b: Tensor) -> Tensor:
    """a b a^T"""
    return _product(_product(a, b), a.mT)
