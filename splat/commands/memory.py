"""What a command reports when there is not enough memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ..scene.names import one_line

if TYPE_CHECKING:
    import torch  # which takes a second: the command's help does without

# The least that the operators allocate beside images: the projection of each Gaussian.
GAUSSIAN_BYTES: Final = 48

# How torch says it on the CPU and on CUDA, and how CUDA itself, the C++ library, oneDNN (which computes convolutions)
# and the dynamic loader do; our operators, of lists; and what torch before 2.13 says if an operator gets no memory.
_WORDS = re.compile(
    r"can't allocate memory|not enough memory|out of memory|bad_alloc|could not create a primitive"
    r"|failed to map segment|the Gaussians touch \d+ tiles, more than"
    r"|\"aten::(empty|contiguous)\".* API call failed",
    re.IGNORECASE,
)
# More than any part of torch takes when it is imported.
_IMPORT_BYTES: Final = 128 * 2**20
# No machine has as much: what the operator returns if it finds no limit.
_NO_LIMIT: Final = 2**60
_AMOUNT = re.compile(r"allocate (\d+) bytes|allocate ([\d.]+ [KMGTPE]iB)")


class NotEnoughMemory(RuntimeError):
    """There is not enough memory; the message says for what, and how to need less."""


@contextmanager
def enough_memory(what: Callable[[], str], remedy: str) -> Iterator[None]:
    """Raise NotEnoughMemory if memory runs out. `what` returns a description of the work."""
    try:
        yield
    except (MemoryError, RuntimeError, ImportError) as error:
        if not _is_of_memory(error):
            raise
        message = f"{what()} needs more memory than there is{_amount(str(error))}; {remedy}"
        raise NotEnoughMemory(one_line(message)) from error


def available_memory() -> int | None:
    """The bytes that this process may still take, control groups included, as the operators find them for their lists.

    None if that cannot be told.
    """
    import torch

    from .. import _kernels

    _kernels.require(torch.device("cpu"))
    found = int(torch.ops.splat.available_memory())
    return found if found < _NO_LIMIT else None


def try_memory(size: int, device: torch.device) -> None:
    """Allocate `size` bytes and free them.

    Call it before an operator that needs them: if an operator gets no memory, torch prints C++ stack traces, and before
    2.13 the error that it raises does not say so.
    """
    import torch

    torch.empty(size, dtype=torch.uint8, device=device)


def _is_of_memory(error: Exception) -> bool:
    """Whether an error is a lack of memory."""
    if isinstance(error, MemoryError) or _WORDS.search(str(error)):
        return True
    # torch imports parts of itself when they are first used. Where memory ends in there, it can say instead that one
    # lacks a name.
    return isinstance(error, ImportError) and not _is_there(_IMPORT_BYTES)


def _is_there(size: int) -> bool:
    try:
        bytearray(size)  # of zeros, which take none before they are used
    except MemoryError:
        return False
    return True


def _amount(text: str) -> str:
    """The size of the allocation that failed, if the error says it."""
    found = _AMOUNT.search(text)
    if found is None:
        return ""
    size = int(found[1] or 0)
    amount = found[2] or (f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.2f} MiB")
    return f" ({amount} in one allocation)"
