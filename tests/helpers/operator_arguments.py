"""Arguments of splat's operators: random ones of each kind, and ones that are spoiled."""

from __future__ import annotations

from typing import Any

import torch
from scenes import random_scene
from torch import Tensor

from splat.ops.defaults import MAX_ALPHA

OPS = torch.ops.splat
PARAMETERS = ("means2d", "conics", "colors", "opacities", "backgrounds")
Arguments = dict[str, Any]


def gaussians(
    seed: int,
    kind: str = "any",
    images: int = 1,
    count: int = 20,
    width: int = 37,
    height: int = 23,
    channels: int = 3,
    tile_size: int = 16,
    packed: bool = False,
    has_background: bool = True,
    has_masks: bool = False,
    max_alpha: float = MAX_ALPHA,
) -> Arguments:
    """Arguments of rasterize: random Gaussians in the plane of each image."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=generator)

    size = torch.tensor([width, height])
    means = uniform(-0.1, 1.1, images, count, 2) * size
    low, high = {"thin": (0.3, 0.5), "huge": (20.0, 300.0)}.get(kind, (0.6, 8.0))
    deviations = uniform(low, high, images, count, 2)
    angle = uniform(0, torch.pi, images, count)
    opacities = uniform(0.05, 0.95, images, count)
    if kind == "edges":
        means = (means / tile_size).round() * tile_size + torch.randint(-1, 2, means.shape, generator=generator) / 2
    elif kind == "clamped":
        means = means.floor() + 0.5
        opacities = uniform(0.998, 1.0, images, count)
    elif kind == "saturated":
        opacities = uniform(0.9, 0.99, images, count)
        deviations = deviations + 10
    elif kind == "thin":
        deviations[..., 0] = uniform(1, 60, images, count)
    elif kind == "beside":
        means = means + size * torch.tensor([1.2, 0.0])
    axis = torch.stack([angle.cos(), angle.sin()], -1)
    other = torch.stack([-angle.sin(), angle.cos()], -1)
    a, b = deviations[..., 0, None, None] ** -2, deviations[..., 1, None, None] ** -2
    inverse = a * axis[..., None] * axis[..., None, :] + b * other[..., None] * other[..., None, :]
    conics = torch.stack([inverse[..., 0, 0], inverse[..., 0, 1], inverse[..., 1, 1]], -1)
    values = {
        "means2d": means,
        "conics": conics,
        "colors": uniform(-0.5, 1.5, images, count, channels),
        "opacities": opacities,
    }
    lists = {"depths": uniform(1, 2, images, count), "radii": torch.full((images, count, 2), 1000, dtype=torch.int32)}
    keep = torch.rand(images, count, generator=generator) < 0.8
    if packed:
        values, lists = ({name: value[keep] for name, value in part.items()} for part in (values, lists))
    columns, rows = -(-width // tile_size), -(-height // tile_size)
    _, flatten_ids, offsets = OPS.intersect(
        values["means2d"],
        lists["radii"],
        lists["depths"],
        values["conics"],
        values["opacities"],
        keep.nonzero()[:, 0] if packed else None,
        images,
        tile_size,
        columns,
        rows,
    )
    return values | {
        "backgrounds": uniform(0, 1, images, channels) if has_background else None,
        "masks": torch.rand(images, rows, columns, generator=generator) < 0.7 if has_masks else None,
        "width": width,
        "height": height,
        "tile_size": tile_size,
        "isect_offsets": offsets,
        "flatten_ids": flatten_ids,
        "max_alpha": max_alpha,
    }


def random_v(arguments: Arguments) -> tuple[Tensor, Tensor]:
    """Gradients for the images and the alphas."""
    generator = torch.Generator().manual_seed(9)
    shape = (len(arguments["isect_offsets"]), arguments["height"], arguments["width"])
    return torch.randn(*shape, arguments["colors"].shape[-1], generator=generator), torch.randn(
        *shape, 1, generator=generator
    )


OPS = torch.ops.splat


def intersect_arguments(
    seed: int = 0, size: str = "mixed", tile_size: int = 16, packed: bool = False, gaussians: int = 300
) -> Arguments:
    """Arguments of `intersect`: what two cameras see, one of them of the inside."""
    width, height = 70, 45
    scene = random_scene(seed, gaussians=gaussians, width=width, height=height, size=size, views=("front", "inside"))
    radii, means2d, depths, conics, *_ = OPS.project(
        scene.means, scene.quats, scene.scales, None, scene.opacities, None, scene.viewmats, scene.Ks, width, height,
        0.3, 0.01, 1e10, 0.0, False, 0, 0, None,
    )  # fmt: skip
    arguments = {
        "means2d": means2d,
        "radii": radii,
        "depths": depths.round(decimals=2),  # some are the same
        "conics": conics,
        "opacities": scene.opacities.expand(2, -1).contiguous(),
        "image_ids": None,
        "images": 2,
        "tile_size": tile_size,
        "tile_width": -(-width // tile_size),
        "tile_height": -(-height // tile_size),
    }
    if packed:
        keep = (radii > 0).all(-1)
        arguments |= {name: arguments[name][keep] for name in ("means2d", "radii", "depths", "conics", "opacities")}
        arguments["image_ids"] = keep.nonzero()[:, 0]
    return arguments


def pack_arguments(sets: int, channels: int, gaussians: int = 300) -> Arguments:
    """Arguments of `pack`: what two cameras see."""
    arguments = intersect_arguments(2, gaussians=gaussians)
    colors = torch.rand(sets, arguments["depths"].shape[1], channels, generator=torch.Generator().manual_seed(5))
    return {name: one for name, one in arguments.items() if name not in ("image_ids", "images")} | {"colors": colors}


def image_loss_arguments(shape: tuple[int, ...], masked: bool = False, margin: int = 0) -> Arguments:
    """Arguments of `image_loss`: two pictures that are alike, and one pixel the same."""
    generator = torch.Generator().manual_seed(sum(shape))
    image = torch.rand(shape, generator=generator)
    target = (image + 0.3 * torch.randn(shape, generator=generator)).clamp(0, 1)
    target[0, 0, 0] = image[0, 0, 0]
    mask = torch.rand(shape[:3], generator=generator) < 0.7 if masked else None
    if mask is not None:
        mask[:, shape[1] // 2, shape[2] // 2] = True
    weights = {"absolute_weight": 0.8, "ssim_weight": -0.2}
    return {"image": image, "target": target, "mask": mask} | weights | {"margin": margin, "gradient": True}


def image_loss_and_gradient(operators: Any, arguments: Arguments) -> tuple[Tensor, Tensor, Tensor]:
    """The value, what is kept for the gradient, and the gradient, by the operators of a library."""
    value, weights, partials = operators.image_loss(**arguments)
    pictures = (arguments["image"], arguments["target"], arguments["mask"])
    return value, partials, operators.image_loss_backward(*pictures, weights, partials, torch.full_like(value, 1.7))


CASES: dict[str, Arguments] = {
    "plain": {},
    "packed": {"packed": True, "images": 2, "has_background": False},
    "masked": {"has_masks": True, "tile_size": 8, "channels": 4},
    "edges": {"kind": "edges"},
    "clamped": {"kind": "clamped", "count": 30, "channels": 1},
    "saturated": {"kind": "saturated", "count": 90},
    "thin": {"kind": "thin", "count": 40},
    "huge": {"kind": "huge"},
    "beside": {"kind": "beside"},
    "a pixel": {"width": 1, "height": 1},
    "small tiles": {"tile_size": 3, "width": 13, "height": 8},
    "odd tiles": {"tile_size": 20, "channels": 2},
    "large tiles": {"tile_size": 32, "width": 45, "channels": 12},
    "many channels": {"channels": 6, "count": 12, "width": 17, "height": 16},
    "more channels": {"channels": 32, "count": 12, "width": 17, "height": 16},
    "channels in chunks": {"channels": 37, "count": 12, "width": 17, "height": 16},
    "several batches": {"count": 600, "width": 20, "height": 16},
}
WIDTH, HEIGHT, TILE = 70, 45, 16
Arguments = dict[str, Any]


def project_arguments(seed: int = 0, gaussians: int = 300, views: tuple[str, ...] = ("front", "close")) -> Arguments:
    scene = random_scene(seed, gaussians=gaussians, width=WIDTH, height=HEIGHT, size="mixed", views=views)
    return {
        "means": scene.means,
        "quats": scene.quats,
        "scales": scene.scales,
        "covars": None,
        "opacities": scene.opacities,
        "coeffs": None,
        "viewmats": scene.viewmats,
        "Ks": scene.Ks,
        "width": WIDTH,
        "height": HEIGHT,
        "eps2d": 0.3,
        "near_plane": 0.01,
        "far_plane": 1e10,
        "radius_clip": 0.0,
        "antialiased": False,
        "camera_model": 0,
        "degree": 0,
        "direct": None,
    }


def shaded_arguments() -> Arguments:
    coeffs = torch.randn(1, 300, 16, 3, generator=torch.Generator().manual_seed(3))
    return project_arguments() | {"coeffs": coeffs, "degree": 3}


def spoiled_arguments(name: str, value: float = torch.nan, sets: int = 1) -> Arguments:
    """Those of `project` with `value` in every seventh Gaussian's `name`: one of the parameters, coeffs or direct."""
    direct = torch.rand(sets, 300, 5, generator=torch.Generator().manual_seed(4))
    arguments = {
        "coeffs": shaded_arguments,
        "covars": covariance_arguments,
        "direct": lambda: project_arguments() | {"direct": direct},
    }.get(name, project_arguments)()
    if name == "coeffs":
        arguments["coeffs"] = arguments["coeffs"].repeat(sets, 1, 1, 1)
    arguments[name] = arguments[name].clone()
    rows = arguments[name][:, ::7] if name in ("coeffs", "direct") else arguments[name][::7, None]
    rows[..., -1] = value
    return arguments


def covariance_arguments() -> Arguments:
    shape = {"quats": None, "scales": None, "covars": torch.tensor([0.02, 0.0, 0.01, 0.03, 0.0, 0.02]).repeat(300, 1)}
    return project_arguments() | shape


GEOMETRY = ("means", "quats", "scales", "covars", "opacities")
