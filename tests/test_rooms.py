"""The rooms of the backend and of splat: imports point one way, a name stands for one thing, the pages list them."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.once

REPOSITORY = Path(__file__).resolve().parent.parent
BACKEND, SPLAT = REPOSITORY / "backend" / "kernelwheel", REPOSITORY / "splat"
# For each room, those that it may import from, beside itself; the empty name is a package's own floor.
ROOMS = {
    BACKEND: {
        "core": set(),
        "store": {"core"},
        "loader": {"core", "store"},
        "compiler": {"core", "store"},
        "cli": {"core", "store", "loader"},
        "packing": {"core", "store", "compiler", "cli"},
        "adoption": {"core", "store", "compiler"},
        "": {"core", "store", "loader", "compiler", "cli", "packing", "adoption"},
    },
    SPLAT: {
        "ops": {""},
        "scene": set(),
        "photos": {"scene"},
        "fit": {"scene", "ops", "photos"},
        "compat": {"ops"},
        "view": {"scene", "ops"},
        "page": {"scene"},
        "commands": {"scene", "ops", "photos", "fit", "view", "page", ""},
        "": {"ops", "commands"},
    },
}
# Folders of torch and of CUDA, of which pages name files too.
OTHERS = ("torch/", "crt/")
# What a module of commands has by its nature, and what starts a program.
SHARED = {"__main__.py", "add_arguments", "main", "run"}
# A room whose functions have the names that other libraries gave them, because programs import them by those.
FOREIGN = SPLAT / "compat"


def modules(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def room(package: Path, module: Path) -> str:
    return "" if module.parent == package else module.relative_to(package).parts[0]


def imports(package: Path, module: Path) -> Iterator[Path]:
    """The modules of its own package that a module imports, whenever that is; not those that only types need."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    typing = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    ignored = {id(inner) for node in typing for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level or id(node) in ignored:
            continue
        folder = module.parents[node.level - 1] / (node.module or "").replace(".", "/")
        for alias in node.names:
            places = (folder / f"{alias.name}.py", folder.with_suffix(".py"), folder / "__init__.py")
            found = next((place for place in places if place.is_file()), None)
            if found is not None and package in found.parents:
                yield found


@pytest.mark.parametrize("package", ROOMS, ids=lambda package: package.name)
def test_imports_between_rooms_point_one_way(package: Path) -> None:
    seen = defaultdict(set)
    for module in modules(package):
        seen[room(package, module)] |= {room(package, other) for other in imports(package, module)}

    vendored = {"_kernelwheel"}  # beside splat in a wheel, not in the checkout
    found = {name: others - {name} - vendored for name, others in seen.items()}

    assert set(found) == set(ROOMS[package])
    assert {
        name: others - ROOMS[package][name] for name, others in found.items() if others - ROOMS[package][name]
    } == {}
    assert sum(map(len, found.values())) > 5, "imports are seen"


@pytest.mark.parametrize("package", ROOMS, ids=lambda package: package.name)
def test_no_modules_import_each_other_in_a_circle(package: Path) -> None:
    after = {module: set(imports(package, module)) - {module} for module in modules(package)}
    after = {module: others for module, others in after.items() if module.name != "__init__.py"}

    while leaves := [module for module, others in after.items() if not others & set(after)]:
        for module in leaves:
            del after[module]

    assert sorted(module.name for module in after) == []


@pytest.mark.parametrize("package", ROOMS, ids=lambda package: package.name)
def test_a_room_s_init_is_empty_or_offers_what_others_may_import(package: Path) -> None:
    for name in set(ROOMS[package]) - {""}:
        tree = ast.parse((package / name / "__init__.py").read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), name
        assert all(isinstance(node, ast.ImportFrom) for node in tree.body[1:]), name


def test_a_name_stands_for_one_thing() -> None:
    """Of files, classes and public functions, in the whole repository but its tests."""
    places = defaultdict(list)
    for module in [*modules(BACKEND), *modules(SPLAT)]:
        if module.name != "__init__.py":
            places[module.name].append(module.parent)
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
                continue
            if module.parent != FOREIGN:
                places[node.name].append(module)

    twice = {name: found for name, found in places.items() if len(found) > 1}

    assert set(twice) - SHARED == set(), twice


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """ci/rooms as a module."""
    loader = importlib.machinery.SourceFileLoader("rooms", str(REPOSITORY / "ci" / "rooms"))
    spec = importlib.util.spec_from_loader("rooms", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_pages_list_every_module_as_it_is(script: ModuleType) -> None:
    design, ports = ((REPOSITORY / "docs" / name).read_text() for name in ("design.md", "ports.md"))

    assert (REPOSITORY / "docs" / "rooms.md").read_text() == script.page(), "run ci/rooms"
    assert design == script.with_table(design, script.table()), "run ci/rooms"
    assert ports == script.with_table(ports, script.ports_table()), "run ci/rooms"
    assert script.table() in design
    assert script.ports_table() in ports


def test_every_module_says_in_a_line_what_is_in_it(script: ModuleType) -> None:
    said = {module.name: script.first_sentence(module) for module in [*modules(BACKEND), *modules(SPLAT)]}
    del said["_version.py"]

    assert {name: words for name, words in said.items() if not 10 < len(words) <= 130} == {}


def test_files_that_the_pages_name_exist() -> None:
    folders = [path for path in REPOSITORY.iterdir() if path.is_dir() and not path.name.startswith(".")]
    every = [*REPOSITORY.glob("*"), *(path for folder in folders for path in folder.rglob("*"))]
    files = [path.relative_to(REPOSITORY).as_posix() for path in every]
    missing = []
    for page in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]:
        for name in re.findall(r"`([\w./-]+\.(?:py|h|cpp|cu|cuh|cmake|toml|md))`", page.read_text(encoding="utf-8")):
            if not name.startswith(OTHERS) and not any(f"/{file}".endswith(f"/{name}") for file in files):
                missing.append(f"{page.name}: {name}")

    assert missing == []
