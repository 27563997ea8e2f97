"""Wheels and stores for some CPUs: what a build records of flags such as -march=native, and what another machine does.

compiler/test_cpu.py has every spelling, runtime/test_compatible.py the verdict.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from builds import Wheel, build, refused_build
from declared import HEAD, TABLE, make_package
from editables import REQUIRE, SMALL, Editable, make_editable
from folders import BACKEND
from loadable import write
from processes import Done, after_mounting, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are those of x86-64"),
]

NATIVE = HEAD + TABLE + 'cxx-flags = ["-march=native", "-mtune=native"]\n'
TABLES = {"PYTHONPATH": str(BACKEND), "TORCH_CUDA_ARCH_LIST": "9.0", "CXXFLAGS": None}
LOAD = """import kernelwheel
m = kernelwheel.load("light", ["csrc/light.cpp"], extra_cflags=["-I include", "-march=native"])
print(m.answer(), m.__file__)
"""


@pytest.fixture(scope="module")
def v2_wheel(build_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    project = make_package(tmp_path_factory.mktemp("native") / "project", pyproject=NATIVE)
    return build(project, build_root / "x86-64-v2", env=TABLES, config={"cpu": "x86-64-v2"})


def on_another_cpu(folder: Path, features: Sequence[str]) -> tuple[str, ...]:
    """The beginning of a command that runs where /proc/cpuinfo lists no other features."""
    flags = " ".join(features)
    text = re.sub(r"(?m)^flags(\s*):.*$", rf"flags\1: {flags}", Path("/proc/cpuinfo").read_text())
    (folder / "cpuinfo").write_text(text)
    return after_mounting(f"mount --bind '{folder}/cpuinfo' /proc/cpuinfo")


def evenly(said: str) -> str:
    """What was said, without what puts the parts of an error below each other."""
    return re.sub(r" +", " ", said)


def test_a_wheel_for_the_builders_own_cpu_is_refused_before_a_compile(tmp_path: Path) -> None:
    project = make_package(tmp_path / "project", pyproject=NATIVE)

    said = refused_build(project, tmp_path / "out", env=TABLES)

    assert "compiling light" not in said
    assert "found: -march=native in cxx-flags of light._C\n" in evenly(said)
    assert 'set cpu = "x86-64-v3" in [tool.kernelwheel] (-C cpu=x86-64-v3, LIGHT_CPU=x86-64-v3)' in said


@pytest.mark.minutes
def test_a_named_cpu_takes_the_place_of_native_and_is_in_the_manifest_and_the_log(v2_wheel: Wheel) -> None:
    manifest = v2_wheel.manifest

    assert set(manifest["plan"]["target"]["cpu"].values()) == {"cpu"}
    assert {"pni", "sse4_2", "popcnt", "cx16"} <= set(manifest["plan"]["target"]["cpu"])
    assert not {"avx", "avx2"} & set(manifest["plan"]["target"]["cpu"])
    assert manifest["built_with"]["settings"]["cpu"] == {"value": ["x86-64-v2"], "origin": "-C cpu"}
    assert "CPU: needs cx16, lahf_lm, pni, popcnt, sse4_1, sse4_2, ssse3; checked before loading\n" in v2_wheel.output
    inspected = run(
        [sys.executable, "-m", "kernelwheel", "inspect", v2_wheel.file], cwd=v2_wheel.file.parent, env=TABLES
    )
    assert "a CPU with cx16, lahf_lm, pni, popcnt" in inspected.stdout


def required(editable: Editable, prefix: Sequence[str] = (), check: bool = True, **env: str) -> Done:
    """What happens when tiny's kernels are needed."""
    return run(
        [*prefix, sys.executable, "-c", REQUIRE], cwd=editable.folder, env={**editable.environment, **env}, check=check
    )


@pytest.mark.minutes
def test_flags_of_a_cmakelists_are_read_back_and_counted_unless_the_package_dispatches(tmp_path: Path) -> None:
    flags = 'set_property(SOURCE two.cpp PROPERTY COMPILE_OPTIONS "-mavx512f")\n'
    editable = make_editable(tmp_path, {**SMALL, "CMakeLists.txt": SMALL["CMakeLists.txt"] + flags})

    said = evenly(required(editable, check=False).stderr)
    declaration = editable.checkout / "pyproject.toml"
    declared = declaration.read_text().replace("[tool.kernelwheel]\n", '[tool.kernelwheel]\ndispatched = ["t*.cpp"]\n')
    declaration.write_text(declared)
    dispatched = required(editable)

    assert "files that were compiled for more of a CPU than its Plan says" in said
    assert re.search(r"found: two\.cpp: avx, avx2, avx512f, .*\(-mavx512f\)", said)
    assert str(editable.cache) in dispatched.stdout
    (entry,) = (each.manifest for each in editable.store.entries())
    assert entry.cpu == {}


@pytest.mark.minutes
def test_two_machines_that_share_a_store_each_load_what_their_cpu_runs(tmp_path: Path) -> None:
    """`load` with -march=native: the entry of one is not loaded on the other, which has less."""
    folder = write(tmp_path / "sources")
    env = {"KERNELWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(BACKEND)}
    here = run([sys.executable, "-c", LOAD], cwd=folder, env=env)
    if not manifests(tmp_path / "cache")[0]["plan"]["target"].get("cpu"):
        pytest.skip("this CPU has nothing but x86-64")

    there = run([*on_another_cpu(tmp_path, ["sse", "sse2"]), sys.executable, "-c", LOAD], cwd=folder, env=env)
    again = run([sys.executable, "-c", LOAD], cwd=folder, env=env)

    assert len(manifests(tmp_path / "cache")) == 2
    assert here.stdout.split()[0] == there.stdout.split()[0] == "42"
    assert there.stdout != here.stdout
    assert again.stdout in (here.stdout, there.stdout)


def manifests(cache: Path) -> list[Any]:
    return [json.loads(path.read_text()) for path in sorted(cache.glob("*/*/*/manifest.json"))]
