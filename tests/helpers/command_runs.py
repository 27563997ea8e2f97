"""The `splat` command, run in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from splat import cli


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """The exit status of a command, and what it printed."""
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    out, err = capsys.readouterr()
    return status, out, err
