"""What setuptools is told beside the project's own configuration, and what it must not build."""

from __future__ import annotations

import configparser
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from setuptools import find_namespace_packages

from ..project.build_settings import BuildSettings
from ..project.package import PackageFacts, read_toml, source_root
from ..runtime.errors import SettingsError
from ..runtime.machine.files import is_file, is_folder
from ..runtime.settings import DEFAULT, VARIABLE, Origin

DATE = "SOURCE_DATE_EPOCH"

# The fields of [project] that a wheel adds to, and what it adds.
_ADDED_TO = {
    "dependencies": "its dependencies, but a wheel requires the torch it is built for, too",
    "version": "its version, but with torch-tag = local a wheel's names the torch it is built for, too",
}


@contextmanager
def outside_checkout(facts: PackageFacts, settings: BuildSettings, torch_tag: str = "") -> Iterator[None]:
    """Tell setuptools what this backend adds to its configuration, and to write outside of the checkout, which is the
    current folder (PEP 517); and one date, which a version may come from.

    The date is the caller's own: that of the variable as it stands, or of the option. Without either, there is none.
    `torch_tag` says which torch the libraries are bound to (tags.torch_tag); the version has it if it is a local one.
    """
    version_tag = torch_tag if settings.torch_tag == "local" else ""
    project = Path.cwd()
    values = read_toml(Path("pyproject.toml"))
    tables = dict(values.get("tool", {}))
    refuse_ext_modules(project, tables)
    refuse_static_fields(values.get("project"), facts, version_tag)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "setuptools.cfg"
        config.write_text(configuration(project, tables, facts, Path(folder), version_tag), encoding="utf-8")
        origin, date = settings.origin("source-date-epoch"), str(settings.source_date_epoch)
        date_read = {DEFAULT: None, Origin(VARIABLE, DATE): os.environ.get(DATE)}.get(origin, date)
        with variable_set("DIST_EXTRA_CONFIG", str(config)), variable_set(DATE, date_read):
            yield


def refuse_ext_modules(project: Path, tool_tables: Mapping[str, Any]) -> None:
    """Refuse extensions that setuptools would compile beside ours, for this Python alone.

    Raises:
        SettingsError: setup.py or pyproject.toml declares some; names the file.
    """
    script = project / "setup.py"
    declared = tool_tables.get("setuptools", {}).get("ext-modules")
    found = "ext-modules in [tool.setuptools] of pyproject.toml" if declared else ""
    if is_file(script) and re.search(r"^[^#\n]*\bext_modules\b", script.read_text("utf-8", "replace"), re.MULTILINE):
        found = f"ext_modules in {script.name}"
    if found:
        raise SettingsError(
            "setuptools would compile extensions of its own",
            required="extensions that kernelwheel builds, and no others",
            found=found,
            remedies=[
                "python -m kernelwheel adopt prints the tables that replace them in pyproject.toml",
                f"then remove {found.replace(' in ', ' from ', 1)}; adopt --write does both for setup.py",
            ],
        )


def refuse_static_fields(project: Mapping[str, Any] | None, facts: PackageFacts, version_tag: str = "") -> None:
    """Refuse a table [project] that says all of what a wheel adds to (PEP 621): what it requires, or its version.

    uv and others believe that table, and would install the wheel beside any torch. setuptools, as of release 84, takes
    no static values beside `dynamic` (PEP 808): hence `dependencies` in [tool.kernelwheel].

    Raises:
        SettingsError: names the line that is missing.
    """
    dynamic = needed_dynamic(project, facts, version_tag)
    if project is None or not dynamic:
        return
    missing = [name for name in _ADDED_TO if name in dynamic and name not in project.get("dynamic", [])]
    found = ", ".join(f"{key} = {json.dumps(project[key])}" for key in ("dynamic", *missing) if key in project)
    remedies = [f"write dynamic = {json.dumps(dynamic)} in [project]"]
    if "dependencies" in missing and (stated := project.get("dependencies")):
        remedies[0] += f", and move dependencies = {json.dumps(stated)} to [tool.kernelwheel]"
    if "version" in missing:
        remedies[0] += ", and move the version to where [tool.setuptools.dynamic] reads it"
        remedies.append("or leave out torch-tag = local: the file's name says which torch by its build number, too")
    raise SettingsError(
        f"pyproject.toml says that [project] has all of {', '.join(map(_ADDED_TO.__getitem__, missing))}",
        required=f"{', '.join(map(json.dumps, missing))} among the dynamic fields of [project]",
        found=f"{found or f'neither dynamic nor {missing[0]}'} in [project]",
        remedies=remedies,
    )


def needed_dynamic(project: Mapping[str, Any] | None, facts: PackageFacts, version_tag: str = "") -> list[str]:
    """What `dynamic` in [project] must become; empty if it may stay, or there is no such table."""
    fields = list(project.get("dynamic", []) if project else [])
    added = {"dependencies": facts.binds_torch or facts.dependencies, "version": version_tag}
    missing = [name for name in _ADDED_TO if added[name] and name not in fields]
    return [*fields, *missing] if project is not None and missing else []


def configuration(project: Path, tool_tables: Mapping[str, Any], facts: PackageFacts, folder: Path, tag: str) -> str:
    """The text of a further setup.cfg, read before the project's own configuration; `tag` is added to the version.

    Setuptools writes to `folder`, as in the checkout a stale build folder would add deleted modules to the wheel.
    """
    lines = ["[build]", f"build_base = {folder}", "[egg_info]", f"egg_base = {folder}"]
    if tag:
        lines.append(f"tag_build = {tag}")
    lines.append("[options]")
    if not is_file(project / "setup.py") and not _lists_packages(project, tool_tables):
        lines += _packages(project, facts.import_name)
    return "\n".join([*lines, ""])


def _lists_packages(project: Path, tool_tables: Mapping[str, Any]) -> bool:
    keys = {"packages", "py-modules", "package-dir"}
    script = configparser.RawConfigParser(strict=False)
    with suppress(configparser.Error, UnicodeDecodeError):  # setuptools will report it
        script.read(project / "setup.cfg", encoding="utf-8")  # an sdist has one without any options
    options = script.options("options") if script.has_section("options") else []
    return bool(keys & {*tool_tables.get("setuptools", {}), *(name.replace("_", "-") for name in options)})


def _packages(project: Path, package: str) -> Iterator[str]:
    """The package alone: beside it are folders of sources, which setuptools would take for packages, or complain of."""
    root, top = source_root(project, package), package.partition(".")[0]
    runtime = [f"{package}._kernelwheel", f"{package}._kernelwheel.*"]  # comes by itself
    found = sorted(find_namespace_packages(str(root), runtime, [top, f"{top}.*"])) if is_folder(root / top) else []
    yield f"packages = {', '.join(found)}"
    yield f"py_modules = {top if is_file(root / f'{top}.py') else ''}"
    if root != project:
        yield "package_dir ="
        yield "    = src"


@contextmanager
def variable_set(name: str, value: str | None) -> Iterator[None]:
    """Set a variable, or take it away, for a library that takes an option no other way, then restore it."""
    before = os.environ.get(name)
    try:
        _put(name, value)
        yield
    finally:
        _put(name, before)


def _put(name: str, value: str | None) -> None:
    os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value
