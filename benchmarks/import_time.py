"""`import splat`, and the first render on the CPU, beyond `import torch`: each time in a fresh process.

Usage: import_time.py FOLDER, in which the kernels of the store are compiled first.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from measure import table

RUNS = 15
# What `import torch` leaves behind is collected before, in 20 ms: Python's collector goes through it whenever enough
# objects were made, which 2 ms would otherwise be counted here or not by chance.
IMPORT = """
import gc, time, torch
gc.collect()
start = time.perf_counter()
import {}
print(1e3 * (time.perf_counter() - start))
"""
RENDER = """
import gc, time, torch
means, quats, scales = torch.tensor([[0.0, 0.0, 2.0]]), torch.tensor([[1.0, 0.0, 0.0, 0.0]]), torch.full((1, 3), 0.1)
views, Ks = torch.eye(4)[None], torch.tensor([[[50.0, 0.0, 32.0], [0.0, 50.0, 32.0], [0.0, 0.0, 1.0]]])
opacities, colors = torch.ones(1), torch.ones(1, 3)
gc.collect()
start = time.perf_counter()
import splat
splat.rasterization(means, quats, scales, opacities, colors, views, Ks, 64, 64)
print(1e3 * (time.perf_counter() - start))
assert ("/store/" in splat.build_info()["loaded"]["cpu"]) == {store}
"""


def main(folder: Path) -> None:
    """Measure `import splat`, and imports to hold it against; then the first render, from the wheel and a store."""
    rows = [_row(f"import {name}", IMPORT.format(name)) for name in ("splat", "numpy.random", "PIL.Image")]
    shutil.rmtree(folder, ignore_errors=True)
    store = {"SPLAT_JIT": "always", "SPLAT_CACHE_DIR": str(folder / "store")}
    for place, environ in (("the wheel", {}), ("a store", store)):
        code = RENDER.format(store=bool(environ))
        rows.append(_row(f"import splat and a first render, kernels from {place}", code, environ))
    table(["ms beyond `import torch`", "min", "median", "max"], rows)


def _row(name: str, code: str, environ: Mapping[str, str] | None = None) -> list[str]:
    times = [float(_run(code, environ or {})) for _ in range(RUNS + 2)][2:]
    return [name, f"{min(times):.1f}", f"{statistics.median(times):.1f}", f"{max(times):.1f}"]


def _run(code: str, environ: Mapping[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environ}
    )
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
