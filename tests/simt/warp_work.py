"""What kernels did that were executed and counted: visits of blocks (counters.h) times the instructions in them."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from types import ModuleType
from typing import NamedTuple

from .ptx_translator import blocks, kernels_in

SECTOR_BYTES = 32


class Work(NamedTuple):
    """Of all launches of a kernel, or of several kernels. An instruction of a warp counts once for all of its lanes."""

    launches: int
    warps: int
    instructions: Counter[str]  # of warps, by class
    lane_instructions: int
    divergent: int  # branches at which the lanes of a warp part
    requests: Counter[str]  # accesses of warps with any lane, by class
    lanes: Counter[str]  # in these
    parts: Counter[str]  # sectors of global memory, wavefronts of shared memory
    read: int  # sectors of global memory that a launch reads, each once
    written: int

    @property
    def total(self) -> int:
        """Instructions of warps, but moves: most of them are none in SASS."""
        return self.instructions.total() - self.instructions["move"]

    @property
    def active(self) -> float:
        """Lanes of a warp that take part in an instruction, on average."""
        return self.lane_instructions / max(1, self.instructions.total())

    def of(self, space: str) -> int:
        """Sectors of "global" or wavefronts of "shared" memory, atomics included."""
        return sum(count for name, count in self.parts.items() if name.startswith(space))

    @property
    def atomics(self) -> int:
        """Lanes' numbers that are added to global memory."""
        return self.lanes["global atomic"]


def work_of(executor: ModuleType) -> dict[str, Work]:
    """By kernel, what the module has counted since its counts were cleared."""
    counts, kernels = executor.counts(), kernels_in(executor.ptx, "")
    found = {}
    for name, counted in counts.items():
        ((launches, warps, read, written),) = counted["kernel"]
        known = blocks(kernels[name])
        accesses = [access for block in known for access in block.accesses]
        instructions, requests, lanes, parts = (Counter[str]() for _ in range(4))
        lane_instructions = divergent = 0
        for block, (visits, active, parted) in zip(known, counted["blocks"], strict=False):
            instructions.update({each: number * visits for each, number in block.instructions.items()})
            lane_instructions += block.instructions.total() * active
            divergent += parted
        for access, (requested, by_lanes, in_parts) in zip(accesses, counted["sites"], strict=False):
            requests[access] += requested
            lanes[access] += by_lanes
            parts[access] += in_parts
        found[name] = Work(
            launches, warps, instructions, lane_instructions, divergent, requests, lanes, parts, read, written
        )
    return found


def together(works: Sequence[Work]) -> Work:
    """The sums, of at least one."""
    return reduce(lambda one, other: Work(*map(operator.add, one, other)), works)
