"""The values of .spz files: the bytes of each attribute, and the numbers that they stand for.

Source: github.com/nianticlabs/spz, README.md and src/cc/load-spz.cc (2026). An attribute is stored for all Gaussians
before the next one begins. In memory scenes have the axes of 3DGS and COLMAP (x right, y down, z forward); .spz files
have those of OpenGL (x right, y up, z back) unless they say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from .axes import OPENGL_AXES, Axes, harmonic_signs, quaternion_signs
from .coordinates import NO_OFFSET, rounded_centres
from .gaussians import Gaussians, SceneError

USUAL_FRACTIONAL_BITS: Final = 12
"""How finely centres are written, unless the scene is very small or very large: to 1/4096."""
MOST_FRACTIONAL_BITS: Final = 24
"""The most that the reference reads."""
FIRST_SMALLEST_THREE: Final = 3
"""The first version that stores rotations without their largest component."""

_LARGEST_CENTRE: Final = 2**23 - 1
_STEPS: Final = 2**12
"""From the origin to the furthest centre there are at least so many steps, where bits allow it."""
LOG_SCALE_STEP: Final = 1 / 16
"""Standard deviations are held by their logarithms, in steps of this,"""
_LOG_SCALES: Final = (-10.0, 255 * LOG_SCALE_STEP - 10.0)
"""from the first of these to the second."""
_COLOR: Final = 0.15
"""Bytes of colour are 255 (0.5 + 0.15 c), for a constant coefficient c of the spherical harmonics."""
_LARGEST_COLOR: Final = 0.5 / _COLOR
_SH_STEPS: Final = (8, 16)
"""Coefficients of degree 1 are written in steps of 8/128, others in steps of 16/128, as the reference does: that
compresses better."""

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def widths(version: int, degree: int) -> dict[str, int]:
    """Bytes per Gaussian of each attribute, in the order of the file."""
    return {
        "positions": 6 if version == 1 else 9,
        "alphas": 1,
        "colors": 3,
        "scales": 3,
        "rotations": 4 if version >= FIRST_SMALLEST_THREE else 3,
        "sh": 3 * ((degree + 1) ** 2 - 1),
    }


def decode_spz(values: Mapping[str, Bytes], version: int, fractional_bits: int, axes: Axes = OPENGL_AXES) -> Gaussians:
    """The Gaussians of attributes [N, width]."""
    n = len(values["alphas"])
    means = _halves(values["positions"]) if version == 1 else _fixed_point(values["positions"], fractional_bits)
    smallest_three = version >= FIRST_SMALLEST_THREE
    quats = _from_smallest_three(values["rotations"]) if smallest_three else _from_first_three(values["rotations"])
    sh = np.empty((n, 1 + values["sh"].shape[1] // 3, 3), np.float32)
    sh[:, 0] = (values["colors"] / np.float32(255) - np.float32(0.5)) / np.float32(_COLOR)
    sh[:, 1:] = (values["sh"].astype(np.float32).reshape(n, sh.shape[1] - 1, 3) - 128) / 128
    arrays = (
        means * np.array(axes, np.float32),
        quats * quaternion_signs(axes),
        np.exp(values["scales"].astype(np.float32) * LOG_SCALE_STEP + _LOG_SCALES[0]),
        values["alphas"][:, 0] / np.float32(255),
        sh * harmonic_signs(sh.shape[1], axes),
    )
    return Gaussians(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))


def encode_spz(scene: Gaussians, version: int) -> tuple[dict[str, Bytes], int]:
    """Attributes [N, width] for version 2 or later, and the number of fractional bits of the centres.

    Raises SceneError if the centres are too far out.
    """
    _, quats, scales, opacities, sh = (_array(value) for value in scene.tensors)
    coordinates = scene.coordinates.detach().cpu().numpy()
    n = len(coordinates)
    bits = fractional_bits(coordinates)
    fixed = np.rint(coordinates * 2.0**bits * OPENGL_AXES).astype("<i4")
    quats = _array(torch.nn.functional.normalize(torch.from_numpy(quats), dim=1)) * quaternion_signs(OPENGL_AXES)
    with np.errstate(divide="ignore"):  # the logarithm of 0 is clamped
        logs = np.log(scales)
    rest = sh[:, 1:] * harmonic_signs(sh.shape[1], OPENGL_AXES)[1:]
    pack = _to_smallest_three if version >= FIRST_SMALLEST_THREE else _to_first_three
    return {
        "positions": fixed.view(np.uint8).reshape(n, 3, 4)[:, :, :3].reshape(n, 9),
        "alphas": _to_bytes(opacities * 255)[:, None],
        "colors": _to_bytes(sh[:, 0].clip(-_LARGEST_COLOR, _LARGEST_COLOR) * (_COLOR * 255) + 127.5),
        "scales": _to_bytes((logs - _LOG_SCALES[0]) / LOG_SCALE_STEP),
        "rotations": pack(quats),
        "sh": _harmonic_bytes(rest),
    }, bits


def fractional_bits(coordinates: npt.NDArray[np.float64]) -> int:
    """How many fractional bits the centres [N, 3] get, of 24 bits with a sign; SceneError if they lie too far out.

    They are 12, as the reference writes, more if the scene is so small that its centres would be coarse, and fewer if
    it is so large that they would not fit.
    """
    furthest = float(np.abs(coordinates).max(initial=0))
    bits = USUAL_FRACTIONAL_BITS
    while bits < MOST_FRACTIONAL_BITS and 0 < furthest * 2**bits < _STEPS:
        bits += 1
    while bits and round(furthest * 2**bits) > _LARGEST_CENTRE:
        bits -= 1
    if round(furthest * 2**bits) > _LARGEST_CENTRE:
        raise SceneError(
            f"centres in an .spz file must be within {_LARGEST_CENTRE} of the origin, found one at {furthest:g}; "
            "`splat convert` leaves it out (--crop), moves the scene (--translate) or makes it smaller (--scale)"
        )
    return bits


def spz_losses(scene: Gaussians) -> list[str]:
    """What an .spz file cannot hold of a scene, a phrase each."""
    scales, sh = _array(scene.scales), _array(scene.sh)
    coordinates = scene.coordinates.detach().cpu().numpy()
    losses = []
    try:
        bits = fractional_bits(coordinates)
    except SceneError as error:
        return [str(error)]
    if bits < USUAL_FRACTIONAL_BITS and scene.offset != NO_OFFSET:
        losses.append(rounded_centres(2.0**-bits, scene.offset))
    elif bits < USUAL_FRACTIONAL_BITS:
        losses.append(
            f"centres are rounded to 1/{2**bits} instead of 1/{2**USUAL_FRACTIONAL_BITS}, because one is "
            f"{float(np.abs(coordinates).max()):g} from the origin; `splat convert --crop` leaves it out"
        )
    low, high = (math.exp(log) for log in _LOG_SCALES)
    half = 1 / 32  # half a step of the logarithm, which is rounding
    for outside, what in (
        (
            (scales < low * (1 - half)) | (scales > high * (1 + half)),
            f"standard deviations outside {low:.2g} to {high:.3g}",
        ),
        (
            np.abs(sh[:, 0]) > _LARGEST_COLOR,
            f"constant SH coefficients outside -{_LARGEST_COLOR:.3g} to {_LARGEST_COLOR:.3g}",
        ),
        (_reach(scene.sh[:, 1:]) > 1, "higher SH coefficients outside -1 to 1"),
    ):
        if number := int(outside.any(axis=1).sum()):
            losses.append(f"{what} are clamped (in {number} of {len(scene)} Gaussians)")
    return losses


def _reach(coefficients: torch.Tensor) -> Floats:
    """The largest of each Gaussian's, without their signs, [N, 1]."""
    if not coefficients.numel():
        return np.zeros((len(coefficients), 1), np.float32)
    low, high = coefficients.detach().flatten(1).aminmax(dim=1, keepdim=True)
    return _array(torch.maximum(-low, high))


def _array(value: torch.Tensor) -> Floats:
    array: Floats = value.detach().cpu().float().numpy()
    return array


def _to_bytes(values: npt.NDArray[Any]) -> Bytes:
    rounded: Bytes = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return rounded


def _halves(raw: Bytes) -> Floats:
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _fixed_point(raw: Bytes, bits: int) -> Floats:
    """Signed numbers of 24 bits."""
    n = len(raw)
    words = np.zeros((n, 3, 4), np.uint8)
    words[:, :, 1:] = raw.reshape(n, 3, 3)  # in the upper bytes, so that the shift below brings the sign along
    signed: npt.NDArray[np.int32] = words.view("<i4")[:, :, 0] >> 8
    return (signed * 2.0**-bits).astype(np.float32)


def _from_first_three(raw: Bytes) -> Floats:
    """Quaternions w, x, y, z of bytes x, y, z; w is what makes the length 1."""
    xyz = raw.astype(np.float32) / np.float32(127.5) - 1
    w = np.sqrt(np.clip(1 - (xyz * xyz).sum(axis=1, keepdims=True), 0, None))
    return np.concatenate([w, xyz], axis=1)


def _to_first_three(quats: Floats) -> Bytes:
    positive = np.where(quats[:, :1] < 0, -quats, quats)  # the same rotation
    return _to_bytes(positive[:, 1:] * 127.5 + 127.5)


def _from_smallest_three(raw: Bytes) -> Floats:
    """Quaternions w, x, y, z of words: 2 bits say which of x, y, z, w is the largest, and each of the others, in this
    order, has 10: its sign and 9 bits of its size, of which 511 is the square root of a half.
    """
    words = np.ascontiguousarray(raw).view("<u4")[:, 0]
    fields = np.stack([words >> 20, words >> 10, words], axis=1) & 1023
    sizes = (fields & 511).astype(np.float32) * np.float32(math.sqrt(0.5) / 511)
    three = np.where(fields & 512, -sizes, sizes)
    largest = np.sqrt(np.clip(1 - (three * three).sum(axis=1), 0, None))
    xyzw = np.empty((len(raw), 4), np.float32)
    for index in range(4):
        rows = words >> 30 == index
        xyzw[rows] = np.insert(three[rows], index, largest[rows], axis=1)
    return xyzw[:, [3, 0, 1, 2]]


def _to_smallest_three(quats: Floats) -> Bytes:
    xyzw = quats[:, [1, 2, 3, 0]]
    rows = np.arange(len(xyzw))
    index = np.abs(xyzw).argmax(axis=1)
    positive = xyzw * np.where(xyzw[rows, index] < 0, -1, 1)[:, None]  # the same rotation
    sizes = np.rint(np.abs(positive) * (511 / math.sqrt(0.5))).astype(np.uint32).clip(max=511)
    fields = np.where(positive < 0, sizes | 512, sizes).astype(np.uint32)
    words = index.astype(np.uint32)
    for component in range(4):
        words = np.where(index == component, words, words << 10 | fields[:, component])
    raw: Bytes = words.astype("<u4").view(np.uint8).reshape(-1, 4)
    return raw


def _harmonic_bytes(rest: Floats) -> Bytes:
    """Coefficients [N, K, 3] of degree 1 and higher as bytes [N, 3 K]; 0 is written exactly."""
    n, count, _ = rest.shape
    steps = np.array([_SH_STEPS[k >= 3] for k in range(count)], np.float32).reshape(1, -1, 1)
    rounded = np.rint(rest.clip(-1, 1) * 128 / steps) * steps + 128
    return _to_bytes(rounded).reshape(n, 3 * count)
