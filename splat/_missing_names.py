"""Names of gsplat 1.5.3 that splat does not have, with what to use instead."""

from __future__ import annotations

from typing import Final

_OTHER_CAMERAS = (
    "splat's camera models are pinhole, ortho and fisheye, without distortion; `splat fit` straightens photographs"
)

MISSING: Final = {
    "rasterization_2dgs_inria_wrapper": "it is a wrapper of another package; splat.rasterization_2dgs renders the same",
    "rasterization_inria_wrapper": "it is a wrapper of another package; splat.rasterization renders the same",
    "fully_fused_projection_with_ut": _OTHER_CAMERAS,
    "rasterize_to_pixels_eval3d": _OTHER_CAMERAS,
    "PngCompression": "`splat convert SCENE.ply SCENE.spz` compresses a scene",
}


class LackingAttribute(NotImplementedError, AttributeError):
    """So that `hasattr` is False."""


class LackingImport(NotImplementedError, ImportError):
    """So that `except ImportError` catches it. An AttributeError would become an ImportError that says nothing."""


def lacking(package: str, name: str, kind: type[NotImplementedError] = NotImplementedError) -> NotImplementedError:
    """The error for one of them."""
    return kind(f"{package} has no {name}, as gsplat has: {MISSING[name]}")
