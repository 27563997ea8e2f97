"""The rooms of splat, and that imports between them point one way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SPLAT = REPOSITORY / "splat"
# For each room, those that it may import from.
ROOMS = {
    "commands": {"commands", "fit", "scene", "ops"},
    "fit": {"fit", "scene", "ops"},
    "scene": {"scene"},
    "ops": {"ops"},
}


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a module of a room imports from."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found.add(path.parent.name)
        elif isinstance(node, ast.ImportFrom) and node.level == 2:
            found.add((node.module or "").partition(".")[0])
    return found & set(ROOMS)


def test_every_room_is_in_the_wheel() -> None:
    folders = {path.parent.name for path in SPLAT.glob("*/__init__.py")}
    packages = (REPOSITORY / "pyproject.toml").read_text().partition("packages = [")[2].partition("]")[0]
    assert folders == set(ROOMS)
    assert [room for room in sorted(ROOMS) if f'"splat.{room}"' not in packages] == []


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_one_way(room: str) -> None:
    modules = sorted((SPLAT / room).glob("*.py"))
    assert len(modules) > 3
    assert {path.name: imported_rooms(path) - ROOMS[room] for path in modules} == {path.name: set() for path in modules}
