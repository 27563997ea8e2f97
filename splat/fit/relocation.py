"""What becomes of a Gaussian that is divided into several at one place, so that the picture hardly changes."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

_MOST: Final = 51
BINOMIALS: Final = torch.tensor(
    [[math.comb(n, k) for k in range(_MOST)] for n in range(_MOST)], dtype=torch.float64
).float()
"""[51, 51]: n over k, 0 where k > n."""


def relocated(opacities: Tensor, scales: Tensor, ratios: Tensor, binoms: Tensor) -> tuple[Tensor, Tensor]:
    """The opacities [N] and scales [N, 3] that each of `ratios` [N] Gaussians gets in the place of one.

    Kheradmand et al. (2024), equation 9. `binoms` [n_max, n_max] has n over k in row n; of a ratio above n_max, n_max
    is taken.
    """
    binoms = binoms.double()
    most = len(binoms)
    ratios = ratios.clamp(1, most)
    shared = 1 - (1 - opacities.double()) ** (1 / ratios)
    # The sum over i from 1 to the ratio of (i - 1 over k), for each k.
    sums = binoms.cumsum(dim=0)[ratios - 1]
    k = torch.arange(most, device=opacities.device)
    signs = 1 - 2 * (k % 2)
    denominators = (sums * signs * shared[:, None] ** (k + 1) / (k + 1).sqrt()).sum(dim=1)
    return shared.to(opacities.dtype), (scales * (opacities / denominators)[:, None]).to(scales.dtype)
