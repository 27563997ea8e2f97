"""The Python packages and programs that a compile needs besides compilers, and the error if one is missing."""

from __future__ import annotations

import shutil

from ..requirements import TO_COMPILE, install, missing
from ..runtime.errors import BuildError
from .toolchain.programs import last_line, output_of

CMAKE_VERSION = ">=3.24"
NINJA_VERSION = ">=1.5"
PROGRAMS = {"cmake": CMAKE_VERSION, "ninja": NINJA_VERSION}
INSTALLED = "installed"
# The packages that a compile needs, and the programs they run, by their names on PyPI.
NEEDED = (*(name for _, name in TO_COMPILE), *PROGRAMS)
INSTALL_TOOLS = install(NEEDED)


def find_tools() -> dict[str, str]:
    """Look for the Python packages and programs that a compile needs; maps their PyPI names to what was found.

    If all packages are installed, programs are searched as the driver does. Otherwise they are left out.
    """
    absent = missing(TO_COMPILE)
    found = {name: "missing" if name in absent else INSTALLED for _, name in TO_COMPILE}
    if absent:
        return found
    from packaging.specifiers import SpecifierSet
    from scikit_build_core.program_search import best_program, get_cmake_programs, get_ninja_programs

    for name, programs in (("cmake", get_cmake_programs()), ("ninja", get_ninja_programs())):
        program = best_program(programs, version=SpecifierSet(PROGRAMS[name]))
        said = f"{program.path}: {program.version}" if program else f"missing: {PROGRAMS[name]}{_unusable(name)}"
        found[name] = said
    return found


def programs_to_install() -> list[str]:
    """The requirements for pip that bring the programs that this machine lacks, or has in no recent release."""
    found = find_tools()
    return [name + wanted for name, wanted in PROGRAMS.items() if found[name].startswith("missing")]


def _unusable(name: str) -> str:
    """What a program says that is on PATH and is not taken."""
    path = shutil.which(name)
    return f" ({path} --version: {last_line(output_of(path, '--version'))})" if path else ""


def require_tools() -> None:
    """Raise an error if a Python package or program that the compile needs is missing."""
    found = find_tools()
    absent = [f"{name} {state}" for name, state in found.items() if state.startswith("missing")]
    if absent:
        raise BuildError(
            "the kernels cannot be compiled here",
            required=", ".join(NEEDED),
            found="; ".join(absent),
            remedies=[INSTALL_TOOLS, "or install a wheel that was built for this machine"],
        )
