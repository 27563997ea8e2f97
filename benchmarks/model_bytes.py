"""The bytes of global memory that each step must read and write once, for one image in the dense layout, and atomics.

Spherical harmonics of degree 3, three channels, float32; N Gaussians, V of them seen, n pairs of Gaussian and tile.
Gathers of our lists count whole sectors of 32 bytes; those of the rasterizers do not, as the L2 cache has most. What a
backward pass adds to with atomics counts as zeroed, not as written.
"""

from __future__ import annotations

from model_counts import Counted, Trips

Steps = dict[str, tuple[int, int]]  # bytes of splat and of gsplat 1.5.3

PAIR = 40  # index, mean, conic, opacity and colour of a staged Gaussian
RESULTS = 20  # colour, alpha and last Gaussian of a pixel
INCOMING = 24  # the gradients of colour and alpha of a pixel, its alpha and its last Gaussian
GRADIENTS = 36  # of mean, conic, colour and opacity of a projected Gaussian

ATOMICS = 9  # of a warp that blends a Gaussian, in both packages: mean, conic, opacity, colour


def forward(counted: Counted, pixels: int) -> Steps:
    """By step, named as our kernels where they do it."""
    n, v, ours, theirs = counted.gaussians, counted.seen, counted.splat.pairs, counted.gsplat.pairs
    return {
        "find_finite": ((236 + 1) * n, 0),
        # gsplat: radii of all, other results of those seen. Directions, the mask, the harmonics, and adding 0.5 and
        # clamping are operations of their own.
        "project": ((44 + 48) * n + 192 * v, (44 + 8) * n + 24 * v),
        "harmonics": (0, (12 + 12 + 8 + 2 + 2 + 1 + 1 + 24 + 24) * n + (12 + 192 + 12) * v),
        # Both read a mean and radii, ours conics, opacities and depths too; gsplat's sums are of 8 bytes.
        "count_tiles": ((36 + 12) * n, (8 + 4 + 4 + 8) * n + 8 * v),
        # A sort is a histogram and passes over 8 bits, here of 8 bytes for each item.
        "sort by depth": ((4 + 4 * 16) * n, 0),
        "order_counts": ((16 + 16) * n, 0),
        # Ours are gathered in the order of depth: 5 sectors.
        "emit_pairs": (12 * n + 5 * 32 * v + 8 * ours, 8 * n + 20 * v + 12 * theirs),
        # 2 passes over 8 bytes, or 6 passes over 12.
        "sort by tile": ((4 + 2 * 16) * ours, (8 + 6 * 24) * theirs),
        "find_offsets": (0, 8 * theirs),
        "rasterize": _rasterize(counted.splat.forward, RESULTS * pixels, 0, counted.gsplat.forward),
    }


def backward(counted: Counted, pixels: int) -> Steps:
    """By step."""
    n, v = counted.gaussians, counted.seen
    return {
        "rasterize_backward": _rasterize(
            counted.splat.backward, INCOMING * pixels, GRADIENTS * n, counted.gsplat.backward
        ),
        # gsplat: the clamp, then coefficients and directions, whose gradients are zeroed.
        "harmonics": (0, (36 + 192 + 12 + 1) * n + (12 + 192 + 12 + 192 + 12) * v),
        # gsplat: gradients of 10 numbers are zeroed; those of the means, from two sides, are added.
        "project_backward": ((8 + 232) * n + 300 * v, (8 + 40 + 36) * n + (40 + 36 + 40) * v),
    }


def _rasterize(ours: Trips, of_pixels: int, of_gaussians: int, theirs: Trips) -> tuple[int, int]:
    beside = of_pixels + of_gaussians
    return PAIR * ours.of("gathered") + beside, PAIR * theirs.of("gathered") + beside
