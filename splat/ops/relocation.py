"""What training by Markov chain Monte Carlo does to Gaussians between steps: relocation and noise.

Kheradmand et al., *3D Gaussian Splatting as Markov Chain Monte Carlo* (2024). Expressions of torch, which give the
same numbers on every device up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .autocast import in_float32
from .checks import check_shape, check_tensor, number, shape_of
from .projection import quat_scale_to_covar_preci


@torch.no_grad()
@in_float32
def compute_relocation(
    opacities: Tensor, scales: Tensor, ratios: Tensor, binoms: Tensor, min_opacity: float | None = None
) -> tuple[Tensor, Tensor]:
    """Opacities and scales with which copies of a Gaussian, in one place, look like the one that they replace.

    Kheradmand et al. (2024), equation 9. gsplat 1.5.3's `gsplat.relocation.compute_relocation`, except that the sums
    are made in float64, that `ratios` stays as it is (gsplat clamps the caller's tensor), and that an opacity of 0
    keeps its scales (in gsplat they become NaN).

    Args:
        opacities: float32 [N] or [N, 1], 0 to 1; the other tensors are on the same device.
        scales: float32 [N, 3].
        ratios: [N], of any type of number: how many Gaussians there will be in each place. Clamped to 1 and n_max.
        binoms: float32 [n_max, n_max], binomial coefficients: `binoms[n, k]` is n over k.
        min_opacity: of gsplat 1.6.0, which has 0.005 by default: the new opacities are from this to the largest below
            1, and the scales are made for these. None: as they come out.

    Returns:
        The new opacities, shaped like the old ones, and the new scales [N, 3].

    Raises:
        TypeError, ValueError: if a type, shape or device is wrong, or a ratio is NaN.
    """
    check_tensor("opacities", opacities)
    check_tensor("scales", scales, opacities)
    check_tensor("binoms", binoms, opacities)
    if not isinstance(ratios, Tensor):
        raise TypeError(f"ratios must be a torch.Tensor, found {type(ratios).__name__}")
    check_tensor("ratios", ratios, opacities, ratios.dtype)
    count = opacities.numel()
    if tuple(opacities.shape) not in ((count,), (count, 1)):
        raise ValueError(f"opacities must have shape [N] or [N, 1], found {shape_of(opacities)}")
    check_shape("scales", scales, (count, 3), "[N, 3]")
    check_shape("ratios", ratios, (count,), "[N]")
    n_max = len(binoms) if binoms.ndim else 0
    check_shape("binoms", binoms, (n_max, n_max), "[n_max, n_max]")
    if n_max == 0:
        raise ValueError("binoms must have at least one row, found none")
    # As an index, a NaN ends a program on a GPU. Counts, which are what training has, need no look at their values.
    if ratios.is_floating_point() and (unknown := int(ratios.isnan().sum())):
        raise ValueError(f"ratios must be numbers, found {unknown} NaN of {count}")

    copies = ratios.clamp(min=1, max=n_max).long()
    # In float64, because the terms have alternating signs and for 51 copies are thousands of times their sum.
    before = opacities.flatten().double()
    after = -torch.expm1(torch.log1p(-before) / copies)  # 1 - (1 - o)^(1 / n)
    if min_opacity is not None:
        after = after.clamp(number("min_opacity", min_opacity), 1 - torch.finfo(torch.float32).eps)
    # Row n: the sums of the first n + 1 rows of the triangle.
    sums = binoms.double().tril().cumsum(0)
    powers = torch.arange(1, n_max + 1, dtype=torch.float64, device=binoms.device)
    signs = 1 - 2 * ((powers - 1) % 2)
    covered = (sums[copies - 1] * (signs / powers.sqrt()) * after[:, None] ** powers).sum(-1)
    factors = torch.where(before == 0, 1.0, before / covered)
    return after.float().reshape(opacities.shape), (factors[:, None] * scales).float()


@torch.no_grad()
def inject_noise_to_position(
    params: Mapping[str, Tensor] | torch.nn.ParameterDict,
    optimizers: Mapping[str, Any],
    state: Mapping[str, Any],
    scaler: float,
) -> None:
    """Move the centres at random, by each Gaussian's own covariance, the less the more opaque it is.

    The noise of Kheradmand et al. (2024), which fades out above an opacity of 0.005. The same as
    gsplat 1.5.3's `gsplat.strategy.ops.inject_noise_to_position`, with the same numbers from torch's generator.

    Args:
        params: parameters as they are trained: means [N, 3], which change, scales [N, 3] (logarithms), quats [N, 4] and
            opacities [N] or [N, 1] (logits), all float32.
        optimizers: not used.
        state: not used.
        scaler: the noise's size: its rate, 5e5 in the paper, times the learning rate of the means.

    Raises:
        TypeError, ValueError: if a parameter is not float32, or the shapes do not fit together.
    """
    means, opacities = params["means"], params["opacities"].flatten().sigmoid()
    check_tensor("means", means)
    check_shape("means", means, (len(opacities), 3), "[N, 3] with N opacities")
    covars, _ = quat_scale_to_covar_preci(params["quats"], params["scales"].exp(), compute_preci=False)
    assert covars is not None
    # gsplat's logistic of 1 - o, about 0.995, with a slope of 100; the sigmoid does not overflow.
    amounts = torch.sigmoid(100 * ((1 - opacities) - 0.995))
    noise = torch.randn_like(means) * amounts[:, None] * scaler
    means.add_((covars * noise[:, None, :]).sum(-1))
