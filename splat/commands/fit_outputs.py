"""The files that `splat fit` writes, and what it prints once they are there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch

from ..fit.adapted_quality import Adapted
from ..fit.checkpoints import check_checkpoint, is_complete
from ..fit.perceptual import Perceptual
from ..fit.picture_quality import Quality
from ..fit.quality_file import check_quality
from ..fit.views import Views, render
from ..page.comparison_page import Measured, Pair, write_comparison
from ..page.parts import check_page
from ..scene.camera_list import cameras_path, check_cameras
from ..scene.formats import written_suffix
from ..scene.gaussians import Gaussians
from ..scene.image import check_picture, write_png
from .fit_job import FitJob
from .printing import print_result

_FEW = 4
"""Pictures that say little about others."""


class Outputs(NamedTuple):
    """The files to write."""

    scene: Path
    picture: Path
    page: Path | None
    checkpoint: Path | None
    quality: Path | None
    unfinished: Path
    """The scene, if the fit ends before its last step: it does not replace one that was there."""

    def check_apart(self, read: Iterable[Path]) -> None:
        """ValueError if one of them would replace one of these files, which a fit reads."""
        scenes = (self.scene, self.unfinished)
        written = {*scenes, *map(cameras_path, scenes), self.picture, self.page, self.checkpoint, self.quality}
        there = [path for path in written if path and path.exists()]
        for source in read if there else ():
            if found := next((path for path in there if path.samefile(source)), None):
                raise ValueError(
                    f"{found}: a name of its own is required for each file that is written, found one that is read: "
                    f"{source}; choose another name for -o or --picture"
                )


class Judged(NamedTuple):
    """How well the scene shows the pictures that it is judged by."""

    views: Views
    held_out: bool
    quality: Quality
    adapted: Adapted | None
    perceptual: Perceptual | None

    @property
    def kind(self) -> str:
        """What it is judged by, in words."""
        return judged_by(self.views, self.held_out)


def judged_by(views: Views, held_out: bool) -> str:
    """What a scene is judged by, in words."""
    several = "s" if len(views) > 1 else ""
    return f"{len(views)} held-out picture{several}" if held_out else f"the picture{several} it was fitted to"


def locked_outputs(job: FitJob) -> list[Path]:
    """What stands for the files that a fit writes while it runs, without endings: two fits never share one."""
    return [job.output.with_name(_stem(job))] + ([job.checkpoint] if job.checkpoint else [])


def find_outputs(job: FitJob) -> Outputs:
    """The files that the options name or imply; ValueError or OSError if one cannot be written."""
    stem = _stem(job)
    picture = job.picture or check_picture(job.output.with_name(f"{stem}.png"))
    page, checkpoint, quality = job.page, job.checkpoint, None
    if job.photographs:
        quality = check_quality(job.output.with_name(f"{stem}.quality.json"))
        page = page or check_page(job.output.with_name(f"{stem}.comparison.html"))
        checkpoint = checkpoint or check_checkpoint(job.output.with_name(f"{stem}.checkpoint.npz"))
    complete = checkpoint is not None and checkpoint.exists() and is_complete(checkpoint)
    if job.resume:
        if checkpoint is None:
            raise ValueError("--resume needs a checkpoint: name it with --checkpoint FILE.npz")
        if not checkpoint.exists():
            raise ValueError(f"{checkpoint}: a checkpoint is required for --resume, found none; start without it")
    elif checkpoint and checkpoint.exists() and not complete:
        raise ValueError(
            f"{checkpoint}: this is the checkpoint of an unfinished fit; continue it with --resume, or remove the file "
            "to begin anew"
        )
    unfinished = job.output.with_name(f"{stem}.unfinished{written_suffix(job.output)}")
    if not unfinished.exists() and ((job.resume and not complete) or not job.output.exists()):
        unfinished = job.output
    for scene in (job.output, unfinished):
        check_cameras(cameras_path(scene))
    return Outputs(job.output, picture, page, checkpoint, quality, unfinished)


def _stem(job: FitJob) -> str:
    """The name of the scene's file without its ending."""
    return job.output.name[: -len(written_suffix(job.output))]


@torch.no_grad()
def write_picture(path: Path, scene: Gaussians, judged: Views) -> None:
    """Write a picture and the fitted scene next to each other."""
    image, _ = render(scene, judged, 0, scene.degree)
    write_png(path, torch.cat([judged.target(0), image], dim=1))


@torch.no_grad()
def write_page(path: Path, title: str, facts: str, scene: Gaussians, judged: Judged) -> None:
    """Write the page of the pictures that the scene was judged by."""
    views, quality = judged.views, judged.quality
    measured = [Measured(views.name(view), quality.psnrs[view], quality.ssims[view]) for view in range(len(views))]
    facts = f"{facts}; {judged.kind}. On average PSNR {quality.psnr:.2f} dB, SSIM {quality.ssim:.3f}."

    def pair(view: int) -> Pair:
        return Pair(views.target(view), render(scene, views, view, scene.degree)[0], views.mask(view))

    write_comparison(path, title, facts, measured, pair)


def pictures_size(views: Views) -> str:
    """The size of the pictures, in words."""
    sizes = views.sizes
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    return f"{'' if len(set(sizes)) == 1 else 'up to '}{width}x{height}"


def say_quality(outputs: Outputs, judged: Judged, facts: str, verbose: bool) -> None:
    """Print what was made, and how good it is."""
    quality, adapted, perceptual = judged.quality, judged.adapted, judged.perceptual
    if verbose:
        for view in range(len(judged.views)):
            more = f", LPIPS {perceptual.values[view]:.3f}" if perceptual and perceptual.values else ""
            print_result(
                f"{judged.views.name(view)}: PSNR {quality.psnrs[view]:.2f} dB, SSIM {quality.ssims[view]:.3f}{more}"
            )
        if perceptual:
            print_result(perceptual.words)
    page = f"; page: {outputs.page}" if outputs.page else ""
    print_result(f"{facts}: {outputs.scene}")
    spread = ""
    if len(quality.psnrs) > 1:
        few = ", too few to say much" if judged.held_out and len(quality.psnrs) < _FEW else ""
        spread = f" ({min(quality.psnrs):.1f} to {max(quality.psnrs):.1f}{few})"
    words = f"PSNR {quality.psnr:.1f} dB on {judged.kind}{spread}, SSIM {quality.ssim:.3f}"
    print_result(f"{words}; comparison: {outputs.picture}{page}")
    if adapted:
        print_result(
            f"PSNR {adapted.quality.psnr:.1f} dB, SSIM {adapted.quality.ssim:.3f} after {adapted.what} by each picture "
            "itself"
        )
