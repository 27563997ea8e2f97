"""How well held-out photographs are shown after so many CPU-seconds of a fit, by `splat fit` and by OpenSplat.

Usage: fit_quality.py CAPTURE FOLDER [OPENSPLAT]: photographs are held out as by `splat fit`. OPENSPLAT is its program,
compiled for the CPU. For it, the others are written to FOLDER, scaled down and straightened as `splat fit` does, with
the same points to begin at. What each program makes of them is measured by splat. OpenSplat's scenes are drawn with the
principal point in the middle, where it takes it to be. With torch 2.11 to 2.13 it draws Gaussians in a wrong order,
unless `camDepths` in its gsplat_cpu.cpp is made contiguous.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from measure import Usage, run, table
from PIL import Image

from splat.fit.held_out import HoldOut
from splat.fit.photograph_views import Preparation, photograph_views
from splat.fit.picture_quality import judge
from splat.fit.views import Views
from splat.photos.folders import read_capture
from splat.scene.formats import read_scene

SIZE, POINTS = 480, 10_000  # as `splat fit` uses and draws on a CPU
STEPS = (650, 1250, 2500)  # of splat
BUDGETS = (60, 120, 240)  # CPU-seconds, for OpenSplat, whose steps take longer
PROBE = 100  # steps, to find out how much longer
# Shares of the steps: its own schedule is for 30,000, and with it 1 to 2 dB fewer are reached.
SCHEDULE = {"--resolution-schedule": 5 / 7, "--warmup-length": 1 / 7}


def main(capture: Path, folder: Path, opensplat: Path | None) -> None:
    """Fit with each program and print the table."""
    warnings.simplefilter("ignore")
    folder.mkdir(parents=True, exist_ok=True)
    views = photograph_views(read_capture(capture), POINTS, 0, Preparation(max_size=SIZE))
    held_out = HoldOut().choose(views)
    judged = views.select(held_out)
    centred = judged.Ks.clone()
    centred[:, :2, 2] = torch.tensor(judged.sizes) / 2
    cameras = {"splat": judged, "OpenSplat": replace(judged, Ks=centred)}
    write_views(views.select([i for i in range(len(views)) if i not in held_out]), folder)
    width, height = views.sizes[0]
    print(f"{capture.name}: {len(views) - len(judged)} photographs of {width}x{height}, {len(judged)} held out")
    rows = [measured(*fit, folder, cameras[fit[0]]) for fit in fits(capture, folder, opensplat)]
    table(["program", "steps", "CPU s", "Gaussians", "PSNR", "SSIM"], rows)


def fits(capture: Path, folder: Path, opensplat: Path | None) -> Iterator[tuple[str, int, Usage]]:
    """A program, its steps, and what they took; the scene is in scene.ply."""
    scene, environ = str(folder / "scene.ply"), {**os.environ, "OMP_NUM_THREADS": "1"}
    for steps in STEPS:
        words = ["-m", "splat", "fit", str(capture), "-o", scene, "--steps", str(steps)]
        yield "splat", steps, run([sys.executable, *words], folder / "splat.log", environ)
    if not opensplat:
        return

    def fit(steps: int) -> Usage:
        words = [str(opensplat), str(folder), "-o", scene, "--keep-crs", "--num-iters", str(steps)]
        for option, share in SCHEDULE.items():
            words += [option, str(max(round(share * steps), 1))]
        return run(words, folder / "opensplat.log", environ)

    begun, steps, usage = fit(1).cpu, PROBE, fit(PROBE)
    for budget in BUDGETS:
        # As fast as in the fit before, whose Gaussians were other ones.
        steps = round((budget - begun) * steps / (usage.cpu - begun))
        usage = fit(steps)
        yield "OpenSplat", steps, usage


def measured(program: str, steps: int, usage: Usage, folder: Path, judged: Views) -> list[str]:
    """The row of the scene that was just made."""
    scene = read_scene(folder / "scene.ply")
    quality = judge(scene, judged)
    count = str(len(scene.means))
    return [program, str(steps), f"{usage.cpu:.0f}", count, f"{quality.psnr:.1f}", f"{quality.ssim:.3f}"]


def write_views(views: Views, folder: Path) -> None:
    """As transforms.json with the points in a PLY file, which both programs read."""
    flip = torch.diag(torch.tensor([1.0, -1.0, -1.0, 1.0]))  # from x right, y down to x right, y up
    frames = []
    for number, (viewmat, K) in enumerate(zip(views.viewmats, views.Ks, strict=True)):
        name, (width, height) = f"{number:04}.png", views.sizes[number]
        Image.fromarray((views.target(number) * 255).round().byte().numpy()).save(folder / name)
        values = {"fl_x": K[0, 0], "fl_y": K[1, 1], "cx": K[0, 2], "cy": K[1, 2]}
        pose = (torch.linalg.inv(viewmat) @ flip).tolist()
        frame = {"file_path": name, "w": width, "h": height, "transform_matrix": pose}
        frames.append(frame | {key: float(value) for key, value in values.items()})
    text = {"camera_model": "OPENCV", "ply_file_path": "points.ply", "frames": frames}
    (folder / "transforms.json").write_text(json.dumps(text), encoding="utf-8")
    names = [*(f"float {axis}" for axis in "xyz"), *(f"uchar {color}" for color in ("red", "green", "blue"))]
    header = ["ply", "format ascii 1.0", f"element vertex {len(views.points)}"]
    lines = [*header, *(f"property {name}" for name in names), "end_header"]
    for point, color in zip(views.points.tolist(), (views.colors * 255).round().int().tolist(), strict=True):
        lines.append(" ".join(map(str, [*point, *color])))
    (folder / "points.ply").write_text("\n".join([*lines, ""]), encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
