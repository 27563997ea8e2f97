"""The words of flags, also those that are passed on, and the values of options.

An option keeps its place and its kind: only the path in it is another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ..runtime.record import Record
from .options import DEFINES, FOLDERS, HEADERS, LISTS, OPTION_FILES, SINGLE


class Word(Record):
    """One word as the program gets it that it is for."""

    number: int  # of the flag that it is in
    through: str  # what passes it on: `-Xcompiler`, `-Xcompiler=`, `-Wl,`; empty if nothing does
    text: str


class Valued(NamedTuple):
    """An option with its value."""

    option: str
    value: str
    at: int  # the index of its word
    end: int  # that of the word that ends in the value; the same one, or the next one for the same program


def split(flags: Iterable[str]) -> list[Word]:
    """The words of flags; of those that are passed on, each with what passes it on."""
    words: list[Word] = []
    following = iter(flags)
    for number, flag in enumerate(following):
        option, equals, value = flag.partition("=")
        if flag in LISTS and (given := next(following, None)) is not None:
            inside = [given] if flag in SINGLE else given.split(",")
            words += (Word(number, flag, each) for each in inside)
        elif equals and option in LISTS:
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
        elif through in SINGLE:
            flags += (each for text in texts for each in (through, text))
        elif through in LISTS:
            flags += [through, ",".join(texts)]
        else:
            flags.append(through + ",".join(texts))
    return flags


def options_of(flags: Iterable[str]) -> list[str]:
    """The words alone."""
    return [word.text for word in split(flags)]


def valued(words: Sequence[Word], options: Sequence[str], linker: bool = False) -> Iterator[Valued]:
    """Which of these options are among words, in their order; all words are for the linker, or each for its program."""
    values: set[int] = set()
    for index, word in enumerate(words):
        option = next((each for each in options if _is(each, word.text)), None)
        if option is None or index in values:
            continue
        later = (each for each in range(index + 1, len(words)) if linker or _program(words[each]) == _program(word))
        if rest := word.text[len(option) :]:
            yield Valued(option, rest.removeprefix("="), index, index)
        elif (following := next(later, None)) is not None:
            values.add(following)
            yield Valued(option, words[following].text, index, following)
        else:
            yield Valued(option, "", index, index)


def values_of(flags: Iterable[str], options: Sequence[str], linker: bool = False) -> list[str]:
    """The values of these options in flags."""
    return [each.value for each in valued(split(flags), options, linker)]


def directives_of(flags: Iterable[str]) -> bytes:
    """What options say about headers, as lines of a source: macros, and headers that come before each source."""
    lines = []
    for each in valued(split(flags), (*DEFINES, *FOLDERS, *HEADERS)):
        if each.option in DEFINES:
            lines.append(f"#define {each.value.replace('=', ' ', 1)}")
        elif each.option in HEADERS:
            lines.append(f'#include "{each.value}"')
    return os.fsencode("\n".join(lines))


def with_headers(flags: Sequence[str], place: Callable[[str, str, bool], str | None]) -> list[str]:
    """Flags for a compiler, in which the paths of folders of headers, and of headers, are what `place` says.

    It is called with the option, of options.py, the path, and whether no other option passes them on; None: without
    this option.
    """
    words = split(flags)
    changed: dict[int, str | None] = {}
    for option, value, at, end in valued(words, (*FOLDERS, *HEADERS)):
        placed = place(option, value, not words[at].through)
        if placed is None:
            changed[at] = changed[end] = None
        else:
            changed[end] = words[end].text.removesuffix(value) + placed
    texts = ((word, changed.get(index, word.text)) for index, word in enumerate(words))
    return join(word._replace(text=text) for word, text in texts if text is not None)


def with_files(
    words: Iterable[str], read: Callable[[str], Sequence[str] | None], within: tuple[str, ...] = ()
) -> Iterator[str]:
    """The words, with those of a file of options in its place; `read` gives those of a file by its name, if it is one.

    A file within itself stays a name.
    """
    following = iter(words)
    for word in following:
        option, equals, value = word.partition("=")
        listed = option in LISTS and option not in SINGLE
        apart = (listed or option in OPTION_FILES) and not equals
        value = next(following, "") if apart else value
        if listed and ",@" in f",{value}":
            yield from (f"{option}={each}" for each in with_files(value.split(","), read, within))
            continue
        name = value if option in OPTION_FILES else word[1:] if word.startswith("@") else ""
        inside = read(name) if name and name not in within else None
        if inside is not None:
            yield from with_files(inside, read, (*within, name))
        else:
            yield from (word, value) if apart else (word,)


def _program(word: Word) -> str:
    """What a word is passed on to."""
    return word.through.rstrip("=,").replace("--compiler-options", "-Xcompiler").replace("-Wp", "-Xpreprocessor")


def _is(option: str, text: str) -> bool:
    """Whether a word is that option, with its value or before it; that of a long one follows an equals sign."""
    return text == option or text.startswith(f"{option}=" if option.startswith("--") else option)
