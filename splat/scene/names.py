"""Names that files hold, as messages show them."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST = 40
_MOST = 12


def shown(name: str) -> str:
    """A name that is not too long, and does not move the cursor."""
    return name if len(name) <= _LONGEST and name.isprintable() else ascii(name[:_LONGEST])


def listed(names: Sequence[str]) -> str:
    """Names, not too many of them."""
    words = [shown(name) for name in names[:_MOST]]
    if len(names) > _MOST:
        words.append(f"and {len(names) - _MOST} more")
    return ", ".join(words) if words else "none"
