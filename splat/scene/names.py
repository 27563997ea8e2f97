"""Names from files, as messages show them: they may be long, or made to control a terminal."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST = 40
_MOST = 12


def one_line(text: str) -> str:
    """A text as a line that a terminal shows, and does not obey: what is not printable, line ends too, is escaped."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def quoted(name: str) -> str:
    """A name for a message: shortened if it is long, escaped if it is not printable."""
    return name if len(name) <= _LONGEST and name.isprintable() else ascii(name[:_LONGEST])


def name_end(name: str) -> str:
    """The same of a path, of which the end says most."""
    return quoted(name) if len(name) <= _LONGEST else f"...{quoted(name[3 - _LONGEST :])}"


def listed(names: Sequence[str]) -> str:
    """A list of names for a message, shortened if there are many."""
    words = [quoted(name) for name in names[:_MOST]]
    if len(names) > _MOST:
        words.append(f"and {len(names) - _MOST} more")
    return ", ".join(words) if words else "none"
