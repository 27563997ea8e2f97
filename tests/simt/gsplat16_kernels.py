"""gsplat 1.6.0's kernels, executed on the CPU in the order in which its `rasterization` launches them.

For one image in a dense layout, float32, harmonics of degree 3 and tiles of 16 pixels. In place of CUB's radix sort,
which is stable, pairs are sorted by torch's stable sort of the same keys.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .gsplat_kernels import BLOCK, F32, FLAG, STAGED, U32, launch, launch_line

# What `build` is to execute.
KERNELS = "|".join((
    "projection_ewa_3dgs_fused_fwd_kernelIfE", "projection_ewa_3dgs_fused_bwd_kernelIfE",
    "assemble_proj_features_kernelIffLi3ELb1ELb0ELb0ELb1ELb1E", "spherical_harmonics_bwd_kernelIffLi3E",
    "intersect_tile_kernelIfE", "intersect_offset_kernelE",
    "rasterize_to_pixels_3dgs_fwd_kernelILj3ELj16ELj256E", "rasterize_to_pixels_3dgs_bwd_kernelILj3EfE",
))  # fmt: skip
TILE, DEGREE, BASES, CHANNELS = 16, 3, 16, 3
I64, PINHOLE, NO_EXTRA, SHIFT_AND_CLAMP = np.int64, U32(0), U32(0), U32(2)
FEATURES_ROWS = 64  # Gaussians of a block


def rasterization(
    executor: ModuleType,
    means: Tensor,
    quats: Tensor,
    scales: Tensor,
    opacities: Tensor,
    colors: Tensor,
    viewmats: Tensor,
    Ks: Tensor,
    width: int,
    height: int,
    **others: Any,
) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Colours and alphas, which can be differentiated; `others` are as gpu_scenes.py has them."""
    assert others["sh_degree"] == DEGREE
    assert not others["packed"]
    leaves = (means, quats, scales, opacities, colors)
    return (*_Picture.apply(executor, viewmats, Ks, width, height, *leaves), {})


class _Picture(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, executor: ModuleType, viewmats: Tensor, Ks: Tensor, width: int, height: int, *leaves: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Gaussians, lists, image."""
        means, quats, scales, opacities, coefficients = leaves
        n, columns, rows = len(means), -(-width // TILE), -(-height // TILE)
        tiles, sizes = columns * rows, (U32(1), U32(1), U32(n))
        size = U32(width), U32(height)
        radii = torch.zeros(n, 2, dtype=torch.int32)
        means2d, depths, conics, features = (torch.full((n, k), torch.nan) for k in (2, 1, 3, CHANNELS))
        launch_line(
            executor, "projection_ewa_3dgs_fused_fwd_kernel", n,
            I64(0), I64(n), *sizes, means, None, quats, scales, opacities, viewmats, Ks, *size,
            F32(0.3), F32(0.01), F32(1e10), F32(0), PINHOLE, radii, means2d, depths, conics, None,
        )  # fmt: skip
        visible, lit = (radii > 0).all(-1), torch.zeros(n, CHANNELS, dtype=torch.bool)
        staged = 4 * FEATURES_ROWS * (BASES * CHANNELS + 3 + CHANNELS)
        launch(
            executor, "assemble_proj_features_kernel", (-(-n // FEATURES_ROWS), 1, 1), (BLOCK, 1, 1), staged,
            *sizes, U32(DEGREE), U32(BASES), U32(CHANNELS), U32(0), U32(CHANNELS), SHIFT_AND_CLAMP, NO_EXTRA,
            FLAG(False), means, viewmats, None, coefficients, None, None, visible, features, lit,
        )  # fmt: skip

        def intersect(sums: Tensor | None, counts: Tensor | None, keys: Tensor | None, ids: Tensor | None) -> None:
            launch_line(
                executor, "intersect_tile_kernel", n,
                I64(0), I64(n), FLAG(False), U32(1), U32(n), U32(0), None, None, means2d, radii, depths, conics,
                opacities, sums, U32(TILE), U32(columns), U32(rows), U32((tiles - 1).bit_length()), U32(0),
                I64(0), I64(tiles), None, counts, keys, ids,
            )  # fmt: skip

        counts = torch.zeros(n, dtype=torch.int32)
        intersect(None, counts, None, None)
        sums = counts.cumsum(0)
        keys, ids = torch.zeros(int(sums[-1]), dtype=torch.int64), torch.zeros(int(sums[-1]), dtype=torch.int32)
        intersect(sums, None, keys, ids)
        keys, order = keys.sort(stable=True)
        ids, offsets, pairs = ids[order], torch.zeros(tiles, dtype=torch.int32), U32(len(keys))
        launch_line(
            executor, "intersect_offset_kernel", len(keys),
            U32(0), pairs, pairs, keys, U32(1), U32(tiles), U32((tiles - 1).bit_length()), offsets,
        )  # fmt: skip
        picture, alphas = (torch.full((1, height, width, k), torch.nan) for k in (CHANNELS, 1))
        last_ids = torch.full((height, width), -1, dtype=torch.int32)
        gaussians = means2d, conics, features, opacities, None, None
        launch(
            executor, "rasterize_to_pixels_3dgs_fwd_kernel", (tiles, 1, 1), (TILE**2, 1, 1), TILE**2 * STAGED,
            U32(n), pairs, FLAG(False), *gaussians, *size, U32(1), U32(columns), U32(rows), U32(0), offsets, ids,
            picture, alphas, last_ids,
        )  # fmt: skip
        ctx.kept = executor, leaves, viewmats, Ks, size, visible, lit, radii, gaussians, offsets, ids, alphas, last_ids
        return picture, alphas

    @staticmethod
    def backward(ctx: Any, *incoming: Tensor) -> tuple[Tensor | None, ...]:
        """Image, then Gaussians."""
        executor, leaves, viewmats, Ks, size, visible, lit, radii, gaussians, offsets, ids, *image = ctx.kept
        means, quats, scales, _, coefficients = leaves
        n, sizes = len(means), (U32(1), U32(1), U32(len(means)))
        columns, rows = (U32(-(-int(each) // TILE)) for each in size)
        v_means2d, v_conics, v_features, v_opacities = map(torch.zeros_like, gaussians[:4])
        launch(
            executor, "rasterize_to_pixels_3dgs_bwd_kernel", (len(offsets), 1, 1), (TILE, TILE, 1),
            TILE**2 * (STAGED + 4 * CHANNELS),
            U32(1), U32(n), U32(len(ids)), FLAG(False), *gaussians, *size, U32(TILE), columns, rows, U32(0),
            offsets, ids, *image, *(each.contiguous() for each in incoming),
            None, v_means2d, v_conics, v_features, v_opacities,
        )  # fmt: skip
        # In both, threads of culled Gaussians end first, and are in the masks of functions of the warp all the same.
        v_coefficients, v_means_by_colors = map(torch.zeros_like, (coefficients, means))
        launch_line(
            executor, "spherical_harmonics_bwd_kernel", n * CHANNELS,
            I64(0), I64(n), *sizes, U32(BASES), U32(CHANNELS), means, viewmats, None, coefficients, visible,
            None, None, None, v_features * lit, v_coefficients, v_means_by_colors, None, ended_lanes_leave=True,
        )  # fmt: skip
        v_means, v_quats, v_scales = map(torch.zeros_like, (means, quats, scales))
        launch_line(
            executor, "projection_ewa_3dgs_fused_bwd_kernel", n,
            I64(0), I64(n), *sizes, means, None, quats, scales, viewmats, Ks, *size, F32(0.3), PINHOLE,
            radii, gaussians[1], None, v_means2d, torch.zeros(n), v_conics, None,
            v_means, None, v_quats, v_scales, None, ended_lanes_leave=True,
        )  # fmt: skip
        return (None,) * 5 + (v_means + v_means_by_colors, v_quats, v_scales, v_opacities, v_coefficients)
