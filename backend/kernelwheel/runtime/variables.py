"""Environment variables: how those for options are named, and what counts as set.

Separate from `settings`: at import, one of them can be read without loading the registry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from .errors import SettingsError, StoreError


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


def default_folder() -> Path:
    """The user's cache folder, in XDG_CACHE_HOME or else ~/.cache, in which each package has its own subfolder.

    What is not absolute counts as unset (XDG Base Directory Specification, "Basics").
    """
    folders = [Path(os.environ.get("XDG_CACHE_HOME", "")), Path(os.environ.get("HOME", ""), ".cache")]
    if not any(folder.is_absolute() for folder in folders):
        import pwd

        with suppress(KeyError):
            folders.append(Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache"))
    for folder in folders:
        if folder.is_absolute():
            return folder / "kernelwheel"
    raise StoreError(
        "no folder to store compiled kernels in",
        required="an absolute path from XDG_CACHE_HOME, or from the user's home",
        found=f"neither, nor a home of user {os.getuid()} in the user database",
        remedies=["set HOME, or XDG_CACHE_HOME to an absolute path"],
    )


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
