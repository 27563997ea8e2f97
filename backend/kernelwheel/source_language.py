"""What sources say by themselves: kinds of files, names of headers.

A text is read by its lines, without evaluating conditions: too many headers are found rather than too few.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

CXX_SUFFIXES = (".cpp", ".cc", ".cxx", ".c++")
CUDA_SUFFIX = ".cu"
# Where compilers and linkers, which run in the build folder, find the files of an extension.
SOURCES = "../src"
# What a path may not have that is given to CMake, or that a compiler writes for Ninja.
UNFIT = r"[\x00-\x1f\x7f;\\|:]|\$(?=<|/|\Z)"


def named_headers(text: bytes) -> tuple[str, ...]:
    """The headers that a text names, each with the first of its quotes: `<vector`, `"checks.h`.

    By a directive, a condition, or a macro that a directive may use (C++ standard, [cpp.include]); and the files that
    the assembler is told to read. No regular expression: compiling one takes longer than reading a source, and those of
    torch's headers take several times as long.
    """
    if b"\\\n" in text or b"\\\r\n" in text:
        text = text.replace(b"\\\r\n", b"").replace(b"\\\n", b"")
    found = [_quoted(line) for line in _directives(text.replace(b"%:", b"#"))]
    for condition in (b"__has_include", b"__has_embed"):
        if condition in text:
            for each in text.split(condition)[1:]:
                operand = each[:4096].removeprefix(b"_next").lstrip(b" \t").removeprefix(b"(")
                found.append(_quoted(_without_comments(operand, b"", 0)))
    for told in (b".incbin", b".include"):
        if told in text:
            found += [_quoted(each[:4096].lstrip(b" \t\\")).rstrip(b"\\") for each in text.split(told)[1:]]
    return tuple(os.fsdecode(name) for name in found if name)


def _directives(text: bytes) -> Iterator[bytes]:
    """What follows `#include`, `#import`, `#embed` or `#define NAME`."""
    at = text.find(b"#")
    while at >= 0:
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        before = text[text.rfind(b"\n", 0, at) + 1 : at]
        if not before.rpartition(b"*/")[2].strip():  # nothing else comes before it in its line
            line = _without_comments(text[at + 1 : end], text, end)
            if line.startswith((b"include", b"import", b"embed")):
                name = line.removeprefix(b"import").removeprefix(b"embed").removeprefix(b"include")
                yield _without_comments(name.removeprefix(b"_next"), text, end)
            elif line.startswith(b"define"):
                yield b"".join(line.split(None, 2)[2:])
        at = text.find(b"#", end)


def _without_comments(line: bytes, text: bytes, end: int) -> bytes:
    """The line without what may come before a word: blanks, and comments, the last of which may end in a later line."""
    line = line.lstrip()
    while line.startswith(b"/*"):
        _, ended, rest = line.partition(b"*/")
        if not ended:
            close = text.find(b"*/", end)
            stop = text.find(b"\n", close)
            rest = text[close + 2 : stop if stop >= 0 else len(text)] if close >= 0 else b""
        line = rest.lstrip()
    return line


def _quoted(text: bytes) -> bytes:
    """The name that a text begins with, if it is in quotes, after the first of them."""
    line = text.lstrip(b" \t").partition(b"\n")[0]
    name, quote, _ = line[1:].replace(b">", b'"').partition(b'"')
    return line[:1] + name if line[:1] in (b"<", b'"') and name and quote else b""
