"""Run programs as a user would: in a process of their own, in an environment that no shell has prepared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

Done = subprocess.CompletedProcess[str]
RunPython = Callable[..., Done]

# Whatever the caller's shell says about builds must not decide a test.
BUILD_VARIABLES = {
    "CC", "CPATH", "CUDACXX", "CUDAFLAGS", "CUDA_HOME", "CXX", "CXXFLAGS", "LDFLAGS", "MAX_JOBS",
    "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "PYTHONPATH", "PYTHONUNBUFFERED", "SOURCE_DATE_EPOCH",
    "TORCH_CUDA_ARCH_LIST",
}  # fmt: skip


def clean_environment(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """The environment without variables that configure builds, then `changes`; None takes a variable away."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in BUILD_VARIABLES and not name.startswith(("TINY_", "CLASSIC_", "SPLAT_"))
    }
    for name, value in (changes or {}).items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    return environment


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str | None] | None = None,
    check: bool = True,
    limit: float = 600,
) -> Done:
    """Run a command in a clean environment, its output as text; with `check`, a failure shows that output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit,
        check=False,
    )
    if check:
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def processes_of(folder: Path) -> list[tuple[int, str]]:
    """The live processes whose temporary folder is below a folder, by number: compilers, and what starts them."""
    mark = f"\0TMPDIR={folder}/".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in b"\0" + (process / "environ").read_bytes():
                found.append((int(process.name), (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
    return found


def after_mounting(mounts: str) -> tuple[str, ...]:
    """The beginning of a command that alone sees the effect of `mounts`, a shell command."""
    command = ("unshare", "--mount", "sh", "-ec", f'{mounts}; exec "$@"', "sh")
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    return command


def run_fresh(words: Sequence[str | Path], **options: Any) -> Done:
    """Run `python WORDS` in a fresh Python of this environment."""
    return run([sys.executable, *words], **options)


def run_python(
    script: str,
    *arguments: str | Path,
    cwd: Path,
    path: Sequence[Path] = (),
    env: Mapping[str, str | None] | None = None,
    check: bool = True,
    run_words: Callable[..., Done] = run_fresh,
) -> Done:
    """Run a script in a Python of this environment, a fresh one, with the folders of `path` first on sys.path."""
    environ = {"PYTHONPATH": os.pathsep.join(map(str, path)), **(env or {})}
    return run_words(["-c", script, *arguments], cwd=cwd, env=environ, check=check)
