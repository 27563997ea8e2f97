"""LPIPS, if its package and its weights are installed.

Zhang et al., *The Unreasonable Effectiveness of Deep Features as a Perceptual Metric* (2018). The package `lpips` has
only a small part of the network's weights, and fetches the rest from the internet. Nothing is fetched here: the weights
must lie where torch's hub keeps them.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

from ..scene.gaussians import Gaussians
from ..scene.names import one_line
from .views import Views, render

_WEIGHTS: Final = {"vgg": "vgg16-397923af.pth", "alex": "alexnet-owt-7be5be79.pth"}
"""What torchvision keeps the weights of each network in; the first is preferred, as by most papers on 3DGS."""
_PACKAGES: Final = ("lpips", "torchvision")
_SMALLEST: Final = 64
"""Pixels of a side that the networks need."""


class Perceptual(NamedTuple):
    """LPIPS of each picture, 0 for the same picture; no values if it could not be measured. And a line about it."""

    values: list[float]
    words: str
    network: str = ""


@torch.no_grad()
def measure_lpips(scene: Gaussians, views: Views) -> Perceptual:
    """LPIPS of each of the pictures, if nothing is missing for it."""
    if missing := [name for name in _PACKAGES if importlib.util.find_spec(name) is None]:
        return Perceptual([], f"LPIPS is not measured: the package {missing[0]} is not installed")
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    network = next((name for name, file in _WEIGHTS.items() if (folder / file).is_file()), None)
    if network is None:
        return Perceptual([], f"LPIPS is not measured: {' or '.join(_WEIGHTS.values())} is not in {folder}")
    if min(min(size) for size in views.sizes) < _SMALLEST:
        return Perceptual([], f"LPIPS is not measured: it needs pictures of at least {_SMALLEST}x{_SMALLEST} pixels")
    try:
        values = _measured(scene, views, network)
    except Exception as error:  # other people's packages and weights may fail in any way, and the scene is there
        return Perceptual([], f"LPIPS is not measured: {one_line(str(error))[:200]}")
    return Perceptual(values, f"LPIPS {sum(values) / len(values):.3f} ({network})", network)


def _measured(scene: Gaussians, views: Views, network: str) -> list[float]:
    package: Any = importlib.import_module("lpips")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it calls torchvision as it was in 2021
        compare = package.LPIPS(net=network, verbose=False).to(views.device)
    values = []
    for view in range(len(views)):
        image, _ = render(scene, views, view, scene.degree)
        both = torch.stack([image.clamp(0, 1), views.target(view)]).movedim(-1, 1)
        if (mask := views.mask(view)) is not None:
            both = both * mask
        values.append(float(compare(both[:1], both[1:], normalize=True)))
    return values
