"""All that CMake and the compilers are given for a Plan: cache entries and generated files; their digest too.

It is relative to the work folder, or says where a tool of this machine is. The first is the recipe, which is part of
the Plan; what the tools are is there by content.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from packaging.version import Version

from ..flags.words import options_of, values_of
from ..project.arch_choice import gencode
from ..project.build_platforms import PLATFORMS, WindowsBuild
from ..project.extension import Extension
from ..project.source_files import file_sha256
from ..runtime.machine.files import json_sha256
from ..source_language import SOURCES
from .cmake_driver import BUILD_TYPE, GENERATOR
from .cross.cmake_files import toolchain_file
from .cross.windows import cmake_for_windows as windows
from .headers import header_folders
from .plan import Plan
from .toolchain import glibc_compat
from .toolchain.clang_toolkit import CLANG
from .toolchain.compiler_environment import PASSED_ON, SETTLED
from .toolchain.toolchain import Toolchain

MODULES = Path(__file__).parent.parent / "cmake"
# Entries that say where a tool of this machine is, or how many folders its headers are in.
LOCATED = (
    "CMAKE_CXX_COMPILER",
    "CMAKE_CXX_COMPILER_LAUNCHER",
    "CMAKE_CUDA_COMPILER",
    "CMAKE_CUDA_COMPILER_LAUNCHER",
    "CMAKE_CUDA_HOST_COMPILER",
    "KERNELWHEEL_CUDA_HEADERS",
    "KERNELWHEEL_PYTHON_HEADERS",
    "KERNELWHEEL_TOOLKIT",
)

_FUNCTIONS = {
    "module": "kernelwheel_add_pybind11_module",
    "operators": "kernelwheel_add_op_library",
    "torch-library": "kernelwheel_add_torch_library",
}


def without_links(work: Path) -> str:
    """The sed script that removes from a dependency file everything reached through the folder's links."""
    quoted = re.sub(r"([][.*^$+?(){}|\\!])", r"\\\1", in_makefile(work))
    name = r"([^[:space:]\\]|\\.)*"
    # zig names its own files from the folder that it is run in.
    return f"s!{quoted}/(torch|cuda|headers)/{name}!!g\ns!(^|[[:space:]])zig/{name}!\\1!g\n"


def in_makefile(path: Path) -> str:
    """A path as dependency files write it: a backslash before a space or #, and a doubled $."""
    return re.sub(r"([ #])", r"\\\1", str(path)).replace("$", "$$")


def generated_sources(plan: Plan, toolchain: Toolchain) -> dict[str, str]:
    """The sources that are not the package's own, by their names in the work folder."""
    files = {"src/CMakeLists.txt": cmake_lists(plan)} if plan.extensions else {}
    if plan.glibc:
        files |= {f"older/{name}": text for name, text in glibc_compat.source_files(toolchain.cxx, plan.glibc).items()}
    if isinstance(toolchain.target, WindowsBuild):
        files |= windows.source_files()
    return files


def recipe_files(work: Path, toolchain: Toolchain) -> dict[str, str]:
    """The files that tell CMake and the compilers how, by their names in the work folder."""
    prefix_map = toolchain.cxx.response_file(f"-ffile-prefix-map={work}=.")  # __FILE__ is the same in every folder
    files = {"recipe/paths.rsp": prefix_map, "recipe/depfile.sed": without_links(work)}
    if toolchain.target:
        files["recipe/toolchain.cmake"] = toolchain_file(work, toolchain)
    return files


def configuration_rests_on(plan: Plan, toolchain: Toolchain) -> tuple[str, ...]:
    """Inputs besides the cache entries that CMake reads only once: if they change, it must configure from scratch.

    A package's own CMake files may keep any answer that rests on any of its sources: `check_cxx_source_compiles`.
    """
    nvcc = toolchain.cuda.nvcc
    sources = {} if plan.extensions else dict(plan.sources)
    own = [cmake_lists(plan) if plan.extensions else "", *recipe_files(Path(), toolchain).values()]
    # Not its root, which may be a folder of this process.
    compiler = str((nvcc.root / CLANG if nvcc.clang else nvcc.path).resolve() if nvcc else None)
    return (str(toolchain.torch.root), compiler, json.dumps(sources, sort_keys=True), *own)


def cache_entries(work: Path, plan: Plan, toolchain: Toolchain) -> dict[str, Any]:
    """The CMake cache entries that carry the Plan into KernelWheel.cmake."""
    target, platform = Version(plan.content["torch_target"]), PLATFORMS[plan.platform]
    for_host = (f"-Xcompiler={option}" for option in plan.cpu.options)
    cache: dict[str, Any] = {
        "CMAKE_EXPORT_COMPILE_COMMANDS": True,  # see cpu.check_commands
        "KERNELWHEEL_CUDA": plan.cuda is not None,
        "KERNELWHEEL_CUDA_ALONE": not plan.cpu_kernels,
        "KERNELWHEEL_TORCH": str(work / "torch"),
        "KERNELWHEEL_TORCH_TARGET": f"0x{target.major:02x}{target.minor:02x}000000000000",
        "KERNELWHEEL_BINDING": "python" if plan.binding and plan.binding.python else "torch" if plan.binding else "",
        "KERNELWHEEL_LIBRARIES": str(work / "libraries"),
        "KERNELWHEEL_STABLE_STANDARD": plan.standards.years["stable"],
        "KERNELWHEEL_TORCH_STANDARD": plan.standards.years.get("torch", ""),
        "KERNELWHEEL_CXX_FLAGS": as_one((*plan.cpu.options, *plan.for_compilers(plan.flags("cxx-flags")))),
        "KERNELWHEEL_LINK_FLAGS": as_one(plan.cpu.stands_for(plan.flags("link-flags"))),
        "KERNELWHEEL_CUDART_LIBRARIES": ";".join(platform.cudart_libraries),
        "KERNELWHEEL_PARTS": ";".join(sorted(plan.content["parts"])),
        "KERNELWHEEL_TAKEN": ";".join(sorted(plan.taken)),
        "KERNELWHEEL_DEVICE_CODE_ALONE": bool(plan.host_code),
        "KERNELWHEEL_OLDER": str(work / "older") if plan.glibc else "",
        "KERNELWHEEL_OUTPUT": str(work / "out"),
        "KERNELWHEEL_RECIPE": "../recipe",
    }
    if toolchain.target is None:
        cache["CMAKE_CXX_COMPILER"] = str(toolchain.cxx.path)
    else:
        cache["CMAKE_TOOLCHAIN_FILE"] = str(work / "recipe" / "toolchain.cmake")
        cache["KERNELWHEEL_TORCH_STUBS"] = str(work / "torch-stubs")
    if isinstance(platform, WindowsBuild):
        cache["KERNELWHEEL_BEFORE_TORCH"] = str(work / windows.BEFORE_TORCH)
        cache["KERNELWHEEL_LIBRARIES"] += f";{work / windows.BEFORE_TORCH / 'lib'}"
    for language, folders in header_folders(plan, toolchain).items():
        links = [str(work / "headers" / f"{language}{number}") for number in range(len(folders))]
        cache[f"KERNELWHEEL_{language.upper()}_HEADERS"] = ";".join(links)
    if toolchain.launchers.cxx:
        cache["CMAKE_CXX_COMPILER_LAUNCHER"] = ";".join(toolchain.launchers.cxx)
    if toolchain.launchers.cuda:
        cache["CMAKE_CUDA_COMPILER_LAUNCHER"] = ";".join(toolchain.launchers.cuda)
    nvcc = toolchain.cuda.nvcc
    if plan.cuda and nvcc and nvcc.target:
        cache["KERNELWHEEL_LIBRARIES"] += f";{work / 'cuda' / 'targets' / nvcc.target.name / 'lib'}"
    if plan.cuda and nvcc:
        inside = work / "cuda" / "bin" / "nvcc"
        cache |= {
            "CMAKE_CUDA_COMPILER": str(inside if inside.is_file() else nvcc.path),
            "CMAKE_CUDA_HOST_COMPILER": str(toolchain.cxx.program(work)),
            "CMAKE_CUDA_COMPILER_FORCED": True,  # no test program, which takes a second
            "KERNELWHEEL_NVCC": "" if nvcc.target and not nvcc.clang else nvcc.version,
            "KERNELWHEEL_TOOLKIT": str(work / "cuda" if inside.is_file() else nvcc.root),
            "KERNELWHEEL_GENCODE": ";".join(gencode(plan.cuda.archs)),
            "KERNELWHEEL_CUDA_FLAGS": as_one((*for_host, *plan.for_compilers(plan.flags("cuda-flags")))),
        }
    return cache


def recipe_of(plan: Plan, toolchain: Toolchain) -> dict[str, str]:
    """The digests of all that CMake and the compilers are told, wherever the folder and the tools are."""
    work = Path("work")
    cache = {name: value for name, value in cache_entries(work, plan, toolchain).items() if name not in LOCATED}
    files = generated_sources(plan, toolchain) | recipe_files(work, toolchain)
    files.pop("recipe/toolchain.cmake", None)  # says where tools are; what they are made to do is in the identities
    return {
        **{path.name: file_sha256(path) for path in MODULES.glob("*.cmake")},
        "arguments": json_sha256([GENERATOR, BUILD_TYPE]),
        **({"cpu": plan.cpu.native} if plan.cpu.native else {}),
        "cache": json_sha256(cache),
        "environment": json_sha256([SETTLED, PASSED_ON]),
        "files": json_sha256(files),
    }


# The CMakeLists.txt of a Plan with extensions, which have none of their own. A compiler gets every flag as it is,
# whatever is in it.

# What CMake evaluates in an option; the empty expression ends a bracket argument's end, too.
_EVALUATED = re.compile(r"\$(?=<)|\](?==)|[>,]")
_UNEVALUATED = {">": "$<ANGLE-R>", ",": "$<COMMA>"}


def cmake_lists(plan: Plan) -> str:
    """The text of the CMakeLists.txt, for the folder with the Plan's sources."""
    lines = ["cmake_minimum_required(VERSION 3.24)", "project(kernelwheel LANGUAGES CXX)", "include(KernelWheel)"]
    for each in plan.built:
        lines += _target(each, plan)
    return "\n".join([*lines, ""])


def as_one(flags: Iterable[str]) -> str:
    """Options as one CMake list item; as separate items, CMake would drop duplicates such as `-Xcompiler`."""
    return f"SHELL:{_unevaluated(words)}".replace(";", "\\$<SEMICOLON>") if (words := _for_shell(flags)) else ""


def _for_shell(flags: Iterable[str]) -> str:
    """Options as CMake splits a string, by its UNIX_COMMAND: a backslash counts within single quotes, too."""
    return " ".join('"' + flag.replace("\\", "\\\\").replace('"', '\\"') + '"' for flag in flags)


def _unevaluated(text: str) -> str:
    """What a generator expression of CMake has a text as its value."""
    return _EVALUATED.sub(lambda found: _UNEVALUATED.get(found[0], f"{found[0]}$<1:>"), text)


def _target(extension: Extension, plan: Plan) -> Iterator[str]:
    cuda = plan.cuda is not None and extension.cuda != "none"
    files = extension.compiled(cuda)
    name = f"kernelwheel-{extension.name}"  # so that it is none of the names that CMake keeps for itself, as `test`
    yield f"{_FUNCTIONS[extension.kind]}({name} {'CUDA ' if cuda else ''}SOURCES {_quoted(files)})"
    # The linker's name for it, in the place of lib<name>.so; and which function Python calls.
    yield f"set_target_properties({name} PROPERTIES PREFIX {_quoted([''])} OUTPUT_NAME {extension.name} NO_SONAME ON)"
    yield f"kernelwheel_name_module({name} {extension.module})"
    if extension.include_dirs:
        yield f"target_include_directories({name} PRIVATE {_quoted(extension.include_dirs)})"
    if (extension.archs or extension.device_link) and cuda and extension.has_kernels:
        yield f"kernelwheel_set_gencode({name} {_quoted(gencode(plan.archs_of(extension)))})"
    if extension.device_link and cuda and extension.has_kernels:
        archives = [word for word in options_of(extension.link_flags) if word.startswith(f"{SOURCES}/")]
        yield f"kernelwheel_link_device_code({name} {_quoted([*archives, *extension.linked(cuda)])})"
    given = partial(plan.for_compilers, abi=extension.abi)
    define = [f"-D{each}" for each in (*extension.define, *(extension.cuda_define if cuda else ()))]
    flags = [as_one([*define, *given(each)]) for each in (extension.cxx_flags, extension.cuda_flags)]
    yield f"kernelwheel_add_flags({name} {_quoted(flags)})"
    for file, options in extension.file_flags.items():
        if file in files:
            command = shlex.join(given(options)).replace("$", "$$")  # for a shell, and for Ninja
            yield f"kernelwheel_add_file_flags({name} {_quoted([file, _unevaluated(command)])})"
    if extension.link_flags:
        yield f"kernelwheel_add_link_flags({name} {_quoted([as_one(plan.cpu.stands_for(extension.link_flags))])})"
    libraries = extension.linked(cuda)
    if libraries:
        folders = _for_shell(f"-L{folder}" for folder in values_of(extension.link_flags, ("-L",), linker=True))
        yield f"kernelwheel_require_libraries({name} {_quoted([folders, *libraries])})"
    placed = {*options_of(extension.link_flags)}
    if others := [each for each in libraries if f"-l{each}" not in placed]:
        yield f"target_link_libraries({name} PRIVATE {_quoted(others)})"


def _quoted(values: Iterable[str]) -> str:
    """Values as bracket arguments, in which CMake evaluates nothing."""
    return " ".join(f"[==[{value}]==]" for value in values)
