"""The messages that the viewer accepts from a page: its camera, values of controls, clicks, boxes; viser takes more."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

LONGEST: Final = 64 * 1024
"""Bytes of one message."""


class CameraMessage(msgspec.Struct, tag_field="type", tag="ViewerCameraMessage", forbid_unknown_fields=True):
    """Where a page's camera is; its numbers are checked by camera_of()."""

    wxyz: tuple[float, float, float, float]
    position: tuple[float, float, float]
    fov: float
    near: float
    far: float
    image_height: int
    image_width: int
    look_at: tuple[float, float, float]
    up_direction: tuple[float, float, float]


class NewValue(msgspec.Struct, forbid_unknown_fields=True):
    """A control's value, and no other attribute of it, which viser would set."""

    value: bool | float | str | Annotated[list[float], msgspec.Meta(min_length=2, max_length=3)]
    """A list: a colour, or the two ends of a slider's range."""


class ControlMessage(msgspec.Struct, tag_field="type", tag="GuiUpdateMessage", forbid_unknown_fields=True):
    """A control that was used."""

    uuid: str
    updates: NewValue


class ClickMessage(msgspec.Struct, tag_field="type", tag="ScenePointerMessage", forbid_unknown_fields=True):
    """A click on the picture, without a key held; where, as shares of the page, is checked by point_seen()."""

    event_type: Literal["click"]
    ray_origin: tuple[float, float, float]
    ray_direction: tuple[float, float, float]
    screen_pos: tuple[tuple[float, float]]
    modifier: None


class BoxMessage(msgspec.Struct, tag_field="type", tag="ScenePointerMessage", forbid_unknown_fields=True):
    """A box that was dragged on the picture; its corners, as shares of the page, are checked by part_of()."""

    event_type: Literal["rect-select"]
    ray_origin: None
    ray_direction: None
    screen_pos: tuple[tuple[float, float], tuple[float, float]]
    modifier: Literal["shift"] | None


_DECODERS: Final = tuple(
    msgspec.msgpack.Decoder(kinds) for kinds in (CameraMessage | ControlMessage | ClickMessage, BoxMessage)
)


def is_expected(message: str | bytes) -> bool:
    """Whether this is a message that our own page sends."""
    if isinstance(message, str) or len(message) > LONGEST:
        return False
    for decoder in _DECODERS:
        try:
            decoder.decode(message)
            return True
        except (msgspec.DecodeError, RecursionError):
            continue
    return False
