"""`rasterization` on the GPU, forward and forward + backward, against gsplat where it can be imported.

Medians of runs timed by CUDA events, those of both packages taking turns in one process; each row is printed when it is
made. With --rows FILE it is added to that file too, as JSON, and a row that is there already is not made again. With
--short: small scenes in every form that the kernels have, forward and backward, once, nothing printed: for
compute-sanitizer. With --device cpu: scenes that a CPU renders, and its clock.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import splat

RUNS, WARM_UP = 21, 5
WIDTHS = (20, 20, 16, 16, 14)  # of the columns
Arguments = dict[str, Any]
Rasterization = Callable[..., tuple[Tensor, Tensor, dict[str, Any]]]


def main(device: str, profile: bool, count_runs: int, file: Path | None) -> None:
    """Print a row for each scene and direction."""
    rivals = find_rivals(device)
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}; medians of {count_runs} runs, ms (MiB at the most)")
    print_row(["scene", "", *rivals, *(["gsplat / splat"] if "gsplat" in rivals else [])])
    made = [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []
    for scene, make in scenes(device).items():
        known = {row[1]: row for row in made if row[0] == scene}
        arguments: Arguments = {}
        for direction, run in (("forward", render), ("forward + backward", differentiate)):
            if direction in known:
                print_row(known[direction])
                continue
            try:
                arguments = arguments or make()
            except FileNotFoundError as error:
                print(f"without {scene}: {error}")
                break
            row = [scene, direction, *measure(rivals, run, arguments, count_runs, device)]
            print_row(row)
            if file:
                with file.open("a") as rows:
                    rows.write(json.dumps(row) + "\n")
        if profile and arguments:
            print_profile(scene, arguments)


def find_rivals(device: str) -> dict[str, Rasterization]:
    """What is measured: gsplat too, if it can be imported and has kernels for the device."""
    rivals: dict[str, Rasterization] = {"splat": splat.rasterization}
    if device == "cpu":
        return rivals
    try:
        gsplat = importlib.import_module("gsplat")
        differentiate(gsplat.rasterization, synthetic(3000, 101, 67, device))  # it may compile, or see that it cannot
    except Exception as error:
        print(f"without gsplat: {type(error).__name__}: {error}")
        return rivals
    print(f"gsplat {gsplat.__version__}")
    return {**rivals, "gsplat": gsplat.rasterization}


def print_row(cells: Sequence[str]) -> None:
    """A row in columns of fixed widths: the other rows are not known yet."""
    texts, numbers = zip(cells[:2], WIDTHS, strict=False), zip(cells[2:], WIDTHS[2:], strict=False)
    print("  ".join([text.ljust(width) for text, width in texts] + [cell.rjust(width) for cell, width in numbers]))


def run_short(device: str) -> None:
    """Every form of the kernels, once, on scenes small enough for compute-sanitizer."""
    scene = synthetic(3000, 101, 67, device)
    plain = scene["colors"][:, 0]
    forms: list[dict[str, Any]] = [
        {},
        {"packed": True, "absgrad": True},
        {"backgrounds": torch.rand(1, 3, device=device), "rasterize_mode": "antialiased"},
        {"tile_size": 8, "render_mode": "RGB+ED"},
        {"tile_size": 32, "colors": plain.repeat(1, 4), "sh_degree": None},
        {"colors": plain.repeat(1, 13), "sh_degree": None},  # in two chunks
        {"camera_model": "fisheye"},
    ]
    for form in forms:
        differentiate(splat.rasterization, scene | form)
    torch.use_deterministic_algorithms(True)
    for form in forms[:5]:
        differentiate(splat.rasterization, scene | form)
    if device == "cuda":
        torch.cuda.synchronize()


def scenes(device: str) -> dict[str, Callable[[], Arguments]]:
    """By name, what to render; made when it is its turn, for the memory."""
    if device == "cpu":
        return {"10000, 320x180": partial(synthetic, 10**4, 320, 180, device)}
    made: dict[str, Callable[[], Arguments]] = {"garden, 1920x1080": garden}
    for millions in (1, 5):
        for width, height in ((1920, 1080), (3840, 2160)):
            made[f"{millions}M, {width}x{height}"] = lambda n=millions, w=width, h=height: synthetic(
                n * 10**6, w, h, device
            )
    return made


def garden(device: str = "cuda") -> Arguments:
    """The garden's points, as the tests have them, with spherical harmonics, in one image."""
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    scenes = importlib.import_module("scenes")
    try:
        scene = scenes.garden(1)
    except BaseException as error:  # pytest's skip is none of Exception
        raise FileNotFoundError(str(error)) from None
    factor = torch.tensor([[1920 / scene.width], [1080 / scene.height], [1.0]])
    coefficients = torch.zeros(len(scene.means), 16, 3)
    coefficients[:, 0] = (scene.colors - 0.5) / 0.28209479177387814
    arguments = scene.arguments | {"Ks": scene.Ks[:1] * factor, "viewmats": scene.viewmats[:1], "colors": coefficients}
    return on(arguments | {"sh_degree": 3, "width": 1920, "height": 1080}, device)


def synthetic(count: int, width: int, height: int, device: str) -> Arguments:
    """Gaussians that fill the view, as many small ones among few large ones as a trained scene has.

    Depths are uniform from 2 to 12; a standard deviation is log-normal about 1.5 pixels of a full HD image, whatever
    the size of this one; opacities are uniform. Spherical harmonics of degree 3.
    """
    generator = torch.Generator().manual_seed(count)
    focal = 0.8 * width
    depth = 2 + 10 * torch.rand(count, generator=generator)
    half = torch.tensor([width, height]) / (2 * focal) * 1.1
    xy = (2 * torch.rand(count, 2, generator=generator) - 1) * half * depth[:, None]
    sigma = 1.5 / 1536 * torch.exp(0.7 * torch.randn(count, 3, generator=generator)) * depth[:, None]
    return on(
        {
            "means": torch.cat([xy, depth[:, None]], 1),
            "quats": torch.randn(count, 4, generator=generator),
            "scales": sigma,
            "opacities": torch.rand(count, generator=generator),
            "colors": torch.randn(count, 16, 3, generator=generator) * 0.3,
            "viewmats": torch.eye(4)[None],
            "Ks": torch.tensor([[[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]]]),
            "width": width,
            "height": height,
            "sh_degree": 3,
        },
        device,
    )


def on(arguments: Arguments, device: str) -> Arguments:
    """The same on a device, dense."""
    moved = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in arguments.items()}
    return moved | {"packed": False}


def render(rasterization: Rasterization, arguments: Arguments) -> None:
    """Forward only."""
    with torch.no_grad():
        rasterization(**arguments)


def differentiate(rasterization: Rasterization, arguments: Arguments) -> None:
    """Forward and backward, the gradients of all that is trained."""
    leaves = {
        name: arguments[name].detach().requires_grad_() for name in ("means", "quats", "scales", "opacities", "colors")
    }
    colors, alphas, _ = rasterization(**arguments | leaves)
    torch.autograd.grad((colors, alphas), list(leaves.values()), (torch.ones_like(colors), torch.ones_like(alphas)))


def measure(
    rivals: dict[str, Rasterization],
    run: Callable[[Rasterization, Arguments], None],
    arguments: Arguments,
    runs: int,
    device: str,
) -> list[str]:
    """Median milliseconds and, on a GPU, the most MiB allocated beyond the scene; and the ratio of two rivals."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    memory = dict.fromkeys(rivals, math.nan)
    for turn in range(WARM_UP + runs):
        for name, rasterization in rivals.items():
            if device == "cuda":
                took, memory[name] = time_on_gpu(partial(run, rasterization, arguments))
            else:
                before = time.perf_counter()
                run(rasterization, arguments)
                took = 1e3 * (time.perf_counter() - before)
            if turn >= WARM_UP:
                times[name].append(took)
    medians = {name: statistics.median(values) for name, values in times.items()}
    cells = [f"{medians[name]:.2f} ({memory[name]:.0f})" for name in rivals]
    return [*cells, *([f"{medians['gsplat'] / medians['splat']:.2f}"] if "gsplat" in rivals else [])]


def time_on_gpu(run: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds, and the most MiB that were allocated meanwhile."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end), (torch.cuda.max_memory_allocated() - before) / 2**20


def print_profile(name: str, arguments: Arguments) -> None:
    """The kernels of splat's forward and backward pass that take longest."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            differentiate(splat.rasterization, arguments)
        torch.cuda.synchronize()
    print(f"{name}, three times forward + backward:")
    print(profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=16, max_name_column_width=72))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--profile", action="store_true", help="also print what each kernel takes")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep the rows here, and make none twice")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args()
    if given.short:
        run_short(given.device)
    else:
        main(given.device, given.profile, given.runs, given.rows)
