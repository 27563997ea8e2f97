"""A good call of every public function that takes tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from disc_reference import disc_arguments, disc_scene
from scenes import random_scene
from torch import Tensor

import splat

Call = tuple[Callable[..., Any], dict[str, Any]]
# These are about files and about the installation, and about an optimizer's dicts.
OTHERS = {"build_info", "export_splats", "inject_noise_to_position"}
WIDTH, HEIGHT = 24, 20


def public_functions() -> set[str]:
    """Those that take tensors."""
    return {name for name in splat.__all__ if inspect.isfunction(getattr(splat, name))} - OTHERS


def public_calls(seed: int = 3, count: int = 12) -> dict[str, Call]:
    """One of each, by name, and of `rasterization` one of each way to draw."""
    torch.manual_seed(seed)
    scene = random_scene(seed, count, WIDTH, HEIGHT, size="mixed", views=("front", "inside")).arguments
    discs: dict[str, Any] = {**disc_scene(seed, count, WIDTH, HEIGHT), "colors": torch.rand(count, 3)}
    cameras = {name: scene[name] for name in ("viewmats", "Ks", "width", "height")}
    shapes = {name: scene[name] for name in ("means", "quats", "scales")}
    of_discs = {name: discs[name] for name in (*shapes, *cameras)}
    covars, _ = splat.quat_scale_to_covar_preci(scene["quats"], scene["scales"])
    centres, turned = splat.world_to_cam(scene["means"], covars, scene["viewmats"])
    _, _, meta = splat.rasterization(**scene, packed=False)
    size = {"image_width": WIDTH, "image_height": HEIGHT, "tile_size": 16}
    lists = {name: meta[name] for name in ("isect_offsets", "flatten_ids")}
    blended = {name: meta[name] for name in ("means2d", "conics", "opacities")}
    counted = {**blended, "tile_offsets": lists["isect_offsets"], "flatten_ids": lists["flatten_ids"], **size}
    flat = disc_arguments(seed, "any", count, WIDTH, HEIGHT)
    of_flat = {name: flat[name] for name in ("means2d", "ray_transforms", "opacities")}
    lists_of_flat = {name: flat[name] for name in (*size, "isect_offsets", "flatten_ids")}
    light = torch.ones(2, HEIGHT, WIDTH)
    ids = dict(
        zip(
            ("gaussian_ids", "pixel_ids", "image_ids"),
            splat.rasterize_to_indices_in_range(0, 99, light, **blended, **size, **lists),
            strict=True,
        )
    )
    per_camera = {"colors": scene["colors"].expand(2, -1, -1), "opacities": scene["opacities"].expand(2, -1)}
    numbers, _ = splat.rasterize_num_contributing_gaussians(**counted)
    whole = {name: each for name, each in size.items() if name != "tile_size"}
    grid = {"tile_size": 16, "tile_width": 2, "tile_height": 2}
    boxes = {name: meta[name] for name in ("means2d", "radii", "depths")}
    keys = splat.isect_tiles(**boxes, **grid)[1]
    param = {name: torch.rand(4, 3) for name in ("param", "param_grad", "exp_avg", "exp_avg_sq")}
    values: dict[str, dict[str, Any]] = {
        "rasterization": {**scene, "backgrounds": torch.rand(5), "extra_signals": torch.rand(count, 2)},
        "rasterization_2dgs": {**discs, "backgrounds": torch.rand(3)},
        "accumulate": {**blended, "colors": per_camera["colors"], **ids, **whole},
        "accumulate_2dgs": {**of_flat, "colors": flat["colors"], "normals": flat["normals"], **ids, **whole},
        "adam": {**param, "valid": torch.ones(4, dtype=torch.bool), "lr": 0.1, "b1": 0.9, "b2": 0.99, "eps": 1e-8},
        "compute_relocation": {
            "opacities": torch.rand(count), "scales": scene["scales"], "ratios": torch.ones(count),
            "binoms": torch.ones(3, 3), "min_opacity": 0.01,
        },
        "fully_fused_projection": {**shapes, "covars": None, **cameras, "opacities": scene["opacities"]},
        "fully_fused_projection_2dgs": of_discs,
        "fully_fused_projection_with_ut": {
            **shapes, "opacities": scene["opacities"], **cameras, "radial_coeffs": torch.zeros(2, 6),
        },
        "fused_ssim": dict(zip(("img1", "img2"), torch.rand(2, 1, 3, 16, 16), strict=True)),
        "isect_offset_encode": {"isect_ids": keys, "n_images": 2, "tile_width": 2, "tile_height": 2},
        "isect_tiles": {**boxes, **grid},
        "proj": {"means": centres, "covars": turned, "Ks": scene["Ks"], "width": WIDTH, "height": HEIGHT},
        "quat_scale_to_covar_preci": {name: scene[name] for name in ("quats", "scales")},
        "rasterize_contributing_gaussian_ids": {**counted, "num_contributing_gaussians": numbers},
        "rasterize_num_contributing_gaussians": counted,
        "rasterize_top_contributing_gaussian_ids": {**counted, "num_depth_samples": 2},
        "rasterize_to_indices_in_range": {
            "range_start": 0, "range_end": 9, "transmittances": light, **blended, **size, **lists,
        },
        "rasterize_to_indices_in_range_2dgs": {
            "range_start": 0, "range_end": 9, "transmittances": light, **of_flat, **lists_of_flat,
        },
        "rasterize_to_pixels": {**blended, "colors": per_camera["colors"], **size, **lists},
        "rasterize_to_pixels_2dgs": flat,
        "rasterize_to_pixels_eval3d": {
            **shapes, **per_camera, "viewmats": scene["viewmats"], "Ks": scene["Ks"], **size, **lists,
        },
        "spherical_harmonics": {"degrees_to_use": 1, "dirs": scene["means"], "coeffs": torch.rand(count, 4, 3)},
        "world_to_cam": {"means": scene["means"], "covars": covars, "viewmats": scene["viewmats"]},
    }  # fmt: skip
    return {name: (getattr(splat, name), given) for name, given in values.items()}


def tensors_of(given: dict[str, Any]) -> list[str]:
    """The names of the arguments that are tensors."""
    return [name for name, value in given.items() if isinstance(value, Tensor)]
