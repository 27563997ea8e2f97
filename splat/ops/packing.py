"""The packed layout: only the visible pairs of camera and Gaussian, instead of all.

Shapes: B batches, C cameras of each, N Gaussians of each, M visible pairs, ordered by batch, camera and Gaussian.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from .. import _kernels
from .arguments import Sizes
from .checks import shaped
from .intersection import Grid, Intersections
from .meta import LazyValue


class Visible:
    """The pairs that a packed layout holds: int64 tensors [M]. `image_ids` are batch_ids * C + camera_ids."""

    def __init__(self, image_ids: Tensor, gaussian_ids: Tensor) -> None:
        self.image_ids = image_ids
        self.gaussian_ids = gaussian_ids

    def batch_ids(self, sizes: Sizes) -> Tensor:
        """The batch of each pair."""
        return self.image_ids // max(sizes.cameras, 1)

    def camera_ids(self, sizes: Sizes) -> Tensor:
        """The camera of each pair, numbered within its batch."""
        return self.image_ids % max(sizes.cameras, 1)


def meta_of_ids(visible: Visible | None, sizes: Sizes) -> dict[str, Any]:
    """The entries of `meta` that say which pairs a packed layout holds; None in the other layout."""
    return {
        "batch_ids": visible and LazyValue(partial(visible.batch_ids, sizes)),
        "camera_ids": visible and LazyValue(partial(visible.camera_ids, sizes)),
        "gaussian_ids": visible and visible.gaussian_ids,
    }


class Splats:
    """Projected Gaussians: [..., C, N, *] or, packed, [M, *]; then, `visible` says which pairs these are."""

    def __init__(
        self,
        radii: Tensor,
        means2d: Tensor,
        depths: Tensor,
        conics: Tensor,
        opacities: Tensor,
        visible: Visible | None = None,
    ) -> None:
        self.radii = radii
        self.means2d = means2d
        self.depths = depths
        self.conics = conics
        self.opacities = opacities
        self.visible = visible

    def meta(self, sizes: Sizes) -> dict[str, Any]:
        """Their entries of `meta`."""
        return {
            **meta_of_ids(self.visible, sizes),
            "radii": self.radii,
            "means2d": self.means2d,
            "depths": self.depths,
            "conics": self.conics,
            "opacities": self.opacities,
        }


def pack(
    splats: Splats, colors: Tensor | None, per_camera: bool, sizes: Sizes, grid: Grid | None
) -> tuple[Splats, Tensor, Intersections]:
    """The pairs whose two radii are above 0, their colours [M, D], and what `intersect` gives for them.

    Colours are [..., C, N, D] if `per_camera`, else [..., N, D]; without any, D is 0. Without a grid, lists are empty.
    """
    _kernels.require_for(splats.radii, splats.means2d, splats.depths, splats.conics, splats.opacities, colors)
    images, n = sizes.images, sizes.gaussians
    image_ids, gaussian_ids, radii, means2d, depths, conics, opacities, packed_colors, _, *lists = torch.ops.splat.pack(
        shaped(splats.radii, images, n, 2),
        shaped(splats.means2d, images, n, 2),
        shaped(splats.depths, images, n),
        shaped(splats.conics, images, n, 3),
        shaped(splats.opacities, images, n),
        None if colors is None else shaped(colors, images if per_camera else sizes.batches, n, colors.shape[-1]),
        *(grid or (0, 0, 0)),
    )
    packed = Splats(radii, means2d, depths, conics, opacities, Visible(image_ids, gaussian_ids))
    tiles_per_gauss, flatten_ids, offsets = lists
    return packed, packed_colors, (tiles_per_gauss, flatten_ids, offsets)


class SparseRows:
    """Turns gradients of [N, *] tensors into sparse ones that hold only the visible rows.

    It is created before the projection, which determines those rows; `fill` must be called before the backward pass.
    """

    def __init__(self) -> None:
        self._rows: Tensor | None = None

    def fill(self, gaussian_ids: Tensor) -> None:
        """Set the rows, in any order; repeated ones count once."""
        self._rows = torch.unique(gaussian_ids)

    def of(self, values: Tensor) -> Tensor:
        """The same values; their gradient will be sparse."""
        apply: Any = _SparseGradient.apply
        result: Tensor = apply(values, self)
        return result

    def select(self, gradient: Tensor) -> Tensor:
        """The rows of a gradient, as a coalesced COO tensor."""
        assert self._rows is not None, "fill() must be called before the backward pass"
        values = gradient.index_select(0, self._rows)
        return torch.sparse_coo_tensor(
            self._rows[None], values, gradient.shape, check_invariants=False, is_coalesced=True
        )


class _SparseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: SparseRows) -> Tensor:
        ctx.rows = rows
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.select(gradients[0]), None
