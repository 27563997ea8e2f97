"""The web server of `splat view`: it listens behind a guard, and opens a session for each page."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import io
import socket
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .camera_controls import first_aim, point
from .open_page import ViewerOptions
from .scene_choices import LoadedScene
from .session import Session

if TYPE_CHECKING:
    import viser

INSTALL: Final = "python -m pip install 'viser>=1.1,<1.2'"
LONGEST_PICTURE: Final = 60.0
"""How many seconds closing waits for a picture that is still being drawn."""
_TICK: Final = 0.05


class ViewError(RuntimeError):
    """The viewer cannot be opened; the message says what is required, what was found and how to fix it."""


class Viewer:
    """A running server."""

    def __init__(
        self, server: viser.ViserServer, options: ViewerOptions, first: tuple[str, LoadedScene], host: str
    ) -> None:
        self._server, self._options, self._first, self._host = server, options, first, host
        self._sessions: dict[int, Session] = {}
        self._closed: list[Session] = []  # some of these are still drawing

    @property
    def url(self) -> str:
        """Where the page is."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.get_port()}"

    @property
    def first(self) -> tuple[str, LoadedScene]:
        """The scene that pages begin with, and its name."""
        return self._first

    @property
    def pages(self) -> int:
        """How many pages are open."""
        return len(self._sessions)

    async def connected(self, client: viser.ClientHandle) -> None:
        """Open a session for a page; in the event loop, like `disconnected`, so that the two stay in order."""
        name, loaded = self._first
        self._sessions[client.client_id] = Session(client, self._options, loaded, name)

    def renew(self, client: viser.ClientHandle) -> None:
        """Show a new page the first scene as it is now, if its file has changed; on a thread, as reading takes long."""
        name, _ = self._first
        session = self._sessions.get(client.client_id)
        if session is not None and self._options.choices.has_changed(name):
            session.attempt(lambda: self._reopen(session, name))

    def _reopen(self, session: Session, name: str) -> None:
        self._first = name, self._options.choices.get(name)
        session.open(name)

    def follow(self, loaded: LoadedScene) -> None:
        """Show the first scene as it is now, on the pages that show it, and on those to come."""
        name, _ = self._first
        self._first = name, loaded
        for session in list(self._sessions.values()):
            session.follow(name, loaded)

    async def disconnected(self, client: viser.ClientHandle) -> None:
        """Forget a page; its connection still counts until the picture being drawn for it is done."""
        session = self._sessions.pop(client.client_id, None)
        if session is not None:
            session.close()
            self._closed.append(session)
            while not session.ended():
                await asyncio.sleep(_TICK)
            self._closed.remove(session)

    def close(self) -> None:
        """Stop listening, and wait for every page's thread to end."""
        with _quiet():
            self._server.stop()
        sessions = [*self._sessions.values(), *self._closed]
        for session in sessions:
            session.close()
        # Python must not exit before that: ending a thread in the middle of a kernel makes C++ abort the process.
        for session in sessions:
            session.ended(LONGEST_PICTURE)


@contextmanager
def open_viewer(
    host: str, port: int, options: ViewerOptions, name: str, allowed: Collection[str] = ()
) -> Iterator[Viewer]:
    """Serve pages that start with the scene called `name`, on an address, until the block ends.

    Args:
        host: the address, or a name of this machine.
        port: 0 for any free one.
        options: what all pages share.
        name: of the scene.
        allowed: further names by which pages may reach the server, besides `host`, IP addresses and localhost.

    Raises:
        ViewError: if viser is missing, or the address cannot be listened on.
        SceneError: if the file is not a scene, or shows nothing.
    """
    try:
        import viser

        from .guard import guarded_listening
        from .upload_gate import UploadRoom
    except ImportError as error:
        raise ViewError(f"the viewer needs viser, which is not installed ({error}); to fix: {INSTALL}") from error
    # A page may be closed while a picture is being drawn for it; that needs no warning.
    warnings.filterwarnings("ignore", message="Queued a .* on a closed connection")
    check_address(host, port)
    loaded = options.choices.get(name)
    room = UploadRoom(options.upload.most, options.upload.memory) if options.upload else None
    with _quiet(), guarded_listening({host.lower(), *map(str.lower, allowed)}, room) as asked:
        server = viser.ViserServer(host=host, port=port, verbose=False)
    viewer = Viewer(server, options, (name, loaded), host)
    try:
        if not asked:  # this viser listens in a way that the guard does not cover
            raise ViewError(f"viser 1.1 is required, found {viser.__version__}; to fix: {INSTALL}")
        if port and server.get_port() != port:  # taken since it was checked, and viser takes the next one
            raise ViewError(_in_use(host, port))
        server.gui.configure_theme(show_share_button=False, show_logo=False, dark_mode=True)
        server.gui.set_panel_label("splat")
        options.panel(server.gui)
        aim = first_aim(loaded)
        server.scene.set_up_direction(aim.up)  # type: ignore[arg-type]
        point(server.initial_camera, server.atomic, aim)
        server.on_client_connect(viewer.connected)
        server.on_client_connect(viewer.renew)
        server.on_client_disconnect(viewer.disconnected)
        yield viewer
    finally:
        viewer.close()


def check_viewer(host: str, port: int) -> None:
    """Raise ViewError if no viewer can be opened on an address, before there is anything to show."""
    if importlib.util.find_spec("viser") is None:
        raise ViewError(f"the viewer needs viser, which is not installed; to fix: {INSTALL}")
    check_address(host, port)


def check_address(host: str, port: int) -> None:
    """Raise ViewError if the address cannot be listened on."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            if sys.platform != "win32":  # where it would give a port that is in use
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except (OSError, ValueError) as error:  # ValueError: a name that no machine can have
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ViewError(_in_use(host, port)) from error
        found = (error.strerror if isinstance(error, OSError) else None) or error
        raise ViewError(
            f"an address of this machine and a port that you may use are required, found {host} and {port} "
            f"({found}); choose others with --host and --port"
        ) from error


def _in_use(host: str, port: int) -> str:
    return f"a free port is required, found {port} of {host} in use; choose another with --port, or any with --port 0"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what viser prints about itself from standard output."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
