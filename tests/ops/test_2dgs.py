"""2D Gaussians: their projection against gsplat's, and blending against a float64 reference, on the CPU and as PTX."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from blending_checks import assert_close, assert_same_everywhere, gradients, random_v
from disc_reference import IMAGES, LEAVES, Arguments, blend, disc_arguments, disc_scene, operands
from parts import require_all_parts
from torch import Tensor, library

import splat

require_all_parts()

CASES: dict[str, Arguments] = {
    "plain": {},
    "packed": {"packed": True, "has_background": False},
    "masked": {"has_masks": True, "tile_size": 8},
    "tiny": {"kind": "tiny"},
    "near": {"kind": "near", "count": 20},
    "opaque": {"kind": "opaque", "count": 60},
    "clamped": {"kind": "clamped", "count": 10, "channels": 1},
    "odd tiles": {"tile_size": 5, "width": 13, "height": 8},
    "large tiles": {"tile_size": 32, "channels": 2},
    "channels in chunks": {"channels": 19, "count": 20, "width": 17, "height": 16},
    "alphas that end early": {"kind": "opaque", "count": 60, "max_alpha": 0.7},
    "one": {"count": 1, "width": 1, "height": 1},
}


@pytest.mark.parametrize("case", CASES)
def test_images_and_gradients_of_2d_gaussians_are_those_of_the_reference(case: str) -> None:
    arguments = disc_arguments(**CASES[case])
    exact = {
        name: each.double() if isinstance(each, Tensor) and each.is_floating_point() else each
        for name, each in arguments.items()
    }
    images, expected = splat.rasterize_to_pixels_2dgs(**arguments), blend(exact)
    compared = ~expected.doubtful[..., None]
    assert compared.double().mean() > 0.9
    assert case in ("one", "tiny") or images[1].max() > 0.5
    for name, found, wanted in zip(IMAGES, images, expected.images, strict=True):
        assert_close(found * compared, wanted * compared, name, 2e-5)
    v = random_v(images, expected.doubtful)
    found = gradients(lambda given: splat.rasterize_to_pixels_2dgs(**given), arguments, LEAVES, v)
    wanted = gradients(lambda given: blend(given).images, exact, LEAVES, v)
    for name, gradient in wanted.items():
        assert_close(found[name], gradient, name)


@pytest.mark.parametrize("batch", [(), (2,)])
def test_the_projection_of_2d_gaussians_is_that_of_gsplat(batch: tuple[int, ...]) -> None:
    theirs = pytest.importorskip("gsplat.cuda._torch_impl_2dgs", reason="gsplat is compared with; ci/test installs it")
    scene = disc_scene(3)
    names = ("means", "quats", "scales", "viewmats")
    tensors = [scene[name].repeat(*batch, *(1 for _ in scene[name].shape)) for name in names]  # type: ignore[union-attr]
    tensors[2][..., 2].fill_(1.0)  # gsplat's definition in torch scales the normals by it, its kernels do not
    Ks = scene["Ks"].expand(*batch, 2, 3, 3)  # type: ignore[union-attr]
    runs = []
    for project in (splat.fully_fused_projection_2dgs, theirs._fully_fused_projection_2dgs):
        leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        radii, *floats = project(*leaves, Ks, 41, 29)
        seen = (radii > 0).all(-1)
        floats = [torch.where(seen.reshape(*seen.shape, *(1,) * (each.ndim - seen.ndim)), each, 0.0) for each in floats]
        v = torch.Generator().manual_seed(1)
        found = torch.autograd.grad(floats, leaves, [torch.randn(each.shape, generator=v) for each in floats])
        runs.append([seen[..., None] * radii, *floats, found[0], found[1], found[2][..., :2], found[3]])
    assert 10 < int(seen.sum()) < seen.numel()
    for one, other in zip(*runs, strict=True):
        assert_close(one, other, "projected")


def whole(scene: dict[str, Any], **options: Any) -> Any:
    options = {"colors": torch.rand(60, 3, generator=torch.Generator().manual_seed(4)), **options}
    return splat.rasterization_2dgs(**{**scene, **options})


@pytest.mark.parametrize("render_mode", ["RGB", "D", "ED", "RGB+D", "RGB+ED"])
def test_layouts_and_batches_of_2d_gaussians_give_the_same(render_mode: str) -> None:
    scene = disc_scene(2)
    options: dict[str, Any] = {"render_mode": render_mode, "distloss": render_mode != "RGB"}
    *images, meta = whole(scene, **options)
    *packed, packed_meta = whole(scene, packed=True, **options)
    batch = {name: each[None] if isinstance(each, Tensor) else each for name, each in scene.items()}
    *batched, _ = whole(batch, colors=torch.rand(60, 3, generator=torch.Generator().manual_seed(4))[None], **options)
    for number, (one, other, third) in enumerate(zip(images, packed, batched, strict=True)):
        assert (one is None) == (not render_mode.startswith("RGB+") and number == 3)
        if one is not None:
            assert torch.equal(one, other)
            assert torch.equal(one, third if number == 3 else third[0])
    assert images[0].shape == (2, 29, 41, {"RGB": 3, "D": 1, "ED": 1}.get(render_mode, 4))
    seen = (meta["radii"] > 0).all(-1)
    for name in ("means2d", "depths", "ray_transforms", "normals", "opacities"):
        assert torch.equal(meta[name][seen], packed_meta[name])
    assert packed_meta["camera_ids"].tolist() == seen.nonzero()[:, 0].tolist()
    assert len(meta["isect_ids"]) == len(meta["flatten_ids"])


def test_harmonics_and_colours_for_each_camera_are_those_of_3d_gaussians() -> None:
    scene = disc_scene(2)
    coeffs = torch.randn(60, 4, 3, generator=torch.Generator().manual_seed(4))
    views: Any = scene["viewmats"]
    places = torch.linalg.inv(views)[:, :3, 3]
    directions: Any = scene["means"] - places[:, None]
    shaded = (splat.spherical_harmonics(1, directions, coeffs.expand(2, -1, -1, -1)) + 0.5).clamp_min(0)
    for packed in (False, True):
        by_harmonics = whole(scene, colors=coeffs, sh_degree=1, packed=packed)[0]
        torch.testing.assert_close(by_harmonics, whole(scene, colors=shaded, packed=packed)[0])


@pytest.mark.parametrize("depth_mode", ["expected", "median"])
def test_normals_of_the_surface_are_those_of_gsplat(depth_mode: str) -> None:
    utils = pytest.importorskip("gsplat.utils", reason="gsplat is compared with; ci/test installs it")
    scene = disc_scene(2, count=200, kind="opaque")
    colors = torch.rand(200, 3)
    images, _, _, normals, _, medians, _ = whole(scene, colors=colors, render_mode="RGB+ED", depth_mode=depth_mode)
    depths = images[..., 3:] if depth_mode == "expected" else medians
    views: Any = scene["viewmats"]
    torch.testing.assert_close(
        normals, utils.depth_to_normal(depths, torch.linalg.inv(views), scene["Ks"]), atol=1e-3, rtol=1e-3
    )
    scene |= {"viewmats": views[:1], "Ks": scene["Ks"][:1]}
    of_one = whole(scene, colors=colors, render_mode="RGB+ED", depth_mode=depth_mode)[3]
    assert torch.equal(of_one, normals[0])  # as in gsplat, without a dimension of one camera


def test_absolute_gradients_and_those_for_densification() -> None:
    arguments = disc_arguments(kind="tiny", count=12, width=6, height=5)
    means2d, ray_transforms, densify = (
        arguments[name].requires_grad_() for name in ("means2d", "ray_transforms", "densify")
    )
    images = splat.rasterize_to_pixels_2dgs(**arguments, absgrad=True)
    weights = torch.randn(images[0].shape, generator=torch.Generator().manual_seed(1))
    found = torch.autograd.grad((images[0] * weights).sum(), (means2d, ray_transforms, densify))
    by_pixel = torch.stack([
        torch.autograd.grad(splat.rasterize_to_pixels_2dgs(**arguments)[0], means2d, one)[0]
        for one in (weights[None] * torch.eye(60).reshape(60, 2, 5, 6, 1))
    ])  # fmt: skip
    assert_close(found[0], by_pixel.sum(0), "gradient")
    assert_close(means2d.absgrad, by_pixel.abs().sum(0), "absolute gradient")  # type: ignore[attr-defined]
    assert means2d.absgrad.sum() > 1.01 * found[0].abs().sum()  # type: ignore[attr-defined]
    assert torch.equal(found[2], found[1][..., :2, 2] * ray_transforms[..., 2, 2, None])


def test_a_strategy_reads_the_gradient_of_the_centres() -> None:
    scene = disc_scene(2)
    leaf: Any = scene["means"]
    scene["means"] = leaf.requires_grad_()
    images, *_, meta = whole(scene, absgrad=True)
    images.square().sum().backward()
    assert meta["gradient_2dgs"].grad.shape == (2, 60, 2)
    assert meta["gradient_2dgs"].grad.abs().sum() > 0
    assert meta["means2d"].absgrad.shape == (2, 60, 2)


@pytest.mark.parametrize("degree", [None, 1])
def test_sparse_gradients_are_the_visible_rows_of_dense_ones(degree: int | None) -> None:
    scene = disc_scene(2)
    colors = {} if degree is None else {"sh_degree": degree, "colors": torch.randn(60, 4, 3)}
    parameters: list[Any] = [scene[name] for name in ("means", "quats", "scales")]
    for each in parameters:
        each.requires_grad_()
    dense, sparse = (
        torch.autograd.grad(whole(scene, packed=True, sparse_grad=sparse, **colors)[0].square().sum(), parameters)
        for sparse in (False, True)
    )
    for one, other in zip(dense, sparse, strict=True):
        assert other.is_sparse
        assert len(other.values()) < 60
        assert_close(other.to_dense(), one, "sparse")


def test_every_instruction_set_and_number_of_threads_gives_the_same_bits() -> None:
    arguments = disc_arguments(5, count=200)
    v = random_v(splat.rasterize_to_pixels_2dgs(**arguments), torch.zeros(2, 29, 41, dtype=torch.bool))

    def draw() -> list[Tensor]:
        found = gradients(lambda given: splat.rasterize_to_pixels_2dgs(**given), arguments, LEAVES, v)
        return [*splat.rasterize_to_pixels_2dgs(**arguments), *found.values()]

    assert_same_everywhere(draw, images=5)


@pytest.mark.parametrize(("packed", "value"), [(False, torch.nan), (True, torch.inf)])
@pytest.mark.parametrize("name", ["means", "quats", "scales", "opacities", "colors", "harmonics", "colors of a camera"])
def test_a_gaussian_that_is_not_finite_is_left_out(name: str, packed: bool, value: float) -> None:
    scene: dict[str, Any] = {**disc_scene(2), "colors": torch.rand(60, 3)}
    options: dict[str, Any] = {
        "packed": packed,
        "render_mode": "RGB+ED",
        "sh_degree": 1 if name == "harmonics" else None,
    }
    if name == "harmonics":
        scene["colors"] = torch.rand(60, 4, 3)
    elif name == "colors of a camera":
        scene["colors"] = torch.rand(2, 60, 3)
    lists = {"means", "quats", "scales", "opacities", "colors"}
    without = {
        key: each[..., 1:, :]
        if key == "colors" and name == "colors of a camera"
        else each[1:]
        if key in lists
        else each
        for key, each in scene.items()
    }
    leaf = scene[name if name in lists else "colors"]
    rows = leaf[..., 0, :] if name == "colors of a camera" else leaf[0]
    rows[...] = value
    leaf.requires_grad_()
    images, *_ = whole(scene, **options, colors=scene["colors"])
    expected, *_ = whole(without, **options, colors=without["colors"])
    assert torch.equal(images, expected)
    (gradient,) = torch.autograd.grad(images.sum(), leaf)
    assert not (gradient[..., 0, :] if name == "colors of a camera" else gradient[0]).any()
    assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"distloss": True}, ValueError, "distloss=True needs a render_mode with depth"),
        ({"depth_mode": "mean"}, ValueError, "depth_mode must be one of 'expected', 'median'"),
        ({"render_mode": "depth"}, ValueError, "render_mode must be one of"),
        ({"colors": torch.rand(59, 3)}, ValueError, "colors must have shape"),
        ({"sparse_grad": True}, ValueError, "sparse_grad needs packed=True"),
        ({"tile_size": 33}, ValueError, "tile_size must be at most 32"),
        ({"scales": torch.rand(60, 2)}, ValueError, "scales must have shape"),
        ({"opacities": torch.rand(60).double()}, TypeError, "opacities must be float32"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        whole(disc_scene(2), **options)


@pytest.mark.parametrize("name", ["ray_transforms", "normals", "densify", "opacities", "isect_offsets", "backgrounds"])
def test_tensors_of_other_shapes_are_refused(name: str) -> None:
    arguments = disc_arguments()
    with pytest.raises(ValueError, match=f"{name} must have shape"):
        splat.rasterize_to_pixels_2dgs(**arguments | {name: arguments[name][..., :1]})


@pytest.mark.parametrize("most", [0.999, 0.6])
def test_the_lists_accumulated_are_the_picture_and_its_gradients(most: float) -> None:
    arguments = disc_arguments(has_background=False, tile_size=8, max_alpha=most)
    names = (
        "means2d",
        "ray_transforms",
        "opacities",
        "image_width",
        "image_height",
        "tile_size",
        "isect_offsets",
        "flatten_ids",
    )
    light = torch.ones(2, arguments["image_height"], arguments["image_width"])
    listed = (arguments[name] for name in names)
    ids = splat.rasterize_to_indices_in_range_2dgs(0, 10**10, light, *listed, max_alpha=most)

    def accumulated(given: Arguments) -> tuple[Tensor, ...]:
        tensors = (given[name] for name in ("means2d", "ray_transforms", "opacities", "colors", "normals"))
        return splat.accumulate_2dgs(*tensors, *ids, given["image_width"], given["image_height"], max_alpha=most)

    images, found = splat.rasterize_to_pixels_2dgs(**arguments), accumulated(arguments)
    v = random_v(found, torch.zeros_like(light, dtype=torch.bool))
    for one, other in zip(found, images, strict=False):
        assert_close(one, other, "image")
    expected = gradients(lambda given: splat.rasterize_to_pixels_2dgs(**given)[:3], arguments, LEAVES, v)
    for name, gradient in gradients(accumulated, arguments, LEAVES, v).items():
        assert_close(gradient, expected[name], name)


def test_torch_finds_the_operators_well_made() -> None:
    given = operands(disc_arguments(count=10))
    images = torch.ops.splat.rasterize_2dgs(*given, True)
    v = random_v(images[:4], torch.zeros(2, 29, 41, dtype=torch.bool))
    library.opcheck(torch.ops.splat.rasterize_2dgs.default, (*given, True))
    library.opcheck(torch.ops.splat.rasterize_2dgs_backward.default, (*given, images[1], *images[4:], *v, True))


# Those that the kernels tell apart.
@pytest.mark.parametrize("case", [name for name in CASES if name not in ("plain", "tiny", "opaque")])
def test_executed_kernels_give_what_the_cpu_gives(simt_ptx: ModuleType, case: str) -> None:
    given = operands(disc_arguments(**CASES[case]))
    executed, ours = getattr(torch.ops, simt_ptx.__name__), torch.ops.splat
    images, expected = executed.rasterize_2dgs(*given, True), ours.rasterize_2dgs(*given, True)
    same = (images[-2] == expected[-2]) & (images[-1] == expected[-1])
    assert same.double().mean() > 0.99
    for one, other in zip(images[:-2], expected[:-2], strict=True):
        assert_close(one * same[..., None], other * same[..., None], "image", 1e-5)
    v = [each if each is None else each * same[..., None] for each in random_v(expected[:4], ~same)]
    runs = [
        operators.rasterize_2dgs_backward(*given, expected[1], *expected[4:], *v, True)
        for operators in (executed, ours)
    ]
    for one, other in zip(*runs, strict=True):
        assert_close(one, other, "gradient")
