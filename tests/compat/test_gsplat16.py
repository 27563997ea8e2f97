"""What gsplat 1.6.0 has and 1.5.3 has not: arguments of `rasterization`, calls, and who contributes to each pixel."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from ray_reference import blend_along_rays
from reference_rasterizer import sh_basis
from scenes import random_scene
from torch import Tensor
from torch.nn.functional import pad

import splat
from splat import rasterization, rasterization_2dgs
from splat.ops.arguments import Sizes
from splat.ops.lens_arguments import check_lens_cameras
from splat.ops.lens_cameras import camera_rays
from splat.ops.projection import rotation_matrices

N, WIDTH, HEIGHT = 80, 40, 30
CAMERAS = ("front", "inside")
NO_LENS = None, None, None, None, splat.RollingShutterType.GLOBAL, None


def scene(**more: Any) -> dict[str, Any]:
    return random_scene(5, N, WIDTH, HEIGHT, size="mixed", views=CAMERAS).arguments | more


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# Arguments of rasterization


@pytest.mark.parametrize("render_mode", ["D", "ED"])
def test_depth_alone_needs_no_colours(render_mode: str) -> None:
    found = rasterization(**scene(colors=None, render_mode=render_mode))
    expected = rasterization(**scene(render_mode=render_mode))
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


def test_no_tile_size_is_16() -> None:
    found, expected = rasterization(**scene(tile_size=None)), rasterization(**scene(tile_size=16))
    assert torch.equal(found[0], expected[0])
    assert found[2]["tile_size"] == 16


def evaluated(coeffs: Tensor, degree: int, arguments: dict[str, Any]) -> Tensor:
    """Harmonics [N, K, D] towards each camera [C, N, D], in float64, from the definition."""
    means, viewmats = arguments["means"].double(), arguments["viewmats"].double()
    directions = means - torch.linalg.inv(viewmats)[:, None, :3, 3]
    bases = torch.stack([sh_basis(of_camera, degree) for of_camera in directions])
    return (bases[..., None] * coeffs.double()[:, : bases.shape[-1]]).sum(-2)


COLORS = {
    "[N, D]": {},
    "[C, N, D]": {"colors": random(2, N, 2).abs()},
    "[N, K, 3]": {"colors": random(N, 9, 3) * 0.5, "sh_degree": 2},
    "none": {"colors": None},
}
SIGNALS = {
    "[N, E]": {"extra_signals": random(N, 5, seed=2)},
    "[C, N, E]": {"extra_signals": random(2, N, 1, seed=2)},
    "[N, K, E]": {"extra_signals": random(N, 16, 4, seed=2), "extra_signals_sh_degree": 3},
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("render_mode", ["RGB", "RGB+ED", "D"])
@pytest.mark.parametrize("signals", SIGNALS)
@pytest.mark.parametrize("colors", [name for name in COLORS if name != "none"])
def test_extra_signals_are_drawn_as_colours_are(colors: str, signals: str, render_mode: str, packed: bool) -> None:
    options = {"render_mode": render_mode, "packed": packed}
    images, alphas, meta = rasterization(**scene(**COLORS[colors], **SIGNALS[signals], **options))
    plain, plain_alphas, plain_meta = rasterization(**scene(**COLORS[colors], **options))
    assert torch.equal(images, plain)
    assert torch.equal(alphas, plain_alphas)
    assert set(meta) - set(plain_meta) == {"render_extra_signals"}
    values = SIGNALS[signals]["extra_signals"]
    if "extra_signals_sh_degree" in SIGNALS[signals]:
        values = (evaluated(values, 3, scene()) + 0.5).float()
        assert (values < 0).any()
    expected = rasterization(**scene(colors=values, packed=packed))[0]
    torch.testing.assert_close(meta["render_extra_signals"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("signals", SIGNALS)
def test_extra_signals_are_drawn_without_colours(signals: str) -> None:
    with_colors = rasterization(**scene(**SIGNALS[signals], render_mode="RGB+ED"))
    images, _, meta = rasterization(**scene(colors=None, **SIGNALS[signals], render_mode="ED"))
    assert torch.equal(images, with_colors[0][..., -1:])
    assert torch.equal(meta["render_extra_signals"], with_colors[2]["render_extra_signals"])


@pytest.mark.parametrize("render_mode", ["RGB", "RGB+D", "D"])
def test_backgrounds_of_signals_follow_those_of_colours(render_mode: str) -> None:
    signals, backgrounds = SIGNALS["[N, E]"], random(2, 8, seed=3)
    given = backgrounds if render_mode != "D" else backgrounds[:, 3:]
    images, alphas, meta = rasterization(**scene(**signals, render_mode=render_mode, backgrounds=given))
    plain, _, plain_meta = rasterization(**scene(**signals, render_mode=render_mode))
    behind = (1 - alphas) * backgrounds[:, None, None]
    added = meta["render_extra_signals"] - plain_meta["render_extra_signals"]
    torch.testing.assert_close(added, behind[..., 3:], rtol=0, atol=1e-6)
    first = 0 if render_mode == "D" else 3
    torch.testing.assert_close((images - plain)[..., :first], behind[..., :first], rtol=0, atol=1e-6)
    assert torch.equal(images[..., first:], plain[..., first:])


@pytest.mark.parametrize("sparse_grad", [False, True])
def test_gradients_go_through_signals_as_through_colours(sparse_grad: bool) -> None:
    """Coefficients of three signals, and as colours: there, negative results become 0, and so here none is negative."""
    coeffs = random(N, 4, 3) * 0.05
    names = ("means", "quats", "viewmats", "coeffs")
    found = []
    for as_colors in (True, False):
        given = scene(packed=True, sparse_grad=sparse_grad)
        leaves = {name: (given | {"coeffs": coeffs})[name].clone().requires_grad_() for name in names}
        shown = leaves.pop("coeffs")
        options = {"colors": shown, "sh_degree": 1} if as_colors else {
            "colors": None, "render_mode": "D", "extra_signals": shown, "extra_signals_sh_degree": 1,
        }  # fmt: skip
        images, _, meta = rasterization(**given | leaves | options)
        image = images if as_colors else meta["render_extra_signals"]
        (image * random(*image.shape, seed=4)).sum().backward()
        gradients = [leaf.grad for leaf in (*leaves.values(), shown)]
        assert [each is not None and each.is_sparse for each in gradients] == [sparse_grad, sparse_grad, False, False]
        dense = [each.to_dense() for each in gradients if each is not None]
        # A camera moves by its translation and by turning: what would make R no rotation is of no interest.
        turned = given["viewmats"][:, :3, :3].mT @ dense[2][:, :3, :3]
        found.append([*dense[:2], dense[2][:, :3, 3], turned - turned.mT, dense[3]])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_signals_are_seen_from_where_colours_are_by_cameras_with_a_scale() -> None:
    given, coeffs = scene(sh_degree=1), random(N, 4, 3) * 0.05  # so that no colour is negative
    given["viewmats"] = given["viewmats"] * torch.tensor([2.0, 2.0, 2.0, 1.0])[:, None]
    images, _, meta = rasterization(**given | {"colors": coeffs}, extra_signals=coeffs, extra_signals_sh_degree=1)
    torch.testing.assert_close(meta["render_extra_signals"], images, rtol=1e-5, atol=1e-6)


def test_signals_of_several_scenes_in_one_call() -> None:
    one = scene()
    batch = {name: torch.stack([value, value]) if isinstance(value, Tensor) else value for name, value in one.items()}
    for name, signals in SIGNALS.items():
        values = signals["extra_signals"]
        given = signals if name == "[N, K, E]" else {"extra_signals": torch.stack([values, values])}
        drawn = rasterization(**batch | given)[2]["render_extra_signals"]
        expected = rasterization(**one | signals)[2]["render_extra_signals"]
        torch.testing.assert_close(drawn, torch.stack([expected, expected]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_coefficients_may_have_half_the_bits(dtype: torch.dtype) -> None:
    coeffs, signals = (random(N, 9, 3, seed=seed).to(dtype).requires_grad_() for seed in (1, 2))
    images, _, meta = rasterization(
        **scene(colors=coeffs, sh_degree=2, extra_signals=signals, extra_signals_sh_degree=1)
    )
    wide = [each.detach().float() for each in (coeffs, signals)]
    expected, _, other = rasterization(
        **scene(colors=wide[0], sh_degree=2, extra_signals=wide[1], extra_signals_sh_degree=1)
    )
    assert images.dtype == torch.float32
    assert torch.equal(images, expected)
    assert torch.equal(meta["render_extra_signals"], other["render_extra_signals"])
    (images.sum() + meta["render_extra_signals"].sum()).backward()
    assert all(each.grad is not None and each.grad.dtype == dtype and each.grad.any() for each in (coeffs, signals))
    with pytest.raises(TypeError, match="colors must be float32"):
        rasterization(**scene(colors=random(N, 3).to(dtype)))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"colors": None}, "colors=None needs a render_mode of depth alone, 'D' or 'ED', found 'RGB'"),
    ({"extra_signals": random(N - 1, 3)}, r"extra_signals must have shape \[..., N, E\] or .* N=80, C=2"),
    ({"extra_signals": random(N, 0)}, "and E >= 1, found"),
    ({"extra_signals": random(N, 3), "extra_signals_sh_degree": 0}, r"must have shape \[N, K, E\], with extra_sig"),
    ({"extra_signals": random(N, 4, 3), "extra_signals_sh_degree": 2}, "extra_signals_sh_degree=2 needs K >= 9"),
    ({"extra_signals_sh_degree": 2}, "extra_signals_sh_degree=2 needs extra_signals, found None"),
    ({"extra_signals": random(N, 2), "backgrounds": random(2, 3)}, r"backgrounds must have shape .* found \[2, 3\]"),
    ({"tile_size": 0}, "tile_size must be above 0"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_a_wrong_argument_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rasterization(**scene(**changes))


@pytest.mark.parametrize("mode", ["d", "Ed", "RGB-d", "RGB-Ed"])
def test_distances_and_normals_are_blended_along_rays(mode: str) -> None:
    """Against float64, with extra signals, whose background there is, and without."""
    backgrounds = random(2, 5, seed=3)[:, 0 if "RGB" in mode else 3 :]
    signals = {"extra_signals": random(N, 2, seed=2), "backgrounds": backgrounds, "return_normals": True}
    given = scene(packed=False, with_eval3d=True, render_mode=mode)
    leaves = {name: given[name].clone().requires_grad_() for name in ("means", "quats", "scales", "opacities")}
    images, alphas, meta = rasterization(**given | leaves | signals)
    assert images.shape[-1] == (4 if "RGB" in mode else 1)
    torch.testing.assert_close(rasterization(**given)[0][..., -1], images[..., -1], rtol=1e-5, atol=1e-5)
    exact = {name: leaf.detach().double().requires_grad_() for name, leaf in leaves.items()}
    rotations = rotation_matrices(exact["quats"])
    cameras = Sizes((), N, 2), given["means"], given["viewmats"], given["Ks"], WIDTH, HEIGHT
    colors = [given["colors"], signals["extra_signals"], torch.zeros(N, 1), rotations[..., 2]]
    features = torch.cat(colors[0 if "RGB" in mode else 1 :], -1).double()
    drawn, opacities, doubtful = blend_along_rays({
        "means": exact["means"], "frames": rotations.mT / exact["scales"][..., None],
        "colors": features.expand(2, -1, -1), "opacities": exact["opacities"].expand(2, -1), "masks": None,
        "rays": camera_rays(check_lens_cameras(*cameras, "pinhole", NO_LENS), cameras[0]).double(),
        "backgrounds": pad(backgrounds, (0, 4)).double(), "max_alpha": 0.999, "tile_size": 16,
        "distance_channel": features.shape[-1] - 4, "normal_channel": features.shape[-1] - 3,
        "isect_offsets": meta["isect_offsets"], "flatten_ids": meta["flatten_ids"],
    })  # fmt: skip
    distances = drawn[..., -4:-3] / opacities.clamp_min(1e-10) if "E" in mode else drawn[..., -4:-3]
    wanted = torch.cat([drawn[..., :-4], distances, drawn[..., -3:], opacities], -1)
    shown = [images[..., :-1], meta["render_extra_signals"], images[..., -1:], meta["normals"], alphas]
    found = torch.cat(shown, -1)
    sure = ~doubtful[..., None] & (opacities > 0.01)
    assert sure.double().mean() > 0.5
    torch.testing.assert_close(found * sure, (wanted * sure).float(), rtol=1e-4, atol=1e-4)
    v = random(*found.shape, seed=4) * sure
    own = torch.autograd.grad(found, list(leaves.values()), v)
    others = torch.autograd.grad(wanted, list(exact.values()), v.double())
    for name, one, other in zip(leaves, own, others, strict=True):
        assert (one - other).abs().max() <= 1e-3 * other.abs().max(), name


@pytest.mark.parametrize("changes", [{"render_mode": "RGB-d"}, {"return_normals": True}])
def test_distances_and_normals_need_rays(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs with_eval3d=True, by which Gaussians are evaluated along rays"):
        rasterization(**scene(**changes))


@pytest.mark.parametrize("way", [{}, {"packed": True, "absgrad": True}, {"packed": False, "with_eval3d": True}])
def test_alphas_end_where_a_caller_wants(way: dict[str, Any]) -> None:
    given = scene() | {"opacities": (torch.arange(N) == 0).float(), "scales": torch.full((N, 3), 0.5)}
    for most in (0.9, 0.4):
        assert rasterization(**given | way, max_alpha=most)[1].max().item() == pytest.approx(most)
        assert rasterization_2dgs(**given, max_alpha=most)[1].max().item() == pytest.approx(most)
    with pytest.raises(ValueError, match="max_alpha must be from 1/255, the smallest that is drawn, to"):
        rasterization(**given | way, max_alpha=1)


@pytest.mark.parametrize("model", ["pinhole", "ftheta"])
def test_gaussians_are_sorted_by_distance(model: str) -> None:
    """Two: the one with less depth, beside the axis, is farther away."""
    lens = {}
    if model == "ftheta":
        away = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0)
        lens = {"ftheta_coeffs": splat.FThetaCameraDistortionParameters(
            splat.FThetaPolynomialType.ANGLE_TO_PIXELDIST, away, tuple(each * 20 for each in away), 1.5, (1.0, 0.0, 0.0)
        )}  # fmt: skip
    arguments: dict[str, Any] = {
        "means": torch.tensor([[2.0, 0.0, 2.0], [0.0, 0.0, 2.5]]), "quats": torch.tensor([[1.0, 0, 0, 0]] * 2),
        "scales": torch.full((2, 3), 0.05), "opacities": torch.full((2,), 0.9), "colors": None, "render_mode": "ED",
        "viewmats": torch.eye(4)[None], "width": 60, "height": 20, "with_ut": True, "packed": False,
        "Ks": torch.tensor([[[20.0, 0, 10], [0, 20, 10], [0, 0, 1]]]), "camera_model": model, **lens,
    }  # fmt: skip
    depths = [rasterization(**arguments, global_z_order=order)[2]["depths"][0] for order in (True, False)]
    torch.testing.assert_close(depths[0], torch.tensor([2.0, 2.5]))
    torch.testing.assert_close(depths[1], torch.tensor([math.sqrt(8), 2.5]))
    # Between the two distances, ftheta cameras cull by them, others by the depth.
    for order, seen in ((True, 2), (False, 1 if model == "ftheta" else 2)):
        radii = rasterization(**arguments, global_z_order=order, far_plane=2.7)[2]["radii"]
        assert int((radii > 0).all(-1).sum()) == seen
    with pytest.raises(NotImplementedError, match="it needs with_ut=True"):
        rasterization(**scene(global_z_order=False))


@pytest.mark.parametrize("with_eval3d", [False, True])
def test_signals_are_seen_from_the_middle_of_a_rolling_shutter(with_eval3d: bool) -> None:
    given = scene(packed=False, with_ut=True, with_eval3d=with_eval3d)
    later = given["viewmats"].clone()
    later[:, 0, 3] += 0.3
    given |= {"rolling_shutter": splat.RollingShutterType.ROLLING_TOP_TO_BOTTOM, "viewmats_rs": later}
    signals = SIGNALS["[N, K, E]"]
    _, _, meta = rasterization(**given | signals | {"render_mode": "RGB+ED"})
    values = splat.spherical_harmonics(
        3, given["means"], given["viewmats"], signals["extra_signals"], viewmats_rs=later
    )
    expected = rasterization(**given | {"colors": values + 0.5})[0]
    torch.testing.assert_close(meta["render_extra_signals"], expected, rtol=1e-5, atol=1e-5)


def test_rays_are_taken_in_place_of_the_cameras() -> None:
    given = scene(packed=False, with_eval3d=True)
    cameras = Sizes((), N, 2), given["means"], given["viewmats"], given["Ks"], WIDTH, HEIGHT
    rays = camera_rays(check_lens_cameras(*cameras, "pinhole", NO_LENS), cameras[0])
    own, _, meta = rasterization(**given)
    assert torch.equal(rasterization(**given, rays=rays)[0], own)
    turned = rays.flip(3) * torch.tensor([1.0, 1, 1, 2, 2, 2])
    found, _, _ = rasterization(**given, rays=turned)
    listed = {name: meta[name] for name in ("tile_size", "isect_offsets", "flatten_ids", "opacities")}
    gaussians = {name: given[name] for name in ("means", "quats", "scales", "viewmats", "Ks")}
    expected, _ = splat.rasterize_to_pixels_eval3d(
        **gaussians, **listed, colors=given["colors"].expand(2, N, 3), image_width=WIDTH, image_height=HEIGHT,
        rays=turned,
    )  # fmt: skip
    assert torch.equal(found, expected)
    assert not torch.equal(found, own)
    with pytest.raises(ValueError, match=r"rays must have shape \[..., C, height, width, 6\].* found \[2, 40, 30, 6\]"):
        rasterization(**given, rays=rays.transpose(1, 2))
    with pytest.raises(NotImplementedError, match="rays require a gradient"):
        rasterization(**given, rays=rays.requires_grad_())
    with pytest.raises(ValueError, match="rays needs with_eval3d=True"):
        rasterization(**scene(rays=rays))


def test_parameters_of_the_unscented_transform_are_taken() -> None:
    given = scene(packed=False, with_ut=True)
    wide = splat.UnscentedTransformParameters(alpha=0.8, kappa=0.5, in_image_margin_factor=0.4)
    gaussians = {name: given[name] for name in ("means", "quats", "scales", "opacities", "viewmats", "Ks")}
    for parameters in (None, wide):
        found = rasterization(**given, ut_params=parameters)[2]
        expected = splat.fully_fused_projection_with_ut(**gaussians, width=WIDTH, height=HEIGHT, ut_params=parameters)
        assert torch.equal(found["means2d"], expected[1])
    assert not torch.equal(found["means2d"], rasterization(**given)[2]["means2d"])
    with pytest.raises(TypeError, match="ut_params must be"):
        rasterization(**given, ut_params=object())
    with pytest.raises(TypeError, match="ut_params must be"):
        rasterization(**scene(ut_params="nonsense"))


# Spherical harmonics


@pytest.mark.parametrize("channels", [1, 3, 7])
def test_harmonics_are_evaluated_towards_cameras(channels: int) -> None:
    given, coeffs = scene(), random(N, 16, channels)
    means, viewmats = given["means"], given["viewmats"]
    masks = torch.rand(2, N) < 0.7
    found = splat.spherical_harmonics(3, means, viewmats, coeffs, masks)
    expected = evaluated(coeffs, 3, given) * masks[..., None]
    torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-5)
    named = splat.spherical_harmonics(3, means=means, viewmats=viewmats, coeffs=coeffs, masks=masks)
    assert torch.equal(named, found)
    views, rows = masks.nonzero(as_tuple=True)
    ids = torch.zeros_like(views), views, rows
    packed = splat.spherical_harmonics(3, means, viewmats, coeffs[rows], None, *ids)
    torch.testing.assert_close(packed, found[views, rows], rtol=0, atol=0)
    batch = splat.spherical_harmonics(3, torch.stack([means] * 2), torch.stack([viewmats] * 2), coeffs, None)
    torch.testing.assert_close(batch[1][masks], found[masks], rtol=0, atol=0)
    ids = torch.ones_like(views), views, rows
    stacked = torch.stack([means + 9, means]), torch.stack([viewmats * 0.5, viewmats])
    packed = splat.spherical_harmonics(3, *stacked, coeffs[rows], None, *ids)
    torch.testing.assert_close(packed, found[views, rows], rtol=0, atol=0)


def test_a_rolling_camera_is_half_way() -> None:
    given, coeffs = scene(), random(N, 4, 3)
    ends = given["viewmats"], torch.flip(given["viewmats"], (0,))
    found = splat.spherical_harmonics(1, given["means"], ends[0], coeffs, viewmats_rs=ends[1])
    centres = torch.stack([torch.linalg.inv(each)[:, :3, 3] for each in ends]).mean(0)
    directions = given["means"] - centres[:, None]
    expected = splat.spherical_harmonics(1, directions, coeffs[None])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_half_coefficients_have_half_gradients() -> None:
    given, coeffs = scene(), random(N, 4, 2).half().requires_grad_()
    means, viewmats = (given[name].clone().requires_grad_() for name in ("means", "viewmats"))
    found = splat.spherical_harmonics(1, means, viewmats, coeffs)
    assert torch.equal(found, splat.spherical_harmonics(1, means, viewmats, coeffs.float()))
    (found * random(*found.shape)).sum().backward()
    assert coeffs.grad is not None
    assert coeffs.grad.dtype == torch.float16
    assert all(each.grad is not None and each.grad.any() for each in (means, viewmats))


ZERO = torch.zeros(1, dtype=torch.int64)
BAD_HARMONICS: list[tuple[dict[str, Any], str]] = [
    ({"viewmats": torch.eye(3)[None]}, r"viewmats must have shape \[..., C, 4, 4\]"),
    ({"coeffs": random(N - 1, 4, 3)}, r"coeffs must have shape \[N, K, D\]"),
    ({"coeffs": random(N, 4, 0)}, "coeffs must have at least one channel"),
    ({"degrees_to_use": 2}, "degrees_to_use=2 needs K >= 9"),
    ({"batch_ids": ZERO, "camera_ids": ZERO + 2, "gaussian_ids": ZERO}, "camera_ids must be from 0 to 1, found 2 to 2"),
    ({"camera_ids": ZERO}, "required together; missing: batch_ids, gaussian_ids"),
    ({"viewmats_rs": torch.eye(4)}, r"viewmats_rs must have shape"),
    ({"masks": torch.ones(N) > 0}, "masks must have shape"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_HARMONICS)
def test_a_wrong_argument_of_harmonics_is_named(changes: dict[str, Any], message: str) -> None:
    given = {"degrees_to_use": 1, "coeffs": random(N, 4, 3)} | {name: scene()[name] for name in ("means", "viewmats")}
    splat.spherical_harmonics(**given)
    with pytest.raises(ValueError, match=message):
        splat.spherical_harmonics(**given | changes)


# Relocation


def test_relocation_bounds_opacities_before_it_makes_scales() -> None:
    opacities, ratios = torch.tensor([0.02, 0.5, 1.0]), torch.tensor([10, 3, 2])
    binomials = splat.MCMCStrategy().initialize_state()["binoms"]
    found, scales = splat.compute_relocation(opacities, torch.ones(3, 3), ratios, binomials, min_opacity=0.005)
    for i, (opacity, copies) in enumerate(zip(opacities.tolist(), ratios.tolist(), strict=True)):
        new = min(max(1 - (1 - opacity) ** (1 / copies), 0.005), 1 - 2**-23)
        terms = [
            math.comb(n - 1, k) * (-1) ** k / math.sqrt(k + 1) * new ** (k + 1)
            for n in range(1, copies + 1)
            for k in range(n)
        ]
        torch.testing.assert_close(found[i], torch.tensor(new), rtol=1e-6, atol=0)
        torch.testing.assert_close(scales[i], torch.full((3,), opacity / math.fsum(terms)), rtol=1e-5, atol=0)
    with pytest.raises(ValueError, match="min_opacity must be finite and at least 0"):
        splat.compute_relocation(opacities, torch.ones(3, 3), ratios, binomials, min_opacity=-1)


# Who contributes


def lists(packed: bool, **changes: Any) -> tuple[tuple[Any, ...], Tensor, Tensor]:
    """Arguments for the functions, the picture and the opacities."""
    images, alphas, meta = rasterization(**scene(packed=packed, tile_size=8, **changes))
    names = ("means2d", "conics", "opacities", "isect_offsets", "flatten_ids", "width", "height", "tile_size")
    return tuple(meta[name] for name in names), images, alphas


@pytest.mark.parametrize("most", [0.999, 0.6])
@pytest.mark.parametrize("packed", [False, True])
def test_contributions_make_the_picture(packed: bool, most: float) -> None:
    given, images, alphas = lists(packed, max_alpha=most)
    counts, sums = splat.rasterize_num_contributing_gaussians(*given, max_alpha=most)
    assert counts.dtype == torch.int32
    torch.testing.assert_close(sums[..., None], alphas, rtol=0, atol=1e-5)
    ids, weights = splat.rasterize_contributing_gaussian_ids(*given, counts, max_alpha=most)
    assert ids.shape == weights.shape == (2, HEIGHT, WIDTH, int(counts.max()))
    assert ids.dtype == torch.int32
    there = torch.arange(ids.shape[-1]) < counts[..., None]
    assert torch.equal(ids >= 0, there)
    assert (ids[~there] == -1).all()
    assert not weights[~there].any()
    # Of a packed layout, they number its pairs.
    gaussians = rasterization(**scene(tile_size=8))[2]["gaussian_ids"][ids.clamp_min(0)] if packed else ids
    colors = scene()["colors"][gaussians.clamp_min(0).long()]
    torch.testing.assert_close((weights[..., None] * colors).sum(-2), images, rtol=0, atol=1e-5)
    # Front to back, as lists without weights have them.
    if not packed:
        means2d, conics, opacities, offsets, flatten_ids, *size = given
        listed, pixels, image_ids = splat.rasterize_to_indices_in_range(
            0, 1000, torch.ones(2, HEIGHT, WIDTH), means2d, conics, opacities, *size, offsets, flatten_ids,
            max_alpha=most,
        )  # fmt: skip
        assert torch.equal(ids[there].long(), listed)
        assert torch.equal(counts.flatten().long(), (image_ids * HEIGHT * WIDTH + pixels).bincount(minlength=2400))


@pytest.mark.parametrize("packed", [False, True])
def test_the_largest_contributions_are_chosen_and_stay_in_order(packed: bool) -> None:
    given, _, _ = lists(packed)
    counts, _ = splat.rasterize_num_contributing_gaussians(*given)
    ids, weights = splat.rasterize_contributing_gaussian_ids(*given, counts)
    for most in (1, 3, int(counts.max()) + 2):
        top_ids, top_weights = splat.rasterize_top_contributing_gaussian_ids(*given, most)
        assert top_ids.shape == top_weights.shape == (2, HEIGHT, WIDTH, most)
        for pixel in ((0, 15, 20), (1, 7, 9), (1, 29, 39), (0, 0, 0)):
            every = [(i, w) for i, w in zip(ids[pixel].tolist(), weights[pixel].tolist(), strict=True) if i >= 0]
            least = sorted((w for _, w in every), reverse=True)[:most][-1:]
            expected = [each for each in every if least and each[1] >= least[0]]
            padded = expected + [(-1, 0.0)] * (most - len(expected))
            assert list(zip(top_ids[pixel].tolist(), top_weights[pixel].tolist(), strict=True)) == padded


def test_contributions_of_nothing_are_none() -> None:
    given, _, _ = lists(False, far_plane=0.02)
    counts, sums = splat.rasterize_num_contributing_gaussians(*given)
    assert not counts.any()
    assert not sums.any()
    assert splat.rasterize_contributing_gaussian_ids(*given, counts)[0].shape == (2, HEIGHT, WIDTH, 0)
    assert (splat.rasterize_top_contributing_gaussian_ids(*given, 2)[0] == -1).all()


def test_a_wrong_list_is_named() -> None:
    given, _, _ = lists(False)
    counts, _ = splat.rasterize_num_contributing_gaussians(*given)
    with pytest.raises(ValueError, match=r"tile_offsets must have shape \[..., rows, columns\] = \[2, 4, 5\]"):
        splat.rasterize_num_contributing_gaussians(*given[:3], given[3][:, 1:], *given[4:])
    with pytest.raises(ValueError, match="flatten_ids must be from 0 to 159"):
        splat.rasterize_num_contributing_gaussians(*given[:4], given[4] + 1000, *given[5:])
    with pytest.raises(ValueError, match="num_contributing_gaussians must have shape"):
        splat.rasterize_contributing_gaussian_ids(*given, counts[:1])
    with pytest.raises(ValueError, match="num_depth_samples must be above 0"):
        splat.rasterize_top_contributing_gaussian_ids(*given, 0)
    with pytest.raises(ValueError, match="max_alpha must be from 1/255"):
        splat.rasterize_top_contributing_gaussian_ids(*given, 1, max_alpha=1)
