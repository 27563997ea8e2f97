"""What the steps of ci/gpu import and find: the wheels that a machine lacks, in a folder, and the environment."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_pack import NEEDED, PEER, Refused, wheels_to_install

ROOT = Path(__file__).resolve().parents[1]


def install(wheels: Sequence[Path], folder: Path) -> Path:
    """splat, and what this Python lacks, in a folder of their own, which stays: compiled kernels know its files' times.

    Named so, as hypothesis takes the constants of other code for those of a test.

    Raises:
        Refused: pip fails, or something is missing still.
    """
    site = folder / "site-packages"
    everything = NEEDED | PEER
    there = {module for module in everything if importlib.util.find_spec(module) is not None}
    chosen = wheels_to_install(wheels, there)
    words = "\n".join(f"{wheel.name} {wheel.stat().st_size}" for wheel in chosen)
    mark = site / "installed.txt"
    if not mark.exists() or mark.read_text() != words:
        shutil.rmtree(site, ignore_errors=True)
        options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, "--target", str(site), *map(str, chosen)], check=False
        )
        if done.returncode:
            raise Refused("required: wheels that pip installs; found: it failed, as above; to fix: ci/gpu --pack")
        mark.write_text(words)
    lacking = [name for module, name in NEEDED.items() if module not in there and not is_in(site, module)]
    if lacking:
        version = ".".join(map(str, sys.version_info[:2]))
        raise Refused(
            f"required: {', '.join(NEEDED.values())}; found: all but {', '.join(lacking)}; to fix: where "
            f"there is a network, ci/gpu --pack FOLDER --python {version} WHEEL; then name FOLDER here"
        )
    return site


def is_in(site: Path, module: str) -> bool:
    """Whether a folder has a module."""
    return (site / module).exists() or (site / f"{module}.py").exists()


def environment(site: Path, state: Path, folders: Sequence[Path], capability: str) -> dict[str, str]:
    """Of the steps: our packages, the programs beside Python (ninja), no JIT of splat, and gsplat's in the state."""
    ninja = importlib.util.find_spec("ninja")
    brought = [Path(ninja.origin).parent / "data" / "bin"] if ninja and ninja.origin else []
    programs = [site / "bin", Path(sys.executable).parent, *brought]
    paths = [site, ROOT / "benchmarks", ROOT / "ci"]
    env = dict(os.environ) | {
        "PATH": os.pathsep.join([*map(str, programs), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join([*map(str, paths), *filter(None, [os.environ.get("PYTHONPATH", "")])]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "SPLAT_JIT": "never",
        "TORCH_EXTENSIONS_DIR": str(state / "build"),
    }
    if capability:
        env["TORCH_CUDA_ARCH_LIST"] = capability
    scenes = [folder / "scenes" for folder in folders if (folder / "scenes").is_dir()]
    return env | ({"SPLAT_TEST_SCENES": env.get("SPLAT_TEST_SCENES") or str(scenes[0])} if scenes else {})
