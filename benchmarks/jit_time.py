"""The compile at run time: cold start, warm start, and many processes at once; the first two against gsplat's JIT.

Usage: jit_time.py PYTHON-WITH-GSPLAT FOLDER, run by a Python that has splat, a torch with CUDA and pip's nvcc.
There need be no GPU: kernels are compiled and loaded for one architecture, and not run.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from build_time import build_gsplat, gsplat_environment, nothing_kept
from measure import run, table

RUNS = 7
PROCESSES = 32
# What a first call does on CUDA, beyond asking the GPU what it is: find the entry, or have it compiled, verify it and
# load its library. Or on the CPU.
FIRST_CALL = """
import sys, time, torch
start = time.perf_counter()
import splat
from splat._kernels import KERNELS
KERNELS.host = KERNELS.host._replace(capabilities=((9, 0),), driver=(13, 0))
KERNELS.require(sys.argv[1], part="main")
print(1e3 * (time.perf_counter() - start))
assert "/store/" in KERNELS.info()["loaded"][sys.argv[1]]
"""
# One of a crowd: what it imports is not what is measured, so all wait for one another before they ask for kernels.
MEMBER = """
import sys, splat
from splat._kernels import KERNELS
print("ready", flush=True)
sys.stdin.readline()
KERNELS.require("cpu", part="main")
print("done", flush=True)
"""
WARM_GSPLAT = """
import time, torch
start = time.perf_counter()
from gsplat.cuda._backend import _C
assert _C
print(1e3 * (time.perf_counter() - start))
"""


def main(gsplat_python: Path, folder: Path) -> None:
    """Measure, and print one table for the cold and warm starts and one for the crowd."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environ = {
        **os.environ,
        "TORCH_CUDA_ARCH_LIST": "9.0",
        "SPLAT_JIT": "always",
        **nothing_kept(folder / "empty"),
    }
    build = [sys.executable, "-m", "splat", "cache", "build", "--cuda", "on", "--only"]
    cold = run([sys.executable, "-c", FIRST_CALL, "cuda"], folder / "splat.log", environ)
    on_cpu = run([sys.executable, "-c", FIRST_CALL, "cpu"], folder / "splat-cpu.log", environ)
    # What the wheel has no kernels for: its CPU library is taken as it is.
    beside = {**environ, "SPLAT_JIT": "auto", "TORCH_CUDA_ARCH_LIST": "9.0a", **nothing_kept(folder / "empty-beside")}
    missing = run([*build, "main"], folder / "splat-beside.log", beside)
    another = run([*build, "2dgs"], folder / "splat-2dgs.log", beside)
    torch = run([sys.executable, "-c", "import torch"], folder / "torch.log", environ)  # a part of all of them
    warm = median_of(sys.executable, FIRST_CALL, environ, "cuda")
    their_cold, _ = build_gsplat(gsplat_python, folder, environ)
    their_warm = median_of(str(gsplat_python), WARM_GSPLAT, gsplat_environment(gsplat_python, folder, environ))
    table(
        ["one architecture (9.0)", "cold: wall s", "CPU s", "warm: ms beyond torch"],
        [
            ["splat, what `rasterization` needs", f"{cold.wall:.1f}", f"{cold.cpu:.1f}", f"{warm:.1f}"],
            ["the same on the CPU", f"{on_cpu.wall:.1f}", f"{on_cpu.cpu:.1f}", "-"],
            ["beside a wheel for other GPUs (9.0a)", f"{missing.wall:.1f}", f"{missing.cpu:.1f}", "-"],
            ["then those of 2D Gaussians (9.0a)", f"{another.wall:.1f}", f"{another.cpu:.1f}", "-"],
            ["`import torch`, in each of them", f"{torch.wall:.1f}", f"{torch.cpu:.1f}", "-"],
            ["gsplat 1.5.3", f"{their_cold.wall:.1f}", f"{their_cold.cpu:.1f}", f"{their_warm:.1f}"],
            [
                "ratio",
                f"{cold.wall / their_cold.wall:.3f}",
                f"{cold.cpu / their_cold.cpu:.3f}",
                f"{warm / their_warm:.3f}",
            ],
            [
                "ratio, beside a wheel",
                f"{missing.wall / their_cold.wall:.3f}",
                f"{missing.cpu / their_cold.cpu:.3f}",
                "-",
            ],
        ],
    )
    print()
    one = crowd(1, folder, environ)
    many = crowd(PROCESSES, folder, environ)
    table(
        ["CPU kernels, empty store", "first call to last answer: wall s"],
        [["1 process", f"{one:.1f}"], [f"{PROCESSES} processes", f"{many:.1f}"], ["ratio", f"{many / one:.2f}"]],
    )


def median_of(python: str, code: str, environ: dict[str, str], *arguments: str) -> float:
    """The median of what the snippet prints, each time in a fresh process."""
    runs = (
        subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, check=True, env=environ)
        for _ in range(RUNS)
    )
    return statistics.median(float(done.stdout) for done in runs)


def crowd(processes: int, folder: Path, environ: dict[str, str]) -> float:
    """Seconds from when as many processes ask for kernels at once, on an empty store, until all have them loaded."""
    environ = {**environ, **nothing_kept(folder / f"empty-for-{processes}")}
    with (folder / f"{processes}.log").open("wb") as log:
        members = [
            subprocess.Popen(
                [sys.executable, "-c", MEMBER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environ
            )
            for _ in range(processes)
        ]
        for member in members:
            assert member.stdout is not None
            member.stdout.readline()
        start = time.perf_counter()
        for member in members:
            assert member.stdin is not None
            member.stdin.close()
        answers = [member.stdout.readline() for member in members if member.stdout]
        taken = time.perf_counter() - start
        for member in members:
            member.wait()
    if answers != [b"done\n"] * processes:
        raise SystemExit(f"some of {processes} processes failed, see {folder}")
    return taken


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
