"""The CPU rasterizer on the garden's points, forward and backward: by image size, threads and instruction set.

Also what a call costs that has next to nothing to compute, which is the host's work on a GPU too.

Usage: render_time.py TESTS, the folder of the tests, whose scenes.py finds and shapes the scene. SPLAT_BENCH_OPENSPLAT
names a checkout of OpenSplat, whose CPU rasterizer is then measured beside ours.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import opensplat
import torch
from measure import table

import splat

SIZES = ((648, 420), (1920, 1080))
RUNS = 7
SMALL_CALLS = 200
PARAMETERS = ("means", "quats", "scales", "opacities", "colors")


def main(tests: str) -> None:
    """Measure every combination and print the table."""
    sys.path.insert(0, tests)
    import scenes

    garden = scenes.garden(1)
    rows = []
    for width, height in SIZES:
        factor = torch.tensor([[width / garden.width], [height / garden.height], [1.0]])
        arguments = {**garden.arguments, "Ks": garden.Ks[:1] * factor, "viewmats": garden.viewmats[:1]}
        arguments |= {"width": width, "height": height}
        for threads in (1, 2):
            for instructions in available_instruction_sets():
                rows.append(
                    [f"{width}x{height}", str(threads), instructions, *measure(arguments, threads, instructions)]
                )
    print(f"{garden.means.shape[0]} Gaussians, one camera; seconds, the least and the median of {RUNS} runs")
    columns = ["forward", "median", "backward", "median", "both", "median"]
    table(["image", "threads", "instructions", "in view", "tile pairs", *columns], rows)
    print(f"ten Gaussians, 16x16 pixels, one thread; microseconds of a call, the least of {RUNS} runs of {SMALL_CALLS}")
    table(["without gradients", "forward", "forward and backward"], [small_calls()])
    if checkout := os.environ.get("SPLAT_BENCH_OPENSPLAT"):
        torch.ops.splat.instruction_set(available_instruction_sets()[-1])
        opensplat.compare(Path(checkout), garden.arguments)
    else:
        print("not beside OpenSplat's CPU rasterizer: SPLAT_BENCH_OPENSPLAT names no checkout of it")


def small_calls() -> list[str]:
    """Microseconds of a call of `rasterization` without gradients, with them, and with the backward pass."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    widths = {"means": (10, 3), "quats": (10, 4), "scales": (10, 3), "opacities": (10,), "colors": (10, 4, 3)}
    gaussians = {name: torch.rand(*shape, generator=generator) for name, shape in widths.items()}
    camera = torch.eye(4)
    camera[2, 3] = 4.0
    others = {"viewmats": camera[None], "Ks": torch.tensor([[[20.0, 0.0, 8.0], [0.0, 20.0, 8.0], [0.0, 0.0, 1.0]]])}
    arguments = {**others, "width": 16, "height": 16, "sh_degree": 1}
    leaves = {name: value.requires_grad_() for name, value in gaussians.items()}

    def forward() -> torch.Tensor:
        return splat.rasterization(**leaves, **arguments)[0]  # type: ignore[arg-type]

    calls = (torch.no_grad()(forward), forward, lambda: torch.autograd.grad(forward().sum(), list(leaves.values())))
    return [f"{1e6 * least_of_many(call):.0f}" for call in calls]


def least_of_many(call: Callable[[], object]) -> float:
    """Seconds of one call, in the fastest of RUNS runs of SMALL_CALLS."""
    runs = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        for _ in range(SMALL_CALLS):
            call()
        runs.append((time.perf_counter() - start) / SMALL_CALLS)
    return min(runs[1:])


def available_instruction_sets() -> list[str]:
    """Those of this CPU."""
    names = []
    for name in ("baseline", "avx2", "avx512"):
        try:
            names.append(torch.ops.splat.instruction_set(name))
        except RuntimeError:
            continue
    return names


def measure(arguments: dict[str, object], threads: int, instructions: str) -> list[str]:
    """Gaussians in view, pairs of Gaussian and tile, and the seconds of whole calls of `rasterization`.

    Forward is without gradients, backward from the image's gradient to those of every Gaussian's parameters, and both
    is a forward pass that prepares for the backward pass, and that.
    """
    torch.set_num_threads(threads)
    torch.ops.splat.instruction_set(instructions)
    leaves = {name: arguments[name].clone().requires_grad_() for name in PARAMETERS}  # type: ignore[attr-defined]
    forward, backward, both = [], [], []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        images, _, meta = splat.rasterization(**arguments)  # type: ignore[arg-type]
        forward.append(time.perf_counter() - start)
        gradient = torch.ones_like(images)
        del images
        start = time.perf_counter()
        images, _, _ = splat.rasterization(**arguments | leaves)  # type: ignore[arg-type]
        middle = time.perf_counter()
        torch.autograd.grad(images, list(leaves.values()), gradient)
        end = time.perf_counter()
        backward.append(end - middle)
        both.append(end - start)
    counts = [str(meta["gaussian_ids"].numel()), str(meta["flatten_ids"].numel())]
    # The first run of each is left out.
    columns = [take(times[1:]) for times in (forward, backward, both) for take in (min, statistics.median)]
    return counts + [f"{seconds:.3f}" for seconds in columns]


if __name__ == "__main__":
    main(sys.argv[1])
