"""`rasterization` on the GPU, forward and forward + backward, against gsplat where it can be imported.

Medians of runs, those of both packages taking turns in one process: ms by CUDA events; `call`, ms until the call
returns, which waits once; `CPU`, ms of all its threads meanwhile; and the most MiB that were allocated beyond the
scene. With --rows FILE, rows are kept there. With --device cpu: a scene that a CPU renders, and its clock.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from gpu_rows import Row, Rows
from gpu_scenes import (
    FORMS,
    Arguments,
    Rasterization,
    differentiate,
    find_rivals,
    render,
    scenes,
    synchronize,
)

RUNS, WARM_UP = 21, 3
LONGEST = 5.0  # seconds for the runs of a row, beyond the first
DIRECTIONS = {"forward": render, "forward + backward": differentiate}
OUT_OF_MEMORY, FAILED = "out of memory", "failed"


class Took(NamedTuple):
    """One run."""

    ms: float
    call: float
    cpu: float
    mib: float


def main(device: str, runs: int, rows: Rows) -> None:
    """A row for each scene, form and direction: the plain form of all scenes, then the other forms of the first two."""
    rivals = find_rivals(device)
    print(f"{torch.cuda.get_device_name() if device == 'cuda' else 'CPU'}, torch {torch.__version__}, {runs} runs")
    made = scenes(device)
    first = list(made)[:2]
    others = {name: make for name, make in made.items() if name not in first}
    measure_forms({name: made[name] for name in first}, list(FORMS), rivals, device, runs, rows)
    measure_forms(others, ["dense"], rivals, device, runs, rows)
    rows.print_tables()
    if any(row["splat: ms"] == FAILED for row in rows.rows):
        sys.exit(1)


def measure_forms(
    made: dict[str, Callable[[], Arguments]],
    forms: list[str],
    rivals: dict[str, Rasterization],
    device: str,
    runs: int,
    rows: Rows,
) -> None:
    """The rows of some scenes."""
    for scene, make in made.items():
        try:
            arguments = make()
        except (FileNotFoundError, torch.cuda.OutOfMemoryError) as error:
            print(f"without {scene}: {error}")
            continue
        for form, direction in product(forms, DIRECTIONS):
            run = partial(DIRECTIONS[direction], arguments=arguments | FORMS[form])
            with determinism(form == "deterministic"):
                found = measure(able(form, rivals), run, runs, device)
            rows.add({"scene": scene, "form": form, "direction": direction} | cells(found))
            synchronize(device)


def able(form: str, rivals: dict[str, Rasterization]) -> dict[str, Rasterization]:
    """Those that have a form."""
    return {"splat": rivals["splat"]} if form == "deterministic" else rivals


@contextmanager
def determinism(wanted: bool) -> Iterator[None]:
    """As torch's users ask for it."""
    torch.use_deterministic_algorithms(wanted)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def measure(
    rivals: dict[str, Rasterization], run: Callable[[Rasterization], None], runs: int, device: str
) -> dict[str, list[Took] | str]:
    """By package, the runs after the warm-up, or why there are none."""
    took: dict[str, list[Took]] = {name: [] for name in rivals}
    errors: dict[str, str] = {}
    clock, warm_up = time_on_gpu if device == "cuda" else time_on_cpu, min(WARM_UP, runs)
    begin = time.perf_counter()
    for turn in range(warm_up + runs):
        for name, rasterization in rivals.items():
            if name in errors:
                continue
            try:
                one = clock(partial(run, rasterization))
            except RuntimeError as error:
                print(f"{name}: {error}")
                errors[name] = OUT_OF_MEMORY if OUT_OF_MEMORY in str(error) else FAILED
                continue
            if turn >= warm_up:
                took[name].append(one)
        if turn > warm_up and time.perf_counter() - begin > LONGEST:
            break
    return {name: errors.get(name) or took[name] for name in rivals}


def cells(took: dict[str, list[Took] | str]) -> Row:
    """Medians by package, and the ratio of two."""
    row: Row = {}
    medians: dict[str, float] = {}
    for name, found in took.items():
        if isinstance(found, str):
            texts = [found, "-", "-", "-"]
        else:
            middle = Took(*(statistics.median(column) for column in zip(*found, strict=True)))
            medians[name] = middle.ms
            texts = [*(f"{value:.3f}" for value in middle[:3]), "-" if math.isnan(middle.mib) else f"{middle.mib:.0f}"]
        row |= {f"{name}: {what}": text for what, text in zip(("ms", "call", "CPU", "MiB"), texts, strict=True)}
    both = "splat" in medians and "gsplat" in medians
    return row | {"gsplat / splat": f"{medians['gsplat'] / medians['splat']:.2f}" if both else "-"}


def time_on_gpu(run: Callable[[], None]) -> Took:
    """By events, and by the clock of the host until the call returns."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call, cpu = time_call(run)
    end.record()
    end.synchronize()
    most = (torch.cuda.max_memory_allocated() - before) / 2**20
    return Took(start.elapsed_time(end), call, cpu, most)


def time_on_cpu(run: Callable[[], None]) -> Took:
    """The same where nothing is asynchronous."""
    call, cpu = time_call(run)
    return Took(call, call, cpu, math.nan)


def time_call(run: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds until it returns, and those of all threads of the process."""
    clock, cpu = time.perf_counter(), time.process_time()
    run()
    return 1e3 * (time.perf_counter() - clock), 1e3 * (time.process_time() - cpu)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep the rows here")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args()
    main(given.device, given.runs, Rows(given.rows))
