"""What `rasterization` draws of each Gaussian: its colour, extra signals, and its depth, in this order of channels."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from .arguments import Sizes, check_colors, check_sh_degree
from .checks import check_tensor, shape_of
from .draw_arguments import Scene
from .projection import Colors

RayMode = Literal["d", "Ed", "RGB-d", "RGB-Ed"]
"""gsplat 1.6.0's modes of distances along rays."""
RAY_MODES: Final[tuple[str, ...]] = get_args(RayMode)
_REMEDIES: Final = {
    "global_z_order": "it needs with_ut=True, as in gsplat: the plain projection sorts by depth",
    "lidar_coeffs": "render cameras, and take their depth along the rays of the sensor",
    "external_distortion_coeffs": "undistort the images first",
    "renderer_config": "leave it None: it chooses among kernels of gsplat that draw the same",
}


def refuse_newer(**others: object) -> None:
    """Raise NotImplementedError for what gsplat 1.6.0's `rasterization` has and splat's has not.

    `others` are arguments by name, with None in place of their default.
    """
    for name, value in others.items():
        if value is not None:
            raise NotImplementedError(f"{name} is not implemented (found {value!r}); {_REMEDIES[name]}")


def check_along_rays(with_eval3d: bool, rays: Tensor | None, return_normals: bool, render_mode: str) -> None:
    """Raise ValueError for arguments that need rays to evaluate Gaussians along."""
    given = {"rays": rays is not None, "return_normals": return_normals}
    for name, needed in {**given, f"render_mode={render_mode!r}": render_mode in RAY_MODES}.items():
        if needed and not with_eval3d:
            raise ValueError(f"{name} needs with_eval3d=True, by which Gaussians are evaluated along rays; found False")


class Features:
    """Colours and extra signals, checked, and whether the depth is drawn.

    Raises:
        TypeError, ValueError: as `rasterization`, for the arguments of these names.
    """

    def __init__(self, scene: Scene, render_mode: str, sizes: Sizes) -> None:
        colors, backgrounds, degree = scene.colors, scene.backgrounds, scene.sh_degree
        self.signals = _checked_signals(scene, sizes)
        self.signal_channels = 0 if self.signals is None else self.signals.values.shape[-1]
        per_camera = check_colors(colors, backgrounds, sizes, degree, scene.means, render_mode, self.signal_channels)
        self.colors = Colors(colors, per_camera, degree) if colors is not None and "RGB" in render_mode else None
        self.color_channels = 0 if self.colors is None else self.colors.values.shape[-1]
        self.along_rays = render_mode in RAY_MODES
        self.depth, self.expected = render_mode != "RGB", "E" in render_mode
        self.channels = self.color_channels + self.signal_channels + self.depth
        self.per_camera = any(each is not None and each.per_camera for each in (self.colors, self.signals))
        self.backgrounds = backgrounds
        if backgrounds is not None and self.depth:
            # Depth has no background.
            self.backgrounds = pad(backgrounds, (0, 1)) if self.channels > 1 else None

    @property
    def facts(self) -> dict[str, object]:
        """What all ranks must agree on."""
        degrees = [each and each.degree for each in (self.colors, self.signals)]
        return {
            "channels": self.channels,
            "channels of extra_signals": self.signal_channels,
            "sh_degree": degrees[0],
            "extra_signals_sh_degree": degrees[1],
        }

    def of_pairs(
        self, shaded: Tensor, means: Tensor, viewmats: Tensor, radii: Tensor, viewmats_rs: Tensor | None
    ) -> tuple[Tensor | None, bool]:
        """Values for all pairs of camera and Gaussian, [..., C, N, *] if each camera has its own, else [..., N, *].

        `shaded` are the colours as each camera sees harmonics.
        """
        parts = []
        if self.colors is not None:
            parts.append(self.colors if self.colors.degree is None else Colors(shaded, True, None))
        if self.signals is not None:
            degree, values = self.signals.degree, self.signals.values
            if degree is not None:
                from .camera_space import camera_places  # not at the top: few programs need it
                from .harmonics import harmonics_of_channels

                seen = (radii > 0).all(dim=-1)
                ends = None if viewmats_rs is None else viewmats_rs.reshape(viewmats.shape)
                directions = means[..., None, :, :] - camera_places(viewmats, ends)[..., None, :]
                values = harmonics_of_channels(degree, directions, values, seen) + 0.5
            parts.append(Colors(values, self.signals.per_camera or degree is not None, None))
        per_camera = any(each.per_camera for each in parts)
        found = [each.for_images.expand(*radii.shape[:-1], -1) if per_camera else each.values for each in parts]
        if len(found) < 2:
            return (found[0] if found else None), per_camera
        return torch.cat(found, dim=-1), per_camera

    def left_out(self, radii: Tensor, invalid: Tensor) -> tuple[Tensor, Tensor]:
        """Radii of 0 where signals are not finite, and how many pairs are not; colours are looked at in projecting."""
        if self.signals is None:
            return radii, invalid
        finite = self.signals.finite
        lost = (radii > 0).all(-1) & ~finite
        return torch.where(finite[..., None], radii, 0), invalid + lost.sum()

    def with_depth(self, values: Tensor | None, depths: Tensor) -> Tensor:
        """All channels [..., *], of those without depth; zeros for a depth along rays, which the kernels compute."""
        parts = [] if values is None else [values]
        if self.depth:
            parts.append((torch.zeros_like(depths) if self.along_rays else depths)[..., None])
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def apart(self, images: Tensor, alphas: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """The images of colours and depth, and the entries of `meta`, of all channels as they were drawn."""
        if self.expected:
            images = torch.cat([images[..., :-1], images[..., -1:] / alphas.clamp_min(1e-10)], dim=-1)
        if self.signals is None:
            return images, {}
        first, after = self.color_channels, self.color_channels + self.signal_channels
        shown = images[..., :first]
        if self.depth:
            shown = torch.cat([shown, images[..., after:]], dim=-1)
        return shown, {"render_extra_signals": images[..., first:after]}


def _checked_signals(scene: Scene, sizes: Sizes) -> Colors | None:
    """The signals, if there are any: coefficients [N, K, E], or values [..., N, E] or [..., C, N, E]."""
    values, degree = scene.extra_signals, scene.extra_signals_sh_degree
    if values is None:
        if degree is not None:
            raise ValueError(f"extra_signals_sh_degree={degree} needs extra_signals, found None")
        return None
    check_tensor("extra_signals", values, scene.means)
    n, shape, one_set = sizes.gaussians, tuple(values.shape), (*sizes.batch, sizes.gaussians)
    each_camera = (*sizes.batch, sizes.cameras, n)
    words = "[..., N, E] or [..., C, N, E]" if degree is None else "[N, K, E], with extra_signals_sh_degree,"
    fits = shape[:-1] in (one_set, each_camera) if degree is None else len(shape) == 3 and shape[0] == n
    if not fits or shape[-1] == 0:
        raise ValueError(
            f"extra_signals must have shape {words} with N={n}, C={sizes.cameras}, batch {list(sizes.batch)} and "
            f"E >= 1, found {shape_of(values)}"
        )
    if degree is not None:
        check_sh_degree(degree, shape[-2], "extra_signals_sh_degree")
    return Colors(values, degree is None and shape[:-1] == each_camera, degree)
