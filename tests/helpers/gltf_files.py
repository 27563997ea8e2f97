"""Files of glTF with Gaussians, made by hand."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np

KHR = "KHR_gaussian_splatting"
Arrays = dict[str, Any]
"""Numbers [N, width] by attribute, as they are stored; (numbers, True) if they are normalized."""

_COMPONENTS = {"int8": 5120, "uint8": 5121, "int16": 5122, "uint16": 5123, "uint32": 5125, "float32": 5126}
_KINDS = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}


def gaussians(n: int = 1, degree: int = 0, **changes: Any) -> Arrays:
    """The attributes of Gaussians; `changes` are others, by the ends of their names."""
    rng = np.random.default_rng(n)
    arrays: Arrays = {
        "POSITION": rng.normal(size=(n, 3)),
        f"{KHR}:ROTATION": rng.normal(size=(n, 4)),
        f"{KHR}:SCALE": np.exp(rng.uniform(-4, 0, (n, 3))),
        f"{KHR}:OPACITY": rng.uniform(0, 1, (n, 1)),
    }
    for level in range(degree + 1):
        for order in range(2 * level + 1):
            arrays[f"{KHR}:SH_DEGREE_{level}_COEF_{order}"] = rng.normal(size=(n, 3)) * 0.3
    arrays[f"{KHR}:ROTATION"] /= np.linalg.norm(arrays[f"{KHR}:ROTATION"], axis=1, keepdims=True)
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    for end, array in changes.items():
        arrays[next((name for name in arrays if name.endswith(end)), end)] = array
    return arrays


class GltfFile:
    """A file that is put together: primitives first, then its nodes."""

    def __init__(self) -> None:
        self.data = b""
        self.root: dict[str, Any] = {
            "asset": {"version": "2.0"},
            "extensionsUsed": [KHR],
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0}],
            "meshes": [{"primitives": []}],
            "accessors": [],
            "bufferViews": [],
            "buffers": [{}],
        }

    def view(self, data: bytes, **more: Any) -> int:
        """A new view of the buffer."""
        self.data += bytes(-len(self.data) % 4)
        self.root["bufferViews"].append({"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data), **more})
        self.data += data
        return len(self.root["bufferViews"]) - 1

    def accessor(self, array: Any) -> int:
        """A new accessor, of a view of its own."""
        array, normalized = array if isinstance(array, tuple) else (array, False)
        more = {"normalized": True} if normalized else {}
        kind, component = _KINDS[array.shape[1]], _COMPONENTS[array.dtype.name]
        entry = {"bufferView": self.view(array.tobytes()), "componentType": component, "type": kind, **more}
        self.root["accessors"].append({**entry, "count": len(array)})
        return len(self.root["accessors"]) - 1

    def primitive(self, arrays: Arrays, mesh: int = 0, **said: Any) -> None:
        """Gaussians of a mesh, and what the extension says of them."""
        attributes = {name: self.accessor(array) for name, array in arrays.items()}
        self.extended({KHR: {"kernel": "ellipse", "colorSpace": "srgb_rec709_display", **said}}, attributes, mesh)

    def extended(self, extensions: dict[str, Any], attributes: dict[str, Any], mesh: int = 0) -> None:
        """A primitive of points with any extensions."""
        while len(self.root["meshes"]) <= mesh:
            self.root["meshes"].append({"primitives": []})
        primitive = {"mode": 0, "attributes": attributes, "extensions": extensions}
        self.root["meshes"][mesh]["primitives"].append(primitive)

    def glb(self) -> bytes:
        """The file with a binary chunk."""
        self.root["buffers"][0] = {"byteLength": len(self.data)}
        content = json.dumps(self.root).encode()
        return glb(content, self.data)

    def gltf(self, uri: str | None = None) -> bytes:
        """The file as JSON, with its buffer in it or in another one of this name."""
        own = "data:application/gltf-buffer;base64," + base64.b64encode(self.data).decode()
        self.root["buffers"][0] = {"byteLength": len(self.data), "uri": uri or own}
        return json.dumps(self.root).encode()


def glb(content: bytes, data: bytes | None, version: int = 2) -> bytes:
    """A .glb file of JSON and a binary chunk."""
    content += b" " * (-len(content) % 4)
    chunks = struct.pack("<I4s", len(content), b"JSON") + content
    if data is not None:
        data += bytes(-len(data) % 4)
        chunks += struct.pack("<I4s", len(data), b"BIN\0") + data
    return struct.pack("<4sII", b"glTF", version, 12 + len(chunks)) + chunks


def one_primitive(arrays: Arrays, **said: Any) -> GltfFile:
    """A file with one primitive in one place."""
    file = GltfFile()
    file.primitive(arrays, **said)
    return file
