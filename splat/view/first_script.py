"""A script in front of viser's page, which keeps it from asking for what its policy refuses.

viser makes functions from text (embind's, of several words) for its own way of drawing splats, which is not used. The
policy refuses that, and the browser logs it. They become functions that do nothing; all else is refused as before.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from typing import Final

from websockets.http11 import Response

_SCRIPT: Final = (
    b"<!doctype html><script>{const none=()=>()=>()=>{};window.Function=new Proxy(Function,{"
    b"apply:(real,self,words)=>words.length>1?none():real(...words),"
    b"construct:(real,words)=>words.length>1?none():new real(...words)})}</script>"
)


def add_first_script(response: Response) -> None:
    """Put the script in front of a page; other answers stay as they are."""
    headers = response.headers
    if headers.get("Content-Type", "").startswith("text/html"):
        response.body = _with_script(bytes(response.body), headers.get("Content-Encoding") == "gzip")
        del headers["Content-Length"]
        headers["Content-Length"] = str(len(response.body))


@lru_cache(maxsize=2)
def _with_script(body: bytes, is_packed: bool) -> bytes:
    return gzip.compress(_SCRIPT + gzip.decompress(body), mtime=0) if is_packed else _SCRIPT + body
