"""Blending 2D Gaussians in float64, by its definition: Huang et al. (2024), section 4.2, and gsplat 1.5.3's choices."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

import splat
from splat.ops.defaults import MAX_ALPHA
from splat.ops.projection import rotation_matrices

Arguments = dict[str, Any]
IMAGES = ("colors", "alphas", "normals", "distortions", "medians")
LEAVES = ("means2d", "ray_transforms", "colors", "opacities", "normals", "backgrounds")


class Blended(NamedTuple):
    """The images, and the pixels in which float32 may decide otherwise, bool [I, H, W]."""

    images: tuple[Tensor, ...]
    doubtful: Tensor


def disc_scene(
    seed: int = 0, count: int = 60, width: int = 41, height: int = 29, kind: str = "any"
) -> dict[str, Tensor | int]:
    """Gaussians in front of two cameras, the arguments of `fully_fused_projection_2dgs`, and opacities."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    means = normal(count, 3) * torch.tensor([2.0, 1.5, 1.0]) + torch.tensor([0.0, 0.0, 4.0])
    sizes = {"tiny": (0.0, 0.01), "huge": (2.0, 5.0), "near": (0.5, 2.0)}.get(kind, (0.02, 0.5))
    if kind == "near":  # discs that reach behind the camera
        means[:, 2] = 0.3 + means[:, 2].abs() / 4
    scales = sizes[0] + (sizes[1] - sizes[0]) * torch.rand(count, 3, generator=generator)
    viewmats = torch.eye(4).repeat(2, 1, 1)
    viewmats[1, :3, :3] = rotation_matrices(torch.tensor([1.0, 0.1, -0.2, 0.3]))
    low, high = {"opaque": (0.9, 1.0), "clamped": (0.999, 1.0)}.get(kind, (0.04, 0.99))
    return {
        "means": means,
        "quats": normal(count, 4),
        "scales": scales,
        "opacities": low + (high - low) * torch.rand(count, generator=generator),
        "viewmats": viewmats,
        "Ks": torch.tensor(
            [[float(width), 0.0, width / 2], [0.0, 0.9 * width, height / 2 + 1], [0.0, 0.0, 1.0]]
        ).repeat(2, 1, 1),
        "width": width,
        "height": height,
    }


def disc_arguments(
    seed: int = 0,
    kind: str = "any",
    count: int = 60,
    width: int = 41,
    height: int = 29,
    channels: int = 4,
    tile_size: int = 16,
    packed: bool = False,
    has_background: bool = True,
    has_masks: bool = False,
    max_alpha: float = MAX_ALPHA,
) -> Arguments:
    """Arguments of `rasterize_to_pixels_2dgs`."""
    generator = torch.Generator().manual_seed(seed + 1)
    scene = disc_scene(seed, count, width, height, kind)
    opacities = scene.pop("opacities")
    projected: Any = splat.fully_fused_projection_2dgs(**scene, packed=packed)  # type: ignore[arg-type]
    ids = projected[1] if packed else None
    radii, means2d, depths, ray_transforms, normals = projected[-5:]
    grid = (tile_size, -(-width // tile_size), -(-height // tile_size))
    _, keys, flatten_ids = splat.isect_tiles(
        means2d, radii, depths, *grid, packed=packed, n_images=2 if packed else None, image_ids=ids
    )
    offsets = splat.isect_offset_encode(keys, 2, *grid[1:])
    assert isinstance(opacities, Tensor)
    colors = torch.rand(*depths.shape, channels, generator=generator)
    colors[..., -1] = depths
    return {
        "means2d": means2d,
        "ray_transforms": ray_transforms,
        "colors": colors,
        "opacities": opacities[projected[2]] if packed else opacities.expand(2, -1).contiguous(),
        "normals": normals,
        "densify": torch.zeros_like(means2d),
        "image_width": width,
        "image_height": height,
        "tile_size": tile_size,
        "isect_offsets": offsets,
        "flatten_ids": flatten_ids,
        "backgrounds": torch.rand(2, channels, generator=generator) if has_background else None,
        "masks": torch.rand(offsets.shape, generator=generator) < 0.7 if has_masks else None,
        "packed": packed,
        "distloss": True,
        "max_alpha": max_alpha,
    }


def operands(arguments: Arguments) -> list[Any]:
    """Those of the operator `rasterize_2dgs`, without `distloss`."""
    flat = arguments["means2d"].shape[:-1]
    values = [arguments["means2d"], arguments["ray_transforms"].reshape(*flat, 9), arguments["colors"]]
    values += [arguments["opacities"], arguments["colors"][..., -1].contiguous(), arguments["backgrounds"]]
    names = ("masks", "image_width", "image_height", "tile_size", "isect_offsets", "flatten_ids", "max_alpha")
    return [*values, *(arguments[name] for name in names)]


def blend(arguments: Arguments) -> Blended:
    """The images of `rasterize_to_pixels_2dgs`, in the dtype of its arguments."""
    offsets, size = arguments["isect_offsets"], arguments["tile_size"]
    width, height = arguments["image_width"], arguments["image_height"]
    ends = [*offsets.flatten().tolist(), len(arguments["flatten_ids"])]
    flat = {
        name: arguments[name].reshape(-1, *arguments[name].shape[arguments["means2d"].ndim - 1 :])
        for name in LEAVES[:5]
    }
    tiles: list[list[list[tuple[Tensor, ...]]]] = []
    for tile, (image, row, column) in enumerate(torch.ones_like(offsets).nonzero().tolist()):
        y, x = torch.meshgrid(
            torch.arange(row * size, min((row + 1) * size, height)) + 0.5,
            torch.arange(column * size, min((column + 1) * size, width)) + 0.5,
            indexing="ij",
        )
        shown = arguments["masks"] is None or bool(arguments["masks"][image, row, column])
        ids = arguments["flatten_ids"][ends[tile] : ends[tile + 1]].tolist() if shown else []
        background = None if arguments["backgrounds"] is None else arguments["backgrounds"][image]
        if column == 0 and row == 0:
            tiles.append([])
        if column == 0:
            tiles[-1].append([])
        tiles[-1][-1].append(_blend_tile(flat, ids, x, y, background, arguments["max_alpha"]))
    rows = [[[torch.cat(parts, 1) for parts in zip(*line, strict=True)] for line in image] for image in tiles]
    whole = [[torch.cat(parts, 0) for parts in zip(*image, strict=True)] for image in rows]
    *images, doubtful = (torch.stack(parts) for parts in zip(*whole, strict=True))
    return Blended(tuple(images), doubtful)


def _blend_tile(
    flat: dict[str, Tensor], ids: list[int], x: Tensor, y: Tensor, background: Tensor | None, max_alpha: float
) -> tuple[Tensor, ...]:
    """The images of one tile, and which of its pixels are doubtful."""
    x, y = x.to(flat["means2d"].dtype), y.to(flat["means2d"].dtype)
    left = torch.ones_like(x)
    depth_sums, distortions, medians = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
    colors, normals = (x[..., None] * torch.zeros_like(flat[name][:1, None]) for name in ("colors", "normals"))
    done = doubtful = torch.zeros_like(x, dtype=torch.bool)
    for i in ids:
        u, v, w = flat["ray_transforms"][i]
        hits = torch.linalg.cross(x[..., None] * w - u, y[..., None] * w - v)
        parallel = hits[..., 2] == 0
        point = hits[..., :2] / hits[..., 2].where(~parallel, 1.0)[..., None]
        dx, dy = flat["means2d"][i, 0] - x, flat["means2d"][i, 1] - y
        on_disc, on_filter = point.square().sum(-1), 2 * (dx * dx + dy * dy)
        alphas = (flat["opacities"][i] * torch.exp(-torch.minimum(on_disc, on_filter) / 2)).clamp(max=max_alpha)
        seen = (alphas >= 1 / 255) & ~parallel & ~done
        after = left * (1 - alphas)
        doubtful = doubtful | ~done & ((alphas - 1 / 255).abs() < 1e-6) | seen & ((after - 1e-4).abs() < 1e-7)
        done = done | seen & (after <= 1e-4)
        blended = seen & ~done
        doubtful = doubtful | blended & (((left - 0.5).abs() < 1e-6) | ((on_disc - on_filter).abs() < 1e-4 * on_disc))
        weight = torch.where(blended, alphas * left, 0.0)
        depth = flat["colors"][i, -1]
        distortions = distortions + 2 * weight * (depth * (1 - left) - depth_sums)
        depth_sums = depth_sums + weight * depth
        colors = colors + weight[..., None] * flat["colors"][i]
        normals = normals + weight[..., None] * flat["normals"][i]
        medians = torch.where(blended & (left > 0.5), depth, medians)
        left = torch.where(blended, after, left)
    if background is not None:
        colors = colors + left[..., None] * background
    images = colors, (1 - left)[..., None], normals, distortions[..., None], medians[..., None]
    return *(image.detach() if not image.requires_grad else image for image in images), doubtful
