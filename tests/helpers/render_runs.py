"""`splat render`, run in this process."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from splat.commands import render_command
from splat.commands.printing import CommandParser


def parse(*arguments: str | Path) -> argparse.Namespace:
    parser = CommandParser(prog="splat render")
    render_command.add_arguments(parser)
    return parser.parse_args([str(argument) for argument in arguments])


def render(out: Path, *arguments: str | Path) -> np.ndarray:
    """Pixels of the picture, float, [H, W, 3]."""
    assert render_command.run(parse("-o", out, "--device", "cpu", *arguments)) == 0
    with Image.open(out) as image:
        assert image.format == "PNG"
        assert image.mode == "RGB"
        return np.asarray(image, dtype=float)


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run what exits with 1 and return its one line on stderr."""
    assert render_command.run(parse(*arguments)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("splat: ")
    assert err.count("\n") == 1
    return err
