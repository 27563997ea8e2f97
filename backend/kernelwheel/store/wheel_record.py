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
from reprlib import repr as short
from zipfile import ZipInfo

# Enough for as many members as a readable zip file has.
LARGEST_RECORD = 8 << 20
_UNICODE_PATH = 0x7075  # APPNOTE.TXT, 4.6.9
_UNIX = 3  # APPNOTE.TXT, 4.4.2: the system whose file modes are in a member's external attributes


def parse_record(text: bytes) -> dict[str, str]:
    """The files that RECORD lists, each with its digest as `record_digest` gives it, or empty, as of RECORD itself.

    Raises:
        ValueError: it is malformed, or has a digest that is no sha256, as every build writes it; says how.
    """
    if len(text) > LARGEST_RECORD:
        raise ValueError(f"it is larger than {LARGEST_RECORD} bytes")
    found: dict[str, str] = {}
    try:
        rows = [row for row in csv.reader(io.StringIO(text.decode("utf-8"), newline="")) if row]
    except csv.Error as error:
        raise ValueError(str(error)) from error
    for row in rows:
        if len(row) != 3 or (row[1] and not row[1].startswith("sha256=")):
            raise ValueError(f"the row {short(row)}")
        if row[0] in found:
            raise ValueError(f"two rows of {short(row[0])}")
        found[row[0]] = row[1].rstrip("=")
    return found


def record_digest(blocks: Iterable[bytes]) -> str:
    """The digest of a file as RECORD has it: `sha256=`, and base64 without padding."""
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return "sha256=" + urlsafe_b64encode(digest.digest()).decode("ascii").rstrip("=")


def wrong_member(info: ZipInfo) -> str:
    """What is wrong with the name or kind of a member, which no build packs; empty if nothing is."""
    # zipfile cuts `filename` at a NUL, and Python 3.12 and later take it from the second name.
    parts = info.orig_filename.removesuffix("/").split("/")
    if not info.orig_filename.isprintable() or {"", ".", ".."} & {*parts} or "\\" in info.orig_filename:
        return "its name is not the plain path of a file in the wheel"
    if ":" in parts[0]:
        return "its name begins with a drive"
    kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == _UNIX else 0
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "it is a link" if kind == stat.S_IFLNK else "it is neither a file nor a folder"
    return "it has a second name (Unicode Path), which some programs take" if _has_second_name(info.extra) else ""


def _has_second_name(extra: bytes) -> bool:
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        if kind == _UNICODE_PATH:
            return True
        extra = extra[4 + size :]
    return False
