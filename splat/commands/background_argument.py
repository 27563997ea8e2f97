"""The option --background, its default, and the colours that it takes."""

from __future__ import annotations

import argparse

from PIL import ImageColor


def add_background_argument(parser: argparse.ArgumentParser) -> None:
    """Declare --background."""
    parser.add_argument(
        "--background",
        type=_color,
        default="black",
        metavar="COLOR",
        help="background colour: a name, #rrggbb, or r,g,b from 0 to 255; default: black",
    )


def _color(text: str) -> tuple[float, float, float]:
    parts = text.split(",")
    try:
        # Pillow knows the names of CSS and #rrggbb.
        values = [float(part) for part in parts] if len(parts) == 3 else list(ImageColor.getrgb(text)[:3])
    except ValueError:
        values = []
    # Three numbers up to 1 are meant as shares, and as bytes all but black.
    shares = len(parts) == 3 and len(values) == 3 and 0 < max(values) <= 1
    if len(values) != 3 or not all(0 <= value <= 255 for value in values) or shares:
        found = f"{text!r}, which are shares" if shares else repr(text)
        raise argparse.ArgumentTypeError(f"a colour name, #rrggbb, or r,g,b from 0 to 255 is required, found {found}")
    return values[0] / 255, values[1] / 255, values[2] / 255
