"""How headers are named: by options, and in a text.

A text is read by its lines, without evaluating conditions: too many headers are found rather than too few.
"""

from __future__ import annotations

import os
import re

# The options of gcc, clang and nvcc that name a folder of headers, as a pattern.
FOLDER_OPTIONS = "-I|-isystem|-iquote|-idirafter|--include-path|--system-include"
# What can name a header: a directive, a condition, and a macro that a directive may use (C++ standard, [cpp.include]).
_NAMED = re.compile(
    rb'^[ \t]*#[ \t]*(?:include(?:_next)?|import|define[ \t]+\w+)[ \t]*([<"][^>"\n]+)[>"]'
    rb'|__has_include(?:_next)?[ \t]*\([ \t]*([<"][^>"\n]+)[>"]',
    re.MULTILINE,
)


def named_headers(text: bytes) -> tuple[str, ...]:
    """The headers that a text names, each with the first of its quotes: `<vector`, `"checks.h`."""
    return tuple(os.fsdecode(match[1] or match[2]) for match in _NAMED.finditer(text))
