"""The guard in front of viser's server, which refuses connections, requests and messages before viser sees them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

import websockets.asyncio.server
from websockets.asyncio.server import Server, ServerConnection
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from .first_script import add_first_script
from .headers import HEADERS
from .origin import Refusal, name_refusal, origin_refusal, query_refusal
from .page_messages import LONGEST, is_expected
from .upload_gate import LONGEST_PART, MOST_SECONDS, NO_ROOM, UploadGate, UploadRoom

MOST_PAGES: Final = 16
"""How many pages may be open at once; each has a thread."""
MOST_CONNECTIONS: Final = 64
"""How many connections may be open at once, including those that have sent nothing yet, for which they have 10 s."""

_FULL: Final = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE, f"{MOST_PAGES} pages are already open, which is the limit; close one, then reload"
)
_one_at_a_time = threading.Lock()


class GuardedConnection(ServerConnection):
    """A connection that counts as soon as it is made, and that lets only expected messages through."""

    is_page = False
    """Whether a websocket was opened on it, or is about to be."""
    uploads: UploadGate | None = None
    """Which uploads it may send; None: none."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start, or drop the connection at once if there are too many."""
        super().connection_made(transport)
        if len(self.server.handlers) > MOST_CONNECTIONS:
            self.transport.abort()

    async def recv(self, decode: bool | None = None) -> str | bytes:  # type: ignore[override]
        """The next message; a page that sends something else is closed, and this raises ConnectionClosed."""
        uploads, reason = self.uploads, "a camera, a control's value or a click is required, found another message"
        try:
            message = await asyncio.wait_for(super().recv(decode), uploads.seconds_left if uploads else None)
        except asyncio.TimeoutError:
            reason = f"the next part of the upload is required within {MOST_SECONDS:g} seconds, found none"
        else:
            if is_expected(message) or (uploads and isinstance(message, bytes) and uploads.takes(message)):
                return message
            reason = reason if uploads is None or uploads.has_room else NO_ROOM
        await self.close(CloseCode.POLICY_VIOLATION, reason)
        return await super().recv(decode)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the upload that was not finished."""
        super().connection_lost(exc)
        if self.uploads is not None:
            self.uploads.close()


Answer = Callable[[GuardedConnection, Request], Response | None]


def guarded_answer(answer: Answer, names: Collection[str], room: UploadRoom | None = None) -> Answer:
    """Wrap `answer`, which is how viser answers a connection's first request, in our checks.

    Args:
        answer: gives a response, or None where a websocket is to be opened.
        names: by which the server may be reached, besides IP addresses and localhost.
        room: what pages may upload; None: nothing.
    """

    def guarded(connection: GuardedConnection, request: Request) -> Response | None:
        hosts = request.headers.get_all("Host")
        refusal = name_refusal(hosts, names) or query_refusal(request.path)
        if refusal is None and count_pages(connection.server) >= MOST_PAGES:
            refusal = _FULL
        if refusal is None:
            response = answer(connection, request)
            if response is not None:
                add_first_script(response)
                return response
            refusal = origin_refusal(request.headers.get_all("Origin"), hosts[0])
        if refusal is None:
            connection.is_page = True
            connection.uploads = UploadGate(room) if room else None
            return None
        response = connection.respond(refusal.status, f"splat view: {refusal.text}\n")
        if refusal.status == HTTPStatus.SEE_OTHER:
            response.headers["Location"] = "./"  # not what was asked for, which may be //another.example
        return response

    return guarded


def count_pages(server: Server) -> int:
    """How many pages have a connection that is open, or that still has work to finish for them."""
    return sum(isinstance(connection, GuardedConnection) and connection.is_page for connection in server.handlers)


def add_headers(connection: ServerConnection, request: Request, response: Response) -> None:
    """Add the headers that restrict pages to every response, including refusals and websockets."""
    for name, value in HEADERS.items():
        response.headers[name] = value


@contextmanager
def guarded_listening(names: Collection[str], room: UploadRoom | None = None) -> Iterator[list[int]]:
    """Within the block, put the guard in front of any server that viser starts; yields the ports it asked for.

    viser offers no hook for this, so the function that it listens with is replaced for that time.
    """
    listen = websockets.asyncio.server.serve
    ports: list[int] = []

    def listen_guarded(handler: Any, host: str, port: int, *, process_request: Answer, **options: Any) -> Any:
        ports.append(port)
        options |= {
            "process_request": guarded_answer(process_request, names, room),
            "process_response": add_headers,
            "max_size": LONGEST_PART if room else LONGEST,
            "create_connection": GuardedConnection,
            "logger": _logger(),
        }
        return listen(handler, host, port, **options)

    with _one_at_a_time:
        setattr(websockets.asyncio.server, "serve", listen_guarded)  # noqa: B010 - a class, for mypy
        try:
            yield ports
        finally:
            setattr(websockets.asyncio.server, "serve", listen)  # noqa: B010


def _logger() -> logging.Logger:
    """A logger that leaves out connections that are not HTTP, since anybody can make those."""
    logger = logging.getLogger("splat.view")
    logger.addFilter(_is_worth_telling)
    return logger


def _is_worth_telling(record: logging.LogRecord) -> bool:
    return record.getMessage() != "opening handshake failed"
