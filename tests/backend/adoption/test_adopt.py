"""docs/packaging.md, from its second part on: its blocks are in files of tests/packages, word for word, or are run."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from folders import REPOSITORY
from kernelwheel.project.package import read_toml
from processes import run

PAGE = (REPOSITORY / "docs/packaging.md").read_text().partition("\n## An existing extension\n")[2]
TABLES, CMAKE = ("nearest", "sums", "blur"), ("tiny", "classic")
# A file's path in backticks on a line of its own, then a code block.
FILES = re.findall(r"^`(tests/packages/\S+)`\n\n```\w*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_the_page_shows_these_files_and_no_other_block_but_four() -> None:
    """Of the tables, one is tiny's, one is read in test_cibuildwheel.py, and one is used in test_front_ends.py."""
    assert {name.removeprefix("tests/packages/") for name, _ in FILES} == {
        *(f"{package}/pyproject.toml" for package in TABLES), "tiny/native/CMakeLists.txt", "tiny/tiny/__init__.py",
    }  # fmt: skip
    assert sorted(kind for kind, text in BLOCKS if text not in dict(FILES).values()) == ["console", *["toml"] * 3]


@pytest.mark.parametrize(("name", "block"), FILES, ids=[name for name, _ in FILES])
def test_a_file_on_the_page_is_the_package_s_or_its_end(name: str, block: str) -> None:
    assert (REPOSITORY / name).read_text().endswith(block)


def test_the_other_table_is_tiny_s() -> None:
    (table,) = (text for kind, text in BLOCKS if kind == "toml" and "tiny" in text)

    assert table in (REPOSITORY / "tests/packages/tiny/pyproject.toml").read_text()


@pytest.mark.parametrize("package", TABLES)
def test_a_package_says_what_is_built_in_at_most_12_lines_and_in_no_other_file(package: str) -> None:
    folder = REPOSITORY / "tests/packages" / package
    text = (folder / "pyproject.toml").read_text()
    own = lines(text.partition("[project]")[0]) + lines(text.partition("[[tool.kernelwheel")[2])
    files = [path.name for path in folder.rglob("*") if path.is_file()]

    assert 4 < len(own) + 1 <= 12
    assert [name for name in files if name in ("CMakeLists.txt", "MANIFEST.in", "setup.py", "setup.cfg")] == []
    assert [path for path in folder.rglob("*.py") if "kernelwheel" in path.read_text()] == []


@pytest.mark.minutes
@pytest.mark.slow
def test_the_converter_prints_the_lines_of_the_page(tmp_path: Path) -> None:
    (command,) = (text for kind, text in BLOCKS if kind == "console")
    project = shutil.copytree(REPOSITORY / "tests/packages/nearest", tmp_path / "nearest")
    wanted = read_toml(project / "pyproject.toml")["tool"]["kernelwheel"]["extension"]
    (project / "pyproject.toml").unlink()
    (project / "setup.py").write_text(
        "import os, torch\nfrom setuptools import setup\n"
        "from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension\n"
        "include = [os.path.join(os.path.dirname(os.path.abspath(__file__)), 'third_party/vectors')]\n"
        "if torch.version.cuda and CUDA_HOME:\n    extension = CUDAExtension('nearest._C', ['ext.cpp', 'distances.cu'],"
        " include_dirs=include, define_macros=[('WITH_CUDA', None)])\n"
        "else:\n    extension = CppExtension('nearest._C', ['ext.cpp'], include_dirs=include)\n"
        "setup(name='nearest-points', version='0.3.0', packages=['nearest'], ext_modules=[extension],"
        " cmdclass={'build_ext': BuildExtension})\n"
    )

    words = command.split()
    assert words[0] == "python"
    done = run([sys.executable, *words[1:]], cwd=project, env={"PYTHONPATH": str(REPOSITORY / "backend")})

    (project / "pyproject.toml").write_text(done.stdout)
    (made,) = read_toml(project / "pyproject.toml")["tool"]["kernelwheel"]["extension"]
    assert made.pop("kind") == "module"
    assert sorted(made.pop("sources")) == ["distances.cu", "ext.cpp"]
    assert made == {key: value for key, value in wanted[0].items() if key != "sources"}
    assert "setup.py must not have ext_modules any more" in done.stderr


def requirements(table: dict[str, Any]) -> set[str]:
    return set(table["build-system"]["requires"])


@pytest.mark.parametrize("package", CMAKE)
def test_packages_with_the_backend_in_them_require_for_a_build_what_splat_requires(package: str) -> None:
    theirs = read_toml(REPOSITORY / "tests/packages" / package / "pyproject.toml")

    assert requirements(theirs) == requirements(read_toml(REPOSITORY / "pyproject.toml"))
