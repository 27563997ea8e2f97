"""The table of `benchmarks/gsplat_programs.py`, which no test runs: that its rows can be, and are those of the docs."""

from __future__ import annotations

import re

import gsplat_calls
import gsplat_programs
import pytest
from folders import REPOSITORY

DOCS = REPOSITORY / "docs" / "gsplat.md"


@pytest.mark.parametrize("row", gsplat_programs.ROWS, ids=lambda row: f"{row.repository} {row.what}")
def test_a_row_is_well_formed(row: gsplat_programs.Row) -> None:
    assert re.fullmatch(r"[\w-]+/[\w.-]+", row.repository)
    assert re.fullmatch("[0-9a-f]{9}", row.commit)
    assert bool(row.environment) == bool(row.words)
    if row.environment:
        assert row.environment in gsplat_programs.ENVIRONMENTS
        assert re.compile(row.shows).groups == 1
        words = row.words.format(data="data", work="work").split()
        assert len(words) > 1 or callable(getattr(gsplat_calls, words[0]))


def test_the_docs_have_the_rows() -> None:
    named = re.findall(r"`([\w./-]+)@(\w{9})`", DOCS.read_text())
    assert sorted(named) == sorted({row[:2] for row in gsplat_programs.ROWS if row.environment})
    missing = sum(not row.environment for row in gsplat_programs.ROWS)
    assert f"| not run | {missing}, for" in DOCS.read_text()
