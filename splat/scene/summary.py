"""What a scene holds, in numbers and as histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw

from .camera import Camera
from .gaussians import SH_C0, Gaussians
from .pruning import seen_by

QUANTILES: Final = {"min": 0.0, "2%": 0.02, "50%": 0.5, "98%": 0.98, "max": 1.0}
PANEL: Final = (400, 200)
"""Width and height of a histogram in pixels."""
BARS: Final = 90
"""Of 4 pixels each."""

_LEFT, _TOP, _BOTTOM = 20, 28, 24
_COLORS: Final = {"paper": "#ffffff", "ink": "#202020", "bar": "#3060a0", "line": "#c0c0c0"}

Floats = npt.NDArray[np.floating]


def scene_quantiles(scene: Gaussians) -> dict[str, dict[str, float]]:
    """QUANTILES of the centres' coordinates, of all standard deviations and of the opacities; none of no Gaussian."""
    if not len(scene):
        return {}
    return {
        name: dict(zip(QUANTILES, map(float, np.quantile(values, [*QUANTILES.values()])), strict=True))
        for name, values in _values(scene).items()
    }


def visible_box(scene: Gaussians) -> dict[str, list[float]]:
    """The corners of `Gaussians.bounds`; none if nothing is visible."""
    if not len(scene) or not scene.opacities.sum() > 0:
        return {}
    corners = (corner.double() + torch.tensor(scene.offset, dtype=torch.float64) for corner in scene.bounds())
    return {name: corner.tolist() for name, corner in zip(("lower", "upper"), corners, strict=True)}


def histogram_bars(values: Floats, low: float, high: float) -> npt.NDArray[np.int64]:
    """Counts of values [N] in BARS intervals between two numbers; what lies outside is in the first or the last."""
    share = (values.astype(np.float64) - low) / ((high - low) or 1)
    return np.bincount(np.clip(share * BARS, 0, BARS - 1).astype(np.int64), minlength=BARS)


def histogram_picture(scene: Gaussians, cameras: Sequence[Camera] = ()) -> torch.Tensor:
    """Histograms of centres, standard deviations, opacities and colours, [H, W, 3] of values from 0 to 1.

    Where there are cameras, also of what they see: how many a Gaussian, and how large (`Seen`).
    """
    panels = _panels(scene) + (_seen_panels(scene, cameras) if cameras else [])
    width, height = PANEL
    picture = Image.new("RGB", (2 * width, height * (len(panels) // 2)), _COLORS["paper"])
    draw = ImageDraw.Draw(picture)
    for i, (title, values, low, high) in enumerate(panels):
        _draw_panel(draw, (width * (i % 2), height * (i // 2)), title, histogram_bars(values, low, high), low, high)
    return torch.from_numpy(np.asarray(picture, np.float32) / 255)


def _values(scene: Gaussians) -> dict[str, Floats]:
    coordinates = scene.coordinates.cpu().numpy()
    return {
        **{axis: coordinates[:, i] for i, axis in enumerate("xyz")},
        "scale": scene.scales.cpu().numpy().ravel(),
        "opacity": scene.opacities.cpu().numpy(),
    }


def _panels(scene: Gaussians) -> list[tuple[str, Floats, float, float]]:
    """Title, values and limits of each histogram."""
    values = _values(scene)
    logs = np.log10(np.maximum(values["scale"], np.float32(1e-30)))
    colors = (0.5 + SH_C0 * scene.sh[:, 0]).mean(dim=1).cpu().numpy()
    panels: list[tuple[str, Floats, float, float]] = [
        (f"centres, {axis}", values[axis], *_middle(values[axis])) for axis in "xyz"
    ]
    panels.append(("standard deviations, log10", logs, *_middle(logs)))
    panels.append(("opacity", values["opacity"], 0.0, 1.0))
    panels.append(("colour, mean of red, green and blue", colors, 0.0, 1.0))
    return panels


def _seen_panels(scene: Gaussians, cameras: Sequence[Camera]) -> list[tuple[str, Floats, float, float]]:
    seen = seen_by(scene, cameras)
    sizes = seen.sizes[seen.counts > 0].clamp(min=1e-30).log10().numpy()
    return [
        (f"seen by how many of {len(cameras)} cameras", seen.counts.float().numpy(), 0.0, float(len(cameras))),
        ("size by distance, log10", sizes, *_middle(sizes)),
    ]


def _middle(values: Floats) -> tuple[float, float]:
    """Between which numbers 99 of 100 values lie: a few Gaussians of a trained scene are far away from all others."""
    if not len(values):
        return 0.0, 1.0
    low, high = np.quantile(values, [0.005, 0.995])
    return float(low), float(high)


def _draw_panel(
    draw: Any, corner: tuple[int, int], title: str, counts: npt.NDArray[np.int64], low: float, high: float
) -> None:
    x, y = corner[0] + _LEFT, corner[1] + _TOP
    base = corner[1] + PANEL[1] - _BOTTOM
    most = max(int(counts.max()), 1)
    draw.text((x, y - 18), f"{title}; highest bar: {int(counts.max())}", fill=_COLORS["ink"])
    for i, count in enumerate(counts.tolist()):
        if count:  # at least a pixel, so that a single Gaussian is seen
            top = base - max(round(count / most * (base - y)), 1)
            draw.rectangle((x + 4 * i, top, x + 4 * i + 2, base - 1), fill=_COLORS["bar"])
    draw.line((x, base, x + 4 * BARS, base), fill=_COLORS["line"])
    draw.text((x, base + 6), f"{low:.4g}", fill=_COLORS["ink"])
    end = f"{high:.4g}"
    draw.text((x + 4 * BARS - draw.textlength(end), base + 6), end, fill=_COLORS["ink"])
