"""docs/adopt.md: its snippets are the files of the packages in tests/packages, word for word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kernelwheel.build.package import read_toml

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("tiny", "classic")
# A file's path in backticks on a line of its own, then a code block. Comments in it belong to the page.
SNIPPETS = re.findall(
    r"^`(tests/packages/\S+)`\n\n```\w*\n(.*?)^```$",
    (REPOSITORY / "docs/adopt.md").read_text(),
    re.MULTILINE | re.DOTALL,
)
WHOLE = [(name, block) for name, block in SNIPPETS if not name.endswith("pyproject.toml")]
ADDED = [(name, block) for name, block in SNIPPETS if name.endswith("pyproject.toml")]


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_the_page_shows_the_files_of_both_packages() -> None:
    assert {name.removeprefix("tests/packages/") for name, _ in SNIPPETS} == {
        "tiny/MANIFEST.in", "tiny/pyproject.toml", "tiny/native/CMakeLists.txt", "tiny/tiny/__init__.py",
        "classic/pyproject.toml", "classic/csrc/CMakeLists.txt", "classic/classic/__init__.py",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "block"), WHOLE, ids=[name for name, _ in WHOLE])
def test_a_file_on_the_page_is_the_package_s(name: str, block: str) -> None:
    assert block == (REPOSITORY / name).read_text()


@pytest.mark.parametrize(("name", "block"), ADDED, ids=[name for name, _ in ADDED])
def test_pyproject_is_what_the_package_has_and_the_lines_of_the_page(name: str, block: str) -> None:
    text = (REPOSITORY / name).read_text()
    for paragraph in block.strip().split("\n\n"):
        added = "\n".join(lines(paragraph)) + "\n"
        assert added in text
        text = text.replace(added, "")

    assert [re.sub(" =.*", "", line) for line in lines(text)] == ["[project]", "name", "version", "requires-python"]


@pytest.mark.parametrize(("name", "block"), ADDED, ids=[name for name, _ in ADDED])
def test_at_most_15_lines_of_pyproject_are_the_backend_s(name: str, block: str) -> None:
    assert 5 < len(lines(block)) <= 15
    assert max(map(len, lines(block))) <= 120


@pytest.mark.parametrize("name", [name for name, _ in SNIPPETS if name.endswith("CMakeLists.txt")])
def test_at_most_10_lines_of_cmake_are_needed(name: str) -> None:
    text = (REPOSITORY / name).read_text()

    assert 3 < len(lines(text)) <= 10
    assert max(map(len, lines(text))) <= 120


def requirements(table: dict[str, Any]) -> set[str]:
    return set(table["build-system"]["requires"])


@pytest.mark.parametrize("package", PACKAGES)
def test_the_packages_require_for_a_build_what_splat_requires(package: str) -> None:
    theirs = read_toml(REPOSITORY / "tests/packages" / package / "pyproject.toml")

    assert requirements(theirs) == requirements(read_toml(REPOSITORY / "pyproject.toml"))
