"""Text of pyproject.toml: tables as TOML, and their addition to a file whose other lines stay as they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import SettingsError, way_out

WIDTH = 100
# A table's header and values, by its name; a name in two pairs of brackets for an item of an array.
Tables = Sequence[tuple[str, Mapping[str, Any]]]
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)
_BUILD_SYSTEM = re.compile(r"^[ \t]*\[[ \t]*build-system[ \t]*\][ \t]*(#.*)?(\r?\n|\Z)", re.MULTILINE)


def toml_text(tables: Tables) -> str:
    """Tables as TOML, with an empty line between them; a table in a table is written in its line, or after it."""
    parts = []
    for name, values in tables:
        lines = {key: _assigned(key, value) for key, value in values.items()}
        long = [key for key, value in values.items() if isinstance(value, Mapping) and len(lines[key]) > WIDTH]
        parts.append("\n".join([f"[{name}]", *(line for key, line in lines.items() if key not in long)]) + "\n")
        parts += [toml_text([(f"{name}.{_key(key)}", values[key])]) for key in long]
    return "\n".join(parts)


def parsed_toml(text: str) -> dict[str, Any]:
    """The values of a text in TOML; raises ValueError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return dict(tomllib.loads(text))


def add_tables(path: Path, tables: Tables) -> None:
    """Write tables to a pyproject.toml: `build-system` in place of the one that is there, the others at the end.

    Raises:
        SettingsError: it has [tool.kernelwheel] already, is written in a way that cannot be edited safely, or cannot
            be read or written.
    """
    target = path.resolve()
    try:
        text = target.read_bytes().decode("utf-8") if target.exists() else ""
        before = parsed_toml(text)
        if "kernelwheel" in before.get("tool", {}):
            raise _refusal(path, "no [tool.kernelwheel]: it is written once", "there is one", "remove it to start anew")
        after = with_tables(text, tables)
        _check(path, before, after, tables)
        _replace(target, after)
    except (OSError, ValueError) as error:
        remedy = way_out(error) if isinstance(error, OSError) else "correct it, and run adopt again"
        found = f"{type(error).__name__}: {error}"
        raise _refusal(path, "a valid TOML file that this user may replace", found, remedy) from error


def with_tables(text: str, tables: Tables) -> str:
    """A pyproject.toml's text with tables added; its `build-system` is replaced."""
    newline = "\r\n" if "\r\n" in text else "\n"
    first, rest = tables[:1], tables[1:]
    old = _BUILD_SYSTEM.search(text)
    if old is None:
        text = toml_text(first).replace("\n", newline) + (newline + text.lstrip() if text.strip() else "")
    else:
        following = _HEADER.search(text, old.end())
        lines = text[old.end() : following.start() if following else len(text)].splitlines(keepends=True)
        while lines and lines[-1].strip()[:1] in ("", "#"):  # they belong to the next header
            del lines[-1]
        after = text[old.end() + len("".join(lines)) :]
        text = text[: old.start()] + toml_text(first).replace("\n", newline) + after
    if not rest:
        return text
    return text.rstrip() + newline * 2 + toml_text(rest).replace("\n", newline)


def _check(path: Path, before: Mapping[str, Any], after: str, tables: Tables) -> None:
    """Refuse a text that does not say what was there and what was added."""
    try:
        found = parsed_toml(after)
    except ValueError as error:
        found = {"error": str(error)}
    added = parsed_toml(toml_text(tables))
    wanted = {**before, **{name: value for name, value in added.items() if name != "tool"}}
    if tool := {**before.get("tool", {}), **added.get("tool", {})}:
        wanted["tool"] = tool
    if found != wanted:
        raise _refusal(
            path,
            "tables that each begin with their own header, as [build-system]",
            f"another way of writing them, so that adding tables would change others{_reason(found)}",
            "leave out --write, and copy what adopt prints",
        )


def _reason(found: Mapping[str, Any]) -> str:
    return f": {found['error']}" if list(found) == ["error"] else ""


def _replace(target: Path, text: str) -> None:
    """Write a file that is either as it was or whole."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_bytes(text.encode("utf-8"))
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _refusal(path: Path, required: str, found: str, remedy: str) -> SettingsError:
    return SettingsError(
        f"{path.name} is left as it is: the tables cannot be added",
        required=required,
        found=f"{path}: {found}",
        remedies=[remedy],
    )


def _assigned(key: str, value: Any) -> str:
    line = f"{_key(key)} = {_value(value)}"
    if isinstance(value, list) and len(line) > WIDTH:
        return f"{_key(key)} = [\n" + "".join(f"    {row}\n" for row in _rows(value)) + "]"
    return line


def _rows(values: Sequence[Any]) -> list[str]:
    """The items of a list, as many on a line as fit."""
    rows = [""]
    for value in values:
        item = f"{_value(value)}, "
        if rows[-1] and len(rows[-1]) + len(item) > WIDTH - 4:
            rows.append("")
        rows[-1] += item
    return [row.rstrip() for row in rows]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    # A JSON string is a TOML string, but for one character that JSON may contain as it is.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)
