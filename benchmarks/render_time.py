"""The CPU rasterizer on the garden's points, forward and backward: by image size, threads and instruction set.

Usage: render_time.py TESTS, the folder of the tests, whose scenes.py finds and shapes the scene.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch
from measure import table

import splat

SIZES = ((648, 420), (1920, 1080))
RUNS = 7
PARAMETERS = ("means", "quats", "scales", "opacities", "colors")


def main(tests: str) -> None:
    """Measure every combination and print the table."""
    sys.path.insert(0, tests)
    import scenes  # type: ignore[import-not-found]

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
