"""The C++ standard that flags of gcc, clang and nvcc name, by themselves or passed on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .words import join, split, valued

OPTIONS = ("-std", "--std")
# The names of standards that are no years, and that of the last century.
_YEARS = {"98": 3, "0x": 11, "1y": 14, "1z": 17, "2a": 20, "2b": 23, "2c": 26}
_NAME = r"((?:c|gnu)\+\+)(\w+)"
_VALUE, _OPTION = re.compile(f"^(){_NAME}"), re.compile(f"(--?std=){_NAME}")


def with_standard(
    flags: Sequence[str], least: int, *, leave_out: bool = False
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Flags in which every C++ standard is `least` (17, 20) or later, and the options that named an earlier one.

    These are raised to it, or left out.
    """
    words, earlier = split(flags), list[str]()

    def placed(found: re.Match[str]) -> str:
        option, dialect, name = found.groups()
        year = _YEARS.get(name, int(name) if name.isdecimal() else least)
        if year >= least:
            return found[0]
        earlier.append(f"-std={dialect}{name}")
        return "" if leave_out else f"{option}{dialect}{least}"

    values = {each.end: each.at for each in valued(words, OPTIONS) if each.end != each.at}
    texts = {index: word.text for index, word in enumerate(words)}
    for index, word in enumerate(words):
        if index in values:
            texts[index] = _VALUE.sub(placed, word.text)
        elif word.through or word.text.startswith(OPTIONS):  # elsewhere, such as in -D, it is a text
            texts[index] = _OPTION.sub(placed, word.text)
        if not texts[index].strip() and word.text.strip():
            texts.pop(index)
            texts.pop(values.get(index, index), None)
    if not earlier:
        return tuple(flags), ()
    kept = (word._replace(text=texts[index]) for index, word in enumerate(words) if index in texts)
    return tuple(join(kept)), tuple(earlier)


@dataclass(frozen=True)
class Standards:
    """What a Plan says of the C++ standard: that of files whose flags name none, or an earlier one."""

    years: Mapping[str, int] = field(default_factory=lambda: {"stable": 17, "torch": 17})  # by ABI, the latest last
    asked_by: Mapping[str, str] = field(default_factory=dict)  # who asks for it, in words
    as_written: bool = False  # whether flags that name an earlier one keep it

    @property
    def latest(self) -> str:
        """The ABI whose libraries have the latest one."""
        return [*self.years][-1]

    def given(self, flags: Sequence[str], abi: str = "") -> tuple[str, ...]:
        """The flags that compilers are given for declared ones, for libraries of an ABI; empty: for all."""
        return tuple(flags) if self.as_written else with_standard(flags, self.years[abi or self.latest])[0]

    def to_json(self) -> dict[str, str]:
        """As in a Plan's target: nothing if flags decide."""
        return {} if self.as_written else {abi: f"c++{year}" for abi, year in self.years.items()}
