"""What C++ and CUDA sources say, as far as adoption must know: read as text, without a preprocessor."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

READ_BYTES = 2_000_000
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# A condition of the preprocessor, and whether one is about Windows alone: `defined(_WIN32)`, `!defined(_MSC_VER)`.
_CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b\s*(.*)", re.DOTALL)
_WINDOWS = re.compile(r"(!?)\s*(?:defined\b)?[\s(]*(?:_WIN32|_WIN64|WIN32|_MSC_VER)[\s)]*")
# Headers that need Python's; and how a macro brings them in.
_OF_PYTHON = re.compile(r"#\s*include\s*[<\"](Python\.h|torch/extension\.h|torch/python\.h|pybind11/[^>\"]+)[>\"]")
_BROUGHT = r"#\s*(?:ifdef\s+|if\s+defined[\s(]*){}\b[^#]*#\s*include\s*<Python\.h>"
_INCLUDED = re.compile(r"#\s*include\s*[<\"]([^>\"\n]+)[>\"]")


def read_source(path: Path) -> str:
    """The beginning of a source file without comments and what is for Windows; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(READ_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
    return _without_windows(_COMMENT.sub("", text))


def _without_windows(text: str) -> str:
    """A source without the lines that are compiled for Windows alone; all other conditions are left as they are."""
    kept = []
    branches: list[bool | None] = []  # of each open condition: whether its branch is compiled; None: not known
    taken: list[bool] = []  # whether a branch of it was certainly compiled
    for line in text.splitlines():
        found = _CONDITION.match(line)
        word, rest = (found[1], found[2]) if found else ("", "")
        if word in ("if", "ifdef", "ifndef"):
            branches.append(_off_windows(word, rest))
            taken.append(branches[-1] is True)
        elif word in ("elif", "else") and branches:
            value = None if word == "else" and branches[-1] is None else _off_windows(word, rest)
            branches[-1] = False if taken[-1] else value
            taken[-1] |= value is True
        if False not in branches:
            kept.append(line)
        if word == "endif" and branches:
            branches.pop()
            taken.pop()
    return "\n".join(kept)


def _off_windows(word: str, condition: str) -> bool | None:
    """What a condition is where there is no Windows; None if that is not all that it asks."""
    if word == "else":
        return True  # after one that is not compiled
    found = _WINDOWS.fullmatch(condition.strip())
    return None if found is None else (word == "ifndef") != bool(found[1])


def brings_python(text: str, macro: str) -> bool:
    """Whether Python.h is included if a macro is defined."""
    return bool(re.search(_BROUGHT.format(re.escape(macro)), text))


def headers_of_python(text: str, macros: Iterable[str]) -> list[str]:
    """The headers that need Python's and that a text includes, but for those that one of these macros brings in."""
    for macro in macros:
        text = re.sub(_BROUGHT.format(re.escape(macro)), "", text)
    return list(dict.fromkeys(found[1] for found in _OF_PYTHON.finditer(text)))


def reached(sources: Iterable[Path], folders: Sequence[Path]) -> dict[Path, str]:
    """The texts of sources, and of the headers beside them or in these folders that they include."""
    texts: dict[Path, str] = {}
    pending = [*sources]
    while pending:
        path = pending.pop(0)
        if path not in texts:
            texts[path] = read_source(path)
            for found in _INCLUDED.finditer(texts[path]):
                places = [Path(os.path.normpath(folder / found[1])) for folder in (path.parent, *folders)]
                pending += [place for place in places if place.is_file()][:1]
    return texts
