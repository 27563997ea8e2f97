"""A training step captured as a CUDA graph, beside the same step launched from Python: ms of each, by scene.

A step is the forward pass with a capacity, a loss, and the gradients of all that is trained. The replayed gradients are
compared with the launched ones: the table has how far they are apart. --rows FILE keeps rows.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from gpu_rows import SKIPPED, Rows
from gpu_scenes import GARDEN, MILLION, Arguments, garden, synthetic
from torch import Tensor

import splat

RUNS, WARM_UP = 21, 3
TRAINED = ("means", "quats", "scales", "opacities", "colors")
SCENES: dict[str, Callable[[], Arguments]] = {
    "synthetic 1000, 64x64": lambda: synthetic(1000, 64, 64, "cuda"),
    "synthetic 20k, 480x270": lambda: synthetic(20_000, 480, 270, "cuda"),
    GARDEN: garden,
    MILLION: lambda: synthetic(10**6, 1920, 1080, "cuda"),
}


def main(device: str, rows: Rows) -> int:
    """A row for each scene."""
    if device == "cpu":
        print("skipped: a CPU has no graphs")
        return SKIPPED
    for scene, make in SCENES.items():
        try:
            rows.add({"scene": scene} | measure(make()))
        except FileNotFoundError as error:
            print(f"without {scene}: {error}")
    rows.print_tables()
    return 0


def measure(scene: Arguments) -> dict[str, str]:
    """Launched and replayed, and how far the gradients are apart, of the norm of each."""
    leaves = {name: scene[name].detach().requires_grad_() for name in TRAINED}

    def step(capacity: int | None) -> tuple[Tensor, ...]:
        images, alphas, meta = splat.rasterization(**scene | leaves, capacity=capacity)
        loss = images.square().mean() + alphas.mean()
        return (meta["n_pairs"], *torch.autograd.grad(loss, list(leaves.values())))

    capacity = int(1.25 * int(step(None)[0]))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            step(capacity)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(capacity)
    waiting, launched = median(lambda: step(None)), median(lambda: step(capacity))
    replayed = median(graph.replay)
    expected = step(None)
    off = max(float((one - other).norm() / other.norm()) for one, other in zip(captured[1:], expected[1:], strict=True))
    return {
        "without capacity, ms": f"{waiting:.3f}",
        "with capacity, ms": f"{launched:.3f}",
        "replayed, ms": f"{replayed:.3f}",
        "launched / replayed": f"{launched / replayed:.2f}",
        "apart": f"{off:.1e}",
    }


def median(run: Callable[[], object]) -> float:
    """Milliseconds from one step's end to the next one's, of steps that follow each other."""
    ends: list[torch.cuda.Event] = []
    for _ in range(WARM_UP + RUNS + 1):
        run()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        ends.append(event)
    torch.cuda.synchronize()
    pairs = zip(ends[WARM_UP:], ends[WARM_UP + 1 :], strict=False)
    return float(statistics.median(one.elapsed_time(other) for one, other in pairs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args()
    sys.exit(main(given.device, Rows(given.rows)))
