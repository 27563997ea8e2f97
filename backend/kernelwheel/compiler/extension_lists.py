"""The CMakeLists.txt of a Plan with extensions, which have none of their own."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from ..project.arch_choice import gencode
from ..project.extension import Extension
from .plan import Plan

_FUNCTIONS = {
    "module": "kernelwheel_add_pybind11_module",
    "operators": "kernelwheel_add_op_library",
    "torch-library": "kernelwheel_add_torch_library",
}


def cmake_lists(plan: Plan) -> str:
    """The text of the CMakeLists.txt, for the folder with the Plan's sources."""
    lines = ["cmake_minimum_required(VERSION 3.24)", f"project({plan.package} LANGUAGES CXX)", "include(KernelWheel)"]
    for each in plan.extensions:
        lines += _target(each, plan)
    return "\n".join([*lines, ""])


def as_one(flags: Iterable[str]) -> str:
    """Options as one CMake list item; as separate items, CMake would drop duplicates such as `-Xcompiler`."""
    joined = shlex.join(flags)
    return "SHELL:" + joined.replace(";", "\\;") if joined else ""


def _target(extension: Extension, plan: Plan) -> Iterator[str]:
    cuda = plan.cuda is not None and extension.cuda != "none"
    files = extension.compiled(cuda)
    name = extension.name
    yield f"{_FUNCTIONS[extension.kind]}({name} {'CUDA ' if cuda else ''}SOURCES {_quoted(files)})"
    # The linker's name for it, in the place of lib<name>.so; and which function Python calls.
    yield f"set_target_properties({name} PROPERTIES PREFIX {_quoted([''])} OUTPUT_NAME {name} NO_SONAME ON)"
    yield f"kernelwheel_name_module({name} {extension.module})"
    if extension.include_dirs:
        yield f"target_include_directories({name} PRIVATE {_quoted(extension.include_dirs)})"
    if define := (*extension.define, *(extension.cuda_define if cuda else ())):
        yield f"target_compile_definitions({name} PRIVATE {_quoted(define)})"
    if extension.archs and cuda and extension.has_kernels:
        yield f"kernelwheel_set_gencode({name} {_quoted(gencode(extension.own_archs))})"
    yield f"kernelwheel_add_flags({name} {_quoted([as_one(extension.cxx_flags), as_one(extension.cuda_flags)])})"
    for file, flags in extension.file_flags.items():
        if file in files:
            yield f"kernelwheel_add_file_flags({name} {_quoted([file, *flags])})"
    if extension.link_flags:
        yield f"target_link_options({name} PRIVATE {_quoted([as_one(extension.link_flags)])})"
    if extension.libraries:
        yield f"kernelwheel_link_libraries({name} {_quoted(extension.libraries)})"


def _quoted(values: Iterable[str]) -> str:
    """Values as bracket arguments, in which CMake evaluates nothing."""
    return " ".join(f"[==[{value}]==]" for value in values)
