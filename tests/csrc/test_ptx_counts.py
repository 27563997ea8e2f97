"""What is counted while PTX is executed, on kernels whose counts are known."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from simt.ptx_counting import class_of
from simt.ptx_instructions import UnknownInstruction
from simt.ptx_loops import find_loops
from simt.warp_work import Work, work_of

# Each adds to what a kernel does that has a pointer in rd1, the same and 4 bytes for each thread in rd2, and its number
# in r1; shared memory at r2, and there 4 bytes for each thread at r3.
KERNELS = {
    "coalesced": "ld.global.b32 %r4, [%rd2]; st.global.b32 [%rd2], %r4;",
    "strided": "mul.wide.u32 %rd3, %r1, 32; add.s64 %rd3, %rd1, %rd3; ld.global.b32 %r4, [%rd3];",
    "vectors": "mul.wide.u32 %rd3, %r1, 16; add.s64 %rd3, %rd1, %rd3; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd3];",
    "same_word": "ld.global.b32 %r4, [%rd1+28]; ld.global.b64 %rd3, [%rd1+28];",
    "banks": "st.shared.b32 [%r3], %r1; bar.sync 0; ld.shared.b32 %r4, [%r3];",
    "four_way": "shl.b32 %r4, %r1, 4; add.s32 %r4, %r2, %r4; st.shared.b32 [%r4], %r1;",
    "one_way": "mul.lo.s32 %r4, %r1, 132; add.s32 %r4, %r2, %r4; st.shared.b32 [%r4], %r1;",
    "word_vectors": "shl.b32 %r4, %r1, 4; add.s32 %r4, %r2, %r4; st.shared.v4.b32 [%r4], {%r1, %r1, %r1, %r1};",
    "broadcast": "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2];",
    "divergent": """
        setp.ge.u32 %p1, %r1, 5; @%p1 bra $other;
        add.f32 %r4, %r4, %r4; bra.uni $join;
        $other: mul.f32 %r4, %r4, %r4; mul.f32 %r4, %r4, %r4;
        $join: ex2.approx.ftz.f32 %r4, %r4;""",
    "uniform": "setp.ge.u32 %p1, %r1, 500; @%p1 bra $join; add.f32 %r4, %r4, %r4; $join: rcp.approx.ftz.f32 %r4, %r4;",
    # Even lanes go through the inner loop three times and once, odd ones once and three times.
    "loops": """
        and.b32 %r4, %r1, 1; mov.b32 %r5, 0;
        $outer: xor.b32 %r6, %r4, %r5; mad.lo.s32 %r6, %r6, -2, 3;
        $inner: mul.f32 %r7, %r7, %r7; add.s32 %r6, %r6, -1; setp.gt.s32 %p1, %r6, 0; @%p1 bra $inner;
        add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, 2; @%p1 bra $outer;""",
    # Lane 0 multiplies in the first trip only, the others in the second.
    "trips": """
        mov.b32 %r5, 0;
        $trip: setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r5, 0; xor.pred %p2, %p1, %p2; @%p2 bra $past;
        mul.f32 %r7, %r7, %r7;
        $past: add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, 2; @%p1 bra $trip;""",
    "together": """
        mov.b32 %r5, 0;
        $trip: vote.sync.ballot.b32 %r6, %p1, -1; add.f32 %r4, %r4, %r4;
        add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, 3; @%p1 bra $trip;""",
    "atomics": "setp.lt.u32 %p1, %r1, 5; @%p1 atom.global.add.u32 %r4, [%rd1], %r1; red.global.add.f32 [%rd2], %r1;",
}  # fmt: skip
KERNEL = """
.entry count_{name}(.param .u64 count_{name}_param_0)
{{
.reg .pred %p<3>;
.reg .b32 %r<8>;
.reg .b64 %rd<4>;
.shared .align 16 .b8 memory_{name}[8192];
ld.param.b64 %rd1, [count_{name}_param_0];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd2, %rd1, %rd2;
mov.b32 %r2, memory_{name};
shl.b32 %r3, %r1, 2;
add.s32 %r3, %r2, %r3;
{text}
ret;
}}
"""
INTEGER, MOVES = 4, 3  # before the text


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    from simt.compile_simt import build

    ptx = "".join(KERNEL.format(name=name, text=text.replace("$", f"${name}_")) for name, text in KERNELS.items())
    return build(tmp_path_factory.mktemp("counted"), "splat_counted", ptx, "count_", count=True)


@pytest.fixture
def run(executor: ModuleType) -> Callable[..., Work]:
    def counted(name: str, threads: int = 32, blocks: int = 1) -> Work:
        memory = np.zeros(1024, np.float32)  # at the start of a sector, as torch's and CUDA's allocations are
        start = -memory.ctypes.data % 32 // 4
        executor.clear_counts()
        executor.run_ptx(f"count_{name}", (blocks, 1, 1), (threads, 1, 1), 0, [memory[start:]], False)
        (work,) = work_of(executor).values()
        return work

    return counted


pytestmark = [pytest.mark.slow, pytest.mark.simt, pytest.mark.minutes, pytest.mark.once("simt")]


@pytest.mark.parametrize(("name", "access", "lanes", "parts"), [
    ("coalesced", "global load", 32, 4),
    ("coalesced", "global store", 32, 4),
    ("strided", "global load", 32, 32),
    ("vectors", "global load", 32, 16),
    ("same_word", "global load", 64, 1 + 2),
    ("banks", "shared load", 32, 1),
    ("four_way", "shared store", 32, 4),
    ("one_way", "shared store", 32, 1),
    ("word_vectors", "shared store", 32, 4),
    ("broadcast", "shared load", 32, 1),
    ("atomics", "global atomic", 5 + 32, 1 + 4),
])  # fmt: skip
def test_memory_is_counted_by_sectors_and_wavefronts(
    run: Callable[..., Work], name: str, access: str, lanes: int, parts: int
) -> None:
    work = run(name)

    assert (work.lanes[access], work.parts[access]) == (lanes, parts)
    assert work.requests[access] == work.instructions[access]


def test_the_sides_of_a_branch_are_executed_once_each(run: Callable[..., Work]) -> None:
    work = run("divergent")

    assert work.instructions == {"integer": INTEGER + 1, "move": MOVES, "float": 3, "special": 1, "branch": 3}
    assert work.divergent == 1
    # Five lanes add and branch, the others multiply twice.
    assert work.lane_instructions == 32 * (INTEGER + MOVES + 1 + 1 + 1 + 1) + 5 * 2 + 27 * 2


def test_lanes_that_agree_do_not_diverge(run: Callable[..., Work]) -> None:
    work = run("uniform")

    assert work.divergent == 0
    assert work.instructions["float"] == 1
    assert work.active == 32


def test_a_loop_takes_the_trips_of_the_longest_lane_each_time(run: Callable[..., Work]) -> None:
    work = run("loops")

    assert work.instructions["float"] == 3 + 3
    assert work.lane_instructions == 32 * (INTEGER + MOVES + 1 + 1 + 2 * 5 + 4 * 4 + 1)


def test_what_lanes_do_in_different_trips_is_not_done_at_once(run: Callable[..., Work]) -> None:
    work = run("trips")

    assert work.instructions["float"] == 2
    assert work.divergent == 2


def test_what_lanes_do_together_divides_what_is_counted(run: Callable[..., Work]) -> None:
    work = run("together")

    assert (work.instructions["exchange"], work.instructions["float"], work.active) == (3, 3, 32)


def test_warps_and_launches_add_up(run: Callable[..., Work], executor: ModuleType) -> None:
    work = run("coalesced", threads=40, blocks=3)

    assert (work.launches, work.warps) == (1, 6)
    assert work.instructions["global load"] == 6
    assert work.parts["global load"] == 3 * (4 + 1)
    assert (work.read, work.written) == (5, 5)  # all blocks the same
    executor.run_ptx("count_banks", (1, 1, 1), (32, 1, 1), 0, [np.zeros(8, np.float32)], False)
    assert {name: each.launches for name, each in work_of(executor).items()} == {"count_coalesced": 1, "count_banks": 1}


@pytest.mark.parametrize(("opcode", "name"), [
    ("ld.param.b64", "move"), ("ld.f32", "global load"), ("ld.volatile.shared.v2.f32", "shared load"),
    ("ld.global.nc.v4.f32", "global load"), ("ld.local.f32", "move"), ("st.global.v2.b64", "global store"),
    ("atom.shared.add.u32", "shared atomic"), ("red.relaxed.gpu.global.add.f32", "global atomic"),
    ("shfl.sync.bfly.b32", "exchange"), ("bar.red.and.pred", "barrier"), ("bra.uni", "branch"),
    ("div.rn.f32", "special"), ("div.u32", "integer"), ("setp.lt.f32", "float"), ("cvt.rn.f32.s32", "integer"),
    ("fma.rn.f32", "float"), ("selp.f32", "move"), ("brev.b32", "integer"),
])  # fmt: skip
def test_an_instruction_has_the_class_that_its_name_says(opcode: str, name: str) -> None:
    assert class_of(opcode) == name


def test_loops_are_found_within_each_other() -> None:
    # 0 -> 1 -> 2 -> 2, 2 -> 3 -> 1, 3 -> 4
    found = find_loops([{1}, {2}, {2, 3}, {1, 4}, set()])

    assert found.parents == {1: None, 2: 1}
    assert list(found.innermost) == [None, 1, 2, 1, None]


def test_a_loop_that_is_entered_in_two_places_is_an_error() -> None:
    with pytest.raises(UnknownInstruction, match="entered in two places"):
        find_loops([{1, 2}, {2}, {1, 3}, set()])
