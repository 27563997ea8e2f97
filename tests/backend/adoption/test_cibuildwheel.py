"""docs/packaging.md's configuration of cibuildwheel, for modules and for operators, as cibuildwheel itself reads it."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Any

import pytest
from declared import REPOSITORY

PAGE = (REPOSITORY / "docs/packaging.md").read_text(encoding="utf-8")
(MODULES,) = re.findall(r"^```toml\n(\[tool\.cibuildwheel\]\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
# Their line is in the text above the block.
(OPERATORS_BUILD,) = re.findall(r"`(build = [^`]+)`", PAGE)
OPERATORS = re.sub(r"^build = .*$", OPERATORS_BUILD, MODULES, flags=re.MULTILINE)
WHEELS = [
    PurePath(f"{name}-manylinux_2_28_x86_64.whl")
    for name in ("nearest_points-0.3.0-213torch-cp310-cp310", "operators-1.0-py3-none")
]

options = pytest.importorskip("cibuildwheel.options", reason="pip install cibuildwheel, for Python 3.11 or later")
packaging = pytest.importorskip("cibuildwheel.util.packaging")


def read(text: str, folder: Path) -> Any:
    """The options of a project with this configuration, as a build for Linux reads them."""
    (folder / "pyproject.toml").write_text(f'[project]\nname = "a"\nrequires-python = ">=3.10"\n\n{text}')
    words = options.CommandLineArguments.defaults()
    words.package_dir = folder
    return options.Options(platform="linux", command_line_arguments=words, env={})


@pytest.mark.parametrize("text", [MODULES, OPERATORS], ids=["modules", "operators"])
def test_no_wheel_is_repaired_and_nothing_is_found_beside_an_index(tmp_path: Path, text: str) -> None:
    found = read(text, tmp_path)._compute_build_options("cp310-manylinux_x86_64")

    assert found.repair_command == ""
    assert found.manylinux_images["x86_64"].partition("@")[0].endswith("/manylinux_2_28_x86_64")
    assert "manylinux=required" in found.config_settings.replace('"', "").replace("'", "")
    assert list(found.environment.as_dictionary({})) == ["TORCH_CUDA_ARCH_LIST"]


@pytest.mark.parametrize(
    ("text", "versions"), [(MODULES, ["310", "311", "312", "313"]), (OPERATORS, ["310"])], ids=["modules", "operators"]
)
def test_every_python_gets_a_module_and_operators_are_built_once(
    tmp_path: Path, text: str, versions: list[str]
) -> None:
    selected = read(text, tmp_path).globals.build_selector

    assert [version for version in ("39", "310", "311", "312", "313") if selected(f"cp{version}-manylinux_x86_64")] == (
        versions
    )
    assert not selected("cp310-musllinux_x86_64")


def test_the_wheel_of_operators_serves_the_other_pythons_and_that_of_a_module_does_not() -> None:
    for version in ("311", "313"):
        assert packaging.find_compatible_wheel(WHEELS, f"cp{version}-manylinux_x86_64") == WHEELS[1]
        assert packaging.find_compatible_wheel(WHEELS[:1], f"cp{version}-manylinux_x86_64") is None
