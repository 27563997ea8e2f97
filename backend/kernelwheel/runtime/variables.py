"""Environment variables: how those for options are named, and what counts as set.

Separate from `settings`: at import, one of them can be read without loading the registry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .errors import SettingsError


def prefix(package: str) -> str:
    """The prefix of a package's own variables: `SPLAT` for `splat`, and one for all that `kernelwheel.load` makes."""
    if package.startswith("kernelwheel."):
        return "KERNELWHEEL"
    return package.upper().replace("-", "_").replace(".", "_")


def own_variable(package: str, option: str) -> str:
    """A package's own variable for an option: `SPLAT_CACHE_DIR`."""
    return f"{prefix(package)}_{option.upper().replace('-', '_')}"


def get_variable(environ: Mapping[str, str], variable: str) -> str:
    """A variable's value, stripped; empty if it is unset or blank."""
    return environ.get(variable, "").strip()


def cache_home() -> Path | None:
    """The folder of the user's caches, XDG_CACHE_HOME or else ~/.cache; None if there is none.

    What is not absolute counts as unset (XDG Base Directory Specification, "Basics").
    """
    for folder in (Path(os.environ.get("XDG_CACHE_HOME", "")), Path(os.environ.get("HOME", ""), ".cache")):
        if folder.is_absolute():
            return folder
    import pwd

    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None
    return home / ".cache" if home.is_absolute() else None


def search_path(*folders: Path | str, then: str = "") -> str:
    """The value of a variable such as PYTHONPATH: folders, before those of its value so far.

    Raises:
        SettingsError: a folder has a separator in its name (`;` is CMake's), and would be two, which may be anybody's.
    """
    for folder in map(str, folders):
        if not folder or set(folder) & {os.pathsep, ";"}:
            raise SettingsError(
                "folders cannot be handed on to other programs",
                required=f"folders without {os.pathsep} or ; in their names, which other programs take for two",
                found=folder or "a folder without a name",
                remedies=["install, build or run it in a folder with another name"],
            )
    return os.pathsep.join([*map(str, folders), *filter(None, [then])])
