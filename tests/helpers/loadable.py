"""Sources that `kernelwheel.load` compiles in seconds, and calls of it."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import kernelwheel
import pytest
from kernelwheel.jit.arguments import LoadArguments
from kernelwheel.runtime.errors import KernelWheelError

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
# Two files with kernels that call each other's device functions, and a module that launches one.
PARTS = {
    "part.cu": "__device__ float part(float x);\n"
    "__device__ float halved(float x) { return 0.5f * x; }\n"
    "__device__ float both(float x) { return part(x) + 1; }\n",
    "whole.cu": "__device__ float halved(float x);\n__device__ float both(float x);\n"
    "__device__ float part(float x) { return 2 * halved(x) + 3 * x; }\n"
    "__global__ void whole(float* x) { x[threadIdx.x] = both(x[threadIdx.x]); }\n"
    'extern "C" int answer_of_host() { whole<<<1, 1>>>(nullptr); return 42; }\n',
    "light.cpp": MODULE.replace(
        '#include "answer.h"', 'extern "C" int answer_of_host();\n#define ANSWER answer_of_host()'
    ),
}


def write(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def called(**arguments: Any) -> LoadArguments:
    """The arguments of a call, those that are not given as by default."""
    given = {name: each.default for name, each in signature(kernelwheel.load).parameters.items()}
    given |= {"name": "light", **arguments}
    return LoadArguments(**{name: given[name] for name in LoadArguments._fields})


def load_light(folder: Path, **options: Any) -> Any:
    return kernelwheel.load("light", [folder / "csrc/light.cpp"], extra_include_paths=[folder / "include"], **options)


def refusal_of(name: str, *sources: Any, **options: Any) -> str:
    with pytest.raises(KernelWheelError) as raised:
        kernelwheel.load(name, list(sources), **options)
    return str(raised.value)
