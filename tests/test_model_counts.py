"""ci/bench model: what it counts, and how it reads a disassembly."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from scenes import random_scene

import splat

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

import model_counts
import model_launches
import model_lists
from model_rasterizers import Shape, instructions
from model_sass import parse

pytestmark = [pytest.mark.slow, pytest.mark.once]


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return model_counts.build(tmp_path_factory.mktemp("follower"))


def scene(**kind: Any) -> dict[str, Any]:
    return random_scene(7, gaussians=400, width=83, height=61, **kind).arguments


def blends_by_definition(arguments: dict[str, Any]) -> int:
    """Pairs of pixel and Gaussian, from the projected Gaussians in the order of depth."""
    _, _, meta = splat.rasterization(**arguments, packed=False)
    rows, columns = torch.meshgrid(torch.arange(meta["height"]) + 0.5, torch.arange(meta["width"]) + 0.5, indexing="ij")
    transmittance = torch.ones_like(rows)
    finished = torch.zeros_like(rows, dtype=torch.bool)
    blends = 0
    seen = (meta["radii"][0] > 0).all(-1)
    for i in meta["depths"][0].argsort(stable=True).tolist():
        if not seen[i]:
            continue
        (x, y), (a, b, c) = meta["means2d"][0, i], meta["conics"][0, i]
        dx, dy = x - columns, y - rows
        exponent = 0.5 * (a * dx * dx + c * dy * dy) + b * dx * dy
        alpha = (meta["opacities"][0, i] * torch.exp(-exponent)).clamp_max(0.999)
        visible = (exponent >= 0) & (alpha >= 1 / 255) & ~finished
        following = transmittance * (1 - alpha)
        finished |= visible & (following <= 1e-4)
        visible &= ~finished
        transmittance = torch.where(visible, following, transmittance)
        blends += int(visible.sum())
    return blends


@pytest.mark.parametrize("kind", [{}, {"size": "mixed", "opacity": "solid"}, {"size": "tiny"}])
def test_both_followers_blend_what_the_rasterizer_blends(follower: ctypes.CDLL, kind: dict[str, str]) -> None:
    arguments = scene(**kind)
    counted = model_counts.count(arguments, follower)
    _, alphas, _ = splat.rasterization(**arguments, packed=False)
    expected = blends_by_definition(arguments)

    for followed in (counted.splat, counted.gsplat):
        torch.testing.assert_close(followed.alphas, alphas[0, ..., 0], atol=1e-5, rtol=0)
        assert followed.forward.of("pixel_blends") == followed.backward.of("pixel_blends")
        # Float32 may decide otherwise where an alpha is nearly 1/255.
        assert followed.forward.of("pixel_blends") == pytest.approx(expected, rel=1e-3)


def test_parts_of_a_loop_are_no_more_frequent_than_the_loop(follower: ctypes.CDLL) -> None:
    counted = model_counts.count(scene(size="mixed"), follower)

    for followed in (counted.splat, counted.gsplat):
        for direction in ("forward", "backward"):
            trips = followed.of(direction)
            assert trips.of("steps") >= trips.of("exponentials") >= trips.of("blending") > 0
            assert trips.of("steps") >= trips.of("visible") >= trips.of("blending")
            assert 32 * trips.of("blending") >= trips.of("pixel_blends")
    assert counted.gsplat.pairs >= counted.splat.pairs
    assert counted.gsplat.forward.of("tests") == 0 < counted.splat.forward.of("tests")
    # A warp of ours processes the Gaussians that it kept; one of gsplat's all.
    assert 32 * counted.splat.forward.of("tests") >= counted.splat.forward.of("steps")


def test_other_alphas_are_an_error(follower: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_counts, "gsplat_lists", lambda meta: model_counts.our_lists(meta)._replace(
        flatten_ids=meta["flatten_ids"].flip(0).contiguous()
    ))  # fmt: skip
    with pytest.raises(SystemExit, match=r"draws other alphas than .* for gsplat"):
        model_counts.count(scene(size="mixed"), follower)


FORWARD = """
    /*0000*/ S2R R0, SR_TID.X ;  /* 0x0 */
    /*0010*/ @!P0 BRA 0x40 ;
    /*0020*/ MOV R8, 0x40 ;
    /*0030*/ CALL.REL.NOINC 0x1c0 ;
    /*0040*/ BAR.SYNC.DEFER_BLOCKING 0x0 ;
    /*0050*/ @P1 BRA 0x70 ;
    /*0060*/ STS [R4], R8 ;
    /*0070*/ VOTE.ANY R0, PT, P1 ;
    /*0080*/ FSETP.GE.AND P2, PT, R5, RZ, PT ;
    /*0090*/ @!P2 BRA 0xc0 ;
    /*00a0*/ MUFU.EX2 R4, -R5 ;
    /*00b0*/ FMUL R4, R4, R9 ;
    /*00c0*/ @P1 BRA 0x110 ;
    /*00d0*/ @P3 BRA 0x130 ;
    /*00e0*/ FFMA R28, R9, R4, R28 ;
    /*00f0*/ FFMA R26, R9, R5, R26 ;
    /*0100*/ FFMA R27, R9, R6, R27 ;
    /*0110*/ LOP3.LUT P1, R0, R5, RZ, R0, 0xa0, !PT ;
    /*0120*/ @P1 BRA 0x80 ;
    /*0130*/ UIADD3 UR4, UR4, 0x20, URZ ;
    /*0140*/ @!P1 BRA 0x70 ;
    /*0150*/ @P1 BRA 0x40 ;
    /*0160*/ @P0 EXIT ;
    /*0170*/ STG.E desc[UR8][R6.64], R28 ;
    /*0180*/ EXIT ;
    /*01c0*/ RET.REL.NODEC R8 0x0 ;
"""

BACKWARD = """
    /*0000*/ S2R R0, SR_TID.X ;
    /*0010*/ @P0 BRA 0x50 ;
    /*0020*/ FFMA R1, R1, R2, R3 ;
    /*0030*/ @P1 BRA 0x20 ;
    /*0040*/ FMUL R1, R1, R2 ;
    /*0050*/ BAR.SYNC.DEFER_BLOCKING 0x0 ;
    /*0060*/ STS [R4], R8 ;
    /*0070*/ @!P1 BRA 0x60 ;
    /*0080*/ MUFU.EX2 R4, -R5 ;
    /*0090*/ VOTE.ANY R2, PT, P1 ;
    /*00a0*/ @!P2 BRA 0x150 ;
    /*00b0*/ SHFL.BFLY PT, R28, R41, 0x10, 0x1f ;
    /*00c0*/ @!P1 BRA 0xe0 ;
    /*00d0*/ SHFL.BFLY PT, R21, R2, 0x10, 0x1f ;
    /*00e0*/ @P2 BRA 0x150 ;
    /*00f0*/ REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR14][R28.64], R23 ;
    /*0100*/ @!P1 BRA 0x140 ;
    /*0110*/ LEA R22, P1, R43, UR24, 0x3 ;
    /*0120*/ REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR14][R22.64], R2 ;
    /*0140*/ REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR14][R20.64], R41 ;
    /*0150*/ UIADD3 UR9, UR9, 0x1, URZ ;
    /*0160*/ @!P1 BRA 0x80 ;
    /*0170*/ @!P1 BRA 0x50 ;
    /*0180*/ EXIT ;
"""


def test_the_instructions_of_a_forward_pass_are_told_apart() -> None:
    assert instructions(parse(FORWARD), Shape(backward=False, tests=True)) == {
        "warps": 5, "left out": 2, "batches": 3, "stagings": 1, "tests": 3, "steps": 5, "exponentials": 2, "visible": 4,
    }  # fmt: skip


def test_the_instructions_of_a_backward_pass_are_told_apart() -> None:
    # The shuffle and the atomics of absolute gradients, and a loop before the batches, are left out.
    assert instructions(parse(BACKWARD), Shape(backward=True, tests=False)) == {
        "warps": 3, "left out": 6, "batches": 2, "stagings": 2, "steps": 5, "blending": 6,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shape", "missing"),
    [
        (FORWARD.replace("MUFU.EX2", "MUFU.RCP"), Shape(backward=False, tests=True), "steps"),
        (FORWARD.replace("STS ", "STG "), Shape(backward=False, tests=True), "stagings"),
        (FORWARD, Shape(backward=True, tests=True), "blending"),
        (BACKWARD, Shape(backward=False, tests=False), "visible"),
        (BACKWARD.replace("BAR", "NOP"), Shape(backward=True, tests=False), "batches"),
    ],
)
def test_code_that_the_rules_do_not_fit_is_an_error(text: str, shape: Shape, missing: str) -> None:
    with pytest.raises(SystemExit, match=f"nothing that could be '{missing}'"):
        instructions(parse(text), shape)


def test_every_operator_of_a_default_call_is_known_by_its_launches() -> None:
    ours = model_launches.of_splat()

    assert ours.forward.own > 0 < ours.backward.own
    assert ours.forward.waits >= 1
    assert ours.backward.waits == 0


@pytest.mark.skipif(importlib.util.find_spec("gsplat") is None, reason="gsplat is not installed")
def test_gsplat_waits_for_two_sizes_and_an_inverse() -> None:
    assert model_launches.of_gsplat().forward.waits == 3


def test_the_loops_over_tiles_make_the_trips_of_their_longest_lanes(follower: ctypes.CDLL) -> None:
    _, _, meta = splat.rasterization(**scene(size="mixed"), packed=False)
    trips = model_lists.follow_lists(meta, follower)
    reached = (meta["radii"][0] > 0).all(-1)
    low = ((meta["means2d"][0] - meta["radii"][0]) / 16).floor()
    high = ((meta["means2d"][0] + meta["radii"][0]) / 16).ceil()
    most = torch.tensor([meta["tile_width"], meta["tile_height"]])
    columns, rows = ((high.clamp_min(0).minimum(most) - low.clamp_min(0).minimum(most)) * reached[:, None]).int().T
    expected = dict.fromkeys(("rows", "remainders", "quads"), 0)
    for warp_columns, warp_rows in zip(columns.split(32), rows.split(32), strict=True):
        for row in range(int(warp_rows.max())):
            in_row = warp_columns[warp_rows > row]
            expected["rows"] += 1
            expected["remainders"] += int((in_row % 4 > 0).any())
            expected["quads"] += int(in_row.max()) // 4

    assert {name: trips["gsplat list"].of(name) for name in expected} == expected
    assert trips["gsplat list"].of("warps") == len(rows.split(32))
    assert 0 < trips["splat list"].of("rows") <= expected["rows"]


LISTING = """
    /*0000*/ S2R R0, SR_TID.X ;
    /*0010*/ @P0 BRA 0x0c0 ;
    /*0020*/ @P0 BRA 0x060 ;
    /*0030*/ STG.E desc[UR6][R30.64], R13 ;
    /*0040*/ @P1 STG.E desc[UR6][R24.64], R22 ;
    /*0060*/ @!P1 BRA 0xc0 ;
    /*0070*/ STG.E desc[UR6][R30.64], R13 ;
    /*0074*/ STG.E desc[UR6][R30.64], R13 ;
    /*0078*/ STG.E desc[UR6][R30.64], R13 ;
    /*007c*/ STG.E desc[UR6][R30.64], R13 ;
    /*0080*/ STG.E desc[UR6][R30.64], R13 ;
    /*0084*/ STG.E desc[UR6][R30.64], R13 ;
    /*0088*/ STG.E desc[UR6][R30.64], R13 ;
    /*008c*/ STG.E desc[UR6][R30.64], R13 ;
    /*0090*/ @!P0 BRA 0x70 ;
    /*00a0*/ @!P0 BRA 0x20 ;
    /*00c0*/ EXIT ;
"""


def test_the_instructions_that_list_pairs_are_told_apart() -> None:
    found = model_lists.listing_instructions(parse(LISTING))

    assert found == {"warps": 3, "rows": 3, "remainders": 2, "quads": 9}
    with pytest.raises(SystemExit, match="do not write four pairs"):
        model_lists.listing_instructions(parse(LISTING.replace("/*008c*/ STG", "/*008c*/ LDG")))
