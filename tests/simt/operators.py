"""The operators as their CUDA implementations put them together, with the kernels executed on the CPU.

What is outside of kernels is numpy's here: a stable sort in place of CUB's, and its prefix sum. The arguments and
results are those of torch.ops.splat. Shapes as in csrc/*_operands.h.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Arguments = dict[str, Any]
Array = NDArray[Any]


def intersect(kernels: ModuleType, arguments: Arguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """splat::intersect of csrc/cuda/intersect.cu."""
    packed = arguments["image_ids"] is not None
    rows, columns, images = arguments["tile_height"], arguments["tile_width"], arguments["images"]
    inputs = {
        "means": _rows(arguments["means2d"], 2),
        "depths": _rows(arguments["depths"]),
        "conics": _rows(arguments["conics"], 3),
        "opacities": _rows(arguments["opacities"]),
        "radii": _rows(arguments["radii"], 2),
        "image_ids": _rows(arguments["image_ids"]) if packed else None,
        "gaussians": 0 if packed else arguments["depths"].shape[1],
        "images": images,
        "tile_size": arguments["tile_size"],
        "columns": columns,
        "rows": rows,
        "tile_bits": (columns * rows).bit_length(),
    }
    count = len(inputs["means"])
    tiles_per_gauss, order = _garbage(count, np.int32), _garbage(count, np.int32)
    depth_keys = _garbage(count, np.uint32)
    totals = np.zeros(2, np.uint64)
    kernels.count_tiles(inputs, tiles_per_gauss, depth_keys, order, totals)
    total, bad_images = map(int, totals)
    if bad_images:
        raise RuntimeError(f"image_ids must be in [0, {images})")
    order = order[np.argsort(depth_keys, kind="stable")]
    starts = _garbage(count + 1, np.int64)
    kernels.order_counts(order, tiles_per_gauss, starts)
    starts = np.concatenate([[0], np.cumsum(starts)[:-1]]).astype(np.int64)
    tile_keys, indices = _garbage(total, np.uint32), _garbage(total, np.int32)
    keys, offsets = _garbage(total, np.int64), _garbage(images * rows * columns, np.int32)
    if total:
        kernels.emit_pairs(inputs, order, starts, tile_keys, indices)
        by_tile = np.argsort(tile_keys, kind="stable")
        tile_keys, indices = tile_keys[by_tile], indices[by_tile]
        kernels.write_keys(tile_keys, indices, inputs["depths"], keys)
    if len(offsets):
        kernels.find_offsets(tile_keys, rows * columns, inputs["tile_bits"], offsets)
    return (
        torch.from_numpy(tiles_per_gauss).reshape(arguments["depths"].shape),
        torch.from_numpy(keys),
        torch.from_numpy(indices),
        torch.from_numpy(offsets).reshape(images, rows, columns),
    )


def rasterize(kernels: ModuleType, arguments: Arguments, chunk: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """splat::rasterize of csrc/cuda/rasterize.cu."""
    inputs = _rasterize_inputs(arguments)
    images = len(arguments["isect_offsets"])
    pixels = images * arguments["height"] * arguments["width"]
    channels = inputs["colors"].shape[1]
    colors, alphas = _garbage(pixels * channels, np.float32), _garbage(pixels, np.float32)
    last_ids = _garbage(pixels, np.int32)
    kernels.rasterize(inputs, colors, alphas, last_ids, chunk)
    shape = (images, arguments["height"], arguments["width"])
    return (
        torch.from_numpy(colors).reshape(*shape, channels),
        torch.from_numpy(alphas).reshape(*shape, 1),
        torch.from_numpy(last_ids).reshape(shape),
    )


def rasterize_backward(kernels: ModuleType, arguments: Arguments, chunk: int = 32) -> tuple[Tensor, ...]:
    """splat::rasterize_backward of csrc/cuda/rasterize_backward.cu."""
    inputs = _rasterize_inputs(arguments)
    absgrad, deterministic = arguments["absgrad"], arguments["deterministic"]
    count, channels = inputs["colors"].shape
    intersections, tiles = len(inputs["flatten_ids"]), len(inputs["offsets"])
    gradients = {name: _flat(arguments[name]) for name in ("v_colors", "v_alphas", "last_ids")}
    blocks = kernels.block_bound(intersections, tiles)
    checkpoint = 4 * inputs["tile_size"] ** 2 * 2
    plan = {
        "block_starts": _garbage(tiles + 1, np.int32),
        "block_tiles": np.full(blocks, -1, np.int32),
        "checkpoints": _garbage(blocks * checkpoint, np.float32),
    }
    out: dict[str, Any] = {
        "means": np.zeros(2 * count, np.float32),
        "means_abs": np.zeros(2 * count, np.float32) if absgrad else None,
        "conics": np.zeros(3 * count, np.float32),
        "colors": np.zeros(count * channels, np.float32),
        "opacities": np.zeros(count, np.float32),
        "slots": np.zeros(intersections * (8 + channels), np.float32) if deterministic else None,
    }
    if intersections:
        kernels.count_blocks(inputs, plan, gradients["last_ids"])
        starts = np.concatenate([[0], np.cumsum(plan["block_starts"])[:-1]]).astype(np.int32)
        plan["block_starts"] = starts
        kernels.replay(inputs, gradients, plan, chunk)
        kernels.differentiate(inputs, gradients, plan, out, chunk)
        if deterministic:
            ids, positions = _garbage(intersections, np.uint32), _garbage(intersections, np.int32)
            kernels.number_positions(inputs, ids, positions)
            by_id = np.argsort(ids, kind="stable")
            kernels.sum_slots(inputs, ids[by_id], positions[by_id], out)
    images = len(arguments["isect_offsets"])
    v_backgrounds = np.zeros((0,), np.float32)
    if inputs["backgrounds"] is not None:
        partial = _garbage(images * 3 * channels, np.float32).reshape(images, 3, channels)
        v_backgrounds = _garbage(images * channels, np.float32)
        kernels.slice_background(_flat(arguments["alphas"]), gradients["v_colors"], partial)
        kernels.sum_slices(partial, v_backgrounds)
        v_backgrounds = v_backgrounds.reshape(images, channels)
    shape = arguments["opacities"].shape
    return (
        torch.from_numpy(out["means"]).reshape(*shape, 2),
        torch.from_numpy(out["means_abs"]).reshape(*shape, 2) if absgrad else torch.empty(0),
        torch.from_numpy(out["conics"]).reshape(*shape, 3),
        torch.from_numpy(out["colors"]).reshape(*shape, channels),
        torch.from_numpy(out["opacities"]).reshape(shape),
        torch.from_numpy(v_backgrounds),
    )


OPERATORS = {"intersect": intersect, "rasterize": rasterize, "rasterize_backward": rasterize_backward}


def _rasterize_inputs(arguments: Arguments) -> Arguments:
    """The struct RasterizeInputs."""
    offsets, backgrounds, masks = arguments["isect_offsets"], arguments["backgrounds"], arguments["masks"]
    return {
        "means": _rows(arguments["means2d"], 2),
        "conics": _rows(arguments["conics"], 3),
        "colors": _rows(arguments["colors"], arguments["colors"].shape[-1]),
        "opacities": _rows(arguments["opacities"]),
        "backgrounds": None if backgrounds is None else _flat(backgrounds),
        "masks": None if masks is None else _flat(masks),
        "offsets": _flat(offsets),
        "flatten_ids": _flat(arguments["flatten_ids"]),
        "width": arguments["width"],
        "height": arguments["height"],
        "tile_size": arguments["tile_size"],
        "columns": offsets.shape[2],
        "rows": offsets.shape[1],
    }


def _flat(tensor: Tensor) -> Array:
    return tensor.detach().contiguous().numpy().reshape(-1)


def _rows(tensor: Tensor, last: int | None = None) -> Array:
    """All dimensions but the last as one; all as one without it."""
    return _flat(tensor) if last is None else _flat(tensor).reshape(-1, last)


def _garbage(count: int, dtype: Any) -> Array:
    """As memory comes that nobody cleared: what a kernel must write, and does not, shows."""
    array = np.empty(count, dtype)
    array.view(np.uint8)[:] = 0xFA
    return array
