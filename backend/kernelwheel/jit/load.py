"""Kernels that a program compiles as it runs: `load` and `load_inline`, as in torch.utils.cpp_extension, and `prepare`.

What a call describes is an Extension of a package of its own, `kernelwheel.NAME`, without a wheel: found by its content
in the same stores, compiled by the same compiler under the same lock, verified and loaded by the same loader.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from .arguments import Abi, LoadArguments, Paths, Strings
from .inline import Functions, inline_sources
from .loaded_library import carry_out
from .sources import read_sources


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

    The parameters are those of torch.utils.cpp_extension.load; docs/load.md says which differ. Beyond them:

    Args:
        abi: `stable` for operators on torch's stable ABI alone: one library then serves every Python and torch.
        unique_namespace: whether TORCH_EXTENSION_NAME is made unique by the content, so that several versions of one
            library of operators can be registered in a process: `load(..., unique_namespace=True).f(x)`.
        only_compile: whether to load nothing, see `prepare`.

    Returns:
        The module; the same one for the same content. Without `is_python_module`, the path of the library, or with
        `unique_namespace` the namespace of its operators, `torch.ops.NAME_CONTENT`.

    Raises:
        BuildError: the arguments are not right, or something does not compile.
        IncompatibleArtifactError: what was compiled does not fit this machine.
        StoreError: the cache cannot be used.
    """
    arguments = LoadArguments(
        name=name,
        extra_cflags=extra_cflags,
        extra_cuda_cflags=extra_cuda_cflags,
        extra_ldflags=extra_ldflags,
        extra_include_paths=extra_include_paths,
        build_directory=build_directory,
        verbose=verbose,
        with_cuda=with_cuda,
        is_python_module=is_python_module,
        abi=abi,
        unique_namespace=unique_namespace,
        only_compile=only_compile,
    )
    arguments.refuse_unfit(is_standalone, sycl=bool(with_sycl or extra_sycl_cflags))
    return carry_out(arguments, read_sources(arguments, sources), sys._getframe(1).f_globals.get("__name__", ""))


def load_inline(
    name: str,
    cpp_sources: Strings,
    cuda_sources: Strings = None,
    sycl_sources: Strings = None,
    functions: Functions = None,
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
    gil_not_used: bool = False,
    *,
    abi: Abi = "torch",
    unique_namespace: bool = False,
    only_compile: bool = False,
) -> Any:
    """Compile C++ and CUDA sources that are given as text, and load the library: otherwise as `load`.

    The parameters are those of torch.utils.cpp_extension.load_inline, and beyond them those of `load`, which says what
    is returned and raised. For the stable ABI, no `#include` line comes first.
    """
    arguments = LoadArguments(
        name=name,
        extra_cflags=extra_cflags,
        extra_cuda_cflags=extra_cuda_cflags,
        extra_ldflags=extra_ldflags,
        extra_include_paths=extra_include_paths,
        build_directory=build_directory,
        verbose=verbose,
        with_cuda=with_cuda,
        is_python_module=is_python_module,
        abi=abi,
        unique_namespace=unique_namespace,
        only_compile=only_compile,
    )
    arguments.refuse_unfit(is_standalone=False, sycl=bool(with_sycl or extra_sycl_cflags or sycl_sources))
    texts = inline_sources(
        arguments,
        cpp_sources,
        cuda_sources,
        functions,
        with_headers=not no_implicit_headers and abi == "torch",
        with_error_handling=with_pytorch_error_handling,
        gil_not_used=gil_not_used,
    )
    return carry_out(arguments, texts, sys._getframe(1).f_globals.get("__name__", ""))


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
