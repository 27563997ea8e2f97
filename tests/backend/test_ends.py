"""Both ends of what a build supports: Python, torch, CMake and the packages that kernelwheel requires.

ci/oldest_newest.py makes the environments, which takes minutes, so they are there only with SPLAT_TEST_SLOW.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import build, cache_of
from declared import CUDA_SOURCE, LIGHT, REPOSITORY, make_package
from processes import run

ENDS = {end: os.environ.get(f"SPLAT_TEST_{end.upper()}", "") for end in ("oldest", "newest")}
CMAKE_OF = {"oldest": "3.24.0", "newest": "4."}
TORCH_OF = {"oldest": "2.10.0", "newest": "2.15.0"}
STANDARD_OF = {"oldest": "-std=c++17", "newest": "-std=c++20"}
pytestmark = [pytest.mark.slow]
# What ATen/ATen.h says, which takes a minute to compile.
KERNEL = f"""#include <torch/headeronly/macros/Macros.h>
static_assert(__cplusplus >= 202002L, "C++20 or later compatible compiler is required to use ATen.");
{CUDA_SOURCE}"""
# With CUDA where pip has an nvcc for that torch, and only tiny: torch's headers for CUDA ask for more of a toolkit.
CUDA_OF = {"oldest": {"TINY_CUDA": "off"}, "newest": {"TORCH_CUDA_ARCH_LIST": "9.0"}}
CALLED = """
import json, platform, torch
import nearest, sums, tiny
points = torch.tensor([[0.0, 0, 0], [1, 0, 0], [3, 0, 0]])
print(json.dumps([
    nearest.distances(points).tolist(), sums.running(torch.arange(4.0)).tolist(),
    torch.ops.tiny.twice(torch.arange(3.0)).tolist(), torch.__version__, platform.python_version_tuple()[:2],
]))
"""


def require_end(end: str) -> Path:
    if not ENDS[end]:
        pytest.skip(f"SPLAT_TEST_{end.upper()} names no environment; ci/test makes one with SPLAT_TEST_SLOW=1")
    return Path(ENDS[end])


@pytest.mark.parametrize("end", [pytest.param(end, marks=pytest.mark.once(f"{end} end")) for end in ENDS])
def test_a_module_an_operator_library_and_a_torch_library_are_built_imported_and_called(
    end: str, checkout: Callable[..., Path], build_root: Path, tmp_path: Path
) -> None:
    python = require_end(end) / "bin/python"
    variables = {"NEAREST_CUDA": "off", "PYTHONPATH": str(REPOSITORY / "backend"), **CUDA_OF[end]}

    wheels = {}
    for package in ("nearest", "sums", "tiny"):
        out = build_root / end / package
        wheels[package] = build(checkout(package), out, env=variables, python=python)
        (log,) = cache_of(out).glob("kernelwheel/*/.build/*/build.log")
        (file,) = log.parent.glob("build/compile_commands.json")
        standards = {word for each in json.loads(file.read_text()) for word in re.findall(r"-std=\S+", each["command"])}
        assert log.read_text().startswith(f"cmake {CMAKE_OF[end]}")
        assert wheels[package].manifest["built_with"]["torch"].startswith(TORCH_OF[end])
        assert standards == {"-std=c++17" if package == "tiny" else STANDARD_OF[end]}
    path = os.pathsep.join(str(wheel.unpacked) for wheel in wheels.values())
    done = run([python, "-c", CALLED], cwd=tmp_path, env={"PYTHONPATH": path})

    nearest, sums, tiny, torch, version = json.loads(done.stdout)
    assert (nearest, sums, tiny) == ([1, 1, 4], [0, 1, 3, 6], [0, 2, 4])
    assert torch.startswith(TORCH_OF[end])
    tag = "".join(TORCH_OF[end].split(".")[:2])
    assert f"-{tag}torch-cp{''.join(version)}-cp{''.join(version)}-" in wheels["nearest"].file.name
    assert f"-{tag}torch-py3-none-" in wheels["sums"].file.name
    assert "tiny-1.2.3-py3-none-" in wheels["tiny"].file.name


def test_cuda_files_are_compiled_by_the_standard_that_torch_asks_for_also_by_the_oldest_cmake(
    build_root: Path, tmp_path: Path
) -> None:
    newest = require_end("newest")
    project = make_package(tmp_path / "project", {**LIGHT, "native/kernel.cu": KERNEL})
    tables = project / "pyproject.toml"
    tables.write_text(tables.read_text().replace('["native/*.cpp"]', '["native/*.cpp", "native/*.cu"]'))
    path = os.pathsep.join((str(newest / "older-cmake"), str(REPOSITORY / "backend")))

    out = build_root / "oldest-cmake"
    env = {"PYTHONPATH": path, "TORCH_CUDA_ARCH_LIST": "9.0"}
    wheel = build(project, out, env=env, python=newest / "bin/python")

    (file,) = cache_of(out).glob("kernelwheel/light/.build/*/build/compile_commands.json")
    log = (file.parents[1] / "build.log").read_text()
    commands = {Path(each["file"]).suffix: each["command"] for each in json.loads(file.read_text())}
    assert wheel.manifest["built_with"]["torch"].startswith(TORCH_OF["newest"])
    assert re.search(r"^cmake 3\.24\.0,", log, re.MULTILINE)
    for suffix in (".cpp", ".cu"):
        assert re.findall(r"-std=\S+", commands[suffix]) == ["-std=c++20"], commands[suffix]
