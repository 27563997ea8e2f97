"""Building an adopted package: kernelwheel with its tables, against the same sources with a setup.py of their own.

Usage: adopt_time.py PACKAGE BACKEND FOLDER, run by a Python with a CUDA build of torch and pip's nvcc. Both are
`pip wheel` without isolation, with the same nvcc, torch and architectures, and then once more without a change.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from measure import Usage, run, table

SETUP = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(
    name="nearest-points",
    version="0.3.0",
    packages=["nearest"],
    ext_modules=[
        CUDAExtension(
            "nearest._C", ["ext.cpp", "distances.cu"],
            include_dirs=[__import__("os").path.abspath("third_party/vectors")], define_macros=[("WITH_CUDA", None)],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
"""


def main(package: Path, backend: Path, folder: Path) -> None:
    """Measure both builds, twice each, and print the table."""
    shutil.rmtree(folder, ignore_errors=True)
    ours, theirs = folder / "kernelwheel", folder / "setup.py"
    for project in (ours, theirs):
        shutil.copytree(package, project / "project")
    (theirs / "project/pyproject.toml").unlink()
    (theirs / "project/setup.py").write_text(SETUP)
    environ = {**os.environ, "TORCH_CUDA_ARCH_LIST": os.environ.get("TORCH_CUDA_ARCH_LIST", "9.0")}
    with_backend = {**environ, "PYTHONPATH": str(backend), "XDG_CACHE_HOME": str(folder / "cache")}
    with_toolkit = {**environ, **toolkit(folder / "lib")}
    rows = []
    for name, project, variables in (("kernelwheel", ours, with_backend), ("setup.py", theirs, with_toolkit)):
        first, size = build(project, variables)
        second, _ = build(project, variables)
        rows.append((name, first, size, second))
    print(f"architectures {environ['TORCH_CUDA_ARCH_LIST']}, {os.cpu_count()} cores")
    table(
        ["", "wall s", "CPU s", "peak MB", "wheel MB", "second build s"],
        [
            *([name, *row(first), f"{size:.2f}", f"{second.wall:.1f}"] for name, first, size, second in rows),
            ratio(rows),
        ],
    )
    print("the wheel of kernelwheel has the sources and what compiles them at run time")


def toolkit(folder: Path) -> dict[str, str]:
    """The variables by which cpp_extension finds pip's nvcc, and the linker `-lcudart`, which pip leaves out."""
    import torch

    root = next(Path(torch.__file__).parents[1].glob("nvidia/cu[0-9]*"))
    folder.mkdir(parents=True)
    (folder / "libcudart.so").symlink_to(next((root / "lib").glob("libcudart.so.*")))
    return {"CUDA_HOME": str(root), "LIBRARY_PATH": str(folder)}


def build(project: Path, environ: dict[str, str]) -> tuple[Usage, float]:
    """`pip wheel` of a project; returns its usage and the wheel's MB."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
    out = project / "out"
    usage = run([*command, "-w", str(out), str(project / "project")], project / "log", environ)
    (wheel,) = out.glob("*.whl")
    return usage, wheel.stat().st_size / 1e6


def row(usage: Usage) -> list[str]:
    """The columns of a build."""
    return [f"{usage.wall:.1f}", f"{usage.cpu:.1f}", f"{usage.peak_mb:.0f}"]


def ratio(rows: list[tuple[str, Usage, float, Usage]]) -> list[str]:
    """Ours divided by theirs."""
    (_, ours, our_size, our_second), (_, theirs, their_size, their_second) = rows
    pairs = (
        (ours.wall, theirs.wall), (ours.cpu, theirs.cpu), (ours.peak_mb, theirs.peak_mb), (our_size, their_size),
        (our_second.wall, their_second.wall),
    )  # fmt: skip
    return ["ratio", *(f"{one / other:.3f}" for one, other in pairs)]


if __name__ == "__main__":
    main(*(Path(argument).resolve() for argument in sys.argv[1:]))
