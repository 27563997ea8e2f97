"""Fitting Gaussians to pictures: Adam on the loss of Kerbl et al. (2023), adding Gaussians where they are needed.

A step depends only on the Gaussians, the options and the step's number: its random numbers are drawn from the seed and
that number, whatever was drawn before. So a fit that continues from a checkpoint gives the same scene.

Several processes take as many steps at once, each on one picture, for the mean of their losses: what depends on steps,
as rates and refinements do, goes by the number of pictures. Each has a shard of the Gaussians.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..scene.gaussians import Gaussians, SceneError
from .camera_corrections import CameraCorrections
from .color_maps import ColorMaps
from .learning_rates import learning_rates
from .losses import training_loss
from .overlap import seen_by, some_of
from .parameters import GaussianTable, first_parameters, neighbour_distances, scene_parameters, used_degree
from .picture_parameters import PictureParameters
from .picture_quality import Quality, judge
from .shards import ALONE, Shards
from .strategies import STRATEGIES, Moment, passes
from .views import Views, render


@dataclass(frozen=True)
class FitOptions:
    """How long to fit, with how many Gaussians, and how they are added."""

    steps: int
    gaussians: int
    sh_degree: int
    seed: int = 0
    strategy: str = "grow"
    """One of `STRATEGIES`."""
    appearance: str = "off"
    """One of `APPEARANCES`."""
    refine_cameras: bool = False

    @property
    def refine_every(self) -> int:
        """Steps between two refinements."""
        return max(self.steps // 25, 10)

    def refines_at(self, steps: range) -> bool:
        """Whether Gaussians are added and removed after these steps, which happens in the middle part of the fit."""
        return passes(steps, self.refine_every) and 0.1 * self.steps <= steps[-1] <= 0.7 * self.steps

    def budget_at(self, step: int, first: int) -> int:
        """How many Gaussians there may be after a refinement at `step`, given that there were `first` at the start."""
        last = max(int(0.7 * self.steps) // self.refine_every * self.refine_every, 1)
        return first + round(min(step / last, 1.0) * (self.gaussians - first))

    def degree_at(self, step: int) -> int:
        """The degree of spherical harmonics in use, which grows during the first half of the fit."""
        return min(self.sh_degree, int(2 * step / max(self.steps, 1) * (self.sh_degree + 1)))


class Trainer:
    """Gaussians that are being fitted; of several processes, this one's."""

    def __init__(
        self, views: Views, options: FitOptions, shards: Shards = ALONE, begin: Gaussians | None = None
    ) -> None:
        """With `begin`, the first Gaussians are those of a scene, and not spheres at the points."""
        self.views, self.options, self.shards = views, options, shards
        self.extent = _extent(views)
        start = _start(views, options, self.extent, shards) if begin is None else _begun(begin, views, options, shards)
        self.table = GaussianTable(start, shards.count)
        self.first = self.total = min(len(views.points), options.gaussians) if begin is None else len(begin)
        """The Gaussians of all processes, at the start and now."""
        self.least_degree = 0 if begin is None else used_degree(begin.sh[:, 1 : (options.sh_degree + 1) ** 2])
        """What was fitted of spherical harmonics stays in use."""
        self.strategy = STRATEGIES[options.strategy](self.table)
        self.absgrad = self.strategy.absgrad and not any(views.lenses)
        """Whether the strategy gets absolute gradients, which pictures that are drawn through lenses do not have."""
        affine = options.appearance == "affine"
        self.appearance = ColorMaps(len(views), options.steps, views.device) if affine else None
        self.cameras = CameraCorrections(views.viewmats, self.extent, options.steps) if options.refine_cameras else None
        self.done = 0
        """Steps taken."""

    @property
    def picture_parameters(self) -> dict[str, PictureParameters]:
        """What is fitted of each picture, besides the scene."""
        fitted = {"appearance": self.appearance, "cameras": self.cameras}
        return {name: part.values for name, part in fitted.items() if part is not None}

    def refined_views(self) -> Views:
        """The pictures with the cameras as they are now."""
        return self.views if self.cameras is None else replace(self.views, viewmats=self.cameras.corrected())

    def gaussians(self) -> Gaussians:
        """The Gaussians as they are now, after activation, detached; of several processes, all on rank 0, none
        elsewhere.
        """
        with torch.no_grad():
            parts = self.table.activated().tensors
        return Gaussians(*(self.shards.gather(rows) for rows in parts), offset=self.views.offset)

    def fit(self, report: Callable[[range, float], None], stop: Callable[[], bool] = lambda: False) -> int:
        """Take the steps that are left, or those until `stop()` is true on a rank; return how many are done.

        `report` gets the steps that were taken at once, and their mean loss.
        """
        while self.done < self.options.steps:
            steps = range(self.done + 1, min(self.done + self.shards.count, self.options.steps) + 1)
            loss = self.step(steps)
            self.done = steps[-1]
            report(steps, loss)
            if self.shards.any(stop()):
                break
        return self.done

    def step(self, steps: range) -> float:
        """Take steps, numbered from 1, each process one of them on one picture; return their mean loss."""
        views = [self._view_at(step) for step in steps]
        own = self.shards.own_of(views)
        self.table.set_rates(learning_rates(steps[-1], self.options.steps, self.extent))
        scene = self.table.activated()
        image, meta = self._rendered(scene, own, max(self.options.degree_at(steps[-1]), self.least_degree))
        means2d: Any = meta["means2d"]
        means2d.retain_grad()
        loss = image.sum() if own is None else self._loss(image, own)
        self.table.optimizer.zero_grad(set_to_none=True)
        (loss / len(views) + self.strategy.penalty(scene, self.total, self.extent)).backward()
        self._record(means2d.absgrad if self.absgrad else means2d.grad, meta["radii"], views)
        self.table.optimizer.step()
        for values in self.picture_parameters.values():
            values.share_gradients(views, self.shards)
            values.step(views, steps[-1])
        moment = self._moment(steps)
        self.strategy.after_step(self.table, moment)
        if moment.refines:
            self.total = sum(self.shards.counts(len(self.table)))
        return float(self.shards.sums(loss.detach())) / len(views)

    def _rendered(self, scene: Gaussians, own: int | None, degree: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The image of this process's picture [H, W, 3]; empty if it has none in this step."""
        viewmats = self.cameras.viewmats_of([] if own is None else [own]) if self.cameras else None
        several = self.shards.count > 1
        return render(scene, self.views, own, degree, self.absgrad, viewmats, distributed=several)

    def _loss(self, image: Tensor, view: int) -> Tensor:
        """Of one of the pictures."""
        image = self.appearance.applied(image, view) if self.appearance else image
        loss = training_loss(image, self.views.target(view), self.views.mask(view))
        return loss + self.appearance.penalty(view) if self.appearance else loss

    def _record(self, gradients: Tensor, radii: Tensor, views: list[int]) -> None:
        """Tell the strategy about the pictures of a step, from values [C, N, 2] of them."""
        sizes = torch.tensor([self.views.sizes[view] for view in views], device=gradients.device)[:, None]
        self.strategy.record(gradients * len(views) * (sizes / 2), (radii > 0).all(dim=-1))

    def _view_at(self, step: int) -> int:
        """Each of the pictures once, in a random order, and then again in another one."""
        turn, place = divmod(step - 1, len(self.views))
        order = torch.randperm(len(self.views), generator=self._generator(turn, "cpu"))
        return int(order[place])

    def _generator(self, number: int, device: torch.device | str) -> torch.Generator:
        """Random numbers determined by the seed and `number`. Everything else that a step uses is in a checkpoint."""
        # Seeds that differ in few bits give unlike numbers: torch's generators mix them. 2**61 - 1 is a prime.
        return torch.Generator(device).manual_seed((self.options.seed * 1_000_003 + number) % (2**61 - 1))

    def _moment(self, steps: range) -> Moment:
        step = steps[-1]
        return Moment(
            steps,
            self.options.refines_at(steps),
            self.shards.part(self.options.budget_at(step, self.first)),
            self.shards.part(self.options.gaussians),
            step / self.options.steps,
            self.extent,
            self._generator(-step - (self.shards.rank << 40), self.views.device),
        )

    def quality(self, views: Views) -> Quality:
        """PSNR and SSIM of each of the pictures. Several processes share them, and all get the numbers of all."""
        with torch.no_grad():
            return judge(self.table.activated(), views, shards=self.shards)


def _extent(views: Views) -> float:
    """Half the diagonal of the box around the points, without the outermost at each end of each axis.

    Of those that were measured, a fiftieth. Of guessed ones, a tenth: they go far beyond what there is to be seen, and
    with steps as long as that, the held-out photographs of `fox` are shown 1.1 dB worse. A single point has no extent:
    then it is a length that is small for its distance.
    """
    places = views.points.sort(dim=0).values
    outside = len(places) // (50 if views.measured else 10)
    return float((places[len(places) - 1 - outside] - places[outside]).norm()) / 2 or views.near


def _start(views: Views, options: FitOptions, extent: float, shards: Shards) -> dict[str, Tensor]:
    """Spheres at the points, or at as many of them as the budget allows; of these, this process's."""
    points, colors = views.points, views.colors
    if len(points) > options.gaussians:
        keep = torch.randperm(len(points), generator=torch.Generator().manual_seed(options.seed))[: options.gaussians]
        points, colors = points[keep], colors[keep]
    even = extent / len(points) ** (1 / 3) / 2
    # Measured points lie on surfaces, in places densely; random ones are denser near the cameras, which large Gaussians
    # would cover.
    sizes = neighbour_distances(points).clamp(1e-3 * even, 4 * even)
    return first_parameters(shards.own(points), shards.own(colors), shards.own(sizes), options.sh_degree)


@torch.no_grad()
def _begun(scene: Gaussians, views: Views, options: FitOptions, shards: Shards) -> dict[str, Tensor]:
    """The Gaussians of a scene where the pictures have it; of these, this process's."""
    if not 1 <= len(scene) <= options.gaussians:
        raise SceneError(
            f"a scene of 1 to --gaussians {options.gaussians} Gaussians is required to begin with, found {len(scene)}"
        )
    means = scene.with_offset(views.offset).means
    empty = int((~seen_by(some_of(means).double(), views.lens_cameras()).any(dim=1)).sum())
    words = f"none of the Gaussians to begin with are in {empty} of {len(views)} pictures"
    if 2 * empty > len(views):
        raise SceneError(f"a scene that the pictures show is required, found that {words}; check its coordinates")
    if empty:
        warnings.warn(words, stacklevel=3)
    if (degree := used_degree(scene.sh[:, 1:])) > options.sh_degree:
        warnings.warn(
            f"the colours of the scene to begin with are of degree {degree}, which is cut to {options.sh_degree}; "
            "--sh-degree chooses another",
            stacklevel=3,
        )
    if scene.antialiased:
        warnings.warn("the scene to begin with is drawn antialiased, and a fit is not: it begins worse", stacklevel=3)
    whole = scene_parameters(scene, means, options.sh_degree)
    return {name: shards.own(rows).to(views.device) for name, rows in whole.items()}
