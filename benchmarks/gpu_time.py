"""`rasterization` on the GPU, forward and forward + backward, against gsplat where it can be imported.

Medians of runs timed by CUDA events, those of both packages taking turns in one process. With --short: one small scene,
forward and backward, once, nothing printed: for compute-sanitizer.
"""

from __future__ import annotations

import argparse
import importlib
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measure import table
from torch import Tensor

import splat

RUNS, WARM_UP = 21, 5
Arguments = dict[str, Any]
Rasterization = Callable[..., tuple[Tensor, Tensor, dict[str, Any]]]


def main(short: bool, profile: bool, count_runs: int) -> None:
    """Print a row for each scene and direction."""
    if short:
        differentiate(splat.rasterization, synthetic(3000, 101, 67))
        torch.cuda.synchronize()
        return
    rivals: dict[str, Rasterization] = {"splat": splat.rasterization}
    try:
        gsplat = importlib.import_module("gsplat")
        differentiate(gsplat.rasterization, synthetic(3000, 101, 67))  # it may compile now, or see that it cannot
        rivals["gsplat"] = gsplat.rasterization
        print(f"gsplat {gsplat.__version__}")
    except Exception as error:
        print(f"without gsplat: {type(error).__name__}: {error}")
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}; medians of {count_runs} runs, ms (MiB at the most)"
    )
    rows = []
    for name, make in scenes().items():
        try:
            arguments = make()
        except FileNotFoundError as error:
            print(f"without {name}: {error}")
            continue
        for direction, run in (("forward", render), ("forward + backward", differentiate)):
            times, memory = measure(rivals, run, arguments, count_runs)
            cells = [f"{times[rival]:.2f} ({memory[rival]:.0f})" for rival in rivals]
            ratio = [f"{times['gsplat'] / times['splat']:.2f}"] if "gsplat" in rivals else []
            rows.append([name, direction, *cells, *ratio])
        if profile:
            print_profile(name, arguments)
        del arguments
        torch.cuda.empty_cache()
    table(["scene", "", *rivals, *(["gsplat / splat"] if "gsplat" in rivals else [])], rows)


def scenes() -> dict[str, Callable[[], Arguments]]:
    """By name, what to render; made when it is its turn, for the memory."""
    made: dict[str, Callable[[], Arguments]] = {"garden, 1920x1080": garden}
    for millions in (1, 5):
        for width, height in ((1920, 1080), (3840, 2160)):
            made[f"{millions}M, {width}x{height}"] = lambda n=millions, w=width, h=height: synthetic(n * 10**6, w, h)
    return made


def garden() -> Arguments:
    """The garden's points, as the tests have them, with spherical harmonics, in one image."""
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    scenes = importlib.import_module("scenes")
    try:
        scene = scenes.garden(1)
    except BaseException as error:  # pytest's skip is none of Exception
        raise FileNotFoundError(str(error)) from None
    factor = torch.tensor([[1920 / scene.width], [1080 / scene.height], [1.0]])
    coefficients = torch.zeros(len(scene.means), 16, 3)
    coefficients[:, 0] = (scene.colors - 0.5) / 0.28209479177387814
    arguments = scene.arguments | {"Ks": scene.Ks[:1] * factor, "viewmats": scene.viewmats[:1], "colors": coefficients}
    return on_gpu(arguments | {"sh_degree": 3, "width": 1920, "height": 1080})


def synthetic(count: int, width: int, height: int) -> Arguments:
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
    return on_gpu(
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
        }
    )


def on_gpu(arguments: Arguments) -> Arguments:
    """The same on the GPU, dense."""
    moved = {name: value.cuda() if isinstance(value, Tensor) else value for name, value in arguments.items()}
    return moved | {"packed": False}


def render(rasterization: Rasterization, arguments: Arguments) -> None:
    """Forward only."""
    with torch.no_grad():
        rasterization(**arguments)


def differentiate(rasterization: Rasterization, arguments: Arguments) -> None:
    """Forward and backward, the gradients of all that is trained."""
    leaves = {name: arguments[name].requires_grad_() for name in ("means", "quats", "scales", "opacities", "colors")}
    colors, alphas, _ = rasterization(**arguments | leaves)
    torch.autograd.grad((colors, alphas), list(leaves.values()), (torch.ones_like(colors), torch.ones_like(alphas)))


def measure(
    rivals: dict[str, Rasterization], run: Callable[[Rasterization, Arguments], None], arguments: Arguments, runs: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Median milliseconds, and the most MiB that were allocated beyond the scene."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    memory = dict.fromkeys(rivals, math.nan)
    for turn in range(WARM_UP + runs):
        for name, rasterization in rivals.items():
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run(rasterization, arguments)
            end.record()
            end.synchronize()
            memory[name] = (torch.cuda.max_memory_allocated() - before) / 2**20
            if turn >= WARM_UP:
                times[name].append(start.elapsed_time(end))
    return {name: statistics.median(values) for name, values in times.items()}, memory


def print_profile(name: str, arguments: Arguments) -> None:
    """The kernels of splat's forward and backward pass that take longest."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            differentiate(splat.rasterization, arguments)
        torch.cuda.synchronize()
    print(f"{name}, three times forward + backward:")
    print(profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=16, max_name_column_width=72))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--profile", action="store_true", help="also print what each kernel takes")
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    main(given.short, given.profile, given.runs)
