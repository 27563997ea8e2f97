"""How far gradients in float32 may be from those of the references in float64."""

from __future__ import annotations

TOLERANCE = 1e-3
"""Of what is added up, or of the largest gradient of a Gaussian or camera."""
OF_LARGEST = 2e-4
"""Of the largest gradient of all: of discs, and along rays."""
