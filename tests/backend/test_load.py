"""`kernelwheel.load`, `load_inline` and `prepare`: kernels that are in no package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kernelwheel
import pytest
import warm_python
from editables import Editable, make_user
from kernelwheel.runtime.store import Store

pytestmark = pytest.mark.once

BACKEND = Path(kernelwheel.__file__).parents[1]
# By Python's own API: torch's headers take most of the time of a compile.
MODULE = """#include <Python.h>
#include "answer.h"
static PyObject* answer(PyObject*, PyObject*) { return PyLong_FromLong(ANSWER); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, "The answer."}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "light", "Light.", -1, methods};
PyMODINIT_FUNC PyInit_light() { return PyModule_Create(&definition); }
"""
FILES = {
    "csrc/light.cpp": MODULE,
    "include/answer.h": '#include "detail/value.h"\n',
    "include/detail/value.h": "#define ANSWER 42\n",
}


def write(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def load_light(folder: Path, **options: Any) -> Any:
    return kernelwheel.load("light", [folder / "csrc/light.cpp"], extra_include_paths=[folder / "include"], **options)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editable:
    """A user who has compiled nothing, and whose compiler counts its calls."""
    made = make_user(BACKEND, tmp_path / "user")
    monkeypatch.setenv("CXX", made.environment["CXX"])
    monkeypatch.setenv("KERNELWHEEL_CACHE_DIR", str(made.cache))
    return made


def entries(user: Editable, name: str = "light") -> list[Path]:
    return [each.folder for each in Store(user.cache, f"kernelwheel.{name}", "0").entries()]


# Content decides


@pytest.mark.slow
def test_content_decides_and_neither_folder_nor_time_nor_process(user: Editable, tmp_path: Path) -> None:
    here, there = write(tmp_path / "here"), write(tmp_path / "there/deeper")

    module = load_light(here)

    assert module.answer() == 42
    assert user.compiled() == ["light.cpp"]
    assert load_light(there) is module
    script = "import kernelwheel, sys; print(kernelwheel.load('light', ['csrc/light.cpp'], extra_cflags=['-I include']).answer())"
    done = warm_python.run_python(
        script, cwd=there, path=[BACKEND], env={**user.environment, "KERNELWHEEL_CACHE_DIR": str(user.cache)}
    )
    assert done.stdout == "42\n"
    assert user.compiled() == ["light.cpp"]

    # A header that a header includes is edited. What was loaded before stays as it is.
    (there / "include/detail/value.h").write_text("#define ANSWER 43\n")
    os.utime(there / "include/detail/value.h", (0, 0))
    edited = load_light(there)

    assert (module.answer(), edited.answer()) == (42, 43)
    assert len(entries(user)) == 2
    assert load_light(here) is module
