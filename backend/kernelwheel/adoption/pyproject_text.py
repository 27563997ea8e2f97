"""Text of pyproject.toml: the tables that kernelwheel needs, and their addition to a file."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..project.package import parse_toml, read_toml
from ..runtime.errors import SettingsError, way_out

WIDTH = 100
_HEADER = re.compile(r"[ \t]*\[[ \t]*build-system[ \t]*\]")
_PROJECT = re.compile(r"[ \t]*\[[ \t]*project[ \t]*\]")
_REQUIRED = ("dynamic", "dependencies")
_REQUIRES = re.compile(rf"[ \t]*({'|'.join(_REQUIRED)})[ \t]*=")


def toml_text(build_system: Mapping[str, Any], kernelwheel: Mapping[str, Any]) -> tuple[str, str]:
    """[build-system], and [tool.kernelwheel] with its tables of extensions."""
    plain = {key: value for key, value in kernelwheel.items() if key != "extension"}
    tables = [_table("[[tool.kernelwheel.extension]]", each) for each in kernelwheel["extension"]]
    if plain:
        tables.insert(0, _table("[tool.kernelwheel]", plain))
    return _table("[build-system]", build_system), "\n".join(tables)


def _table(header: str, values: Mapping[str, Any]) -> str:
    return "".join(f"{line}\n" for line in (header, *(f"{key} = {_value(value)}" for key, value in values.items())))


def _value(value: Any) -> str:
    """A text, a list or a truth value; a list that is too long for a line has one line for each item."""
    if isinstance(value, list):
        items = [_value(item) for item in value]
        text = f"[{', '.join(items)}]"
        return text if len(text) <= WIDTH else "\n".join(["[", *(f"    {item}," for item in items), "]"])
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def add_tables(
    path: Path, build_system: Mapping[str, Any], kernelwheel: Mapping[str, Any], dynamic: Sequence[str] = ()
) -> None:
    """Write the tables to a pyproject.toml: `build-system` in place of the one that is there, the others at its end.

    `dynamic` is that of [project] from now on, which then has no `dependencies`; empty: [project] stays as it is.

    Raises:
        SettingsError: it has [tool.kernelwheel] already, is written in a way that cannot be edited safely, or cannot
            be read or written.
    """
    path = path.resolve()
    before = read_toml(path) if path.exists() else {}
    tool = before.get("tool", {})
    project = {key: value for key, value in before.get("project", {}).items() if not dynamic or key not in _REQUIRED}
    project |= {"dynamic": [*dynamic]} if dynamic else {}
    whole = {**before, **({"project": project} if project else {}), "build-system": build_system}
    if "kernelwheel" in tool:
        raise _refusal(path, "no [tool.kernelwheel]: it is written once", "there is one", "remove it to start anew")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        text = path.read_bytes().decode("utf-8") if path.exists() else ""
        after = _with_tables(text.replace("\r\n", "\n"), *toml_text(build_system, kernelwheel))
        after = _with_dynamic(after, dynamic) if dynamic else after
        temporary.write_bytes(after.replace("\n", "\r\n" if "\r\n" in text else "\n").encode("utf-8"))
        if _values(temporary) != {**whole, "tool": {**tool, "kernelwheel": kernelwheel}}:
            raise _refusal(
                path,
                "tables that each begin with their own header, as [build-system]",
                "another way of writing them, so that adding tables would change others",
                "leave out --write, and copy what adopt prints",
            )
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    except OSError as error:
        found = f"{type(error).__name__}: {error}"
        raise _refusal(path, "a file that this user may replace", found, way_out(error)) from error
    finally:
        temporary.unlink(missing_ok=True)


def _values(path: Path) -> Mapping[str, Any]:
    """The values of a TOML file; none if it is not valid."""
    try:
        return read_toml(path)
    except SettingsError:
        return {}


def _refusal(path: Path, required: str, found: str, remedy: str) -> SettingsError:
    return SettingsError(
        f"{path.name} is left as it is: the tables cannot be added",
        required=required,
        found=f"{path}: {found}",
        remedies=[remedy],
    )


def _with_tables(text: str, build_system: str, others: str) -> str:
    """A pyproject.toml's text with tables added; comments at the end of the old [build-system] stay."""
    lines = text.splitlines(keepends=True)
    first = next((number for number, line in enumerate(lines) if _HEADER.match(line)), None)
    if first is None:
        kept = [build_system, *(["\n", text.lstrip()] if text.strip() else [])]
    else:
        end = next((n for n in range(first + 1, len(lines)) if lines[n].lstrip().startswith("[")), len(lines))
        while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
            end -= 1
        kept = [*lines[:first], build_system, *lines[end:]]
    return "".join(kept).rstrip() + f"\n\n{others}"


def _with_dynamic(text: str, dynamic: Sequence[str]) -> str:
    """The same with `dynamic` of [project] in place of what it says of dependencies, or as its first line."""
    lines = text.splitlines(keepends=True)
    first = next((number + 1 for number, line in enumerate(lines) if _PROJECT.match(line)), len(lines))
    end = next((n for n in range(first, len(lines)) if lines[n].lstrip().startswith("[")), len(lines))
    places = [n for n in range(first, end) if _REQUIRES.match(lines[n])]
    for place in reversed(places):
        del lines[place : _end_of_value(lines, place)]
    lines.insert(places[0] if places else first, f"dynamic = {_value([*dynamic])}\n")
    return "".join(lines)


def _end_of_value(lines: Sequence[str], first: int) -> int:
    """The line behind a key and its value, which is a list in one or several lines; the next one if it is neither."""
    for end in range(first + 1, len(lines) + 1):
        with suppress(ValueError):
            parse_toml("".join(lines[first:end]))
            return end
    return first + 1
