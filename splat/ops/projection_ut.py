"""From Gaussians in space to Gaussians in images by the unscented transform: through any lens and shutter.

Wu et al., *3DGUT: Enabling Distorted Cameras and Secondary Rays in Gaussian Splatting* (2025), section 4.1. In
functions of torch, in float64 and a part of the Gaussians at a time; there are no gradients, as in gsplat.

Shapes: `...` leading batch dimensions, N Gaussians, C cameras of each batch; n Gaussians that are projected together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from .arguments import LensArguments, ProjectionSettings, RollingShutterType, Sizes, check_scene, without_ftheta
from .autocast import in_float32
from .defaults import EPS2D, FAR_PLANE, NEAR_PLANE
from .lens_arguments import check_lens_cameras
from .lens_cameras import Camera, LensCameras
from .lenses import FThetaLens
from .projection import Projected, rotation_matrices

# How many Gaussians are projected together: what stays in a CPU's caches, and what occupies a GPU.
_CPU_CHUNK: Final = 2**13
_GPU_CHUNK: Final = 2**18
# As in csrc/math/constants.h.
_MAX_EXTENT: Final = 3.33
_MIN_ALPHA: Final = 1 / 255


@dataclass(frozen=True)
class UnscentedTransformParameters:
    """Where the sigma points of the unscented transform lie (Wan and van der Merwe 2000), and which may be missing.

    gsplat's class of the same name does as well.
    """

    alpha: float = 0.1
    beta: float = 2.0
    kappa: float = 0.0
    in_image_margin_factor: float = 0.1
    """How far outside of the picture a point may be, in its widths and heights."""
    require_all_sigma_points_valid: bool = True
    """Whether a Gaussian is left out if one of its points is not seen, or only if none is."""


DEFAULT_PARAMETERS: Final = UnscentedTransformParameters()


class UnscentedSplats(NamedTuple):
    """Projected Gaussians [..., C, N, *]; zeros where they are not seen."""

    radii: Tensor
    means2d: Tensor
    depths: Tensor
    conics: Tensor
    compensations: Tensor
    invalid: Tensor
    """bool: left out because of a NaN or an infinity."""


@in_float32
def fully_fused_projection_with_ut(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor | None,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    eps2d: float = EPS2D,
    near_plane: float = NEAR_PLANE,
    far_plane: float = FAR_PLANE,
    radius_clip: float = 0.0,
    calc_compensations: bool = False,
    camera_model: str = "pinhole",
    ut_params: Any = DEFAULT_PARAMETERS,
    radial_coeffs: Tensor | None = None,
    tangential_coeffs: Tensor | None = None,
    thin_prism_coeffs: Tensor | None = None,
    ftheta_coeffs: Any = None,
    rolling_shutter: Any = RollingShutterType.GLOBAL,
    viewmats_rs: Tensor | None = None,
    global_z_order: bool = True,
) -> Projected:
    """Project Gaussians into images by the unscented transform, and cull those that are not visible.

    The same as gsplat 1.5.3's function. Not differentiable. Gaussians that are not finite are culled too.

    Args:
        means: [..., N, 3] centres; this and all other tensors float32, on one device.
        quats: [..., N, 4] rotations w, x, y, z; they need not be normalised.
        scales: [..., N, 3] standard deviations.
        opacities: [..., N], or None; if given, faint Gaussians get smaller radii, and invisible ones are culled.
        viewmats: [..., C, 4, 4] world-to-camera matrices.
        Ks: [..., C, 3, 3] intrinsics in pixels; of an f-theta camera, only the principal point is used.
        width: image width in pixels.
        height: image height in pixels.
        eps2d: added to the diagonal of each projected covariance.
        near_plane: Gaussians nearer than this are culled.
        far_plane: Gaussians beyond this are culled.
        radius_clip: Gaussians whose radius is at most this along both axes are culled.
        calc_compensations: whether to return the factors for "antialiased" opacities.
        camera_model: "pinhole", "fisheye" or "ftheta".
        ut_params: UnscentedTransformParameters.
        radial_coeffs: [..., C, 6] for "pinhole", k1 to k6 of OpenCV; [..., C, 4] for "fisheye".
        tangential_coeffs: [..., C, 2] for "pinhole", p1 and p2 of OpenCV.
        thin_prism_coeffs: [..., C, 4] for "pinhole", s1 to s4 of OpenCV.
        ftheta_coeffs: FThetaCameraDistortionParameters for "ftheta", of all cameras.
        rolling_shutter: RollingShutterType, the order in which rows or columns are taken.
        viewmats_rs: [..., C, 4, 4] where the cameras are when the last row or column is taken, unless all are taken at
            once; viewmats are where they are at the first.
        global_z_order: of gsplat 1.6.0: False for depths that are distances from the camera, by which ftheta cameras
            then cull too.

    Returns:
        radii (int32 [..., C, N, 2]), means2d ([..., C, N, 2]), depths ([..., C, N]), conics ([..., C, N, 3], upper
        triangles of the inverse covariances) and compensations ([..., C, N], or None if not requested).

    Raises:
        NotImplementedError: if Ks, a coefficient or viewmats_rs requires grad.
        TypeError, ValueError: if a type, shape or value is wrong.
    """
    checked_as = without_ftheta(camera_model)
    settings = ProjectionSettings(
        width=width,
        height=height,
        eps2d=eps2d,
        near_plane=near_plane,
        far_plane=far_plane,
        radius_clip=radius_clip,
        antialiased=calc_compensations,
        camera_model=checked_as,
        z_order=global_z_order,
        ut_params=checked_parameters(ut_params),
    )
    sizes = check_scene(
        means=means,
        quats=quats,
        scales=scales,
        opacities=opacities,
        viewmats=viewmats,
        Ks=Ks,
        camera_model=checked_as,
    )
    given = LensArguments(
        radial_coeffs, tangential_coeffs, thin_prism_coeffs, ftheta_coeffs, rolling_shutter, viewmats_rs
    )
    size = settings.width, settings.height
    cameras = check_lens_cameras(sizes, means, viewmats, Ks, *size, camera_model, given)
    found = project_unscented(means, quats, scales, opacities, cameras, sizes, settings)
    return *found[:4], found.compensations if calc_compensations else None


def checked_parameters(given: Any) -> UnscentedTransformParameters:
    """gsplat's objects, too, and None for the usual ones. Raises TypeError or ValueError."""
    if given is None:
        return DEFAULT_PARAMETERS
    try:
        *numbers, margin, every = (getattr(given, field.name) for field in fields(UnscentedTransformParameters))
        alpha, beta, kappa = map(float, numbers)
        found = UnscentedTransformParameters(alpha, beta, kappa, float(margin), bool(every))
    except (AttributeError, OverflowError, TypeError) as error:
        raise TypeError(f"ut_params must be UnscentedTransformParameters, found {given!r} ({error})") from None
    if not (0 < alpha**2 * (3 + kappa) < math.inf and math.isfinite(beta + found.in_image_margin_factor)):
        raise ValueError(f"ut_params must be finite, with an alpha other than 0 and a kappa above -3, found {found}")
    return found


@torch.no_grad()
def project_unscented(
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor | None,
    cameras: LensCameras,
    sizes: Sizes,
    settings: ProjectionSettings,
) -> UnscentedSplats:
    """All pairs of camera and Gaussian, from checked arguments."""
    assert isinstance(settings.ut_params, UnscentedTransformParameters)
    given = (means, quats, scales, *(() if opacities is None else (opacities[..., None],)))
    rows = torch.cat(given, dim=-1)
    scenes = rows.reshape(sizes.batches, sizes.gaussians, rows.shape[-1])
    lead = (*sizes.batch, sizes.cameras, sizes.gaussians)
    if sizes.images == 0:
        radii, *floats = (scenes.new_zeros(*lead, *shape) for shape in ((2,), (2,), (), (3,), ()))
        return UnscentedSplats._make((radii.int(), *floats, scenes.new_zeros(lead).bool()))
    chunk = _CPU_CHUNK if means.device.type == "cpu" else _GPU_CHUNK
    parts = [
        _project_part(part, camera, settings, settings.ut_params)
        for image, camera in enumerate(cameras)
        for part in torch.split(scenes[image // sizes.cameras], chunk)
    ]
    whole = (torch.cat(values).reshape(*lead, *values[0].shape[1:]) for values in zip(*parts, strict=True))
    return UnscentedSplats._make(whole)


def depths_by_means(depths: Tensor, means: Tensor, radii: Tensor, cameras: LensCameras, z_order: bool) -> Tensor:
    """The `depths` [..., C, N] that `project_unscented` found, with their gradients by the means, if there is one."""
    if not (means.requires_grad and torch.is_grad_enabled() and depths.numel()):
        return depths
    seen = (radii > 0).all(-1)
    # What is not seen may not be finite, and a gradient of 0 times that is not 0.
    shown = torch.where(seen[..., None], means[..., None, :, :], 0.0).flatten(0, -3)
    found = [
        _depths(camera.to_camera(each.mT.double(), 0.5), z_order) for camera, each in zip(cameras, shown, strict=True)
    ]
    return torch.where(seen, torch.stack(found).reshape(depths.shape).float(), 0.0)


def _depths(pose: Tensor, z_order: bool) -> Tensor:
    return pose[2] if z_order else pose.norm(dim=0)


def _project_part(
    part: Tensor, camera: Camera, settings: ProjectionSettings, parameters: UnscentedTransformParameters
) -> UnscentedSplats:
    """Of some Gaussians, rows [n, 10 or 11] of means, quats, scales and opacities, by one camera."""
    means, quats, scales = part[:, :3].double(), part[:, 3:7], part[:, 7:10].double()
    pose = camera.to_camera(means.mT, 0.5)
    depths = _depths(pose, settings.z_order)
    # Other lenses see nothing behind the camera.
    culled_by = (depths if isinstance(camera.lens, FThetaLens) else pose[2]).float()
    in_depth = (culled_by >= settings.near_plane) & (culled_by <= settings.far_plane)
    invalid = ~means.isfinite().all(-1) | (in_depth & ~part.isfinite().all(-1))

    points = _sigma_points(means, quats, scales, parameters)
    u, v, valid = camera.image_points(points.flatten(1), parameters.in_image_margin_factor)
    valid = valid.reshape(7, -1).all(0) if parameters.require_all_sigma_points_valid else valid.reshape(7, -1).any(0)
    means2d, (xx, xy, yy) = _moments(torch.stack([u, v]).reshape(2, 7, -1), parameters)
    before = xx * yy - xy * xy
    xx, yy = xx + settings.eps2d, yy + settings.eps2d
    determinant = xx * yy - xy * xy
    compensations = (before / determinant).clamp_min(0.0).sqrt()
    extents = torch.full_like(xx, _MAX_EXTENT)
    seen = in_depth & ~invalid & valid & (determinant > 0)
    if part.shape[-1] > 10:
        # With the compensation, whether or not it is asked for: as in gsplat.
        opacities = part[:, 10] * compensations
        seen &= opacities >= _MIN_ALPHA
        extents = (2 * (opacities / _MIN_ALPHA).log()).sqrt().clamp_max(_MAX_EXTENT)
    radii = (extents * torch.stack([xx, yy]).sqrt()).ceil()
    seen &= (radii > settings.radius_clip).any(0)
    for centre, radius, side in zip(means2d, radii, (settings.width, settings.height), strict=True):
        seen &= (centre + radius > 0) & (centre - radius < side)
    conics = torch.stack([yy, -xy, xx]) / determinant
    # A larger radius covers every image anyway.
    rows = (radii.clamp_max(2**30), means2d, depths, conics, compensations)
    radii, *others = (torch.where(seen, values, 0.0).movedim(-1, 0).float() for values in rows)
    return UnscentedSplats._make((radii.int(), *others, invalid))


def _sigma_points(means: Tensor, quats: Tensor, scales: Tensor, parameters: UnscentedTransformParameters) -> Tensor:
    """float64 [3, 7, n]: the centres, and a point on each side of them along each axis."""
    distance = parameters.alpha * math.sqrt(3 + parameters.kappa)
    away = (rotation_matrices(quats.double()) * (distance * scales)[:, None, :]).permute(1, 2, 0)
    centres = means.mT[:, None]
    return torch.cat([centres, centres + away, centres - away], dim=1)


def _moments(points: Tensor, parameters: UnscentedTransformParameters) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Means [2, n] and covariances xx, xy, yy of weighted points [2, 7, n].

    The weights, of which the first is large and negative, sum to 1 for the mean. So sums of differences from the first
    point give the same without cancelling.
    """
    weight = 0.5 / (parameters.alpha**2 * (3 + parameters.kappa))
    centre = points[:, 0]
    away = points[:, 1:] - centre[:, None]
    shift = weight * away.sum(1)
    # The sum of the covariance's weights, less 2 for the products of away and shift.
    rest = parameters.beta - parameters.alpha**2
    x, y = away
    products = ((x * x, 0, 0), (x * y, 0, 1), (y * y, 1, 1))
    xx, xy, yy = (weight * product.sum(0) + rest * shift[i] * shift[j] for product, i, j in products)
    return centre + shift, (xx, xy, yy)
