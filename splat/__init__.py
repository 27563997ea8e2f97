"""3D Gaussian splatting for PyTorch, from a wheel that knows what is inside it.

`rasterization` renders; the other functions are the steps it is made of. `build_info` reports which kernels are
installed and whether they fit this machine. Importing splat checks the installed kernels and loads the ones for the
CPU; it compiles nothing and does not initialise CUDA. If the kernels do not fit, the first call that needs them raises
`IncompatibleArtifactError`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

try:
    from ._kernels import KERNELS as _KERNELS
except ModuleNotFoundError as error:
    if error.name != f"{__name__}._kernelwheel":
        raise
    raise ImportError(
        f"this is splat's source tree ({__path__[0]}), not an installed splat: run from another folder, or install "
        "the checkout (pip install .)"
    ) from None
from ._kernels import build_info
from ._kernelwheel.loader import BuildError, IncompatibleArtifactError, KernelWheelError, StoreError
from ._version import VERSION as __version__
from .ops.arguments import RollingShutterType
from .ops.intersection import isect_offset_encode, isect_tiles
from .ops.pixels import rasterize_to_pixels
from .ops.projection import fully_fused_projection, quat_scale_to_covar_preci
from .ops.rendering import rasterization

if TYPE_CHECKING:
    from .ops.blended_lists import accumulate, rasterize_to_indices_in_range
    from .ops.camera_space import proj, world_to_cam
    from .ops.harmonics import spherical_harmonics
    from .ops.relocation import compute_relocation, inject_noise_to_position
    from .ops.selective_adam import SelectiveAdam, adam

# What a first picture does without: imported when it is asked for (PEP 562).
_LATER: Final = {
    "SelectiveAdam": "selective_adam",
    "accumulate": "blended_lists",
    "adam": "selective_adam",
    "compute_relocation": "relocation",
    "inject_noise_to_position": "relocation",
    "proj": "camera_space",
    "rasterize_to_indices_in_range": "blended_lists",
    "spherical_harmonics": "harmonics",
    "world_to_cam": "camera_space",
}

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


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.ops.{_LATER[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_KERNELS.load_if_usable()
