"""Modules for aarch64, built on x86-64 for the Python and torch that tests/test_aarch64.py runs under qemu-user."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import TORCH, Wheel, build
from declared import make_package
from elftools.elf.elffile import ELFFile
from folders import REPOSITORY
from kernelwheel.compiler.elf_inspect import needed
from processes import run

FOLDER = Path(os.environ.get("SPLAT_TEST_AARCH64") or "/nowhere")
FOR_ARM = {
    "platform": "linux-aarch64",
    "target-packages": str(FOLDER / "site"),
    "target-python": str(FOLDER / "sysroot/usr"),
}
pytestmark = [
    pytest.mark.every_program,
    pytest.mark.slow,
    pytest.mark.skipif(
        not list(FOLDER.glob("sysroot/usr/include/python3*/Python.h")),
        reason="SPLAT_TEST_AARCH64 names no folder made by ci/aarch64, with Python's headers",
    ),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="this is about builds on x86-64"),
    pytest.mark.needs_torch("cpu"),  # of the release there
]


def run_there(wheel: Wheel, script: str) -> str:
    """What a script prints on aarch64, with a wheel beside torch."""
    *machine, python = json.loads((FOLDER / "machine.json").read_text(encoding="utf-8"))["python"]
    path = f"PYTHONPATH={wheel.unpacked}:{FOLDER}/site"
    return run([*machine, "-E", path, python, "-c", script], cwd=wheel.unpacked, limit=300).stdout


@pytest.fixture(scope="module")
def light(build_root: Path) -> Wheel:
    """A module by Python's own API, for Arm."""
    return build_light(build_root / "light for arm")


def build_light(folder: Path) -> Wheel:
    project = make_package(folder.with_name(f"{folder.name} project"))
    return build(project, folder, env={"PYTHONPATH": str(REPOSITORY / "backend")}, config=FOR_ARM)


def test_a_module_s_wheel_names_the_target_s_python_and_platform(light: Wheel) -> None:
    requires, binding = light.manifest["requires"], light.manifest["plan"]["target"]["binding"]
    (module,) = light.native.glob("*.so")

    assert light.file.name.endswith("-cp311-cp311-manylinux_2_28_aarch64.whl")
    assert (requires["python"], requires["platform"]) == ("cp311", "linux-aarch64")
    assert binding["torch"].partition("+")[0] == TORCH.version.partition("+")[0]
    assert "libtorch_python.so" in needed(module)
    with module.open("rb") as stream:
        assert ELFFile(stream)["e_machine"] == "EM_AARCH64"


def test_nothing_of_the_builder_is_in_it_and_another_folder_gives_the_same_bytes(
    light: Wheel, build_root: Path
) -> None:
    again = build_light(build_root / "light for arm again")

    assert again.file.read_bytes() == light.file.read_bytes()
    for data in light.libraries.values():
        assert not any(text.encode() in data for text in (str(build_root), str(FOLDER), str(TORCH.root)))


def test_it_is_imported_there(light: Wheel) -> None:
    said = run_there(light, "import light; print(light.answer(), light._C.__file__, sep=chr(10))")

    assert said.splitlines() == ["42", str(light.native / "light._C.so")]


@pytest.mark.skipif(not os.environ.get("SPLAT_TEST_SLOW"), reason="takes a minute: set SPLAT_TEST_SLOW=1")
def test_a_module_on_all_of_torch_computes_there(checkout: Callable[..., Path], build_root: Path) -> None:
    wheel = build(checkout("classic"), build_root / "classic for arm", env={"CLASSIC_CUDA": "off"}, config=FOR_ARM)

    said = run_there(wheel, "import torch, classic; print(classic.scale(torch.arange(3.0), 2.5).tolist())")

    assert json.loads(said) == [0.0, 2.5, 5.0]
