"""Run a program under a tool of compute-sanitizer; say whether it found something, or cannot work on this machine.

Usage: gpu_sanitizer.py TOOL ROWS COMMAND...: `--rows FILE` is added to the command. What it writes there is kept in
ROWS only if nothing was found, so that nothing passes by being stopped.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from gpu_rows import SKIPPED

FOUND = 9  # the exit status that compute-sanitizer gives a program in which it has found something
# What torch's own kernels do is not ours to check; but memory that they have set is, to initcheck, set by nobody else.
OURS = ("--kernel-name", "kns=splat")
OPTIONS: dict[str, Sequence[str]] = {"memcheck": (), "racecheck": OURS, "synccheck": OURS, "initcheck": ()}
# Its lines about findings, among those that it always prints.
FINDING = re.compile(r"=========\s+(?!COMPUTE-SANITIZER|ERROR SUMMARY: 0 |RACECHECK SUMMARY: 0 |$)\S")
# What works wherever a GPU can be used under the tool.
SMALL = (sys.executable, "-c", "import torch; print(torch.ones(1, device='cuda').add(1).item())")


class Ran(NamedTuple):
    """A program under the tool."""

    status: int
    findings: list[str]
    stopped: bool = False


def main(tool: str, rows: Path, command: Sequence[str]) -> int:
    """As ci/gpu understands it."""
    program = find_sanitizer()
    if program is None:
        print("skipped: no compute-sanitizer on PATH or below /usr/local/cuda*")
        return SKIPPED
    return check([program, "--tool", tool, *OPTIONS[tool], "--error-exitcode", str(FOUND)], rows, command, SMALL)


def find_sanitizer() -> str | None:
    """On PATH, or where the toolkit installs it."""
    below = sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))
    return shutil.which("compute-sanitizer") or (str(below[-1]) if below else None)


def check(tool: Sequence[str], rows: Path, command: Sequence[str], small: Sequence[str]) -> int:
    """Run it; where that fails, a small program shows whether the tool works at all."""
    new = rows.with_name(f"{rows.name}.part")
    new.write_bytes(rows.read_bytes() if rows.exists() else b"")
    ran = watch([*tool, *command, "--rows", str(new)])
    # What was printed counts only where the tool could not sum it up.
    if not ran.findings if ran.stopped else ran.status == 0:
        new.replace(rows)
    else:
        new.unlink()
        rows.unlink(missing_ok=True)  # what was found may be of any of them
    if ran.stopped:
        return 128 + signal.SIGTERM
    if ran.status == 0:
        return 0
    print("does it work on this machine? A small program:", flush=True)
    tried = watch([*tool, *small])
    if tried.status in (0, FOUND):
        return 1
    said = [line.lstrip("= ") for line in tried.findings]
    print(f"skipped: compute-sanitizer does not work here: {said[0] if said else f'exit status {tried.status}'}")
    return SKIPPED


def watch(command: Sequence[str]) -> Ran:
    """Show what it prints, until it ends or this program is asked to."""
    findings: list[str] = []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    assert process.stdout is not None
    try:
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if FINDING.match(line):
                findings.append(line.strip())
        return Ran(process.wait(), findings)
    except Stopped:
        with suppress(ProcessLookupError):
            process.terminate()
        return Ran(-signal.SIGTERM, findings, stopped=True)


class Stopped(Exception):
    """By SIGTERM."""


def stop(number: int, frame: FrameType | None) -> None:
    """What SIGTERM does."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
