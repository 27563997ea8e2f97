"""The messages of an upload that the viewer accepts from a page: one file at a time, in order, of bounded size."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

PART: Final = 512 * 1024
"""Bytes of a file in one message; only the last one has fewer."""
LONGEST_PART: Final = PART + 4096
"""Bytes of such a message."""

_Text = Annotated[str, msgspec.Meta(max_length=1000)]


class UploadStart(msgspec.Struct, tag_field="type", tag="FileTransferStartUpload", forbid_unknown_fields=True):
    """A file is about to come."""

    source_component_uuid: _Text
    transfer_uuid: _Text
    filename: _Text
    mime_type: _Text
    part_count: int
    size_bytes: int


class UploadPart(msgspec.Struct, tag_field="type", tag="FileTransferPart", forbid_unknown_fields=True):
    """A part of it."""

    source_component_uuid: _Text
    transfer_uuid: _Text
    part_index: int
    content: bytes


_DECODER: Final = msgspec.msgpack.Decoder(UploadStart | UploadPart)


class UploadGate:
    """The uploads of one page: viser keeps the parts of a file until the last one, so their sum is bounded here."""

    def __init__(self, most: int) -> None:
        """`most`: bytes of a file."""
        self._most = most
        self._start: UploadStart | None = None
        self._next = 0

    def takes(self, message: bytes) -> bool:
        """Whether this message is the next one of an upload."""
        try:
            found = _DECODER.decode(message)
        except (msgspec.DecodeError, RecursionError):
            return False
        return self._begins(found) if isinstance(found, UploadStart) else self._continues(found)

    def _begins(self, start: UploadStart) -> bool:
        if self._start is not None or not 0 < start.size_bytes <= self._most:
            return False
        if start.part_count != -(-start.size_bytes // PART):
            return False
        self._start, self._next = start, 0
        return True

    def _continues(self, part: UploadPart) -> bool:
        start = self._start
        if start is None or part.part_index != self._next:
            return False
        if (part.source_component_uuid, part.transfer_uuid) != (start.source_component_uuid, start.transfer_uuid):
            return False
        if len(part.content) != min(PART, start.size_bytes - PART * self._next):
            return False
        self._next += 1
        if self._next == start.part_count:
            self._start = None
        return True
