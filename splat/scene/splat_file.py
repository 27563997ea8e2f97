"""The .splat format: 32 bytes for each Gaussian and nothing else, as antimatter15's viewer defines it.

Little-endian, in this order: centre (3 float32), standard deviations (3 float32), colour and opacity (4 bytes, 0 to 255
for 0 to 1), rotation (4 bytes w, x, y, z, 0 to 255 for -1 to just below 1). The colour is that of the constant
spherical harmonic alone. Source: github.com/antimatter15/splat, convert.py and main.js.

A byte of a rotation stands for an interval: convert.py and splat-transform write 128 q + 128 without what is behind the
point. Its middle is read, as splat-transform does; viewers that read its lower end turn Gaussians by up to 0.9 degrees.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from .coordinates import float32_losses
from .file_input import bytes_left, scene_file, usable
from .file_output import check_writable, replacing
from .gaussians import SH_C0, Gaussians, SceneError

RECORD: Final = np.dtype([("mean", "<f4", 3), ("scale", "<f4", 3), ("color", "u1", 4), ("quat", "u1", 4)])
"""One Gaussian."""
_ROWS: Final = 2**15
"""Rows that are read at a time."""

Records = npt.NDArray[np.void]


def read_splat(path: str | Path) -> Gaussians:
    """Read the Gaussians of a .splat file, on the CPU, with spherical harmonics of degree 0.

    Gaussians with a NaN, an infinity or a rotation of length 0 are left out, with a warning that says how many.

    An empty file has none.

    Raises SceneError if the file is not a whole number of records, OSError if it cannot be opened.
    """
    path = Path(path)
    with scene_file(path) as file:
        size = bytes_left(file)
        rows, rest = divmod(size, RECORD.itemsize)
        if rest:
            raise SceneError(f"a .splat file has {RECORD.itemsize} bytes for each Gaussian, found {size} bytes")
        table = np.empty(rows, RECORD)
        for start in range(0, rows, _ROWS):
            part = table[start : start + _ROWS]
            data = file.read(part.nbytes)
            if len(data) != part.nbytes:
                raise SceneError(f"the file must have {size} bytes, as it had when it was opened: truncated")
            part[:] = np.frombuffer(data, RECORD)
    return usable(decode_splat(table), path)


def write_splat(path: str | Path, scene: Gaussians) -> None:
    """Write a scene as a .splat file; `splat_losses` says what is lost.

    The file appears complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not end in .splat, OSError if the file cannot be written.
    """
    path = check_writable(path, ".splat", "such scenes")
    data = encode_splat(scene).tobytes()
    with replacing(path) as file:
        file.write(data)


def decode_splat(table: Records) -> Gaussians:
    """The Gaussians of records [N] of the type RECORD."""
    # A negative standard deviation makes the same Gaussian as a positive one; other formats store its logarithm.
    scales = np.abs(table["scale"])
    color = table["color"].astype(np.float32) / np.float32(255)
    # The middle of nothing would be a rotation.
    middles = (table["quat"].astype(np.float32) - np.float32(127.5)) * (table["quat"] != 128).any(axis=1, keepdims=True)
    quats = torch.nn.functional.normalize(torch.from_numpy(middles), dim=1).numpy()
    sh = (color[:, None, :3] - np.float32(0.5)) / np.float32(SH_C0)
    arrays = (np.ascontiguousarray(table["mean"]), quats, scales, np.ascontiguousarray(color[:, 3]), sh)
    return Gaussians(*(torch.from_numpy(array.astype(np.float32, copy=False)) for array in arrays))


def encode_splat(scene: Gaussians) -> Records:
    """Records [N] of the type RECORD, of a scene without NaN."""
    table = np.empty(len(scene), RECORD)
    table["mean"] = scene.coordinates.detach().cpu().numpy()
    table["scale"] = scene.scales.detach().cpu().numpy()
    color = torch.cat([_colors(scene), scene.opacities.detach()[:, None]], dim=1)
    table["color"] = _to_bytes((255 * color).round())
    table["quat"] = _to_bytes((128 * torch.nn.functional.normalize(scene.quats.detach(), dim=1) + 128).floor())
    return table


def splat_losses(scene: Gaussians) -> list[str]:
    """What a .splat file cannot hold of a scene, a phrase each."""
    losses = float32_losses(scene.offset)
    if scene.antialiased:
        losses.append("that it is to be drawn antialiased is dropped")
    if scene.degree:
        losses.append(
            f"spherical harmonics of degree 1 to {scene.degree} are dropped: colours will look the same from everywhere"
        )
    colors = _colors(scene)
    outside = int(((colors < 0) | (colors > 1)).any(dim=1).sum())
    if outside:
        losses.append(f"colours outside 0 to 1 are clamped (in {outside} of {len(scene)} Gaussians)")
    return losses


def _colors(scene: Gaussians) -> torch.Tensor:
    return 0.5 + SH_C0 * scene.sh[:, 0].detach()


def _to_bytes(values: torch.Tensor) -> npt.NDArray[np.uint8]:
    """Clamped to what a byte can hold."""
    array: npt.NDArray[np.uint8] = values.clamp(0, 255).byte().cpu().numpy()
    return array
