"""Where the pixels of a lens look, in the camera's coordinates; on the CPU, what was found for the last lenses is kept.

Inverting a lens takes longer than drawing its picture, and a training comes back to the same lenses all the time.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import normalize

from .lenses import Lens

_CHUNK: Final = 2**16  # pixels that are inverted together
_KEPT: Final = 2**22  # pixels of all lenses whose directions are kept: 100 MB

# From what decides them. Replaced as a whole, never changed, so that threads need no lock.
_kept: dict[Any, Tensor] = {}


def lens_directions(lens: Lens, width: int, height: int, values: tuple[Any, ...] | None, like: Tensor) -> Tensor:
    """float64 [height, width, 3], of length 1, for each pixel's centre; zeros where the lens sees nothing.

    `values` are the numbers that make the lens, or None if these are not known here and now: it is not kept then. What
    is returned must not be written into. `like` has the dtype and the device.
    """
    global _kept
    key = values and (width, height, *values)
    found = _kept.get(key)
    if found is None:
        found = _directions(lens, width, height, like)
    if key is not None:
        recent = {key: found, **{other: theirs for other, theirs in _kept.items() if other != key}}
        pixels = accumulate(each[..., 0].numel() for each in recent.values())
        _kept = {each: recent[each] for each, total in zip(recent, pixels, strict=True) if total <= _KEPT}
    return found


def _directions(lens: Lens, width: int, height: int, like: Tensor) -> Tensor:
    given: dict[str, Any] = {"dtype": like.dtype, "device": like.device}
    rows, columns = (torch.arange(size, **given) + 0.5 for size in (height, width))
    parts = []
    for part in torch.split(rows, -(-_CHUNK // width)):
        v, u = torch.meshgrid(part, columns, indexing="ij")
        *direction, valid = lens.unproject(u, v)
        parts.append(torch.where(valid[..., None], normalize(torch.stack(direction, -1), dim=-1), 0.0))
    return torch.cat(parts)
