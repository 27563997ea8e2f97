"""Run a program under a tool of compute-sanitizer; say whether it found something, or cannot work on this machine.

Usage: gpu_sanitizer.py TOOL COMMAND...
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_rows import SKIPPED

FOUND = 9  # the exit status that compute-sanitizer gives a program in which it has found something
# What torch's own kernels do is not ours to check; but memory that they have set is, to initcheck, set by nobody else.
OURS = ("--kernel-name", "kns=splat")
OPTIONS: dict[str, Sequence[str]] = {"memcheck": (), "racecheck": OURS, "synccheck": OURS, "initcheck": ()}
# What works wherever a GPU can be used under the tool.
SMALL = (sys.executable, "-c", "import torch; print(torch.ones(1, device='cuda').add(1).item())")


def main(tool: str, command: Sequence[str]) -> int:
    """As ci/gpu understands it."""
    program = find_sanitizer()
    if program is None:
        print("skipped: no compute-sanitizer on PATH or below /usr/local/cuda*")
        return SKIPPED
    return check([program, "--tool", tool, *OPTIONS[tool], "--error-exitcode", str(FOUND)], command, SMALL)


def find_sanitizer() -> str | None:
    """On PATH, or where the toolkit installs it."""
    below = sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))
    return shutil.which("compute-sanitizer") or (str(below[-1]) if below else None)


def check(tool: Sequence[str], command: Sequence[str], small: Sequence[str]) -> int:
    """Run it; where that fails, a small program shows whether the tool works at all."""
    if subprocess.run([*tool, *command], check=False).returncode == 0:
        return 0
    print("does it work on this machine? A small program:", flush=True)
    tried = subprocess.run([*tool, *small], capture_output=True, text=True, errors="replace", check=False)
    print(tried.stdout + tried.stderr)
    if tried.returncode in (0, FOUND):
        return 1
    found = [line.lstrip("= ") for line in tried.stdout.splitlines() if line.startswith("=") and "Error" in line]
    reason = found[0] if found else f"exit status {tried.returncode}"
    print(f"skipped: compute-sanitizer does not work here: {reason}")
    return SKIPPED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
