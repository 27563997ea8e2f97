"""How well each picture is shown, as a file of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from ..scene.file_output import check_writable, replacing
from .training import Quality


def check_quality(path: str | Path) -> Path:
    """Raise ValueError or OSError if `write_quality` could not write a file of this name."""
    return check_writable(path, ".json", "the quality of pictures")


def write_quality(path: Path, quality: Quality, names: Sequence[str], held_out: bool) -> None:
    """Write PSNR in decibels and SSIM: the means, and those of each picture; the file appears complete or not at all.

    A picture that is shown exactly has a PSNR of null, since JSON has no infinity.
    """
    values = {
        "held_out": held_out,
        "psnr": _number(quality.psnr),
        "ssim": quality.ssim,
        "pictures": [
            {"name": name, "psnr": _number(psnr), "ssim": ssim}
            for name, psnr, ssim in zip(names, quality.psnrs, quality.ssims, strict=True)
        ],
    }
    with replacing(path) as file:
        file.write((json.dumps(values, indent=1) + "\n").encode())


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
