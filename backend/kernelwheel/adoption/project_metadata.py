"""The table [project] (PEP 621) for what setuptools makes of a setup.py, its setup.cfg and its pyproject.toml."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from .extension_tables import AdoptionNotes
from .setup_runs import Observation

# Keys of [project] for the arguments of setup(), which [project] may leave to it as `dynamic`.
ARGUMENTS = {
    "name": ["name"], "version": ["version"], "description": ["description"],
    "readme": ["long_description", "long_description_content_type"], "requires-python": ["python_requires"],
    "license": ["license", "license_expression"], "license-files": ["license_files", "license_file"],
    "authors": ["author", "author_email"], "maintainers": ["maintainer", "maintainer_email"], "keywords": ["keywords"],
    "classifiers": ["classifiers"], "urls": ["url", "download_url", "project_urls"],
    "dependencies": ["install_requires"], "optional-dependencies": ["extras_require"], "scripts": ["entry_points"],
    "gui-scripts": ["entry_points"], "entry-points": ["entry_points"],
}  # fmt: skip
_READMES = (".md", ".rst", ".txt")
_LICENCE_CLASSIFIER = "License ::"


def project_metadata(folder: Path, seen: Observation, notes: AdoptionNotes) -> dict[str, Any]:
    """[project] with every key that says something."""
    values = seen.values
    licence = _licence(folder, values)
    classifiers = values.get("classifiers") or []
    if isinstance(licence, str) and any(text.startswith(_LICENCE_CLASSIFIER) for text in classifiers):
        classifiers = [text for text in classifiers if not text.startswith(_LICENCE_CLASSIFIER)]
        notes.remarks.append(f"license = {licence!r} takes the place of the classifiers of licences (PEP 639)")
    given_files = seen.arguments.get("license_files") or seen.arguments.get("license_file")
    table = {
        "name": values.get("name"),
        "version": values.get("version"),
        "description": values.get("description"),
        "readme": _readme(folder, values),
        "requires-python": values.get("python_requires"),
        "license": licence,
        "license-files": lines(given_files) if not isinstance(licence, dict) else None,
        "authors": people(values.get("author"), values.get("author_email")),
        "maintainers": people(values.get("maintainer"), values.get("maintainer_email")),
        "keywords": comma_separated(values.get("keywords")),
        "classifiers": classifiers,
        "urls": _urls(values),
        "dependencies": lines(values.get("install_requires")),
        "optional-dependencies": None,
        **entry_point_tables(seen.wheel.get("about", {}).get("entry_points.txt", "")),
    }
    required, extras = requirements(values.get("extras_require") or {})
    table["dependencies"] = list(dict.fromkeys([*table["dependencies"], *required]))
    table["optional-dependencies"] = extras
    return {key: value for key, value in table.items() if value}


def _readme(folder: Path, values: Mapping[str, Any]) -> str | dict[str, str] | None:
    """A file if one has this text, otherwise the text."""
    text, kind = values.get("long_description"), values.get("long_description_content_type")
    if not text:
        return None
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in _READMES and path.is_file() and _same_text(path, text):
            usual = {".md": "text/markdown", ".rst": "text/x-rst"}.get(path.suffix.lower(), "text/plain")
            if not kind or kind.partition(";")[0].strip() == usual:
                return path.name
            return {"file": path.name, "content-type": kind}
    return {"text": text, "content-type": kind or "text/plain"}


def _same_text(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8").strip() == text.replace("\r\n", "\n").strip()
    except (OSError, ValueError):
        return False


def _licence(folder: Path, values: Mapping[str, Any]) -> str | dict[str, str] | None:
    """An SPDX expression if it is one, a file if one has this text, otherwise the text."""
    from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

    text = values.get("license_expression") or values.get("license")
    if not text:
        return None
    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        file = next((path for path in sorted(folder.iterdir()) if path.is_file() and _same_text(path, text)), None)
        return {"file": file.name} if file else {"text": text}


def people(names: str | None, addresses: str | None) -> list[dict[str, str]]:
    """Names and addresses, which setup() takes as two lists with commas: together if there is one for each."""
    persons = [name.strip() for name in re.split(r",|\band\b", names or "") if name.strip()]
    mails = [mail.strip() for mail in (addresses or "").split(",") if mail.strip()]
    if any("<" in mail for mail in mails) or (mails and len(persons) != len(mails)):
        return [*({"name": name} for name in persons), *map(_person, mails)]
    pairs = zip_longest(persons, mails)
    return [{key: text for key, text in (("name", name), ("email", mail)) if text} for name, mail in pairs]


def _person(address: str) -> dict[str, str]:
    match = re.fullmatch(r'"?([^"<]*)"?\s*<(.*)>', address)
    name = match[1].strip() if match else ""
    return {**({"name": name} if name else {}), "email": match[2] if match else address}


def comma_separated(value: Any) -> list[str]:
    """Words from a text with commas, or from a list of such texts."""
    text = value if isinstance(value, str) else ",".join(value or ())
    return [word.strip() for word in text.split(",") if word.strip()]


def _urls(values: Mapping[str, Any]) -> dict[str, str]:
    urls = {"Homepage": values.get("url"), "Download": values.get("download_url"), **(values.get("project_urls") or {})}
    return {name: url for name, url in urls.items() if url}


def requirements(extras: Mapping[str, Any]) -> tuple[list[str], dict[str, list[str]]]:
    """What `extras_require` asks for always, and for each extra; conditions in its keys become markers."""
    always: list[str] = []
    found: dict[str, list[str]] = {}
    for key, texts in extras.items():
        extra, _, condition = key.partition(":")
        wanted = found.setdefault(extra, []) if extra else always
        wanted += [_with_marker(text, condition) for text in lines(texts)]
    return always, found


def _with_marker(requirement: str, condition: str) -> str:
    if not condition:
        return requirement
    text, _, marker = requirement.partition(";")
    both = f"({marker.strip()}) and ({condition})" if marker.strip() else condition
    return f"{text.strip()} ; {both}" if "@" in text else f"{text.strip()}; {both}"


def entry_point_tables(text: str) -> dict[str, Any]:
    """`scripts`, `gui-scripts` and `entry-points` for an entry_points.txt."""
    groups = parsed_entry_points(text)
    scripts, gui = groups.pop("console_scripts", {}), groups.pop("gui_scripts", {})
    return {"scripts": scripts, "gui-scripts": gui, "entry-points": groups}


def parsed_entry_points(text: str) -> dict[str, dict[str, str]]:
    """The groups of an entry_points.txt (PyPA, entry points specification)."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(text)
    return {group: dict(parser.items(group)) for group in parser.sections()}


def lines(value: Any) -> list[str]:
    """A list of strings, also if it was given as lines."""
    if isinstance(value, str):
        return [line.strip() for line in value.splitlines() if line.strip() and not line.strip().startswith("#")]
    return [str(item) for item in value or ()]


def dynamic_from_setup(
    project: Mapping[str, Any], present: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[str]:
    """The keys that an existing [project] leaves to setup(), and that would be lost with it.

    Args:
        project: the existing [project].
        present: [tool.setuptools].
        given: the arguments of setup().
    """
    elsewhere = present.get("dynamic", {})
    for key in project.get("dynamic", []):
        if key not in elsewhere and any(given.get(name) for name in ARGUMENTS.get(key, [])):
            yield key
