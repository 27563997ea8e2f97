"""Photographs of the built-in scene, with a COLMAP model or a transforms.json beside them, as others write them."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from splat.ops.rendering import rasterization
from splat.scene.builtin import knot_scene
from splat.scene.camera import Camera, orbit
from splat.scene.gaussians import Gaussians
from splat.scene.image import to_8_bit

WIDTH, HEIGHT = 40, 30


@cache
def knot() -> Gaussians:
    return knot_scene()


@cache
def cameras(count: int) -> list[Camera]:
    scene = knot()
    return [
        orbit(scene, WIDTH, HEIGHT, azimuth=i * 360 / count, elevation=(10.0, 30.0)[i % 2], fov=40, distance=0.9)
        for i in range(count)
    ]


def quaternion(rotation: Any) -> list[float]:
    """w, x, y, z of a rotation matrix: the axis that it leaves alone belongs to the eigenvalue 1 of this matrix."""
    m = np.asarray(rotation, dtype=np.float64)
    k = np.array(
        [
            [m[0, 0] - m[1, 1] - m[2, 2], 0, 0, 0],
            [m[1, 0] + m[0, 1], m[1, 1] - m[0, 0] - m[2, 2], 0, 0],
            [m[2, 0] + m[0, 2], m[2, 1] + m[1, 2], m[2, 2] - m[0, 0] - m[1, 1], 0],
            [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], m.trace()],
        ]
    )
    x, y, z, w = np.linalg.eigh(k / 3, UPLO="L")[1][:, -1]
    return [float(part) for part in (w, x, y, z)]


def points(count: int) -> tuple[Any, Any]:
    """Centres of the scene's Gaussians and their colours as bytes."""
    scene = knot()
    rows = torch.arange(0, len(scene), max(len(scene) // count, 1))[:count]
    colors = (0.5 + 0.282 * scene.sh[rows, 0]).clamp(0, 1).mul(255).byte()
    return scene.means[rows].numpy(), colors.numpy()


def take_pictures(folder: Path, count: int = 10) -> list[Camera]:
    """PNG files in a folder, named so that their order is that of the cameras."""
    folder.mkdir(parents=True)
    for index, image in enumerate(pictures(count)):
        image.save(folder / f"{index:02}.png")
    return cameras(count)


@cache
def pictures(count: int) -> list[Image.Image]:
    scene, taken = knot(), cameras(count)
    with torch.no_grad():
        images, _, _ = rasterization(
            scene.means, scene.quats, scene.scales, scene.opacities, scene.sh,
            torch.stack([camera.viewmat for camera in taken]), torch.stack([camera.K for camera in taken]),
            WIDTH, HEIGHT, sh_degree=scene.degree,
        )  # fmt: skip
    return [Image.fromarray(to_8_bit(image)) for image in images]


def text_model(taken: list[Camera], count: int = 300) -> dict[str, str]:
    """The three files of a model in text, by name."""
    focal = float(taken[0].K[0, 0])
    lines = {
        "cameras.txt": ["# a comment", f"7 SIMPLE_PINHOLE {WIDTH} {HEIGHT} {focal} {WIDTH / 2} {HEIGHT / 2}"],
        "images.txt": ["# two lines for each", "# image"],
        "points3D.txt": [],
    }
    for index, camera in enumerate(taken):
        pose = [*quaternion(camera.viewmat[:3, :3]), *camera.viewmat[:3, 3].tolist()]
        lines["images.txt"] += [f"{index + 1} {' '.join(map(str, pose))} 7 {index:02}.png", "1.5 2.5 -1" * (index % 2)]
    for index, (place, color) in enumerate(zip(*points(count), strict=True)):
        lines["points3D.txt"].append(
            f"{index + 1} {' '.join(map(str, [*place.tolist(), *color.tolist()]))} 0.5 1 0 2 0"
        )
    return {name: "\n".join(text) + "\n" for name, text in lines.items()}


def binary_model(taken: list[Camera], count: int = 300) -> dict[str, bytes]:
    """The same in binary files."""
    focal = float(taken[0].K[0, 0])
    camera_file = struct.pack("<QIiQQ3d", 1, 7, 0, WIDTH, HEIGHT, focal, WIDTH / 2, HEIGHT / 2)
    image_file = struct.pack("<Q", len(taken))
    for index, camera in enumerate(taken):
        pose = [*quaternion(camera.viewmat[:3, :3]), *camera.viewmat[:3, 3].tolist()]
        image_file += struct.pack("<I7dI", index + 1, *pose, 7) + f"{index:02}.png".encode() + b"\0"
        image_file += struct.pack("<Q", index % 2) + struct.pack("<ddq", 1.5, 2.5, -1) * (index % 2)
    places, colors = points(count)
    point_file = struct.pack("<Q", len(places))
    for index, (place, color) in enumerate(zip(places, colors, strict=True)):
        point_file += struct.pack("<Q3d3BdQ4I", index + 1, *place.tolist(), *color.tolist(), 0.5, 2, 1, 0, 2, 0)
    return {"cameras.bin": camera_file, "images.bin": image_file, "points3D.bin": point_file}


def colmap_folder(folder: Path, count: int = 10, binary: bool = True) -> Path:
    """A folder as COLMAP's undistorter leaves it: images and sparse."""
    taken = take_pictures(folder / "images", count)
    (folder / "sparse" / "0").mkdir(parents=True)
    files = binary_model(taken) if binary else {name: text.encode() for name, text in text_model(taken).items()}
    for name, data in files.items():
        (folder / "sparse" / "0" / name).write_bytes(data)
    return folder


def transforms(taken: list[Camera]) -> dict[str, Any]:
    """What a transforms.json says of the cameras."""
    frames = []
    for index, camera in enumerate(taken):
        to_world = np.linalg.inv(camera.viewmat.double().numpy()) @ np.diag([1.0, -1.0, -1.0, 1.0])
        frames.append({"file_path": f"images/{index:02}.png", "transform_matrix": to_world.tolist()})
    return {
        "camera_model": "OPENCV",
        "fl_x": float(taken[0].K[0, 0]),
        "fl_y": float(taken[0].K[1, 1]),
        "cx": WIDTH / 2,
        "cy": HEIGHT / 2,
        "w": WIDTH,
        "h": HEIGHT,
        "k1": 0.0,
        "frames": frames,
    }


def transforms_folder(folder: Path, count: int = 10, changes: dict[str, Any] | None = None) -> Path:
    """A folder as Nerfstudio's tools leave it."""
    write_transforms(folder, {**transforms(take_pictures(folder / "images", count)), **(changes or {})})
    return folder


def write_transforms(folder: Path, said: dict[str, Any], name: str = "transforms.json") -> None:
    (folder / name).write_text(json.dumps(said))
