"""A training loop as programs for gsplat write it, with gsplat's own densification, unmodified: only `rasterization` is
imported from splat.
"""

from __future__ import annotations

import pytest
import torch
from scenes import random_scene
from torch import Tensor

from splat import rasterization

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


@pytest.mark.parametrize("absgrad", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_gsplat_s_default_strategy_trains_with_splat(packed: bool, absgrad: bool) -> None:
    images, viewmats, Ks = target()
    generator = torch.Generator().manual_seed(1)
    start = {
        "means": torch.randn(40, 3, generator=generator) * 0.4,
        "scales": torch.full((40, 3), 0.1).log(),
        "quats": torch.randn(40, 4, generator=generator),
        "opacities": torch.full((40,), 0.5).logit(),
        "colors": torch.rand(40, 3, generator=generator).logit(),
    }
    params = torch.nn.ParameterDict({name: torch.nn.Parameter(value) for name, value in start.items()})
    rates = {"means": 5e-3, "scales": 2e-2, "quats": 1e-2, "opacities": 5e-2, "colors": 5e-2}
    optimizers = {name: torch.optim.Adam([params[name]], lr=rate) for name, rate in rates.items()}
    strategy = strategies.DefaultStrategy(
        refine_start_iter=10, refine_every=20, refine_stop_iter=70, grow_scale3d=0.1, absgrad=absgrad, prune_opa=0.02
    )
    strategy.check_sanity(params, optimizers)
    state = strategy.initialize_state(scene_scale=1.0)
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
    assert losses[-1] < 0.5 * losses[0]
