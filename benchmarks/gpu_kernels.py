"""What each kernel takes on the GPU, by torch's profiler, beside its floor; for docs/kernels.md's two scenes.

A floor is the longer of bytes over the copy rate and warp instructions over the issue rate, as gpu_rates.py measured
them (--rates). Bytes and instructions come from --counts: a JSON list of objects with "scene" (its first words are
enough), "package", "kernel" (with or without its template's arguments), "bytes" or "instructions" or both, of one call,
and "direction" (forward or backward) for a kernel that runs in both. What is not in it has no floor, and the table says
"-". With --rows FILE, rows are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from gpu_names import short_name, without_template
from gpu_rates import Rates, read_rates
from gpu_rows import SKIPPED, Row, Rows
from gpu_scenes import Arguments, Rasterization, backward_of, find_rivals, render, scenes, synchronize
from torch.profiler import ProfilerActivity, profile

RUNS = 5
DIRECTIONS = ("forward", "backward")


class Kernel(NamedTuple):
    """What one kernel took, of all runs."""

    name: str
    launches: int
    microseconds: float


class Count(NamedTuple):
    """What one call must move and compute in a kernel; of a kernel launched several times, all of them."""

    scene: str
    package: str
    kernel: str
    bytes: int = 0
    instructions: int = 0
    direction: str = ""  # either

    def is_of(self, scene: str, direction: str, package: str, kernel: str) -> bool:
        """Whether it is what this row shows."""
        same = self.package == package and self.direction in ("", direction) and scene.startswith(self.scene)
        return same and self.kernel in (kernel, without_template(kernel))

    def floor(self, rates: Rates) -> float:
        """In microseconds; 0 if nothing is known."""
        computing = self.instructions / rates.issue if rates.issue else 0.0
        return 1e6 * max(self.bytes / rates.copy, computing)


def main(device: str, rows: Rows, rates: Rates | None, counts: Sequence[Count]) -> int:
    """The rows of two scenes, and of each package their sum."""
    rivals = find_rivals(device)
    for scene, make in list(scenes(device).items())[:2]:
        try:
            arguments = make()
        except FileNotFoundError as error:
            print(f"without {scene}: {error}")
            continue
        for direction, package in product(DIRECTIONS, rivals):
            kernels = profile_kernels(direction, rivals[package], arguments, device)
            if not kernels:
                print("skipped: torch's profiler sees no kernels on this machine")
                return SKIPPED
            labels = {"scene": scene, "direction": direction, "package": package}
            made = rows_of(kernels, RUNS, labels, rates, counts)
            rows.add(*made)
            print(f"{scene}, {direction}, {package}: {made[-1]['us']} us in {len(made) - 1} kernels", flush=True)
    rows.print_tables()
    missing_of_floors = [name for name, there in (("rates", rates), ("counts", counts)) if not there]
    if missing_of_floors:
        print(f"without floors: no {' and no '.join(missing_of_floors)}")
    return 0


def profile_kernels(direction: str, rasterization: Rasterization, arguments: Arguments, device: str) -> list[Kernel]:
    """All that a GPU does, fills and copies too; on a CPU, torch's operators, which have the same form."""
    runs = [prepare(direction, rasterization, arguments) for _ in range(RUNS + 1)]
    runs.pop()()
    synchronize(device)
    cuda = device == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as profiler:
        for run in runs:
            run()
        synchronize(device)
    found = []
    for event in profiler.key_averages():
        if not cuda:
            found.append(Kernel(event.key, event.count, event.self_cpu_time_total))
        elif event.device_type.name == "CUDA":
            found.append(Kernel(event.key, event.count, event.self_device_time_total))
    return found


def prepare(direction: str, rasterization: Rasterization, arguments: Arguments) -> Callable[[], object]:
    """What is profiled; before a backward pass, the forward pass is done."""
    if direction == "backward":
        return backward_of(rasterization, arguments)
    return lambda: render(rasterization, arguments)


def rows_of(
    kernels: Iterable[Kernel], runs: int, labels: Row, rates: Rates | None, counts: Sequence[Count]
) -> list[Row]:
    """A row for each name, the longest first, and one for all; the last one shows that the others are there."""
    sums: dict[str, tuple[float, float]] = {}
    for kernel in kernels:
        name = short_name(kernel.name)
        launches, microseconds = sums.get(name, (0.0, 0.0))
        sums[name] = launches + kernel.launches / runs, microseconds + kernel.microseconds / runs
    rows, floors = [], 0.0
    for name, (launches, microseconds) in sorted(sums.items(), key=lambda item: -item[1][1]):
        found = [
            count for count in counts if count.is_of(labels["scene"], labels["direction"], labels["package"], name)
        ]
        floor = sum(count.floor(rates) for count in found) if rates else 0.0
        floors += floor
        rows.append(row(labels, name, launches, microseconds, floor))
    total = [sum(column) for column in zip(*sums.values(), strict=True)]
    return [*rows, row(labels, "all", total[0], total[1], floors)]


def row(labels: Row, kernel: str, launches: float, microseconds: float, floor: float) -> Row:
    """As it is kept."""
    return labels | {
        "kernel": kernel,
        "launches": f"{launches:.4g}",
        "us": f"{microseconds:.1f}",
        "floor, us": f"{floor:.1f}" if floor else "-",
        "time / floor": f"{microseconds / floor:.2f}" if floor else "-",
    }


def read_counts(file: Path | None) -> list[Count]:
    """None without a file.

    Raises:
        SystemExit: it is not such a list.
    """
    if file is None or not file.exists():
        return []
    try:
        return [Count(**item) for item in json.loads(file.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        fields = ", ".join(Count._fields)
        raise SystemExit(f"required: a JSON list of objects with {fields}; found: {file}: {error}") from None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE")
    parser.add_argument("--rates", type=Path, metavar="FILE", help="what gpu_rates.py kept")
    parser.add_argument("--counts", type=Path, metavar="FILE")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args()
    sys.exit(
        main(
            given.device, Rows(given.rows), read_rates(given.rates) if given.rates else None, read_counts(given.counts)
        )
    )
