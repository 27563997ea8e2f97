"""How often a warp goes through each part of the rasterizers' loops, for one image: our kernels', and gsplat 1.5.3's.

The Gaussians are projected and listed by splat's CPU operators. gsplat's lists have the same Gaussians in every tile
that their rectangles overlap; `isect_tiles` makes those too. model_counts.cpp then follows the loops over the lists.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import splat

TILE_SIZE = 16  # both packages' default
SOURCES = [Path(__file__).with_name(f"{name}.cpp") for name in ("model_counts", "model_lists")]


class Trips(ctypes.Structure):
    """Sums over the warps of an image, of one pass; what some lane of a warp does, the warp does."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            "warps",
            "gathered",  # pairs of Gaussian and tile that are staged
            "batches",  # of Gaussians, each warp of the block
            "stagings",  # of up to 32 Gaussians into shared memory
            "tests",  # of up to 32 Gaussians against the warp's pixels; gsplat has none
            "steps",  # one Gaussian for the warp's pixels
            "exponentials",  # steps that compute one for some pixel
            "visible",  # steps in which some pixel that is not finished sees the Gaussian
            "blending",  # steps in which some pixel blends it
            "pixel_blends",  # by pixel, not by warp
        )
    )

    def of(self, name: str) -> int:
        """One of the counts."""
        return int(getattr(self, name))


class Lists(NamedTuple):
    """The projected Gaussians of one image, and those of each tile in the order of blending."""

    means2d: Tensor
    conics: Tensor
    opacities: Tensor
    offsets: Tensor
    flatten_ids: Tensor
    width: int
    height: int


class Followed(NamedTuple):
    """What following both passes of a rasterizer gives."""

    pairs: int  # in its lists
    forward: Trips
    backward: Trips
    alphas: Tensor  # [height, width]

    def of(self, direction: str) -> Trips:
        """One of the passes."""
        return self.forward if direction == "forward" else self.backward


class Counted(NamedTuple):
    """A scene, counted."""

    gaussians: int
    seen: int
    splat: Followed
    gsplat: Followed
    meta: dict[str, Any]  # of `rasterization`


def count(arguments: dict[str, Any], library: ctypes.CDLL) -> Counted:
    """Project a scene with one camera, given as the arguments of `rasterization`, and follow both rasterizers.

    Raises:
        SystemExit: the pixels are not those of splat's CPU rasterizer, so what was followed is not the algorithm.
    """
    with torch.no_grad():
        _, drawn, meta = splat.rasterization(**{**arguments, "packed": False, "tile_size": TILE_SIZE})
    ours, theirs = (
        follow(lists, name, library) for name, lists in (("splat", our_lists(meta)), ("gsplat", gsplat_lists(meta)))
    )
    for name, followed in (("splat", ours), ("gsplat", theirs)):
        if (error := float((followed.alphas - drawn[0, ..., 0]).abs().max())) > 1e-3:
            raise SystemExit(
                f"model_counts.cpp draws other alphas than splat.rasterization for {name}: by up to {error}"
            )
    seen = int((meta["radii"] > 0).all(-1).sum())
    return Counted(meta["radii"].shape[-2], seen, ours, theirs, meta)


def our_lists(meta: dict[str, Any]) -> Lists:
    """Those that our kernels draw, of a dense result of `rasterization` with one camera."""
    return Lists(
        meta["means2d"][0], meta["conics"][0], meta["opacities"][0].contiguous(),
        meta["isect_offsets"][0], meta["flatten_ids"], meta["width"], meta["height"],
    )  # fmt: skip


def gsplat_lists(meta: dict[str, Any]) -> Lists:
    """The same Gaussians in all tiles of their rectangles."""
    columns, rows = meta["tile_width"], meta["tile_height"]
    _, keys, flatten_ids = splat.isect_tiles(meta["means2d"], meta["radii"], meta["depths"], TILE_SIZE, columns, rows)
    offsets = splat.isect_offset_encode(keys, 1, columns, rows)[0]
    return our_lists(meta)._replace(offsets=offsets, flatten_ids=flatten_ids)


def follow(lists: Lists, rasterizer: str, library: ctypes.CDLL) -> Followed:
    """Both passes of "splat" or of "gsplat"."""
    result = Followed(len(lists.flatten_ids), Trips(), Trips(), torch.zeros(lists.height, lists.width))
    arrays = (lists.means2d, lists.conics, lists.opacities, lists.offsets, lists.flatten_ids)
    assert all(array.is_contiguous() for array in arrays)
    library.follow(
        ctypes.c_bool(rasterizer == "gsplat"),
        *(ctypes.c_void_p(array.data_ptr()) for array in arrays),
        ctypes.c_int64(lists.means2d.shape[0]),
        ctypes.c_int64(lists.flatten_ids.shape[0]),
        lists.width,
        lists.height,
        TILE_SIZE,
        ctypes.byref(result.forward),
        ctypes.byref(result.backward),
        ctypes.c_void_p(result.alphas.data_ptr()),
    )
    return result


def build(folder: Path) -> ctypes.CDLL:
    """Compile what follows the loops into the folder, and load it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model_loops.so"
    compiler = os.environ.get("CXX", "g++")
    # Without contraction to fused operations, as the kernels are compiled.
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, *map(str, SOURCES), "-o", str(file)], check=True)
    return ctypes.CDLL(str(file))
