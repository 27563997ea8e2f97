"""The thread that draws for one page: coarsely while requests keep coming, finely once they stop; and its errands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from .resolution import FIRST, REST, fixed_seconds, moving_scale, resting_scale

T = TypeVar("T")


class Painter(Generic[T]):
    """Draws requests in a thread of its own.

    A request that arrives while another is being drawn replaces any that is still waiting, which is then never drawn.
    Errands run between requests, on the same thread, so that a page never has two pictures in progress.
    """

    def __init__(self, name: str, paint: Callable[[T, float], None], failed: Callable[[Exception], None]) -> None:
        """Start the thread.

        Args:
            name: of the thread.
            paint: draws and shows a request at a scale (see resolution.py).
            failed: called with any error that `paint` or an errand raises; later requests are still drawn.
        """
        self._paint, self._failed = paint, failed
        self._news = threading.Condition()
        self._request: T | None = None
        self._errand: Callable[[], None] | None = None  # kept here until it is done
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether `close` was called: nothing more may be shown."""
        return self._closed

    def ask(self, request: T) -> None:
        """Draw this next, instead of any request that is waiting; return at once."""
        with self._news:
            self._request = request
            self._news.notify()

    def send(self, errand: Callable[[], None]) -> bool:
        """Run this before the next request; return at once. False, and it never runs, if another one is pending."""
        with self._news:
            if self._closed or self._errand is not None:
                return False
            self._errand = errand
            self._news.notify()
            return True

    def close(self) -> None:
        """Tell the thread to end once its current picture is drawn; return at once."""
        with self._news:
            self._closed = True
            self._request = self._errand = None
            self._news.notify()

    def ended(self, seconds: float = 0.0) -> bool:
        """Wait up to `seconds` for the thread of a closed painter to end; return whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        scale, fixed = FIRST, 0.0
        while (request := self._next()) is not None:
            shown = scale
            first = seconds = self._timed(request, shown)
            while seconds is not None and shown < 1 and not self._changes():
                shown = resting_scale(shown, seconds)
                seconds = self._timed(request, shown)
            if first is not None and seconds is not None:
                found = fixed_seconds((scale, first), (shown, seconds))
                fixed = min(fixed, first) if found is None else found
                scale = moving_scale(scale, first, fixed)
            del request  # and with it the scene, which may no longer be shown anywhere

    def _next(self) -> T | None:
        """Wait for the newest request, running errands first; None once the painter is closed."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closed or self._errand is not None or self._request is not None)
                errand = self._errand
                if errand is None:
                    request, self._request = self._request, None
                    return request
            self._safely(errand)
            del errand  # and with it the scene
            with self._news:
                self._errand = None

    def _changes(self) -> bool:
        """Whether a new request arrives before the camera counts as at rest."""
        with self._news:
            return self._news.wait_for(lambda: self._closed or self._request is not None, REST)

    def _timed(self, request: T, scale: float) -> float | None:
        """How many seconds drawing took; None if it failed."""
        start = time.perf_counter()
        return time.perf_counter() - start if self._safely(lambda: self._paint(request, scale)) else None

    def _safely(self, work: Callable[[], None]) -> bool:
        """Whether it succeeded."""
        try:
            work()
        except Exception as error:  # a picture that cannot be drawn must not end the viewer
            self._failed(error)
            return False
        return True
