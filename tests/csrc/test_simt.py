"""What executes CUDA kernels on the CPU finds each kind of error, and nothing in kernels that are right."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

ERRORS = {
    "read_past_the_end": r"thread \(63, 0, 0\) of block \(0, 0, 0\) reads 4 bytes outside .* in has 256 bytes, .* 256",
    "write_before_the_start": r"thread \(0, 0, 0\) .* writes 4 bytes outside .* out has 256 bytes, and this is at -4",
    "read_null": r"thread \(9, 0, 0\) .* reads 4 bytes outside of its memory",
    "shared_past_the_end": r"thread \(63, 0, 0\) .* writes 4 bytes outside .* shared line has 256 bytes, .* at 256",
    "dynamic_past_the_end": r"thread \(48, 0, 0\) .* outside .* shared dynamic has 192 bytes, and this is at 192",
    "shared_not_written": r"of block \(1, 0, 0\) reads byte 20 of shared line before this block wrote it",
    "shared_without_barrier": r"reads byte .* of shared line(, which thread|\s+before this block wrote it)",
    "shared_overwritten_early": r"s byte .* of shared line, which thread .*s with no barrier between",
    "warp_without_barrier": r"reads byte .* of shared line, which thread .* writes with no barrier between",
    "warp_overwrites_early": r"byte 0 of shared line, which thread 3[01] .*s with no barrier between",
    "warps_read_and_one_overwrites": r"writes byte 20 of shared line, which .* reads with no barrier between",
    "two_threads_write": r"thread \(1, 0, 0\) .* writes byte 0 of out, which thread 0 of block 0 writes",
    "two_blocks_write": r"of block \(1, 0, 0\) writes byte 0 of out, which thread 0 of block 0 writes",
    "atomic_and_plain": r"thread \(63, 0, 0\) .* writes byte 0 of out, which thread 62 of block 0",
    "barrier_after_return": r"divergence .* waits at broken_kernels.h:\d+, but thread \(40, 0, 0\) has ended",
    "two_barriers": r"divergence .* thread \(0, 0, 0\) waits at .*, but thread \(32, 0, 0\) waits at",
    "ballot_without_all": r"divergence in a warp .* for the lanes 0xffffffff, but thread \(7, 0, 0\) has ended",
    "warps_at_different_functions": r"in a warp .* thread \(0, 0, 0\) waits at .* but thread \(1, 0, 0\) waits at",
    "mask_leaves_itself_out": r"thread \(0, 0, 0\) .* calls at .* with a mask that leaves it out",
    "shuffle_from_outside": r"shuffles at .* from lane 20, which the mask leaves out",
}
TWO_BLOCKS = ("shared_not_written", "two_blocks_write")


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_found(simt_wheel: ModuleType, name: str) -> None:
    blocks = 2 if name in TWO_BLOCKS else 1
    out = np.zeros(64 * blocks, np.float32)
    with pytest.raises(simt_wheel.KernelError, match=ERRORS[name]):
        simt_wheel.run_broken(name, np.arange(1, 65, dtype=np.float32), out, (blocks, 1, 1), (64, 1, 1), 192)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("block", [(64, 1, 1), (16, 2, 2)])
def test_every_function_does_what_cuda_says(simt_wheel: ModuleType, seed: int, block: tuple[int, int, int]) -> None:
    out = np.zeros(2 * 3 * 2 * 64, np.float32)
    simt_wheel.set_seed(seed)
    try:
        simt_wheel.run_broken("all_is_well", np.arange(1, 65, dtype=np.float32), out, (2, 3, 2), block, 0)
    finally:
        simt_wheel.set_seed(0)
    assert (out == 1).all()


def test_arrays_must_be_what_the_kernel_takes(simt_wheel: ModuleType) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        simt_wheel.run_broken("all_is_well", np.zeros(64), np.zeros(64, np.float32), (1, 1, 1), (64, 1, 1), 0)
