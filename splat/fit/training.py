"""Fitting Gaussians to pictures: Adam on the loss of Kerbl et al. (2023), adding Gaussians where they are needed.

The number of Gaussians grows in even steps to the requested number. The Gaussians with the largest absolute gradients
of their projected centres (Ye et al., *AbsGS*, 2024) are split in two, and those that have become nearly transparent
are removed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..ops.rendering import rasterization
from ..scene.gaussians import SH_C0, Gaussians
from .losses import psnr, training_loss
from .views import Views

Parameters = dict[str, Tensor]

# Learning rates of Adam. Those of the means are in units of the scene's extent, at the first and at the last step.
_RATES = {"quats": 5e-3, "scales": 1e-2, "opacities": 5e-2, "constant": 1e-2, "bands": 1e-3}
_MEANS_RATES = (3e-3, 3e-5)
_TRANSPARENT = 0.01
_SPLIT = 1.6
"""The scales of a Gaussian that is split are divided by this."""


@dataclass(frozen=True)
class FitOptions:
    """How long to fit, and with how many Gaussians."""

    steps: int
    gaussians: int
    sh_degree: int
    seed: int = 0

    @property
    def refine_every(self) -> int:
        """Steps between two refinements."""
        return max(self.steps // 25, 10)

    def refines_at(self, step: int) -> bool:
        """Whether Gaussians are split and removed after this step, which happens in the middle part of the fit."""
        return step % self.refine_every == 0 and 0.1 * self.steps <= step <= 0.7 * self.steps

    def budget_at(self, step: int, first: int) -> int:
        """How many Gaussians there may be after a refinement at `step`, given that there were `first` at the start."""
        last = max(int(0.7 * self.steps) // self.refine_every * self.refine_every, 1)
        return first + round(min(step / last, 1.0) * (self.gaussians - first))

    def degree_at(self, step: int) -> int:
        """The degree of spherical harmonics in use, which grows during the first half of the fit."""
        return min(self.sh_degree, int(2 * step / max(self.steps, 1) * (self.sh_degree + 1)))


class Trainer:
    """Gaussians that are being fitted."""

    def __init__(self, views: Views, options: FitOptions) -> None:
        self.views, self.options = views, options
        self.generator = torch.Generator(views.images.device).manual_seed(options.seed)
        low, high = views.points.aminmax(dim=0)
        self.extent = max(float((high - low).norm()) / 2, 1e-6)
        self.parameters = _start(views, options, self.extent)
        groups = [
            {"params": [value], "name": name, "lr": _RATES.get(name, _MEANS_RATES[0])}
            for name, value in self.parameters.items()
        ]
        self.optimizer = torch.optim.Adam(groups, eps=1e-15, fused=True)
        self._forget()
        self._order: list[int] = []

    def _forget(self) -> None:
        count = len(self.parameters["means"])
        self.pull, self.seen = (torch.zeros(count, device=self.views.images.device) for _ in range(2))

    def gaussians(self) -> Gaussians:
        """The Gaussians as they are now, after activation, detached."""
        with torch.no_grad():
            return _activated(self.parameters)

    def fit(self, report: Callable[[int, float], None], stop: Callable[[], bool] = lambda: False) -> int:
        """Take all steps, or those until `stop()` is true; return how many. `report` gets each step and its loss."""
        for step in range(1, self.options.steps + 1):
            report(step, self.step(step))
            if stop():
                return step
        return self.options.steps

    def step(self, step: int) -> float:
        """Take a step, numbered from 1, on one picture; return its loss."""
        if not self._order:
            shuffled = torch.randperm(len(self.views), generator=self.generator, device=self.generator.device)
            self._order = shuffled.tolist()
        view = self._order.pop()
        self._set_rate(step)
        image, meta = render(_activated(self.parameters), self.views, view, self.options.degree_at(step), absgrad=True)
        loss = training_loss(image, self.views.images[view])
        means2d: Any = meta["means2d"]
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._record(means2d.absgrad[0], (meta["radii"][0] > 0).all(dim=-1))
        self.optimizer.step()
        if self.options.refines_at(step):
            self._refine(step)
        return float(loss.detach())

    def _set_rate(self, step: int) -> None:
        first, last = _MEANS_RATES
        share = (step - 1) / max(self.options.steps - 1, 1)
        for group in self.optimizer.param_groups:
            if group["name"] == "means":
                group["lr"] = self.extent * first * (last / first) ** share

    def _record(self, absgrad: Tensor, visible: Tensor) -> None:
        size = torch.tensor(self.views.size, device=absgrad.device)
        self.pull += (absgrad * size).norm(dim=-1)
        self.seen += visible

    @torch.no_grad()
    def _refine(self, step: int) -> None:
        """Remove transparent Gaussians, and split those with the largest gradients, as many as the budget allows."""
        opacities = self.parameters["opacities"].sigmoid()
        keep = opacities > _TRANSPARENT
        target = self.options.budget_at(step, min(len(self.views.points), self.options.gaussians))
        pull = torch.where(keep, self.pull / self.seen.clamp_min(1), -1.0)
        kept = int(keep.sum())
        parents = pull.topk(max(min(target - kept, kept), 0)).indices
        halves = self._halves(parents)
        rows = torch.cat([keep.nonzero().flatten(), parents])
        # The first half takes the place of its parent among the rows that are kept.
        places = torch.cat([keep.cumsum(0)[parents] - 1, torch.arange(kept, len(rows), device=rows.device)])
        for group in self.optimizer.param_groups:
            values = self.parameters[group["name"]].detach()[rows]
            if group["name"] in halves:
                values[places] = halves[group["name"]]
            self._replace(group, values, rows, places)
        self._forget()

    def _halves(self, parents: Tensor) -> Parameters:
        """The parameters that change when Gaussians are split: the first half of each, then the second."""
        means, scales = (self.parameters[name].detach()[parents] for name in ("means", "scales"))
        drawn = torch.randn(means.shape, generator=self.generator, device=means.device)
        offsets = rotate(self.parameters["quats"].detach()[parents], scales.exp() * drawn)
        # Two halves, one behind the other, are as opaque as the parent was.
        opacities = 1 - (1 - self.parameters["opacities"].detach()[parents].sigmoid()).sqrt()
        return {
            "means": torch.cat([means + offsets, means - offsets]),
            "scales": (scales - math.log(_SPLIT)).repeat(2, 1),
            "opacities": opacities.clamp(1e-6, 1 - 1e-6).logit().repeat(2),
        }

    def _replace(self, group: dict[str, object], values: Tensor, rows: Tensor, fresh: Tensor) -> None:
        """Replace a parameter with new values. Adam's state is that of the old `rows`, and zero for `fresh`."""
        old = self.parameters[str(group["name"])]
        new = values.requires_grad_()
        state = self.optimizer.state.pop(old)
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = state[name][rows].index_fill_(0, fresh, 0.0)
        self.optimizer.state[new] = state
        group["params"] = [new]
        self.parameters[str(group["name"])] = new

    @torch.no_grad()
    def quality(self, views: Views) -> float:
        """Mean PSNR in decibels."""
        scene = self.gaussians()
        values = [psnr(render(scene, views, i, scene.degree)[0], views.images[i]) for i in range(len(views))]
        return sum(values) / len(values)


def render(
    scene: Gaussians, views: Views, view: int, sh_degree: int, absgrad: bool = False
) -> tuple[Tensor, dict[str, Tensor]]:
    """The image [H, W, 3] of one of the cameras, and `meta`."""
    width, height = views.size
    images, _, meta = rasterization(
        scene.means,
        scene.quats,
        scene.scales,
        scene.opacities,
        scene.sh,
        views.viewmats[view : view + 1],
        views.Ks[view : view + 1],
        width,
        height,
        sh_degree=sh_degree,
        packed=False,
        absgrad=absgrad,
    )
    return images[0], meta


def rotate(quats: Tensor, vectors: Tensor) -> Tensor:
    """Vectors [N, 3] rotated by quaternions w, x, y, z [N, 4]: v + 2 w (u x v) + 2 u x (u x v)."""
    unit = torch.nn.functional.normalize(quats, dim=-1)
    w, u = unit[:, :1], unit[:, 1:]
    across = torch.linalg.cross(u, vectors)
    rotated: Tensor = vectors + 2 * (w * across + torch.linalg.cross(u, across))
    return rotated


def _start(views: Views, options: FitOptions, extent: float) -> Parameters:
    """Spheres at the points, or at as many of them as the budget allows."""
    points, colors = views.points, views.colors
    if len(points) > options.gaussians:
        keep = torch.randperm(len(points), generator=torch.Generator().manual_seed(options.seed))[: options.gaussians]
        points, colors = points[keep], colors[keep]
    n, bases = len(points), (options.sh_degree + 1) ** 2
    size = extent / n ** (1 / 3) / 2
    quats = torch.zeros(n, 4, device=points.device)
    quats[:, 0] = 1
    values = {
        "means": points.clone(),
        "quats": quats,
        "scales": torch.full_like(points, math.log(size)),
        "opacities": torch.full_like(points[:, 0], 0.1).logit(),
        "constant": ((colors - 0.5) / SH_C0)[:, None],
        "bands": points.new_zeros(n, bases - 1, 3),
    }
    return {name: value.requires_grad_() for name, value in values.items()}


def _activated(p: Parameters) -> Gaussians:
    return Gaussians(
        means=p["means"],
        quats=p["quats"],
        scales=p["scales"].exp(),
        opacities=p["opacities"].sigmoid(),
        sh=torch.cat([p["constant"], p["bands"]], dim=1),
    )
