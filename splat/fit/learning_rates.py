"""Adam's learning rates of the Gaussians' parameters; picture_parameters.py has those of cameras and colours."""

from __future__ import annotations

import math
from typing import Final

RATES: Final = {"means": 0.0, "quats": 5e-3, "scales": 1e-2, "opacities": 5e-2, "constant": 1e-2, "bands": 1e-3}
"""That of the means is set for each step."""
_MEANS: Final = (3e-3, 3e-5)
"""At the first and at the last step, in units of the scene's extent."""


def means_rate(step: int, steps: int) -> float:
    """The rate of the means at a step, from 1 to `steps`, in units of the scene's extent: it falls exponentially."""
    first, last = _MEANS
    share = (step - 1) / max(steps - 1, 1)
    return first * math.pow(last / first, share)
