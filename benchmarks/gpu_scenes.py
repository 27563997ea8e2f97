"""What is rendered on a GPU to measure it, the forms of a call, and the packages that are compared."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gpu_peer
import torch
from torch import Tensor

import splat

Arguments = dict[str, Any]
Rasterization = Callable[..., tuple[Tensor, Tensor, dict[str, Any]]]
Scenes = dict[str, Callable[[], Arguments]]

# Beside the plain call, dense. gsplat has no deterministic one.
FORMS: dict[str, Arguments] = {
    "dense": {},
    "packed": {"packed": True},
    "absgrad": {"absgrad": True},
    "deterministic": {},
}
GARDEN, MILLION = "garden, 1920x1080", "synthetic 1M, 1920x1080"


def scenes(device: str) -> Scenes:
    """By name, what to render; made when it is its turn, for the memory. The first two are those of docs/kernels.md."""
    if device == "cpu":
        return {"synthetic 2000, 160x90": partial(synthetic, 2000, 160, 90, device)}
    made: Scenes = {GARDEN: garden}
    for millions, width, height in (
        (1, 1920, 1080),
        (5, 1920, 1080),
        (1, 3840, 2160),
        (5, 3840, 2160),
        (10, 1920, 1080),
    ):
        made[f"synthetic {millions}M, {width}x{height}"] = partial(synthetic, millions * 10**6, width, height, device)
    return made


def garden(device: str = "cuda") -> Arguments:
    """The garden's points, as the tests have them, with spherical harmonics, in one image.

    Raises:
        FileNotFoundError: the scene is not at hand.
    """
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
    prepared = importlib.import_module("scenes")
    try:
        scene = prepared.garden(1)
    except BaseException as error:  # pytest's skip is none of Exception
        raise FileNotFoundError(str(error)) from None
    factor = torch.tensor([[1920 / scene.width], [1080 / scene.height], [1.0]])
    coefficients = torch.zeros(len(scene.means), 16, 3)
    coefficients[:, 0] = (scene.colors - 0.5) / 0.28209479177387814
    arguments = scene.arguments | {"Ks": scene.Ks[:1] * factor, "viewmats": scene.viewmats[:1], "colors": coefficients}
    return on(arguments | {"sh_degree": 3, "width": 1920, "height": 1080}, device)


def smaller(scene: Arguments, reduction: int) -> Arguments:
    """The same view in a smaller picture, on the CPU."""
    size = {name: scene[name] // reduction for name in ("width", "height")}
    return scene | size | {"Ks": scene["Ks"] / torch.tensor([[reduction], [reduction], [1.0]])}


def synthetic(count: int, width: int, height: int, device: str) -> Arguments:
    """Gaussians that fill the view, as many small ones among few large ones as a trained scene has.

    Depths are uniform from 2 to 12; a standard deviation is log-normal about 1.5 pixels of a full HD image, whatever
    the size of this one; opacities are uniform. Spherical harmonics of degree 3.
    """
    generator = torch.Generator().manual_seed(count)
    focal = 0.8 * width
    depth = 2 + 10 * torch.rand(count, generator=generator)
    half = torch.tensor([width, height]) / (2 * focal) * 1.1
    xy = (2 * torch.rand(count, 2, generator=generator) - 1) * half * depth[:, None]
    sigma = 1.5 / 1536 * torch.exp(0.7 * torch.randn(count, 3, generator=generator)) * depth[:, None]
    return on(
        {
            "means": torch.cat([xy, depth[:, None]], 1),
            "quats": torch.randn(count, 4, generator=generator),
            "scales": sigma,
            "opacities": torch.rand(count, generator=generator),
            "colors": torch.randn(count, 16, 3, generator=generator) * 0.3,
            "viewmats": torch.eye(4)[None],
            "Ks": torch.tensor([[[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]]]),
            "width": width,
            "height": height,
            "sh_degree": 3,
        },
        device,
    )


def on(arguments: Arguments, device: str) -> Arguments:
    """The same on a device, dense."""
    moved = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in arguments.items()}
    return moved | {"packed": False}


def render(rasterization: Rasterization, arguments: Arguments) -> None:
    """Forward only."""
    with torch.no_grad():
        rasterization(**arguments)


def differentiate(rasterization: Rasterization, arguments: Arguments) -> None:
    """Forward and backward, the gradients of all that is trained."""
    backward_of(rasterization, arguments)()


def backward_of(rasterization: Rasterization, arguments: Arguments) -> Callable[[], object]:
    """The forward pass is done now, the backward pass by what is returned."""
    leaves = {
        name: arguments[name].detach().requires_grad_() for name in ("means", "quats", "scales", "opacities", "colors")
    }
    colors, alphas, _ = rasterization(**arguments | leaves)
    incoming = torch.ones_like(colors), torch.ones_like(alphas)
    return partial(torch.autograd.grad, (colors, alphas), list(leaves.values()), incoming)


def find_rivals(device: str) -> dict[str, Rasterization]:
    """What is measured: gsplat too, if it can be imported and has kernels for the device."""
    rivals: dict[str, Rasterization] = {"splat": splat.rasterization}
    if device == "cpu":
        return rivals
    if not gpu_peer.is_ready():
        print("without gsplat: it is not installed, or benchmarks/gpu_peer.py has not compiled its kernels")
        return rivals
    try:
        gsplat = importlib.import_module("gsplat")
        differentiate(gsplat.rasterization, synthetic(3000, 101, 67, device))
    except Exception as error:
        print(f"without gsplat: {type(error).__name__}: {error}")
        return rivals
    print(f"gsplat {gsplat.__version__}")
    return {**rivals, "gsplat": gsplat.rasterization}


def synchronize(device: str) -> None:
    """Wait until the device has done everything."""
    if device == "cuda":
        torch.cuda.synchronize()
