"""What this GPU copies and computes in a second, measured, which floors are made of: one row in --rows FILE.

The copy rate counts bytes read and written, of 1 GiB or a quarter of the memory that is free; the clock is that of a
kernel that waits for a number of cycles, after half a second of work; a launch is a kernel that does nothing, among
many. Nothing is set on the GPU.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from gpu_rows import Row, Rows, read_rows

SCHEDULERS = 4  # of a multiprocessor, on all that the wheel has kernels for; each issues an instruction a clock
CYCLES = 100_000_000
LAUNCHES = 2000


class Rates(NamedTuple):
    """Of one GPU."""

    copy: float  # bytes a second
    issue: float  # warp instructions a second; 0 where that is not known


def main(device: str, rows: Rows) -> None:
    """Measure, once."""
    if not rows.rows:
        rows.add(of_gpu() if device == "cuda" else of_cpu())
    rows.print_tables()
    program = shutil.which("nvidia-smi")
    if program and device == "cuda":
        fields = "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw,ecc.mode.current"
        command = [program, f"--query-gpu={fields}", "--format=csv"]
        print(subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout)


def of_gpu() -> Row:
    """By CUDA events."""
    properties = torch.cuda.get_device_properties(0)
    size = min(2**30, torch.cuda.mem_get_info()[0] // 4)
    source, target = (torch.zeros(size // 4, device="cuda") for _ in range(2))
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end:
        target.copy_(source)
        torch.cuda.synchronize()
    copy = 2 * size / median_ms(lambda: target.copy_(source)) * 1e3
    clock = CYCLES / median_ms(lambda: torch.cuda._sleep(CYCLES), runs=3) * 1e3
    small = torch.zeros(1, device="cuda")

    def launch() -> None:
        for _ in range(LAUNCHES):
            small.zero_()

    return row(
        torch.cuda.get_device_name(),
        copy,
        properties.multi_processor_count,
        clock,
        f"{1e3 * median_ms(launch, runs=3) / LAUNCHES:.2f}",
    )


def of_cpu() -> Row:
    """For a run without a GPU: only what it copies."""
    source, target = (torch.zeros(2**22) for _ in range(2))
    begin = time.perf_counter()
    target.copy_(source)
    return row("CPU", 2 * source.nbytes / (time.perf_counter() - begin), 0, 0.0, "-")


def row(name: str, copy: float, multiprocessors: int, clock: float, launch: str) -> Row:
    """As it is kept."""
    return {
        "device": name,
        "torch": torch.__version__,
        "copy, GB/s": f"{copy / 1e9:.1f}",
        "multiprocessors": str(multiprocessors),
        "clock, MHz": f"{clock / 1e6:.0f}",
        "launch, us": launch,
    }


def read_rates(file: Path) -> Rates | None:
    """What an earlier run has measured, if there was one."""
    rows = read_rows(file)
    if not rows:
        return None
    found = rows[-1]
    issue = int(found["multiprocessors"]) * SCHEDULERS * float(found["clock, MHz"]) * 1e6
    return Rates(float(found["copy, GB/s"]) * 1e9, issue)


def median_ms(run: Callable[[], object], runs: int = 11) -> float:
    """Of one call, on the GPU."""
    took: list[float] = []
    for _ in range(runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        took.append(start.elapsed_time(end))
    return statistics.median(took)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args()
    main(given.device, Rows(given.rows))
