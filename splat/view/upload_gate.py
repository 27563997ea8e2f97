"""The messages of an upload that the viewer accepts from a page: one file at a time, in order, of bounded size.

What is not finished is kept in memory, so the sum of all pages has to fit, and none may wait for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Final

import msgspec

PART: Final = 512 * 1024
"""Bytes of a file in one message; only the last one has fewer."""
LONGEST_PART: Final = PART + 4096
"""Bytes of such a message."""
MOST_SECONDS: Final = 30.0
"""Between two parts of a file."""
NO_ROOM: Final = "memory for this upload is required, found too little beside those of other pages; try later"

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


class UploadRoom:
    """The uploads of all pages that are not finished."""

    def __init__(self, most: int, memory: Callable[[], int | None] = lambda: None) -> None:
        """`most`: bytes of a file; `memory`: how many there are at the time, if that is known."""
        self.most, self._memory = most, memory
        self._left: dict[UploadGate, int] = {}

    def takes(self, gate: UploadGate, size: int) -> bool:
        """Whether there is memory for what they still lack, and for one more, which is put together at its end."""
        memory = self._memory()
        if memory is not None and sum(self._left.values()) + 2 * size > memory:
            return False
        self._left[gate] = size
        return True

    def came(self, gate: UploadGate, size: int) -> None:
        """So much of an upload came."""
        self._left[gate] -= size

    def leave(self, gate: UploadGate) -> None:
        """It is finished, or its page is closed."""
        self._left.pop(gate, None)


class UploadGate:
    """The uploads of one page: viser keeps the parts of a file until the last one, so their sum is bounded here."""

    def __init__(self, room: UploadRoom, clock: Callable[[], float] = time.monotonic) -> None:
        self._room, self._clock = room, clock
        self._start: UploadStart | None = None
        self._next, self._last = 0, 0.0
        self.has_room = True
        """Whether there was memory for the last upload."""

    @property
    def seconds_left(self) -> float | None:
        """Until the next part must be there; None if no file is on its way."""
        return None if self._start is None else max(MOST_SECONDS - (self._clock() - self._last), 0.0)

    def close(self) -> None:
        """The page is closed, and viser keeps nothing of it."""
        self._start = None
        self._room.leave(self)

    def takes(self, message: bytes) -> bool:
        """Whether this message is the next one of an upload."""
        try:
            found = _DECODER.decode(message)
        except (msgspec.DecodeError, RecursionError):
            return False
        taken = self._begins(found) if isinstance(found, UploadStart) else self._continues(found)
        if taken:
            self._last = self._clock()
        return taken

    def _begins(self, start: UploadStart) -> bool:
        if self._start is not None or not 0 < start.size_bytes <= self._room.most:
            return False
        if start.part_count != -(-start.size_bytes // PART):
            return False
        self.has_room = self._room.takes(self, start.size_bytes)
        if self.has_room:
            self._start, self._next = start, 0
        return self.has_room

    def _continues(self, part: UploadPart) -> bool:
        start = self._start
        if start is None or part.part_index != self._next:
            return False
        if (part.source_component_uuid, part.transfer_uuid) != (start.source_component_uuid, start.transfer_uuid):
            return False
        if len(part.content) != min(PART, start.size_bytes - PART * self._next):
            return False
        self._room.came(self, len(part.content))
        self._next += 1
        if self._next == start.part_count:
            self.close()
        return True
