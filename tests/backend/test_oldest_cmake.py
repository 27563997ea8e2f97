"""A module for CUDA, built by the oldest CMake that is supported, the newest scikit-build-core and the newest torch."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from builds import build, cache_of
from declared import CUDA_SOURCE, LIGHT, REPOSITORY, make_package

NEWEST = os.environ.get("SPLAT_TEST_NEWEST", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.skipif(not NEWEST, reason="SPLAT_TEST_NEWEST names no folder with that torch; ci/test makes one"),
]
# What ATen/ATen.h says, which takes a minute to compile.
KERNEL = f"""#include <torch/headeronly/macros/Macros.h>
static_assert(__cplusplus >= 202002L, "C++20 or later compatible compiler is required to use ATen.");
{CUDA_SOURCE}"""


def test_its_cuda_files_are_compiled_by_the_standard_that_torch_asks_for(build_root: Path, tmp_path: Path) -> None:
    project = make_package(tmp_path / "project", {**LIGHT, "native/kernel.cu": KERNEL})
    tables = project / "pyproject.toml"
    tables.write_text(tables.read_text().replace('["native/*.cpp"]', '["native/*.cpp", "native/*.cu"]'))
    path = os.pathsep.join((NEWEST, str(REPOSITORY / "backend")))

    out = build_root / "oldest-cmake"
    wheel = build(project, out, env={"PYTHONPATH": path, "TORCH_CUDA_ARCH_LIST": "9.0"})

    (file,) = cache_of(out).glob("kernelwheel/light/.build/*/build/compile_commands.json")
    log = (file.parents[1] / "build.log").read_text()
    commands = {Path(each["file"]).suffix: each["command"] for each in json.loads(file.read_text())}
    assert list(Path(NEWEST).glob("scikit_build_core-*.dist-info"))  # imported from there, as torch is
    assert wheel.manifest["built_with"]["torch"].startswith("2.15.0")
    assert re.search(r"^cmake 3\.24\.0,", log, re.MULTILINE)
    for suffix in (".cpp", ".cu"):
        assert re.findall(r"-std=\S+", commands[suffix]) == ["-std=c++20"], commands[suffix]
