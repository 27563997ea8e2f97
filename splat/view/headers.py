"""The headers of every answer of the viewer's server, among them the Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HEADERS: Final[Mapping[str, str]] = {
    # viser's page is one file: its scripts, styles and data are in it, its worker and its pictures are made by it, and
    # it unpacks itself by WebAssembly. It would also run scripts that its server sends, which takes 'unsafe-eval'; what
    # else does is in `first_script.py`.
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'unsafe-inline' 'wasm-unsafe-eval'",
            "style-src 'unsafe-inline'",
            "worker-src blob:",
            "img-src blob: data:",
            "font-src data:",
            "connect-src 'self' data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""What every answer says to the browser."""
