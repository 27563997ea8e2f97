"""Measurements as rows that outlive the process, which may be stopped at any time: one JSON object a line.

The values of a row are text, as a table prints them; rows with the same keys are one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from measure import table

Row = dict[str, str]
SKIPPED = 77  # the exit status of a program that says, in its last line, why it measures nothing


class Rows:
    """The rows of one file; without a file, of this process."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.rows: list[Row] = []
        if file:
            file.unlink(missing_ok=True)

    def add(self, *rows: Row) -> None:
        """Keep rows, all or none of them; one alone is printed, as it may have taken long."""
        self.rows += rows
        if len(rows) == 1:
            print("; ".join(f"{key} {value}" for key, value in rows[0].items()), flush=True)
        if self.file:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write("".join(json.dumps(row) + "\n" for row in rows))

    def print_tables(self) -> None:
        """All of them."""
        for each in tables(self.rows):
            print()
            table(each["header"], each["rows"])


def read_rows(file: Path) -> list[Row]:
    """Of a file that may not be there; a line that was being written when its program was stopped is left out."""
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def tables(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Header and cells of each kind of row."""
    kinds = dict.fromkeys(tuple(row) for row in rows)
    for kind in kinds:
        yield {"header": list(kind), "rows": [list(row.values()) for row in rows if tuple(row) == kind]}
