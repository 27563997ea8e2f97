"""Helpers that run a program to ask it for its version or target, and the environment that compilers get."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

# The only variables of the caller's environment that a compiler sees. Flags in CXXFLAGS or NVCC_APPEND_FLAGS are
# options of the registry and arrive through the Plan; anything else could change the binary behind its back.
PASSED_ON = ("HOME", "LD_LIBRARY_PATH", "PATH")


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that a compiler sees."""
    return {name: environ[name] for name in PASSED_ON if name in environ}


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
