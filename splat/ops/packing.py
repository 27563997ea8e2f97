"""The packed layout: only the visible pairs of camera and Gaussian, instead of all.

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
    """Their indices among all B C N pairs."""
    image_ids: Tensor
    """batch_ids * C + camera_ids"""
    batch_ids: Tensor
    camera_ids: Tensor
    gaussian_ids: Tensor

    def pack(self, pairs: Tensor, sizes: Sizes) -> Tensor:
        """Select the visible pairs: [..., C, N, *] to [M, *]."""
        return pairs.flatten(0, len(sizes.batch) + 1).index_select(0, self.rows)

    def pack_gaussians(self, values: Tensor, sizes: Sizes) -> Tensor:
        """Gather values of Gaussians, which all cameras share: [..., N, *] to [M, *]."""
        ids = self.gaussian_ids if not sizes.batch else self.batch_ids * sizes.gaussians + self.gaussian_ids
        return values.flatten(0, len(sizes.batch)).index_select(0, ids)


def visible_pairs(radii: Tensor, sizes: Sizes) -> Visible:
    """The pairs whose two radii, [..., C, N, 2], are above 0."""
    rows = (radii > 0).all(dim=-1).flatten().nonzero().flatten()
    # At least 1, because they are divisors; without Gaussians or cameras there are no rows.
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
    """Which pairs these are; None unless packed."""

    def packed(self, sizes: Sizes) -> Splats:
        """The visible ones, in the packed layout."""
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
        """Their entries of `meta`."""
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
