"""`export_splats`: Gaussians as they are trained, as a file, with gsplat 1.5.3's parameters."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final, Literal

import torch
from torch import Tensor

from .file_input import usable
from .file_output import replacing
from .formats import WRITERS
from .gaussians import Gaussians

_ENDINGS: Final = {"ply": ".ply", "splat": ".splat", "ply_compressed": ".compressed.ply"}


def export_splats(
    means: Tensor,
    scales: Tensor,
    quats: Tensor,
    opacities: Tensor,
    sh0: Tensor,
    shN: Tensor,
    format: Literal["ply", "splat", "ply_compressed"] = "ply",
    save_to: str | None = None,
) -> bytes:
    """A file of Gaussians: the bytes, which are written to `save_to` too.

    gsplat 1.5.3's function, through the writers of `splat convert`: rotations are normalised, Gaussians that are not
    finite or have no rotation are left out with a warning, and `.splat` has no harmonics above degree 0.

    Args:
        means: [N, 3] centres.
        scales: [N, 3], logarithms of the standard deviations.
        quats: [N, 4] rotations w, x, y, z.
        opacities: [N], logits.
        sh0: [N, 1, 3], the constant coefficients of spherical harmonics.
        shN: [N, K, 3], the others: K is 0, 3, 8, 15 or 24.
        format: "ply", "splat" or "ply_compressed".
        save_to: the file's name, with any ending; an existing file is replaced.

    Raises:
        TypeError: if one of them is no tensor.
        ValueError: if a shape or the format is wrong.
        OSError: if the file cannot be written.
    """
    if format not in _ENDINGS:
        raise ValueError(f"format must be one of {', '.join(map(repr, _ENDINGS))}, found {format!r}")
    given = {"means": means, "scales": scales, "quats": quats, "opacities": opacities, "sh0": sh0, "shN": shN}
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, found {type(value).__name__}")
    count = len(means) if means.ndim else 0
    if sh0.shape != (count, 1, 3) or shN.shape not in [(count, bands, 3) for bands in (0, 3, 8, 15, 24)]:
        raise ValueError(
            f"sh0 and shN must have shapes [N, 1, 3] and [N, K, 3] with N = {count} and K = 0, 3, 8, 15 or 24, found "
            f"{list(sh0.shape)} and {list(shN.shape)}"
        )
    with torch.no_grad():
        values = means, quats, scales.exp(), opacities.sigmoid(), torch.cat([sh0, shN], dim=1)
        means, quats, scales, opacities, sh = (each.cpu().float() for each in values)
        scene = Gaussians(means, quats, scales, opacities, sh)
    scene = usable(scene, Path(save_to or format))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"scene{_ENDINGS[format]}")
        WRITERS[_ENDINGS[format]].write(path, scene)
        data = path.read_bytes()
    if save_to:
        with replacing(Path(save_to)) as file:
            file.write(data)
    return data
