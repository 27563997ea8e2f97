"""Numbers of each training picture that are fitted together with the scene, and what Adam remembers of them.

Every process of a fit has those of all pictures, and takes the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from .parameters import MOMENTS
from .shards import Shards

_FEWEST: Final = 10
"""Steps of a picture that the rate is made for, at least: with fewer, each would go too far."""
STEPS: Final = "steps"


class PictureParameters:
    """K numbers for each of C pictures, first 0. A step concerns one picture, and Adam counts each one's steps alone.

    `reach` [K] is how far each number gets at most, about, while a fit takes its `steps`: Adam moves a number by its
    rate at most, and the rates add up to it. They rise from 0, since at first it is the scene that is wrong, and fall
    to 0 again.
    """

    def __init__(self, pictures: int, reach: Tensor, steps: int) -> None:
        self.values = torch.zeros(pictures, len(reach), device=reach.device)
        """[C, K], which the steps change."""
        self.reach, self.steps = reach, steps
        # Adam's rate is one for all numbers, so what it works on is in units of the reach.
        self.rows = [torch.zeros_like(reach).requires_grad_() for _ in range(pictures)]
        self.optimizer = torch.optim.Adam(self.rows, lr=0.0, eps=1e-15, fused=True)

    def row(self, picture: int) -> Tensor:
        """The numbers [K] of a picture, differentiable."""
        return self.rows[picture] * self.reach

    def step(self, pictures: Sequence[int], step: int) -> None:
        """Take the step, numbered from 1, for the pictures whose gradients there are."""
        visits = max(self.steps / len(self.rows), _FEWEST)
        for group in self.optimizer.param_groups:
            group["lr"] = math.pi / 2 * math.sin(math.pi * step / (self.steps + 1)) / visits
        self.optimizer.step()
        for picture in pictures:
            self.rows[picture].grad = None
            self._note(picture)

    def share_gradients(self, pictures: Sequence[int], shards: Shards) -> None:
        """Give all processes the gradients of the pictures of this step, of which each has rendered one at most.

        What they get is that of each picture's own loss, where the loss was the mean over the pictures.
        """
        if shards.count == 1:
            return
        own = [self.rows[picture].grad for picture in pictures]
        nothing = torch.zeros_like(self.reach)
        found = shards.sums(torch.stack([nothing if each is None else each * len(pictures) for each in own]))
        for picture, gradient in zip(pictures, found, strict=True):
            self.rows[picture].grad = gradient

    @torch.no_grad()
    def _note(self, picture: int) -> None:
        self.values[picture] = self.row(picture)

    def state(self) -> dict[str, Tensor]:
        """The rows and Adam's moments, [C, K] each, and how many steps each picture took, [C]: all for a checkpoint."""
        states = [self.optimizer.state.get(row, {}) for row in self.rows]
        rows = {"": torch.stack([row.detach() for row in self.rows])}
        nothing = torch.zeros_like(self.reach)
        moments = {
            f".{moment}": torch.stack([state[moment] if state else nothing for state in states]) for moment in MOMENTS
        }
        counts = torch.tensor([float(state["step"]) if state else 0.0 for state in states], device=self.values.device)
        return {**rows, **moments, f".{STEPS}": counts}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Put what `state` gave in the place of what there is."""
        for picture, row in enumerate(self.rows):
            row.copy_(state[""][picture])
            self._note(picture)
            self.optimizer.state.pop(row, None)
            if float(state[f".{STEPS}"][picture]) > 0:
                self.optimizer.state[row] = {
                    "step": state[f".{STEPS}"][picture].clone(),
                    **{moment: state[f".{moment}"][picture].clone() for moment in MOMENTS},
                }
