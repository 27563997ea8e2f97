"""The build requirements: whichever order a front end gives them in, torch comes first, and nvcc in its release.

`python -m build` passes them in the order of a set, which changes from run to run.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
from builds import needs_cuda_torch
from folders import REPOSITORY
from kernelwheel.compiler.toolchain.clang_toolkit import PARTS
from kernelwheel.project.package import read_toml
from offline import make_wheel
from packaging.requirements import Requirement
from processes import RunPython

BACKEND = REPOSITORY / "backend"


@pytest.mark.slow
def test_the_order_of_the_requirements_does_not_matter(tmp_path: Path) -> None:
    """An older torch has no toolkit that it is pinned to, so a resolver that begins with the toolkit ends there."""
    make_wheel(tmp_path, "torch", "2.10.0")
    make_wheel(tmp_path, "torch", "2.15.0", metadata="Requires-Dist: cuda-toolkit==13.2.2\n")
    for version in ("13.2.2", "13.5.0"):
        make_wheel(tmp_path, "cuda-toolkit", version, metadata="Provides-Extra: nvcc\n")
    declared = map(Requirement, read_toml(REPOSITORY / "pyproject.toml")["build-system"]["requires"])
    needed = [str(each) for each in declared if each.name in ("torch", "cuda-toolkit")]
    assert len(needed) == 2

    for order in permutations(needed):
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-index"]
        env = {**os.environ, "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull}
        words = [*command, "--find-links", tmp_path, *order]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
        assert "Would install cuda-toolkit-13.2.2 torch-2.15.0" in done.stdout, done.stdout + done.stderr


ASK = """
import sys
from kernelwheel import hooks

for words in sys.argv[1:]:
    said = dict(word.split("=") for word in words.split())
    print([needed for needed in hooks.get_requires_for_build_wheel(said) if needed.endswith("<13")])
"""


@pytest.mark.slow
@needs_cuda_torch
def test_a_front_end_is_told_of_the_parts_of_cuda_12_where_drivers_need_them(
    checkout: Callable[[], Path], run_python: RunPython
) -> None:
    said = run_python(ASK, "", "drivers=12.0", "drivers=13.0", "cuda=off", cwd=checkout(), path=[BACKEND]).stdout

    assert [ast.literal_eval(line) for line in said.splitlines()] == [[], [*PARTS], [], []]
