"""The tables of docs/settings.md, from the registries: `python -m kernelwheel.reference PACKAGE PAGE` renews them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from .project.build_settings import REGISTRY
from .project.extension import KEYS
from .runtime.settings import Decides

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
            option.help,
            option.takes,
            f"`{option.default}`" if option.default else "empty",
            _RECORDED[option.decides],
        )
        for option in REGISTRY
    )
    return _table(("option", "environment", "meaning", "takes", "default", "in the manifest"), rows)


def keys_table() -> str:
    """The table of the keys of an extension."""
    rows = ((f"`{key.name}`", key.help, key.takes, key.default) for key in KEYS)
    return _table(("key", "meaning", "takes", "default"), rows)


def renewed(page: str, package: str) -> str:
    """A page in which both tables are as they are now; each is known by the first cell of its head."""
    for table in (options_table(package), keys_table()):
        before, head, rest = page.partition(table.partition(" | ")[0])
        page = before + table + re.sub(r".*\n(\|.*\n)*", "", rest, count=1) if head else page
    return page


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n" for cells in (head, *rows)]
    return "".join([lines[0], "|" + "---|" * len(head) + "\n", *lines[1:]])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m kernelwheel.reference PACKAGE PAGE")
    path = Path(sys.argv[2])
    path.write_text(renewed(path.read_text(encoding="utf-8"), sys.argv[1]), encoding="utf-8")
