"""Fitting Gaussians to pictures: Adam on the loss of Kerbl et al. (2023), adding Gaussians where they are needed.

A step depends only on the Gaussians, the options and the step's number: its random numbers are drawn from the seed and
that number, whatever was drawn before. So a fit that continues from a checkpoint gives the same scene.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..ops.rendering import rasterization
from ..scene.gaussians import Gaussians
from .camera_corrections import CameraCorrections
from .color_maps import ColorMaps
from .losses import masked, psnr, ssim, training_loss
from .parameters import GaussianTable, first_parameters, neighbour_distances
from .picture_values import PictureValues
from .strategies import STRATEGIES, Moment
from .views import Views

# Learning rates of the means in units of the scene's extent, at the first and at the last step.
_MEANS_RATES = (3e-3, 3e-5)


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

    def refines_at(self, step: int) -> bool:
        """Whether Gaussians are added and removed after this step, which happens in the middle part of the fit."""
        return step % self.refine_every == 0 and 0.1 * self.steps <= step <= 0.7 * self.steps

    def budget_at(self, step: int, first: int) -> int:
        """How many Gaussians there may be after a refinement at `step`, given that there were `first` at the start."""
        last = max(int(0.7 * self.steps) // self.refine_every * self.refine_every, 1)
        return first + round(min(step / last, 1.0) * (self.gaussians - first))

    def degree_at(self, step: int) -> int:
        """The degree of spherical harmonics in use, which grows during the first half of the fit."""
        return min(self.sh_degree, int(2 * step / max(self.steps, 1) * (self.sh_degree + 1)))


class Quality(NamedTuple):
    """How well a scene shows some pictures, each and on the whole."""

    psnrs: list[float]
    """In decibels."""
    ssims: list[float]

    @property
    def psnr(self) -> float:
        """The mean in decibels."""
        return sum(self.psnrs) / len(self.psnrs)

    @property
    def ssim(self) -> float:
        """The mean."""
        return sum(self.ssims) / len(self.ssims)


class Trainer:
    """Gaussians that are being fitted."""

    def __init__(self, views: Views, options: FitOptions) -> None:
        self.views, self.options = views, options
        self.extent = _extent(views)
        self.table = GaussianTable(_start(views, options, self.extent))
        self.strategy = STRATEGIES[options.strategy](self.table)
        affine = options.appearance == "affine"
        self.appearance = ColorMaps(len(views), options.steps, views.device) if affine else None
        self.cameras = CameraCorrections(views.viewmats, self.extent, options.steps) if options.refine_cameras else None
        self.done = 0
        """Steps taken."""

    @property
    def picture_values(self) -> dict[str, PictureValues]:
        """What is fitted of each picture, besides the scene."""
        fitted = {"appearance": self.appearance, "cameras": self.cameras}
        return {name: part.values for name, part in fitted.items() if part is not None}

    def refined_views(self) -> Views:
        """The pictures with the cameras as they are now."""
        return self.views if self.cameras is None else replace(self.views, viewmats=self.cameras.corrected())

    def gaussians(self) -> Gaussians:
        """The Gaussians as they are now, after activation, detached."""
        with torch.no_grad():
            return self.table.activated()

    def fit(self, report: Callable[[int, float], None], stop: Callable[[], bool] = lambda: False) -> int:
        """Take the steps that are left, or those until `stop()` is true; return how many are done.

        `report` gets each step and its loss.
        """
        while self.done < self.options.steps:
            step = self.done + 1
            loss = self.step(step)
            self.done = step
            report(step, loss)
            if stop():
                break
        return self.done

    def step(self, step: int) -> float:
        """Take a step, numbered from 1, on one picture; return its loss."""
        view = self._view_at(step)
        self._set_rate(step)
        scene = self.table.activated()
        degree, viewmat = self.options.degree_at(step), self.cameras.viewmat(view) if self.cameras else None
        image, meta = render(scene, self.views, view, degree, absgrad=self.strategy.absgrad, viewmat=viewmat)
        image = self.appearance.applied(image, view) if self.appearance else image
        loss = training_loss(image, self.views.target(view), self.views.mask(view))
        kept = self.appearance.penalty(view) if self.appearance else 0.0
        means2d: Any = meta["means2d"]
        means2d.retain_grad()
        self.table.optimizer.zero_grad(set_to_none=True)
        (loss + self.strategy.penalty(scene) + kept).backward()  # type: ignore[no-untyped-call]
        gradients = means2d.absgrad[0] if self.strategy.absgrad else means2d.grad[0]
        halves = torch.tensor(self.views.sizes[view], device=gradients.device) / 2
        self.strategy.record(gradients * halves, (meta["radii"][0] > 0).all(dim=-1))
        self.table.optimizer.step()
        for values in self.picture_values.values():
            values.step(view, step)
        self.strategy.after_step(self.table, self._moment(step))
        return float(loss.detach())

    def _view_at(self, step: int) -> int:
        """Each of the pictures once, in a random order, and then again in another one."""
        turn, place = divmod(step - 1, len(self.views))
        order = torch.randperm(len(self.views), generator=self._generator(turn, "cpu"))
        return int(order[place])

    def _generator(self, number: int, device: torch.device | str) -> torch.Generator:
        """Random numbers determined by the seed and `number`. Everything else that a step uses is in a checkpoint."""
        # Seeds that differ in few bits give unlike numbers: torch's generators mix them. 2**61 - 1 is a prime.
        return torch.Generator(device).manual_seed((self.options.seed * 1_000_003 + number) % (2**61 - 1))

    def _moment(self, step: int) -> Moment:
        first = min(len(self.views.points), self.options.gaussians)
        return Moment(
            step,
            self.options.refines_at(step),
            self.options.budget_at(step, first),
            self.options.gaussians,
            step / self.options.steps,
            self.extent,
            self._generator(-step, self.views.device),
        )

    def _set_rate(self, step: int) -> None:
        first, last = _MEANS_RATES
        share = (step - 1) / max(self.options.steps - 1, 1)
        self.table.set_means_rate(self.extent * first * (last / first) ** share)

    def quality(self, views: Views) -> Quality:
        """PSNR and SSIM of each of the pictures."""
        return judge(self.gaussians(), views)


@torch.no_grad()
def judge(
    scene: Gaussians, views: Views, recolored: Callable[[Tensor, Tensor, Tensor | None], Tensor] | None = None
) -> Quality:
    """PSNR and SSIM of each of the pictures; `recolored` gets an image, its target and its mask first."""
    quality = Quality([], [])
    for view in range(len(views)):
        mask, target = views.mask(view), views.target(view)
        image = render(scene, views, view, scene.degree)[0].clamp(0, 1)
        image = recolored(image, target, mask).clamp(0, 1) if recolored else image
        image, target = masked(image, mask), masked(target, mask)
        quality.psnrs.append(psnr(image, target, mask))
        quality.ssims.append(float(ssim(image, target, mask)))
    return quality


def render(
    scene: Gaussians, views: Views, view: int, sh_degree: int, absgrad: bool = False, viewmat: Tensor | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """The image [H, W, 3] of one of the cameras, and `meta`; with another world-to-camera matrix, if one is given."""
    width, height = views.sizes[view]
    background = torch.tensor([views.background], device=views.device) if any(views.background) else None
    images, _, meta = rasterization(
        scene.means,
        scene.quats,
        scene.scales,
        scene.opacities,
        scene.sh,
        views.viewmats[view : view + 1] if viewmat is None else viewmat[None],
        views.Ks[view : view + 1],
        width,
        height,
        sh_degree=sh_degree,
        backgrounds=background,
        packed=False,
        absgrad=absgrad,
    )
    return images[0], meta


def _extent(views: Views) -> float:
    """Half the diagonal of the box around the points; of those that were measured, without the outermost."""
    points = views.points
    if views.measured:
        places = points.sort(dim=0).values
        outside = len(points) // 50
        low, high = places[outside], places[len(points) - 1 - outside]
    else:
        low, high = points.aminmax(dim=0)
    return max(float((high - low).norm()) / 2, 1e-6)


def _start(views: Views, options: FitOptions, extent: float) -> dict[str, Tensor]:
    """Spheres at the points, or at as many of them as the budget allows."""
    points, colors = views.points, views.colors
    if len(points) > options.gaussians:
        keep = torch.randperm(len(points), generator=torch.Generator().manual_seed(options.seed))[: options.gaussians]
        points, colors = points[keep], colors[keep]
    even = extent / len(points) ** (1 / 3) / 2
    # Measured points lie on surfaces, in places densely; random ones are denser near the cameras, which large Gaussians
    # would cover.
    sizes = neighbour_distances(points).clamp(1e-3 * even, 4 * even)
    return first_parameters(points, colors, sizes, options.sh_degree)
