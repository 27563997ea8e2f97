"""The error for files that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .runtime.errors import BuildError, way_out


@contextmanager
def readable(what: str, required: str, kind: type[BuildError] = BuildError) -> Iterator[None]:
    """Run the body, in which an error of the system means that `what` cannot be read.

    Raises:
        BuildError: of that kind.
    """
    try:
        yield
    except OSError as error:
        found = f"{type(error).__name__}: {error}"
        raise kind(f"{what} cannot be read", required=required, found=found, remedies=[way_out(error)]) from error
