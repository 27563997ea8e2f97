"""What the strategies of `splat fit` and of `splat.strategy` share: drawing, rotating, and keeping what Adam knows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

_MOST_COPIES: Final = 51
BINOMIALS: Final = torch.tensor([[math.comb(n, k) for k in range(_MOST_COPIES)] for n in range(_MOST_COPIES)]).float()
"""n over k [51, 51], for `compute_relocation`; 0 where k > n."""
SPLIT: Final = 1.6
"""The scales of a Gaussian that is split are divided by this."""
_MOST_DRAWN: Final = 2**24
"""From how many numbers `torch.multinomial` draws."""


def draw(weights: Tensor, count: int, generator: torch.Generator | None = None) -> Tensor:
    """`count` rows of `weights` [N], each as probable as its weight, any number of times."""
    if len(weights) <= _MOST_DRAWN:
        return torch.multinomial(weights, count, replacement=True, generator=generator)
    ends = weights.double().cumsum(0)
    places = torch.rand(count, dtype=ends.dtype, device=ends.device, generator=generator)
    return torch.searchsorted(ends, places * ends[-1], right=True).clamp_max(len(weights) - 1)


def chosen_state(state: Mapping[str, Any], rows: Tensor, forgotten: Tensor) -> dict[str, Any]:
    """What an optimizer knows of a parameter, for its `rows`: nothing of those at the places `forgotten` among them."""
    # Counts of steps have no rows.
    return {
        key: value[rows].index_fill_(0, forgotten, 0.0) if isinstance(value, Tensor) and value.ndim else value
        for key, value in state.items()
    }


def rotate(quats: Tensor, vectors: Tensor) -> Tensor:
    """Vectors [..., N, 3] rotated by quaternions w, x, y, z [N, 4]: v + 2 w (u x v) + 2 u x (u x v)."""
    unit = torch.nn.functional.normalize(quats, dim=-1)
    w, u = unit[:, :1], unit[:, 1:].expand_as(vectors)
    across = torch.linalg.cross(u, vectors)
    rotated: Tensor = vectors + 2 * (w * across + torch.linalg.cross(u, across))
    return rotated
