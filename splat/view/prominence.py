"""The Gaussians that a scene's pictures show most of, which are drawn while the camera moves."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

from ..scene.gaussians import Gaussians


def prominences(scene: Gaussians, middle: tuple[float, ...]) -> Tensor:
    """[N], how much pictures are expected to show of each Gaussian: its opacity times its area, as seen from afar.

    The area is the product of its two largest scales. The cameras of a scene are mostly around its middle, about as far
    from it as its Gaussians are: a background that is ten times as far away has large Gaussians that look small.

    Args:
        scene: the Gaussians.
        middle: x, y, z of the scene's middle.
    """
    x, y, z = scene.scales.unbind(1)
    area = torch.maximum(torch.maximum(x * y, x * z), y * z)
    away = (scene.means - scene.means.new_tensor(middle)).square().sum(dim=1)
    distance = away + away.median() if len(away) else away
    return (scene.opacities * area / distance.clamp_min(1e-30)).nan_to_num(0.0, 0.0, 0.0)


class Prominence:
    """The Gaussians of a scene by prominence, the order of which is found when it is first needed."""

    def __init__(self, scene: Gaussians, middle: tuple[float, ...]) -> None:
        """`middle` is the scene's, as for `prominences`."""
        self.scene, self._middle = scene, middle
        self._order: Tensor | None = None
        self._kept = scene.select(slice(0))
        self._lock = threading.Lock()

    def first(self, share: float) -> Gaussians:
        """This share of the Gaussians, the most prominent ones first; the scene itself, in its order, for 1.

        The largest share that was asked for is kept, as a copy; smaller ones are parts of it.
        """
        if share >= 1:
            return self.scene
        count = max(1, round(share * len(self.scene)))
        with self._lock:
            if self._order is None:
                values = prominences(self.scene, self._middle)
                self._order = values.argsort(descending=True, stable=True)
            if len(self._kept) < count:
                self._kept = self.scene.select(self._order[:count])
            return self._kept.select(slice(count))
