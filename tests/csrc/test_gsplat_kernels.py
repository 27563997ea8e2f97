"""gsplat 1.5.3's own kernels, executed on the CPU, against splat: lists, pictures and gradients of the same scenes.

Its installed package has their sources, which nvcc compiles to PTX for tests/simt. What differs is in docs/gsplat.md.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
from parts import require_all_parts
from scenes import Scene, random_scene
from torch import Tensor

import splat
from splat.ops.pixels_rays import rasterize_along_rays
from splat.ops.projection import rotation_matrices

gsplat = pytest.importorskip("gsplat", reason="its kernels are executed; ci/test installs it")
import gsplat_sources  # noqa: E402
from simt import gsplat16_kernels, gsplat_kernels  # noqa: E402
from simt.compile_simt import build  # noqa: E402
from simt.gsplat_kernels import CompiledModule, build_gsplat, in_place_of  # noqa: E402
from unscented_cases import LENSES, TRANSFORMS, moved  # noqa: E402

require_all_parts()
OPS = torch.ops.splat
COUNT, WIDTH, HEIGHT, TILE = 300, 48, 40, 16
MAX_ALPHA = 0.999  # of 1.5.3
LEAVES = ("means", "quats", "scales", "opacities", "colors", "viewmats")
GSPLAT_16 = os.environ.get("SPLAT_TEST_GSPLAT16", "")
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "harmonics": {"sh_degree": 3},
    "ortho": {"camera_model": "ortho"},
    "fisheye": {"camera_model": "fisheye"},
    "antialiased": {"rasterize_mode": "antialiased"},
    "background": {"backgrounds": torch.tensor([[0.1, 0.5, 0.9], [1.0, 0.0, 0.3]])},
    "clipped": {"near_plane": 0.5, "far_plane": 2.5, "radius_clip": 3.0, "eps2d": 0.1},
    "large tiles": {"tile_size": 32},
}
pytestmark = [pytest.mark.needs_torch("cuda"), pytest.mark.slow, pytest.mark.simt, pytest.mark.minutes]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> CompiledModule:
    """gsplat's kernels."""
    try:
        gsplat_sources.find_sources()
        gsplat_sources.find_nvcc()
    except SystemExit as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("gsplat")
    ptx = gsplat_sources.compile_ptx(folder, gsplat_sources.WITH_LENSES).read_text(encoding="utf-8")
    return build_gsplat(folder, ptx)


class Drawn(NamedTuple):
    """What came of a scene."""

    picture: Tensor
    alphas: Tensor
    meta: dict[str, Any]
    gradients: dict[str, Tensor]

    @property
    def seen(self) -> Tensor:
        return (self.meta["radii"] > 0).all(-1)


def scene(seed: int = 5, harmonics: bool = False, **kind: Any) -> Scene:
    """What two cameras see."""
    views = kind.pop("views", ("front", "inside"))
    made = random_scene(seed, gaussians=COUNT, width=WIDTH, height=HEIGHT, views=views, **{"size": "mixed", **kind})
    coefficients = torch.randn(COUNT, 16, 3, generator=torch.Generator().manual_seed(seed)) * 0.3
    return made.with_colors(coefficients) if harmonics else made


def draw(rasterization: Any, drawn: Scene, **form: Any) -> Drawn:
    """Forward and backward, with random gradients of picture and alphas."""
    leaves = {name: getattr(drawn, name).clone().requires_grad_() for name in LEAVES}
    others = {"Ks": drawn.Ks, "width": drawn.width, "height": drawn.height, "packed": False, "absgrad": True}
    picture, alphas, meta = rasterization(**leaves, **others, **form)
    meta["means2d"].retain_grad()
    generator = torch.Generator().manual_seed(0)
    weights = [torch.rand(each.shape, generator=generator) for each in (picture, alphas)]
    (picture * weights[0] + alphas * weights[1]).sum().backward()
    gradients = {name: leaf.grad for name, leaf in leaves.items()}
    gradients |= {"means2d": meta["means2d"].grad, "absgrad": meta["means2d"].absgrad}
    return Drawn(picture.detach(), alphas.detach(), meta, gradients)


def draw_both(theirs: CompiledModule, drawn: Scene, **form: Any) -> tuple[Drawn, Drawn]:
    with in_place_of(theirs):
        other = draw(gsplat.rasterization, drawn, **form)
    return draw(splat.rasterization, drawn, **form), other


def assert_close(found: Tensor | None, expected: Tensor | None, tolerance: float, what: str) -> None:
    """Of the largest value."""
    assert found is not None
    assert expected is not None
    off = (found - expected).abs().max() / expected.abs().max().clamp_min(1e-30)
    assert off <= tolerance, f"{what}: off by {off:.2g} of the largest"


# Whole calls


@pytest.mark.parametrize("form", FORMS)
def test_pictures_and_gradients_are_those_of_gsplat_s_kernels(theirs: CompiledModule, form: str) -> None:
    fisheye = form == "fisheye"  # whose angles are rounded otherwise
    ours, other = draw_both(theirs, scene(harmonics=form == "harmonics"), **FORMS[form])

    assert torch.equal(ours.meta["radii"], other.meta["radii"])
    assert other.seen.sum() > 150
    for name in ("means2d", "depths", "conics"):
        found, expected = (each.meta[name].detach()[other.seen] for each in (ours, other))
        assert_close(found, expected, 1e-5, name)
    off = torch.cat([ours.picture - other.picture, ours.alphas - other.alphas], -1).abs().amax(-1)
    assert off.max() <= 1 / 255, "more than one blend at the threshold"
    assert (off > 1e-5).double().mean() <= (1e-3 if fisheye else 0), "pixels that differ"
    for name, expected in other.gradients.items():
        found = ours.gradients[name]
        if name == "viewmats":  # but for the last row
            found, expected = found[:, :3], expected[:, :3]
        assert_close(found, expected, 2e-4 if fisheye else 5e-5, name)


@pytest.mark.skipif(not GSPLAT_16, reason="SPLAT_TEST_GSPLAT16 does not name the package of gsplat 1.6.0's sources")
def test_with_its_largest_alpha_the_kernels_of_1_6_draw_the_same(tmp_path: Path) -> None:
    ptx = gsplat_sources.compile_ptx16(tmp_path, Path(GSPLAT_16)).read_text(encoding="utf-8")
    executor = build(tmp_path / "simt", "gsplat16_ptx", ptx, gsplat16_kernels.KERNELS)
    drawn = scene(harmonics=True, views=("front",))
    camera = {"viewmats": drawn.viewmats, "Ks": drawn.Ks, "width": drawn.width, "height": drawn.height}
    results = []
    for function in (partial(splat.rasterization, max_alpha=0.99), partial(gsplat16_kernels.rasterization, executor)):
        leaves = {name: getattr(drawn, name).clone().requires_grad_() for name in LEAVES[:5]}
        picture, alphas, _ = function(**leaves, **camera, sh_degree=3, packed=False)
        weights = torch.rand(*picture.shape[:3], 4, generator=torch.Generator().manual_seed(0))
        (torch.cat([picture, alphas], -1) * weights).sum().backward()
        results.append({"picture": picture, "alphas": alphas} | {name: leaf.grad for name, leaf in leaves.items()})

    for name, expected in results[1].items():
        assert_close(results[0][name], expected, 1e-5, name)


def test_only_gsplat_has_a_gradient_of_the_last_row_of_poses(theirs: CompiledModule) -> None:
    ours, other = draw_both(theirs, scene(harmonics=True), sh_degree=3)

    assert (ours.gradients["viewmats"][:, 3] == 0).all()
    assert (other.gradients["viewmats"][:, 3] != 0).any()


# The unscented transform, whose cases are those of test_unscented.py


def unscented(function: Any, drawn: Scene, lens: str, shutter: Any, transform: Any) -> tuple[Tensor, ...]:
    """Radii, means, depths, conics and compensations."""
    options: dict[str, Any] = {"rolling_shutter": shutter, "ut_params": transform, **LENSES[lens]}
    if shutter.name != "GLOBAL":
        options["viewmats_rs"] = moved(drawn.viewmats)
    gaussians = drawn.means, drawn.quats, drawn.scales, drawn.opacities, drawn.viewmats, drawn.Ks
    return function(*gaussians, drawn.width, drawn.height, calc_compensations=True, **options)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("lens", "shutter", "transform"),
    [
        *((lens, "GLOBAL", "default") for lens in LENSES),
        *(("radial", each.name, "default") for each in splat.RollingShutterType if each.name != "GLOBAL"),
        *(("opencv", "GLOBAL", transform) for transform in TRANSFORMS),
    ],
)
def test_the_unscented_transform_is_that_of_gsplat_s_kernel(
    theirs: CompiledModule, lens: str, shutter: str, transform: str
) -> None:
    drawn = scene(9, views=("front", "inside"))
    wrapper = gsplat.cuda._wrapper
    parameters = wrapper.UnscentedTransformParameters(**vars(TRANSFORMS[transform]))
    shutters = wrapper.RollingShutterType[shutter]
    with in_place_of(theirs), mock.patch.dict(LENSES, as_gsplat_s(lens)):
        expected = unscented(gsplat.fully_fused_projection_with_ut, drawn, lens, shutters, parameters)
    found = unscented(splat.fully_fused_projection_with_ut, drawn, lens, shutters, parameters)

    seen, other = ((each[0] > 0).all(-1) for each in (found, expected))
    assert other.sum() > 100
    assert (seen | other).equal(seen)
    if "PIXELDIST_TO_ANGLE" in lens:  # where gsplat asks Newton's method for a millionth of a pixel, in float32
        assert (seen & ~other).sum() > 0
    else:
        assert seen.equal(other)
    assert (found[0] != expected[0])[other].double().mean() < 0.01
    for name, one, two in zip(("means2d", "depths", "conics", "compensations"), found[1:], expected[1:], strict=True):
        off = (one - two)[other].abs().flatten()
        # By the weights of a hundred that gsplat's sums have, and for a rolling shutter where a row is rounded to.
        assert off.quantile(0.98) <= 1e-3 * two[other].abs().max(), name


@pytest.mark.parametrize(
    ("lens", "shutter", "with_ut"),
    [
        # Of an f-theta lens that is an inverse, gsplat draws fewer Gaussians.
        *((lens, "GLOBAL", True) for lens in LENSES if "PIXELDIST_TO_ANGLE" not in lens),
        ("radial", "ROLLING_TOP_TO_BOTTOM", True),
        ("fisheye", "ROLLING_RIGHT_TO_LEFT", True),
        ("plain", "GLOBAL", False),
        ("fisheye without coefficients", "GLOBAL", False),
    ],
)
def test_pictures_and_gradients_along_rays_are_those_of_gsplat_s_kernels(
    theirs: CompiledModule, lens: str, shutter: str, with_ut: bool
) -> None:
    drawn = scene(9, views=("front", "inside"))
    shutters = gsplat.cuda._wrapper.RollingShutterType[shutter]
    options: dict[str, Any] = {"rolling_shutter": shutters, "with_ut": with_ut, "with_eval3d": True, "packed": False}
    options["backgrounds"] = FORMS["background"]["backgrounds"]
    if shutter != "GLOBAL":
        options["viewmats_rs"] = moved(drawn.viewmats)

    def draw_along_rays(rasterization: Any, kind: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        names = [name for name in LEAVES if name != "viewmats"]
        leaves = {name: getattr(drawn, name).clone().requires_grad_() for name in names}
        picture, alphas, _ = rasterization(**{**drawn.arguments, **leaves, **options, **kind})
        v_picture, v_alphas = random_v(picture)
        gradients = torch.autograd.grad([picture, alphas], list(leaves.values()), [v_picture, v_alphas])
        return torch.cat([picture, alphas], -1).detach(), dict(zip(names, gradients, strict=True))

    with in_place_of(theirs):
        expected, gradients = draw_along_rays(gsplat.rasterization, as_gsplat_s(lens)[lens])
    found, own = draw_along_rays(splat.rasterization, LENSES[lens])
    off = (found - expected).abs().amax(-1)
    # Where a radius is rounded otherwise, a tile has one Gaussian more or less.
    assert (off > 1e-4).double().mean() < 0.02
    for name, gradient in gradients.items():
        assert (own[name] - gradient).norm() <= 0.02 * gradient.norm(), name


def as_gsplat_s(lens: str) -> dict[str, dict[str, Any]]:
    """The lens with gsplat's classes."""
    options = dict(LENSES[lens])
    if "ftheta_coeffs" in options:
        wrapper, own = gsplat.cuda._wrapper, options["ftheta_coeffs"]
        kind = wrapper.FThetaPolynomialType[own.reference_poly.name]
        options["ftheta_coeffs"] = wrapper.FThetaCameraDistortionParameters(**{**vars(own), "reference_poly": kind})
    return {lens: options}


# Each kernel with the same input


class Projected(NamedTuple):
    """What gsplat's kernel makes of a scene."""

    means2d: Tensor
    conics: Tensor
    colors: Tensor
    opacities: Tensor
    radii: Tensor
    depths: Tensor


@pytest.fixture(scope="module")
def projected(theirs: CompiledModule) -> Projected:
    made = scene(6)
    radii, means2d, depths, conics, _ = theirs.projection_ewa_3dgs_fused_fwd(
        made.means, None, made.quats, made.scales, made.opacities, made.viewmats, made.Ks, WIDTH, HEIGHT,
        0.3, 0.01, 1e10, 0.0, False, theirs.PINHOLE,
    )  # fmt: skip
    assert radii is not None
    assert means2d is not None
    assert depths is not None
    assert conics is not None
    images = len(made.viewmats)
    colors, opacities = made.colors.repeat(images, 1, 1), made.opacities.repeat(images, 1)
    return Projected(means2d, conics, colors, opacities, radii, depths)


def lists(theirs: CompiledModule, projected: Projected, tile: int = TILE) -> tuple[Tensor, ...]:
    """gsplat's: numbers of tiles, keys, indices, and where tiles begin."""
    images, columns, rows = len(projected.radii), -(-WIDTH // tile), -(-HEIGHT // tile)
    tiles, keys, ids = theirs.intersect_tile(
        projected.means2d, projected.radii, projected.depths, None, None, images, tile, columns, rows, True, False
    )
    return tiles, keys, ids, theirs.intersect_offset(keys, images, columns, rows)


@pytest.mark.parametrize("tile", [16, 5, 32])
def test_lists_are_those_of_gsplat_s_kernels(theirs: CompiledModule, projected: Projected, tile: int) -> None:
    images, columns, rows = len(projected.radii), -(-WIDTH // tile), -(-HEIGHT // tile)
    tiles, keys, ids = splat.isect_tiles(projected.means2d, projected.radii, projected.depths, tile, columns, rows)
    offsets = splat.isect_offset_encode(keys, images, columns, rows)

    assert len(ids) > 500
    for found, expected in zip((tiles, keys, ids, offsets), lists(theirs, projected, tile), strict=True):
        assert torch.equal(found, expected)


def rasterized(
    theirs: CompiledModule, projected: Projected, offsets: Tensor, ids: Tensor
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """By gsplat's kernels: colours, alphas and last indices; gradients."""
    shared = (*projected[:4], None, None, WIDTH, HEIGHT, TILE, offsets, ids)
    picture, alphas, last = theirs.rasterize_to_pixels_3dgs_fwd(*shared)
    gradients = theirs.rasterize_to_pixels_3dgs_bwd(*shared, alphas, last, *random_v(picture), True)
    return (picture, alphas, last), tuple(each for each in gradients if each is not None)


def random_v(picture: Tensor) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(picture.shape, generator=generator), torch.randn(*picture.shape[:3], 1, generator=generator)


def test_pairs_that_we_leave_out_change_nothing_in_gsplat(theirs: CompiledModule, projected: Projected) -> None:
    _, _, every, offsets = lists(theirs, projected)
    _, ids, begins = OPS.intersect(
        projected.means2d, projected.radii, projected.depths, projected.conics, projected.opacities,
        None, len(projected.radii), TILE, offsets.shape[2], offsets.shape[1],
    )  # fmt: skip
    expected, found = rasterized(theirs, projected, offsets, every), rasterized(theirs, projected, begins, ids)

    assert len(ids) < 0.9 * len(every)
    for one, other in zip(found[0][:2], expected[0][:2], strict=True):
        assert torch.equal(one, other)
    for one, other in zip(found[1], expected[1], strict=True):  # sums in another order: batches begin elsewhere
        assert_close(one, other, 1e-6, "a gradient")


def test_the_rasterizer_is_gsplat_s(theirs: CompiledModule, projected: Projected) -> None:
    _, _, ids, offsets = lists(theirs, projected)
    (picture, alphas, last), gradients = rasterized(theirs, projected, offsets, ids)
    shared = (*projected[:4], None, None, WIDTH, HEIGHT, TILE, offsets, ids)
    ours = OPS.rasterize(*shared, MAX_ALPHA)
    v_means2d, v_absolute, *others = OPS.rasterize_backward(*shared, MAX_ALPHA, alphas, last, *random_v(picture), True)

    assert (ours[0] - picture).abs().max() <= 1e-5
    assert (ours[1] - alphas).abs().max() <= 1e-5
    assert torch.equal(ours[2], last)
    names = ("absgrad", "means2d", "conics", "colors", "opacities")
    for name, found, expected in zip(names, (v_absolute, v_means2d, *others[:3]), gradients, strict=True):
        assert_close(found, expected, 2e-5, name)


@pytest.mark.parametrize("tile", [16, 8])
def test_gaussians_along_rays_are_those_of_gsplat_s_kernels(theirs: CompiledModule, tile: int) -> None:
    made = scene(6)
    images, columns, rows = len(made.viewmats), -(-WIDTH // tile), -(-HEIGHT // tile)
    radii, means2d, depths, *_ = splat.fully_fused_projection(
        made.means, None, made.quats, made.scales, made.viewmats, made.Ks, WIDTH, HEIGHT
    )
    _, keys, ids = splat.isect_tiles(means2d, radii, depths, tile, columns, rows)
    offsets = splat.isect_offset_encode(keys, images, columns, rows)
    colors, opacities = made.colors.repeat(images, 1, 1), made.opacities.repeat(images, 1)
    backgrounds = torch.rand(images, 3, generator=torch.Generator().manual_seed(2))
    transform = gsplat.cuda._wrapper.UnscentedTransformParameters()  # which they do not read
    shared = (
        made.means, made.quats, made.scales, colors, opacities, backgrounds, None, WIDTH, HEIGHT, tile,
        made.viewmats, None, made.Ks, theirs.PINHOLE, transform, theirs.GLOBAL, None, None, None, SimpleNamespace(),
        offsets, ids,
    )  # fmt: skip
    picture, alphas, last = theirs.rasterize_to_pixels_from_world_3dgs_fwd(*shared)
    v = random_v(picture)
    expected = theirs.rasterize_to_pixels_from_world_3dgs_bwd(*shared, alphas, last, *v)

    leaves = [each.clone().requires_grad_() for each in (made.means, made.quats, made.scales, colors, opacities)]
    frames = rotation_matrices(leaves[1]).mT / leaves[2][..., None]
    images = rasterize_along_rays(leaves[0], frames, *leaves[3:], pinhole_rays(made), tile, offsets, ids, backgrounds)
    gradients = torch.autograd.grad(images, leaves, v)

    assert alphas.max() > 0.9
    for found, wanted in zip(images, (picture, alphas), strict=True):
        off = (found.detach() - wanted).abs().amax(-1)
        assert off.max() <= 1 / 255, "more than one blend at the threshold"
        assert (off > 2e-5).double().mean() <= 1e-3, "pixels that differ"
    for name, found, wanted in zip(LEAVES[:5], gradients, expected, strict=True):
        assert_close(found, wanted, 1e-4, name)


def pinhole_rays(made: Scene) -> Tensor:
    """Of all its cameras, [C, height, width, 6]."""
    y, x = torch.meshgrid(torch.arange(HEIGHT) + 0.5, torch.arange(WIDTH) + 0.5, indexing="ij")
    points = torch.stack([x, y, torch.ones_like(x)], -1) @ torch.linalg.inv(made.Ks)[:, None].mT
    poses = torch.linalg.inv(made.viewmats)[:, None, None]
    directions = (poses[..., :3, :3] @ points[..., None])[..., 0]
    return torch.cat([poses[..., :3, 3].expand_as(directions), directions], -1)


@pytest.mark.parametrize("degree", range(5))
def test_harmonics_are_those_of_gsplat_s_kernels(theirs: CompiledModule, degree: int) -> None:
    generator = torch.Generator().manual_seed(degree)
    directions, coefficients = (torch.randn(300, *shape, generator=generator) for shape in ((3,), (25, 3)))
    v_colors, mask = torch.randn(300, 3, generator=generator), torch.rand(300, generator=generator) < 0.8
    colors = theirs.spherical_harmonics_fwd(degree, directions, coefficients, mask)
    v_coeffs, v_directions = theirs.spherical_harmonics_bwd(25, degree, directions, coefficients, mask, v_colors, True)
    leaves = [each.requires_grad_() for each in (directions, coefficients)]
    found = splat.spherical_harmonics(degree, *leaves, masks=mask)
    found.backward(v_colors)

    assert_close(found[mask].detach(), colors[mask], 1e-5, "colours")
    assert_close(coefficients.grad, v_coeffs, 1e-5, "coefficients")
    if degree > 0:
        assert_close(directions.grad, v_directions, 1e-5, "directions")


# What differs


@pytest.mark.parametrize("name", ["opacities", "colors"])
def test_gsplat_draws_gaussians_with_nan(theirs: CompiledModule, name: str) -> None:
    made = scene(7, views=("front",), opacity="solid")
    changed = getattr(made, name).clone()
    changed[0] = torch.nan
    ours, other = draw_both(theirs, replace(made, **{name: changed}))
    without = splat.rasterization(
        **{key: value[1:] if key in LEAVES[:5] else value for key, value in made.arguments.items()}
    )[0]

    assert ours.meta["n_invalid"] == 1
    assert not ours.seen[0, 0]
    assert other.seen[0, 0]
    assert torch.equal(ours.picture, without)
    if name == "colors":
        assert other.picture.isnan().any()
    else:
        assert (other.picture - without).abs().max() > 0.05


@pytest.mark.parametrize(
    ("name", "value"),
    [("means", torch.nan), ("means", torch.inf), ("scales", torch.nan), ("scales", torch.inf), ("quats", 0.0)],
)
def test_both_leave_these_out(theirs: CompiledModule, name: str, value: float) -> None:
    made = scene(7, views=("front",))
    changed = getattr(made, name).clone()
    changed[:5] = value
    made = replace(made, **{name: changed})
    radii, *_ = theirs.projection_ewa_3dgs_fused_fwd(
        made.means, None, made.quats, made.scales, made.opacities, made.viewmats, made.Ks, WIDTH, HEIGHT,
        0.3, 0.01, 1e10, 0.0, False, theirs.PINHOLE,
    )  # fmt: skip
    _, _, meta = splat.rasterization(**made.arguments, packed=False)

    assert radii is not None
    assert (radii[0, :5] == 0).all()
    assert (radii[0, 5:] > 0).any()
    assert torch.equal(meta["radii"], radii)


def test_gsplat_leaves_alphas_of_masked_tiles_unwritten(theirs: CompiledModule, projected: Projected) -> None:
    _, _, ids, offsets = lists(theirs, projected)
    masks = torch.ones(offsets.shape, dtype=torch.bool)
    masks[0, 1, 2] = False
    shared = (*projected[:4], None, masks, WIDTH, HEIGHT, TILE, offsets, ids)
    picture, alphas, _ = theirs.rasterize_to_pixels_3dgs_fwd(*shared)
    ours = OPS.rasterize(*shared, MAX_ALPHA)
    tile = (0, slice(TILE, 2 * TILE), slice(2 * TILE, 3 * TILE))

    assert alphas[tile].isnan().all()
    assert (ours[1][tile] == 0).all()
    assert (picture[tile] == 0).all()
    assert (ours[0] - picture).abs().max() <= 1e-5


def test_gsplat_s_gradients_need_whole_warps(theirs: CompiledModule) -> None:
    """It differentiates tiles of 4 by blocks of 16 threads with functions of whole warps."""
    with pytest.raises(theirs.executor.KernelError, match="the block has no lane 16"):
        draw_both(theirs, scene(), tile_size=4)


@pytest.fixture
def strict(theirs: CompiledModule, monkeypatch: pytest.MonkeyPatch) -> CompiledModule:
    """Functions of a warp wait for all lanes of their masks, as our kernels' do."""
    launch = gsplat_kernels.launch
    monkeypatch.setattr(gsplat_kernels, "launch", lambda *arguments, **_: launch(*arguments))
    return theirs


def test_gsplat_s_projection_backward_names_lanes_that_have_ended(strict: CompiledModule) -> None:
    with pytest.raises(strict.executor.KernelError, match=r"projection_ewa_3dgs_fused_bwd.* has ended"):
        draw_both(strict, scene())
