"""Gaussians along rays in float64, by definition: Wu et al. (2025), section 4.2, and gsplat 1.5.3's choices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import splat
from splat.ops.defaults import MAX_ALPHA
from splat.ops.projection import rotation_matrices

Arguments = dict[str, Any]
LEAVES = ("means", "frames", "colors", "opacities", "backgrounds")


def rays_of(kind: str, width: int, height: int) -> Tensor:
    """Rays [2, height, width, 6] of two cameras of a kind."""
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    x, y = (x - width / 2) / width, (y - height / 2 - 1) / width
    bend = 1 + 0.5 * (x * x + y * y) if kind == "lens" else torch.ones_like(x)
    directions = torch.stack([bend * x, bend * y, torch.ones_like(x)], -1)
    if kind == "lens":
        directions[x * x + y * y > 0.2] = 0
    quats = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 0.1, -0.2, 0.3]])
    origins = torch.tensor([[0.0, 0.0, 0.0], [0.3, -0.2, 0.1]])[:, None].expand(2, height, 3)
    rotations = rotation_matrices(quats)[:, None].expand(2, height, 3, 3)
    if kind == "rolling":
        late = torch.linspace(0, 1, height)[:, None]
        origins = origins + late * torch.tensor([0.2, 0.1, -0.1])
        turned = torch.cat([torch.ones(height, 1), late * torch.tensor([0.0, 0.05, 0.02])], -1)
        rotations = rotation_matrices(turned) @ rotations
    turned = torch.einsum("chij,hwj->chwi", rotations, directions)
    drawn = directions.abs().sum(-1, keepdim=True) > 0
    return torch.cat([(origins[:, :, None].expand_as(turned)) * drawn, turned], -1)


def ray_arguments(
    seed: int = 0,
    kind: str = "any",
    rays: str = "pinhole",
    count: int = 60,
    width: int = 41,
    height: int = 29,
    channels: int = 3,
    tile_size: int = 16,
    has_background: bool = True,
    has_masks: bool = False,
    **more: Any,
) -> Arguments:
    """Arguments of `rasterize_along_rays`: two cameras, with all Gaussians in the lists of all tiles; and `more`."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=generator)

    made = rays_of(rays, width, height)
    means = torch.randn(count, 3, generator=generator) * torch.tensor([1.0, 0.7, 0.7]) + torch.tensor([0.0, 0.0, 4.0])
    sizes = {"tiny": (0.01, 0.03), "huge": (2.0, 5.0), "near": (0.5, 2.0), "needle": (0.02, 1.0)}.get(kind, (0.05, 0.5))
    if kind == "near":  # some of them around the camera
        means[:, 2] = means[:, 2].abs() / 4
    scales = uniform(*sizes, count, 3)
    rotations = rotation_matrices(torch.randn(count, 4, generator=generator))
    opacities = {"opaque": (0.9, 1.0), "clamped": (0.999, 1.0)}.get(kind, (0.003, 0.99))
    depths = (means[None] - made[:, height // 2, width // 2, None, :3]).norm(dim=-1)
    rows, columns = -(-height // tile_size), -(-width // tile_size)
    _, keys, flatten_ids = splat.isect_tiles(
        torch.zeros(2, count, 2), torch.full((2, count, 2), 10**4, dtype=torch.int32), depths, tile_size, columns, rows
    )
    return {
        "means": means,
        "frames": rotations.mT / scales[..., None],
        "colors": torch.rand(2, count, channels, generator=generator) - 0.5 * ("normal_channel" in more),
        "opacities": uniform(*opacities, 2, count),
        "rays": made,
        "tile_size": tile_size,
        "isect_offsets": splat.isect_offset_encode(keys, 2, columns, rows),
        "flatten_ids": flatten_ids,
        "backgrounds": torch.rand(2, channels, generator=generator) if has_background else None,
        "masks": torch.rand(2, rows, columns, generator=generator) < 0.7 if has_masks else None,
        "max_alpha": MAX_ALPHA,
        "distance_channel": None,
        "normal_channel": None,
    } | more


def ray_operands(arguments: Arguments) -> Arguments:
    """Those of the operator, in its order."""
    order = ("means", "frames", "colors", "opacities", "rays", "backgrounds", "masks", "tile_size", "isect_offsets")
    order = *order, "flatten_ids", "max_alpha", "distance_channel", "normal_channel"
    given = {name: arguments[name] for name in order}
    return given | {name: arguments[name][None] for name in ("means", "frames")}


def blend_along_rays(given: Arguments) -> tuple[Tensor, Tensor, Tensor]:
    """The images of `rasterize_along_rays`, without batches, in the dtype of its arguments; and the pixels [C, H, W] in
    which float32 may decide otherwise.
    """
    rays, size, count = given["rays"].to(given["means"].dtype), given["tile_size"], len(given["means"])
    ends = [*given["isect_offsets"].flatten().tolist(), len(given["flatten_ids"])]
    colors = rays.new_zeros((*rays.shape[:-1], given["colors"].shape[-1]))
    alphas, doubtful = rays.new_zeros((*rays.shape[:-1], 1)), torch.zeros(rays.shape[:-1], dtype=torch.bool)
    for tile, (image, row, column) in enumerate(torch.ones_like(given["isect_offsets"]).nonzero().tolist()):
        place = image, slice(row * size, (row + 1) * size), slice(column * size, (column + 1) * size)
        shown = given["masks"] is None or bool(given["masks"][image, row, column])
        ids = given["flatten_ids"][ends[tile] : ends[tile + 1]].long() if shown else torch.zeros(0, dtype=torch.long)
        numbers = ids - image * count
        origins, directions = rays[place][..., :3], rays[place][..., 3:]
        drawn = (directions != 0).any(-1)
        u = torch.einsum("nij,nhwj->nhwi", given["frames"][numbers], origins - given["means"][numbers, None, None])
        g = torch.einsum("nij,hwj->nhwi", given["frames"][numbers], directions + ~drawn[..., None])
        across = torch.linalg.cross(u, g).square().sum(-1) / g.square().sum(-1)
        unclamped = given["opacities"][image, numbers, None, None] * torch.exp(-across / 2)
        alpha = unclamped.clamp(max=given["max_alpha"])
        seen = (alpha >= 1 / 255) & drawn
        after = torch.cumprod(1 - torch.where(seen, alpha, 0.0), 0)
        blended = seen & (after > 1e-4)
        left = torch.cumprod(1 - torch.where(blended, alpha, 0.0), 0)
        before = torch.cat([torch.ones_like(drawn, dtype=left.dtype)[None], left])
        weights = torch.where(blended, alpha, 0.0) * before[:-1]
        shown = _shown(given, given["colors"][image, numbers], u, g, directions)
        colors[place] = torch.einsum("nhw,nhwc->hwc", weights, shown)
        if given["backgrounds"] is not None:
            colors[place] = colors[place] + before[-1, ..., None] * given["backgrounds"][image]
        alphas[place] = 1 - before[-1, ..., None]
        near = (
            ((alpha - 1 / 255).abs() < 1e-6)
            | ((after - 1e-4).abs() < 1e-7)
            | ((unclamped - given["max_alpha"]).abs() < 1e-7)
        )
        doubtful[place] = (near & (before[:-1] > 1e-4) & drawn).any(0)
    return colors, alphas, doubtful


def _shown(given: Arguments, colors: Tensor, u: Tensor, g: Tensor, directions: Tensor) -> Tensor:
    """What Gaussians [n, D] show in the pixels of a tile, [n, H, W, D]."""
    distance, normal = given.get("distance_channel"), given.get("normal_channel")
    shown = colors[:, None, None].expand(*u.shape[:-1], -1).clone()
    if normal is not None:
        normals = shown[..., normal : normal + 3]
        away = (normals * directions).sum(-1, keepdim=True) > 0
        shown[..., normal : normal + 3] = torch.where(away, -normals, normals)
    if distance is not None:
        nearest = (u * g).sum(-1) / g.square().sum(-1)
        shown[..., distance] = nearest.abs() * directions.norm(dim=-1)
    return shown
