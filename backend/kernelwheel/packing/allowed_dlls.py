"""The DLLs that a library for Windows may need: torch's, and those that every Windows has."""

from __future__ import annotations

import re

# The names of the C runtime's parts: Microsoft, "Universal CRT deployment".
_ALLOWED = re.compile(
    r"(torch(_cpu|_cuda)?|c10|kernel32|ntdll|advapi32|bcrypt|user32|ucrtbase|api-ms-win-\S+)\.dll", re.IGNORECASE
)


def is_allowed(dll: str) -> bool:
    """Whether a library may need this DLL."""
    return bool(_ALLOWED.fullmatch(dll))
