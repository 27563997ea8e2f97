"""Who may use the viewer's server: the host names that it may be reached by, and which pages are its own."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

_HOST: Final = re.compile(r"(?P<literal>\[[0-9a-f:.]+\])(:\d{1,5})?|(?P<name>[a-z0-9._-]+)(:\d{1,5})?")


class Refusal(NamedTuple):
    """Why a request is refused, and with which status."""

    status: HTTPStatus
    text: str
    """Shown where the page would be."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on this address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_host_name(text: str) -> bool:
    """Whether this can be the name of a machine, without a port, as browsers write it."""
    found = _HOST.fullmatch(text.lower())
    return found is not None and found["name"] == text.lower()


def name_refusal(hosts: Sequence[str], names: Collection[str]) -> Refusal | None:
    """Why a request with these headers `Host` is refused, if it is.

    A browser treats all pages of one name and port as one site, wherever that name resolves to, and whoever owns a
    page's name can make it resolve to this machine later (DNS rebinding). An IP address or `localhost` cannot be owned
    like that.

    Args:
        hosts: the values of all `Host` headers.
        names: other names that are allowed, in lower case.
    """
    found = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
    if found is not None:
        literal, name = found["literal"], found["name"]
        if _is_address(literal[1:-1], 6) if literal else name in {"localhost", *names} or _is_address(name, 4):
            return None
    asked = repr(", ".join(hosts)[:200])
    return Refusal(
        HTTPStatus.FORBIDDEN,
        f"an IP address, localhost or a name that --allow-name gives is required in the page's address, found {asked}",
    )


def query_refusal(target: str) -> Refusal | None:
    """Why a request for this is refused, if it is: viser's page would take another server's address from a query."""
    if "?" not in target:
        return None
    return Refusal(HTTPStatus.SEE_OTHER, "an address without ? is required")


def origin_refusal(origins: Sequence[str], host: str) -> Refusal | None:
    """Why a websocket is refused, if it is.

    Browsers let any web page open a websocket to any address, and send in `Origin` where the page came from, which must
    be the server it connects to. Programs that are not browsers send no `Origin`.

    Args:
        origins: the values of all `Origin` headers.
        host: the value of `Host`.
    """
    own = {f"{scheme}://{host.lower()}" for scheme in ("http", "https")}  # https: a proxy in front of this server
    if not origins or (len(origins) == 1 and origins[0].lower() in own):
        return None
    return Refusal(
        HTTPStatus.FORBIDDEN,
        f"a page from {host[:200]} is required, found one from {', '.join(origins)[:200]!r}; a proxy must pass Host on",
    )


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False
