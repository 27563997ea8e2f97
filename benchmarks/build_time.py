"""Building the CUDA kernels: this package's wheel against gsplat's JIT build, one after the other.

Usage: build_time.py CHECKOUT PYTHON-WITH-GSPLAT FOLDER, run by a Python that can build this package without isolation.
Both use the nvcc of pip's cuda-toolkit of the same release, the same torch and the same architecture list.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from measure import Usage, run, table


def main(checkout: Path, gsplat_python: Path, folder: Path) -> None:
    """Measure both builds and print the table."""
    archs = os.environ.get("TORCH_CUDA_ARCH_LIST", "9.0")
    jobs = os.environ.get("MAX_JOBS", str(os.cpu_count()))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environ = {**os.environ, "TORCH_CUDA_ARCH_LIST": archs, "MAX_JOBS": jobs, **nothing_kept(folder / "empty")}
    ours, our_wheel, our_size = build_ours(checkout, folder, environ)
    theirs, their_size = build_gsplat(gsplat_python, folder, environ)
    print(f"architectures {archs}, {jobs} jobs, {os.cpu_count()} cores")
    table(
        ["", "wall s", "CPU s", "peak MB", "library MB", "wheel MB"],
        [
            ["splat", *row(ours), f"{our_size:.2f}", f"{our_wheel:.2f}"],
            ["gsplat 1.5.3", *row(theirs), f"{their_size:.2f}", "-"],
            [
                "ratio",
                f"{ours.wall / theirs.wall:.3f}",
                f"{ours.cpu / theirs.cpu:.3f}",
                f"{ours.peak_mb / theirs.peak_mb:.3f}",
                f"{our_size / their_size:.3f}",
                "",
            ],
        ],
    )
    print("splat is the whole of `pip wheel`, CPU kernels included; gsplat its JIT build of the CUDA kernels")


def nothing_kept(folder: Path) -> dict[str, str]:
    """The variables of a machine on which this package was never built: an empty store and temporary folder."""
    (folder / "tmp").mkdir(parents=True)
    return {"SPLAT_CACHE_DIR": str(folder / "store"), "TMPDIR": str(folder / "tmp")}


def build_ours(checkout: Path, folder: Path, environ: dict[str, str]) -> tuple[Usage, float, float]:
    """`pip wheel` without isolation; returns its usage, the wheel's MB and the CUDA library's MB."""
    from zipfile import ZipFile

    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
    usage = run([*command, "-w", str(folder), str(checkout)], folder / "splat.log", environ)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        size = sum(each.file_size for each in archive.infolist() if "/libsplat_cuda" in each.filename)
    return usage, wheel.stat().st_size / 1e6, size / 1e6


def build_gsplat(python: Path, folder: Path, environ: dict[str, str]) -> tuple[Usage, float]:
    """gsplat's own JIT build, in an empty cache; returns its usage and the library's MB."""
    where = "import nvidia.cu13 as m; print(list(m.__path__)[0])"
    toolkit = Path(subprocess.run([python, "-c", where], capture_output=True, text=True, check=True).stdout.strip())
    cuda_home(toolkit, folder / "cuda")
    environ = gsplat_environment(python, folder, environ)
    usage = run([str(python), "-c", "from gsplat.cuda._backend import _C; assert _C"], folder / "gsplat.log", environ)
    (library,) = (folder / "torch_extensions").rglob("gsplat_cuda.so")
    return usage, library.stat().st_size / 1e6


def gsplat_environment(python: Path, folder: Path, environ: dict[str, str]) -> dict[str, str]:
    """What gsplat's JIT build needs to know: the toolkit, its cache, and where ninja is."""
    return {
        **environ,
        "CUDA_HOME": str(folder / "cuda"),
        "TORCH_EXTENSIONS_DIR": str(folder / "torch_extensions"),
        "PATH": f"{python.parent}{os.pathsep}{environ['PATH']}",
    }


def cuda_home(toolkit: Path, home: Path) -> None:
    """pip's toolkit as torch's extension builder wants it: with lib64 and an unversioned libcudart.so."""
    (home / "lib64").mkdir(parents=True)
    for name in ("bin", "include", "nvvm"):
        (home / name).symlink_to(toolkit / name)
    for library in (toolkit / "lib").iterdir():
        (home / "lib64" / library.name).symlink_to(library)
    (home / "lib64" / "libcudart.so").symlink_to(next((toolkit / "lib").glob("libcudart.so.*")))


def row(usage: Usage) -> list[str]:
    """The three cells of a usage."""
    return [f"{usage.wall:.1f}", f"{usage.cpu:.1f}", f"{usage.peak_mb:.0f}"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
