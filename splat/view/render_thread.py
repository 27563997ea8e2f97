"""The thread that draws for one page: coarsely while requests keep coming, finely once they stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from .resolution import FIRST, FULL, REST, CostModel, Detail, moving_detail, resting_detail, updated_model

T = TypeVar("T")


class RenderThread(Generic[T]):
    """Draws requests in a thread of its own.

    A request that arrives while another is being drawn replaces any that is still waiting, which is then never drawn.
    Errands run between requests, on the same thread, so that a page never has two pictures in progress.
    """

    def __init__(self, name: str, paint: Callable[[T, Detail], float], failed: Callable[[Exception], None]) -> None:
        """Start the thread.

        Args:
            name: of the thread.
            paint: draws and shows a request in some detail (see resolution.py), and returns the seconds that this took,
                without what will not have to be done again for the next picture.
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
        """Wait up to `seconds` for a closed thread to end; return whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        detail = FIRST
        model: CostModel | None = None
        while (request := self._next()) is not None:
            shown = detail
            while (seconds := self._drawn(request, shown)) is not None:
                model = updated_model(model, shown, seconds)
                if shown == FULL or self._changes():
                    break
                shown = resting_detail(shown, model.cost)
            if model is not None:
                detail = moving_detail(model.cost, detail)
            del request  # and with it the scene, which may no longer be shown anywhere

    def _next(self) -> T | None:
        """Wait for the newest request, running errands first; None once that is closed."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closed or self._errand is not None or self._request is not None)
                errand = self._errand
                if errand is None:
                    request, self._request = self._request, None
                    return request
            try:
                errand()
            except Exception as error:
                self._failed(error)
            del errand  # and with it the scene
            with self._news:
                self._errand = None

    def _changes(self) -> bool:
        """Whether a new request arrives before the camera counts as at rest."""
        with self._news:
            return self._news.wait_for(lambda: self._closed or self._request is not None, REST)

    def _drawn(self, request: T, detail: Detail) -> float | None:
        """Draw; return how many seconds that took, or None if it failed."""
        try:
            return self._paint(request, detail)
        except Exception as error:  # a picture that cannot be drawn must not end the viewer
            self._failed(error)
            return None
