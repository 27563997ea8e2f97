"""Text from outside, such as the names in somebody's wheel, as it may be shown to people."""

from __future__ import annotations

TEXT = "\n\t"  # kept in what is meant to have lines


def printable(text: str, kept: str = "") -> str:
    r"""The text on one line, with what does not print escaped: `\x1b`, `\n`, `\u202e`.

    That is what a terminal would obey (control characters), or reorder the line by (those for right to left).
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else ascii(each)[1:-1] for each in text)
