"""What a wheel may not hold, and RECORD, the list of its files with their digests, in it and where it was installed.

The specifications are PyPA's: binary distribution format, "The .dist-info directory"; recording installed projects.
"""

from __future__ import annotations

import csv
import hashlib
import io
import stat
import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import NamedTuple
from zipfile import ZipInfo

from ..runtime.manifest_schema import short

# Enough for as many members as a readable zip file has.
LARGEST_RECORD = 8 << 20
# "sha256 or better", of those that every Python has.
_ALGORITHMS = ("sha256", "sha384", "sha512")
_UNICODE_PATH = 0x7075  # APPNOTE.TXT, 4.6.9
_UNIX = 3  # APPNOTE.TXT, 4.4.2: the system whose file modes are in a member's external attributes


class Recorded(NamedTuple):
    """What RECORD says of one file; the algorithm is empty if it has no digest, as of RECORD itself."""

    algorithm: str
    digest: str
    size: int | None


def parse_record(text: bytes) -> dict[str, Recorded]:
    """The files that RECORD lists.

    Raises:
        ValueError: it is malformed; says how.
    """
    if len(text) > LARGEST_RECORD:
        raise ValueError(f"it is larger than {LARGEST_RECORD} bytes")
    found: dict[str, Recorded] = {}
    try:
        rows = [row for row in csv.reader(io.StringIO(text.decode("utf-8"), newline="")) if row]
    except csv.Error as error:
        raise ValueError(str(error)) from error
    for row in rows:
        if len(row) != 3:
            raise ValueError(f"the row {short(row)}")
        name, digest, size = row
        algorithm, _, value = digest.partition("=")
        if name in found:
            raise ValueError(f"two rows of {short(name)}")
        if (digest and algorithm not in _ALGORITHMS) or not (size or "0").isdecimal() or len(size) > 15:
            raise ValueError(f"the row {short(row)}")
        found[name] = Recorded(algorithm, value, int(size) if size else None)
    return found


def unlike_record(recorded: Recorded, blocks: Iterable[bytes]) -> str:
    """How a file with a digest differs from what RECORD says; empty if it does not."""
    digest, size = hashlib.new(recorded.algorithm), 0
    for block in blocks:
        digest.update(block)
        size += len(block)
    if recorded.size not in (None, size):
        return f"{size} bytes; RECORD says {recorded.size}"
    if urlsafe_b64encode(digest.digest()).decode("ascii").rstrip("=") != recorded.digest.rstrip("="):
        return f"its {recorded.algorithm} does not match RECORD"
    return ""


def wrong_member(info: ZipInfo) -> str:
    """What is wrong with the name or kind of a member, which no build packs; empty if nothing is."""
    # zipfile cuts `filename` at a NUL, and Python 3.12 and later take it from the second name.
    return _wrong_name(info.orig_filename) or _wrong_kind(info) or _second_name(info.extra)


def _second_name(extra: bytes) -> str:
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == _UNICODE_PATH:
            return "it has a second name (Unicode Path), which some programs take"
        extra = extra[4 + size :]
    return ""


def _wrong_name(name: str) -> str:
    parts = name.removesuffix("/").split("/")
    if name.startswith("/"):
        return "its name is an absolute path"
    if ".." in parts:
        return "its name leads out of the folder"
    if "\\" in name:
        return "its name has a backslash, which some systems take for a slash"
    if ":" in parts[0]:
        return "its name begins with a drive"
    if "" in parts or "." in parts:
        return "its name has an empty part"
    return "" if name.isprintable() else "its name has characters that do not print"


def _wrong_kind(info: ZipInfo) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == _UNIX else 0
    if kind in (0, stat.S_IFREG, stat.S_IFDIR):
        return ""
    return "it is a link" if kind == stat.S_IFLNK else "it is neither a file nor a folder"
