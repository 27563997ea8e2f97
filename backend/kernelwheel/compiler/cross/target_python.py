"""The Python of another platform, for modules: its ABI and its headers, from files. Nothing of it is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...project.build_platforms import Platform
from ...runtime.errors import BuildError

# What a Python's build wrote down (sysconfig.get_config_vars). It has 50 KB: more than this is something else.
DATA = "lib*/python3.*/_sysconfigdata_*.py"
MOST_BYTES = 1 << 20
MOST_FILES = 100


@dataclass(frozen=True)
class TargetPython:
    """The Python that modules for another platform are compiled for.

    Attributes:
        abi: the ABI as in a wheel's tag, `cp312` (PyPA, platform compatibility tags).
        soabi: what it looks for in the names of modules, `cpython-312-aarch64-linux-gnu` (PEP 3149).
        include: the folders of its headers.
    """

    abi: str
    soabi: str
    include: tuple[Path, ...]


def read_python(root: Path, platform: Platform) -> TargetPython:
    """The Python for a platform in a folder that has `include` and `lib`, as its sys.base_prefix has there.

    Raises:
        BuildError: there is none, more than one, or its headers are missing; says what there is.
    """
    found: dict[str, TargetPython] = {}
    passed_over: list[str] = []
    for path in sorted(root.glob(DATA))[:MOST_FILES]:
        values = _build_time_values(path)
        machine, soabi, version, flags = (
            str(values.get(name, "")) for name in ("HOST_GNU_TYPE", "SOABI", "VERSION", "ABIFLAGS")
        )
        if not (re.fullmatch(r"3\.\d{1,3}", version) and re.fullmatch(r"[a-z]{0,3}", flags)):
            passed_over.append(f"{path}: cannot be read, or describes no Python 3")
        elif not platform.is_target_of(machine) or "musl" in machine + soabi:
            passed_over.append(f"{path}: Python {version} for {machine or 'an unknown platform'}")
        else:
            name = f"python{version}{flags}"
            folders = _header_folders(root / "include", name, f"{values.get('MULTIARCH', '')}/{name}/pyconfig.h")
            found[name] = TargetPython(f"cp{version.replace('.', '')}{flags}", soabi, folders)
    if len(found) != 1:
        raise _not_one(root, platform, [*found, *passed_over] or [f"no {DATA}"])
    ((name, python),) = found.items()
    if not python.include:
        raise BuildError(
            f"the headers of the Python for {platform.name} are not there",
            required=f"Python.h and pyconfig.h of {name}, for a module that Python imports",
            found=f"not both in {root / 'include' / name}",
            remedies=[f"unpack its headers there too (Debian, Ubuntu: lib{name}-dev of its architecture)"],
        )
    return python


def _header_folders(include: Path, name: str, for_machine: str) -> tuple[Path, ...]:
    """The folders of a Python's headers; none if they are not there.

    Debian's pyconfig.h includes that of a machine, by its name in the folder above.
    """
    if not (include / name / "Python.h").is_file() or not (config := _start_of(include / name / "pyconfig.h")):
        return ()
    if f"<{for_machine}>".encode() not in config:
        return (include / name,)
    return (include / name, include) if (include / for_machine).is_file() else ()


def _build_time_values(path: Path) -> Mapping[str, Any]:
    """The dictionary that is all of such a file; empty if it is anything else."""
    text = _start_of(path)
    try:
        return next(_dictionaries(ast.parse(text)), {}) if len(text) <= MOST_BYTES else {}
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):  # not Python, or made to be deep
        return {}


def _start_of(path: Path) -> bytes:
    """A file up to one byte more than we would take; empty if it is no file that can be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as stream:
            return stream.read(MOST_BYTES + 1)
    except OSError:
        return b""


def _dictionaries(module: ast.Module) -> Iterator[dict[str, Any]]:
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            yield ast.literal_eval(node.value)


def _not_one(root: Path, platform: Platform, found: list[str]) -> BuildError:
    return BuildError(
        f"{root} does not have one Python for {platform.name}",
        required=f"include/python3.*/Python.h and {DATA} of one Python for {platform.triple}, for a module",
        found="\n".join(found),
        remedies=[
            "unpack one with its headers, such as Debian's libpython3.*-stdlib and libpython3.*-dev for it (dpkg -x), "
            "whose folder is usr",
            "and name that folder: -C target-python=DIR",
        ],
    )
