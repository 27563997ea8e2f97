"""Every form of the kernels, forward and backward, on scenes small enough for compute-sanitizer; nothing is measured.

With --rows FILE, each form that is through is kept there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from gpu_rows import Rows
from gpu_scenes import differentiate, synchronize, synthetic

import splat

# The other forms have the same kernels.
DETERMINISTIC = (
    "dense",
    "packed, absgrad",
    "backgrounds, antialiased",
    "tiles of 8, depth",
    "tiles of 32, 12 channels",
)


def main(device: str, rows: Rows) -> None:
    """All of them."""
    scene = synthetic(3000, 101, 67, device)
    for name, form in forms(scene, device).items():
        for deterministic in (False, True) if name in DETERMINISTIC else (False,):
            label = f"{name}, deterministic" if deterministic else name
            torch.use_deterministic_algorithms(deterministic)
            differentiate(splat.rasterization, scene | form)
            synchronize(device)
            rows.add({"form": label})


def forms(scene: dict[str, Any], device: str) -> dict[str, dict[str, Any]]:
    """What differs from the plain call."""
    plain = scene["colors"][:, 0]
    return {
        "dense": {},
        "packed, absgrad": {"packed": True, "absgrad": True},
        "backgrounds, antialiased": {
            "backgrounds": torch.rand(1, 3, device=device),
            "rasterize_mode": "antialiased",
        },
        "tiles of 8, depth": {"tile_size": 8, "render_mode": "RGB+ED"},
        "tiles of 32, 12 channels": {"tile_size": 32, "colors": plain.repeat(1, 4), "sh_degree": None},
        "39 channels, in two chunks": {"colors": plain.repeat(1, 13), "sh_degree": None},
        "fisheye": {"camera_model": "fisheye"},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, metavar="FILE")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args()
    main(given.device, Rows(given.rows))
