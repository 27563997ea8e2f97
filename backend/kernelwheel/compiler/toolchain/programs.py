"""Helpers that run a program to ask it for its version or target, and the environment that compilers get."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping

# The only variables of the caller's environment that a compiler sees. Flags in CXXFLAGS or NVCC_APPEND_FLAGS are
# options of the registry and arrive through the Plan; anything else could change the binary behind its back.
PASSED_ON = ("HOME", "LD_LIBRARY_PATH", "PATH")
# Variables that compilers read elsewhere and not here, and the option that does what they are for.
_INSTEAD = {
    "CPATH": "cxx-flags",
    "CPPFLAGS": "cxx-flags",
    "CPLUS_INCLUDE_PATH": "cxx-flags",
    "CUDAHOSTCXX": "cxx",
    "NVCC_APPEND_FLAGS": "cuda-flags",
    "NVCC_CCBIN": "cxx",
    "NVCC_PREPEND_FLAGS": "cuda-flags",
}


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that a compiler sees."""
    return {name: environ[name] for name in PASSED_ON if name in environ}


def without_effect(environ: Mapping[str, str], variable: Callable[[str], str]) -> Iterator[str]:
    """A line for each variable that is set and that no compiler sees; `variable` says which one sets an option."""
    for name, option in _INSTEAD.items():
        if environ.get(name, "").strip():
            yield f"note: {name} has no effect here; {variable(option)} has, or the option {option}"


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
