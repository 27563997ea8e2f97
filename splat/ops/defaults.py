"""Defaults of the projection, which are gsplat's. Operators have none; page/gaussians.vert has a copy of EPS2D."""

from __future__ import annotations

from typing import Final

EPS2D: Final = 0.3
"""Added to the variances in the image, in pixels^2."""
NEAR_PLANE: Final = 0.01
FAR_PLANE: Final = 1e10
