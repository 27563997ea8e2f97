"""docs/publish.md and the hosted workflow: every command in them is one that a test runs, or a script that is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "publish.md").read_text(encoding="utf-8")
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
# How a command begins, and the test that runs it.
RUN_BY = {
    "python -m kernelwheel page ": "backend/packing/test_page.py::test_a_command_writes_the_page_of_any_wheel",
    "python -m kernelwheel compare ": "backend/packing/test_comparison.py::test_what_differs_is_named",
    "python -m http.server ": "backend/test_install.py::test_pip_and_uv_install_from_a_folder_that_is_served",
    "pip install --no-index ": "backend/test_install.py::test_pip_and_uv_install_from_a_folder_that_is_served",
    "uv pip install --no-index ": "backend/test_install.py::test_pip_and_uv_install_from_a_folder_that_is_served",
    'pip install "$WHEEL[jit]"': (
        "test_jit_extra.py::test_pip_brings_the_driver_of_cmake_and_the_nvcc_of_torch_s_release"
    ),
    "SPLAT_CACHE_DIR=/opt/kernels splat cache build ": (
        "backend/test_cache_commands.py::test_build_makes_the_architectures_that_are_asked_for_and_knows_what_covers_them"
    ),
    "apt-get install g++-aarch64-linux-gnu": (
        "backend/test_cross.py::test_the_real_cross_compiler_is_found_with_its_parts"
    ),
    "pip install --target parts": (
        "backend/test_cross.py::test_a_part_that_pip_unpacked_is_taken_where_the_toolkit_has_none"
    ),
    "pip wheel . -C platform=linux-aarch64": (
        "test_aarch64.py::test_both_libraries_are_for_aarch64_and_have_the_device_code_asked_for"
    ),
    # ci/aarch64 fetches and unpacks these packages.
    "for package in libpython3.11-stdlib libpython3.11-dev; do apt-get download": (
        "backend/test_aarch64_modules.py::test_a_module_s_wheel_names_the_target_s_python_and_platform"
    ),
    "SPLAT_CACHE_PATH=/opt/kernels SPLAT_JIT=never splat doctor": (
        "backend/test_cache_commands.py::test_build_takes_what_a_read_only_store_has"
    ),
}


def commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


@pytest.mark.parametrize("command", commands())
def test_a_test_runs_every_command(command: str) -> None:
    (found,) = (test for start, test in RUN_BY.items() if command.startswith(start))
    file, _, name = found.partition("::")

    functions = [
        node.name
        for node in ast.walk(ast.parse((ROOT / "tests" / file).read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    assert name in functions


@pytest.mark.parametrize("text", [PAGE, WORKFLOW.read_text(encoding="utf-8")], ids=["publish.md", "release.yml"])
def test_every_script_that_is_named_is_there(text: str) -> None:
    named = set(re.findall(r"\bci/[a-z]+\b", text))

    assert {"ci/wheels", "ci/matrix", "ci/gpu"} <= named
    assert all((ROOT / name).exists() for name in named)
