"""What sources and the options of compilers say by themselves: kinds of files, names of headers.

A text is read by its lines, without evaluating conditions: too many headers are found rather than too few.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

CXX_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++")
CUDA_SUFFIX = ".cu"
# The options of gcc, clang and nvcc that name a folder of headers, and a header that comes first, as patterns.
FOLDER_OPTIONS = "-I|-isystem|-iquote|-idirafter|--include-path|--system-include"
HEADER_OPTIONS = "-include|-imacros|--pre-include"
# The libraries that every extension is linked with, and every one that uses CUDA: torch's, and the static runtime.
LINKED = {"torch", "torch_cpu", "c10", "torch_python"}
LINKED_FOR_CUDA = {"torch_cuda", "c10_cuda", "cudart"}


def named_headers(text: bytes) -> tuple[str, ...]:
    """The headers that a text names, each with the first of its quotes: `<vector`, `"checks.h`.

    By a directive, a condition, or a macro that a directive may use (C++ standard, [cpp.include]). No regular
    expression: compiling one takes longer than reading a source, and those of torch's headers take several times as
    long.
    """
    found = [_quoted(line) for line in _directives(text)]
    if b"__has_include" in text:
        conditions = text.split(b"__has_include")[1:]
        found += [_quoted(each.removeprefix(b"_next").lstrip(b" \t").removeprefix(b"(")) for each in conditions]
    return tuple(os.fsdecode(name) for name in found if name)


def _directives(text: bytes) -> Iterator[bytes]:
    """What follows `#include`, `#import` or `#define NAME`."""
    at = text.find(b"#")
    while at >= 0:
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        if not text[text.rfind(b"\n", 0, at) + 1 : at].strip(b" \t"):  # nothing else comes before it in its line
            line = text[at + 1 : end].lstrip(b" \t")
            if line.startswith((b"include", b"import")):
                yield line.removeprefix(b"import").removeprefix(b"include").removeprefix(b"_next")
            elif line.startswith(b"define"):
                yield b"".join(line.split(None, 2)[2:])
        at = text.find(b"#", end)


def _quoted(text: bytes) -> bytes:
    """The name that a text begins with, if it is in quotes, after the first of them."""
    line = text.lstrip(b" \t").partition(b"\n")[0]
    name, quote, _ = line[1:].replace(b">", b'"').partition(b'"')
    return line[:1] + name if line[:1] in (b"<", b'"') and name and quote else b""
