"""The executor of PTX: what instructions do, and that PTX which was changed does not pass."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import programs
import pytest
import torch
from builds import cuobjdump
from loadable import PARTS, write
from operator_arguments import gaussians
from simt.ptx_instructions import UnknownInstruction, statement
from simt.ptx_translator import kernels_in, translate

OPS = torch.ops.splat
ENTRY = """
.entry _ZN1a1kEPf(.param .u64 _ZN1a1kEPf_param_0)
{{
.reg .b32 %r<3>;
.reg .b64 %rd<2>;
ld.param.b64 %rd1, [_ZN1a1kEPf_param_0];
{}
ret;
}}
"""
# Each of these writes a word of each lane's.
WORDS = {
    "mov.u32 %r1, %laneid;": list(range(32)),
    "mov.u32 %r1, %lanemask_lt;": [(1 << lane) - 1 for lane in range(32)],
    "mov.u32 %r1, 0; setp.lt.u32 %p1, %r0, 5; @%p1 bra $past; activemask.b32 %r1; $past: mov.u32 %r1, %r1;": (
        [0] * 5 + [0xFFFFFFE0] * 27
    ),
    "and.b32 %r2, %r0, 3; match.any.sync.b32 %r1, %r2, -1;": [0x11111111 << lane % 4 for lane in range(32)],
    "sub.s32 %r2, %r0, 40; redux.sync.max.s32 %r1, %r2, -1;": [2**32 - 9] * 32,
    "setp.lt.u32 %p1, %r0, 5; bar.red.popc.u32 %r1, 0, %p1;": [5] * 32,
    "mov.f32 %f1, 0f00000001; add.f32 %f2, %f1, 0f00000000; mov.b32 %r1, %f2;": [1] * 32,
    "mov.f32 %f1, 0f00000001; add.ftz.f32 %f2, %f1, 0f00000000; mov.b32 %r1, %f2;": [0] * 32,
    "mov.f32 %f1, 0f00800000; mul.ftz.f32 %f2, %f1, 0f3F000000; mov.b32 %r1, %f2;": [0] * 32,
    "mov.f32 %f1, 0f00800000; mul.f32 %f2, %f1, 0f3F000000; mov.b32 %r1, %f2;": [0x400000] * 32,
    "mov.f32 %f1, 0f00000001; setp.gt.ftz.f32 %p1, %f1, 0f00000000; selp.u32 %r1, 1, 0, %p1;": [0] * 32,
    "mov.f32 %f1, 0fBF800000; copysign.f32 %f2, %f1, 0f40000000; mov.b32 %r1, %f2;": [0xC0000000] * 32,
    "mov.f32 %f1, 0f40800000; rsqrt.approx.ftz.f32 %f2, %f1; mov.b32 %r1, %f2;": [0x3F000000] * 32,
    "mov.f32 %f1, 0f41000000; lg2.approx.ftz.f32 %f2, %f1; mov.b32 %r1, %f2;": [0x40400000] * 32,
    "mov.f32 %f1, 0f40490FDB; cos.approx.ftz.f32 %f2, %f1; mov.b32 %r1, %f2;": [0xBF800000] * 32,
    "mov.f32 %f1, 0f3FC90FDB; sin.approx.ftz.f32 %f2, %f1; mov.b32 %r1, %f2;": [0x3F800000] * 32,
    "mov.u32 %r2, 0x1FF; cvt.s32.s8 %r1, %r2;": [2**32 - 1] * 32,
    "cvt.u16.u32 %r2, %r0; mul.wide.u16 %r1, %r2, -2;": [lane * 65534 for lane in range(32)],
    "bfi.b32 %r1, %r0, 0x78, 4, 3;": [8 | (lane & 7) << 4 for lane in range(32)],
    "mov.u32 %r2, 28; bfi.b32 %r3, %r0, 7, %r2, 8; bfi.b32 %r1, %r0, %r3, 64, 4;": [
        (lane & 15) << 28 | 7 for lane in range(32)
    ],
    "mul.wide.u32 %rd3, %r0, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r0; "
    "atom.global.sys.add.u32 %r2, [%rd3], 5; ld.global.u32 %r3, [%rd3]; mad.lo.u32 %r1, %r2, 100, %r3;": [
        101 * lane + 5 for lane in range(32)
    ],
    "st.local.u32 [%rd2+4], %r0; add.u64 %rd3, %rd2, 4; ld.u32 %r1, [%rd3];": list(range(32)),
    "mov.u32 %r2, words; mad.lo.s32 %r2, %r0, 4, %r2; st.shared.u32 [%r2], %r0; barrier.sync 0; "
    "xor.b32 %r3, %r0, 31; mov.u32 %r2, words; mad.lo.s32 %r2, %r3, 4, %r2; ld.shared.u32 %r1, [%r2];": [
        31 - lane for lane in range(32)
    ],
}
WRITTEN = """
.extern .shared .align 4 .b8 words[];
{}
.entry leaving(.param .u64 leaving_param_0)
{{
.reg .pred %p<2>;
.reg .b32 %r<3>;
.reg .b64 %rd<4>;
ld.param.u64 %rd1, [leaving_param_0];
mov.u32 %r0, %laneid;
setp.gt.u32 %p1, %r0, 15;
@%p1 bra $end;
setp.ne.u32 %p1, %r0, 3;
vote.sync.ballot.b32 %r1, %p1, -1;
mul.wide.u32 %rd3, %r0, 4;
add.s64 %rd3, %rd1, %rd3;
st.global.u32 [%rd3], %r1;
$end:
ret;
}}
"""
WORD = """
.entry word{number}_(.param .u64 word{number}_param_0)
{{
.local .align 4 .b8 depot{number}[8];
.reg .b64 %SPL;
.reg .pred %p<2>;
.reg .b32 %r<4>;
.reg .f32 %f<3>;
.reg .b64 %rd<4>;
mov.u64 %SPL, depot{number};
cvta.local.u64 %rd2, %SPL;
ld.param.u64 %rd1, [word{number}_param_0];
mov.u32 %r0, %laneid;
{instructions}
mul.wide.u32 %rd3, %r0, 4;
add.s64 %rd3, %rd1, %rd3;
st.global.u32 [%rd3], %r1;
ret;
}}
"""


def test_an_instruction_that_is_not_known_is_named() -> None:
    with pytest.raises(UnknownInstruction, match=r"^frobnicate\.b32 %r1, %r2$"):
        translate(kernels_in(ENTRY.format("frobnicate.b32 %r1, %r2;"), "1a1k"))


def test_so_is_one_with_a_type_that_is_not_known() -> None:
    with pytest.raises(UnknownInstruction, match=r"^add\.f16 "):
        statement("add.f16", "%h1, %h2, %h3", {})


def test_a_part_of_a_vector_that_nobody_uses_is_not_read() -> None:
    text = "ld.global.v2.b32 {%r1, %r2}, [%rd1];\nst.global.b32 [%rd1], %r1;"

    source = translate(kernels_in(ENTRY.format(text), "1a1k"))

    assert source.count("load<uint32_t>") == 1


def test_eight_words_at_once_are_read_and_written() -> None:
    """As nvcc 13.0 makes them for 12.0."""
    words = ", ".join(f"%r{number}" for number in range(1, 9))
    text = f"ld.global.v8.b32 {{{words}}}, [%rd1];\nst.global.v8.b32 [%rd1], {{{words}}};"

    source = translate(kernels_in(ENTRY.format(text), "1a1k"))

    for word in range(8):
        assert source.count(f"load<uint32_t>(address + {4 * word})") == 1
        assert source.count(f"store<uint32_t>(address + {4 * word}, r{word + 1})") == 1


def linked_ptx(folder: Path) -> str:
    """The PTX of two files with relocatable device code, one behind the other; empty without nvcc.

    Of what nvlink makes of them, only machine code is left.
    """
    beside = (nvcc for parent in Path(cuobjdump()).resolve().parents for nvcc in parent.glob("nvidia/cu*/bin/nvcc"))
    nvcc = next(beside, programs.find_optional("nvcc"))
    for name in ("whole", "part") if nvcc else ():
        command = [str(nvcc), "-rdc=true", "-arch=compute_90", "-ptx", f"{name}.cu", "-o", f"{name}.ptx"]
        subprocess.run(command, cwd=write(folder, PARTS), check=True)
    return "".join(path.read_text() for path in folder.glob("*.ptx"))


def changed(ptx: str, kernel: str, pattern: str, text: str) -> str:
    """The PTX with one instruction of a kernel changed."""
    start = ptx.index(f".entry {kernel}")
    before, after = ptx[:start], ptx[start:]
    made, count = re.subn(pattern, text, after, count=1)
    assert count == 1
    return before + made


@pytest.fixture(scope="session")  # a process can define its operators once, and pytest may come back to this module
def broken(simt_wheel: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Two kernels of the wheel's, each with one instruction changed: a barrier left out, a sum of another register.

    With them, those written above, and one that calls functions of two files.
    """
    from simt.compile_simt import build

    three, four = (
        next(name for name in simt_wheel.in_ptx if name.startswith(f"_ZN5splat7kernels9rasterizeILi{channels}E"))
        for channels in (3, 4)
    )
    ptx = changed(simt_wheel.ptx, three, r"\n\s*bar\.sync\s[^;]*;", "\n")
    ptx = changed(ptx, four, r"ex2\.approx\.ftz\.f32(\s+%\w+), %\w+;", r"ex2.approx.ftz.f32\1, 0f00000000;")
    words = "".join(WORD.format(number=number, instructions=text) for number, text in enumerate(WORDS))
    folder = tmp_path_factory.mktemp("broken")
    return build(
        folder,
        "splat_ptx_broken",
        ptx + WRITTEN.format(words) + linked_ptx(tmp_path_factory.mktemp("linked")),
        r"9rasterizeILi[34]E|stage_gaussians|^word|^leaving|^_Z5whole",
    )


@pytest.mark.minutes
@pytest.mark.usefixtures("broken")
def test_a_barrier_that_is_left_out_is_noticed() -> None:
    with pytest.raises(RuntimeError, match=r"with no barrier between|before this block wrote it"):
        torch.ops.splat_ptx_broken.rasterize(**gaussians(3, channels=3))


@pytest.mark.minutes
@pytest.mark.usefixtures("broken")
def test_an_operand_that_is_changed_gives_another_picture() -> None:
    arguments = gaussians(3, channels=4)

    picture = torch.ops.splat_ptx_broken.rasterize(**arguments)[0]

    assert not torch.allclose(picture, OPS.rasterize(**arguments)[0], atol=1e-3)


def test_what_is_executed_is_in_the_library(simt_wheel: ModuleType) -> None:
    """All that nvcc compiled."""
    entries = set(re.findall(r"\.entry\s+([\w$]+)", simt_wheel.ptx))

    assert simt_wheel.in_ptx == entries
    assert len(simt_wheel.in_ptx) == 39


def test_every_multiplication_names_its_rounding(simt_ptx: ModuleType) -> None:
    """So ptxas contracts none of them to a fused operation (PTX ISA, "Floating Point Instructions": mul)."""
    opcodes = set(re.findall(r"\bmul[\w.]*\.f(?:32|64)\b", simt_ptx.ptx))

    assert opcodes
    assert opcodes <= {"mul.rn.f32", "mul.rn.ftz.f32", "mul.rn.f64"}


@pytest.mark.minutes
@pytest.mark.needs_torch("cuda")
def test_architectures_before_10_have_the_same_ptx(older_ptx: dict[str, str]) -> None:
    oldest, newest = (kernels_in(older_ptx[name], "5splat7kernels") for name in ("7.5", "9.0"))

    assert len(oldest) == 39
    assert oldest == newest


@pytest.mark.minutes
@pytest.mark.parametrize("text", WORDS)
def test_an_instruction_does_what_ptx_says(broken: ModuleType, text: str) -> None:
    out = np.zeros(32, np.uint32)

    broken.run_ptx(f"word{list(WORDS).index(text)}_", (1, 1, 1), (4, 8, 1), 128, [out], False)

    assert out.tolist() == WORDS[text]


@pytest.mark.minutes
def test_device_functions_of_two_files_call_each_other(broken: ModuleType) -> None:
    if "_Z5wholePf" not in broken.in_ptx:
        pytest.skip("there is no nvcc here")
    numbers = np.arange(32, dtype=np.float32)

    broken.run_ptx("_Z5wholePf", (1, 1, 1), (32, 1, 1), 0, [numbers], False)

    assert numbers.tolist() == [4 * number + 1 for number in range(32)]


@pytest.mark.minutes
@pytest.mark.parametrize("seed", [0, 1])
def test_lanes_that_have_ended_are_waited_for_unless_the_launch_says_otherwise(broken: ModuleType, seed: int) -> None:
    out = np.zeros(32, np.uint32)
    broken.set_seed(seed)
    try:
        with pytest.raises(broken.KernelError, match=r"divergence in a warp .* has ended"):
            broken.run_ptx("leaving", (1, 1, 1), (32, 1, 1), 0, [out], False)
        broken.run_ptx("leaving", (1, 1, 1), (32, 1, 1), 0, [out], True)
    finally:
        broken.set_seed(0)

    assert out.tolist() == [0xFFF7] * 16 + [0] * 16
