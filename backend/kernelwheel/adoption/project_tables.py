"""The tables of pyproject.toml for the project as a whole, from what setup() was given and what is there already."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..project.package import read_toml
from .extension_tables import LONG_LIST, AdoptionNotes
from .project_metadata import ARGUMENTS, dynamic_from_setup, lines, project_metadata
from .setup_runs import Observation

# Attributes of setuptools' Distribution, and the keys of [tool.setuptools] that say the same.
_SETUPTOOLS = {
    "packages": "packages", "py_modules": "py-modules", "package_dir": "package-dir", "package_data": "package-data",
    "exclude_package_data": "exclude-package-data", "scripts": "script-files", "data_files": "data-files",
    "namespace_packages": "namespace-packages", "platforms": "platforms", "provides": "provides",
    "obsoletes": "obsoletes",
}  # fmt: skip
# Arguments of setup() that say nothing about what is in a wheel of kernelwheel's.
_NO_MATTER = {
    "zip_safe", "include_package_data", "setup_requires", "tests_require", "test_suite", "test_loader", "script_args",
    "script_name", "verbose",
}  # fmt: skip
# What kernelwheel brings, or does without.
_BROUGHT = {"setuptools", "wheel", "torch", "ninja", "cmake", "packaging", "kernelwheel"}


def present_tables(folder: Path) -> dict[str, Any]:
    """A project's pyproject.toml as it is; empty without one.

    Raises:
        KernelWheelError: it cannot be read.
    """
    path = folder / "pyproject.toml"
    return read_toml(path) if path.exists() else {}


def build_system(
    cuda: bool, old: Mapping[str, Any], given: Mapping[str, Any], notes: AdoptionNotes, rest: AdoptionNotes
) -> dict[str, Any]:
    """[build-system]; tells what was required before."""
    requires = ["kernelwheel[cuda]" if cuda else "kernelwheel", "torch>=2.10"]
    if pins := [text for text in _required(old, given) if text.startswith("torch=")]:
        notes.remarks.append(f"[build-system] requires no longer has {', '.join(pins)}, but {requires[1]}")
    if dropped := other_requirements(old, given):
        rest.remarks.append(f"[build-system] requires no longer has {', '.join(dropped)}: add what the build needs")
    return {"requires": requires, "build-backend": "kernelwheel.hooks"}


def other_requirements(old: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """What a project's builds required, [build-system] and setup(), besides what kernelwheel brings."""
    return [text for text in _required(old, given) if _distribution(text) not in _BROUGHT]


def _required(old: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    return [*lines(old.get("requires")), *lines(given.get("setup_requires"))]


def project_table(
    folder: Path, present: Mapping[str, Any], seen: Observation, home: str, notes: AdoptionNotes
) -> dict[str, Any]:
    """The keys that [project] lacks: all of them without one, else those that it leaves to setup() as `dynamic`.

    Args:
        folder: the project's.
        present: pyproject.toml as it is.
        seen: the run of setup.py.
        home: the name to take if nothing tells the project's.
        notes: where to tell what is lost.
    """
    found = project_metadata(folder, seen, notes)
    _report_version(folder, found, notes)
    if "project" in present:
        left = dynamic_from_setup(present["project"], present.get("tool", {}).get("setuptools", {}), seen.arguments)
        return {key: found[key] for key in left if key in found}
    if found.get("name") in (None, "UNKNOWN"):
        notes.untranslated.append(f"setup() was given no name; write it instead of {home}")
        found["name"] = home
    if not seen.values.get("version") or seen.values["version"] == "0.0.0":
        notes.remarks.append("setup() was given no version, so it stays 0.0.0")
    return {"name": found["name"], "version": "0.0.0", **found}


def _report_version(folder: Path, found: Mapping[str, Any], notes: AdoptionNotes) -> None:
    version = found.get("version")
    if version and version != "0.0.0" and version not in (folder / "setup.py").read_text("utf-8", errors="replace"):
        notes.remarks.append(
            f"version = {version!r} is what setup.py found elsewhere; to read it there at each build, name it in "
            "[tool.setuptools.dynamic]"
        )


def setuptools_table(
    folder: Path, present: Mapping[str, Any], seen: Observation, licence: object, notes: AdoptionNotes
) -> dict[str, Any]:
    """The keys that [tool.setuptools] lacks; what is given to setup() and has no key is told.

    An empty list of packages says something: without it, setuptools would look for packages by itself.

    Args:
        folder: the project's.
        present: pyproject.toml's [tool.setuptools] as it is.
        seen: the run of setup.py.
        licence: the value of `license` in [project].
        notes: where to tell what is lost.
    """
    _report_unknown(seen, notes)
    values = seen.values
    wanted = {key: values[name] for name, key in _SETUPTOOLS.items() if values.get(name)}
    if "package-dir" in wanted:
        wanted["package-dir"] = {
            name: _inside(folder, place, f"package_dir[{name!r}]", notes)
            for name, place in wanted["package-dir"].items()
        }
    for key in ("package-data", "exclude-package-data"):
        if key in wanted:
            wanted[key] = _patterns(folder, wanted[key], wanted.get("package-dir", {}), notes)
    if "data-files" in wanted:
        wanted["data-files"] = _data_files(wanted["data-files"], notes)
    if "packages" in wanted:
        wanted["packages"] = _packages(folder, wanted["packages"], wanted.get("package-dir", {}))
    if isinstance(licence, dict) and (files := seen.arguments.get("license_files")):
        wanted["license-files"] = lines(files)  # which [project] takes beside an SPDX expression only
    if not values.get("include_package_data") and (folder / "MANIFEST.in").is_file():
        wanted["include-package-data"] = False  # which [project] would turn on
    if "packages" not in wanted and "py-modules" not in wanted:
        wanted = {"packages": [], **wanted}
    return {
        key: value
        for key, value in wanted.items()
        if key not in present and (value or key == "packages" or value is False)
    }


def _report_unknown(seen: Observation, notes: AdoptionNotes) -> None:
    """Tell which arguments of setup() no key stands for."""
    if links := lines(seen.arguments.get("dependency_links")):
        notes.remarks.append(f"dependency_links are left out, since pip ignores them: {', '.join(links)}")
    known = {*_SETUPTOOLS, *_NO_MATTER, "dependency_links", *(name for names in ARGUMENTS.values() for name in names)}
    for name, value in sorted(seen.arguments.items()):
        if value and name not in known and not (name == "options" and set(value) <= {"bdist_wheel", "build_ext"}):
            notes.untranslated.append(f"setup() was also given {name}: {value!r}")


def _inside(folder: Path, place: str, what: str, notes: AdoptionNotes) -> str:
    """A path relative to the project, also if it was absolute; what is elsewhere is told."""
    relative = os.path.relpath(folder / place, folder)
    if not Path(place).is_absolute():
        return place
    if relative.startswith(".."):
        notes.untranslated.append(f"{what} is a folder of this machine, {place}")
    return relative if not relative.startswith("..") else "."


def _patterns(
    folder: Path, patterns: Mapping[str, Any], places: Mapping[str, str], notes: AdoptionNotes
) -> dict[str, list[str]]:
    """Patterns of package data, relative to the package; those of another place on this machine are told."""
    found: dict[str, list[str]] = {}
    for package, texts in patterns.items():
        home = folder / places.get(package, f"{places.get('', '.')}/{package.replace('.', '/')}")
        kept = [text if not Path(text).is_absolute() else os.path.relpath(text, home) for text in lines(texts)]
        for text, pattern in zip(lines(texts), kept, strict=True):
            if Path(text).is_absolute() and (pattern.startswith("..") or not package):
                notes.untranslated.append(
                    f"package_data of {package or 'all packages'}: {text} names a place on this machine"
                )
            else:
                found.setdefault(package or "*", []).append(pattern)
    return found


def _data_files(given: Sequence[Any], notes: AdoptionNotes) -> dict[str, list[str]]:
    """[tool.setuptools.data-files]: folders below the environment's, and their files."""
    found: dict[str, list[str]] = {}
    for entry in given:
        place, files = (".", [entry]) if isinstance(entry, str) else entry
        if Path(place).is_absolute() or any(Path(file).is_absolute() for file in files):
            notes.untranslated.append(f"data_files: {place}: {', '.join(files)} names a place on this machine")
        else:
            found.setdefault(place, []).extend(files)
    return found


def _packages(folder: Path, packages: Sequence[str], places: Mapping[str, str]) -> list[str] | dict[str, Any]:
    """A long list as a search, if that finds the same packages."""
    from setuptools import find_packages

    if len(packages) > LONG_LIST and not set(places) - {""}:
        where = places.get("", ".")
        include = [f"{name}*" for name in dict.fromkeys(package.partition(".")[0] for package in packages)]
        if set(find_packages(str(folder / where), include=include)) == set(packages):
            return {"find": {"where": [where], "include": include, "namespaces": False}}
    return list(packages)


def without_places(tables: Any, project: Path, notes: AdoptionNotes) -> Any:
    """The same tables without texts that name the project's folder on this machine, each of which is told."""
    if isinstance(tables, dict):
        return {
            key: without_places(value, project, notes) for key, value in tables.items() if _kept(value, project, notes)
        }
    if isinstance(tables, list):
        return [without_places(value, project, notes) for value in tables if _kept(value, project, notes)]
    return tables


def _kept(value: Any, project: Path, notes: AdoptionNotes) -> bool:
    here = isinstance(value, str) and str(project) in value
    if here:
        notes.untranslated.append(f"{value!r} names a folder of this machine")
    return not here


def home_package(
    extensions: Sequence[str], project: str | None, packages: Sequence[str], notes: AdoptionNotes
) -> str | None:
    """The key `package` of [tool.kernelwheel]; None if its default is right.

    Args:
        extensions: their import names.
        project: the project's name.
        packages: what setup() was given.
    """
    above = list(dict.fromkeys(name.partition(".")[0] for name in extensions if "." in name))
    default = above[0] if above else re.sub(r"[-.]", "_", project or "")
    top = list(dict.fromkeys(name.partition(".")[0] for name in packages))
    if len(above) > 1:
        notes.remarks.append(f"the extensions are in several packages, {', '.join(above)}: the first is the home")
        return default
    if above or default in top or not top:
        return None
    return top[0] if len(top) == 1 else None


def report_commands(seen: Observation, notes: AdoptionNotes, rest: AdoptionNotes) -> None:
    """Tell which commands setup.py replaces with its own: those that build extensions or wheels, and the others."""
    for command, kind in seen.commands.items():
        if kind:
            told = notes if command in ("build_ext", "bdist_wheel") else rest
            told.untranslated.append(f"setup.py has its own {command}: {kind}; what it does is not carried over")


def _distribution(requirement: str) -> str:
    """The name in a requirement."""
    match = re.match(r"\s*([A-Za-z0-9._-]+)", requirement)
    return match[1] if match else requirement
