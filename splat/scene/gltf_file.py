"""Reading scenes of glTF: primitives with the extension KHR_gaussian_splatting, also with their Gaussians as .spz.

Source: github.com/KhronosGroup/glTF, extensions/2.0/Khronos/KHR_gaussian_splatting (release candidate, July 2026), and
the draft KHR_gaussian_splatting_compression_spz_2, by which the values of .spz are turned from their axes to those of
glTF. Standard deviations, opacities and colours are stored as they are drawn, without logarithms and logits.
"""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from .affine import transform_scene
from .axes import GLTF_AXES, harmonic_signs, quaternion_signs
from .colors import displayed_harmonics
from .edits import merge_scenes
from .file_input import check_unpacked_size, usable
from .gaussians import Gaussians, SceneError
from .gltf_container import Gltf, Numbers, opened_gltf
from .gltf_nodes import placed_meshes
from .names import listed, quoted
from .spz import opened_header, spz_gaussians

EXTENSION: Final = "KHR_gaussian_splatting"
POSITION, ROTATION, SCALE, OPACITY = "POSITION", f"{EXTENSION}:ROTATION", f"{EXTENSION}:SCALE", f"{EXTENSION}:OPACITY"
MAX_DEGREE: Final = 3
POINTS: Final = 0
PROPERTIES: Final = {
    "kernel": ("ellipse",),
    "colorSpace": ("srgb_rec709_display", "lin_rec709_display"),
    "projection": ("perspective",),
    "sortingMethod": ("cameraDistance",),
}
"""What the extension says of a primitive, and the values that are known, the usual one first."""

_SPZ: Final = (
    f"{EXTENSION}_compression_spz_2",
    f"{EXTENSION}_compression_spz",
    "KHR_spz_gaussian_splats_compression",  # the first draft's, which is beside the extension
)
_SUPPORTED: Final = (EXTENSION, *_SPZ, "KHR_mesh_quantization")
_MOST_PLACED: Final = 10_000
"""Primitives in all their places: each of them takes time, however few Gaussians it has."""
_SPZ_START: Final = 2**18
"""Bytes in which the header of an .spz file is."""
_TO_QUATERNION: Final = [3, 0, 1, 2]


class _Splats(NamedTuple):
    """The Gaussians of a primitive, not read yet."""

    gaussians: int
    degree: int
    source: dict[str, Numbers] | memoryview
    """Numbers by their attributes, or an .spz file."""
    linear: bool
    """Whether colours are linear light."""
    antialiased: bool


def read_gltf(path: str | Path) -> Gaussians:
    """Read the Gaussians of the scene in a .glb or .gltf file, on the CPU, in the axes of 3DGS; meshes are left out.

    Raises:
        SceneError: if it is damaged, has no Gaussians, or leads out of its folder.
        OSError: if it cannot be opened.
    """
    path = Path(path)
    with opened_gltf(path) as gltf:
        placed = _placed(gltf)
        degree = max((splats.degree for splats, _ in placed), default=0)
        needed = sum(_needed(splats, degree) for splats, _ in placed)
        check_unpacked_size(needed, gltf.size)
        flip = torch.diag(torch.tensor([*GLTF_AXES, 1], dtype=torch.float64))
        scenes = [transform_scene(_read(splats, path), flip @ matrix @ flip) for splats, matrix in placed]
    return usable(merge_scenes(scenes or [_nothing()]), path)


def describe_gltf(path: Path) -> str:
    """The format and version of a file, and what of it is Gaussians."""
    with opened_gltf(path) as gltf:
        found = sum(_is_splats(each) for mesh in _list(gltf.root, "meshes") for each in _list(mesh, "primitives"))
        return f"glTF {quoted(gltf.root['asset']['version'])} with {found} primitives of {EXTENSION}"


def coefficient(index: int) -> str:
    """The attribute of a coefficient of spherical harmonics."""
    degree = math.isqrt(index)
    return f"{EXTENSION}:SH_DEGREE_{degree}_COEF_{index - degree**2}"


def _placed(gltf: Gltf) -> list[tuple[_Splats, torch.Tensor]]:
    """The primitives with Gaussians in the file's scene, and the matrices that place them."""
    missing = [name for name in _list(gltf.root, "extensionsRequired") if name not in _SUPPORTED]
    if missing:
        raise SceneError(
            f"a file without required extensions but {listed(_SUPPORTED)} is read, found {missing[0]!r:.80}"
        )
    meshes: dict[object, list[_Splats]] = {}
    placed: list[tuple[_Splats, torch.Tensor]] = []
    for index, matrix in placed_meshes(gltf):
        mesh = gltf.entry("meshes", index)
        if index not in meshes:
            primitives = list(filter(_is_splats, _list(mesh, "primitives")))
            meshes[index] = [_splats(gltf, primitive) for primitive in primitives[: _MOST_PLACED + 1]]
        placed += [(splats, matrix) for splats in meshes[index]]
        if len(placed) > _MOST_PLACED:
            raise SceneError(f"at most {_MOST_PLACED} placed primitives with {EXTENSION} are read, found more")
    if not placed and EXTENSION not in _list(gltf.root, "extensionsUsed"):
        raise SceneError(f"a scene that has a primitive with {EXTENSION} is required, found none")
    return placed


def _list(part: object, name: str) -> list[Any]:
    values = part.get(name, []) if isinstance(part, dict) else None
    if not isinstance(values, list):
        raise SceneError(f"{name!r} must be a list, found something else")
    return values


def _object(part: object, name: str) -> dict[str, Any]:
    value = part.get(name, {}) if isinstance(part, dict) else None
    if not isinstance(value, dict):
        raise SceneError(f"{name!r} must be an object, found something else")
    return value


def _is_splats(primitive: object) -> bool:
    return any(name in _object(primitive, "extensions") for name in (EXTENSION, *_SPZ))


def _splats(gltf: Gltf, primitive: dict[str, Any]) -> _Splats:
    if primitive.get("mode", 4) != POINTS:
        raise SceneError(
            f"the mode of a primitive with {EXTENSION} must be {POINTS}, found {primitive.get('mode')!r:.40}"
        )
    extensions = _object(primitive, "extensions")
    said = _object(extensions, EXTENSION)
    for name, known in PROPERTIES.items():
        if said.get(name, known[0]) not in known:
            warnings.warn(
                f"{gltf.path}: the {name} {quoted(str(said[name])[:40])} is unknown and not used", stacklevel=2
            )
    linear = said.get("colorSpace") == PROPERTIES["colorSpace"][1]
    if linear:
        warnings.warn(
            f"{gltf.path}: colours are linear light; they are read as sRGB and mix a little darker", stacklevel=2
        )
    antialiased = _object(said, "extras").get("antialiased") is True
    for packed in (_object(each, name) for each in (_object(said, "extensions"), extensions) for name in _SPZ):
        if packed:
            data = gltf.view(packed.get("bufferView"))
            header = opened_header(io.BytesIO(data[:_SPZ_START]))
            return _Splats(header.gaussians, header.degree, data, linear, antialiased)
    return _of_attributes(gltf, _object(primitive, "attributes"))._replace(linear=linear, antialiased=antialiased)


def _of_attributes(gltf: Gltf, attributes: dict[str, Any]) -> _Splats:
    degree = next((degree for degree in range(MAX_DEGREE, 0, -1) if _has_degree(attributes, degree)), 0)
    kinds = {POSITION: "VEC3", ROTATION: "VEC4", SCALE: "VEC3", OPACITY: "SCALAR"}
    kinds.update((coefficient(index), "VEC3") for index in range((degree + 1) ** 2))
    for name in kinds:
        if name not in attributes:
            raise SceneError(f"a primitive must have the attribute {name}, found {listed([*attributes])}")
    source = {name: gltf.numbers(attributes[name], kind) for name, kind in kinds.items()}
    counts = {len(numbers.stored) for numbers in source.values()}
    if len(counts) > 1:
        raise SceneError(
            f"the attributes of a primitive must be of as many Gaussians, found {min(counts)} and {max(counts)}"
        )
    return _Splats(counts.pop(), degree, source, False, False)


def _has_degree(attributes: dict[str, Any], degree: int) -> bool:
    return any(coefficient(index) in attributes for index in range(degree**2, (degree + 1) ** 2))


def _needed(splats: _Splats, degree: int) -> int:
    packed = len(splats.source) if isinstance(splats.source, memoryview) else 0
    return 4 * splats.gaussians * (11 + 3 * (degree + 1) ** 2) + packed


def _read(splats: _Splats, path: Path) -> Gaussians:
    if isinstance(splats.source, memoryview):
        scene = spz_gaussians(io.BytesIO(splats.source), path)
    else:
        scene = _decoded(splats.source, splats.degree, path)
    sh = displayed_harmonics(scene.sh) if splats.linear else scene.sh
    return replace(scene, sh=sh, antialiased=scene.antialiased or splats.antialiased)


def _decoded(source: dict[str, Numbers], degree: int, path: Path) -> Gaussians:
    signs = harmonic_signs((degree + 1) ** 2, GLTF_AXES)
    opacities = source[OPACITY].floats()[:, 0]
    if outside := int(((opacities < 0) | (opacities > 1)).sum()):
        warnings.warn(f"{path}: opacities outside 0 to 1 are clamped (in {outside} Gaussians)", stacklevel=2)
    sh = np.empty((len(opacities), len(signs), 3), np.float32)
    for index, sign in enumerate(signs):
        sh[:, index] = source[coefficient(index)].floats() * sign
    arrays = (
        source[POSITION].floats() * np.array(GLTF_AXES, np.float32),
        source[ROTATION].floats()[:, _TO_QUATERNION] * quaternion_signs(GLTF_AXES),
        np.abs(source[SCALE].floats()),  # a negative standard deviation makes the same Gaussian as a positive one
        opacities.clip(0, 1),
        sh,
    )
    return Gaussians(*(torch.from_numpy(array) for array in arrays))


def _nothing() -> Gaussians:
    return Gaussians(*(torch.zeros(0, *ending) for ending in ((3,), (4,), (3,), (), (1, 3))))
