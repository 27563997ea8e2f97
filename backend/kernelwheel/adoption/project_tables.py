"""The tables of pyproject.toml for the project as a whole, from what setup() was given and what is there already."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .extension_tables import AdoptionNotes
from .setup_runs import Observation

# Arguments of setup() that become keys of [project] and of [tool.setuptools].
_PROJECT = {
    "name": "name", "version": "version", "description": "description", "python_requires": "requires-python",
    "install_requires": "dependencies", "extras_require": "optional-dependencies",
}  # fmt: skip
_SETUPTOOLS = {
    "packages": "packages", "py_modules": "py-modules", "package_dir": "package-dir", "package_data": "package-data",
}  # fmt: skip
# Arguments without which the package works the same.
_ABOUT = {
    "author", "author_email", "maintainer", "maintainer_email", "license", "license_files", "url", "download_url",
    "project_urls", "classifiers", "keywords", "long_description", "long_description_content_type", "platforms",
}  # fmt: skip
_NO_MATTER = {"zip_safe", "include_package_data", "setup_requires", "tests_require", "script_args", "script_name"}
# What kernelwheel brings, or does without.
_BROUGHT = {"setuptools", "wheel", "torch", "ninja", "cmake", "packaging", "kernelwheel"}


def build_system(cuda: bool, old: Mapping[str, Any], given: Mapping[str, Any], notes: AdoptionNotes) -> dict[str, Any]:
    """[build-system]; tells what was required before."""
    dropped = [*_lines(old.get("requires")), *_lines(given.get("setup_requires"))]
    if dropped := [text for text in dropped if _distribution(text) not in _BROUGHT or text.startswith("torch=")]:
        notes.remarks.append(f"[build-system] requires no longer has {', '.join(dropped)}: add what the build needs")
    requires = ["kernelwheel[cuda]" if cuda else "kernelwheel", "torch>=2.10"]
    return {"requires": requires, "build-backend": "kernelwheel.hooks"}


def project_table(folder: Path, given: Mapping[str, Any], notes: AdoptionNotes) -> dict[str, Any]:
    """[project]; empty if nothing tells the project's name."""
    if not given.get("name"):
        notes.untranslated.append("setup() was given no name, so there is no [project]; setup.cfg may have it: keep it")
        return {}
    table = {key: given[name] for name, key in _PROJECT.items() if given.get(name)}
    table.setdefault("version", "0.0.0")
    if not given.get("version"):
        notes.untranslated.append("setup() was given no version; write it instead of 0.0.0")
    if "dependencies" in table:
        table["dependencies"] = _lines(table["dependencies"])
    extras = table.get("optional-dependencies", {})
    if conditional := [extra for extra in extras if ":" in extra]:
        notes.untranslated.append(f"extras_require has conditions in its keys: {', '.join(conditional)}")
    if extras:
        plain = {extra: _lines(texts) for extra, texts in extras.items() if ":" not in extra}
        table["optional-dependencies"] = plain
    if left := sorted(_ABOUT & {name for name, value in given.items() if value}):
        notes.remarks.append(f"[project] leaves out what setup() was given as {', '.join(left)}")
    if (folder / "setup.cfg").is_file():
        notes.remarks.append("setup.cfg stays in effect for what [project] does not say")
    return {key: table[key] for key in ("name", "version", *table)}


def report_dynamic(project: Mapping[str, Any], given: Mapping[str, Any], notes: AdoptionNotes) -> None:
    """Tell which fields of an existing [project] come from setup.py, and would be lost with it."""
    for name, key in _PROJECT.items():
        if given.get(name) and key in project.get("dynamic", []):
            notes.untranslated.append(f"[project] takes {key} from setup.py: write there what it is, {given[name]!r}")


def setuptools_table(given: Mapping[str, Any], present: bool, notes: AdoptionNotes) -> dict[str, Any]:
    """[tool.setuptools]; what is given to setup() and has no key is told.

    An empty list of packages says something: without it, setuptools would look for packages by itself.
    """
    known = {*_PROJECT, *_SETUPTOOLS, *_ABOUT, *_NO_MATTER}
    for name in sorted(set(given) - known):
        if given[name]:
            notes.untranslated.append(f"setup() was also given {name}: {given[name]!r}")
    wanted = {key: given[name] for name, key in _SETUPTOOLS.items() if given.get(name)}
    if present:
        if wanted:
            notes.untranslated.append(f"[tool.setuptools] is as it was; setup() was given {', '.join(wanted)}: compare")
        return {}
    data = wanted.get("package-data", {})
    if data:
        wanted["package-data"] = {name or "*": _lines(patterns) for name, patterns in data.items()}
    return wanted if "packages" in wanted or "py-modules" in wanted else {"packages": [], **wanted}


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
        notes.untranslated.append(f"the extensions are in several packages, {', '.join(above)}: the first is the home")
        return default
    if above or default in top or not top:
        return None
    if len(top) > 1:
        notes.untranslated.append(
            f"no package of {', '.join(top)} is called {default}, as the project: the first is the home"
        )
    return top[0]


def report_commands(seen: Observation, notes: AdoptionNotes) -> None:
    """Tell which commands setup.py replaces with its own."""
    for command, kind in seen.commands.items():
        if kind:
            notes.untranslated.append(f"setup.py has its own {command}: {kind}; what it does is not carried over")


def _lines(value: Any) -> list[str]:
    """A list of strings, also if it was given as lines."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines() if line.strip() and not line.strip().startswith("#")]
    return [str(item) for item in value or ()]


def _distribution(requirement: str) -> str:
    """The name in a requirement."""
    match = re.match(r"\s*([A-Za-z0-9._-]+)", requirement)
    return match[1] if match else requirement
