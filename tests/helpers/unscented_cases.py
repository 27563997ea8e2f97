"""Lenses, shutters and parameters of the unscented transform that tests have in common, for two cameras."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from unscented_reference import rotation_of

from splat import FThetaCameraDistortionParameters, FThetaPolynomialType, UnscentedTransformParameters

RADIAL, TANGENTIAL, PRISM = (-0.2, 0.05, -0.01, 0.03, 0.02, -0.004), (0.003, -0.002), (0.004, 0.001, -0.003, 0.002)
FISHEYE = (0.05, -0.02, 0.003, -0.001)


def for_two(*values: float) -> Tensor:
    return torch.tensor(values).expand(2, -1)


def ftheta(kind: FThetaPolynomialType, max_angle: float = 1.2) -> FThetaCameraDistortionParameters:
    """A lens of which either polynomial is nearly the other's inverse."""
    pixels, angles = (0.0, 0.02, 1e-6, -1e-6, 1e-8, 0.0), (0.0, 50.0, -0.1, 6.0, -3.0, 0.2)
    return FThetaCameraDistortionParameters(kind, pixels, angles, max_angle, (0.99, 1e-3, -2e-3))


LENSES: dict[str, dict[str, Any]] = {
    "plain": {},
    "radial": {"radial_coeffs": for_two(*RADIAL)},
    "opencv": {
        "radial_coeffs": for_two(*RADIAL),
        "tangential_coeffs": for_two(*TANGENTIAL),
        "thin_prism_coeffs": for_two(*PRISM),
    },
    "fisheye": {"camera_model": "fisheye", "radial_coeffs": for_two(*FISHEYE)},
    "fisheye without coefficients": {"camera_model": "fisheye"},
    "fisheye that turns": {"camera_model": "fisheye", "radial_coeffs": for_two(-0.3, 0.05, 0.0, 0.0)},
    **{
        f"f-theta, {kind.name}": {"camera_model": "ftheta", "ftheta_coeffs": ftheta(kind)}
        for kind in FThetaPolynomialType
    },
}
TRANSFORMS = {
    "default": UnscentedTransformParameters(),
    "any point": UnscentedTransformParameters(require_all_sigma_points_valid=False),
    "wide": UnscentedTransformParameters(alpha=0.8, beta=1.0, kappa=0.5, in_image_margin_factor=0.4),
}


def moved(viewmats: Tensor) -> Tensor:
    """Where the cameras are a little later."""
    turn = torch.eye(4)
    turn[:3, :3] = torch.tensor(rotation_of(np.array([1.0, 0.02, -0.04, 0.01])), dtype=torch.float32)
    turn[:3, 3] = torch.tensor([0.08, -0.05, 0.02])
    return turn @ viewmats
