"""The pieces of `splat.rasterization`: their shapes and meanings, which are those of gsplat 1.5.3's own functions."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import reference_rasterizer as reference
import torch
from scenes import Scene, random_scene
from torch import Tensor

import splat
from splat.ops.camera_models import CAMERA_MODELS

gsplat = pytest.importorskip("gsplat", reason="gsplat is compared with; ci/test installs it")
from gsplat.cuda import _torch_impl as theirs  # noqa: E402

SIZE = {"width": 60, "height": 45}
FUNCTIONS = [name for name in splat.__all__ if hasattr(gsplat, name) and inspect.isfunction(getattr(gsplat, name))]


def scene(batch: tuple[int, ...] = (), cameras: int = 3, gaussians: int = 70, seed: int = 5) -> Scene:
    """A scene of any batch dimensions; every batch has other Gaussians and other cameras."""
    views = ("front", "close", "beside", "behind", "inside")[:cameras]
    count = int(torch.tensor(batch).prod()) if batch else 1
    scenes = [random_scene(seed + i, gaussians, **SIZE, size="mixed", views=views) for i in range(count)]
    stacked = {
        name: torch.stack([getattr(one, name) for one in scenes]).reshape(*batch, *getattr(scenes[0], name).shape)
        for name, value in scenes[0].arguments.items()
        if isinstance(value, Tensor)
    }
    return Scene(**stacked, **SIZE)


def projected(s: Scene, **options: Any) -> tuple[Any, ...]:
    return tuple(
        splat.fully_fused_projection(
            s.means,
            None,
            s.quats,
            s.scales,
            s.viewmats,
            s.Ks,
            s.width,
            s.height,
            **{"opacities": s.opacities, **options},
        )
    )


def test_every_function_of_gsplat_that_is_here_has_its_parameters() -> None:
    assert set(FUNCTIONS) >= {
        "rasterization", "fully_fused_projection", "isect_tiles", "isect_offset_encode", "rasterize_to_pixels",
        "spherical_harmonics", "quat_scale_to_covar_preci",
    }  # fmt: skip
    for name in FUNCTIONS:
        ours, their = (inspect.signature(getattr(module, name)).parameters for module in (splat, gsplat))
        assert list(ours)[: len(their)] == list(their), name
        for parameter, theirs_ in their.items():
            # As they print themselves: some are of classes that gsplat has too.
            assert str(ours[parameter].default) == str(theirs_.default), parameter


# Covariances


@pytest.mark.parametrize("batch", [(), (40,), (2, 20)])
@pytest.mark.parametrize("triu", [False, True])
def test_covariances_are_those_of_gsplat(batch: tuple[int, ...], triu: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    quats, scales = torch.randn(*batch, 4, generator=generator), torch.rand(*batch, 3, generator=generator) + 0.3
    ours = splat.quat_scale_to_covar_preci(quats, scales, triu=triu)
    expected = theirs._quat_scale_to_covar_preci(quats, scales, triu=triu)
    for found, exact in zip(ours, expected, strict=True):
        assert found is not None
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)
    assert splat.quat_scale_to_covar_preci(quats, scales, compute_covar=False, compute_preci=False) == (None, None)


def test_covariances_stay_float32_in_autocast() -> None:
    generator = torch.Generator().manual_seed(1)
    quats, scales = torch.randn(20, 4, generator=generator), 1e-4 * (1 + torch.rand(20, 3, generator=generator))
    expected = splat.quat_scale_to_covar_preci(quats, scales)
    with torch.autocast("cpu", torch.float16):
        found = splat.quat_scale_to_covar_preci(quats, scales)
    for one, other in zip(found, expected, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)


def test_gradients_of_covariances_are_those_of_the_definition() -> None:
    generator = torch.Generator().manual_seed(2)
    quats = torch.randn(20, 4, generator=generator).requires_grad_()
    scales = (torch.rand(20, 3, generator=generator) + 0.3).requires_grad_()
    weights = torch.randn(20, 3, 3, generator=generator)
    covars, precis = splat.quat_scale_to_covar_preci(quats, scales)
    assert covars is not None
    assert precis is not None
    found = torch.autograd.grad(((covars + precis) * weights).sum(), (quats, scales))
    q, s = quats.detach().double().requires_grad_(), scales.detach().double().requires_grad_()
    root = reference.rotations(q) * s[:, None]
    exact = root @ root.mT
    expected = torch.autograd.grad(((exact + torch.linalg.inv(exact)) * weights).sum(), (q, s))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3 * float(other.abs().max()))


# Projection


@pytest.mark.parametrize("camera_model", ["pinhole", "ortho", "fisheye"])
@pytest.mark.parametrize("batch", [(), (2,), (2, 2)])
def test_projection_is_that_of_gsplat(batch: tuple[int, ...], camera_model: str) -> None:
    s = scene(batch)
    if camera_model == "ortho":
        s.Ks[..., :2, :2] /= 3
    covars = theirs._quat_scale_to_covar_preci(s.quats, s.scales, compute_preci=False)[0]
    radii, means2d, depths, conics, compensations = theirs._fully_fused_projection(
        s.means, covars, s.viewmats, s.Ks, s.width, s.height,
        eps2d=0.3, near_plane=0.01, calc_compensations=True, camera_model=camera_model,
    )  # fmt: skip
    found = projected(s, calc_compensations=True, camera_model=camera_model, opacities=None)
    seen, ours = (radii > 0).all(-1), (found[0] > 0).all(-1)
    # Rounding decides whether one at the border is seen, and by a pixel how far it reaches.
    assert (seen != ours).float().mean() <= 0.02
    both = seen & ours
    assert both.float().mean() > 0.2
    assert ((radii - found[0])[both].abs() <= 1).all()
    for one, other in zip(found[1:], (means2d, depths, conics, compensations), strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one[both], other[both], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("camera_model", CAMERA_MODELS)
def test_covariances_stand_for_rotations_and_scales(camera_model: str) -> None:
    s = scene((2,))
    triangles, _ = splat.quat_scale_to_covar_preci(s.quats, s.scales, compute_preci=False, triu=True)
    found = splat.fully_fused_projection(
        s.means, triangles, None, None, s.viewmats, s.Ks, s.width, s.height, camera_model=camera_model
    )
    expected = splat.fully_fused_projection(
        s.means, None, s.quats, s.scales, s.viewmats, s.Ks, s.width, s.height, camera_model=camera_model
    )
    both = ((found[0] > 0) & (expected[0] > 0)).all(-1)
    assert both.any()
    for one, other in zip(found[1:4], expected[1:4], strict=True):
        torch.testing.assert_close(one[both], other[both], rtol=1e-3, atol=1e-4)
    assert found[4] is expected[4] is None


@pytest.mark.parametrize("batch", [(), (2,), (2, 2)])
def test_packed_projections_are_the_visible_ones(batch: tuple[int, ...]) -> None:
    s = scene(batch)
    dense = projected(s, calc_compensations=True)
    batch_ids, camera_ids, gaussian_ids, *packed = projected(s, packed=True, calc_compensations=True)
    flat = [values.reshape(-1, 3, 70, *values.shape[len(batch) + 2 :]) for values in dense]
    expected = (flat[0] > 0).all(-1).nonzero(as_tuple=True)
    for ids, exact in zip((batch_ids, camera_ids, gaussian_ids), expected, strict=True):
        assert torch.equal(ids, exact)
    for one, other in zip(packed, flat, strict=True):
        assert torch.equal(one, other[batch_ids, camera_ids, gaussian_ids])


# Intersection


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("rows", [3, 4])  # 12 tiles, and 16: a power of two
def test_tiles_are_those_of_gsplat(batch: tuple[int, ...], packed: bool, rows: int) -> None:
    radii, means2d, depths, _, _ = projected(scene(batch))
    grid = (16, 4, rows)
    expected = theirs._isect_tiles(means2d, radii, depths, *grid)
    offsets = theirs._isect_offset_encode(expected[1], 3 * len(means2d) if batch else 3, 4, rows)
    if packed:
        keep = (radii > 0).all(-1)
        image_ids = torch.arange(keep[..., 0].numel()).reshape(*keep.shape[:-1], 1).expand(keep.shape)[keep]
        tiles_per_gauss, isect_ids, flatten_ids = splat.isect_tiles(
            means2d[keep], radii[keep], depths[keep], *grid,
            packed=True, n_images=keep[..., 0].numel(), image_ids=image_ids, gaussian_ids=torch.zeros_like(image_ids),
        )  # fmt: skip
        assert torch.equal(tiles_per_gauss, expected[0].reshape(keep.shape)[keep].int())
        flatten_ids = keep.flatten().nonzero().flatten()[flatten_ids].int()
    else:
        tiles_per_gauss, isect_ids, flatten_ids = splat.isect_tiles(means2d, radii, depths, *grid)
        assert torch.equal(tiles_per_gauss, expected[0].int())
    assert torch.equal(isect_ids, expected[1])
    assert torch.equal(flatten_ids, expected[2])
    images = means2d[..., 0, 0].numel()
    found = splat.isect_offset_encode(isect_ids, images, 4, rows)
    assert found.dtype == torch.int32
    assert torch.equal(found, offsets.reshape(images, rows, 4))


def test_offsets_of_no_intersections_are_zero() -> None:
    assert torch.equal(
        splat.isect_offset_encode(torch.zeros(0, dtype=torch.int64), 2, 4, 3), torch.zeros(2, 3, 4, dtype=torch.int32)
    )


def test_with_conics_only_tiles_where_a_gaussian_is_seen_are_listed() -> None:
    s = scene()
    radii, means2d, depths, conics, _ = projected(s)
    opacities = s.opacities.expand(depths.shape)
    grid = (4, 15, 12)
    wide = splat.isect_tiles(means2d, radii, depths, *grid)[0]
    tight = splat.isect_tiles(means2d, radii, depths, *grid, conics=conics, opacities=opacities)[0]
    assert (tight <= wide).all()
    assert tight.sum() < 0.9 * wide.sum()


# Colours


@pytest.mark.parametrize("degree", range(5))
@pytest.mark.parametrize("shape", [(), (30,), (2, 30)])
def test_harmonics_are_those_of_gsplat(shape: tuple[int, ...], degree: int) -> None:
    generator = torch.Generator().manual_seed(3)
    dirs, coeffs = torch.randn(*shape, 3, generator=generator), torch.randn(*shape, 25, 3, generator=generator)
    found = splat.spherical_harmonics(degree, dirs, coeffs)
    torch.testing.assert_close(found, theirs._spherical_harmonics(degree, dirs, coeffs), rtol=1e-4, atol=1e-4)
    masks = torch.rand(shape, generator=generator) > 0.5
    masked = splat.spherical_harmonics(degree, dirs, coeffs, masks)
    assert torch.equal(masked, torch.where(masks[..., None], found, 0.0))


@pytest.mark.parametrize("own", [(1, 1, 9), (2, 1, 9), (1, 4, 9), (2, 1, 1), (2, 4, 1)])
def test_coefficients_may_be_shared(own: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(3)
    dirs, coeffs = torch.randn(2, 4, 9, 3, generator=generator), torch.randn(*own, 16, 3, generator=generator)
    masks = torch.rand(2, 4, 9, generator=generator) > 0.5
    whole = coeffs.expand(2, 4, 9, 16, 3)
    assert torch.equal(
        splat.spherical_harmonics(3, dirs, coeffs, masks), splat.spherical_harmonics(3, dirs, whole, masks)
    )


# Pixels


def pixels(
    s: Scene, colors: Tensor, packed: bool = False, tile_size: int = 16, **options: Any
) -> tuple[Tensor, Tensor]:
    """The image, by the pieces as a program written for gsplat puts them together."""
    batch, cameras = s.viewmats.shape[:-3], s.viewmats.shape[-3]
    images = s.viewmats[..., 0, 0].numel()
    columns, rows = -(-s.width // tile_size), -(-s.height // tile_size)
    ids: dict[str, Any] = {}
    if packed:
        batch_ids, camera_ids, gaussian_ids, radii, means2d, depths, conics, _ = projected(s, packed=True)
        opacities = s.opacities.reshape(-1, 70)[batch_ids, gaussian_ids]
        colors = colors.reshape(-1, 70, colors.shape[-1])[batch_ids, gaussian_ids]
        ids = {"n_images": images, "image_ids": batch_ids * cameras + camera_ids, "gaussian_ids": gaussian_ids}
    else:
        radii, means2d, depths, conics, _ = projected(s)
        opacities = s.opacities[..., None, :].expand(depths.shape)
        colors = colors[..., None, :, :].expand(*depths.shape, colors.shape[-1])
    _, isect_ids, flatten_ids = splat.isect_tiles(
        means2d, radii, depths, tile_size, columns, rows, packed=packed, **ids
    )
    offsets = splat.isect_offset_encode(isect_ids, images, columns, rows).reshape(*batch, cameras, rows, columns)
    return splat.rasterize_to_pixels(
        means2d, conics, colors, opacities, s.width, s.height, tile_size, offsets, flatten_ids, packed=packed, **options
    )


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch", [(), (2,), (2, 2)])
def test_the_pieces_together_are_rasterization(batch: tuple[int, ...], packed: bool) -> None:
    s = scene(batch)
    backgrounds = torch.rand(*batch, 3, 3, generator=torch.Generator().manual_seed(4))
    expected, alphas, _ = splat.rasterization(**s.arguments, backgrounds=backgrounds, packed=packed)
    found = pixels(s, s.colors, packed, backgrounds=backgrounds)
    assert expected.shape == (*batch, 3, 45, 60, 3)
    # The lists of gsplat's signature are longer, by tiles where nothing is seen.
    assert torch.equal(found[0], expected)
    assert torch.equal(found[1], alphas)


@pytest.mark.parametrize("packed", [False, True])
def test_one_background_may_be_for_all_images(packed: bool) -> None:
    """As gsplat wants it of a packed layout, where it refuses one for each."""
    s, background = scene((2,)), torch.rand(3, requires_grad=True)
    each = background.detach().expand(2, 3, 3).clone().requires_grad_()
    for mode, drawn in (("RGB", 3), ("RGB+D", 4)):
        one, other = (
            splat.rasterization(**s.arguments, backgrounds=given, packed=packed, render_mode=mode)[0]
            for given in (background, each)
        )
        assert one.shape[-1] == drawn
        assert torch.equal(one, other)
    one, other = (pixels(s, s.colors, packed, backgrounds=given)[0] for given in (background, each))
    assert torch.equal(one, other)
    for image in (one, other):
        image.square().sum().backward()
    assert background.grad is not None
    assert each.grad is not None
    torch.testing.assert_close(background.grad, each.grad.sum((0, 1)))


@pytest.mark.parametrize("packed", [False, True])
def test_masked_tiles_show_the_background_alone(packed: bool) -> None:
    s = scene()
    backgrounds = torch.rand(3, 3, generator=torch.Generator().manual_seed(4))
    masks = torch.rand(3, 3, 4, generator=torch.Generator().manual_seed(5)) > 0.5
    image, alphas = pixels(s, s.colors, packed, backgrounds=backgrounds)
    masked_image, masked_alphas = pixels(s, s.colors, packed, backgrounds=backgrounds, masks=masks)
    kept = masks.repeat_interleave(16, 1).repeat_interleave(16, 2)[:, :45, :60, None]
    assert torch.equal(masked_image, torch.where(kept, image, backgrounds[:, None, None]))
    assert torch.equal(masked_alphas, torch.where(kept, alphas, 0.0))
    assert not torch.equal(masked_image, image)


BAD = [
    (lambda s: splat.quat_scale_to_covar_preci(s.quats, s.scales[1:]), ValueError, "scales must have shape"),
    (lambda s: splat.quat_scale_to_covar_preci(s.quats.double(), s.scales), TypeError, "quats must be float32"),
    (lambda s: projected(s, sparse_grad=True), ValueError, "sparse_grad needs packed=True"),
    (lambda s: projected(scene((2,)), sparse_grad=True, packed=True), ValueError, "without batch dimensions"),
    (lambda s: projected(s, camera_model="ftheta"), ValueError, "found 'ftheta', which needs .*_with_ut"),
    (lambda s: projected(s, camera_model="pinhale"), ValueError, "camera_model must be one of .* found 'pinhale'"),
    (
        lambda s: splat.fully_fused_projection(s.means, None, None, s.scales, s.viewmats, s.Ks, 60, 45),
        ValueError,
        "quats and scales, or covars, are required; found no covars and no quats",
    ),
    (
        lambda s: splat.isect_tiles(s.means, s.means, s.opacities, 16, 4, 3),
        TypeError,
        "radii must be int32, found torch.float32",
    ),
    (
        lambda s: splat.isect_tiles(s.means[:, :2], s.means[:, :2].int(), s.opacities, 16, 4, 3, packed=True),
        ValueError,
        "packed needs n_images and image_ids",
    ),
    (
        lambda s: splat.isect_tiles(s.means[:, :2], s.means[:, :2].int(), s.opacities, 64, 4, 3),
        ValueError,
        "tile_size must be at most 32, found 64",
    ),
    (lambda s: splat.isect_offset_encode(torch.zeros(3), 1, 4, 3), TypeError, "isect_ids must be int64"),
    (lambda s: splat.spherical_harmonics(5, s.means, s.means[:, None]), ValueError, "degrees_to_use must be 0 to 4"),
    (lambda s: splat.spherical_harmonics(1, s.means, s.means[:, None]), ValueError, "degrees_to_use=1 needs K >= 4"),
    (lambda s: splat.spherical_harmonics(0, s.means, s.means[1:, None]), ValueError, r"= .70. as in dirs, or 1"),
    (lambda s: pixels(s, s.colors[:, :0]), ValueError, "colors must have at least one channel"),
    (lambda s: pixels(s, s.colors, masks=torch.ones(3, 2, 4).bool()), ValueError, r"masks must .* = \[3, 3, 4\]"),
    (lambda s: pixels(s, s.colors, backgrounds=torch.ones(2, 3)), ValueError, r"backgrounds must .* = \[3, 3\]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[message[:40] for _, _, message in BAD])
def test_bad_input(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        call(scene())
    assert type(raised.value) is error
