"""Warnings of Python, printed by commands as lines on standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from .printing import print_warning


@contextmanager
def printed_warnings(shown: bool = True) -> Iterator[list[warnings.WarningMessage]]:
    """Print the warnings of a block when it ends, one per line, if they are `shown`; yields the list of them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield caught
        finally:
            for warning in caught if shown else []:
                print_warning(warning.message)
