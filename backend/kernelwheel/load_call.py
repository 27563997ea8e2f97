"""Kernels that a program compiles as it runs: `load` and `load_inline`, as in torch.utils.cpp_extension, and `prepare`.

What a call describes is an Extension of a package of its own, `kernelwheel.NAME`, without a wheel: found by its content
in the same stores, compiled by the same compiler under the same lock, verified and loaded by the same loader.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .load_flags import refusal
from .load_library import library_of
from .load_package import Abi, Call
from .load_sources import INLINE, read_sources

Strings = str | Sequence[str] | None
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None


def load(
    name: str,
    sources: Paths,
    extra_cflags: Strings = None,
    extra_cuda_cflags: Strings = None,
    extra_sycl_cflags: Strings = None,
    extra_ldflags: Strings = None,
    extra_include_paths: Paths = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
    *,
    abi: Abi = "torch",
    unique_namespace: bool = False,
    only_compile: bool = False,
) -> Any:
    """Compile C++ and CUDA files, unless a store has what would be made, and load the library.

    The parameters are those of torch.utils.cpp_extension.load; docs/load.md says what differs.

    Args:
        name: of the extension, and of its module.
        sources: C++ and CUDA files.
        extra_cflags: options for the C++ compiler.
        extra_cuda_cflags: options for nvcc; those that choose architectures take the place of TORCH_CUDA_ARCH_LIST.
        extra_sycl_cflags: refused, as is `with_sycl`.
        extra_ldflags: options for the linker.
        extra_include_paths: folders with headers.
        build_directory: a cache folder to use in place of the user's.
        verbose: whether to say what was loaded; a compile is always announced, on standard error.
        with_cuda: whether CUDA's headers and libraries are used; None: if there are CUDA files.
        with_sycl: refused.
        is_python_module: whether the library is a Python module; otherwise it registers operators.
        is_standalone: refused: no executables are made.
        keep_intermediates: has no effect: what the next compile can use is kept in the cache.
        abi: `stable` for operators on torch's stable ABI alone: one library then serves every Python and torch.
        unique_namespace: whether TORCH_EXTENSION_NAME is made unique by the content, so that several versions of one
            library of operators can be registered in a process.
        only_compile: whether to load nothing, see `prepare`.

    Returns:
        The module; the same one for the same content. Without `is_python_module`, the path of the library, or with
        `unique_namespace` the namespace of its operators, `torch.ops.NAME_CONTENT`.

    Raises:
        BuildError: the arguments are not right, or something does not compile.
        IncompatibleArtifactError: what was compiled does not fit this machine.
        StoreError: the cache cannot be used.
    """
    if is_standalone:
        remedy = "build it with CMake and torch's TorchConfig.cmake"
        raise refusal(name, "is_standalone", "a library, which a Python process loads", "an executable", remedy)
    _refuse_sycl(name, with_sycl, extra_sycl_cflags)
    flags = (_strings(extra_cflags), _strings(extra_cuda_cflags), _strings(extra_ldflags), _paths(extra_include_paths))
    module = is_python_module and abi == "torch"
    call = Call(name, *flags, build_directory, verbose, with_cuda, module, abi, unique_namespace, only_compile)
    return library_of(call, read_sources(_paths(sources), name), sys._getframe(1).f_globals.get("__name__", ""))


def load_inline(
    name: str,
    cpp_sources: Strings,
    cuda_sources: Strings = None,
    sycl_sources: Strings = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Strings = None,
    extra_cuda_cflags: Strings = None,
    extra_sycl_cflags: Strings = None,
    extra_ldflags: Strings = None,
    extra_include_paths: Paths = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
    *,
    abi: Abi = "torch",
    unique_namespace: bool = False,
    only_compile: bool = False,
) -> Any:
    """The same for sources that are given as text.

    The parameters are those of torch.utils.cpp_extension.load_inline; see `load` for the others.

    Args:
        name: as for `load`.
        cpp_sources: C++ texts, which are one file together, after `#include <torch/extension.h>`.
        cuda_sources: CUDA texts, which are another one, after torch/types.h, cuda.h and cuda_runtime.h.
        sycl_sources: refused.
        functions: the C++ functions that the module gets, or their docstrings by name.
        with_pytorch_error_handling: whether C++ errors of these functions become the exceptions that torch raises.
        use_pch: has no effect: a precompiled header saves time in the second compile of several.
        no_implicit_headers: whether the `#include` lines are left out. They always are for the stable ABI.
    """
    _refuse_sycl(name, with_sycl, sycl_sources or extra_sycl_cflags)
    implicit = not no_implicit_headers and abi == "torch"
    cpp = ["#include <torch/extension.h>"] if implicit else []
    cpp += [*_strings(cpp_sources), *_bindings(name, functions, with_pytorch_error_handling)]
    texts = {f"{INLINE}/main.cpp": "\n".join(cpp).encode()}
    if cuda := _strings(cuda_sources):
        first = [f"#include <{each}>" for each in ("torch/types.h", "cuda.h", "cuda_runtime.h") if implicit]
        texts[f"{INLINE}/cuda.cu"] = "\n".join([*first, *cuda]).encode()
    flags = (_strings(extra_cflags), _strings(extra_cuda_cflags), _strings(extra_ldflags), _paths(extra_include_paths))
    module = is_python_module and abi == "torch"
    call = Call(name, *flags, build_directory, verbose, with_cuda, module, abi, unique_namespace, only_compile)
    return library_of(call, texts, sys._getframe(1).f_globals.get("__name__", ""))


def prepare(name: str, sources: Paths = None, **arguments: Any) -> Path:
    """Compile what `load` or, with `cpp_sources`, `load_inline` would load with the same arguments, and load nothing.

    No GPU is needed: TORCH_CUDA_ARCH_LIST says for which to compile.

    Returns:
        The folder of the entry, for `kernelwheel cache export` or an image.

    Raises:
        BuildError, StoreError: as `load`.
    """
    if sources is None:
        return Path(load_inline(name, **arguments, only_compile=True))
    return Path(load(name, sources, **arguments, only_compile=True))


def _refuse_sycl(name: str, with_sycl: bool | None, given: Any) -> None:
    if with_sycl or given:
        remedy = "use torch.utils.cpp_extension for SYCL"
        raise refusal(name, "SYCL", "sources for the CPU and for CUDA", "sources or options for SYCL", remedy)


def _strings(given: Strings) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def _paths(given: Paths) -> tuple[str, ...]:
    return tuple(os.fspath(each) for each in ((given,) if isinstance(given, (str, os.PathLike)) else given or ()))


def _bindings(name: str, functions: str | Sequence[str] | Mapping[str, str] | None, handled: bool) -> list[str]:
    """The lines that make a module of some functions; none if `functions` is None."""
    if functions is None:
        return []
    if not isinstance(functions, (str, Sequence, Mapping)):
        raise ValueError(f"functions takes names, or docstrings by name, not {functions!r}")
    names = [functions] if isinstance(functions, str) else list(functions)
    if bad := [each for each in names if not re.fullmatch(r"[A-Za-z_][\w:]*", str(each))]:
        raise refusal(name, "functions", "names of C++ functions, or a dict of them and docstrings", repr(bad[0]))
    docstrings = functions if isinstance(functions, Mapping) else {each: each for each in names}
    wrapped = "torch::wrap_pybind_function({})" if handled else "{}"
    lines = [f'm.def("{each}", {wrapped.format(each)}, {json.dumps(docstrings[each])});' for each in names]
    return ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"]
