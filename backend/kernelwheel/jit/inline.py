"""The files that `load_inline` compiles, made of texts: their names, `#include` lines and bindings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .arguments import LoadArguments, Strings
from .sources import INLINE

# Names, or docstrings by name.
Functions = str | Sequence[str] | Mapping[str, str | None] | None


def inline_sources(
    arguments: LoadArguments,
    cpp_sources: Strings,
    cuda_sources: Strings,
    functions: Functions,
    *,
    with_headers: bool,
    with_error_handling: bool,
    gil_not_used: bool,
) -> dict[str, bytes]:
    """The texts of the files, by their paths.

    Raises:
        SettingsError: an argument is not right.
    """
    cpp = ["#include <torch/extension.h>"] if with_headers else []
    cpp += arguments.texts("cpp_sources", cpp_sources)
    cpp += _bindings(arguments, functions, with_error_handling, gil_not_used)
    texts = {f"{INLINE}/main.cpp": "\n".join(cpp).encode()}
    if cuda := arguments.texts("cuda_sources", cuda_sources):
        first = [f"#include <{each}>" for each in ("torch/types.h", "cuda.h", "cuda_runtime.h") if with_headers]
        texts[f"{INLINE}/cuda.cu"] = "\n".join([*first, *cuda]).encode()
    return texts


def _bindings(
    arguments: LoadArguments, functions: Functions, with_error_handling: bool, gil_not_used: bool
) -> list[str]:
    """The lines that make a module of some functions; none if `functions` is None."""
    if functions is None:
        return []
    if not isinstance(functions, (str, Sequence, Mapping)):
        raise ValueError(f"functions takes names, or docstrings by name, not {functions!r}")
    names = [functions] if isinstance(functions, str) else list(functions)
    if bad := [each for each in names if not (isinstance(each, str) and re.fullmatch(r"[A-Za-z_][\w:]*", each))]:
        raise arguments.refusal("functions", "names of C++ functions, or a dict of them and docstrings", repr(bad[0]))
    docstrings = functions if isinstance(functions, Mapping) else {each: each for each in names}
    if wrong := [each for each in docstrings.values() if not isinstance(each, (str, type(None)))]:
        raise arguments.refusal("functions", "docstrings, each a string or None", repr(wrong[0]))
    wrapped = "torch::wrap_pybind_function({})" if with_error_handling else "{}"
    lines = [f'm.def("{each}", {wrapped.format(each)}, {_literal(docstrings[each] or "")});' for each in names]
    more = ", pybind11::mod_gil_not_used()" if gil_not_used else ""
    return [f"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m{more}) {{", *lines, "}"]


def _literal(text: str) -> str:
    """A string of C++, in UTF-8: every byte that may mean something else by its number."""
    encoded = text.encode("utf-8", "replace")  # half of a surrogate pair is no character
    plain = (
        chr(byte) if (byte < 128 and chr(byte).isalnum()) or byte in b" .,:;()_-" else f"\\{byte:03o}"
        for byte in encoded
    )
    return f'"{"".join(plain)}"'
