"""What systems differ in is known to one class, and a build on another than Linux is refused first."""

from __future__ import annotations

from pathlib import Path

import pytest
from folders import REPOSITORY
from kept import kernels_of
from kernelwheel.compiler import worker
from kernelwheel.project.build_platforms import HOST_PLATFORM
from kernelwheel.runtime.commands import doctor
from kernelwheel.runtime.errors import BuildError
from kernelwheel.runtime.machine import platforms
from kernelwheel.runtime.machine.platforms import library_file
from processes import RunPython


def test_an_extension_s_library_has_the_suffix_of_its_platform() -> None:
    assert library_file("light._C", "linux-aarch64") == "light._C.so"
    assert library_file("light._C", "windows-x86_64") == "light._C.dll"


@pytest.mark.parametrize(
    ("file", "stem"),
    [("libcublas.so.13", "cublas"), ("libcudart_static.a", "cudart_static"), ("cublas", "cublas"), ("m", "m")],
)
def test_a_library_is_linked_to_by_its_stem(file: str, stem: str) -> None:
    assert HOST_PLATFORM.stem(file) == stem
    assert HOST_PLATFORM.stem(HOST_PLATFORM.shared(stem)) == HOST_PLATFORM.stem(HOST_PLATFORM.static(stem)) == stem


# Every hook, in one process, as if on another system that lacks what only Linux has.
HOOKS = """
import sys
missing = "fcntl", "grp", "pwd", "resource", "setuptools", "auditwheel"
sys.modules.update(dict.fromkeys(missing))
sys.platform = "darwin"
from kernelwheel import hooks
from kernelwheel.runtime.errors import BuildError
made = "build_wheel", "build_editable", "build_sdist"
for name in [name for name in vars(hooks) if name in made or name.startswith(("prepare_", "get_requires_"))]:
    try:
        getattr(hooks, name)(*["out"] * (not name.startswith("get_")))
    except BuildError as error:
        print(name, "|", str(error).splitlines()[0], "|", error.required, "|", error.found)
"""


def test_every_hook_refuses_another_system_first_and_says_what_there_is(run_python: RunPython, tmp_path: Path) -> None:
    done = run_python(HOOKS, path=[REPOSITORY / "backend"])

    rows = [line.split(" | ") for line in done.stdout.splitlines()]
    assert {row[0] for row in rows} == {
        "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable",
        "get_requires_for_build_sdist", "get_requires_for_build_wheel", "prepare_metadata_for_build_editable",
        "prepare_metadata_for_build_wheel",
    }  # fmt: skip
    for _, first, required, found in rows:
        assert first == f"kernels cannot be built on {found}, nor kept in a cache"
        assert required == f"one of {', '.join(platforms.SUPPORTED)}"
        assert found.startswith("darwin-")
    assert list(tmp_path.iterdir()) == []


def test_the_compiler_refuses_another_system_before_it_touches_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "platform_name", lambda: "windows-x86_64")

    with pytest.raises(BuildError, match="kernels cannot be built on windows-x86_64") as caught:
        worker.answer_to({}, None)

    assert caught.value.required == f"one of {', '.join(platforms.SUPPORTED)}"


def test_doctor_works_where_there_is_no_store(
    monkeypatch: pytest.MonkeyPatch, tiny_checkout: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(platforms, "platform_name", lambda: "windows-x86_64")
    kernels = kernels_of(tiny_checkout, tmp_path)

    assert list(doctor.bad_settings(kernels.installed)) == []
    with pytest.raises(BuildError, match="kernels cannot be built on windows-x86_64, nor kept in a cache"):
        kernels.installed.own_store()
