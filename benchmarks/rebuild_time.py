"""What a second build costs: of unchanged sources, from another folder; and after one .cu file was edited.

Usage: rebuild_time.py CHECKOUT FOLDER, run by a Python that can build this package without isolation.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from build_time import nothing_kept
from measure import Usage, run, table

EDITED = "csrc/cuda/launches.cu"


def main(checkout: Path, folder: Path) -> None:
    """Build three times and print the table."""
    shutil.rmtree(folder, ignore_errors=True)
    environ = {"TORCH_CUDA_ARCH_LIST": "9.0", **os.environ, **nothing_kept(folder / "empty")}
    for name in ("first", "second"):
        ignored = shutil.ignore_patterns(".git", ".cache", "__pycache__", "shared", "*.egg-info")
        shutil.copytree(checkout, folder / name, ignore=ignored)
    rows = [
        row("first build", build(folder, "first", environ)),
        row("unchanged, in another folder", build(folder, "second", environ)),
    ]
    with (folder / "first" / EDITED).open("a") as source:
        source.write("// edited\n")
    rows.append(row(f"{EDITED} edited", build(folder, "first", environ)))
    print(f"architectures {environ['TORCH_CUDA_ARCH_LIST']}, {os.cpu_count()} cores; the whole of `pip wheel`")
    table(["", "wall s", "CPU s", "compiled files"], rows)


def build(folder: Path, checkout: str, environ: dict[str, str]) -> tuple[Usage, int]:
    """`pip wheel` of a checkout without isolation: its usage, and how many files were compiled."""
    command = [sys.executable, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
    log = folder / "build.log"
    usage = run([*command, "-w", str(folder / "wheels"), str(folder / checkout)], log, environ)
    lines = (line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines())
    return usage, sum(line.startswith("[") and line.endswith((".cu", ".cpp")) for line in lines)


def row(name: str, built: tuple[Usage, int]) -> list[str]:
    """The cells of a build."""
    usage, compiled = built
    return [name, f"{usage.wall:.1f}", f"{usage.cpu:.1f}", str(compiled)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
