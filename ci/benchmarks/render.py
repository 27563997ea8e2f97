"""The CPU rasterizer on the garden's points: by image size, threads and instruction set.

Usage: render.py TESTS, the folder of the tests, whose scenes.py finds and shapes the scene.
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
    print(f"{garden.means.shape[0]} Gaussians, one camera, {RUNS} runs each")
    table(["image", "threads", "instructions", "in view", "tile pairs", "min s", "median s"], rows)


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
    """Gaussians in view, pairs of Gaussian and tile, and the seconds of a whole call of `rasterization`."""
    torch.set_num_threads(threads)
    torch.ops.splat.instruction_set(instructions)
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        _, _, meta = splat.rasterization(**arguments)  # type: ignore[arg-type]
        times.append(time.perf_counter() - start)
    times = times[1:]
    pairs = meta["flatten_ids"].numel()
    return [str(meta["gaussian_ids"].numel()), str(pairs), f"{min(times):.3f}", f"{statistics.median(times):.3f}"]


if __name__ == "__main__":
    main(sys.argv[1])
