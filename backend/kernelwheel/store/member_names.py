"""The members that no build packs into a wheel: whoever unpacks one need not get a file inside of the folder."""

from __future__ import annotations

import stat
from zipfile import ZipInfo

_UNIX = 3  # APPNOTE.TXT, 4.4.2: the system whose file modes are in a member's external attributes


def wrong_member(info: ZipInfo) -> str:
    """What is wrong with a member's name or kind; empty if nothing is."""
    return _wrong_name(info.orig_filename) or _wrong_kind(info)  # zipfile cuts the other name at a NUL


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
