"""A page of photographs, the scene's renders and their differences: one HTML file with everything in it."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Final, NamedTuple

import torch
from PIL import Image
from torch import Tensor

from ..scene.file_output import replacing
from ..scene.image import to_8_bit
from ..scene.names import one_line
from .parts import policy, source

MOST_ROWS: Final = 24
"""Photographs on a page, the worst; each at most this many pixels wide and high."""
MOST_SIDE: Final = 720
BRIGHTER: Final = 4
"""How many times as bright as it is the difference is shown."""


class Measured(NamedTuple):
    """A photograph's name, and how well the scene shows it."""

    name: str
    psnr: float
    ssim: float


class Pair(NamedTuple):
    """A photograph and its render, [H, W, 3], and where they were compared, [H, W] bool; None: everywhere."""

    photograph: Tensor
    render: Tensor
    used: Tensor | None


def write_comparison(
    path: Path, title: str, facts: str, measured: Sequence[Measured], pair: Callable[[int], Pair]
) -> None:
    """Write the page; it appears complete or not at all."""
    text = comparison(title, facts, measured, pair)
    with replacing(path) as file:
        file.write(text.encode())


def comparison(title: str, facts: str, measured: Sequence[Measured], pair: Callable[[int], Pair]) -> str:
    """The page. `facts` is a line about the fit; `pair` is asked by number for the photographs that are shown."""
    worst = sorted(range(len(measured)), key=lambda number: measured[number].psnr)[:MOST_ROWS]
    shown = "the worst first" if len(worst) == len(measured) else f"the {len(worst)} worst of {len(measured)}"
    program, style = source("comparison.js"), source("comparison.css")
    return Template(source("comparison.html")).substitute(
        policy=policy(program, style, "img-src data:"),
        title=html.escape(one_line(title)),
        style=style,
        facts=html.escape(facts),
        shown=f"{shown}; differences {BRIGHTER} times as bright",
        rows="\n".join(_row(measured[number], pair(number)) for number in worst),
        program=program,
    )


def _row(measured: Measured, pair: Pair) -> str:
    name = html.escape(one_line(measured.name))
    difference = (pair.render.clamp(0, 1) - pair.photograph).abs() * BRIGHTER
    if pair.used is not None:
        difference = torch.where(pair.used[..., None], difference, 0.0)
    pictures = {"photograph": pair.photograph, "render": pair.render, "difference": difference}
    return (
        f"<section><h2>{name}</h2><p>PSNR {measured.psnr:.2f} dB, SSIM {measured.ssim:.3f}</p>\n"
        + "\n".join(_figure(kind, name, image) for kind, image in pictures.items())
        + f'\n<input type="range" step="any" aria-label="how much of the photograph {name} lies over its render">'
        "</section>"
    )


def _figure(kind: str, name: str, image: Tensor) -> str:
    picture = Image.fromarray(to_8_bit(image))
    picture.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return (
        f'<figure class="{kind}"><img alt="{kind} of {name}" width="{picture.width}" height="{picture.height}" '
        f'src="data:image/jpeg;base64,{data}"><figcaption>{kind}</figcaption></figure>'
    )
