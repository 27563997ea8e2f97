"""The environment of CMake and the compilers: which variables of the caller's reach them, and which are set for them.

Flags in CXXFLAGS or NVCC_APPEND_FLAGS are options of the registry and arrive through the Plan; anything else could
change the binary behind its back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ...flags.options import HOST_COMPILER
from ...runtime.variables import search_path

# What every compiler sees of the caller's environment.
PASSED_ON = ("HOME", "LD_LIBRARY_PATH", "PATH")
# Of pip's isolated builds, where CMake may be a script of Python.
FOR_CMAKE = ("PYTHONPATH",)
# Where zig keeps what it compiles of its own libraries.
FOR_ZIG = ("XDG_CACHE_HOME", "ZIG_GLOBAL_CACHE_DIR")
# What launchers see besides, by the beginnings of names: their own settings, and those of their storage; and proxies.
# None that would change the command they run, and thus the binary.
FOR_LAUNCHERS = ("ACTIONS_", "ALIBABA_CLOUD_", "AWS_", "CCACHE_", "DISTCC_", "SCCACHE_", "XDG_")
PROXIES = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
NOT_FOR_LAUNCHERS = ("CCACHE_BASEDIR", "CCACHE_COMPILER", "CCACHE_PREFIX")
# What every compiler sees. Under the locale C, Python 3.11 fails on .pth files in a folder such as "Müller".
SETTLED = {"LC_ALL": "C.UTF-8"}
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


def environment_for(
    work: Path, environ: Mapping[str, str], compiler: Mapping[str, str], *, launched: bool, cudart: Path | None
) -> dict[str, str]:
    """The environment of CMake and the compilers in a work folder.

    Args:
        environ: the caller's.
        compiler: what this C++ compiler needs.
        launched: whether compilers are started by a launcher.
        cudart: the CUDA runtime, if CUDA kernels are compiled.
    """
    environment = passed_on(environ) | {
        **SETTLED,
        "NINJA_STATUS": "[%f/%t] ",
        "TMPDIR": str(work / "tmp"),  # a killed compiler's leftovers are removed with the folder
    }
    environment |= {**passed_on(environ, FOR_CMAKE), **compiler}
    if launched:
        environment |= for_launchers(environ)
        environment["TMPDIR"] = tempfile.gettempdir()  # a launcher's server outlives this build
    if cudart:
        # nvcc 13.0 from pip looks in lib64, which pip leaves empty.
        environment["LIBRARY_PATH"] = search_path(cudart.parent)
    return environment


def passed_on(environ: Mapping[str, str], names: tuple[str, ...] = PASSED_ON) -> dict[str, str]:
    """The variables of `environ` with these names."""
    return {name: environ[name] for name in names if name in environ}


def for_launchers(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for launchers."""
    wanted = {
        name: value
        for name, value in environ.items()
        if (name.startswith(FOR_LAUNCHERS) or name.upper() in PROXIES) and name not in NOT_FOR_LAUNCHERS
    }
    return {**wanted, "CCACHE_BASEDIR": ""}  # overrides ccache.conf too: a base folder makes paths relative


def without_effect(environ: Mapping[str, str], variable: Callable[[str], str]) -> Iterator[str]:
    """A line for each variable that is set and that no compiler sees; `variable` says which one sets an option."""
    for name, option in _INSTEAD.items():
        if value := environ.get(name, "").strip():
            chosen = "cxx" if option == "cuda-flags" and value.startswith(HOST_COMPILER) else option
            yield f"{name} has no effect here; {variable(chosen)} has, or the option {chosen}"
