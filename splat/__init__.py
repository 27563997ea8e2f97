"""3D Gaussian splatting for PyTorch, with gsplat 1.5.3's interface, on CPUs and NVIDIA GPUs.

`rasterization` renders; the other functions are the steps it is made of. `build_info` reports which kernels are
installed and whether they fit this machine. Importing splat checks the installed kernels and loads the ones for the
CPU; it compiles nothing and does not initialise CUDA. If the kernels do not fit, the first call that needs them raises
`IncompatibleArtifactError`. Only the command, `splat` or `python -m splat`, puts this off: its help needs no torch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from ._version import VERSION as __version__

# Where what is public is defined: it is imported when it is asked for (PEP 562).
_PLACES: Final = {
    "BuildError": "_kernelwheel",
    "DefaultStrategy": "strategy",
    "FThetaCameraDistortionParameters": "ops.lenses",
    "FThetaPolynomialType": "ops.lenses",
    "IncompatibleArtifactError": "_kernelwheel",
    "KernelWheelError": "_kernelwheel",
    "MCMCStrategy": "strategy",
    "RollingShutterType": "ops.arguments",
    "SelectiveAdam": "ops.selective_adam",
    "StoreError": "_kernelwheel",
    "Strategy": "strategy",
    "UnscentedTransformParameters": "ops.projection_ut",
    "accumulate": "ops.accumulation",
    "accumulate_2dgs": "ops.accumulation",
    "adam": "ops.selective_adam",
    "build_info": "_kernels",
    "compute_relocation": "ops.relocation",
    "export_splats": "scene.exporter",
    "fully_fused_projection": "ops.projection",
    "fully_fused_projection_2dgs": "ops.projection_2dgs",
    "fully_fused_projection_with_ut": "ops.projection_ut",
    "fused_ssim": "ops.image_loss",
    "inject_noise_to_position": "ops.relocation",
    "isect_offset_encode": "ops.intersection",
    "isect_tiles": "ops.intersection",
    "proj": "ops.camera_space",
    "quat_scale_to_covar_preci": "ops.projection",
    "rasterization": "ops.rendering",
    "rasterization_2dgs": "ops.rendering_2dgs",
    "rasterize_contributing_gaussian_ids": "ops.contributing",
    "rasterize_num_contributing_gaussians": "ops.contributing",
    "rasterize_to_indices_in_range": "ops.blended_lists",
    "rasterize_to_indices_in_range_2dgs": "ops.blended_lists",
    "rasterize_to_pixels": "ops.pixels",
    "rasterize_to_pixels_2dgs": "ops.pixels_2dgs",
    "rasterize_to_pixels_eval3d": "ops.pixels_eval3d",
    "rasterize_top_contributing_gaussian_ids": "ops.contributing",
    "spherical_harmonics": "ops.harmonics",
    "world_to_cam": "ops.camera_space",
}


def _is_command() -> bool:
    """Whether this process is `splat ...`, `python -m splat ...` or `python -m splat.as_gsplat ...`."""
    (program,) = getattr(sys, "argv", [""])[:1] or [""]
    if program == "-m":  # while Python looks for the module to run (its documentation, "Command line", -m)
        words = sys.orig_argv
        module = words[words.index("-m") + 1 :][:1] if "-m" in words else []
        return module in ([__name__], [f"{__name__}.as_gsplat"])
    return PurePath(program).stem == __name__


try:
    import_module(f"{__name__}._kernelwheel")
except ModuleNotFoundError as error:
    if error.name != f"{__name__}._kernelwheel":
        raise
    message = (
        f"this is splat's source tree ({__path__[0]}), not an installed splat: run from another folder, or install "
        "the checkout (pip install .)"
    )
    if _is_command():
        sys.exit(f"splat: {message}")
    raise ImportError(message) from None

if TYPE_CHECKING or not _is_command():
    from ._kernels import KERNELS as _KERNELS
    from ._kernels import build_info
    from ._kernelwheel import BuildError, IncompatibleArtifactError, KernelWheelError, StoreError

    _KERNELS.load_if_usable("main")

if TYPE_CHECKING:
    from .ops.accumulation import accumulate, accumulate_2dgs
    from .ops.arguments import RollingShutterType
    from .ops.blended_lists import rasterize_to_indices_in_range, rasterize_to_indices_in_range_2dgs
    from .ops.camera_space import proj, world_to_cam
    from .ops.contributing import (
        rasterize_contributing_gaussian_ids,
        rasterize_num_contributing_gaussians,
        rasterize_top_contributing_gaussian_ids,
    )
    from .ops.harmonics import spherical_harmonics
    from .ops.image_loss import fused_ssim
    from .ops.intersection import isect_offset_encode, isect_tiles
    from .ops.lenses import FThetaCameraDistortionParameters, FThetaPolynomialType
    from .ops.pixels import rasterize_to_pixels
    from .ops.pixels_2dgs import rasterize_to_pixels_2dgs
    from .ops.pixels_eval3d import rasterize_to_pixels_eval3d
    from .ops.projection import fully_fused_projection, quat_scale_to_covar_preci
    from .ops.projection_2dgs import fully_fused_projection_2dgs
    from .ops.projection_ut import UnscentedTransformParameters, fully_fused_projection_with_ut
    from .ops.relocation import compute_relocation, inject_noise_to_position
    from .ops.rendering import rasterization
    from .ops.rendering_2dgs import rasterization_2dgs
    from .ops.selective_adam import SelectiveAdam, adam
    from .scene.exporter import export_splats
    from .strategy import DefaultStrategy, MCMCStrategy, Strategy

__all__ = [
    "BuildError",
    "DefaultStrategy",
    "FThetaCameraDistortionParameters",
    "FThetaPolynomialType",
    "IncompatibleArtifactError",
    "KernelWheelError",
    "MCMCStrategy",
    "RollingShutterType",
    "SelectiveAdam",
    "StoreError",
    "Strategy",
    "UnscentedTransformParameters",
    "__version__",
    "accumulate",
    "accumulate_2dgs",
    "adam",
    "build_info",
    "compute_relocation",
    "export_splats",
    "fully_fused_projection",
    "fully_fused_projection_2dgs",
    "fully_fused_projection_with_ut",
    "fused_ssim",
    "inject_noise_to_position",
    "isect_offset_encode",
    "isect_tiles",
    "proj",
    "quat_scale_to_covar_preci",
    "rasterization",
    "rasterization_2dgs",
    "rasterize_contributing_gaussian_ids",
    "rasterize_num_contributing_gaussians",
    "rasterize_to_indices_in_range",
    "rasterize_to_indices_in_range_2dgs",
    "rasterize_to_pixels",
    "rasterize_to_pixels_2dgs",
    "rasterize_to_pixels_eval3d",
    "rasterize_top_contributing_gaussian_ids",
    "spherical_harmonics",
    "world_to_cam",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        value = globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
        return value
    if not name.startswith("_"):
        from ._missing_names import MISSING, LackingAttribute, LackingImport, lacking

        if name in MISSING:
            # Who asks for `from splat import name` is a function of importlib (the import statement's, for packages).
            imported = sys._getframe(1).f_code.co_name == "_handle_fromlist"
            raise lacking(__name__, name, LackingImport if imported else LackingAttribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
