"""Names of gsplat 1.5.3 that splat does not have, with what to use instead."""

from __future__ import annotations

from typing import Final

_STRATEGY = "splat.compat.gsplat_strategies has gsplat's own, with splat's operators; it needs gsplat beside splat"

MISSING: Final = {
    "rasterization_2dgs_inria_wrapper": "it is a wrapper of another package; splat.rasterization_2dgs renders the same",
    "rasterization_inria_wrapper": "it is a wrapper of another package; splat.rasterization renders the same",
    "DefaultStrategy": _STRATEGY,
    "MCMCStrategy": _STRATEGY,
    "Strategy": _STRATEGY,
    "PngCompression": "`splat convert SCENE.ply SCENE.spz` compresses a scene",
    "export_splats": "`splat convert` writes .ply, .compressed.ply, .splat, .sog and .spz",
}


class LackingAttribute(NotImplementedError, AttributeError):
    """So that `hasattr` is False."""


class LackingImport(NotImplementedError, ImportError):
    """So that `except ImportError` catches it. An AttributeError would become an ImportError that says nothing."""


def lacking(package: str, name: str, kind: type[NotImplementedError]) -> NotImplementedError:
    """The error for one of them."""
    return kind(f"{package} has no {name}, as gsplat has: {MISSING[name]}")
