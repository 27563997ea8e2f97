"""Text of pyproject.toml: tables as TOML, and their addition to a file whose other lines stay as they are."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import AoT, Array, Item, Table

from ..runtime.errors import SettingsError, way_out

WIDTH = 100
_TABLES = (Table, AoT)


def toml_text(tables: Mapping[str, Any]) -> str:
    """Tables as TOML; a list that is too long for a line has one line for each item."""
    document = tomlkit.item({name: _inlined(name, values) for name, values in tables.items()})
    _wrap(document)
    return f"{str(document.as_string()).rstrip()}\n"


def _inlined(table: str, values: Any) -> Any:
    return {name: _item(name, value) for name, value in values.items()} if table == "project" else values


def _item(name: str, value: Any) -> Item:
    """A value; persons, and a file with its kind, are short tables that stand in one line."""
    if name in ("authors", "maintainers"):
        array = tomlkit.array()
        for person in value:
            array.append(_short(person))
        return array
    return _short(value) if name in ("license", "readme") and isinstance(value, Mapping) else tomlkit.item(value)


def _short(values: Mapping[str, Any]) -> Item:
    table = tomlkit.inline_table()
    table.update(values)
    return table


def _wrap(item: Item) -> None:
    if isinstance(item, Array):
        item.multiline(len(item.as_string()) > WIDTH)
    elif isinstance(item, (Mapping, list)):
        for inside in item.values() if isinstance(item, Mapping) else item:
            _wrap(inside)


def add_tables(path: Path, tables: Mapping[str, Any]) -> None:
    """Write tables to a pyproject.toml: `build-system` in place of the one that is there, keys of [project] and of
    [tool.setuptools] into those that are there, the others at the end.

    Raises:
        SettingsError: it has [tool.kernelwheel] already, is written in a way that cannot be edited safely, or cannot
            be read or written.
    """
    target = path.resolve()
    try:
        text = target.read_bytes().decode("utf-8") if target.exists() else ""
        before = tomlkit.parse(text).unwrap()
        if "kernelwheel" in before.get("tool", {}):
            raise _refusal(path, "no [tool.kernelwheel]: it is written once", "there is one", "remove it to start anew")
        after = _with_tables(text, tables)
        if _values(after) != _joined(before, tables):
            raise _refusal(
                path,
                "tables that each begin with their own header, as [build-system]",
                "another way of writing them, so that adding tables would change others",
                "leave out --write, and copy what adopt prints",
            )
        _replace(target, after)
    except (OSError, ValueError) as error:
        remedy = way_out(error) if isinstance(error, OSError) else "correct it, and run adopt again"
        found = f"{type(error).__name__}: {error}"
        raise _refusal(path, "a valid TOML file that this user may replace", found, remedy) from error


def _joined(before: Mapping[str, Any], tables: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a pyproject.toml is to have: a key of [project] that is written is not dynamic any more."""
    tool, added = before.get("tool", {}), tables.get("tool", {})
    joined = {**before, **tables, "tool": {**tool, **added}}
    if "setuptools" in tool:
        joined["tool"]["setuptools"] = {**tool["setuptools"], **added.get("setuptools", {})}
    if "project" in before:
        new = tables.get("project", {})
        joined["project"] = {**before["project"], **new}
        if "dynamic" in before["project"]:
            joined["project"]["dynamic"] = [key for key in before["project"]["dynamic"] if key not in new]
    return joined


def _with_tables(text: str, tables: Mapping[str, Any]) -> str:
    """A pyproject.toml's text with tables added."""
    added = {name: values for name, values in tables.items() if name != "build-system"}
    document = tomlkit.parse(text)
    project, tool = document.get("project"), document.get("tool", {})
    if isinstance(project, Table) and (new := added.pop("project", {})):
        _insert(project, new)
        _make_static(project, new)
    setuptools = tool.get("setuptools") if isinstance(tool, Mapping) else None
    if isinstance(setuptools, Table) and "setuptools" in added.get("tool", {}):
        _insert(setuptools, added["tool"]["setuptools"])
        added["tool"] = {name: values for name, values in added["tool"].items() if name != "setuptools"}
    old = document.get("build-system")
    if isinstance(old, Table):  # else it is in several places, and stays: `add_tables` refuses that
        _exchange(old, tables["build-system"])
    after = tomlkit.dumps(document)
    if old is None:
        first = toml_text({"build-system": tables["build-system"]})
        after = first + ("\n" + after.lstrip() if after.strip() else "")
    after = f"{after.rstrip()}\n\n{toml_text(added)}"
    has_crlf = 0 < text.count("\r\n") == text.count("\n")
    return after.replace("\r\n", "\n").replace("\n", "\r\n") if has_crlf else after


def _insert(table: Table, values: Mapping[str, Any]) -> None:
    """Add keys to a table, after its last one that is no table; comments at its end are about the next table."""
    body = table.value.body
    simple = [number for number, (key, item) in enumerate(body, 1) if key is not None and not isinstance(item, _TABLES)]
    following = body[max(simple, default=0) :]
    for key in [key for key, _ in following if key is not None]:
        table.remove(key)
    del body[max(simple, default=0) :]
    for name, value in values.items():
        item = _item(name, value)
        _wrap(item)
        table.append(name, item)
    for place, item in following:
        if place is None:
            table.value.add(item)
        else:
            table.append(place, item)


def _make_static(project: Table, values: Mapping[str, Any]) -> None:
    """Take the keys that are written now out of `dynamic`."""
    dynamic = project.get("dynamic")
    if isinstance(dynamic, Array):
        for key in [str(key) for key in dynamic if str(key) in values]:
            dynamic.remove(key)


def _exchange(table: Table, values: Mapping[str, Any]) -> None:
    """Give a table other values; comments after its last one stay there, because they are about the next table."""
    body = table.value.body
    end = max((number for number, (key, _) in enumerate(body, 1) if key is not None), default=0)
    following = body[end:]
    del body[end:]
    for key in list(table):
        del table[key]
    table.update(values)
    body += following


def _values(text: str) -> Mapping[str, Any]:
    """The values of a text in TOML; none if it is not valid."""
    try:
        return tomlkit.parse(text).unwrap()
    except ValueError:
        return {}


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
