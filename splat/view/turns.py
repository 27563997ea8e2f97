"""Turns: pictures for pages, drawn one at a time and in a part of the time, beside work that they slow by no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Turns:
    """Whoever has had a turn of some length leaves the rest of the time to others."""

    def __init__(
        self,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """`share` of the time, 0 to 1, is for turns."""
        self._pause, self._clock, self._sleep = 1 / share - 1, clock, sleep
        self._lock = threading.Lock()
        self._next = clock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, and take it."""
        with self._lock:
            if (wait := self._next - self._clock()) > 0:
                self._sleep(wait)
            start = self._clock()
            try:
                yield
            finally:
                now = self._clock()
                self._next = now + (now - start) * self._pause
