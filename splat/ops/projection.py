"""From Gaussians in space to Gaussians in images: covariances and their projection.

Shapes: `...` leading batch dimensions, N Gaussians, C cameras of each batch, M visible pairs of camera and Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _kernels
from .arguments import ProjectionSettings, Sizes, check_scene
from .autocast import in_float32
from .checks import check_shape, check_tensor
from .defaults import EPS2D, FAR_PLANE, NEAR_PLANE
from .packing import SparseRows, Splats, pack

Projected = tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]
PackedProjected = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]

# Row-major entries of the upper triangle of a 3 x 3 matrix: xx, xy, xz, yy, yz, zz.
_TRIANGLE = (0, 1, 2, 4, 5, 8)


@in_float32
def quat_scale_to_covar_preci(
    quats: Tensor,
    scales: Tensor,
    compute_covar: bool = True,
    compute_preci: bool = True,
    triu: bool = False,
) -> tuple[Tensor | None, Tensor | None]:
    r"""Covariances :math:`R S S R^T` and their inverses, of Gaussians given by rotations and standard deviations.

    Kerbl et al. (2023), equation 6. Differentiable. The same as gsplat 1.5.3's function.

    Args:
        quats: [..., 4] float32 quaternions w, x, y, z; they need not be normalised. One that is no rotation, because
            its length is 0 (or its square no normal float32), gives NaN and has a gradient of 0; what is made with
            such a covariance is left out, as it is by `rasterization` itself.
        scales: [..., 3] float32 standard deviations.
        compute_covar: whether to compute the covariances.
        compute_preci: whether to compute the inverses.
        triu: whether to return upper triangles, xx, xy, xz, yy, yz, zz.

    Returns:
        Covariances and inverses, [..., 3, 3], or [..., 6] if `triu`; None for what is not computed.

    Raises:
        TypeError, ValueError: if a tensor is not float32, or the shapes do not fit together.
    """
    check_tensor("quats", quats)
    check_tensor("scales", scales, quats)
    check_shape("quats", quats, (*quats.shape[:-1], 4), "[..., 4]")
    check_shape("scales", scales, (*quats.shape[:-1], 3), "[..., 3]")
    axes = rotation_matrices(quats)

    def matrices(power: int) -> Tensor:
        # Others where this or its derivative is not finite: that is NaN times a gradient of 0.
        numbers = torch.stack([axes[..., 0], scales.pow(power), scales.pow(power - 1)]).detach()
        exists = numbers.isfinite().all(0).all(-1)[..., None, None]
        safe = torch.where(exists, axes, 0.0), torch.where(exists[..., 0], scales, 1.0)
        full = torch.where(exists, _products(*safe, power), _products(axes.detach(), scales.detach(), power))
        return upper_triangles(full) if triu else full

    return matrices(2) if compute_covar else None, matrices(-2) if compute_preci else None


def _products(axes: Tensor, scales: Tensor, power: int) -> Tensor:
    # Sums instead of a matrix product, which torch can be set to compute with less precision than float32.
    return (axes[..., :, None, :] * scales.pow(power)[..., None, None, :] * axes[..., None, :, :]).sum(-1)


def rotation_matrices(quats: Tensor) -> Tensor:
    """Rotation matrices [..., 3, 3]; NaN for what is none to the kernels (`unit_quaternion` in csrc/math/vec.h)."""
    length2 = quats.detach().square().sum(-1, keepdim=True)
    is_rotation = (length2 >= torch.finfo(torch.float32).tiny) & (length2 < math.inf)
    # Of another quaternion where there is none, and NaN afterwards: so the gradients of both are 0, not NaN.
    quats = torch.where(is_rotation, quats, 1.0)
    w, x, y, z = (quats / quats.square().sum(-1, keepdim=True).sqrt()).unbind(-1)
    entries = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]  # fmt: skip
    return torch.where(is_rotation, torch.stack(entries, dim=-1), math.nan).reshape(*quats.shape[:-1], 3, 3)


def upper_triangles(matrices: Tensor) -> Tensor:
    """[..., 3, 3] to [..., 6]."""
    return matrices.flatten(-2)[..., _TRIANGLE]


@in_float32
def fully_fused_projection(
    means: Tensor,
    covars: Tensor | None,
    quats: Tensor | None,
    scales: Tensor | None,
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
    calc_compensations: bool = False,
    camera_model: str = "pinhole",
    opacities: Tensor | None = None,
) -> Projected | PackedProjected:
    """Project Gaussians into images by the EWA approximation, and cull those that are not visible.

    The same as gsplat 1.5.3's function. Differentiable with respect to means, covars, quats, scales and viewmats.
    The results and gradients of culled Gaussians are zero. Gaussians that are not finite are culled too.

    Args:
        means: [..., N, 3] centres; this and all other tensors float32, on one device.
        covars: [..., N, 6] upper triangles of the covariances, xx, xy, xz, yy, yz, zz, or None to use quats and
            scales, which are ignored otherwise.
        quats: [..., N, 4] rotations w, x, y, z; they need not be normalised.
        scales: [..., N, 3] standard deviations.
        viewmats: [..., C, 4, 4] world-to-camera matrices.
        Ks: [..., C, 3, 3] intrinsics in pixels.
        width: image width in pixels.
        height: image height in pixels.
        eps2d: added to the diagonal of each projected covariance.
        near_plane: Gaussians nearer than this are culled.
        far_plane: Gaussians beyond this are culled.
        radius_clip: Gaussians whose radius is at most this along both axes are culled.
        packed: whether to return only the visible pairs.
        sparse_grad: gradients of means, covars, quats and scales are sparse COO tensors of the visible Gaussians;
            requires `packed` and no batch dimensions.
        calc_compensations: whether to return the factors for "antialiased" opacities.
        camera_model: as for `rasterization`.
        opacities: [..., N]; if given, faint Gaussians get smaller radii, and invisible ones are culled.

    Returns:
        radii (int32 [..., C, N, 2]), means2d ([..., C, N, 2]), depths ([..., C, N]), conics ([..., C, N, 3], upper
        triangles of the inverse covariances) and compensations ([..., C, N], or None if not requested). If `packed`,
        first batch_ids, camera_ids and gaussian_ids (int64 [M]), then the same with [M] in place of [..., C, N].

    Raises:
        NotImplementedError: if Ks requires grad.
        TypeError, ValueError: if a type, shape or value is wrong.
        IncompatibleArtifactError: if there are no usable kernels for this device.
    """
    settings = ProjectionSettings(
        width=width,
        height=height,
        eps2d=eps2d,
        near_plane=near_plane,
        far_plane=far_plane,
        radius_clip=radius_clip,
        antialiased=calc_compensations,
        camera_model=camera_model,
    )
    if covars is not None:
        quats = scales = None
    sizes = check_scene(
        means=means,
        quats=quats,
        scales=scales,
        covars=covars,
        covars_shape=(6,),
        opacities=opacities,
        viewmats=viewmats,
        Ks=Ks,
        camera_model=camera_model,
    )
    check_sparse(sparse_grad, packed, sizes)
    rows = SparseRows()
    gaussians = GaussianParameters(means, quats, scales, covars, opacities)
    if sparse_grad:
        gaussians = gaussians.with_sparse_gradients(rows)
    radii, means2d, depths, conics, compensations, _, _ = project(gaussians, viewmats, Ks, sizes, settings)
    if not packed:
        return radii, means2d, depths, conics, compensations if calc_compensations else None
    # They take the place of opacities: one number each.
    splats, _, _ = pack(Splats(radii, means2d, depths, conics, opacities=compensations), None, True, sizes, None)
    visible = splats.visible
    assert visible is not None
    rows.fill(visible.gaussian_ids)
    ids = visible.batch_ids(sizes), visible.camera_ids(sizes), visible.gaussian_ids
    projected = splats.radii, splats.means2d, splats.depths, splats.conics
    return *ids, *projected, splats.opacities if calc_compensations else None


def check_sparse(sparse_grad: bool, packed: bool, sizes: Sizes) -> None:
    """Raise ValueError if the gradients cannot be sparse."""
    if sparse_grad and not packed:
        raise ValueError("sparse_grad needs packed=True, found packed=False")
    if sparse_grad and sizes.batch:
        raise ValueError(
            f"sparse_grad needs Gaussians without batch dimensions, found {list(sizes.batch)}; "
            "render the scenes one by one"
        )


class GaussianParameters:
    """The Gaussians to project, checked: float32 tensors [..., N, *].

    Either quats and scales are given or covars, which the operator takes as [..., N, 6].
    """

    def __init__(
        self,
        means: Tensor,
        quats: Tensor | None,
        scales: Tensor | None,
        covars: Tensor | None,
        opacities: Tensor | None,
    ) -> None:
        self.means = means
        self.quats = quats
        self.scales = scales
        self.covars = covars
        self.opacities = opacities

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All of them, in the order of the operator's arguments."""
        return self.means, self.quats, self.scales, self.covars, self.opacities

    def with_sparse_gradients(self, rows: SparseRows) -> GaussianParameters:
        """The same Gaussians; the gradients of all but the opacities will be sparse."""
        quats, scales, covars = (None if t is None else rows.of(t) for t in (self.quats, self.scales, self.covars))
        return GaussianParameters(rows.of(self.means), quats, scales, covars, self.opacities)

    def with_triangles(self) -> GaussianParameters:
        """The same Gaussians, with the upper triangles of covariances [..., N, 3, 3]."""
        if self.covars is None:
            return self
        return GaussianParameters(self.means, self.quats, self.scales, upper_triangles(self.covars), self.opacities)


class Colors:
    """The colours of Gaussians, checked: float32 coefficients [..., N, K, 3] of spherical harmonics that are used up to
    `degree`, or values [..., N, D] if that is None; [..., C, N, *] if `per_camera`."""

    def __init__(self, values: Tensor, per_camera: bool, degree: int | None) -> None:
        self.values = values
        self.per_camera = per_camera
        self.degree = degree

    @property
    def for_images(self) -> Tensor:
        """As the operator takes them, [..., 1 or C, N, *]."""
        return self.values if self.per_camera else self.values.unsqueeze(-3 if self.degree is None else -4)

    @property
    def finite(self) -> Tensor:
        """bool [..., 1 or C, N]: whether every number that an image would show is finite."""
        values = self.for_images.detach()
        used = values if self.degree is None else values[..., : (self.degree + 1) ** 2, :].flatten(-2)
        return used.isfinite().all(-1)


def project(
    gaussians: GaussianParameters,
    viewmats: Tensor,
    Ks: Tensor,
    sizes: Sizes,
    settings: ProjectionSettings,
    colors: Colors | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Radii, means2d, depths, conics, compensations, [..., C, N, *], colours, and the number of pairs of camera and
    Gaussian that are culled because a number is not finite, from checked arguments.

    The operator takes one scene at a time. Colours are [..., C, N, 3], as each camera sees the harmonics, zero where
    culled; without harmonics, [..., 0, N, 3].
    """
    coeffs, direct, degree = None, None, 0
    if colors is not None and colors.degree is not None:
        coeffs, degree = colors.for_images, colors.degree
    elif colors is not None:
        direct = colors.for_images.detach()
    tensors = (*gaussians.tensors, coeffs, viewmats, Ks, direct)
    _kernels.require_for(*tensors)
    by_scene = zip(*(_by_scene(each, sizes) for each in tensors), strict=True) if sizes.batch else [tensors]
    scenes = [
        torch.ops.splat.project(
            *scene[:-1],
            settings.width,
            settings.height,
            settings.eps2d,
            settings.near_plane,
            settings.far_plane,
            settings.radius_clip,
            settings.antialiased,
            settings.camera_model,
            degree,
            scene[-1],
        )
        for scene in by_scene
    ]
    if not sizes.batch:
        return scenes[0]  # type: ignore[no-any-return]
    *rows, invalid = (torch.stack(outputs) for outputs in zip(*scenes, strict=True))
    radii, means2d, depths, conics, compensations, shaded = (
        output.reshape(*sizes.batch, *output.shape[1:]) for output in rows
    )
    return radii, means2d, depths, conics, compensations, shaded, invalid.sum()


def _by_scene(tensor: Tensor | None, sizes: Sizes) -> Sequence[Tensor | None]:
    """[..., *] as one [*] for each batch."""
    if tensor is None:
        return [None] * sizes.batches
    return tensor.flatten(0, len(sizes.batch) - 1).unbind()
