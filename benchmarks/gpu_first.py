"""The first call of a process: what it takes to import each package, then to render for the first and the second time.

Rows by package, of processes of their own; --rows FILE keeps them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import gpu_peer
from gpu_rows import Rows

PROCESSES = 3
# Run with the folder of the scenes, the device and the package.
PROGRAM = """
import importlib, json, sys, time

sys.path.insert(0, sys.argv[1])
import torch

device, package = sys.argv[2:]
# What torch itself loads is not what is measured: CUDA, and all that autograd imports.
ones = torch.ones(1, device=device, requires_grad=True)
torch.autograd.grad((2 * ones).square(), ones, ones.detach())
begin = time.perf_counter()
module = importlib.import_module(package)
took = [time.perf_counter() - begin]
import gpu_scenes

scene = gpu_scenes.synthetic(3000, 101, 67, device)
for _ in range(2):
    begin = time.perf_counter()
    gpu_scenes.differentiate(module.rasterization, scene)
    gpu_scenes.synchronize(device)
    took.append(time.perf_counter() - begin)
print(json.dumps(took))
"""


def main(device: str, rows: Rows) -> None:
    """A row for each process."""
    folder = str(Path(__file__).resolve().parent)
    packages = ("splat", "gsplat") if device == "cuda" and gpu_peer.is_ready() else ("splat",)
    for process in range(PROCESSES if device == "cuda" else 1):
        for package in packages:
            command = [sys.executable, "-c", PROGRAM, folder, device, package]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"without {package}: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
                if package == "splat":
                    sys.exit(1)
                continue
            took = [1e3 * seconds for seconds in json.loads(done.stdout.splitlines()[-1])]
            names = ("import, ms", "first call, ms", "second call, ms")
            texts = (f"{value:.1f}" for value in took)
            rows.add({"package": package, "process": f"process {process}"} | dict(zip(names, texts, strict=True)))
    rows.print_tables()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args()
    main(given.device, Rows(given.rows))
