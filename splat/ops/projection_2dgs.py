"""From 2D Gaussians, flat discs in space, to discs in images (Huang et al., *2D Gaussian Splatting*, 2024).

Shapes: `...` leading batch dimensions, N Gaussians, C cameras of each batch, M visible pairs of camera and Gaussian,
ordered by batch, camera and Gaussian. In functions of torch, without kernels: drawing takes most of the time.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor

from .arguments import ProjectionSettings, Sizes, check_scene
from .autocast import in_float32
from .checks import shaped
from .defaults import EPS2D, FAR_PLANE, NEAR_PLANE
from .normals_2dgs import facing_normals
from .packing import SparseRows, Visible
from .projection import check_sparse, rotation_matrices

# Of the smallest extent in the image, in pixels^2, and of all, in standard deviations.
_MIN_VARIANCE: Final = 1e-4
_MAX_EXTENT: Final = 3.33


class Discs(NamedTuple):
    """The visible pairs [M, *]; all but the first two in the order of gsplat's results."""

    visible: Visible
    means: Tensor  # in world space
    radii: Tensor
    means2d: Tensor
    depths: Tensor
    ray_transforms: Tensor
    normals: Tensor  # in camera space


@in_float32
def fully_fused_projection_2dgs(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    eps2d: float = EPS2D,
    near_plane: float = NEAR_PLANE,
    far_plane: float = FAR_PLANE,
    radius_clip: float = 0.0,
    packed: bool = False,
    sparse_grad: bool = False,
) -> tuple[Tensor, ...]:
    """Project flat Gaussians into images, and cull those that are not visible.

    The same as gsplat 1.5.3's function. Differentiable with respect to means, quats, scales and viewmats.

    Args:
        means: [..., N, 3] centres; this and all other tensors float32, on one device.
        quats: [..., N, 4] rotations w, x, y, z; they need not be normalised. The third axis is the disc's normal.
        scales: [..., N, 3] standard deviations, of which the third is ignored.
        viewmats: [..., C, 4, 4] world-to-camera matrices.
        Ks: [..., C, 3, 3] intrinsics in pixels.
        width: image width in pixels.
        height: image height in pixels.
        eps2d: has no effect, as in gsplat: drawing has a filter of its own.
        near_plane: Gaussians nearer than this are culled.
        far_plane: Gaussians beyond this are culled.
        radius_clip: Gaussians whose radius is at most this along both axes are culled.
        packed: whether to return only the visible pairs.
        sparse_grad: as for `fully_fused_projection`.

    Returns:
        radii (int32 [..., C, N, 2]), means2d ([..., C, N, 2]), depths ([..., C, N]), ray_transforms ([..., C, N, 3, 3],
        from the disc, in standard deviations, to the image) and normals ([..., C, N, 3], in camera space, towards the
        camera); zeros where culled. If `packed`, first batch_ids, camera_ids and gaussian_ids (int64 [M]), then the
        same with [M] in place of [..., C, N].

    Raises:
        NotImplementedError: if Ks requires grad.
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    settings = ProjectionSettings(
        width=width,
        height=height,
        eps2d=eps2d,
        near_plane=near_plane,
        far_plane=far_plane,
        radius_clip=radius_clip,
    )
    sizes = check_scene(means=means, quats=quats, scales=scales, viewmats=viewmats, Ks=Ks)
    check_sparse(sparse_grad, packed, sizes)
    discs = project_discs(means, quats, scales, viewmats, Ks, sizes, settings, sparse_grad)
    if not packed:
        return tuple(dense(values, discs.visible, sizes) for values in discs[2:])
    visible = discs.visible
    return visible.batch_ids(sizes), visible.camera_ids(sizes), visible.gaussian_ids, *discs[2:]


def project_discs(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    sizes: Sizes,
    settings: ProjectionSettings,
    sparse_grad: bool,
    finite: Tensor | None = None,
) -> Discs:
    """The visible pairs, from checked arguments; not those whose other numbers are not `finite` [..., 1 or C, N].

    All pairs are projected without gradients first: where something is culled, it may have none.
    """
    rows = SparseRows()
    parameters = [rows.of(values) if sparse_grad else values for values in (means, quats, scales)]
    gaussians = [values.reshape(sizes.batches, 1, sizes.gaussians, values.shape[-1]) for values in parameters]
    views, intrinsics = viewmats.reshape(-1, 4, 4), Ks.reshape(-1, 3, 3)
    with torch.no_grad():
        cameras = sizes.batches, sizes.cameras, 1
        views_of, intrinsics_of = views.reshape(*cameras, 4, 4), intrinsics.reshape(*cameras, 3, 3)
        means, quats, scales = gaussians
        radii, seen = _bounds(*_image_discs(means, quats, scales, views_of, intrinsics_of)[:3], settings)
        if finite is not None:
            seen &= finite.expand(*sizes.batch, sizes.cameras, sizes.gaussians).reshape(seen.shape)
        batch, camera, gaussian = seen.nonzero(as_tuple=True)
    image = batch * sizes.cameras + camera
    if sparse_grad:
        rows.fill(gaussian)
    means, quats, scales = (values.flatten(0, 2)[batch * sizes.gaussians + gaussian] for values in gaussians)
    ray_transforms, means2d, _, normals = _image_discs(means, quats, scales, views[image], intrinsics[image])
    return Discs(
        Visible(image, gaussian),
        means,
        radii[batch, camera, gaussian],
        means2d,
        ray_transforms[..., 2, 2],
        ray_transforms,
        normals,
    )


def _image_discs(
    means: Tensor, quats: Tensor, scales: Tensor, viewmats: Tensor, Ks: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ray transforms [..., 3, 3], centres and variances [..., 2] of their bounds in the image, and normals [..., 3].

    The leading dimensions of discs and cameras fit. Sums instead of products, as in `quat_scale_to_covar_preci`.
    """
    turns = viewmats[..., :3, :3]
    centres = (turns * means[..., None, :]).sum(-1) + viewmats[..., :3, 3]
    axes = (turns[..., :, :, None] * rotation_matrices(quats)[..., None, :, :]).sum(-2)
    x, y, w = torch.stack(
        [axes[..., 0] * scales[..., 0, None], axes[..., 1] * scales[..., 1, None], centres], dim=-1
    ).unbind(-2)
    focal_x, focal_y, centre_x, centre_y = (Ks[..., i, j, None] for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    ray_transforms = torch.stack([focal_x * x + centre_x * w, focal_y * y + centre_y * w, w], dim=-2)
    # The bounds of the disc of one standard deviation, a conic in the image.
    signs = w.new_tensor([1.0, 1.0, -1.0])
    factors = (signs / (signs * w * w).sum(-1, keepdim=True))[..., None, :]
    image_rows = ray_transforms[..., :2, :]
    means2d = (factors * image_rows * w[..., None, :]).sum(-1)
    variances = means2d.square() - (factors * image_rows.square()).sum(-1)
    return ray_transforms, means2d, variances, facing_normals(axes, centres)


def _bounds(
    ray_transforms: Tensor, means2d: Tensor, variances: Tensor, settings: ProjectionSettings
) -> tuple[Tensor, Tensor]:
    """Radii, int32 [..., 2], and which discs are visible; none that is not finite is."""
    radii = (_MAX_EXTENT * variances.clamp_min(_MIN_VARIANCE).sqrt()).ceil()
    depths = ray_transforms[..., 2, 2]
    size = means2d.new_tensor([settings.width, settings.height])
    seen = (
        (depths > settings.near_plane)
        & (depths < settings.far_plane)
        & (radii > settings.radius_clip).any(-1)
        & ((means2d + radii > 0) & (means2d - radii < size)).all(-1)
        & ray_transforms.isfinite().all(-1).all(-1)
        & radii.isfinite().all(-1)
    )
    # A larger one covers every image anyway.
    return torch.where(seen[..., None], radii.clamp_max(2**30), 0).int(), seen


def dense(values: Tensor, visible: Visible, sizes: Sizes) -> Tensor:
    """[M, *] as [..., C, N, *], zeros where nothing is visible."""
    whole = values.new_zeros(sizes.images * sizes.gaussians, *values.shape[1:])
    whole = whole.index_copy(0, visible.image_ids * sizes.gaussians + visible.gaussian_ids, values)
    return shaped(whole, *sizes.batch, sizes.cameras, sizes.gaussians, *values.shape[1:])
