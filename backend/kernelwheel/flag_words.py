"""The words of flags that name folders of headers, headers and what is linked, also those that are passed on.

An option keeps its place and its kind: only the path in it is another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from .runtime.record import Record
from .source_language import FOLDER_OPTIONS, HEADER_OPTIONS

# Options of nvcc that pass on what is separated by commas, and of gcc that pass on one word.
_LISTS = ("-Xcompiler", "--compiler-options", "-Xpreprocessor", "-Xlinker", "--linker-options", "-Xclang")
_SINGLE = ("-Xpreprocessor", "-Xlinker", "-Xclang")
# The longest first: one can be the beginning of another.
FOLDERS = tuple(sorted(FOLDER_OPTIONS.split("|"), key=len, reverse=True))
PLAIN = ("-I", "--include-directory", "--include-path")  # those of the most common kind
_HEADERS = tuple(sorted(HEADER_OPTIONS.split("|"), key=len, reverse=True))


class Word(Record):
    """One word as the program gets it that it is for."""

    number: int  # of the flag that it is in
    through: str  # what passes it on: `-Xcompiler`, `-Xcompiler=`, `-Wl,`; empty if nothing does
    text: str


def split(flags: Iterable[str]) -> list[Word]:
    """The words of flags; of those that are passed on, each with what passes it on."""
    words: list[Word] = []
    following = iter(flags)
    for number, flag in enumerate(following):
        option, equals, value = flag.partition("=")
        if flag in _LISTS and (given := next(following, None)) is not None:
            inside = [given] if flag in _SINGLE else given.split(",")
            words += (Word(number, flag, each) for each in inside)
        elif equals and option in _LISTS:
            words += (Word(number, f"{option}=", each) for each in value.split(","))
        elif flag.startswith(("-Wl,", "-Wp,", "-Wa,")):
            words += (Word(number, flag[:4], each) for each in flag[4:].split(","))
        else:
            words.append(Word(number, "", flag))
    return words


def join(words: Iterable[Word]) -> list[str]:
    """The flags of words."""
    flags: list[str] = []
    for (_, through), group in groupby(words, lambda word: (word.number, word.through)):
        texts = [word.text for word in group]
        if not through:
            flags += texts
        elif through in _SINGLE:
            flags += (each for text in texts for each in (through, text))
        elif through in _LISTS:
            flags += [through, ",".join(texts)]
        else:
            flags.append(through + ",".join(texts))
    return flags


def options_of(flags: Iterable[str]) -> list[str]:
    """The words alone."""
    return [word.text for word in split(flags)]


def directives_of(flags: Iterable[str]) -> bytes:
    """What options say about headers, as lines of a source: macros, and headers that come before each source."""
    options = options_of(flags)
    lines = []
    for option, following in zip(options, [*options[1:], ""], strict=False):
        if define := next((each for each in ("-D", "--define-macro") if option.startswith(each)), None):
            lines.append(f"#define {(option.removeprefix(define).lstrip('=') or following).replace('=', ' ', 1)}")
        elif not any(_is(each, option) for each in FOLDERS):
            named = next((each for each in _HEADERS if _is(each, option)), None)
            if named:
                lines.append(f'#include "{option.removeprefix(named).removeprefix("=") or following}"')
    return os.fsencode("\n".join(lines))


def with_headers(flags: Sequence[str], place: Callable[[str, str, bool], str | None]) -> list[str]:
    """Flags for a compiler, in which the paths of folders of headers, and of headers, are what `place` says.

    It is called with the option, of source_language.py, the path, and whether no other option passes them on; None:
    without this option.
    """
    words = split(flags)
    changed: dict[int, str | None] = {}
    for index, following in _pairs(words):
        text = words[index].text
        option = next((each for each in (*FOLDERS, *_HEADERS) if _is(each, text)), None)
        if option is None or index in changed:
            continue
        rest = text[len(option) :]
        value = rest.removeprefix("=") if rest else words[following].text if following else ""
        placed = place(option, value, not words[index].through)
        if rest or following is None:
            changed[index] = None if placed is None else text[: len(text) - len(value)] + placed
        else:
            changed[following] = placed
            if placed is None:
                changed[index] = None
    texts = ((word, changed.get(index, word.text)) for index, word in enumerate(words))
    return join(word._replace(text=text) for word, text in texts if text is not None)


def _pairs(words: Sequence[Word]) -> Iterator[tuple[int, int | None]]:
    """The indices of words, each with that of the next word that the same program gets."""
    for index, word in enumerate(words):
        later = range(index + 1, len(words))
        yield index, next((each for each in later if _program(words[each]) == _program(word)), None)


def _program(word: Word) -> str:
    """What a word is passed on to."""
    return word.through.rstrip("=,").replace("--compiler-options", "-Xcompiler").replace("-Wp", "-Xpreprocessor")


def _is(option: str, text: str) -> bool:
    """Whether a word is that option, with its value or before it; that of a long one follows an equals sign."""
    return text == option or text.startswith(f"{option}=" if option.startswith("--") else option)
