"""The nodes of a glTF scene: which meshes are drawn, and where."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .camera import rotation_rows
from .gaussians import SceneError
from .gltf_container import Gltf
from .json_input import finite_numbers


def placed_meshes(gltf: Gltf) -> list[tuple[object, Tensor]]:
    """The index of each mesh of the file's scene, and the matrix [4, 4] that places it, for each node that names it.

    Raises SceneError if the nodes are damaged: each has one parent.
    """
    found: list[tuple[object, Tensor]] = []
    seen: set[int] = set()
    scene = gltf.entry("scenes", gltf.root.get("scene", 0))
    waiting = [(index, torch.eye(4, dtype=torch.float64)) for index in reversed(_indices(scene, "nodes"))]
    while waiting:
        index, above = waiting.pop()
        node = gltf.entry("nodes", index)
        if index in seen:
            raise SceneError(f"a node must be in one place, found node {index} in several")
        seen.add(index)
        matrix = above @ _matrix(node)
        if "mesh" in node:
            found.append((node["mesh"], matrix))
        waiting += [(child, matrix) for child in reversed(_indices(node, "children"))]
    return found


def _indices(part: dict[str, Any], name: str) -> list[Any]:
    indices = part.get(name, [])
    if not isinstance(indices, list):
        raise SceneError(f"{name!r} must be a list of indices, found something else")
    return indices


def _matrix(node: dict[str, Any]) -> Tensor:
    """That of a node alone, from its matrix, or from its scale, rotation and translation."""
    if "matrix" in node:
        return torch.from_numpy(finite_numbers(node, "matrix", 16, 16)).reshape(4, 4).T
    x, y, z, w = finite_numbers(node, "rotation", 4, 4, [0, 0, 0, 1]).tolist()
    length = math.hypot(x, y, z, w)
    if not length:
        raise SceneError("the rotation of a node must be a quaternion, found one of length 0")
    turn = torch.tensor(rotation_rows([part / length for part in (w, x, y, z)]), dtype=torch.float64)
    matrix = torch.eye(4, dtype=torch.float64)
    matrix[:3, :3] = turn * torch.from_numpy(finite_numbers(node, "scale", 3, 3, [1, 1, 1]))
    matrix[:3, 3] = torch.from_numpy(finite_numbers(node, "translation", 3, 3, [0, 0, 0]))
    return matrix
