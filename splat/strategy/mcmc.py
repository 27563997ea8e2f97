"""The strategy of Kheradmand et al., *3D Gaussian Splatting as Markov Chain Monte Carlo* (2024), for programs of
gsplat; that of `splat fit --strategy mcmc` is in fit/strategies.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..ops.densification import BINOMIALS
from .base import Strategy
from .ops import Optimizers, Params, inject_noise_to_position, relocate, sample_add


@dataclass
class MCMCStrategy(Strategy):
    """Dead Gaussians move to where opaque ones are, new ones are added there, and all centres get noise.

    gsplat 1.5.3's class, which needs CUDA; this one does not. There is nothing to call before `loss.backward()`.
    """

    needed: ClassVar[tuple[str, ...]] = ("means", "scales", "quats", "opacities")

    cap_max: int = 1_000_000
    """How many Gaussians there may be. Each time there are 5 % more, up to this."""
    noise_lr: float = 5e5
    """The noise's size, times the learning rate of the means."""
    refine_start_iter: int = 500
    refine_stop_iter: int = 25_000
    refine_every: int = 100
    min_opacity: float = 0.005
    """The opacity up to which a Gaussian is dead."""
    verbose: bool = False

    def initialize_state(self) -> dict[str, Any]:
        """The binomial coefficients that relocation needs."""
        return {"binoms": BINOMIALS.clone()}

    def step_post_backward(
        self,
        params: Params,
        optimizers: Optimizers,
        state: dict[str, Any],
        step: int,
        info: dict[str, Any],
        lr: float,
    ) -> None:
        """After the optimizers' steps: move and add Gaussians, if it is time; move all centres at random.

        `lr` is the learning rate of the means.
        """
        state["binoms"] = binoms = state["binoms"].to(params["means"].device)
        if self.refine_start_iter < step < self.refine_stop_iter and step % self.refine_every == 0:
            moved = self._relocate_gs(params, optimizers, binoms)
            added = self._add_new_gs(params, optimizers, binoms)
            if self.verbose:
                print(f"Step {step}: {moved} Gaussians relocated, {added} added; now {len(params['means'])}.")
            torch.cuda.empty_cache()
        inject_noise_to_position(params, optimizers, {}, lr * self.noise_lr)

    @torch.no_grad()
    def _relocate_gs(self, params: Params, optimizers: Optimizers, binoms: Tensor) -> int:
        """How many were moved."""
        dead = params["opacities"].flatten().sigmoid() <= self.min_opacity
        count = int(dead.sum())
        if count:
            relocate(params, optimizers, {}, dead, binoms, self.min_opacity)
        return count

    @torch.no_grad()
    def _add_new_gs(self, params: Params, optimizers: Optimizers, binoms: Tensor) -> int:
        """How many were added."""
        count = len(params["means"])
        more = max(min(self.cap_max, int(1.05 * count)) - count, 0)
        if more:
            sample_add(params, optimizers, {}, more, binoms, self.min_opacity)
        return more
