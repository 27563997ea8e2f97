"""gsplat's CUDA sources, from the gsplat that is installed, as a package that declares them in tables."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest
from builds import build, needs_cuda_torch
from declared import HEAD, REPOSITORY
from processes import RunPython

pytestmark = pytest.mark.slow

# Takes minutes for each architecture, so only on request: 1 for all architectures, or a list such as 9.0.
SLOW = os.environ.get("SPLAT_TEST_SLOW", "")
TABLE = """
[[tool.kernelwheel.extension]]
name = "copied._C"
sources = ["cuda/csrc/*", "cuda/ext.cpp"]
include-dirs = ["cuda/include", "cuda/csrc/third_party/glm"]
exclude = ["cuda/csrc/third_party/glm/doc", "cuda/csrc/third_party/glm/test", "cuda/csrc/third_party/glm/util"]
cxx-flags = ["-O3", "-Wno-attributes"]
cuda-flags = ["-O3", "-use_fast_math"]
"""


def functions_of(folder: Path) -> set[str]:
    """What its PYBIND11_MODULE defines."""
    return set(re.findall(r"m\.def\(\s*\"(\w+)\"", (folder / "cuda/ext.cpp").read_text()))


@needs_cuda_torch
@pytest.mark.skipif(not SLOW, reason="takes minutes: SPLAT_TEST_SLOW=9.0, or =1 for all architectures")
def test_gsplat_is_built_by_tables_alone_and_has_all_its_functions(
    tmp_path: Path, build_root: Path, run_python: RunPython
) -> None:
    spec = importlib.util.find_spec("gsplat")
    if spec is None or spec.origin is None:
        pytest.skip("gsplat is not installed: pip install gsplat==1.5.3")
    installed = Path(spec.origin).parent
    project = tmp_path / "project"
    shutil.copytree(installed / "cuda", project / "cuda", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (project / "copied").mkdir()
    (project / "copied/__init__.py").write_text("from . import _C\n")
    (project / "pyproject.toml").write_text(HEAD + TABLE)
    env = {"PYTHONPATH": str(REPOSITORY / "backend"), **({} if SLOW == "1" else {"TORCH_CUDA_ARCH_LIST": SLOW})}

    wheel = build(project, build_root / "gsplat", env=env, limit=7200)

    functions = functions_of(installed)
    assert len(functions) > 20
    done = run_python("import torch, copied; print(*dir(copied._C))", path=[wheel.unpacked])
    assert functions <= set(done.stdout.split())
    assert list((wheel.native / "src/cuda/csrc/third_party/glm").iterdir()) != []
