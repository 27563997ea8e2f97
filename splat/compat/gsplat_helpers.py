"""Two helpers that programs import from within gsplat 1.5.3.

A program writes::

    from splat.compat.gsplat_helpers import load_test_data       # was: from gsplat._helper import load_test_data
    from splat.compat.gsplat_helpers import _eval_sh_bases_fast  # was: from gsplat.cuda._torch_impl import ...
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from ..ops.harmonics import spherical_harmonics
from ..scene.npz import read_npz

__all__ = ["_eval_sh_bases_fast", "load_test_data"]

_Data = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int, int]


def _eval_sh_bases_fast(basis_dim: int, dirs: Tensor) -> Tensor:
    """Real spherical harmonics [..., K], with K = `basis_dim`: 1, 4, 9, 16 or 25; `dirs`, [..., 3], are of length 1."""
    degree, lead = math.isqrt(basis_dim) - 1, (1,) * (dirs.ndim - 1)
    # Each is the sum of all with one coefficient of 1; three at a time.
    single = torch.nn.functional.pad(torch.eye(basis_dim, device=dirs.device), (0, -basis_dim % 3))
    parts = [
        spherical_harmonics(degree, dirs, single[:, first : first + 3].reshape(*lead, basis_dim, 3))
        for first in range(0, basis_dim, 3)
    ]
    return torch.cat(parts, dim=-1)[..., :basis_dim]


def load_test_data(
    data_path: str | None = None,
    device: torch.device | str = "cuda",
    scene_crop: tuple[float, float, float, float, float, float] = (-2, -2, -2, 2, 2, 2),
    scene_grid: int = 1,
) -> _Data:
    """Points and cameras of a file as Gaussians of random shapes: gsplat's garden, which `data_path` names.

    The points within `scene_crop`, x, y, z from and to, are repeated `scene_grid` times, an odd number, along x and y.

    Returns:
        means [N, 3], quats [N, 4], scales [N, 3], opacities [N], colors [N, 3], viewmats [C, 4, 4], Ks [C, 3, 3],
        width and height.

    Raises:
        ValueError: if the file is damaged or lacks an array, or `scene_grid` is even.
        OSError: if it cannot be opened, or none is named.
    """
    if scene_grid % 2 != 1:
        raise ValueError(f"scene_grid must be odd, found {scene_grid}")
    if data_path is None:
        raise FileNotFoundError(
            "data_path must name the garden of gsplat, assets/test_garden.npz in its repository; it is not in splat"
        )
    names = ("height", "width", "viewmats", "Ks", "means3d", "colors")
    arrays, found = read_npz(Path(data_path), names)
    if missing := [name for name in names if name not in arrays]:
        raise ValueError(f"{data_path}: the arrays {', '.join(names)} are required, missing: {missing}; found {found}")
    viewmats, Ks, means = (torch.from_numpy(arrays[name]).float().to(device) for name in ("viewmats", "Ks", "means3d"))
    colors = torch.from_numpy(arrays["colors"] / 255.0).float().to(device)
    low, high = torch.tensor(scene_crop, device=device).float().reshape(2, 3)
    inside = ((means >= low) & (means <= high)).all(dim=-1)
    steps = torch.arange(-(scene_grid // 2), scene_grid // 2 + 1, device=device)
    moves = torch.cartesian_prod(steps, steps, torch.zeros_like(steps[:1])) * (high - low)
    means = (means[inside] + moves[:, None]).flatten(0, 1)
    count = len(means)
    scales = torch.rand(count, 3, device=device) * 0.02
    quats = torch.nn.functional.normalize(torch.randn(count, 4, device=device), dim=-1)
    opacities = torch.rand(count, device=device)
    size = int(arrays["width"]), int(arrays["height"])
    return means, quats, scales, opacities, colors[inside].repeat(len(moves), 1), viewmats, Ks, *size
