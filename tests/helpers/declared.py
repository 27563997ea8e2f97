"""Packages whose extensions are declared in tables, small enough to compile in no time, and what builds them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from folders import REPOSITORY
from kernelwheel.project.extension import Extension, read_extensions
from offline import make_index
from processes import run

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
HEAD = """[build-system]
requires = ["kernelwheel[cuda]", "torch>=2.10"]
build-backend = "kernelwheel.hooks"

[project]
name = "light-weight"
version = "1.0"
dynamic = ["dependencies"]
"""
TABLE = """
[[tool.kernelwheel.extension]]
name = "light._C"
sources = ["native/*.cpp"]
include-dirs = ["third_party/answers"]
define = ["ANSWER=42"]
"""
MODULE = """#include <Python.h>
#include "answer.h"
static PyObject* answer(PyObject*, PyObject*) { return PyLong_FromLong(ANSWER_OF(ANSWER)); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, "The answer."}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", "Light.", -1, methods};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&definition); }
"""
# With a kernel of CUDA's own, without torch's headers.
CUDA_SOURCE = """__global__ void add(int* to, int amount) { *to += amount; }
extern "C" void light_add(int* to) { add<<<1, 1>>>(to, ANSWER); }
"""
# A module by Python's own API, without torch's headers, which take most of the time of a compile.
LIGHT = {
    "pyproject.toml": HEAD + TABLE,
    "light/__init__.py": "from light._C import answer\n\nfrom . import _C\n",
    "light/_C.pyi": "def answer() -> int: ...\n",
    "native/module.cpp": MODULE,
    "third_party/answers/answer.h": "#define ANSWER_OF(x) (x)\n",
    "third_party/answers/README.md": "No source.\n",
}


def make_package(folder: Path, files: Mapping[str, str] = LIGHT, **changed: str | None) -> Path:
    """A project with these files; `changed` are other texts by stem of a file's name, or None for no such file."""
    for name, text in files.items():
        content = changed.get(Path(name).stem, text)
        if content is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return folder


def make_distribution(folder: Path) -> Path:
    """kernelwheel's wheel, built by pip from a copy of backend/."""
    shutil.copytree(REPOSITORY / "backend", folder / "backend", ignore=shutil.ignore_patterns("__pycache__"))
    run([*PIP, "wheel", "--no-build-isolation", "--no-deps", "-w", folder / "out", folder / "backend"], cwd=folder)
    (wheel,) = (folder / "out").glob("*.whl")
    return wheel


def make_user_index(folder: Path, distribution: Path) -> dict[str, str]:
    """The environment of a user who has an index with kernelwheel and what it requires, and nothing else."""
    index = make_index(folder / "index", REPOSITORY / "tests/packages/tiny")
    shutil.copy(distribution, index)
    return {
        "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index),
        "XDG_CACHE_HOME": str(folder / "cache"), "TORCH_CUDA_ARCH_LIST": "9.0",
    }  # fmt: skip


def extension(**table: object) -> Extension:
    """An extension as declared, before its files are looked up."""
    return read_extensions([{"name": "light._C", "sources": ["native/*.cpp"], **table}])[0]
