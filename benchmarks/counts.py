"""What our kernels and gsplat's do for a scene, counted while their PTX is executed. Nothing is timed.

tests/simt executes both on the CPU: our library's by our operators, gsplat's, which nvcc makes of its sources, by
1.5.3's Python code or, of a folder with 1.6.0's package, as 1.6.0's C++ launches them. Of each kernel: instructions of
warps by class, sectors of 32 bytes, wavefronts of shared memory, atomics, and the branches at which lanes part.
gsplat's sorts and prefix sums, which are CUB's, and torch's operations are not executed: no step has ours.

Run by a Python that has splat, gsplat 1.5.3, a torch with CUDA, pip's nvcc and pyelftools; it needs no GPU. Of the
garden's whole picture beside 1.5.3, the folder has counts.json too, of which `ci/gpu --counts` makes floors.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gpu_scenes
import gsplat_sources
import launches
import torch
from kernel_resources import find_cuobjdump, installed_libraries
from measure import table
from torch.utils._python_dispatch import TorchDispatchMode

import splat
from splat.ops.image_loss import image_loss

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from simt import gsplat16_kernels
from simt.compile_simt import build, cuda_libraries, newest_ptx
from simt.gsplat_kernels import build_gsplat, in_place_of
from simt.ptx_counting import CLASSES
from simt.ptx_translator import blocks, kernels_in
from simt.warp_work import SECTOR_BYTES, Work, together, work_of

OPERATORS = "splat_counts"  # ours, as they are executed
PACKAGES = ("splat", "gsplat")
SCENES: dict[str, Callable[[str], gpu_scenes.Arguments]] = {
    "garden": gpu_scenes.garden,
    "million": partial(gpu_scenes.synthetic, 10**6, 1920, 1080),
}
# By step, parts of the mangled names of its kernels in both packages. Gaussians are staged again in the backward pass.
STEPS = {
    "forward: Gaussians": "7projectE|fused_fwd|harmonics_fwd|assemble_proj",
    "forward: lists": "count_tiles|emit_pairs|find_offsets|intersect_tile|intersect_offset",
    "forward: images": "stage_gaussians|9rasterizeILi3E|3dgs_fwd_kernelILj3E",
    "backward: images": "13differentiateILi3ELb0EE|3dgs_bwd_kernelILj3E",
    "backward: Gaussians": "project_backwardILb0E|fused_bwd|harmonics_bwd",
}
OURS = r"^_ZN5splat7kernels.*(" + "|".join(STEPS.values()) + "|_digits|image_loss)"
RATES = {"H100": (3.0e12, 132 * 4 * 1.755e9), "H200": (4.3e12, 132 * 4 * 1.98e9)}  # bytes, warp instructions a second


class Executed(NamedTuple):
    """Of one package."""

    ptx: str
    work: Mapping[str, Work]  # by mangled name
    sass: Mapping[str, int]  # instructions of each kernel's machine code


class Redirected(TorchDispatchMode):
    """splat's operators are those that are executed as PTX."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """One operation."""
        if func.namespace == "splat":
            func = getattr(getattr(torch.ops, OPERATORS), func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def main(folder: Path, scene: str, reduction: int, libraries: Path | None, gsplat16: Path | None) -> None:
    """Print the tables."""
    folder, libraries = folder.resolve(), libraries or installed_libraries()
    shown = gpu_scenes.smaller(SCENES[scene]("cpu"), reduction)
    print(f"{scene}, {shown['width']}x{shown['height']}, {len(shown['means'])} Gaussians; executed, nothing was timed")
    print(f"gsplat {gsplat_sources.GSPLAT16 if gsplat16 else gsplat_sources.GSPLAT}")
    theirs = run_gsplat16(folder, gsplat16, shown) if gsplat16 else run_gsplat(folder, shown)
    found = dict(zip(PACKAGES, (run_ours(folder, libraries, shown), theirs), strict=True))
    print_steps(found)
    for package, executed in found.items():
        print_kernels(package, executed)
        print_factors(package, executed)
    if gsplat16:
        return
    print_launches()
    if (scene, reduction) == ("garden", 1):
        rows = [row for package, executed in found.items() for row in counts_of(package, executed)]
        (folder / "counts.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


def counts_of(package: str, executed: Executed) -> list[dict[str, str | int]]:
    """What gpu_kernels.py reads: bytes that are touched, and instructions."""
    return [
        {
            "scene": gpu_scenes.GARDEN,
            "package": package,
            "kernel": short(name),
            "bytes": SECTOR_BYTES * (work.read + work.written),
            "instructions": work.total,
        }
        for name, work in executed.work.items()
    ]


def run_ours(folder: Path, libraries: Path, scene: gpu_scenes.Arguments) -> Executed:
    """Forward and backward, by the operators that the libraries in a folder have; and the loss of such a picture."""
    ptx = newest_ptx(libraries, find_cuobjdump())
    executor = build(folder / "splat", OPERATORS, ptx, OURS, count=True)
    with Redirected():
        gpu_scenes.differentiate(splat.rasterization, scene)
        image, target = torch.rand(2, 1, scene["height"], scene["width"], 3)
        image_loss(image.requires_grad_(), target, None, 0.8, -0.2).backward()
    return Executed(
        ptx,
        work_of(executor),
        {name: count for library in cuda_libraries(libraries) for name, count in sass_of(library).items()},
    )


def run_gsplat(folder: Path, scene: gpu_scenes.Arguments) -> Executed:
    """Forward and backward, by gsplat's Python code."""
    ptx = gsplat_sources.compile_ptx(folder).read_text(encoding="utf-8")
    compiled = build_gsplat(folder / "gsplat", ptx, count=True)
    with in_place_of(compiled):
        gpu_scenes.differentiate(importlib.import_module("gsplat").rasterization, scene)
    cubin = assemble(ptx, folder / "gsplat.cubin")
    return Executed(ptx, work_of(compiled.executor), sass_of(cubin))


def run_gsplat16(folder: Path, package: Path, scene: gpu_scenes.Arguments) -> Executed:
    """Forward and backward."""
    ptx = gsplat_sources.compile_ptx16(folder, package).read_text(encoding="utf-8")
    executor = build(folder / "gsplat16", "gsplat16_counts", ptx, gsplat16_kernels.KERNELS, count=True)
    gpu_scenes.differentiate(partial(gsplat16_kernels.rasterization, executor), scene)
    return Executed(ptx, work_of(executor), sass_of(assemble(ptx, folder / "gsplat16.cubin")))


def assemble(ptx: str, file: Path) -> Path:
    """Machine code of PTX."""
    text = file.with_suffix(".ptx")
    text.write_text(ptx, encoding="utf-8")
    ptxas = Path(gsplat_sources.find_nvcc()).with_name("ptxas")
    subprocess.run([ptxas, f"-arch={gsplat_sources.ARCHITECTURE}", "-O3", text, "-o", file], check=True)
    return file


def sass_of(file: Path) -> dict[str, int]:
    """How many instructions each kernel has, but for what fills it up at the end."""
    command = [find_cuobjdump(), "--dump-sass", "--gpu-architecture", gsplat_sources.ARCHITECTURE, str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {}
    for part in text.split("Function : ")[1:]:
        opcodes = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", part)
        found[part.split("\n", 1)[0].strip()] = sum(opcode != "NOP" for opcode in opcodes)
    return found


def print_steps(found: Mapping[str, Executed]) -> None:
    """Both packages, side by side."""
    print()
    rows = []
    for step, words in STEPS.items():
        sums = [together([w for name, w in each.work.items() if re.search(words, name)]) for each in found.values()]
        cells = [cell for work in sums for cell in describe(work)]
        rows.append([step, *cells, f"{sums[0].total / sums[1].total:.2f}"])
    names = ("M instructions", "M sectors", "M wavefronts", "M atomics", "M divergent", "lanes")
    table(["executed", *(f"{package}: {name}" for package in found for name in names), "splat / gsplat"], rows)


def describe(work: Work) -> list[str]:
    """What is printed of it."""
    counts = (work.total, work.of("global"), work.of("shared"), work.atomics, work.divergent)
    return [*(f"{count / 1e6:.2f}" for count in counts), f"{work.active:.1f}"]


def print_kernels(package: str, executed: Executed) -> None:
    """Instructions by class, the memory that is touched, and floors by both."""
    print()
    accesses = sorted({name for work in executed.work.values() for name in work.requests})
    classes = [*(name for name in CLASSES if name != "move"), *accesses, "move"]
    rows = []
    for name, work in executed.work.items():
        touched = SECTOR_BYTES * (work.read + work.written)
        floors = [f"{1e6 * touched / copied:.0f}, {1e6 * work.total / issued:.0f}" for copied, issued in RATES.values()]
        counts = (work.total, *(work.instructions[each] for each in classes))
        rows.append([short(name), *(f"{count / 1e6:.2f}" for count in counts), f"{touched / 1e6:.1f}", *floors])
    floors = [f"{name}: us by bytes, instructions" for name in RATES]
    table([f"{package}, M of a warp", "all but moves", *classes, "MB touched", *floors], rows)


def print_factors(package: str, executed: Executed) -> None:
    """What ptxas makes of the PTX that was executed, as it stands in the code."""
    print()
    kernels, rows = kernels_in(executed.ptx, ""), []
    for name in executed.work:
        counts = sum((block.instructions for block in blocks(kernels[name])), Counter[str]())
        ptx, sass = counts.total() - counts["move"], executed.sass[name]
        rows.append([short(name), str(ptx), str(sass), f"{sass / ptx:.2f}"])
    table([f"{package}, in the code", "PTX but moves", "SASS", "SASS / PTX"], rows)


def short(mangled: str) -> str:
    """`rasterize` of a mangled name: the last of those that each have their length before them."""
    rest, name = mangled.removeprefix("_ZN"), mangled
    while length := re.match(r"\d+", rest):
        end = length.end() + int(length[0])
        name, rest = rest[length.end() : end], rest[end:]
    return name


def print_launches() -> None:
    """Of one call with the default arguments."""
    print()
    ours, theirs = launches.of_splat(), launches.of_gsplat()
    rows = [
        [direction, *map(str, (*getattr(ours, direction), *getattr(theirs, direction)))]
        for direction in ("forward", "backward")
    ]
    names = ("own launches", "torch's operations", "host waits")
    table(["default call", *(f"{package}: {name}" for package in PACKAGES for name in names)], rows)
    for package, found in zip(PACKAGES, (ours, theirs), strict=True):
        words = ", ".join(f"{name} {count}" for name, count in found.operations.most_common())
        print(f"torch's operations of {package}: {words}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Count what kernels do, by executing their PTX on the CPU.")
    parser.add_argument("folder", type=Path, help="keeps what is compiled")
    parser.add_argument("--scene", choices=SCENES, default="garden")
    parser.add_argument("--reduction", type=int, default=2, help="the picture is full HD by this")
    parser.add_argument("--libraries", type=Path, help="the folder of splat's; by default those installed")
    parser.add_argument("--gsplat16", type=Path, metavar="PACKAGE", help="gsplat 1.6.0's sources, in place of 1.5.3's")
    main(**vars(parser.parse_args()))
