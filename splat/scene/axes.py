"""The axes of files that differ from those in memory by their signs.

In memory scenes have the axes of 3DGS and COLMAP: x right, y down, z forward.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

Axes = tuple[int, int, int]
"""The signs that turn coordinates of a file into those in memory, or back."""
OPENGL_AXES: Final[Axes] = (1, -1, -1)
"""Those of OpenGL and .spz: x right, y up, z back."""
GLTF_AXES: Final[Axes] = (-1, -1, 1)
"""Those of glTF: x left, y up, z forward."""

Floats = npt.NDArray[np.float32]


def quaternion_signs(axes: Axes) -> Floats:
    """How w, x, y, z change when axes change their signs."""
    x, y, z = axes
    return np.array([1, y * z, x * z, x * y], np.float32)


def harmonic_signs(count: int, axes: Axes) -> Floats:
    """How spherical harmonics [count, 1] change when axes change their signs.

    Each is a polynomial of degree l that is odd in y if m < 0 and odd in z if l - |m| is odd, which leaves x.
    """
    x, y, z = axes
    signs = []
    for k in range(count):
        degree = math.isqrt(k)
        m = k - degree * (degree + 1)
        odd_y, odd_z = m < 0, (degree - abs(m)) % 2
        signs.append(y**odd_y * z**odd_z * x ** ((degree - odd_y - odd_z) % 2))
    return np.array(signs, np.float32)[:, None]
