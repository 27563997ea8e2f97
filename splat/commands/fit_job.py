"""What `splat fit` was asked to do, with every option that was not given filled in."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from ..fit.held_out import HoldOut
from ..photos.folders import is_capture
from ..scene.gaussians import Gaussians
from .fit_arguments import default_size


@dataclass(frozen=True)
class FitJob:
    """The options of one fit; `fit_arguments.py` says what each means."""

    sources: tuple[Path, ...]
    photographs: bool
    """Whether the source is photographs with cameras."""
    device: torch.device
    steps: int
    gaussians: int
    sh_degree: int
    seed: int
    strategy: str
    appearance: str
    refine_cameras: bool
    images: Path | None
    lenses: str
    masks: Path | None
    downscale: int
    max_size: int | None
    """Pixels of the longer side of photographs; None: any."""
    background: tuple[float, float, float]
    hold_out: HoldOut
    output: Path
    picture: Path | None
    page: Path | None
    checkpoint: Path | None
    checkpoint_every: int
    resume: bool
    begin: Gaussians | None
    """What it begins with, instead of points."""
    verbose: bool
    view: bool
    port: int


def fit_job(args: argparse.Namespace, device: torch.device, begin: Gaussians | None = None) -> FitJob:
    """The job that the command line asks for, on this device. OSError if a source cannot be looked at."""
    photographs = len(args.sources) == 1 and is_capture(args.sources[0])
    size = default_size(photographs, device.type)
    steps = args.steps or size.steps
    gaussians = size.gaussians_after(steps) if photographs else size.gaussians
    given = {option.name: getattr(args, option.name) for option in fields(FitJob) if hasattr(args, option.name)}
    found = {
        "sources": tuple(args.sources),
        "photographs": photographs,
        "device": device,
        "steps": steps,
        "gaussians": args.gaussians or max(gaussians, len(begin) if begin else 0),
        "sh_degree": args.sh_degree if args.sh_degree is not None else max(2, min(begin.degree, 3) if begin else 0),
        "begin": begin,
        "max_size": args.max_size or (size.max_size if args.downscale == 1 else None),
    }
    return FitJob(**{**given, **found})
