"""A page's edits of a scene: which Gaussians it deleted and selected, and a box outside of which nothing is drawn."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import torch
from torch import Tensor

from ..scene.camera import Camera
from ..scene.edits import Corner, in_box
from ..scene.gaussians import SH_C0, Gaussians

MOST_STEPS: Final = 20
"""How many edits can be undone."""
_TINT: Final = (1.0, 0.8, 0.0)
_SHARE: Final = 0.7
"""Of the tint, in the colour of what is selected."""


@dataclass(frozen=True)
class Choice:
    """What was deleted and selected of N Gaussians."""

    deleted: Tensor
    """[N] of bool."""
    selected: Tensor
    """[N] of bool, none of them deleted."""


@dataclass(frozen=True)
class EditedScene:
    """A scene with its edits; each gives another value."""

    whole: Gaussians
    choice: Choice
    box: tuple[Corner, Corner] | None = None
    """In the file's coordinates."""
    before: tuple[Choice, ...] = field(default=(), repr=False)
    """What `undo` goes back to, the last one first."""

    @classmethod
    def of(cls, whole: Gaussians) -> EditedScene:
        """A scene without edits."""
        none = whole.opacities.new_zeros(len(whole), dtype=torch.bool)
        return cls(whole, Choice(none, none))

    def left(self) -> Gaussians:
        """What lies in the box and is not deleted: the whole scene itself if that is all."""
        return self._part(self._there())

    def drawn(self) -> Gaussians:
        """What is left, and what of it is selected in another colour."""
        there = self._there()
        scene, selected = self._part(there), self.choice.selected[there]
        return tinted(scene, selected) if bool(selected.any()) else scene

    def within(self, box: tuple[Corner, Corner] | None) -> EditedScene:
        """With another box, or none."""
        return replace(self, box=box)

    def select(self, camera: Camera, adds: bool) -> EditedScene:
        """Select, or no longer, the Gaussians that are drawn and whose centres a camera sees, hidden or not."""
        seen = camera.sees(self.whole.means.double().cpu())[1].to(self.whole.means.device) & self._there()
        selected = self.choice.selected
        return self._changed(replace(self.choice, selected=selected | seen if adds else selected & ~seen))

    def unselect(self) -> EditedScene:
        """Select nothing."""
        return self._changed(replace(self.choice, selected=torch.zeros_like(self.choice.selected)))

    def delete(self) -> EditedScene:
        """Delete what is selected."""
        choice = self.choice
        return self._changed(Choice(choice.deleted | choice.selected, torch.zeros_like(choice.selected)))

    def restore(self) -> EditedScene:
        """Delete nothing."""
        return self._changed(replace(self.choice, deleted=torch.zeros_like(self.choice.deleted)))

    def undo(self) -> EditedScene:
        """Go back by one change of what is selected or deleted, if there is one."""
        return replace(self, choice=self.before[0], before=self.before[1:]) if self.before else self

    def _changed(self, choice: Choice) -> EditedScene:
        return replace(self, choice=choice, before=(self.choice, *self.before)[:MOST_STEPS])

    def _part(self, there: Tensor) -> Gaussians:
        return self.whole if bool(there.all()) else self.whole.select(there)

    def _there(self) -> Tensor:
        there = ~self.choice.deleted
        return there if self.box is None else there & in_box(self.whole, *self.box)


def tinted(scene: Gaussians, selected: Tensor) -> Gaussians:
    """The scene with these Gaussians, [N] of bool, in a colour that one sees, through which theirs is seen."""
    sh = scene.sh * torch.where(selected, 1 - _SHARE, 1.0)[:, None, None]
    color = _SHARE * (scene.sh.new_tensor(_TINT) - 0.5) / SH_C0
    sh[:, 0] += selected[:, None] * color
    return replace(scene, sh=sh)
