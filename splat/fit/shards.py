"""The Gaussians of a fit in shards, one for each of the processes that fit one scene together.

Processes are ranks of torch.distributed's default group, which the command joins. With one process, all of this does
nothing. Every rank must call each of the methods from `sums` on equally often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..ops.rank_exchange import gather_values


@dataclass(frozen=True)
class Shards:
    """This process's number, and how many there are."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    @property
    def spread(self) -> slice:
        """Every `count`th of the rows of everything, so that all shards are spread alike over the scene."""
        return slice(self.rank, None, self.count)

    def own(self, rows: Tensor) -> Tensor:
        """This shard's rows of everything."""
        return rows[self.spread].clone() if self.count > 1 else rows

    def own_of(self, pictures: Sequence[int]) -> int | None:
        """This process's picture, where each takes one of them; None if there are fewer."""
        return pictures[self.rank] if self.rank < len(pictures) else None

    def part(self, total: int) -> int:
        """This shard's part of a number of Gaussians; the parts of all shards add up to it."""
        return (total + self.count - 1 - self.rank) // self.count

    def sums(self, values: Tensor) -> Tensor:
        """The sums over all ranks."""
        if self.count == 1:
            return values
        total = values.cpu().clone()
        dist.all_reduce(total)
        return total.to(values.device)

    def any(self, here: bool) -> bool:
        """Whether it is so on one of the ranks."""
        return bool(self.sums(torch.tensor(float(here))) > 0)

    def gather(self, rows: Tensor) -> Tensor:
        """On rank 0, the rows of all shards, one after the other, in the computer's memory; elsewhere none."""
        if self.count == 1:
            return rows
        counts = self.counts(len(rows))
        sent = [len(rows), *[0] * (self.count - 1)]
        received = counts if self.first else [0] * self.count
        mine = rows.detach().cpu().contiguous()
        found = mine.new_empty(sum(received), *mine.shape[1:])
        dist.all_to_all_single(found, mine, received, sent)
        return found

    def counts(self, rows: int) -> list[int]:
        """How many rows each of the shards has."""
        return self.of_all(rows)

    def of_all(self, value: Any) -> list[Any]:
        """A value of each rank, on all of them; one that JSON can say."""
        return [value] if self.count == 1 else gather_values(value, torch.device("cpu"))


ALONE = Shards()
