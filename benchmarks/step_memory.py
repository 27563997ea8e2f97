"""Bytes that a call of `rasterization` keeps for its backward pass, and in what it returns, by both packages.

That is what autograd saves, the picture, its alphas and `meta`: each storage once, without the call's inputs. Four
calls, with two scenes and two sizes, give the bytes for each Gaussian, pixel and pair of Gaussian and tile, and a rest
that does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import gpu_scenes
import torch
from measure import table
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

COUNTS, SIZES = (2000, 4000), ((160, 96), (320, 192))  # whole tiles


def print_memory(packages: Mapping[str, gpu_scenes.Rasterization]) -> None:
    """Print the table. Pairs are each package's own."""
    rows = []
    for name, rasterization in packages.items():
        factors, kept = [], []
        for count, (width, height) in product(COUNTS, SIZES):
            found, pairs = kept_by(rasterization, gpu_scenes.synthetic(count, width, height, "cpu"))
            factors.append([count, width * height, pairs, 1])
            kept.append(found)
        solved = torch.linalg.lstsq(torch.tensor(factors).double(), torch.tensor(kept).double())
        for row, values in zip(("saved, picture and alphas", "with meta"), solved.solution.T.tolist(), strict=True):
            rows.append([f"{name}: {row}", *(f"{value:.2f}" for value in values[:3])])
    table(["bytes kept after the forward pass, for each", "Gaussian", "pixel", "pair"], rows)


def kept_by(rasterization: gpu_scenes.Rasterization, arguments: gpu_scenes.Arguments) -> tuple[list[int], int]:
    """Bytes without and with `meta`, and the number of pairs."""
    trained = {name: arguments[name].requires_grad_() for name in ("means", "quats", "scales", "opacities", "colors")}
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        picture, alphas, meta = rasterization(**arguments | trained)
    given, kept = storages(arguments.values()), storages([*saved, picture, alphas])
    found = [sum(size for _, size in each - given) for each in (kept, kept | storages(meta.values()))]
    return found, len(meta["flatten_ids"])


def storages(values: Iterable[Any]) -> set[tuple[int, int]]:
    """Where the tensors' bytes are, and how many."""
    found = (value.untyped_storage() for value in values if isinstance(value, Tensor))
    return {(storage.data_ptr(), storage.nbytes()) for storage in found}
