"""The radix sort and the prefix sums of csrc/cuda, as PTX that is executed on the CPU (tests/simt)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

SORT_TILE, DIGITS = 7296, 256  # csrc/cuda/sort_kernels.cuh
THREADS, LOOKED_BACK_AT = 256, 256  # csrc/cuda/grid_launch.h, prefix_sum.cuh: of a block, and blocks at once
SUM_IS_KNOWN = 1 << 31
OWN_IS_PUBLISHED, SUM_IS_PUBLISHED = 1 << 32, 1 << 33
# By name: what keys are drawn from, and by how many of their bits they are sorted.
KEYS = {"any": (2**32, 32), "13 bits of any": (2**32, 13), "few": (3, 8), "all the same": (1, 32)}
KERNEL = "_ZN5splat7kernels11sort_digitsENS_11PairBuffersEjiiNS0_12SortProgressE"
SHOWN_KERNEL = "_ZN5splat7kernels11count_shownENS_15IntersectInputsEPiS2_PNS_15IntersectTotalsENS0_11SumProgressE"


@pytest.fixture(params=[0, 7], ids=["in-order", "shuffled"])
def any_order(simt_wheel: ModuleType, request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The kernels, with blocks and threads taking turns in two orders."""
    simt_wheel.set_seed(request.param)
    yield simt_wheel
    simt_wheel.set_seed(0)


def drawn(count: int, below: int) -> NDArray[np.uint32]:
    return np.random.default_rng(count).integers(0, below, count, np.uint64).astype(np.uint32)


@pytest.mark.parametrize(
    ("count", "name"),
    [*((count, "any") for count in (1, 33, SORT_TILE, SORT_TILE + 1)), *((3 * SORT_TILE - 40, name) for name in KEYS)],
)
def test_pairs_are_sorted_stably(any_order: ModuleType, count: int, name: str) -> None:
    below, bits = KEYS[name]
    keys, values = drawn(count, below), np.arange(count, dtype=np.int32)

    sorted_keys, sorted_values = any_order.sort_pairs(keys, values, bits)

    order = np.argsort(keys & np.uint32(2**bits - 1), kind="stable")
    assert (sorted_keys == keys[order]).all()
    assert (sorted_values == order).all()


def test_no_pairs_are_no_launch(simt_wheel: ModuleType) -> None:
    before = simt_wheel.calls()

    simt_wheel.sort_pairs(np.zeros(0, np.uint32), np.zeros(0, np.int32), 32)

    assert simt_wheel.calls().get("cudaLaunchKernelEx") == before.get("cudaLaunchKernelEx")


@pytest.mark.parametrize(("count", "launches"), [(SORT_TILE, 1), (SORT_TILE + 1, 1 + 4)])
def test_what_fits_into_one_block_is_one_launch(simt_wheel: ModuleType, count: int, launches: int) -> None:
    """Else a histogram, and a kernel for each of the digits (benchmarks/launches.py)."""
    before = simt_wheel.calls()

    simt_wheel.sort_pairs(drawn(count, 2**32), np.zeros(count, np.int32), 32)

    after = simt_wheel.calls()
    assert sum(after[name] - before.get(name, 0) for name in after) == launches


@pytest.mark.parametrize("known", [0, 2])
def test_a_tile_adds_up_what_those_before_it_have_published(simt_wheel: ModuleType, known: int) -> None:
    """Executed blocks end before the next begins, and so publish sums: here, some have published their numbers only."""
    tiles, shift = 4, 8
    keys = drawn(tiles * SORT_TILE, 2**16)
    digits = keys >> shift
    counts = np.stack([np.bincount(each, minlength=DIGITS) for each in digits.reshape(tiles, SORT_TILE)])
    starts = np.cumsum(counts.sum(0)) - counts.sum(0)
    sums = starts + np.cumsum(counts, 0)  # up to each tile
    published = (counts + 1).astype(np.uint32)
    published[known] = sums[known] + SUM_IS_KNOWN
    published[:known] = 1 + DIGITS * SORT_TILE  # nobody looks there
    published[-1] = 0
    out, values = np.zeros_like(keys), np.arange(len(keys), dtype=np.int32)
    values_out = np.full_like(values, -1)
    pairs = (keys, out, values, values_out, struct.pack("ii", 0, 0))
    progress = (counts.sum(0).astype(np.uint32), np.full(1, tiles - 1, np.uint32), published)
    numbers = [struct.pack("i", number) for number in (len(keys), shift, shift + 8)]

    simt_wheel.run_ptx(KERNEL, (1, 1, 1), (384, 1, 1), 0, [pairs, *numbers, progress], False)

    order = np.argsort(digits, kind="stable")
    last = order >= (tiles - 1) * SORT_TILE
    assert (values_out == np.where(last, order, -1)).all()
    assert (out == np.where(last, keys[order], 0)).all()
    assert (published[-1] == sums[-1] + SUM_IS_KNOWN).all()


def shown_before(
    executor: ModuleType, shown: NDArray[np.bool_], progress: tuple[NDArray[Any] | None, ...], blocks: int
) -> NDArray[np.uint32]:
    """How many rows are shown before each, by so many blocks; -1 for those of others."""
    radii = np.repeat(shown.astype(np.int32), 2)
    numbers = struct.pack("qqqiiii", len(shown), len(shown), 1, 16, 1, 1, 1)
    inputs = (None, None, None, None, radii, None, numbers)  # IntersectInputs
    places, totals = np.full(len(shown), -1, np.int32), np.zeros(2, np.uint64)
    arguments = [inputs, places, None, totals, progress]
    executor.run_ptx(SHOWN_KERNEL, (blocks, 1, 1), (THREADS, 1, 1), 0, arguments, False)
    return places.view(np.uint32)


@pytest.mark.parametrize("count", [1, THREADS, THREADS + 1, (LOOKED_BACK_AT + 2) * THREADS + 9])
def test_a_sum_over_a_launch_is_over_the_blocks_before_too(any_order: ModuleType, count: int) -> None:
    """Of more blocks than a warp looks back at once, too."""
    shown, blocks = drawn(count, 2).astype(np.bool_), -(-count // THREADS)

    progress = (np.zeros(blocks, np.uint64), np.zeros(1, np.uint32)) if blocks > 1 else (None, None)

    places = shown_before(any_order, shown, progress, blocks)

    assert (places == np.cumsum(shown) - shown).all()


@pytest.mark.parametrize("known", [0, 1, 42, 43, 298])
def test_a_block_looks_back_to_the_nearest_sum(simt_wheel: ModuleType, known: int) -> None:
    """Over blocks that have published their own numbers only; sums overflow as 32 bits do."""
    blocks = LOOKED_BACK_AT + 44
    shown, own = drawn(blocks * THREADS, 2).astype(np.bool_), drawn(blocks, 2**32).astype(np.uint64)
    published = own + np.uint64(OWN_IS_PUBLISHED)
    published[known] = int(own[: known + 1].sum()) % 2**32 + SUM_IS_PUBLISHED
    published[:known] = OWN_IS_PUBLISHED + 1  # nobody looks there
    published[-1] = 0

    places = shown_before(simt_wheel, shown, (published, np.full(1, blocks - 1, np.uint32)), 1)

    before, of_block = int(own[:-1].sum()), shown[-THREADS:]
    assert (places[-THREADS:] == ((before + np.cumsum(of_block) - of_block) % 2**32).astype(np.uint32)).all()
    assert (places[:-THREADS] == 2**32 - 1).all()
    assert published[-1] == SUM_IS_PUBLISHED + (before + int(of_block.sum())) % 2**32
