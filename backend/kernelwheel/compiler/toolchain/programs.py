"""Helpers that run a program to ask it for its version or target."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping


def output_of(program: str, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """What a program prints, stdout and stderr combined; if it cannot be run, the error as text."""
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
            env=environ,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    return done.stdout


def last_line(text: str) -> str:
    """The last line of what a program printed, for a message."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
