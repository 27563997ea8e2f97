"""A page of photographs and the scene's renders side by side: one HTML file with everything in it, without scripts."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from ..scene.file_output import check_writable, replacing
from ..scene.gaussians import Gaussians
from ..scene.image import to_8_bit
from ..scene.names import one_line
from .picture_quality import Quality
from .views import Views, render

MOST_ROWS: Final = 24
"""Pictures on a page, evenly chosen; each at most this many pixels wide and high."""
MOST_SIDE: Final = 720
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1480px; padding: 0 1rem; color: #222;
  background: #fafafa }
h1 { font-size: 1.4rem } td, th { padding: .3rem .6rem .3rem 0; vertical-align: top; text-align: left }
table { border-collapse: collapse; width: 100% } img { width: 100%; height: auto; display: block; border-radius: 3px }
td.name { width: 11rem; overflow-wrap: anywhere; font-variant-numeric: tabular-nums }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } }
"""


def check_page(path: str | Path) -> Path:
    """Raise ValueError or OSError if `write_comparison` could not write a file of this name."""
    return check_writable(path, ".html", "pages")


def write_comparison(path: Path, title: str, facts: str, scene: Gaussians, views: Views, quality: Quality) -> None:
    """Write the page of a scene and the pictures that it was judged by; it appears complete or not at all."""
    text = comparison(title, facts, scene, views, quality)
    with replacing(path) as file:
        file.write(text.encode())


@torch.no_grad()
def comparison(title: str, facts: str, scene: Gaussians, views: Views, quality: Quality) -> str:
    """The page. `facts` is a line about the fit; `quality` has the numbers of each of the pictures."""
    count = min(len(views), MOST_ROWS)
    chosen = [index * len(views) // count for index in range(count)]
    rows = []
    for view in chosen:
        name = one_line(views.name(view))
        image = render(scene, views, view, scene.degree)[0]
        rows.append(
            f'<tr><td class="name">{html.escape(name)}<br>PSNR {quality.psnrs[view]:.2f} dB<br>'
            f"SSIM {quality.ssims[view]:.3f}</td>"
            f"<td>{_embedded(views.target(view), f'photograph {name}')}</td>"
            f"<td>{_embedded(image, f'render of {name}')}</td></tr>"
        )
    title = one_line(title)
    shown = "" if count == len(views) else f" {count} of {len(views)} pictures are shown."
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{html.escape(title)}</h1>\n<p>{html.escape(facts)}<br>On average PSNR {quality.psnr:.2f} dB, SSIM "
        f"{quality.ssim:.3f}.{shown}</p>\n"
        "<table><thead><tr><th></th><th>photograph</th><th>render</th></tr></thead><tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table></body></html>\n"
    )


def _embedded(image: Tensor, words: str) -> str:
    pixels: npt.NDArray[np.uint8] = to_8_bit(image)
    picture = Image.fromarray(pixels)
    picture.thumbnail((MOST_SIDE, MOST_SIDE), Image.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return (
        f'<img alt="{html.escape(words)}" width="{picture.width}" height="{picture.height}" '
        f'src="data:image/jpeg;base64,{data}">'
    )
