"""Run a command as a whole process and account for it and everything that it started."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """What a command took: seconds on the clock, CPU seconds, and the largest single process in MB."""

    wall: float
    cpu: float
    peak_mb: float


def run(command: Sequence[str], log: Path, environ: Mapping[str, str]) -> Usage:
    """Run `command` with its output in `log`.

    Raises:
        SystemExit: it failed; names the log.
    """
    start = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=dict(environ))
        _, status, usage = os.wait4(process.pid, 0)  # counts all descendants that were waited for
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed, see {log}")
    return Usage(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a header, in columns; add them to the file that SPLAT_BENCH_RESULTS names, if it is set."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print(
            "  ".join(
                cell.rjust(width) if i else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
        )
    if file := os.environ.get("SPLAT_BENCH_RESULTS"):
        with Path(file).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"header": list(header), "rows": [list(row) for row in rows]}) + "\n")
