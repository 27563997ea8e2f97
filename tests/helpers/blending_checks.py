"""What the tests of rasterizers other than `rasterize` compare, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from gradient_tolerances import OF_LARGEST
from parts import select_instruction_set
from torch import Tensor

Arguments = dict[str, Any]


def gradients(
    draw: Callable[[Arguments], Any], arguments: Arguments, names: Sequence[str], v: list[Tensor]
) -> dict[str, Tensor]:
    """By the arguments of these names, for gradients `v` of the images."""
    leaves = {name: arguments[name].detach().clone().requires_grad_() for name in names if arguments[name] is not None}
    images = draw({**arguments, **leaves})
    found = torch.autograd.grad(
        images, list(leaves.values()), [each.to(images[0].dtype) for each in v], allow_unused=True
    )
    pairs = zip(leaves.items(), found, strict=True)
    return {name: torch.zeros_like(leaf) if value is None else value for (name, leaf), value in pairs}


def random_v(images: Any, doubtful: Tensor) -> list[Tensor]:
    """Gradients of the images, 0 where float32 may decide otherwise."""
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(image.shape, generator=generator) * ~doubtful[..., None] for image in images]


def assert_close(found: Tensor, expected: Tensor, what: str, tolerance: float = OF_LARGEST) -> None:
    off, scale = (found.double() - expected.double()).abs().max(), expected.abs().max()
    assert found.shape == expected.shape
    assert off <= tolerance * scale + 1e-6, f"{what}: off by {off:.3g}, the largest is {scale:.3g}"


def assert_same_everywhere(draw: Callable[[], list[Tensor]], images: int, decided: float = 0.0) -> None:
    """With AVX2 and AVX-512, and any number of threads, `draw` gives the same bits; with neither, nearly those.

    For a share `decided` of an image's values, another rounding may decide whether a Gaussian is drawn.
    """
    used = select_instruction_set("")
    runs = []
    try:
        for name in ("avx2", "avx512"):
            try:
                select_instruction_set(name)
            except RuntimeError:
                continue
            for threads in (1, 2):
                torch.set_num_threads(threads)
                runs.append(draw())
        select_instruction_set("baseline")
        baseline = draw()
    finally:
        select_instruction_set(used)
        torch.set_num_threads(2)
    if not runs:
        pytest.skip("this CPU has neither AVX2 nor AVX-512")
    for run in runs[1:]:
        assert all(map(torch.equal, run, runs[0]))
    for one, other in zip(baseline[:images], runs[0], strict=False):
        off = (one - other).abs()
        assert off.max() <= (1 / 255 if decided else 1e-4)
        assert (off > 1e-4).double().mean() <= decided
