"""Training loops as programs for gsplat write them, with gsplat's own densification, unmodified: only what is imported
from splat differs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from processes import RunPython
from scenes import random_scene
from torch import Tensor

from splat import rasterization
from splat.compat import gsplat14
from splat.strategy import MCMCStrategy

strategies = pytest.importorskip(
    "gsplat.strategy", reason="gsplat's strategy is what is shown to work; ci/test installs it"
)

WIDTH, HEIGHT, STEPS = 48, 36, 80


def target() -> tuple[Tensor, Tensor, Tensor]:
    """Two pictures of a random scene, and their cameras."""
    scene = random_scene(7, 60, WIDTH, HEIGHT, size="mixed", opacity="solid", views=("front", "front"))
    with torch.no_grad():
        images, _, _ = rasterization(**scene.arguments)
    return images, scene.viewmats, scene.Ks


def start() -> tuple[torch.nn.ParameterDict, dict[str, torch.optim.Optimizer]]:
    """What is trained, and how."""
    generator = torch.Generator().manual_seed(1)
    values = {
        "means": torch.randn(40, 3, generator=generator) * 0.4,
        "scales": torch.full((40, 3), 0.1).log(),
        "quats": torch.randn(40, 4, generator=generator),
        "opacities": torch.full((40,), 0.5).logit(),
        "colors": torch.rand(40, 3, generator=generator).logit(),
    }
    params = torch.nn.ParameterDict({name: torch.nn.Parameter(value) for name, value in values.items()})
    params["labels"] = torch.nn.Parameter(torch.rand(40, 2), requires_grad=False)  # which is not trained
    rates = {"means": 5e-3, "scales": 2e-2, "quats": 1e-2, "opacities": 5e-2, "colors": 5e-2}
    return params, {name: torch.optim.Adam([params[name]], lr=rate) for name, rate in rates.items()}


@pytest.mark.parametrize(("packed", "absgrad"), [(False, True), (True, False)])
def test_gsplat_s_default_strategy_trains_with_splat(packed: bool, absgrad: bool) -> None:
    params, optimizers = start()
    strategy = strategies.DefaultStrategy(
        refine_start_iter=10, refine_every=20, refine_stop_iter=70, grow_scale3d=0.1, absgrad=absgrad, prune_opa=0.02
    )
    strategy.check_sanity(params, optimizers)
    state = strategy.initialize_state(scene_scale=1.0)
    images, viewmats, Ks = target()
    losses, counts = [], []
    torch.manual_seed(0)  # for the strategy, which splits at random
    for step in range(STEPS):
        colors, _, info = rasterization(
            params["means"],
            params["quats"],
            params["scales"].exp(),
            params["opacities"].sigmoid(),
            params["colors"].sigmoid(),
            viewmats,
            Ks,
            WIDTH,
            HEIGHT,
            packed=packed,
            absgrad=absgrad,
        )
        strategy.step_pre_backward(params, optimizers, state, step, info)
        loss = (colors - images).abs().mean()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        strategy.step_post_backward(params, optimizers, state, step, info, packed=packed)
        losses.append(loss.item())
        counts.append(len(params["means"]))
    # Some were duplicated or split, and all of them learn.
    assert counts[-1] > 40
    assert params["labels"].shape == (counts[-1], 2)
    assert [name for name, each in params.items() if not each.requires_grad] == ["labels"]
    assert losses[-1] < 0.5 * losses[0]


def test_the_mcmc_strategy_trains() -> None:
    params, optimizers = start()
    with torch.no_grad():
        params["opacities"][:5] = -9  # dead: they are relocated
    strategy = MCMCStrategy(
        cap_max=55, refine_start_iter=10, refine_every=10, refine_stop_iter=70, min_opacity=0.005, noise_lr=2.0
    )
    strategy.check_sanity(params, optimizers)
    state = strategy.initialize_state()
    images, viewmats, Ks = target()
    losses, counts, dead = [], [], []
    torch.manual_seed(0)
    for step in range(STEPS):
        colors, _, info = rasterization(
            params["means"], params["quats"], params["scales"].exp(), params["opacities"].sigmoid().flatten(),
            params["colors"].sigmoid(), viewmats, Ks, WIDTH, HEIGHT,
        )  # fmt: skip
        loss = (colors - images).abs().mean()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        strategy.step_post_backward(params, optimizers, state, step, info, lr=5e-3)
        losses.append(loss.item())
        counts.append(len(params["means"]))
        dead.append(int((params["opacities"].sigmoid() <= 0.005).sum()))
    assert dead[0] == 5
    assert dead[20] == 0
    assert counts[20] == 42  # 5 percent more, twice
    assert counts[-1] > counts[20]
    assert all(each.isfinite().all() for each in params.values())
    assert params["labels"].shape == (counts[-1], 2)
    assert [name for name, each in params.items() if not each.requires_grad] == ["labels"]
    assert losses[-1] < 0.5 * losses[0]


# gsplat 1.4.0


@pytest.mark.parametrize("packed", [False, True])
def test_radii_are_one_number_as_in_gsplat_1_4(packed: bool) -> None:
    scene = random_scene(7, 60, WIDTH, HEIGHT, size="mixed", views=("front", "inside")).arguments
    images, alphas, meta = gsplat14.rasterization(**scene, packed=packed)
    expected, expected_alphas, other = rasterization(**scene, packed=packed)
    assert torch.equal(images, expected)
    assert torch.equal(alphas, expected_alphas)
    assert set(meta) == set(other)
    assert meta["radii"].dtype == torch.int32
    assert torch.equal(meta["radii"], other["radii"].max(-1).values)
    assert meta["radii"].shape == meta["depths"].shape
    assert meta["n_cameras"] == 2
    if packed:
        assert torch.equal(meta["camera_ids"], other["camera_ids"])


GSPLAT_14 = os.environ.get("SPLAT_TEST_GSPLAT14", "")
PROGRAM_14 = """
import sys
import torch
import gsplat
from gsplat.strategy import DefaultStrategy
from splat.compat.gsplat14 import rasterization
from splat.strategy import MCMCStrategy

assert gsplat.__version__ == "1.4.0", gsplat.__version__
torch.manual_seed(0)
viewmats = torch.eye(4).repeat(2, 1, 1)
viewmats[:, 2, 3] = 3
Ks = torch.tensor([[40.0, 0, 24], [0, 40.0, 18], [0, 0, 1.0]]).repeat(2, 1, 1)
target = torch.rand(2, 36, 48, 3)
for packed, mcmc in ((False, False), (True, False), (True, True)):
    params = torch.nn.ParameterDict({
        "means": torch.nn.Parameter(torch.randn(40, 3) * 0.4), "scales": torch.nn.Parameter(torch.full((40, 3), -2.3)),
        "quats": torch.nn.Parameter(torch.randn(40, 4)), "opacities": torch.nn.Parameter(torch.zeros(40)),
        "colors": torch.nn.Parameter(torch.zeros(40, 3)),
    })
    optimizers = {name: torch.optim.Adam([value], lr=1e-2) for name, value in params.items()}
    if mcmc:
        strategy = MCMCStrategy(cap_max=60, refine_start_iter=5, refine_every=5, refine_stop_iter=20, noise_lr=1.0)
    else:
        strategy = DefaultStrategy(
            refine_start_iter=5, refine_every=5, refine_scale2d_stop_iter=15, refine_stop_iter=20
        )
    strategy.check_sanity(params, optimizers)
    state = strategy.initialize_state(**({} if mcmc else {"scene_scale": 1.0}))
    for step in range(20):
        colors, _, info = rasterization(
            params["means"], params["quats"], params["scales"].exp(), params["opacities"].sigmoid(),
            params["colors"].sigmoid(), viewmats, Ks, 48, 36, packed=packed,
        )
        if not mcmc:
            strategy.step_pre_backward(params, optimizers, state, step, info)
        (colors - target).abs().mean().backward()
        for optimizer in optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        options = {"lr": 1e-2} if mcmc else {"packed": packed}
        strategy.step_post_backward(params, optimizers, state, step, info, **options)
    assert len(params["means"]) != 40
print("trained")
"""


@pytest.mark.skipif(
    not GSPLAT_14,
    reason="SPLAT_TEST_GSPLAT14 does not name a folder with gsplat 1.4.0 (pip install --no-deps --target)",
)
def test_gsplat_1_4_s_strategies_train_with_splat(run_with_torch: RunPython) -> None:
    found = run_with_torch(PROGRAM_14, path=[Path(GSPLAT_14)])
    assert "trained" in found.stdout
