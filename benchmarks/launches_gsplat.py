"""Stand-ins for gsplat 1.5.3's CUDA functions, which return tensors of the right shapes: its Python code runs on a CPU.

All Gaussians are seen, each in one tile, and the image is black.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes


class CudaFunctions:
    """What gsplat's `rasterization` uses of its compiled module; `called` gets the name of each function called."""

    CameraModelType = None
    PINHOLE = 0

    def __init__(self, called: Callable[[str], None]) -> None:
        self._called = called

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A function of the compiled module; what torch does in it is not recorded."""
        function = FUNCTIONS[name]

        def call(*arguments: Any) -> Any:
            self._called(name)
            with _disable_current_modes():
                return function(*arguments)

        return call


def projection(means: Tensor, *others: Any) -> tuple[Tensor | None, ...]:
    """Where the images begin, batch, camera and Gaussian, radii, means, depths, conics, and no compensations."""
    n = means.shape[0]
    zeros = torch.zeros(n, dtype=torch.int64)
    radii = torch.ones(n, 2, dtype=torch.int32)
    return zeros, zeros, zeros, torch.arange(n), radii, torch.zeros(n, 2), torch.ones(n), torch.zeros(n, 3), None


def projection_backward(means: Tensor, covars: Any, quats: Tensor, scales: Tensor, *others: Any) -> tuple[Any, ...]:
    """The gradients of means, covariances, quaternions, scales and poses."""
    return torch.zeros_like(means), None, torch.zeros_like(quats), torch.zeros_like(scales), None


def harmonics(degree: int, directions: Tensor, *others: Any) -> Tensor:
    """Colours."""
    return torch.zeros_like(directions)


def harmonics_backward(bases: int, degree: int, directions: Tensor, coefficients: Tensor, *others: Any) -> Any:
    """The gradients of coefficients and directions."""
    return torch.zeros_like(coefficients), torch.zeros_like(directions)


def intersect(means2d: Tensor, radii: Tensor, depths: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers of tiles, keys, Gaussians."""
    n = len(depths)
    return torch.ones(n, dtype=torch.int32), torch.zeros(n, dtype=torch.int64), torch.arange(n, dtype=torch.int32)


def offsets(keys: Tensor, images: int, columns: int, rows: int) -> Tensor:
    """Where the tiles begin."""
    return torch.zeros(images, rows, columns, dtype=torch.int32)


def pixels(means2d: Tensor, conics: Tensor, colors: Tensor, *others: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Colours, alphas, and the last Gaussians."""
    width, height = others[3:5]
    black = torch.zeros(1, height, width, colors.shape[-1])
    return black, black[..., :1].clone(), torch.zeros(1, height, width, dtype=torch.int32)


def pixels_backward(
    means2d: Tensor, conics: Tensor, colors: Tensor, opacities: Tensor, *others: Any
) -> tuple[Any, ...]:
    """The gradients; absolute ones are not asked for."""
    return None, *(torch.zeros_like(tensor) for tensor in (means2d, conics, colors, opacities))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "projection_ewa_3dgs_packed_fwd": projection,
    "projection_ewa_3dgs_packed_bwd": projection_backward,
    "spherical_harmonics_fwd": harmonics,
    "spherical_harmonics_bwd": harmonics_backward,
    "intersect_tile": intersect,
    "intersect_offset": offsets,
    "rasterize_to_pixels_3dgs_fwd": pixels,
    "rasterize_to_pixels_3dgs_bwd": pixels_backward,
}
