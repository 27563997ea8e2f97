"""A fit in several processes: memory of each, pictures a second with the same two cores, bytes exchanged.

Usage: ranks_time.py. Memory is what a rank's resident set grew by at its peak, after imports and pictures. The built-in
scene's pictures are shown with many more Gaussians than they need, so that these matter. What is exchanged includes
what a process sends to itself, one of N parts.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from measure import table

from splat.commands.process_group import joined_processes
from splat.fit.picture_views import read_views
from splat.fit.training import FitOptions, Trainer

GAUSSIANS: Final = 400_000
PICTURES: Final = 24
WAYS: Final = ((1, 1), (1, 2), (2, 1), (4, 1))
"""Processes, and threads of each."""


def main() -> None:
    """Measure each way in processes of its own, and print the table."""
    found = [_measured(*way) for way in WAYS]
    first = found[0]
    rows = []
    for (ranks, threads), each in zip(WAYS, found, strict=True):
        memory = max(each["grown"])
        rows.append(
            [
                f"{ranks} x {threads}", f"{memory / 2**20:.0f}", f"{memory / max(first['grown']):.2f}",
                f"{each['rate']:.2f}", f"{each['rate'] / first['rate']:.2f}", f"{each['sent'] / 2**20 / PICTURES:.1f}",
            ]
        )  # fmt: skip
    print(f"{GAUSSIANS} Gaussians, {PICTURES} pictures of 200x150, {os.cpu_count()} cores; gloo")
    table(["processes x threads", "MiB of a rank", "of one", "pictures/s", "of one", "MiB exchanged a picture"], rows)


def _measured(ranks: int, threads: int) -> dict[str, Any]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    environ = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(
        [*torchrun, __file__, "rank"], env=environ, cwd=Path.cwd(), capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rank() -> None:
    """Take the steps as one of the ranks; rank 0 prints what was found."""
    views = read_views([], GAUSSIANS, 0)
    sent = 0
    exchange = dist.all_to_all_single

    def counted(output: torch.Tensor, given: torch.Tensor, *splits: Any) -> Any:
        nonlocal sent
        sent += given.numel() * given.element_size()
        return exchange(output, given, *splits)

    dist.all_to_all_single = counted  # type: ignore[assignment]
    with joined_processes() as shards:
        before = _peak()
        trainer = Trainer(views, FitOptions(10_000, GAUSSIANS, 3), shards)
        trainer.step(range(1, 1 + shards.count))
        start, sent = time.perf_counter(), 0
        for step in range(1, PICTURES + 1, shards.count):
            trainer.step(range(step, step + shards.count))
        seconds = time.perf_counter() - start
        grown, exchanged = shards.of_all(_peak() - before), shards.of_all(sent)
        if shards.first:
            print(json.dumps({"grown": grown, "rate": PICTURES / seconds, "sent": sum(exchanged)}))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    rank() if len(sys.argv) > 1 else main()
