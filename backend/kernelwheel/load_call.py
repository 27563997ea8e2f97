"""Kernels that a program compiles as it runs: `load` and `load_inline`, as in torch.utils.cpp_extension, and `prepare`.

What a call describes is an Extension of a package of its own, `kernelwheel.NAME`, without a wheel: found by its content
in the same stores, compiled by the same compiler under the same lock, verified and loaded by the same loader.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .load_flags import Abi, Call, Paths, Strings
from .load_library import library_of
from .load_sources import INLINE, read_sources


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
    call = Call.of(locals())
    return library_of(call, read_sources(call, sources), sys._getframe(1).f_globals.get("__name__", ""))


def load_inline(
    name: str,
    cpp_sources: Strings,
    cuda_sources: Strings = None,
    sycl_sources: Strings = None,
    functions: str | Sequence[str] | Mapping[str, str | None] | None = None,
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
    """The same for sources that are given as text, with the parameters of torch.utils.cpp_extension.load_inline.

    For the stable ABI, no `#include` line comes first.
    """
    call = Call.of(locals())
    implicit = not no_implicit_headers and abi == "torch"
    cpp = ["#include <torch/extension.h>"] if implicit else []
    cpp += [*call.texts("cpp_sources", cpp_sources), *_bindings(call, functions, with_pytorch_error_handling)]
    texts = {f"{INLINE}/main.cpp": "\n".join(cpp).encode()}
    if cuda := call.texts("cuda_sources", cuda_sources):
        first = [f"#include <{each}>" for each in ("torch/types.h", "cuda.h", "cuda_runtime.h") if implicit]
        texts[f"{INLINE}/cuda.cu"] = "\n".join([*first, *cuda]).encode()
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


def _bindings(call: Call, functions: str | Sequence[str] | Mapping[str, str | None] | None, handled: bool) -> list[str]:
    """The lines that make a module of some functions; none if `functions` is None."""
    if functions is None:
        return []
    if not isinstance(functions, (str, Sequence, Mapping)):
        raise ValueError(f"functions takes names, or docstrings by name, not {functions!r}")
    names = [functions] if isinstance(functions, str) else list(functions)
    if bad := [each for each in names if not (isinstance(each, str) and re.fullmatch(r"[A-Za-z_][\w:]*", each))]:
        raise call.refusal("functions", "names of C++ functions, or a dict of them and docstrings", repr(bad[0]))
    docstrings = functions if isinstance(functions, Mapping) else {each: each for each in names}
    if wrong := [each for each in docstrings.values() if not isinstance(each, (str, type(None)))]:
        raise call.refusal("functions", "docstrings, each a string or None", repr(wrong[0]))
    wrapped = "torch::wrap_pybind_function({})" if handled else "{}"
    lines = [f'm.def("{each}", {wrapped.format(each)}, {_literal(docstrings[each] or "")});' for each in names]
    return ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"]


def _literal(text: str) -> str:
    """A string of C++, in UTF-8: every byte that may mean something else by its number."""
    encoded = text.encode("utf-8", "replace")  # half of a surrogate pair is no character
    plain = (
        chr(byte) if (byte < 128 and chr(byte).isalnum()) or byte in b" .,:;()_-" else f"\\{byte:03o}"
        for byte in encoded
    )
    return f'"{"".join(plain)}"'
