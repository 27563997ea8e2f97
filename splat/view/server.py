"""The web server of `splat view`: it listens, refuses what is not meant for it, and opens a session for each page."""

from __future__ import annotations

import contextlib
import errno
import io
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from .choices import Exhibit
from .pose import aim_of
from .session import Session, ViewTerms, point

if TYPE_CHECKING:
    import viser

INSTALL: Final = "python -m pip install 'viser>=1.1,<1.2'"
MOST_PAGES: Final = 16
"""So many pages may be open at once; each has a thread."""
LONGEST_PICTURE: Final = 60.0
"""The seconds that the end waits for a picture that is being drawn."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class ViewError(RuntimeError):
    """The viewer cannot be opened; the message says what is required, what was found and how to fix it."""


class Viewer:
    """A running server."""

    def __init__(self, server: viser.ViserServer, terms: ViewTerms, first: tuple[str, Exhibit], host: str) -> None:
        self._server, self._terms, self._first, self._host = server, terms, first, host
        self._sessions: dict[int, Session] = {}
        self._closed: list[Session] = []  # of which some are still drawing

    @property
    def url(self) -> str:
        """Where the page is."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.get_port()}"

    @property
    def pages(self) -> int:
        """How many pages are open."""
        return len(self._sessions)

    async def connected(self, client: viser.ClientHandle) -> None:
        """Open a session for a page; in the event loop, as `disconnected`, so that the two keep their order."""
        connection = self._server._websock_server._live_connections.get(client.client_id)
        headers = connection.request.headers if connection is not None and connection.request is not None else {}
        if not meant_for(self._host, headers):
            return
        if len(self._sessions) >= MOST_PAGES:
            client.add_notification("splat", f"{MOST_PAGES} pages are open, which is the most; close one, and reload")
            return
        refuse_uploads(client)
        name, exhibit = self._first
        self._sessions[client.client_id] = Session(client, self._terms, exhibit, name)

    async def disconnected(self, client: viser.ClientHandle) -> None:
        """Forget a page."""
        session = self._sessions.pop(client.client_id, None)
        if session is not None:
            session.close()
            self._closed = [other for other in (*self._closed, session) if not other.ended()]

    def close(self) -> None:
        """Stop listening; every page's thread has ended after it."""
        with _quiet():
            self._server.stop()
        sessions = [*self._sessions.values(), *self._closed]
        for session in sessions:
            session.close()
        # Python must not end before: it would end a thread in the middle of a kernel, which C++ answers with an abort.
        for session in sessions:
            session.ended(LONGEST_PICTURE)


def meant_for(host: str, headers: Mapping[str, str]) -> bool:
    """Whether a page was loaded from here.

    Browsers let any web page connect to any address of this machine, and say in `Origin` where the page came from. It
    must come from where it connects to, and if only this machine is to see the scenes, from a name of this machine.
    Programs that are not browsers say nothing.
    """
    origin = headers.get("Origin")
    if origin is None:
        return True
    try:
        found, asked = urlsplit(origin), headers.get("Host")
        return found.netloc == asked and (host not in LOOPBACK or found.hostname in LOOPBACK)
    except ValueError:
        return False


def refuse_uploads(owner: Any) -> None:
    """Take nothing from a page but its camera and its controls: it could fill the memory with files."""
    from viser import _messages

    for message in (_messages.FileTransferStartUpload, _messages.FileTransferPart):
        owner.gui._websock_interface.unregister_handler(message)


@contextmanager
def open_viewer(host: str, port: int, terms: ViewTerms, name: str) -> Iterator[Viewer]:
    """Listen on an address, and serve pages that begin with the scene of this name, until the block ends.

    Raises:
        ViewError: if viser is missing, or the address cannot be listened on.
        SceneError: if the scene is not one, or shows nothing.
    """
    try:
        import viser
        from viser import _messages
    except ImportError as error:
        raise ViewError(f"the viewer needs viser, which is not installed ({error}); to fix: {INSTALL}") from error
    # A page may vanish while a picture is drawn for it, which is nothing to warn about.
    warnings.filterwarnings("ignore", message="Queued a .* on a closed connection")
    check_address(host, port)
    exhibit = terms.choices.get(name)
    with _quiet():
        server = viser.ViserServer(host=host, port=port, verbose=False)
    # It would publish the viewer on the internet whenever a page asks for it.
    for message in (_messages.ShareUrlRequest, _messages.ShareUrlDisconnect):
        server._websock_server.unregister_handler(message)
    refuse_uploads(server)
    viewer = Viewer(server, terms, (name, exhibit), host)
    try:
        if port and server.get_port() != port:  # taken since it was checked, and viser takes the next one
            raise ViewError(_in_use(host, port))
        server.gui.configure_theme(show_share_button=False, show_logo=False, dark_mode=True)
        server.gui.set_panel_label("splat")
        server.scene.set_up_direction(terms.up)  # type: ignore[arg-type]
        point(server.initial_camera, server.atomic, aim_of(exhibit.camera, terms.up, exhibit.middle))
        server.on_client_connect(viewer.connected)
        server.on_client_disconnect(viewer.disconnected)
        yield viewer
    finally:
        viewer.close()


def check_address(host: str, port: int) -> None:
    """Raise ViewError if the address cannot be listened on."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ViewError(_in_use(host, port)) from error
        raise ViewError(
            f"an address of this machine and a port that you may use are required, found {host} and {port} "
            f"({error.strerror or error}); choose others with --host and --port"
        ) from error


def _in_use(host: str, port: int) -> str:
    return f"a free port is required, found {port} of {host} in use; choose another with --port, or any with --port 0"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what viser prints about itself from standard output."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
