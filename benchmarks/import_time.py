"""`import splat` beyond `import torch`, each time in a fresh process."""

from __future__ import annotations

import statistics
import subprocess
import sys

from measure import table

RUNS = 15
SNIPPET = "import time, torch; t = time.perf_counter(); import {}; print(1e3 * (time.perf_counter() - t))"


def main() -> None:
    """Measure `import splat`, and `import numpy` as something to hold it against."""
    rows = []
    for name in ("splat", "numpy.random", "PIL.Image"):
        times = [float(_run(SNIPPET.format(name))) for _ in range(RUNS + 2)][2:]
        rows.append([name, f"{min(times):.1f}", f"{statistics.median(times):.1f}", f"{max(times):.1f}"])
    table(["import, ms beyond torch", "min", "median", "max"], rows)


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
