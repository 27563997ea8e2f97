"""Gradients of rasterize by the reference, pixel by pixel in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import reference_rasterizer as reference
import torch
from gradient_tolerances import TOLERANCE
from operator_arguments import PARAMETERS, Arguments
from torch import Tensor


@dataclass(frozen=True)
class Gradients:
    """Gradients of rasterize's parameters, in the parameters' shapes."""

    means2d: Tensor
    conics: Tensor
    colors: Tensor
    opacities: Tensor
    backgrounds: Tensor

    def items(self) -> list[tuple[str, Tensor]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


@dataclass(frozen=True)
class Case:
    """One rendering, the gradients that come from its images, and what the reference makes of both."""

    arguments: Arguments
    v_colors: Tensor
    v_alphas: Tensor
    colors: Tensor
    alphas: Tensor
    gradients: Gradients
    absolute: Gradients
    """Sums over the pixels of the absolute values of what each adds."""
    compared: Tensor
    """[I, H, W] bool: pixels where float32 cannot decide otherwise. The gradients of the others are zero."""


def tiles(arguments: Arguments) -> Iterator[tuple[int, slice, slice, Tensor, bool]]:
    """Image, rows, columns, list of Gaussians and mask of each tile."""
    size, offsets = arguments["tile_size"], arguments["isect_offsets"]
    ends = [*offsets.flatten().tolist(), len(arguments["flatten_ids"])]
    masks = torch.ones_like(offsets, dtype=torch.bool) if arguments["masks"] is None else arguments["masks"]
    for tile, (image, row, column) in enumerate(torch.ones_like(offsets).nonzero().tolist()):
        rows = slice(row * size, min((row + 1) * size, arguments["height"]))
        columns = slice(column * size, min((column + 1) * size, arguments["width"]))
        ids = arguments["flatten_ids"][ends[tile] : ends[tile + 1]].long()
        rendered = bool(masks[image, row, column])
        yield image, rows, columns, ids if rendered else ids[:0], rendered


def by_reference(arguments: Arguments, seed: int = 0) -> Case:
    """Each pixel gets its own copy of the tile's Gaussians, whose gradients are what the pixel adds."""
    generator = torch.Generator().manual_seed(seed)
    images, channels = len(arguments["isect_offsets"]), arguments["colors"].shape[-1]
    shape = (images, arguments["height"], arguments["width"])
    colors, alphas = torch.zeros(*shape, channels).double(), torch.zeros(*shape, 1).double()
    v_colors, v_alphas = (torch.randn(*shape, n, generator=generator) for n in (channels, 1))
    compared = torch.zeros(shape, dtype=torch.bool)
    dimension = arguments["means2d"].dim() - 1
    flat = {name: arguments[name].flatten(0, dimension - 1).double() for name in PARAMETERS[:4]}
    sums = {name: [torch.zeros_like(value) for _ in range(2)] for name, value in flat.items()}
    sums["backgrounds"] = [torch.zeros(images, channels).double() for _ in range(2)]
    for image, rows, columns, ids, _ in tiles(arguments):
        y, x = torch.meshgrid(torch.arange(shape[1])[rows], torch.arange(shape[2])[columns], indexing="ij")
        pixels = torch.stack([x.flatten(), y.flatten()], 1).double() + 0.5
        own = [value[ids].expand(len(pixels), *value[ids].shape) for value in flat.values()]
        background = torch.zeros(channels) if arguments["backgrounds"] is None else arguments["backgrounds"][image]
        own = [value.clone().requires_grad_() for value in (*own, background.double().expand(len(pixels), -1))]
        blended = reference.blend(*own, pixels, arguments["max_alpha"])
        here = (image, rows, columns)
        extent = colors[here].shape[:2]
        colors[here] = blended.colors.detach().reshape(*extent, channels)
        alphas[here] = blended.alphas.detach().reshape(*extent, 1)
        compared[here] = ~blended.doubtful.reshape(extent)
        for v in (v_colors, v_alphas):
            v[here] *= compared[here][..., None]
        added = torch.autograd.grad(
            (blended.colors, blended.alphas),
            own,
            (v_colors[here].flatten(0, 1).double(), v_alphas[here].flatten(0, 1).double()),
        )
        for (signed, absolute), value in zip(list(sums.values())[:4], added[:4], strict=True):
            signed.index_add_(0, ids, value.sum(0))
            absolute.index_add_(0, ids, value.abs().sum(0))
        sums["backgrounds"][0][image] += added[4].sum(0)
        sums["backgrounds"][1][image] += added[4].abs().sum(0)
    shapes = [arguments[name].shape for name in PARAMETERS[:4]] + [sums["backgrounds"][0].shape]
    gradients, absolute = (
        Gradients(*(value[i].reshape(shape) for value, shape in zip(sums.values(), shapes, strict=True)))
        for i in range(2)
    )
    return Case(arguments, v_colors, v_alphas, colors, alphas, gradients, absolute, compared)


def assert_near(found: Tensor, expected: Tensor, absolute: Tensor, what: str) -> None:
    """Within the tolerance of what the pixels add, in absolute values: sums may cancel."""
    off = (found.double() - expected).abs()
    allowed = TOLERANCE * absolute + 1e-9
    assert found.shape == expected.shape
    assert (off <= allowed).all(), f"{what}: off by {(off / allowed).max():.3g} times the tolerance"
