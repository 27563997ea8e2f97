"""Scenes as splat-transform reads and writes them, beside what splat does: the largest difference of each property.

Usage: convert_peer.py FOLDER SCENE...; node and npm are needed, which put splat-transform into the folder. Of a .ply
scene, each program writes the formats that both know, and splat-transform .glb, which it does not read. Each file, and
any other scene, is read by splat, and by splat-transform into a .ply file that splat reads: both have the Gaussians in
the order of the file.
"""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import torch

from splat.scene.formats import WRITERS, read_scene, write_scene
from splat.scene.gaussians import Gaussians
from splat.scene.rotations import rotate_scene

PEER = "@playcanvas/splat-transform@3.7.0"
FLIPPED = torch.diag(torch.tensor([1.0, -1, -1]))  # splat-transform takes the axes of .spz files for those of .ply


def main(folder: Path, scenes: list[Path]) -> None:
    """Print a table, with a row for each file."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--silent", "--no-save", "--prefix", folder, PEER], check=True, stdout=sys.stderr)
    print("| file | written by | bytes | centre | log of std | rotation, degrees | opacity | constant | harmonics |")
    print("|---|---|---|---|---|---|---|---|---|")
    for scene in scenes:
        if scene.suffix != ".ply":
            compare(folder, scene, "another program")
            continue
        transform(folder, scene, folder / "peer.glb")
        original = read_scene(scene)
        quats = original.quats[:, [3, 2, 1, 0]] * torch.tensor([-1.0, 1, -1, 1])  # of the same Gaussians' axes, turned
        theirs = Gaussians(**{**vars(original), "quats": quats})
        print_row(folder / "peer.glb", "splat-transform", read_scene(folder / "peer.glb"), theirs)
        for suffix in (suffix for suffix in WRITERS if suffix not in (".glb", ".gltf")):
            path = folder / f"peer{suffix}"
            transform(folder, scene, path)
            compare(folder, path, "splat-transform")
            path = folder / f"splat{suffix}"
            write_scene(path, read_scene(scene))
            compare(folder, path, "splat")


def transform(folder: Path, source: Path, output: Path) -> None:
    """Have splat-transform read a scene and write it."""
    program = folder / "node_modules" / ".bin" / "splat-transform"
    subprocess.run([program, "-q", "-w", "-g", "cpu", source, output], check=True, stdout=sys.stderr)


def compare(folder: Path, path: Path, writer: str) -> None:
    """Print the row of a file."""
    transform(folder, path, folder / "back.ply")
    ours, theirs = read_scene(path), read_scene(folder / "back.ply")
    if path.suffix == ".spz":
        quats = theirs.quats * torch.tensor([1.0, 1, -1, -1])  # of the axes of the same Gaussians, flipped too
        theirs = Gaussians(**{**vars(rotate_scene(theirs, FLIPPED)), "quats": quats})
    print_row(path, writer, ours, theirs)


def print_row(path: Path, writer: str, ours: Gaussians, theirs: Gaussians) -> None:
    """Print what differs in a file that two programs read."""
    found = " | ".join(f"{difference:.1g}" for difference in differences(ours, theirs))
    print(f"| `{path.name}` | {writer} | {path.stat().st_size} | {found} |", flush=True)


def differences(ours: Gaussians, theirs: Gaussians) -> list[float]:
    """The largest difference of each property, in the order of the table."""
    if len(ours) != len(theirs) or ours.degree != theirs.degree:
        raise SystemExit(f"{len(ours)} Gaussians of degree {ours.degree}, {len(theirs)} of degree {theirs.degree}")
    turns = [torch.nn.functional.normalize(scene.quats.double(), dim=1) for scene in (ours, theirs)]
    # Of the two quaternions of a rotation, the nearer one; half of the angle between is that of the chord.
    chords = torch.minimum((turns[0] - turns[1]).norm(dim=1), (turns[0] + turns[1]).norm(dim=1))
    # Half floats of .ksplat files are 0 below 3e-8; splat-transform makes e^-10 of it.
    logs = [scene.scales[ours.scales > 0].double().log() for scene in (ours, theirs)]
    rest = (ours.sh - theirs.sh)[:, 1:].abs()
    return [
        float((ours.means - theirs.means).abs().max()),
        float((logs[0] - logs[1]).abs().max()),
        math.degrees(4 * math.asin(float(chords.max()) / 2)),
        float((ours.opacities - theirs.opacities).abs().max()),
        float((ours.sh - theirs.sh)[:, 0].abs().max()),
        float(rest.max()) if rest.numel() else 0.0,
    ]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
