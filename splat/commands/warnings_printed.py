"""Warnings as lines on standard error, as commands print them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from .printing import print_warning


@contextmanager
def printed_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Print the warnings of a block when it ends, one per line; yields the list that collects them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield caught
        finally:
            for warning in caught:
                print_warning(warning.message)
