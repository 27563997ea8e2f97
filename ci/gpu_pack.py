"""The folder that a machine with a GPU and without a network is given: wheels, scenes, counts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LIMIT = 48 * 2**20
SCENES = ("test_garden.npz", "bulba.ply")
COUNTS = "counts.json"
# What the tests and the package import besides torch: modules and what brings them.
NEEDED = {
    "numpy": "numpy",
    "packaging": "packaging",
    "PIL": "pillow",
    "rich": "rich",
    "markdown_it": "markdown-it-py",
    "mdurl": "mdurl",
    "pygments": "pygments",
    "pytest": "pytest",
    "pluggy": "pluggy",
    "iniconfig": "iniconfig",
    "hypothesis": "hypothesis",
    "sortedcontainers": "sortedcontainers",
}
# The peer of the benchmark, with what compiles it.
PEER = {"gsplat": "gsplat==1.5.3", "jaxtyping": "jaxtyping", "wadler_lindig": "wadler-lindig", "ninja": "ninja"}
PYTHON = "3.12"


class Refused(Exception):
    """What was required, what was found, and how to fix it."""


def make(folder: Path, wheels: Sequence[Path], version: str, scenes: Sequence[Path], counts: Path | None) -> None:
    """The folder, anew; what is there is replaced when all is at hand.

    Raises:
        Refused: a scene is missing, a download fails, the folder has other things in it, or it gets too large.
    """
    found = find_scenes(scenes)
    check_packed(folder)
    new = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(new, ignore_errors=True)
    (new / "scenes").mkdir(parents=True)
    download(new, version)
    for wheel in wheels:
        shutil.copy(wheel, new)
    for scene in found:
        shutil.copy(scene, new / "scenes")
    if counts:
        shutil.copy(counts, new / COUNTS)
    check_size(new)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


def find_scenes(folders: Sequence[Path]) -> list[Path]:
    """Those of the tests, each from the first folder that has it."""
    places = {name: [folder / name for folder in folders if (folder / name).is_file()] for name in SCENES}
    missing = [name for name, there in places.items() if not there]
    if missing:
        looked = ", ".join(str(folder) for folder in folders)
        raise Refused(
            f"required: {' and '.join(SCENES)}; found: no {' and no '.join(missing)} in {looked}; to fix: name their "
            "folder in SPLAT_TEST_SCENES"
        )
    return [there[0] for there in places.values()]


def check_packed(folder: Path) -> None:
    """Whether it may be replaced: it is new, or has what is packed, and nothing else."""
    ours = {"scenes", COUNTS}
    there = folder.iterdir() if folder.exists() else ()
    other = [path.name for path in there if path.name not in ours and path.suffix != ".whl"]
    if other:
        raise Refused(
            f"required: a new or packed folder; found: {folder} with {', '.join(sorted(other))}; to fix: name another"
        )


def download(folder: Path, version: str) -> None:
    """What a machine may lack, for its Python."""
    options = ["--no-deps", "--only-binary=:all:", "--python-version", version, "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *options]
    done = subprocess.run([*command, *NEEDED.values(), *PEER.values()], check=False)
    if done.returncode:
        raise Refused(f"required: wheels for Python {version}; found: pip failed, as above; to fix: see there")


def size_of(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def check_size(folder: Path, limit: int = LIMIT) -> None:
    """Whether it can be carried."""
    size = size_of(folder)
    if size >= limit:
        largest = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
        raise Refused(
            f"required: less than {limit / 2**20:.0f} MiB; found: {size / 2**20:.1f} MiB in {folder}, most of it "
            f"{largest.name}; to fix: build the wheel for fewer architectures (TORCH_CUDA_ARCH_LIST)"
        )


def wheels_to_install(wheels: Sequence[Path], modules: set[str]) -> list[Path]:
    """The wheels to install: splat's, and those whose modules this Python lacks."""
    names = {requirement.partition("==")[0]: module for module, requirement in (NEEDED | PEER).items()}
    chosen = []
    for wheel in wheels:
        module = names.get(wheel.name.partition("-")[0].replace("_", "-").lower())
        if module is None or module not in modules:
            chosen.append(wheel)
    return chosen
