"""The environments of the matrix: which Pythons are at hand, what pip offers them, and one environment after another.

pip is that of the Python that runs this; it installs into the others, which need none.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matrix_rows import Pair, Row, numbers, row_of

PROBE = Path(__file__).resolve().with_name("matrix_probe.py")
# What an environment and the downloads for it take, in GB: 6.9 and 3 were measured with CUDA, 1 and 0.3 without.
ROOM, ROOM_CPU = 10, 2
# A module that venv needs and that some systems leave out is asked for too. A Python without the GIL is another ABI,
# for which pip cannot be asked by version.
ASK = """
import sys, sysconfig, venv
if not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print(*sys.version_info[:3], sep=".")
"""


class Workplace(NamedTuple):
    """Where environments are made, and what is installed into them."""

    folder: Path
    wheel: Path


def pythons_at_hand(environ: dict[str, str]) -> dict[str, Path]:
    """The programs of the Pythons from 3.10 on that run, by version: those on PATH, and pyenv's; one of each minor
    release, the newest.
    """
    programs = [shutil.which(f"python3.{minor}", path=environ.get("PATH")) for minor in range(10, 30)]
    pyenv = shutil.which("pyenv", path=environ.get("PATH"))
    if pyenv:
        root = subprocess.run([pyenv, "root"], env=environ, capture_output=True, text=True, check=False).stdout.strip()
        programs += [str(path) for path in sorted(Path(root, "versions").glob("*/bin/python3"))]
    found: dict[tuple[int, ...], tuple[str, Path]] = {}
    for program in filter(None, programs):
        asked = subprocess.run([program, "-c", ASK], env=environ, capture_output=True, text=True, check=False)
        version = asked.stdout.strip()
        minor = numbers(version)[:2]
        if asked.returncode == 0 and minor >= (3, 10) and numbers(found.get(minor, ("",))[0]) < numbers(version):
            found[minor] = version, Path(program)
    return dict(found[minor] for minor in sorted(found))


def offered_torches(python: str, platforms: Sequence[str] = ()) -> list[str]:
    """The versions of torch that pip's indexes have for a Python, here or on other platforms.

    Raises:
        SystemExit: an index does not answer; pip goes on without it, and what it has would look as if nobody had it.
    """
    minor = ".".join(python.split(".")[:2])
    words = ["index", "versions", "torch", "--python-version", minor, "--only-binary", ":all:"]
    words += [f"--platform={each}" for each in platforms]
    listed = run([sys.executable, "-m", "pip", *words], limit=300)
    silent = re.search(r"Retrying \(Retry\(total=0\b.*", listed.stderr)
    if silent:
        sys.exit(f"required: an answer from each of pip's indexes; found: {silent[0]}; to fix: try again later")
    match = re.search(r"^Available versions: (.+)$", listed.stdout, re.MULTILINE)
    return match[1].split(", ") if match else []


def try_pair(pair: Pair, python: Path, place: Workplace) -> Row:
    """Make the environment of a pair, run the probe in it, and remove it."""
    if not pair.offered:
        return Row(pair.python, pair.torch, None, "not offered", "no index has it for this Python")
    if lacking := lacks_room(place, ROOM_CPU if pair.cpu else ROOM):
        return Row(pair.python, pair.torch, None, "no room", lacking)
    start = time.monotonic()
    environment = place.folder / "environment"
    shutil.rmtree(environment, ignore_errors=True)
    try:
        refused = install(pair, python, place, environment)
        if refused:
            return Row(pair.python, pair.torch, None, *refused, seconds=round(time.monotonic() - start, 1))
        row = try_environment(environment, environment)
    finally:
        shutil.rmtree(environment, ignore_errors=True)
    return row._replace(python=pair.python, torch=pair.torch, seconds=round(time.monotonic() - start, 1))


def lacks_room(place: Workplace, room: float) -> str:
    """What to say if the disk has less than so many GB; empty if it has them."""
    free = shutil.disk_usage(place.folder).free / 1e9
    if free >= room:
        return ""
    return f"required: {room} GB of disk; found: {free:.1f} GB; to fix: free some, or name another SPLAT_CI_CACHE"


def install(pair: Pair, python: Path, place: Workplace, environment: Path) -> tuple[str, str] | None:
    """Make an environment with torch and the wheel.

    Returns:
        Outcome and reason, if that cannot be done.
    """
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", environment]
    options: list[str | Path] = ["--no-compile", "--progress-bar", "off", "--cache-dir", place.folder / "downloads"]
    commands: list[list[str | Path]] = [
        [python, "-m", "venv", "--without-pip", environment],
        # Three signs: two would take 2.13.0+cpu for 2.13.0.
        [*pip, "install", *options, f"torch==={pair.torch}"],
        [*pip, "install", *options, place.wheel],
    ]
    for command in commands:
        done = run(command, limit=3600)
        if done.returncode != 0:
            return refusal(done.stdout, done.stderr)
    return None


def refusal(stdout: str, stderr: str) -> tuple[str, str]:
    """Outcome and reason of an installation that failed. What the user's own constraints exclude is not offered."""
    constraint = re.search(r"The user requested \(constraint\) (torch\W.*)", stdout + stderr)
    if constraint:
        return "not offered", f"excluded by a constraint of pip: {constraint[1].strip()}"
    return "failed", last_line(stderr)


def try_environment(environment: Path, folder: Path) -> Row:
    """Run the probe in an environment that has splat; its versions are those that the probe reports."""
    # -I: neither the folder that this runs in, nor PYTHONPATH, nor the user's own packages are seen.
    return probe([environment / "bin" / "python", "-I"], environment.name, folder)


def probe(python: Sequence[str | Path], name: str, folder: Path) -> Row:
    """Run the probe with a command for Python; `name` stands for a torch that it does not get to report."""
    start = time.monotonic()
    done = run([*python, PROBE], limit=600, cwd=folder)
    lines = list(json_lines(done.stdout))
    error = "" if done.returncode == 0 else last_line(done.stderr) or f"exit status {done.returncode}"
    if done.returncode < 0:
        error = f"killed by signal {-done.returncode}: {error}"
    first: dict[str, Any] = lines[0] if lines else {}
    return row_of(str(first.get("python", "?")), str(first.get("torch", name)), lines, error, time.monotonic() - start)


def json_lines(text: str) -> Iterator[dict[str, Any]]:
    """The lines that the probe printed; a library may have printed others."""
    for line in text.splitlines():
        if line.startswith('{"step"'):
            yield json.loads(line)


def last_line(text: str) -> str:
    """The line that says what went wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or [""])[-1]


def run(command: Sequence[str | Path], *, limit: float, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program with its output as text, without what could decide for splat."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPLAT_", "PYTHON"))}
    environ["SPLAT_JIT"] = "never"
    if cwd:
        environ["XDG_CACHE_HOME"] = str(cwd / "cache")  # not the user's
    words = [str(word) for word in command]
    try:
        return subprocess.run(
            words, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"not done after {limit:.0f} s")
