"""Defaults of projection and blending, gsplat 1.5.3's. Operators have none; the page gets them from here."""

from __future__ import annotations

from typing import Final

EPS2D: Final = 0.3
"""Added to the variances in the image, in pixels^2."""
NEAR_PLANE: Final = 0.01
FAR_PLANE: Final = 1e10
MAX_ALPHA: Final = 0.999
"""Keeps 1 - alpha, by which the backward pass divides, away from zero. Kerbl et al. (2023), appendix C, and gsplat 1.6
have 0.99.
"""
