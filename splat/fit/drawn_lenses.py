"""Pictures drawn through the lens that took them: with the unscented transform, and Gaussians evaluated along rays.

Wu et al., *3DGUT: Enabling Distorted Cameras and Secondary Rays in Gaussian Splatting* (2025).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from ..ops.defaults import EPS2D
from ..ops.harmonics import spherical_harmonics
from ..ops.lens_cameras import Camera, LensCameras
from ..ops.lens_directions import lens_directions
from ..ops.projection_ut import UnscentedTransformParameters
from ..ops.rendering import rasterization
from ..photos.lens_formulas import FISHEYE, POLYNOMIAL, Distortion
from ..photos.lens_models import Lens
from ..scene.gaussians import Gaussians, SceneError
from ..scene.near_plane import far_plane
from ..scene.rotations import left_product, quaternion

AS_TAKEN: Final = "as-taken"
LENSES: Final = ("straighten", AS_TAKEN)
"""What is done to pictures of lenses that bend straight lines."""
_LEAST_DRAWN: Final = 0.1
"""Of a lens's picture."""
_PARAMETERS: Final = UnscentedTransformParameters(in_image_margin_factor=1.0, require_all_sigma_points_valid=False)
"""Fewer Gaussians are left out than by default: of those of wide lenses, pictures are 1 to 2 dB better."""


@dataclass(frozen=True)
class DrawnLens:
    """A lens as `rasterization` takes it."""

    camera_model: str
    radial: tuple[float, ...]
    tangential: tuple[float, ...] = ()

    def coefficients(self, like: Tensor) -> tuple[Tensor, Tensor | None]:
        """Radial and tangential ones, [1, *]."""
        return like.new_tensor([self.radial]), like.new_tensor([self.tangential]) if self.tangential else None


def drawn_lens(distortion: Distortion) -> DrawnLens | None:
    """The lens that bends lines so; None if it bends none, or there is no such lens."""
    if not distortion or distortion.family not in (POLYNOMIAL, FISHEYE):
        return None
    k1, k2, p1, p2, k3, k4, *others = distortion.coefficients
    if distortion.family is POLYNOMIAL:
        return DrawnLens("pinhole", (k1, k2, k3, k4, *others), (p1, p2))
    return None if p1 or p2 or any(others) else DrawnLens("fisheye", (k1, k2, k3, k4))


def lens_camera(viewmat: Tensor, K: Tensor, size: tuple[int, int], lens: DrawnLens | None) -> Camera:
    """The camera at `viewmat` [4, 4] with the intrinsics `K` [3, 3]; without a lens, a pinhole camera."""
    model, given = (lens.camera_model, (*lens.coefficients(K), None)) if lens else ("pinhole", (None, None, None))
    return next(iter(LensCameras(model, *size, viewmat[None], K[None], given, None, "GLOBAL", None)))


def intrinsics(lens: Lens) -> Tensor:
    """The matrix [3, 3] of float64."""
    return torch.tensor([[lens.fx, 0, lens.cx], [0, lens.fy, lens.cy], [0, 0, 1]], dtype=torch.float64)


def drawn_parts(what: str, lenses: Sequence[Lens]) -> dict[Lens, Tensor]:
    """The pixels [H, W] that are drawn, for those of the lenses that are not drawn whole.

    They are those whose rays the projection shows. A warning says what is done; SceneError if they are hardly any.
    """
    shares: list[float] = []
    parts: dict[Lens, Tensor] = {}
    for lens in dict.fromkeys(lenses):
        if not (drawn := drawn_lens(lens.distortion)):
            continue
        size = lens.width, lens.height
        camera = lens_camera(torch.eye(4), intrinsics(lens), size, drawn)
        rays = lens_directions(camera.lens, *size, None, camera.rotation)
        part = camera.lens.project(*rays.unbind(-1))[2]
        shares.append(float(part.double().mean()))
        if shares[-1] < _LEAST_DRAWN:
            found = ", ".join(f"{value:g}" for value in lens.distortion.coefficients)
            raise SceneError(
                f"{what}: a distortion that can be drawn is required, found the coefficients {found}; leave out "
                f"--lenses {AS_TAKEN}"
            )
        if shares[-1] < 1:
            parts[lens] = part
    if shares:
        rest = f"; up to {100 * (1 - min(shares)):.1f} % of a picture, behind the camera or where a lens folds, is lost"
        warnings.warn(
            f"{what}: lenses that bend straight lines: the pictures of {len(shares)} are drawn as they were taken"
            f"{rest if parts else ''}",
            stacklevel=4,
        )
    return parts


def draw_as_taken(
    scene: Gaussians,
    lens: DrawnLens,
    viewmat: Tensor,
    K: Tensor,
    size: tuple[int, int],
    sh_degree: int,
    background: Tensor | None,
    moved: Tensor | None,
    near: float,
) -> tuple[Tensor, dict[str, Any]]:
    """The image [1, H, W, 3] of a camera at `viewmat` [4, 4], and `meta`, whose `means2d` are offsets of 0.

    By these [1, N, 2] the centres could move in the picture, in pixels, about: so they have the gradients that the
    projection has not. `moved` [1, 4, 4] is where the camera is in truth, and may require a gradient.
    """
    means, quats = scene.means, scene.quats
    poses = viewmat[None] if moved is None else moved
    colors = (spherical_harmonics(sh_degree, means, poses, scene.sh) + 0.5).clamp_min(0.0)
    if moved is not None:
        # Rays have no gradient by the camera, so the world moves instead, after it was coloured from where it is.
        motion = torch.linalg.inv(viewmat) @ moved[0]
        means = means @ motion[:3, :3].T + motion[:3, 3]
        quats = quats @ left_product(quaternion(motion[:3, :3])).T
    places = means @ viewmat[:3, :3].T + viewmat[:3, 3]
    ahead = lens.camera_model == "pinhole"
    depths = places[:, 2:].clamp_min(0.0) if ahead else torch.linalg.vector_norm(places, dim=1, keepdim=True)
    # What the projection of pinhole cameras adds in the picture is added in space: scenes look the same by both.
    scales = (scene.scales.square() + EPS2D * depths.square() / (K[0, 0] * K[1, 1])).sqrt()
    offsets = means.new_zeros(1, len(means), 2).requires_grad_(torch.is_grad_enabled())
    if offsets.requires_grad:
        steps = _across(places.detach(), K) * depths.detach()[:, None] @ viewmat[:3, :3]
        means = means + (offsets[0, :, :, None] * steps).sum(dim=1)
    radial, tangential = lens.coefficients(K)
    image, _, meta = rasterization(
        means, quats, scales, scene.opacities, colors, viewmat[None], K[None], *size, near, far_plane(near),
        backgrounds=background, packed=False, eps2d=0.0, camera_model=lens.camera_model, with_ut=True, with_eval3d=True,
        radial_coeffs=radial, tangential_coeffs=tangential, ut_params=_PARAMETERS,
    )  # fmt: skip
    meta["means2d"] = offsets
    return image, meta


def _across(places: Tensor, K: Tensor) -> Tensor:
    """How far [N, 2, 3] places move, across their rays, for a pixel to the right and one down, at a distance of 1."""
    x, y, z = torch.nn.functional.normalize(places, dim=1).unbind(dim=1)
    # The camera's axes, turned with the one ahead to the ray, the shortest way.
    share = 1 / (1 + z).clamp_min(1e-3)
    right = torch.stack([1 - x * x * share, -x * y * share, -x], dim=1) / K[0, 0]
    down = torch.stack([-x * y * share, 1 - y * y * share, -y], dim=1) / K[1, 1]
    return torch.stack([right, down], dim=1)
