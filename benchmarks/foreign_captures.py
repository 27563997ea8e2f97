"""Captures and scenes that others made, from their public repositories: what splat makes of them.

Usage: foreign_captures.py FOLDER [NAME...], by a Python that has splat with its extras for photographs and .spz.
The sources are in FOLDER/sources, by the names of their repositories; what is not there is cloned with git, at the
commit below. Each capture is fitted for 300 steps to pictures of 240 pixels and exported as a page; each scene is read,
written as .ply and .spz, read again and rendered. A row is printed when one is done, and the tables at the end. What
was made, to look at, and what was said are in FOLDER/work. This takes half an hour and is not a part of CI.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from measure import table

GITHUB = "github.com"
FIT = ("--max-size", "240", "--steps", "300")
LINES = 120


class Source(NamedTuple):
    """A capture or a scene as it is published.

    Attributes:
        name: what it is called here.
        kind: what it is.
        address: its repository, without `https://`.
        commit: the one that was tried.
        path: the folder or the file in it.
        before: what is done by hand first: a line for the shell, in a copy of the folder.
        images: the folder beside it that has the photographs, for --images.
    """

    name: str
    kind: str
    address: str
    commit: str
    path: str
    before: str = ""
    images: str = ""


# Poses of LLFF, whose axes of a camera are down, right and back, as the transforms.json of a capture with masks.
LLFF = """python - <<'END'
import json
from pathlib import Path
import numpy as np
poses = np.load("poses_bounds.npy")[:, :15].reshape(-1, 3, 5)
names = sorted(path.name for path in Path("images").iterdir())
frames = [
    {"file_path": f"images/{name}", "mask_path": f"masks/{Path(name).stem}_mask.JPG",
     "w": int(pose[1, 4]), "h": int(pose[0, 4]),
     "fl_x": pose[2, 4], "transform_matrix": np.stack([pose[:, 1], -pose[:, 0], pose[:, 2], pose[:, 3]], 1).tolist()}
    for name, pose in zip(names, poses, strict=True)
]
Path("transforms.json").write_text(json.dumps({"frames": frames}))
END"""
# As a phone that is held upright stores what it takes: lying, with a note that it is to be turned.
TURNED = """python - <<'END'
from pathlib import Path
from PIL import Image
for path in Path("images").glob("*.jpg"):
    picture = Image.open(path).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[274] = 6
    picture.save(path, quality=95, exif=exif)
END"""
NGP = (f"{GITHUB}/NVlabs/instant-ngp", "abe236ee00")
CAPTURES = (
    Source("fox", "instant-ngp's transforms.json", *NGP, "data/nerf/fox"),
    Source("fox, turned by EXIF", "the same, stored lying", *NGP, "data/nerf/fox", TURNED),
    Source(
        "fruit", "transforms.json, OPENCV distortion", f"{GITHUB}/tusharparimi/fruit-NeRF", "236cb0105d", "."
    ),
    Source("frames", "COLMAP, SIMPLE_RADIAL", f"{GITHUB}/yDing121/video_sfm_mvs", "9b52ed1040", "data"),
    Source("desk", "COLMAP, OPENCV", f"{GITHUB}/xu-zhy/VR-project", "6532dd01ea", "data/distorted", images="input"),
    Source("desk, undistorted", "3DGS's convert.py", f"{GITHUB}/xu-zhy/VR-project", "6532dd01ea", "data"),
    Source("mouse", "COLMAP, upright and lying", f"{GITHUB}/Myhan1023/mouse-3d-reconstruction", "7b95efcf85", "."),
    Source("figure", "COLMAP's undistorter", f"{GITHUB}/bartoszek/test_colmap", "79fce7a67f", "dense/0"),
    Source(
        "two models", "COLMAP, sparse/0 and 1", f"{GITHUB}/ConsideringName/upload-files", "b51e06beee", "distorted",
        images="images",
    ),
    Source("mary rose", "masks (poses of LLFF)", f"{GITHUB}/vork/maryRose", "807bff0548", ".", LLFF),
    Source("blender", "NeRF-synthetic, RGBA", f"{GITHUB}/rounak890/nerf_data", "0a47cb5f6c", "."),
    Source("dance", "transforms.json with K", f"{GITHUB}/xuxumiao777/dance_dataset", "b89584d3f1", "."),
)  # fmt: skip
ENGINE = (f"{GITHUB}/playcanvas/engine", "0aaef5e432")
SHOWROOM = (f"{GITHUB}/ekontoTURBO/gs-showroom", "bca3bd1072")
HOST = (f"{GITHUB}/haakongarfjell/splat-files", "5126efba1c")
SOG = (f"{GITHUB}/jfigbor/splats", "7c5ea4cd00")
FIXTURES = (f"{GITHUB}/playcanvas/splat-transform", "8d6b801f06")
SCENES = (
    Source("biker", ".compressed.ply", *ENGINE, "examples/assets/splats/biker.compressed.ply"),
    Source("guitar", ".compressed.ply", *ENGINE, "examples/assets/splats/guitar.compressed.ply"),
    Source(
        "pinstripe", ".compressed.ply", f"{GITHUB}/Olgelta/RGD-BlkPinstripe", "0b7609a2be", "scene.compressed.ply"
    ),
    Source("chair", ".splat", *HOST, "chair_gaussian.splat"),
    Source("airplane", ".splat", *HOST, "gaussian_splatting_airplane.splat"),
    Source("ARKit", ".splat", f"{GITHUB}/sagharborrum/arkit-to-colmap", "84d021390c", "scene.splat"),
    Source("model", ".spz", f"{GITHUB}/justdealman/justdealman.github.io", "0f4f1fea04", "model.spz"),
    Source("biker", ".spz", *ENGINE, "examples/assets/splats/biker.spz"),
    Source("pod", ".spz", f"{GITHUB}/amaebi-dm/babylonjs_work", "af3d41e1c6", "my-vite-app/assets/pod.spz"),
    Source("unpacked", ".spz", *FIXTURES, "test/fixtures/splat/minimal-raw.spz"),
    Source("scene", ".sog", *SOG, "scene.sog"),
    Source("owl", ".sog", *SOG, "modelos/capellania/Asio_stygius_20260719.sog"),
    Source("chair", ".ksplat", *SHOWROOM, "chair.ksplat"),
    Source("garden", ".ksplat", *SHOWROOM, "garden.ksplat"),
    Source("guitar", ".ksplat", *SHOWROOM, "guitar.ksplat"),
    Source(
        "web page", ".ksplat", f"{GITHUB}/momomo-agent/webgpu-3dgs", "8b48342d03", "bonsai.ksplat"
    ),
)  # fmt: skip


def main(folder: Path, names: Sequence[str]) -> int:
    """Try them, and print a row for each as it is done, and then the tables."""
    folder = folder.resolve()
    unknown = set(names) - {source.name for source in (*CAPTURES, *SCENES)}
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}")
        return 2
    for heads, sources, tried in (
        (["capture", "what it is", "PSNR", "CPU s", "said"], CAPTURES, fitted),
        (["scene", "format", "Gaussians", "as .ply and .spz", "CPU s", "said"], SCENES, converted),
    ):
        rows = []
        for source in sources:
            if not names or source.name in names:
                rows.append(tried(source, folder))
                print(" | ".join(rows[-1]), flush=True)
        if rows:
            table(heads, rows)
    return 0


def fitted(source: Source, folder: Path) -> list[str]:
    """Fit a scene to a capture, and make a page of it that can be sent."""
    work, place = prepared(source, folder)
    options = ["--images", str(place.parent / source.images)] if source.images else []
    words = ["fit", place, "-o", work / "scene.ply", *FIT, *options]
    seconds, status, said = splat(words, work)
    if status:
        return [source.name, source.kind, "", seconds, said]
    psnr = json.loads((work / "scene.quality.json").read_text())["psnr"]
    for command, made in (("export", "scene.html"), ("render", "first.png")):
        _, status, other = splat([command, work / "scene.ply", "-o", work / made], work)
        said += f"; {command}: {other}" if status else ""
    return [source.name, source.kind, f"{psnr:.1f}", seconds, said]


def converted(source: Source, folder: Path) -> list[str]:
    """Read a scene, write it in two formats, read these, and render all three."""
    work, place = prepared(source, folder)
    seconds, status, said = splat(["render", place, "-o", work / "first.png"], work)
    if status:
        return [source.name, source.kind, "", "", seconds, said]
    counts = []
    for ending in (".ply", ".spz"):
        other, back = work / f"scene{ending}", work / f"back{ending}.splat"
        for words in (["convert", place, other], ["convert", other, back]):
            _, status, more = splat(words, work)
            said += f"; {ending}: {more}" if status else ""
        splat(["render", other, "-o", work / f"as{ending}.png"], work)
        counts.append(gaussians(other, work))
    return [source.name, source.kind, gaussians(place, work), ", ".join(counts), seconds, said]


def gaussians(scene: Path, work: Path) -> str:
    """How many a scene has, as `info` says."""
    _, status, report = splat(["info", scene, "--json"], work, whole=True)
    return "none" if status else str(json.loads(report)["gaussians"])


def prepared(source: Source, folder: Path) -> tuple[Path, Path]:
    """An empty folder to work in, and the source, cloned if it is not there, after what is done by hand."""
    work = folder / "work" / re.sub(r"\W+", "-", source.name + source.kind[:9])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    clone = folder / "sources" / source.address.rpartition("/")[2]
    if not clone.is_dir() or not any(clone.iterdir()):
        subprocess.run(["git", "clone", "-q", f"https://{source.address}", clone], check=True)
        subprocess.run(["git", "-C", clone, "checkout", "-q", source.commit], check=True)
    place = clone / source.path
    if source.before:
        place = Path(shutil.copytree(place, work / "capture", ignore=shutil.ignore_patterns(".git")))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(["sh", "-ec", source.before], cwd=place, check=True, env={**os.environ, "PATH": path})
    return work, place


def splat(words: Sequence[object], work: Path, whole: bool = False) -> tuple[str, int, str]:
    """Run a command: CPU seconds, its status, and its warnings or its error (or all that it printed)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "splat", *map(str, words)]
    done = subprocess.run(command, cwd=work, text=True, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (work / "log.txt").open("a") as log:
        log.write(f"$ splat {' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    seconds = f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.0f}"
    if whole:
        return seconds, done.returncode, done.stdout
    start = "splat: " if done.returncode else "splat: warning: "
    lines = [line.removeprefix(start) for line in done.stderr.splitlines() if line.startswith(start)]
    # Which folder it lies in here says nothing.
    return seconds, done.returncode, "; ".join(re.sub(r"/\S*/(sources|work)/", "", line)[:LINES] for line in lines)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
