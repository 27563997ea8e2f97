"""The packed layout: instead of all pairs of camera and Gaussian, only those that are visible.

Shapes: B batches, C cameras of each, N Gaussians of each, M visible pairs, ordered by batch, camera and Gaussian.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .arguments import Sizes


class Visible(NamedTuple):
    """The pairs that a packed layout holds: int64 tensors [M]."""

    rows: Tensor
    """Their numbers among all B C N pairs."""
    image_ids: Tensor
    """batch_ids * C + camera_ids"""
    batch_ids: Tensor
    camera_ids: Tensor
    gaussian_ids: Tensor

    def pack(self, pairs: Tensor, sizes: Sizes) -> Tensor:
        """The visible ones of values for all pairs: [..., C, N, *] to [M, *]."""
        return pairs.flatten(0, len(sizes.batch) + 1).index_select(0, self.rows)

    def pack_gaussians(self, values: Tensor, sizes: Sizes) -> Tensor:
        """Values of Gaussians, which all cameras share: [..., N, *] to [M, *]."""
        ids = self.gaussian_ids if not sizes.batch else self.batch_ids * sizes.gaussians + self.gaussian_ids
        return values.flatten(0, len(sizes.batch)).index_select(0, ids)


def visible_pairs(radii: Tensor, sizes: Sizes) -> Visible:
    """The pairs whose radii, [..., C, N, 2], are both above 0."""
    rows = (radii > 0).all(dim=-1).flatten().nonzero().flatten()
    # At least 1, to divide by; without Gaussians or cameras there are no rows.
    n, c = max(sizes.gaussians, 1), max(sizes.cameras, 1)
    image_ids = rows // n
    batch_ids = image_ids // c
    return Visible(rows, image_ids, batch_ids, image_ids - batch_ids * c, rows - image_ids * n)


class Splats(NamedTuple):
    """Projected Gaussians: [..., C, N, *] or, packed, [M, *]."""

    radii: Tensor
    means2d: Tensor
    depths: Tensor
    conics: Tensor
    opacities: Tensor
    visible: Visible | None = None
    """What is in a packed layout."""

    def packed(self, sizes: Sizes) -> Splats:
        """Those that are visible."""
        visible = visible_pairs(self.radii, sizes)
        return Splats(
            radii=visible.pack(self.radii, sizes),
            means2d=visible.pack(self.means2d, sizes),
            depths=visible.pack(self.depths, sizes),
            conics=visible.pack(self.conics, sizes),
            opacities=visible.pack(self.opacities, sizes),
            visible=visible,
        )

    def meta(self) -> dict[str, Any]:
        """The entries of `meta` about them."""
        visible = self.visible
        return {
            "batch_ids": visible and visible.batch_ids,
            "camera_ids": visible and visible.camera_ids,
            "gaussian_ids": visible and visible.gaussian_ids,
            "radii": self.radii,
            "means2d": self.means2d,
            "depths": self.depths,
            "conics": self.conics,
            "opacities": self.opacities,
        }


class SparseRows:
    """Turns gradients of [N, *] tensors into sparse ones, of the rows that were visible.

    Made before the projection, which says only afterwards which rows those are: `fill` has to be called before the
    backward pass.
    """

    def __init__(self) -> None:
        self._rows: Tensor | None = None

    def fill(self, gaussian_ids: Tensor) -> None:
        """Say which rows, in any order, once or more often."""
        self._rows = torch.unique(gaussian_ids)

    def of(self, values: Tensor) -> Tensor:
        """The same values, whose gradient will be sparse."""
        apply: Any = _SparseGradient.apply
        result: Tensor = apply(values, self)
        return result

    def select(self, gradient: Tensor) -> Tensor:
        """A gradient's rows as a coalesced COO tensor."""
        assert self._rows is not None, "fill() comes before the backward pass"
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
