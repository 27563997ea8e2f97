"""What `rasterization` does otherwise for lenses, shutters and rays: its arguments, and the unscented transform.

Shapes: `...` leading batch dimensions, C cameras of each batch, N Gaussians.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .arguments import ProjectionSettings, Sizes
from .camera_space import camera_places
from .draw_arguments import Cameras, Options, Scene
from .harmonics import spherical_harmonics
from .lens_arguments import check_constant, check_lens_cameras
from .lens_cameras import LensCameras
from .packing import Splats
from .projection import Colors, GaussianParameters
from .projection_ut import project_unscented


def check_lens_options(
    scene: Scene, cameras: Cameras, options: Options, sizes: Sizes, settings: ProjectionSettings
) -> LensCameras:
    """Check the cameras of `rasterization` with the unscented transform or rays, and what goes with these.

    Raises:
        TypeError, ValueError: one is wrong, or does not fit the others.
        NotImplementedError: one requires a gradient that there is not.
    """
    for name, value in cameras.lens._asdict().items():
        if value is not None and getattr(value, "name", "") != "GLOBAL" and not options.with_ut:
            raise ValueError(f"{name} needs with_ut=True: the plain projection has no lenses and shutters; found False")
    option = "with_ut" if options.with_ut else "with_eval3d"
    # What does not go with them; gsplat refuses most of it too.
    others = {"covars": scene.covars, "packed": options.packed, "sparse_grad": options.sparse_grad}
    others |= {name: getattr(options, name) and options.with_eval3d for name in ("absgrad", "distributed")}
    for name, value in others.items():
        if value is not None and value is not False:
            found, without = ("True", "False") if value is True else ("a tensor", "None")
            raise ValueError(f"{name} must be {without} with {option}=True, found {found}; leave one of them out")
    if options.with_eval3d:
        check_constant("viewmats", cameras.viewmats, scene.means)
    size = settings.width, settings.height
    return check_lens_cameras(sizes, scene.means, cameras.viewmats, cameras.Ks, *size, cameras.model, cameras.lens)


def project_splats_unscented(
    gaussians: GaussianParameters,
    cameras: LensCameras,
    sizes: Sizes,
    settings: ProjectionSettings,
    colors: Colors | None,
) -> tuple[Splats, Tensor, Tensor]:
    """All pairs, [..., C, N, *], their colours if those are harmonics, and how many are not finite.

    Only opacities and colours have gradients, and through the directions of harmonics means and poses.
    """
    quats, scales, opacities = gaussians.quats, gaussians.scales, gaussians.opacities
    assert quats is not None
    assert scales is not None
    assert opacities is not None
    found = project_unscented(gaussians.means, quats, scales, opacities, cameras, sizes, settings)
    seen, invalid = (found.radii > 0).all(-1), found.invalid
    shaded = found.depths.new_zeros(*found.depths.shape, 0)
    if colors is not None:
        invalid, seen = invalid | (seen & ~colors.finite), seen & colors.finite
        if colors.degree is not None:
            places = camera_places(cameras.viewmats, cameras.viewmats_rs)
            directions = gaussians.means[..., None, :, :] - places.reshape(*sizes.batch, sizes.cameras, 1, 3)
            harmonics = spherical_harmonics(colors.degree, directions, colors.for_images, masks=seen)
            shaded = torch.where(seen[..., None], (harmonics + 0.5).clamp_min(0.0), 0.0)
    radii = torch.where(seen[..., None], found.radii, 0)
    shown = opacities[..., None, :].expand(found.depths.shape)
    shown = shown * found.compensations if settings.antialiased else shown
    return Splats(radii, found.means2d, found.depths, found.conics, shown), shaded, invalid.sum()
