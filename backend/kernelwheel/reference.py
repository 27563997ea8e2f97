"""What a package may set, in tables, from the registries: `python -m kernelwheel.reference PACKAGE` prints them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from .project.build_settings import REGISTRY
from .project.extension import EXTENSION, KEYS, Key
from .project.package import FACTS
from .runtime.settings import TABLE, Decides

_RECORDED: dict[Decides, str] = {
    "content": "value and origin",
    "target": "value and origin",
    "tools": "origin",
    "work": "nothing",
}


def options_table(package: str) -> str:
    """The table of options for a package, given by its import name: its own variables start with that."""
    rows = (
        (
            f"`{option.name}`",
            f"`{option.variable(package)}`",
            option.help + (" For CUDA kernels only." if option.cuda_only else ""),
            option.takes + (", or several" if option.separator else ""),
            f"`{option.default}`" if option.default else "empty",
            _RECORDED[option.decides],
        )
        for option in REGISTRY
    )
    return table(("option", "environment", "meaning", "takes", "default", "in the manifest"), rows)


def keys_table(keys: Iterable[Key] = KEYS) -> str:
    """The table of the keys of an extension, or of others."""
    rows = ((f"`{key.name}`", key.help, key.takes, key.default) for key in keys)
    return table(("key", "meaning", "takes", "default"), rows)


def tables(package: str) -> dict[str, str]:
    """All of them, by what is set there."""
    return {
        "Options": options_table(package),
        f"Other keys of {TABLE}": keys_table(FACTS),
        f"Keys of {EXTENSION}": keys_table(),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n" for cells in (head, *rows)]
    return "".join([lines[0], "|" + "---|" * len(head) + "\n", *lines[1:]])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m kernelwheel.reference PACKAGE")
    print("\n".join(f"{title}\n\n{rows}" for title, rows in tables(sys.argv[1]).items()), end="")
