"""Building the wheel for aarch64 on x86-64, against the wheel for this machine: same sources, tools and architectures.

Usage: cross_time.py CHECKOUT PACKAGES FOLDER, run by a Python with a CUDA build of torch and pip's nvcc. PACKAGES has
the toolkit's parts for aarch64. Both are `pip wheel` without isolation and with an empty store.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from zipfile import ZipFile

from measure import Usage, run, table

TARGET = "linux-aarch64"


def main(checkout: Path, packages: Path, folder: Path) -> None:
    """Measure both builds, one after the other, and print the table."""
    shutil.rmtree(folder, ignore_errors=True)
    environ = {**os.environ, "TORCH_CUDA_ARCH_LIST": os.environ.get("TORCH_CUDA_ARCH_LIST", "9.0")}
    cross = ["-C", f"platform={TARGET}", "-C", f"target-packages={packages}"]
    rows = [measured(checkout, folder / "native", environ, []), measured(checkout, folder / TARGET, environ, cross)]
    print(f"architectures {environ['TORCH_CUDA_ARCH_LIST']}, {len(os.sched_getaffinity(0))} cores")
    quotients = [f"{other / one:.3f}" for one, other in zip(rows[0][1], rows[1][1], strict=True)]
    table(
        ["", "wall s", "CPU s", "wheel MB", "CPU library MB", "CUDA library MB"],
        [*([name, *(f"{value:.2f}" for value in values)] for name, values in rows), ["ratio", *quotients]],
    )


def measured(checkout: Path, folder: Path, environ: dict[str, str], options: list[str]) -> tuple[str, list[float]]:
    """`pip wheel` of the checkout: the platform, and what the build took and made."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir", *options]
    usage: Usage = run(
        [*command, "-w", str(folder), str(checkout)],
        folder / "log",
        {**environ, "XDG_CACHE_HOME": str(folder / "cache")},
    )
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        manifest = json.loads(archive.read("splat/_native/manifest.json"))
    sizes = [library["size"] / 1e6 for library in manifest["libraries"]]
    return manifest["requires"]["platform"], [usage.wall, usage.cpu, wheel.stat().st_size / 1e6, *sizes]


if __name__ == "__main__":
    main(*(Path(argument).resolve() for argument in sys.argv[1:]))
