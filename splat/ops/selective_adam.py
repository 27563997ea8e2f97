"""Adam that leaves alone what a step does not concern: the Gaussians that no camera sees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from .checks import check_shape, check_tensor, number


@torch.no_grad()
def adam(
    param: Tensor,
    param_grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    valid: Tensor | None,
    lr: float,
    b1: float,
    b2: float,
    eps: float,
) -> None:
    """One step of Adam on the rows where `valid`, in place; the others keep their values and their averages.

    Mallick et al., *Taming 3DGS* (2024): Adam (Kingma and Ba 2015, algorithm 1) without the correction of
    the averages' start. gsplat 1.5.3's `gsplat.cuda._wrapper.adam`, on every device.

    Args:
        param: float32 [N, ...], changed; the other tensors are on the same device and not changed but for the averages.
        param_grad: float32, shaped like param.
        exp_avg: float32, shaped like param: the average of the gradients, changed.
        exp_avg_sq: float32, shaped like param: the average of their squares, changed.
        valid: bool [N] or [N, 1], or None for all.
        lr: the learning rate.
        b1: how much of the average of the gradients stays.
        b2: how much of the average of their squares stays.
        eps: added to the denominator.

    Raises:
        TypeError, ValueError: if a type, shape, device or number is wrong; then nothing has changed.
    """
    numbers = _check(param, param_grad, exp_avg, exp_avg_sq, valid, lr, b1, b2, eps)
    if valid is None:
        _step(param, param_grad, exp_avg, exp_avg_sq, *numbers)
        return
    # Only the rows that change are read and written: a scene has many, of which a camera sees few.
    rows = valid.flatten().nonzero().flatten()
    part, average, average_sq = (tensor.index_select(0, rows) for tensor in (param, exp_avg, exp_avg_sq))
    _step(part, param_grad.index_select(0, rows), average, average_sq, *numbers)
    for whole, changed in ((param, part), (exp_avg, average), (exp_avg_sq, average_sq)):
        whole.index_copy_(0, rows, changed)


def _check(
    param: Tensor,
    param_grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    valid: Tensor | None,
    lr: float,
    b1: float,
    b2: float,
    eps: float,
) -> tuple[float, float, float, float]:
    """Check what `adam` is given, before anything changes; return the numbers."""
    check_tensor("param", param)
    for name, tensor in (("param_grad", param_grad), ("exp_avg", exp_avg), ("exp_avg_sq", exp_avg_sq)):
        check_tensor(name, tensor, param)
        check_shape(name, tensor, param.shape, "of param")
    if param.ndim == 0:
        raise ValueError("param must have shape [N, ...], found []")
    if valid is not None:
        check_tensor("valid", valid, param, torch.bool)
        check_shape("valid", valid.flatten(), param.shape[:1], "[N]")
    return number("lr", lr), number("b1", b1, most=1), number("b2", b2, most=1), number("eps", eps)


def _step(
    param: Tensor, gradient: Tensor, average: Tensor, average_sq: Tensor, lr: float, b1: float, b2: float, eps: float
) -> None:
    average.mul_(b1).add_(gradient, alpha=1 - b1)
    average_sq.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
    param.addcdiv_(average, average_sq.sqrt().add_(eps), value=-lr)


class SelectiveAdam(torch.optim.Adam):
    """An optimizer that steps only the Gaussians that it is told are visible; the same as gsplat 1.5.3's class.

    Each group of parameters has one tensor, [N, ...], as gsplat's training has them. See `adam` for what a step does.

    Args:
        params: parameters, or dicts of groups.
        eps: added to the denominator.
        betas: how much of the two averages stays at each step.
    """

    def __init__(self, params: Iterable[Any], eps: float, betas: tuple[float, float]) -> None:
        super().__init__(params=params, eps=eps, betas=betas)

    @torch.no_grad()
    def step(self, visibility: Tensor) -> None:  # type: ignore[override]
        """Step the Gaussians where `visibility`, bool [N] or [N, 1], is True.

        Raises:
            TypeError, ValueError: if a group has not one tensor, a number of it is wrong, or visibility is not bool
                or of another number; then no group has changed.
        """
        steps: list[Any] = []
        for group in self.param_groups:
            if len(group["params"]) != 1:
                raise ValueError(f"each group must have one tensor, found one with {len(group['params'])}")
            (param,) = group["params"]
            if param.grad is None:
                continue
            state = self.state[param]
            if not state:
                state["step"] = torch.tensor(0.0)  # as torch's Adam has it; not counted, because nothing is corrected
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
            b1, b2 = group["betas"]
            averages = state["exp_avg"], state["exp_avg_sq"]
            steps.append((param, param.grad, *averages, visibility, group["lr"], b1, b2, group["eps"]))
            _check(*steps[-1])
        for step in steps:
            adam(*step)
