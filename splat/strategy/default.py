"""The strategy of Kerbl et al., *3D Gaussian Splatting for Real-Time Radiance Field Rendering* (2023), section 5.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from .base import Strategy
from .ops import Optimizers, Params, duplicate, remove, reset_opa, split


@dataclass
class DefaultStrategy(Strategy):
    """Small Gaussians whose projected centres have large gradients are duplicated, large ones split, those that are
    nearly transparent removed, and from time to time all become transparent.

    gsplat 1.5.3's class, but for one thing: opacities are reset every `reset_every` steps, as its documentation says
    and gsplat 1.6.0 does. In 1.5.3 a condition is never true. A program::

        strategy = DefaultStrategy()
        strategy.check_sanity(params, optimizers)
        state = strategy.initialize_state(scene_scale=extent)
        for step in range(steps):
            image, alpha, info = splat.rasterization(...)
            strategy.step_pre_backward(params, optimizers, state, step, info)
            loss.backward()
            ...  # the optimizers' steps
            strategy.step_post_backward(params, optimizers, state, step, info)

    Lengths are in units of `scene_scale`, and sizes in pictures in units of their longer side.
    """

    needed: ClassVar[tuple[str, ...]] = ("means", "scales", "quats", "opacities")

    prune_opa: float = 0.005
    """Gaussians with less opacity are removed; reset opacities are twice this."""
    grow_grad2d: float = 0.0002
    """Those with a larger mean gradient, per half picture, are duplicated or split."""
    grow_scale3d: float = 0.01
    """The largest standard deviation up to which they are duplicated."""
    grow_scale2d: float = 0.05
    """Those with a larger radius are split, up to step `refine_scale2d_stop_iter`."""
    prune_scale3d: float = 0.1
    """Those with a larger standard deviation are removed, after step `reset_every`."""
    prune_scale2d: float = 0.15
    """Those with a larger radius are removed, from then up to step `refine_scale2d_stop_iter`."""
    refine_scale2d_stop_iter: int = 0
    refine_start_iter: int = 500
    refine_stop_iter: int = 15_000
    reset_every: int = 3000
    refine_every: int = 100
    pause_refine_after_reset: int = 0
    """For how many steps nothing is added or removed after each multiple of `reset_every`."""
    absgrad: bool = False
    """Take absolute gradients, of `rasterization(absgrad=True)` (Ye et al., *AbsGS*, 2024)."""
    revised_opacity: bool = False
    """As for `splat.strategy.ops.split`."""
    verbose: bool = False
    key_for_gradient: Literal["means2d", "gradient_2dgs"] = "means2d"
    """Whose gradient in `info`; of `rasterization_2dgs` it is the second."""

    def initialize_state(self, scene_scale: float = 1.0) -> dict[str, Any]:
        """What is counted of each Gaussian; it begins with the first step, on the device of its gradients."""
        state: dict[str, Any] = {"grad2d": None, "count": None, "scene_scale": scene_scale}
        return state | {"radii": None} if self.refine_scale2d_stop_iter > 0 else state

    def step_pre_backward(
        self, params: Params, optimizers: Optimizers, state: dict[str, Any], step: int, info: dict[str, Any]
    ) -> None:
        """Before `loss.backward()`: have torch keep the gradient of the projected centres."""
        self._entry(info, self.key_for_gradient).retain_grad()

    def step_post_backward(
        self,
        params: Params,
        optimizers: Optimizers,
        state: dict[str, Any],
        step: int,
        info: dict[str, Any],
        packed: bool = False,
    ) -> None:
        """After `loss.backward()`: take note of the gradients; add and remove Gaussians, if it is time.

        `info` is what `rasterization` returned last, and says whether its layout is packed; `packed` has no effect.
        """
        if step >= self.refine_stop_iter:
            return
        self._update_state(params, state, info, packed)
        paused = step % self.reset_every < self.pause_refine_after_reset
        if step > self.refine_start_iter and step % self.refine_every == 0 and not paused:
            duplicated, halved = self._grow_gs(params, optimizers, state, step)
            removed = self._prune_gs(params, optimizers, state, step)
            if self.verbose:
                print(
                    f"Step {step}: {duplicated} Gaussians duplicated, {halved} split, {removed} removed; "
                    f"now {len(params['means'])}."
                )
            for name in ("grad2d", "count", "radii"):
                if state.get(name) is not None:
                    state[name].zero_()
            torch.cuda.empty_cache()
        if step > 0 and step % self.reset_every == 0:
            reset_opa(params, optimizers, state, 2 * self.prune_opa)

    def _update_state(self, params: Params, state: dict[str, Any], info: dict[str, Any], packed: bool = False) -> None:
        centres, radii = self._entry(info, self.key_for_gradient), self._entry(info, "radii")
        gradients = (centres.absgrad if self.absgrad else centres.grad).clone()
        gradients[..., 0] *= info["width"] / 2 * info["n_cameras"]
        gradients[..., 1] *= info["height"] / 2 * info["n_cameras"]
        for name in ("grad2d", "count", "radii"):
            if name in state and state[name] is None:
                state[name] = gradients.new_zeros(len(params["means"]))
        if radii.ndim < gradients.ndim:  # one number, as in gsplat 1.4
            radii = radii[..., None]
        rows = self._entry(info, "gaussian_ids")
        if rows is None:  # not a packed layout
            visible = (radii > 0).all(dim=-1)
            rows = visible.nonzero()[:, -1]
            gradients, radii = gradients[visible], radii[visible]
        state["grad2d"].index_add_(0, rows, gradients.norm(dim=-1))
        state["count"].index_add_(0, rows, torch.ones_like(rows, dtype=torch.float32))
        if "radii" in state:
            largest = radii.amax(dim=-1) / float(max(info["width"], info["height"]))
            state["radii"][rows] = torch.maximum(state["radii"][rows], largest)

    def _entry(self, info: dict[str, Any], name: str) -> Any:
        if name not in info:
            raise ValueError(f"info must be what rasterization returned last, with {name}; found {sorted(info)}")
        return info[name]

    @torch.no_grad()
    def _grow_gs(self, params: Params, optimizers: Optimizers, state: dict[str, Any], step: int) -> tuple[int, int]:
        """How many were duplicated, and how many split."""
        pulled = state["grad2d"] / state["count"].clamp_min(1) > self.grow_grad2d
        small = self._size(params) <= self.grow_scale3d * state["scene_scale"]
        copied, halved = pulled & small, pulled & ~small
        if step < self.refine_scale2d_stop_iter:
            halved |= state["radii"] > self.grow_scale2d
        counts = int(copied.sum()), int(halved.sum())
        if counts[0]:
            duplicate(params, optimizers, state, copied)
        if counts[1]:
            # Not the copies, which stand behind the others.
            split(params, optimizers, state, torch.nn.functional.pad(halved, (0, counts[0])), self.revised_opacity)
        return counts

    @torch.no_grad()
    def _prune_gs(self, params: Params, optimizers: Optimizers, state: dict[str, Any], step: int) -> int:
        """How many were removed."""
        gone = params["opacities"].flatten().sigmoid() < self.prune_opa
        if step > self.reset_every:
            gone |= self._size(params) > self.prune_scale3d * state["scene_scale"]
            if step < self.refine_scale2d_stop_iter:
                gone |= state["radii"] > self.prune_scale2d
        count = int(gone.sum())
        if count:
            remove(params, optimizers, state, gone)
        return count

    def _size(self, params: Params) -> Tensor:
        return params["scales"].exp().amax(dim=-1)
