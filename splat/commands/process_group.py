"""One command in several processes, as torchrun starts them.

What fails before the work starts is agreed on by all ranks, and printed once. Afterwards, a rank that fails ends the
others: what they wait for does not come.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import torch
import torch.distributed as dist

from ..fit.shards import ALONE, Shards
from ..ops.rank_exchange import disagreement
from .device import DeviceError

_VARIABLES: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torch.distributed reads (its manual, "Environment variable initialization")."""
_LIMIT: Final = timedelta(minutes=10)
"""How long a rank waits for the others."""
# How gloo and torch's store say that a rank is gone; NCCL's errors have a class.
_GONE: Final = re.compile(
    r"closed by peer|connection reset|connection refused|broken pipe|timed out|socket", re.IGNORECASE
)


class RankError(RuntimeError):
    """The processes cannot work together, as all of them know; the message says which rank found what."""


class LostRankError(RuntimeError):
    """Another process has ended, or does not answer."""


@contextmanager
def joined_processes() -> Iterator[Shards]:
    """The processes that torchrun started, or this one alone.

    Raises LostRankError if another does not come or ends early, RankError if the environment is not torchrun's.
    """
    if not all(os.environ.get(name) for name in _VARIABLES):
        yield ALONE
        return
    shards = Shards(_number("RANK"), _number("WORLD_SIZE"))
    if shards.count == 1:
        yield ALONE
        return
    # torch imports this with the first optimizer. Default arguments in there would then hold the group until the end of
    # the program, when gloo's threads must no longer be running.
    import torch.distributed.nn

    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=_LIMIT)
        yield shards
    except RuntimeError as error:
        if isinstance(error, RankError) or not (isinstance(error, dist.DistError) or _GONE.search(str(error))):
            raise
        found = str(error).strip().splitlines()[0]
        raise LostRankError(
            f"rank {shards.rank} of {shards.count}: another rank has ended, or does not answer ({found[:200]})"
        ) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def local_rank(shards: Shards) -> int:
    """This process's number on its machine."""
    return _number("LOCAL_RANK") if shards.count > 1 else 0


def local_count(shards: Shards) -> int:
    """How many of the processes share this machine's memory."""
    return max(_number("LOCAL_WORLD_SIZE"), 1) if os.environ.get("LOCAL_WORLD_SIZE") and shards.count > 1 else 1


def own_device(device: torch.device, shards: Shards) -> torch.device:
    """The device of this rank: on a machine with several GPUs, each rank has one. DeviceError if there are too few."""
    if device.type != "cuda" or shards.count == 1:
        return device
    number, found = local_rank(shards), torch.cuda.device_count()
    if number >= found:
        raise DeviceError(
            f"a GPU for each process is required, found {found} for {local_count(shards)} processes on this machine; "
            f"start with torchrun --nproc-per-node {found}, or use --device cpu"
        )
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device


@contextmanager
def agreed(shards: Shards) -> Iterator[None]:
    """Raise, on all ranks, what one of them raises in the block; a block must not wait for other ranks."""
    failure: Exception | None = None
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        if shards.count == 1:
            raise
        failure = error
    for rank, found in enumerate(shards.of_all(None if failure is None else str(failure))):
        if found is not None:
            # Mostly all fail alike, and then the first one's words are everyone's.
            raise RankError(found if rank == 0 else f"rank {rank} of {shards.count}: {found}")


def check_same(shards: Shards, facts: dict[str, object]) -> None:
    """Raise RankError, on all ranks, if these differ."""
    words = disagreement(shards.of_all(facts))
    if words:
        raise RankError(words)


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    if not text.isdecimal() or len(text) > 6:
        raise RankError(f"{name} must be a whole number, as torchrun sets it, found {text[:40]!r}; start with torchrun")
    return int(text)
