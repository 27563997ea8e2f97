"""The licences of what is compiled in, as one file of the wheel.

Its name is fixed, because METADATA lists it, and METADATA is written before there is a Toolchain (PEP 517: the metadata
of the wheel is that which was prepared).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .components import Component

# In `.dist-info/licenses`, in a folder of its own: a project may have a file of any name there (PEP 639).
FILE = "compiled-in/LICENSES.txt"
_LINE = "=" * 80


def licence_texts(components: Iterable[Component]) -> bytes:
    """The file: what is compiled in, on what terms, and their texts; a text that two components share is there once."""
    return "\n".join(_lines(components)).encode("utf-8")


def _lines(components: Iterable[Component]) -> Iterator[str]:
    yield "What is compiled or linked into the libraries of this wheel besides its own sources, and the licences."
    first: dict[str, str] = {}
    for each in components:
        yield from ("", _LINE, f"{each.name} {each.version}".rstrip(), f"licence: {each.licence}")
        yield from (f"what: {each.what}", f"in: {', '.join(each.libraries)}")
        if not each.texts:
            yield "text: none was found" if each.asks_for_text else "text: not needed beside a binary"
        for found in each.texts:
            if found.text in first:
                yield f"text: {found.file}, as under {first[found.text]}"
            else:
                first[found.text] = each.name
                yield from (f"text: {found.file}", "", found.text.strip())
    yield ""
