"""Makes an environment at one end of what a build supports: oldest_newest.py oldest|newest FOLDER; run by ci/test.

Python      the oldest or the newest at hand from 3.10 on
torch       2.10.0 or 2.15.0, with stubs of the CUDA libraries that it is linked to, except the runtime
packages    what kernelwheel requires, in the lowest releases that it takes or in the newest; CMake, too
nvcc        in the newest, CUDA 13.2; pip has none for the CUDA that torch 2.10 is built for
older-cmake/    in the newest, the oldest CMake, for builds that have the new torch but not the new CMake
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from aarch64 import NEEDED_BY_THEM
from cuda_stubs import write_stubs
from machine_setup import run
from matrix_environment import pythons_at_hand

ROOT = Path(__file__).resolve().parent.parent
OLDEST_CMAKE = "cmake==3.24.0"
# Lowest releases that were withdrawn, and what comes next.
WITHDRAWN = {"setuptools==77": "setuptools==77.0.1"}
# torch's headers ask for these, and what is compiled here includes none of them.
EMPTY_HEADERS = ("cublas_v2.h", "cublasLt.h", "cusparse.h", "cusolverDn.h")


class End(NamedTuple):
    """What stands in no pyproject.toml: a release of torch, and what it needs of CUDA."""

    python: int
    torch: str
    cuda: tuple[str, ...]


NVCC = ("cuda-runtime", "cuda-nvcc", "cuda-crt", "cuda-cccl", "nvvm", "cuda-cuobjdump")
ENDS = {
    "oldest": End(0, "torch==2.10.0", ("nvidia-cuda-runtime-cu12==12.8.*",)),
    "newest": End(-1, "torch==2.15.0", tuple(f"nvidia-{name}==13.2.*" for name in NVCC)),
}


def make_end(name: str, folder: Path) -> None:
    """Make the environment, unless the folder has it."""
    end = ENDS[name]
    python = list(pythons_at_hand(dict(os.environ)).values())[end.python]
    packages = requirements(name)
    recipe = "\n".join([str(python), end.torch, *end.cuda, *packages, Path(__file__).read_text(encoding="utf-8")])
    made = folder / "made-from"
    if made.is_file() and made.read_text(encoding="utf-8") == recipe:
        return
    print(f"environment {folder.name}: {python}, {end.torch}, {', '.join(packages)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    run([python, "-m", "venv", folder])
    pip_install(folder, ["--no-deps", end.torch, *end.cuda])
    pip_install(folder, [*packages, *NEEDED_BY_THEM])
    (site,) = folder.glob("lib/python3*/site-packages")
    beside = frozenset(path.name for path in site.glob("nvidia/*/lib/*"))
    write_stubs(site / "torch/lib", site / "torch/lib", "c++", beside)  # where torch's libraries look first
    if name == "newest":
        pip_install(folder, ["--no-deps", "--target", folder / "older-cmake", OLDEST_CMAKE])
        for header in EMPTY_HEADERS:
            (site / "nvidia/cu13/include" / header).touch()
    made.write_text(recipe, encoding="utf-8")


def requirements(name: str) -> list[str]:
    """What kernelwheel requires for builds, and CMake and Ninja, in the releases of an end."""
    text = (ROOT / "backend/pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    needed: list[str] = re.findall(r'^    "(.+)",$', listed, re.MULTILINE)
    if name == "newest":
        return [*(re.sub(r">=\d[^;]*", "", each) for each in needed), "cmake", "ninja"]
    lowest = [re.sub(r">=(\d[\d.]*)[^;]*", r"==\1", each) for each in needed]
    return [*(WITHDRAWN.get(each, each) for each in lowest), OLDEST_CMAKE, "ninja"]


def pip_install(folder: Path, words: Iterable[str | Path]) -> None:
    """Install into the environment."""
    run([folder / "bin/pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", *words])


if __name__ == "__main__":
    make_end(sys.argv[1], Path(sys.argv[2]).resolve())
