"""What changed between two results of ci/bench: every number that both have, and its ratio.

A file of results has a JSON object a line: what was measured where, then each table that was printed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

NUMBER = re.compile(r"-?\d+(\.\d+)?")


class Change(NamedTuple):
    """A cell of a table in both files."""

    table: str
    row: str
    column: str
    old: float
    new: float

    def __str__(self) -> str:
        ratio = f"{self.new / self.old:.2f}" if self.old else "-"
        return f"{self.old:>10g} {self.new:>10g} {ratio:>6}  {self.row}: {self.column or self.table}"


def main(arguments: Sequence[str]) -> int:
    """Print the changes; return 2 if a file cannot be read."""
    parser = argparse.ArgumentParser(prog="ci/bench compare", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    args = parser.parse_args(arguments)
    try:
        old, new = read(args.old), read(args.new)
    except (OSError, ValueError, KeyError) as error:
        print(f"required: two files that ci/bench wrote; found: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    for name, results in (("old", old), ("new", new)):
        print(f"{name}: {', '.join(f'{key} {value}' for key, value in results[0].items())}")
    if old[0].get("machine") != new[0].get("machine"):
        print("measured on two machines: only ratios within one of them can be compared")
    print(f"{'old':>10} {'new':>10} {'ratio':>6}")
    print("\n".join(map(str, changes(old[1:], new[1:]))))
    return 0


def read(file: Path) -> list[dict[str, Any]]:
    """What was measured where, and the tables."""
    first, *tables = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [first["measured"], *({"header": table["header"], "rows": table["rows"]} for table in tables)]


def changes(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> Iterator[Change]:
    """Tables are the same if their headers are; rows, if the cells before the first number are. The last one counts."""
    before = cells(old)
    for place, value in cells(new).items():
        if place in before:
            yield Change(*place, before[place], value)


def cells(tables: Sequence[dict[str, Any]]) -> dict[tuple[str, str, str], float]:
    """The numbers, by table, row and column."""
    found = {}
    for table in tables:
        name = " | ".join(table["header"])
        for row in table["rows"]:
            labels = [cell for cell in row if not NUMBER.match(cell)]
            for column, cell in zip(table["header"], row, strict=True):
                if match := NUMBER.match(cell):
                    found[name, ", ".join(labels), column] = float(match[0])
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
