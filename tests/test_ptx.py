"""The executor of PTX: what instructions do, and that PTX which was changed does not pass."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
import torch
from simt.ptx_instructions import UnknownInstruction, statement
from simt.ptx_translator import kernels_in, translate
from test_gradients_rasterize import gaussians

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


def changed(ptx: str, kernel: str, pattern: str, text: str) -> str:
    """The PTX with one instruction of a kernel changed."""
    start = ptx.index(f".entry {kernel}")
    before, after = ptx[:start], ptx[start:]
    made, count = re.subn(pattern, text, after, count=1)
    assert count == 1
    return before + made


@pytest.fixture(scope="module")
def broken(simt_wheel: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Two kernels of the wheel's, each with one instruction changed: a barrier left out, a sum of another register."""
    from simt.compile_simt import build

    if not simt_wheel.in_ptx:
        pytest.skip("nothing here reads the wheel's PTX")
    three, four = (
        next(name for name in simt_wheel.in_ptx if name.startswith(f"_ZN5splat7kernels9rasterizeILi{channels}E"))
        for channels in (3, 4)
    )
    ptx = changed(simt_wheel.ptx, three, r"\n\s*bar\.sync\s[^;]*;", "\n")
    ptx = changed(ptx, four, r"ex2\.approx\.ftz\.f32(\s+%\w+), %\w+;", r"ex2.approx.ftz.f32\1, 0f00000000;")
    return build(tmp_path_factory.mktemp("broken"), "splat_ptx_broken", ptx, "9rasterizeILi")


@pytest.mark.usefixtures("broken")
def test_a_barrier_that_is_left_out_is_noticed() -> None:
    with pytest.raises(RuntimeError, match=r"with no barrier between|before this block wrote it"):
        torch.ops.splat_ptx_broken.rasterize(**gaussians(3, channels=3))


@pytest.mark.usefixtures("broken")
def test_an_operand_that_is_changed_gives_another_picture() -> None:
    arguments = gaussians(3, channels=4)

    picture = torch.ops.splat_ptx_broken.rasterize(**arguments)[0]

    assert not torch.allclose(picture, OPS.rasterize(**arguments)[0], atol=1e-3)


def test_what_is_executed_is_in_the_library(simt_wheel: ModuleType) -> None:
    """All that nvcc compiled but CUB's, which runtime.cpp stands for."""
    if not simt_wheel.in_ptx:
        pytest.skip("nothing here reads the wheel's PTX")
    entries = set(re.findall(r"\.entry\s+([\w$]+)", simt_wheel.ptx))

    assert simt_wheel.in_ptx == {name for name in entries if not name.startswith("_ZN3cub")}
    assert len(simt_wheel.in_ptx) == 32


def test_every_multiplication_names_its_rounding(simt_ptx: ModuleType) -> None:
    """So ptxas contracts none of them to a fused operation (PTX ISA, "Floating Point Instructions": mul)."""
    if not simt_ptx.in_ptx:
        pytest.skip("nothing here reads the wheel's PTX")
    opcodes = set(re.findall(r"\bmul[\w.]*\.f(?:32|64)\b", simt_ptx.ptx))

    assert opcodes
    assert opcodes <= {"mul.rn.f32", "mul.rn.ftz.f32"}


@pytest.mark.needs_torch("cuda")
def test_architectures_before_10_have_the_same_ptx(older_ptx: dict[str, str]) -> None:
    oldest, newest = (kernels_in(older_ptx[name], "5splat7kernels") for name in ("7.5", "9.0"))

    assert len(oldest) == 32
    assert oldest == newest
