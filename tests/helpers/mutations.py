"""How many damaged files are tried: as many as take seconds; SPLAT_TEST_MUTATIONS times as many, for a longer run."""

from __future__ import annotations

import os


def how_many(usual: int) -> int:
    """The number for this run."""
    return usual * int(os.environ.get("SPLAT_TEST_MUTATIONS", "1"))
