"""splat.strategy beside gsplat's own strategies, step by step, from the same Gaussians and the same seed."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from scenes import random_scene
from torch import Tensor

import splat
from splat import rasterization, rasterization_2dgs
from splat.ops.densification import draw, rotate
from splat.strategy import DefaultStrategy, MCMCStrategy, Strategy, ops

theirs = pytest.importorskip("gsplat.strategy", reason="gsplat is what is compared with; ci/test installs it")
their_ops = pytest.importorskip("gsplat.strategy.ops")

WIDTH, HEIGHT, STEPS = 48, 36, 60

Training = tuple[torch.nn.ParameterDict, dict[str, torch.optim.Optimizer], dict[str, Any]]


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """gsplat's strategies call two of its functions of CUDA."""
    monkeypatch.setattr(their_ops, "compute_relocation", splat.compute_relocation)
    monkeypatch.setattr(their_ops, "quat_scale_to_covar_preci", splat.quat_scale_to_covar_preci)


def start(count: int = 40, column: bool = False, size: float = 0.1) -> Training:
    """What is trained, each parameter by an Adam that has taken a step, and two counts of each Gaussian."""
    generator = torch.Generator().manual_seed(1)
    values = {
        "means": torch.randn(count, 3, generator=generator) * 0.4,
        "scales": (size * (0.2 + torch.rand(count, 3, generator=generator))).log(),
        "quats": torch.randn(count, 4, generator=generator),
        "opacities": torch.randn(count, *(1,) * column, generator=generator),
        "colors": torch.rand(count, 3, generator=generator).logit(),
    }
    params = torch.nn.ParameterDict({name: torch.nn.Parameter(value) for name, value in values.items()})
    params["labels"] = torch.nn.Parameter(torch.rand(count, 2, generator=generator), requires_grad=False)
    rates = {"means": 5e-3, "scales": 2e-2, "quats": 1e-2, "opacities": 5e-2, "colors": 5e-2}
    optimizers: dict[str, torch.optim.Optimizer] = {}
    for name, rate in rates.items():
        params[name].grad = torch.randn(params[name].shape, generator=generator)
        optimizers[name] = torch.optim.Adam([params[name]], lr=rate)
        optimizers[name].step()
        optimizers[name].zero_grad(set_to_none=True)
    state = {name: torch.rand(count, generator=generator) for name in ("grad2d", "count")} | {"scene_scale": 1.5}
    return params, optimizers, state


def compare(found: Training, expected: Training) -> None:
    """The same Gaussians, trained alike, and the same of them in the optimizers and the counts."""
    (params, optimizers, state), (others, their_optimizers, their_state) = found, expected
    assert [*params] == [*others]
    for name, value in others.items():
        assert params[name].requires_grad is value.requires_grad
        # Offsets and noise are rounded otherwise.
        torch.testing.assert_close(params[name], value, rtol=1e-5, atol=1e-6 if name == "means" else 0.0)
    for name, optimizer in their_optimizers.items():
        assert optimizers[name].param_groups[0]["params"] == [params[name]]
        assert [*optimizers[name].state] == [params[name]]
        known, other = optimizers[name].state[params[name]], optimizer.state[others[name]]
        assert known.keys() == other.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(known[key], other[key]) for key in other)
    assert state.keys() == their_state.keys()
    for name, value in their_state.items():
        assert torch.equal(state[name], value) if isinstance(value, Tensor) else state[name] == value


def both(ours: Training, change: Callable[[Any, Training], None], modules: tuple[Any, Any] = (ops, their_ops)) -> None:
    """Make the same change of equal Gaussians with ours and with gsplat's, and compare."""
    expected = copy.deepcopy(ours)
    for module, training in zip(modules, (ours, expected), strict=True):
        torch.manual_seed(3)
        change(module, training)
    compare(ours, expected)


CHANGES: dict[str, Callable[[Any, Training, Tensor], None]] = {
    "duplicate": lambda module, training, mask: module.duplicate(*training, mask),
    "split": lambda module, training, mask: module.split(*training, mask),
    "split, revised": lambda module, training, mask: module.split(*training, mask, revised_opacity=True),
    "remove": lambda module, training, mask: module.remove(*training, mask),
    "reset_opa": lambda module, training, mask: module.reset_opa(*training, value=0.3),
    "relocate": lambda module, training, mask: module.relocate(*training, mask, binoms(), min_opacity=0.01),
    "sample_add": lambda module, training, mask: module.sample_add(*without_numbers(training), 55, binoms()),
    "noise": lambda module, training, mask: module.inject_noise_to_position(*training, scaler=300.0),
}


def binoms() -> Tensor:
    found: Tensor = MCMCStrategy().initialize_state()["binoms"]
    return found


def without_numbers(training: Training) -> Training:
    training[2].pop("scene_scale", None)  # gsplat's sample_add takes tensors only
    return training


@pytest.mark.parametrize("column", [False, True], ids=["opacities [N]", "opacities [N, 1]"])
@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_gsplat_s(name: str, column: bool) -> None:
    ours = start(column=column)
    before = copy.deepcopy(ours)
    mask = (torch.arange(40) % 3 == 1).reshape(ours[0]["opacities"].shape)
    both(ours, lambda module, training: CHANGES[name](module, training, mask))
    changed = "opacities" if name == "reset_opa" else "means"
    assert not torch.equal(ours[0][changed], before[0][changed])


@pytest.mark.parametrize("name", set(ops.__all__) - {"inject_noise_to_position"})
def test_calls_are_gsplat_s(name: str) -> None:
    ours, expected = (inspect.signature(getattr(module, name)).parameters for module in (ops, their_ops))
    assert [(each.name, each.default) for each in ours.values()] == [
        (each.name, each.default) for each in expected.values()
    ]


@pytest.mark.parametrize("kind", [DefaultStrategy, MCMCStrategy, Strategy])
def test_fields_and_methods_are_gsplat_s(kind: type[Strategy]) -> None:
    other = getattr(theirs, kind.__name__)
    assert getattr(splat, kind.__name__) is kind
    assert [(field.name, field.default) for field in dataclasses.fields(kind)] == [
        (field.name, field.default) for field in dataclasses.fields(other)
    ]
    methods = ["check_sanity", "step_pre_backward", "step_post_backward"]
    for name in [*methods, *(["initialize_state"] if kind is not Strategy else [])]:
        ours, expected = (inspect.signature(getattr(each, name)).parameters.values() for each in (kind, other))
        assert [(each.name, each.default) for each in ours] == [(each.name, each.default) for each in expected]


def pictures(params: torch.nn.ParameterDict, draws: Any, **options: Any) -> Iterator[tuple[Tensor, dict[str, Any]]]:
    """The loss of each step, and what the rasterizer returned last."""
    scene = random_scene(7, 60, WIDTH, HEIGHT, size="mixed", opacity="solid", views=("front", "front"))
    with torch.no_grad():
        images, *_ = rasterization(**scene.arguments)
    for _ in range(STEPS):
        colors, *_, info = draws(
            params["means"], params["quats"], params["scales"].exp(), params["opacities"].sigmoid().flatten(),
            params["colors"].sigmoid(), scene.viewmats, scene.Ks, WIDTH, HEIGHT, **options,
        )  # fmt: skip
        yield (colors - images).abs().mean(), info


def step(optimizers: dict[str, torch.optim.Optimizer]) -> None:
    for optimizer in optimizers.values():
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draws", "options", "fields"),
    [
        (
            rasterization,
            {"packed": True, "absgrad": True},
            {"absgrad": True, "revised_opacity": True, "pause_refine_after_reset": 5},
        ),
        (rasterization, {"packed": False}, {"refine_scale2d_stop_iter": 55, "grow_scale2d": 0.2, "prune_scale2d": 0.4}),
        (rasterization_2dgs, {"packed": False}, {"key_for_gradient": "gradient_2dgs"}),
    ],
)
def test_the_default_strategy_is_gsplat_s_in_each_step(
    draws: Any, options: dict[str, Any], fields: dict[str, Any]
) -> None:
    chosen = {
        "refine_start_iter": 5, "refine_every": 10, "refine_stop_iter": 55, "grow_scale3d": 0.08, "prune_opa": 0.1,
        "reset_every": 25, "prune_scale3d": 0.2, "grow_grad2d": 1e-3, **fields,
    }  # fmt: skip
    params, optimizers, _ = start(size=0.2)
    strategy, other = DefaultStrategy(**chosen), theirs.DefaultStrategy(**chosen)
    state = strategy.initialize_state(scene_scale=1.2)
    assert state == other.initialize_state(scene_scale=1.2)
    counts, resets = [], 0
    for number, (loss, info) in enumerate(pictures(params, draws, **options)):
        strategy.step_pre_backward(params, optimizers, state, number, info)
        loss.backward()
        step(optimizers)

        def after(module: Any, training: Training) -> None:
            module.step_post_backward(*training, number, info, packed=options["packed"])  # noqa: B023
            if module is other and number in (25, 50):  # noqa: B023
                # A condition that is never true keeps gsplat 1.5.3 from it; 1.6.0 does it.
                their_ops.reset_opa(*training, value=0.2)

        both((params, optimizers, state), after, (strategy, other))
        counts.append(len(params["means"]))
        resets += float(params["opacities"].detach().max().sigmoid()) < 0.2 + 1e-6
    assert len(set(counts)) > 3
    assert resets == 2


@pytest.mark.slow
def test_the_mcmc_strategy_is_gsplat_s_in_each_step() -> None:
    chosen = {"cap_max": 55, "refine_start_iter": 5, "refine_every": 10, "refine_stop_iter": 55, "noise_lr": 2.0}
    params, optimizers, _ = start(column=True)
    with torch.no_grad():
        params["opacities"][:5] = -9
        params["opacities"][5:9] = torch.tensor(0.004).logit()
    strategy, other = MCMCStrategy(**chosen), theirs.MCMCStrategy(**chosen)
    state = strategy.initialize_state()
    assert torch.equal(state["binoms"], other.initialize_state()["binoms"])
    counts = []
    for number, (loss, info) in enumerate(pictures(params, rasterization)):
        loss.backward()
        step(optimizers)

        def after(module: Any, training: Training) -> None:
            module.step_post_backward(*training, number, info, lr=5e-3)  # noqa: B023

        both((params, optimizers, state), after, (strategy, other))
        counts.append(len(params["means"]))
    assert counts[-1] == 44 + 2 + 2 + 2  # 5 percent more, five times
    assert (params["opacities"].sigmoid() > 0.005).all()


def test_who_is_seen_along_both_axes_counts() -> None:
    params, optimizers, _ = start(4)
    radii = torch.tensor([[[2, 3], [0, 3], [2, 0], [0, 0]], [[0, 0], [1, 1], [9, 4], [0, 0]]], dtype=torch.int32)
    means2d = torch.zeros(2, 4, 2, requires_grad=True)
    means2d.grad = torch.rand(2, 4, 2)
    info = {"means2d": means2d, "radii": radii, "width": 9, "height": 7, "n_cameras": 2, "gaussian_ids": None}
    strategy, other = DefaultStrategy(refine_scale2d_stop_iter=9), theirs.DefaultStrategy(refine_scale2d_stop_iter=9)
    state = strategy.initialize_state()
    both(
        (params, optimizers, state),
        lambda each, training: each.step_post_backward(*training, 1, info),
        (strategy, other),
    )
    assert state["count"].tolist() == [1, 1, 1, 0]
    assert state["radii"].tolist() == pytest.approx([3 / 9, 1 / 9, 1, 0])


def test_the_layout_is_the_one_that_info_has() -> None:
    """Not the one that `packed` says: by default, that is another than `rasterization`'s."""
    params, optimizers, _ = start()
    states = []
    for layout, said in ((False, False), (False, True), (True, False), (True, True)):
        loss, info = next(pictures(params, rasterization, packed=layout))
        strategy = DefaultStrategy()
        states.append(strategy.initialize_state())
        strategy.step_pre_backward(params, optimizers, states[-1], 1, info)
        loss.backward()
        strategy.step_post_backward(params, optimizers, states[-1], 1, info, packed=said)
    for state in states[1:]:
        assert torch.equal(state["count"], states[0]["count"])
        torch.testing.assert_close(state["grad2d"], states[0]["grad2d"])


def test_radii_of_one_number_count_as_two_equal_ones() -> None:
    """gsplat 1.4's, as splat.compat.gsplat14 returns them."""
    params, optimizers, _ = start()
    loss, info = next(pictures(params, rasterization, packed=False))
    info["means2d"].retain_grad()
    loss.backward()
    states = []
    for radii in (info["radii"].amax(-1), info["radii"].amax(-1, keepdim=True).expand(-1, -1, 2)):
        strategy = DefaultStrategy(refine_scale2d_stop_iter=9)
        states.append(strategy.initialize_state())
        strategy.step_post_backward(params, optimizers, states[-1], 1, {**info, "radii": radii}, packed=False)
    assert all(torch.equal(states[0][name], states[1][name]) for name in ("grad2d", "count", "radii"))
    assert states[0]["radii"].any()


def test_what_does_not_fit_is_one_error() -> None:
    params, optimizers, state = start()
    strategy = DefaultStrategy()
    strategy.check_sanity(params, optimizers)
    colors = optimizers.pop("colors")
    with pytest.raises(ValueError, match=r"needs an optimizer of its name; found optimizers of \['means', 'opacities'"):
        strategy.check_sanity(params, optimizers)
    with pytest.raises(ValueError, match="needs an optimizer; found none for colors"):
        ops.remove(params, optimizers, state, torch.zeros(40, dtype=torch.bool))
    optimizers["colors"] = colors
    colors.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]})
    with pytest.raises(ValueError, match="must have one group, with one parameter; found 2 in that of colors"):
        strategy.check_sanity(params, optimizers)
    del params["quats"], optimizers["quats"], params["colors"], optimizers["colors"]
    Strategy().check_sanity(params, optimizers)
    with pytest.raises(ValueError, match=r"MCMCStrategy needs the parameters .*; missing: \['quats'\]"):
        MCMCStrategy().check_sanity(params, optimizers)
    with pytest.raises(ValueError, match="info must be what rasterization returned last, with means2d; found"):
        strategy.step_pre_backward(params, optimizers, state, 0, {})
    with pytest.raises(ValueError, match="needs Gaussians outside of mask"):
        ops.relocate(params, optimizers, state, torch.ones(40, dtype=torch.bool), binoms())


def test_optimizers_may_remember_numbers_that_are_not_of_gaussians() -> None:
    params, optimizers, state = start()
    params["means"].grad = torch.ones(40, 3)
    optimizers["means"] = torch.optim.NAdam([params["means"]])
    optimizers["means"].step()
    before = optimizers["means"].state[params["means"]]
    ops.remove(params, optimizers, state, torch.arange(40) < 30)
    known = optimizers["means"].state[params["means"]]
    assert known.keys() == before.keys() > {"step", "exp_avg"}
    assert torch.equal(known["exp_avg"], before["exp_avg"][30:])
    assert torch.equal(known["mu_product"], before["mu_product"])


def test_more_gaussians_than_multinomial_takes_are_drawn_by_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = torch.tensor([0.0, 3.0, 0.0, 1.0, 0.0])
    monkeypatch.setattr("splat.ops.densification._MOST_DRAWN", 4)
    torch.manual_seed(0)
    counts = draw(weights, 4000).bincount(minlength=5)
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]
    assert abs(int(counts[3]) - 1000) < 120


def test_vectors_are_rotated_for_each_of_several_draws() -> None:
    quats, vectors = torch.randn(5, 4), torch.randn(2, 5, 3)
    assert torch.equal(rotate(quats, vectors)[1], rotate(quats, vectors[1]))
