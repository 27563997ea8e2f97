"""What strategies do to Gaussians, with the parameters and calls of gsplat 1.5.3's `gsplat.strategy.ops`.

`params` has a row for each Gaussian in each parameter: among them `means` [N, 3], `scales` [N, 3] (logarithms), `quats`
[N, 4] and `opacities` [N] or [N, 1] (logits). They are replaced in `params` and in their optimizers. The tensors in
`state`, what a strategy has counted of each Gaussian, change with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..ops.densification import SPLIT, chosen_state, draw, rotate
from ..ops.relocation import compute_relocation, inject_noise_to_position

__all__ = ["duplicate", "inject_noise_to_position", "relocate", "remove", "reset_opa", "sample_add", "split"]

Params = dict[str, torch.nn.Parameter] | torch.nn.ParameterDict
Optimizers = Mapping[str, torch.optim.Optimizer]


@torch.no_grad()
def duplicate(params: Params, optimizers: Optimizers, state: dict[str, Any], mask: Tensor) -> None:
    """Put a copy of each Gaussian of `mask`, bool [N], behind the others."""
    rows = torch.cat([_all(mask), _where(mask)])
    _rebuild(params, optimizers, rows, forgotten=_all(rows)[len(mask) :])
    _count(state, lambda counted: counted[rows])


@torch.no_grad()
def split(
    params: Params, optimizers: Optimizers, state: dict[str, Any], mask: Tensor, revised_opacity: bool = False
) -> None:
    """Put two smaller ones, at random places within it, behind the others for each Gaussian of `mask`, bool [N].

    With `revised_opacity`, the two, one behind the other, are as opaque as the one was (Bulò et al., *Revising
    Densification in Gaussian Splatting*, 2024).
    """
    parents = _where(mask)
    scales = params["scales"][parents].exp()
    drawn = torch.randn(2, *scales.shape, device=mask.device)
    offsets = rotate(params["quats"][parents], scales * drawn).flatten(0, 1)
    changes = {"means": params["means"][parents].repeat(2, 1) + offsets, "scales": (scales / SPLIT).log().repeat(2, 1)}
    if revised_opacity:
        halves = (1 - (1 - params["opacities"][parents].sigmoid()).sqrt()).logit()
        changes["opacities"] = torch.cat([halves, halves])
    rows = torch.cat([_where(~mask), parents, parents])
    places = _all(rows)[len(rows) - 2 * len(parents) :]
    _rebuild(params, optimizers, rows, places, changes, forgotten=places)
    _count(state, lambda counted: counted[rows])


@torch.no_grad()
def remove(params: Params, optimizers: Optimizers, state: dict[str, Any], mask: Tensor) -> None:
    """Remove the Gaussians of `mask`, bool [N]."""
    rows = _where(~mask)
    _rebuild(params, optimizers, rows)
    _count(state, lambda counted: counted[rows])


@torch.no_grad()
def reset_opa(params: Params, optimizers: Optimizers, state: dict[str, Any], value: float) -> None:
    """Make all opacities at most `value`, 0 to 1."""
    opacities = params["opacities"]
    rows = torch.arange(len(opacities), device=opacities.device)
    lower = opacities.clamp(max=torch.tensor(value).logit().item())
    _rebuild(params, optimizers, rows, rows, {"opacities": lower}, forgotten=rows, names=["opacities"])


@torch.no_grad()
def relocate(
    params: Params,
    optimizers: Optimizers,
    state: dict[str, Any],
    mask: Tensor,
    binoms: Tensor,
    min_opacity: float = 0.005,
) -> None:
    """Move the Gaussians of `mask`, bool [N], to the places of others, drawn by their opacities.

    Those that stand in one place then look like the one that was there. `binoms` is as for `compute_relocation`.
    """
    dead, alive = _where(mask), _where(~mask)
    if not len(alive):
        raise ValueError(f"relocate needs Gaussians outside of mask, to move the others there; found {len(dead)} in it")
    weights = params["opacities"].sigmoid()[alive].flatten()
    parents = alive[draw(weights, len(dead))]
    rows = _all(mask).index_copy(0, dead, parents)
    places = torch.cat([parents, dead])
    _rebuild(
        params, optimizers, rows, places, _shared(params, parents, binoms, min_opacity), forgotten=parents, moves=False
    )
    _count(state, lambda counted: counted.index_fill_(0, parents, 0))


@torch.no_grad()
def sample_add(
    params: Params, optimizers: Optimizers, state: dict[str, Any], n: int, binoms: Tensor, min_opacity: float = 0.005
) -> None:
    """Put `n` Gaussians, drawn by their opacities, where they are once more, behind the others.

    Those that stand in one place then look like the one that was there. `binoms` is as for `compute_relocation`.
    """
    weights = params["opacities"].sigmoid().flatten()
    parents = draw(weights, n)
    rows = torch.cat([_all(weights), parents])
    new = _all(rows)[len(weights) :]
    places = torch.cat([parents, new])
    _rebuild(params, optimizers, rows, places, _shared(params, parents, binoms, min_opacity), forgotten=new)
    _count(state, lambda counted: torch.cat([counted, counted.new_zeros(n, *counted.shape[1:])]))


def _all(rows: Tensor) -> Tensor:
    return torch.arange(len(rows), device=rows.device)


def _where(mask: Tensor) -> Tensor:
    return mask.nonzero(as_tuple=True)[0]  # of [N, 1], as opacities may be, too


def _shared(params: Params, parents: Tensor, binoms: Tensor, min_opacity: float) -> dict[str, Tensor]:
    """Opacities and scales of the parents, and then of those that come to their places."""
    opacities, scales = compute_relocation(
        params["opacities"].sigmoid()[parents],
        params["scales"].exp()[parents],
        parents.bincount()[parents] + 1,
        binoms,
    )
    opacities = opacities.clamp(min_opacity, 1 - torch.finfo(opacities.dtype).eps)
    return {"opacities": torch.cat([opacities.logit()] * 2), "scales": torch.cat([scales.log()] * 2)}


def _rebuild(
    params: Params,
    optimizers: Optimizers,
    rows: Tensor,
    places: Tensor | None = None,
    changes: Mapping[str, Tensor] | None = None,
    *,
    forgotten: Tensor | None = None,
    moves: bool = True,
    names: list[str] | None = None,
) -> None:
    """Keep the Gaussians `rows`, in this order, some of them several times.

    Those at `places` among them get the new values in `changes`. The optimizers know of those at `forgotten` nothing,
    and of the others what they knew of their row, or without `moves` of the Gaussian that was in this place.
    """
    for name in names or list(params.keys()):
        old = params[name]
        value = old.detach()[rows]
        if changes and name in changes:
            value[places] = changes[name]
        params[name] = new = torch.nn.Parameter(value, requires_grad=old.requires_grad)
        if name not in optimizers:
            if old.requires_grad:
                raise ValueError(f"each parameter that requires grad needs an optimizer; found none for {name}")
            continue
        optimizer = optimizers[name]
        known = optimizer.state.pop(old, {})
        nothing = rows[:0] if forgotten is None else forgotten
        optimizer.state[new] = chosen_state(known, rows if moves else _all(rows), nothing)
        optimizer.param_groups[0]["params"] = [new]


def _count(state: dict[str, Any], change: Callable[[Tensor], Tensor]) -> None:
    for name, counted in state.items():
        if isinstance(counted, Tensor):
            state[name] = change(counted)
