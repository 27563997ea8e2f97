"""Names of gsplat 1.5.3 that splat does not have, with what to use instead."""

from __future__ import annotations

from typing import Final

MISSING: Final = {
    "rasterization_2dgs_inria_wrapper": "it is a wrapper of another package; splat.rasterization_2dgs renders the same",
    "rasterization_inria_wrapper": "it is a wrapper of another package; splat.rasterization renders the same",
    "PngCompression": "`splat convert SCENE.ply SCENE.spz` compresses a scene",
}


class LackingAttribute(NotImplementedError, AttributeError):
    """So that `hasattr` is False."""


class LackingImport(NotImplementedError, ImportError):
    """So that `except ImportError` catches it. An AttributeError would become an ImportError that says nothing."""


def lacking(package: str, name: str, kind: type[NotImplementedError]) -> NotImplementedError:
    """The error for one of them."""
    return kind(f"{package} has no {name}, as gsplat has: {MISSING[name]}")
