"""Writing scenes as glTF with the extension KHR_gaussian_splatting; gltf_file.py says what is in them."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from .axes import GLTF_AXES, harmonic_signs, quaternion_signs
from .coordinates import NO_OFFSET
from .file_output import check_writable, replacing
from .gaussians import Gaussians, SceneError
from .gltf_container import BINARY_CHUNK, CHUNK, DATA_START, FLOAT, HEADER, JSON_CHUNK, LIMITS, MAGIC, VERSION
from .gltf_file import EXTENSION, MAX_DEGREE, OPACITY, POINTS, POSITION, PROPERTIES, ROTATION, SCALE, coefficient

_MOST_BYTES: Final = 2**32 - 1
_KINDS: Final = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}
_FOR_VERTICES: Final = 34962

Floats = npt.NDArray[np.float32]


def write_glb(path: str | Path, scene: Gaussians) -> None:
    """Write a scene as a .glb file, which `read_gltf` reads; harmonics above degree 3 are dropped.

    The file appears complete or not at all; an existing one is replaced.

    Raises ValueError if the name does not end in .glb or the scene is too large, OSError if the file cannot be written.
    """
    path = check_writable(path, ".glb", "such scenes")
    columns = _columns(scene)
    content = _json(scene, columns)
    content += b" " * (-len(content) % 4)
    size = sum(column.nbytes for column in columns.values())
    total = HEADER.size + CHUNK.size + len(content) + (CHUNK.size + size if size else 0)
    if total > _MOST_BYTES:
        raise SceneError(f"a .glb file has at most {_MOST_BYTES} bytes, which this scene exceeds; write it as .ply")
    with replacing(path) as file:
        file.write(HEADER.pack(MAGIC, VERSION, total))
        file.write(CHUNK.pack(len(content), JSON_CHUNK) + content)
        if size:
            file.write(CHUNK.pack(size, BINARY_CHUNK))
        for column in columns.values():
            file.write(column.tobytes())


def write_gltf(path: str | Path, scene: Gaussians) -> None:
    """The same as a .gltf file, which has the numbers in its JSON, as base64."""
    path = check_writable(path, ".gltf", "such scenes")
    columns = _columns(scene)
    content = _json(scene, columns, b"".join(column.tobytes() for column in columns.values()))
    if len(content) > LIMITS.bytes:
        raise SceneError(f"a .gltf file is read up to {LIMITS.bytes} bytes, which this scene exceeds; write it as .glb")
    with replacing(path) as file:
        file.write(content)


def gltf_losses(scene: Gaussians) -> list[str]:
    """What a glTF file cannot hold of a scene, a phrase each."""
    return [f"spherical harmonics of degree {MAX_DEGREE + 1} are dropped"] * (scene.degree > MAX_DEGREE)


def _columns(scene: Gaussians) -> dict[str, Floats]:
    """The numbers of each attribute."""
    means, quats, scales, opacities, sh = (value.detach().cpu() for value in scene.tensors)
    turns = torch.nn.functional.normalize(quats, dim=1).numpy() * quaternion_signs(GLTF_AXES)
    signed = sh.numpy()[:, : (MAX_DEGREE + 1) ** 2]
    signed = signed * harmonic_signs(signed.shape[1], GLTF_AXES)
    columns = {
        POSITION: means.numpy() * np.array(GLTF_AXES, np.float32),
        ROTATION: turns[:, [1, 2, 3, 0]],
        SCALE: scales.numpy(),
        OPACITY: opacities.numpy()[:, None],
        **{coefficient(index): signed[:, index] for index in range(signed.shape[1])},
    }
    return {name: column.astype("<f4", copy=False) for name, column in columns.items()} if len(scene) else {}


def _json(scene: Gaussians, columns: dict[str, Floats], data: bytes = b"") -> bytes:
    """The JSON, with the bytes of the buffer if they are not in a chunk of their own."""
    root: dict[str, Any] = {
        "asset": {"version": f"{VERSION}.0", "generator": "splat"},
        "extensionsUsed": [EXTENSION],
        "scene": 0,
        "scenes": [{}],
    }
    if columns:
        said: dict[str, Any] = {name: known[0] for name, known in PROPERTIES.items()}
        if scene.antialiased:
            said["extras"] = {"antialiased": True}
        attributes = {name: index for index, name in enumerate(columns)}
        node: dict[str, Any] = {"mesh": 0}
        if scene.offset != NO_OFFSET:
            node["translation"] = [sign * part for sign, part in zip(GLTF_AXES, scene.offset, strict=True)]
        ends = np.cumsum([0, *(column.nbytes for column in columns.values())]).tolist()
        uri = {"uri": DATA_START + base64.b64encode(data).decode("ascii")} if data else {}
        root.update(
            scenes=[{"nodes": [0]}],
            nodes=[node],
            meshes=[{"primitives": [{"mode": POINTS, "attributes": attributes, "extensions": {EXTENSION: said}}]}],
            accessors=[_accessor(index, name, column) for index, (name, column) in enumerate(columns.items())],
            bufferViews=[
                {"buffer": 0, "byteOffset": start, "byteLength": end - start, "target": _FOR_VERTICES}
                for start, end in pairwise(ends)
            ],
            buffers=[{"byteLength": ends[-1], **uri}],
        )
    return json.dumps(root, separators=(",", ":")).encode("ascii")


def _accessor(index: int, name: str, column: Floats) -> dict[str, Any]:
    accessor = {"bufferView": index, "componentType": FLOAT, "count": len(column), "type": _KINDS[column.shape[1]]}
    limits = {"min": column.min(axis=0).tolist(), "max": column.max(axis=0).tolist()} if name == POSITION else {}
    return {**accessor, **limits}
