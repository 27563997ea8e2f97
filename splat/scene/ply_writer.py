"""Writing Gaussians as a PLY file, with the properties that the original 3D Gaussian Splatting code writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from .coordinates import NO_OFFSET
from .file_output import check_writable, replacing
from .gaussians import Gaussians
from .ply_comments import comments_of

# An opacity of 1 has no logit, and a scale of 0 has no logarithm; these are written instead.
_MOST_OPAQUE = 1 - 2.0**-24
_THINNEST = 1e-30


def check_scene_file(path: str | Path) -> Path:
    """Raise ValueError or OSError if `write_ply` would, before any work is done for the scene."""
    return check_writable(path, ".ply", "scenes")


def write_ply(path: str | Path, scene: Gaussians) -> None:
    """Write a scene as a binary little-endian PLY file, which `read_ply` reads.

    The file appears complete or not at all; an existing one is replaced. Properties, all float: x, y, z (double if the
    scene has an offset, which is added), nx, ny, nz (0), f_dc_0..2, f_rest_0.. (all of red, then green, then blue),
    opacity (logit), scale_0..2 (log) and rot_0..3 (w, x, y, z, normalised).

    Raises ValueError if the name does not end in .ply, OSError if the file cannot be written.
    """
    path = check_scene_file(path)
    n = len(scene)
    rest = scene.sh[:, 1:].transpose(1, 2).flatten(1)
    columns = {
        **_named("xyz", scene.coordinates),
        **_named(("nx", "ny", "nz"), torch.zeros(n, 3)),
        **_named([f"f_dc_{i}" for i in range(3)], scene.sh[:, 0]),
        **_named([f"f_rest_{i}" for i in range(rest.shape[1])], rest),
        "opacity": scene.opacities.double().clamp(max=_MOST_OPAQUE).logit(),
        **_named([f"scale_{i}" for i in range(3)], scene.scales.clamp_min(_THINNEST).log()),
        **_named([f"rot_{i}" for i in range(4)], torch.nn.functional.normalize(scene.quats, dim=1)),
    }
    doubles = "xyz" if scene.offset != NO_OFFSET else ""
    rows = np.empty(n, dtype=[(name, "<f8" if name in doubles else "<f4") for name in columns])
    for name, values in columns.items():
        rows[name] = values.detach().cpu().numpy()
    header = ["ply", "format binary_little_endian 1.0", *comments_of(scene), f"element vertex {n}"]
    header += [f"property {'double' if name in doubles else 'float'} {name}" for name in columns]
    with replacing(path) as file:
        file.write("\n".join([*header, "end_header\n"]).encode("ascii"))
        file.write(rows.tobytes())


def _named(names: str | tuple[str, ...] | list[str], values: torch.Tensor) -> dict[str, torch.Tensor]:
    return dict(zip(names, values.unbind(1), strict=True))
