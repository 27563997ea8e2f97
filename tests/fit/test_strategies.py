"""How Gaussians are added and removed during a fit: by the paper, as a Markov chain, and both beside each other."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import photographs
import pytest
import torch
from scenes import random_scene
from torch import Tensor

from splat.fit.learning_rates import learning_rates
from splat.fit.parameters import GaussianTable, first_parameters
from splat.fit.photograph_views import photograph_views
from splat.fit.picture_quality import Quality
from splat.fit.strategies import DensityControl, MarkovChain, Moment
from splat.fit.training import FitOptions, Trainer
from splat.ops.densification import BINOMIALS
from splat.ops.relocation import compute_relocation
from splat.ops.rendering import rasterization
from splat.photos.folders import read_capture


def table(count: int, size: float = 0.1) -> GaussianTable:
    generator = torch.Generator().manual_seed(1)
    points, colors = torch.rand(count, 3, generator=generator), torch.rand(count, 3, generator=generator)
    made = GaussianTable(first_parameters(points, colors, torch.full((count,), size), 1))
    for value in made.parameters.values():
        value.grad = torch.ones_like(value)
    made.set_rates(learning_rates(34, 100, 1.0))
    made.optimizer.step()
    return made


def moment(budget: int, step: int = 100, refines: bool = True, share: float = 0.3) -> Moment:
    return Moment(range(step, step + 1), refines, budget, budget, share, 1.0, torch.Generator().manual_seed(2))


def values(made: GaussianTable, name: str) -> Tensor:
    return made.parameters[name].detach().clone()


def set_opacities(made: GaussianTable, rows: slice, opacity: float) -> None:
    made.parameters["opacities"].data[rows] = math.log(opacity / (1 - opacity))


# The original


def test_small_ones_are_cloned_large_ones_split_and_transparent_ones_go() -> None:
    made = table(20, size=0.005)
    made.parameters["scales"].data[10:] = math.log(0.2)
    set_opacities(made, slice(0, 3), 0.004)
    means, scales = values(made, "means"), values(made, "scales")
    control = DensityControl(made)
    gradients, visible = torch.zeros(20, 2), torch.ones(20)
    gradients[:, 0] = 1e-4  # below the threshold
    gradients[[0, 5, 12], 0] = torch.tensor([3e-4, 4e-4, 5e-4])
    control.record(gradients[None], visible[None])
    control.record(gradients[None], visible[None])
    control.after_step(made, moment(budget=100))
    # 3 went, one of them although it was pulled; 5 is there twice, and 12 became two smaller ones.
    assert len(made) == 19
    now, sizes = values(made, "means"), values(made, "scales")
    others = [row for row in range(3, 20) if row != 12]
    assert torch.equal(now[[row - 3 for row in others]], means[others])
    assert torch.equal(now[17], means[5])
    assert torch.equal(sizes[17], scales[5])
    halves = [9, 18]
    assert torch.equal(sizes[halves], (scales[12] - math.log(1.6)).repeat(2, 1))
    torch.testing.assert_close(now[halves].mean(dim=0), means[12])
    assert not torch.equal(now[9], now[18])
    assert torch.equal(control.counts["pull"], torch.zeros(19))
    state = made.optimizer.state[made.parameters["means"]]["exp_avg"]
    assert not state[[2, 17, 9, 18]].any()
    assert state[[0, 1, 3]].all()


def test_no_more_gaussians_than_were_asked_for_and_the_most_pulled_first() -> None:
    made = table(20, size=0.005)
    means = values(made, "means")
    control = DensityControl(made)
    control.record(torch.arange(1.0, 21)[None, :, None].repeat(1, 1, 2), torch.ones(1, 20))
    control.after_step(made, moment(budget=23))
    assert len(made) == 23
    assert {tuple(row) for row in values(made, "means")[20:].tolist()} == {tuple(row) for row in means[17:].tolist()}


@pytest.mark.parametrize(("step", "share", "reset"), [(3000, 0.3, True), (2900, 0.3, False), (3000, 0.8, False)])
def test_opacities_are_reset_from_time_to_time(step: int, share: float, reset: bool) -> None:
    made = table(5)
    set_opacities(made, slice(0, 4), 0.7)
    set_opacities(made, slice(4, 5), 0.006)
    DensityControl(made).after_step(made, moment(9, step, refines=False, share=share))
    expected = [0.01] * 4 if reset else [0.7] * 4
    assert values(made, "opacities").sigmoid().tolist() == pytest.approx([*expected, 0.006])
    assert bool(made.optimizer.state[made.parameters["opacities"]]["exp_avg"].any()) != reset


# The Markov chain


def test_several_in_the_place_of_one_look_as_it_did() -> None:
    scene = random_scene(1, 1, 48, 36, size="mixed", opacity="solid", views=("front",))
    opacities, scales = compute_relocation(scene.opacities, scene.scales, torch.tensor([4]), BINOMIALS)
    before = rasterization(**scene.arguments)[1]
    four = {**scene.arguments, "opacities": opacities.repeat(4), "scales": scales.repeat(4, 1)}
    four |= {name: getattr(scene, name).repeat_interleave(4, dim=0) for name in ("means", "quats")}
    four["colors"] = scene.colors.repeat_interleave(4, dim=scene.colors.ndim - 3 if scene.colors.ndim > 2 else 0)
    after = rasterization(**four)[1]
    assert before.max() > 0.3
    assert (before - after).abs().max() < 0.15 * before.max()
    assert (after.sum() / before.sum()).item() == pytest.approx(1, abs=0.1)


def test_dead_ones_move_to_opaque_ones_and_new_ones_come() -> None:
    made = table(30)
    set_opacities(made, slice(0, 10), 0.001)
    set_opacities(made, slice(10, 29), 0.006)
    set_opacities(made, slice(29, 30), 0.9)
    means = values(made, "means")
    chain = MarkovChain(made)
    chain.noise = 0.0
    chain.after_step(made, moment(budget=40))
    assert len(made) == 40
    now = values(made, "means")
    assert torch.equal(now[10:30], means[10:30])
    moved = [*range(10), *range(30, 40)]
    places = {tuple(row) for row in now[moved].tolist()}
    assert places <= {tuple(row) for row in means[10:].tolist()}
    # Nearly all to the opaque one, which shares its opacity with them.
    there = (now == means[29]).all(dim=1)
    assert int(there.sum()) > 12
    opacities = values(made, "opacities").sigmoid()[there].double()
    assert (1 - opacities).prod().item() == pytest.approx(0.1, rel=1e-3)
    assert (values(made, "scales")[there].exp() < 0.1 * 1.02).all()
    state = made.optimizer.state[made.parameters["scales"]]["exp_avg"]
    assert not state[there].any()


@pytest.mark.parametrize("pictures", [1, 4])
def test_noise_moves_what_is_transparent_along_its_shape(pictures: int) -> None:
    made = table(400)
    made.parameters["scales"].data[:, 0] = math.log(0.3)
    made.parameters["scales"].data[:, 1:] = math.log(0.01)
    set_opacities(made, slice(0, 200), 0.001)
    set_opacities(made, slice(200, 400), 0.5)
    before = values(made, "means")
    now = replace(moment(400, refines=False, share=0.0), steps=range(100, 100 + pictures))
    MarkovChain(made).after_step(made, now)
    steps = values(made, "means") - before
    assert not steps[200:].abs().max() > 1e-9
    # The covariance of each is diag(0.09, 0.0001, 0.0001), since none is turned by more than Adam's first step.
    expected = math.sqrt(pictures) * 80 * 0.09 / (1 + math.exp(100 * (0.001 - 0.005)))
    assert steps[:200, 0].std().item() == pytest.approx(expected, rel=0.15)
    assert (steps[:200, 1:].std(dim=0) < 0.05 * steps[:200, 0].std()).all()


def test_opacities_and_scales_are_kept_small() -> None:
    made = table(10, size=0.2)
    with torch.no_grad():
        scene = made.activated()
    penalty = MarkovChain(made).penalty(scene, 10, 1.0)
    assert float(penalty) == pytest.approx(0.01 * (scene.opacities.mean() + scene.scales.mean()).item())


# Beside each other


@pytest.mark.minutes
@pytest.mark.slow
def test_both_fit_the_same_scene_with_as_many_gaussians(tmp_path: Path) -> None:
    views = photograph_views(read_capture(photographs.colmap_folder(tmp_path / "a", count=16)), 200, 0)
    trained, judged = views.select([i for i in range(16) if i % 8]), views.select([0, 8])
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    found: dict[str, Quality] = {}
    try:
        for strategy in ("default", "mcmc", "grow"):
            trainer = Trainer(trained, FitOptions(300, 800, 0, strategy=strategy))
            trainer.fit(lambda *_: None)
            assert len(trainer.table) == 800, strategy
            found[strategy] = trainer.quality(judged)
    finally:
        torch.set_num_threads(before)
    print({name: f"{quality.psnr:.2f} dB, SSIM {quality.ssim:.3f}" for name, quality in found.items()})
    assert min(quality.psnr for quality in found.values()) > 22
    assert min(quality.ssim for quality in found.values()) > 0.85
