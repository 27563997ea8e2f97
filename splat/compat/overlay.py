"""splat's functions in the modules of the installed gsplat, in place of those that compute; for `splat.as_gsplat`.

Everything else there, such as strategies, exporter and helpers, stays, and gets splat's functions where it imports
them. gsplat 1.5.3 has splat's parameters and shapes, 1.6 in another order, with alphas up to 0.99. For those of earlier
releases a function takes the parameters that gsplat's own has, and returns its shapes.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import torch

import splat

from . import gsplat01, gsplat14

FUNCTIONS: Final = {
    "gsplat.cuda._wrapper": (
        "adam",
        "fully_fused_projection",
        "fully_fused_projection_2dgs",
        "fully_fused_projection_with_ut",
        "isect_offset_encode",
        "isect_tiles",
        "proj",
        "quat_scale_to_covar_preci",
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
    ),
    "gsplat.cuda._torch_impl": ("accumulate",),
    "gsplat.cuda._torch_impl_2dgs": ("accumulate_2dgs",),
    "gsplat.rendering": ("rasterization", "rasterization_2dgs"),
    "gsplat.relocation": ("compute_relocation",),
}
"""Where gsplat defines what splat has too, under the same names. A release may lack some of them."""

OLD_FUNCTIONS: Final = {
    "gsplat.cuda_legacy._wrapper": ("project_gaussians", "rasterize_gaussians", "spherical_harmonics"),
    "gsplat.project_gaussians": ("project_gaussians",),
    "gsplat.rasterize": ("rasterize_gaussians",),
    "gsplat.sh": ("spherical_harmonics",),
}
"""Where gsplat before 1.4 defines what `gsplat01` has."""

RENAMED: Final = {"n_cameras": "n_images", "camera_ids": "image_ids"}
"""Parameters before gsplat 1.5.3."""

replaced: Final[dict[str, str]] = {}
"""What was replaced in this process, by what."""


def change(module: Any) -> None:
    """Put splat's functions into one of gsplat's modules, which has just been imported.

    Raises:
        ImportError: it is of a release that this was not made for.
    """
    name = module.__name__
    release = _release(import_module("gsplat.version").__version__ if name != "gsplat.version" else module.__version__)
    for function in FUNCTIONS.get(name, ()):
        if hasattr(module, function):
            theirs = getattr(module, function)
            setattr(module, function, _fitted(theirs, getattr(splat, function), release))
            replaced[f"{name}.{function}"] = f"splat.{function}"
    for function in OLD_FUNCTIONS.get(name, ()):
        setattr(module, function, getattr(gsplat01, function))
        replaced[f"{name}.{function}"] = f"splat.compat.gsplat01.{function}"
    if name == "gsplat._lazy_backend":  # since 1.6, which would compile its kernels when it is imported
        module.cuda_toolkit_available = lambda: False
    if name == "gsplat.cuda._wrapper" and release >= (1, 6):
        for kind in ("UnscentedTransformParameters", "FThetaCameraDistortionParameters"):
            setattr(module, kind, getattr(splat, kind))
    if name == "gsplat.distributed":
        module.cli = _cli(module.cli)
        replaced[f"{name}.cli"] = "one process, without CUDA"


def listing() -> list[str]:
    """What is replaced, a line each, after a title."""
    for name in (*FUNCTIONS, *OLD_FUNCTIONS, "gsplat.distributed"):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("gsplat."):  # a release may lack some of its own
                raise
    replaced["fused_ssim.fused_ssim"] = "splat.fused_ssim"  # by `at_start`
    version = import_module("gsplat.version").__version__
    return [
        f"gsplat {version}, with splat {splat.__version__}:",
        *(f"  {name:<60} {ours}" for name, ours in replaced.items()),
    ]


def _release(version: str) -> tuple[int, ...]:
    release = tuple(map(int, re.findall(r"\d+", version)[:3]))  # 1.5.3+pt24cu124 is a version, too
    if not (0, 1, 9) <= release < (1, 7):
        raise ImportError(
            f"splat.as_gsplat needs gsplat 0.1.9 to 1.6, whose functions it replaces; found {version}: "
            "pip install gsplat==1.5.3"
        )
    return release


def _fitted(theirs: Callable[..., Any], ours: Callable[..., Any], release: tuple[int, ...]) -> Callable[..., Any]:
    """Ours, with the parameters, their defaults and the results of theirs."""
    if (1, 5, 3) <= release < (1, 6):
        return ours
    name, one_radius = theirs.__name__, release < (1, 5)
    if one_radius and name == "rasterization":
        ours = gsplat14.rasterization
    if release >= (1, 6) and "max_alpha" in inspect.signature(ours).parameters:
        ours = functools.partial(ours, max_alpha=0.99)
    signature, own = inspect.signature(theirs), inspect.signature(ours).parameters
    named = {RENAMED.get(each, each): parameter.default for each, parameter in signature.parameters.items()}
    defaults = {each: value for each, value in named.items() if each in own and value is not inspect.Parameter.empty}

    @functools.wraps(theirs)
    def fitted(*args: Any, **kwargs: Any) -> Any:
        said = signature.bind(*args, **kwargs).arguments
        given = defaults | {RENAMED.get(each, each): value for each, value in said.items()}
        if given.pop("ortho", False):  # before 1.4
            given["camera_model"] = "ortho"
        if one_radius and "radii" in given:
            given["radii"] = torch.stack([given["radii"]] * 2, dim=-1)
        found = ours(**given)
        return found if release >= (1, 6) else _as_before(name, found, bool(given.get("packed")), one_radius)

    return fitted


def _as_before(name: str, found: Any, packed: bool, one_radius: bool) -> Any:
    """What a function of this name returned before gsplat 1.5.3, and with one radius before 1.5."""
    if one_radius and name == "rasterization_2dgs":
        found[-1]["radii"] = found[-1]["radii"].amax(-1)
    if not name.startswith("fully_fused_projection"):
        return found
    parts = list(found)
    if packed:
        del parts[0]  # batch_ids
    if one_radius:
        radii = 2 if packed else 0
        parts[radii] = parts[radii].amax(-1)
    return tuple(parts)


def _cli(theirs: Callable[..., bool]) -> Callable[..., bool]:
    """gsplat's `cli` calls a function in one process for each GPU, and refuses to without any."""

    @functools.wraps(theirs)
    def cli(fn: Callable[[int, int, int, Any], None], args: Any, verbose: bool = False) -> bool:
        if torch.cuda.is_available() or "OMPI_COMM_WORLD_SIZE" in os.environ:
            return theirs(fn, args, verbose)
        fn(0, 0, 1, args)
        return True

    return cli
