"""Where Gaussians are added and removed during a fit: three strategies.

`grow` adds Gaussians in even steps up to the requested number: it removes those that are nearly transparent and splits
those with the largest absolute gradients of their projected centres (Ye et al., *AbsGS*, 2024).

`default` is what Kerbl et al. (2023), section 5.2, do, as gsplat's `DefaultStrategy` does: where the mean gradient of
the projected centre exceeds a threshold, small Gaussians are cloned and large ones split; nearly transparent ones are
removed; from time to time all become transparent. Here, the requested number is its limit, and large ones stay.

`mcmc` follows Kheradmand et al., *3D Gaussian Splatting as Markov Chain Monte Carlo* (2024): dead Gaussians move to
where opaque ones are, new ones are added there, in even steps up to the requested number; the centres get noise; and
opacities and scales are kept small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor

from ..ops.densification import BINOMIALS, SPLIT, draw, rotate
from ..ops.relocation import compute_relocation
from ..scene.gaussians import Gaussians
from .parameters import MOMENTS, GaussianTable, Parameters

_TRANSPARENT: Final = 0.01


@dataclass(frozen=True)
class Moment:
    """Where a fit is after a step."""

    steps: range
    """Those that were taken at once, one for each process."""
    refines: bool
    """Whether it is time to add and remove Gaussians."""
    budget: int
    """How many there may be in this shard then, if they are added evenly; and at the end."""
    most: int
    share: float
    """Of the fit that is done, 0 to 1."""
    extent: float
    generator: torch.Generator


def passes(steps: range, every: int) -> bool:
    """Whether one of the steps is a multiple of `every`."""
    return steps[-1] // every > (steps[0] - 1) // every


class Strategy(Protocol):
    """What a fit asks in each step."""

    absgrad: bool
    """Whether `record` gets absolute gradients."""
    counts: dict[str, Tensor]
    """What it has counted of each Gaussian, [N]; kept in checkpoints."""

    def penalty(self, scene: Gaussians, total: int, extent: float) -> Tensor | float:
        """What this shard, of `total` Gaussians in all, adds to the loss."""

    def record(self, gradients: Tensor, visible: Tensor) -> None:
        """Take note of a step of C pictures: gradients [C, N, 2] of the projected centres, per half picture, and who
        was seen [C, N].
        """

    def after_step(self, table: GaussianTable, moment: Moment) -> None:
        """Add, remove and move Gaussians."""


class _Recording:
    """What `grow` and `default` have in common: the mean gradient of each Gaussian since the last refinement."""

    absgrad = False

    def __init__(self, table: GaussianTable) -> None:
        self.counts: dict[str, Tensor] = {}
        self.forget(table)

    def forget(self, table: GaussianTable) -> None:
        zeros = torch.zeros_like(table.parameters["opacities"].detach())
        self.counts = {"pull": zeros, "seen": zeros.clone()}

    def penalty(self, scene: Gaussians, total: int, extent: float) -> Tensor | float:
        return 0.0

    def record(self, gradients: Tensor, visible: Tensor) -> None:
        self.counts["pull"] += gradients.norm(dim=-1).sum(dim=0)
        self.counts["seen"] += visible.sum(dim=0)

    def mean_pull(self) -> Tensor:
        return self.counts["pull"] / self.counts["seen"].clamp_min(1)


class EvenGrowth(_Recording):
    """The strategy `grow`."""

    absgrad = True

    @torch.no_grad()
    def after_step(self, table: GaussianTable, moment: Moment) -> None:
        """Remove transparent Gaussians, and split those with the largest gradients, as many as the budget allows."""
        if not moment.refines:
            return
        keep = table.parameters["opacities"].sigmoid() > _TRANSPARENT
        kept = int(keep.sum())
        pull = torch.where(keep, self.mean_pull(), -1.0)
        parents = pull.topk(max(min(moment.budget - kept, kept), 0)).indices
        # Two halves, one behind the other, are as opaque as the parent was.
        opacities = 1 - (1 - table.parameters["opacities"].detach()[parents].sigmoid()).sqrt()
        halves = _halves(table, parents, moment.generator)
        halves["opacities"] = opacities.clamp(1e-6, 1 - 1e-6).logit().repeat(2)
        _multiply(table, keep, parents, halves)
        self.forget(table)


class DensityControl(_Recording):
    """The strategy `default`."""

    def __init__(
        self, table: GaussianTable, threshold: float = 2e-4, transparent: float = 0.005, reset_every: int = 3000
    ) -> None:
        super().__init__(table)
        self.threshold, self.transparent, self.reset_every = threshold, transparent, reset_every

    @torch.no_grad()
    def after_step(self, table: GaussianTable, moment: Moment) -> None:
        """Clone and split where the gradients are large; remove what is transparent; reset the opacities."""
        if moment.refines:
            keep = table.parameters["opacities"].sigmoid() > self.transparent
            kept = int(keep.sum())
            mean = self.mean_pull()
            pull = torch.where(keep & (mean > self.threshold), mean, -1.0)
            wanted = min(int((pull > 0).sum()), max(moment.most - kept, 0))
            parents = pull.topk(wanted).indices
            large = table.parameters["scales"].detach()[parents].amax(dim=1).exp() > 0.01 * moment.extent
            # First those that are cloned, whose copies are where they are, and then those that are split.
            parents = torch.cat([parents[~large], parents[large]])
            copies = {name: table.parameters[name].detach()[parents].repeat(2, 1) for name in ("means", "scales")}
            clones, count = int((~large).sum()), len(parents)
            halves = _halves(table, parents[clones:], moment.generator)
            second = count - clones
            for name in ("means", "scales"):
                copies[name][clones:count] = halves[name][:second]
                copies[name][count + clones :] = halves[name][second:]
            _multiply(table, keep, parents, copies)
            self.forget(table)
        if moment.share < 0.7 and passes(moment.steps, self.reset_every):
            p = table.parameters["opacities"]
            p.clamp_(max=math.log(2 * self.transparent / (1 - 2 * self.transparent)))
            for moment_of in MOMENTS:
                table.optimizer.state[p][moment_of].zero_()


class MarkovChain:
    """The strategy `mcmc`."""

    absgrad = False
    dead = 0.005
    """Opacity up to which a Gaussian is dead."""
    noise = 80.0
    """The noise at the first step: the paper's factor 5e5 times its learning rate of the means, 1.6e-4."""

    def __init__(self, table: GaussianTable) -> None:
        self.counts: dict[str, Tensor] = {}

    def penalty(self, scene: Gaussians, total: int, extent: float) -> Tensor | float:
        """Equation 14 of the paper, with its weights, for scenes whose extent is about 1."""
        return 0.01 * scene.opacities.sum() / total + 0.01 * scene.scales.sum() / (3 * total * extent)

    def record(self, gradients: Tensor, visible: Tensor) -> None:
        """Nothing: only opacities count."""

    @torch.no_grad()
    def after_step(self, table: GaussianTable, moment: Moment) -> None:
        """Move the dead and add new ones, if it is time; add noise to the centres."""
        if moment.refines:
            opacities = table.parameters["opacities"].sigmoid()
            dead = (opacities <= self.dead).nonzero().flatten()
            alive = (opacities > self.dead).nonzero().flatten()
            rows = torch.arange(len(table), device=opacities.device)
            added = max(moment.budget - len(table), 0)
            if len(alive) and len(dead) + added:
                parents = alive[draw(opacities[alive], len(dead) + added, moment.generator)]
                rows[dead] = parents[: len(dead)]
                rows = torch.cat([rows, parents[len(dead) :]])
                self._share(table, rows, parents)
        self._add_noise(table, moment)

    def _share(self, table: GaussianTable, rows: Tensor, parents: Tensor) -> None:
        """Divide each of the parents among itself and those that come to its place."""
        counts = torch.bincount(rows, minlength=len(table))
        places = (counts[rows] > 1).nonzero().flatten()
        of = rows[places]
        scene = table.activated()
        opacities, scales = compute_relocation(
            scene.opacities.detach()[of], scene.scales.detach()[of], counts[of], BINOMIALS.to(of.device)
        )
        changes = {"opacities": opacities.clamp(self.dead, 1 - 1e-6).logit(), "scales": scales.log()}
        table.rebuild(rows, changes, places)

    def _add_noise(self, table: GaussianTable, moment: Moment) -> None:
        """Noise in the shape of each Gaussian, for those that are nearly transparent.

        The paper's is in units of scenes whose extent is about 1, so it is divided by the extent here.
        """
        means = table.parameters["means"]
        quats, scales, opacities = (table.parameters[name].detach() for name in ("quats", "scales", "opacities"))
        gate = torch.sigmoid(-100 * (opacities.sigmoid() - self.dead))
        drawn = torch.randn(means.shape, generator=moment.generator, device=means.device)
        # The covariance R S S R^T, applied to what was drawn.
        inverse = quats * quats.new_tensor([1.0, -1.0, -1.0, -1.0])
        shaped = rotate(quats, (2 * scales).exp() * rotate(inverse, drawn))
        # As far as that of the steps one after the other.
        taken = math.sqrt(len(moment.steps))
        means += gate[:, None] * shaped * (taken * self.noise * 0.01**moment.share / moment.extent)


def _halves(table: GaussianTable, parents: Tensor, generator: torch.Generator) -> Parameters:
    """The means and scales of Gaussians that are split: the first half of each, then the second."""
    means, scales, quats = (table.parameters[name].detach()[parents] for name in ("means", "scales", "quats"))
    drawn = torch.randn(means.shape, generator=generator, device=means.device)
    offsets = rotate(quats, scales.exp() * drawn)
    return {
        "means": torch.cat([means + offsets, means - offsets]),
        "scales": (scales - math.log(SPLIT)).repeat(2, 1),
    }


def _multiply(table: GaussianTable, keep: Tensor, parents: Tensor, pairs: Parameters) -> None:
    """Keep some of the Gaussians [N], and put two in the place of each of the `parents` among them.

    `pairs` has the parameters that differ from the parent's, first of one of each two, then of the other. The first
    takes the parent's place among the rows; the second stands at the end.
    """
    kept = int(keep.sum())
    rows = torch.cat([keep.nonzero().flatten(), parents])
    first = keep.cumsum(0)[parents] - 1
    second = torch.arange(kept, len(rows), device=rows.device)
    table.rebuild(rows, pairs, torch.cat([first, second]))


STRATEGIES: Final[dict[str, Callable[[GaussianTable], Strategy]]] = {
    "grow": EvenGrowth,
    "default": DensityControl,
    "mcmc": MarkovChain,
}
