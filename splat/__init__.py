"""3D Gaussian splatting for PyTorch, from a wheel that knows what is inside it.

`rasterization` renders; the other functions are the steps it is made of. `build_info` reports which kernels are
installed and whether they fit this machine. Importing splat checks the installed kernels and loads the ones for the
CPU; it compiles nothing and does not initialise CUDA. If the kernels do not fit, the first call that needs them raises
`IncompatibleArtifactError`.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec(f"{__name__}._kernelwheel") is None:
    raise ImportError(
        f"this is splat's source tree ({__path__[0]}), not an installed splat: run from another folder, or install "
        "the checkout (pip install .)"
    )

from ._kernels import KERNELS as _KERNELS
from ._kernels import build_info
from ._kernelwheel.core.errors import BuildError, IncompatibleArtifactError, KernelWheelError, StoreError
from ._version import VERSION as __version__
from .ops.arguments import RollingShutterType
from .ops.blended_lists import accumulate, rasterize_to_indices_in_range
from .ops.camera_space import proj, world_to_cam
from .ops.harmonics import spherical_harmonics
from .ops.intersection import isect_offset_encode, isect_tiles
from .ops.pixels import rasterize_to_pixels
from .ops.projection import fully_fused_projection, quat_scale_to_covar_preci
from .ops.relocation import compute_relocation, inject_noise_to_position
from .ops.rendering import rasterization
from .ops.selective_adam import SelectiveAdam, adam

__all__ = [
    "BuildError",
    "IncompatibleArtifactError",
    "KernelWheelError",
    "RollingShutterType",
    "SelectiveAdam",
    "StoreError",
    "__version__",
    "accumulate",
    "adam",
    "build_info",
    "compute_relocation",
    "fully_fused_projection",
    "inject_noise_to_position",
    "isect_offset_encode",
    "isect_tiles",
    "proj",
    "quat_scale_to_covar_preci",
    "rasterization",
    "rasterize_to_indices_in_range",
    "rasterize_to_pixels",
    "spherical_harmonics",
    "world_to_cam",
]

_KERNELS.load_if_usable()
