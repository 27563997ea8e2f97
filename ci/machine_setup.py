"""What the programs here that make environments and machines for tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path


def unpack_packages(target: Path, packages: Iterable[str], python: str, platforms: Iterable[str]) -> None:
    """Unpack pip's packages for another platform and its Python."""
    words = ["--python-version", python, "--only-binary=:all:", "--no-deps", "--no-compile"]
    words += [f"--platform={each}" for each in platforms]
    run([sys.executable, "-m", "pip", "install", "--target", target, *words, *packages])


def run(command: list[str | Path], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
    """Run a program, with `env` besides this environment; if it fails, what it said is shown.

    It has no input, and pipes for its output: Python under Wine needs both.
    """
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False, cwd=cwd,
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
