"""The quality of each picture, as a JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..scene.file_output import check_writable, replacing
from .adapted_quality import Adapted
from .perceptual import Perceptual
from .picture_quality import Quality


def check_quality(path: str | Path) -> Path:
    """Raise ValueError or OSError if `write_quality` could not write a file of this name."""
    return check_writable(path, ".json", "the quality of pictures")


def write_quality(
    path: Path,
    quality: Quality,
    names: Sequence[str],
    held_out: bool,
    adapted: Adapted | None = None,
    perceptual: Perceptual | None = None,
) -> None:
    """Write PSNR in decibels and SSIM: the means, and those of each picture; the file appears complete or not at all.

    A picture that is shown exactly has a PSNR of null, since JSON has no infinity. `adapted` has the same numbers, and
    what was fitted to the pictures before. LPIPS and its network are there if it was measured.
    """
    values: dict[str, Any] = {"held_out": held_out, **_means(quality)}
    pictures = _pictures(quality, names)
    if perceptual and perceptual.values:
        values["lpips"] = sum(perceptual.values) / len(perceptual.values)
        values["lpips_network"] = perceptual.network
        pictures = [{**found, "lpips": value} for found, value in zip(pictures, perceptual.values, strict=True)]
    values["pictures"] = pictures
    if adapted:
        values["adapted"] = {
            "cameras_refined": adapted.cameras,
            "colors_fitted": adapted.colors,
            **_means(adapted.quality),
            "pictures": _pictures(adapted.quality, names),
        }
    with replacing(path) as file:
        file.write((json.dumps(values, indent=1) + "\n").encode())


def _means(quality: Quality) -> dict[str, float | None]:
    return {"psnr": _number(quality.psnr), "ssim": quality.ssim}


def _pictures(quality: Quality, names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "psnr": _number(psnr), "ssim": ssim}
        for name, psnr, ssim in zip(names, quality.psnrs, quality.ssims, strict=True)
    ]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
