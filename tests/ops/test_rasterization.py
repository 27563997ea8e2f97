"""`splat.rasterization` against the float64 reference, by its meta dictionary, and with bad input."""

from __future__ import annotations

import math
import random
from typing import Any

import hypothesis.strategies as st
import pytest
import reference_rasterizer as reference
import scenes
import torch
from hypothesis import HealthCheck, given, settings
from reference_rasterizer import TOLERANCE
from scenes import Scene, random_scene, real_scene
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import splat
from splat.scene.camera import orbit
from splat.scene.ply import read_ply

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def render(device: str, scene: Scene, **options: Any) -> tuple[Tensor, Tensor, dict[str, Any]]:
    arguments = {**scene.arguments, **options}
    moved: dict[str, Any] = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in arguments.items()}
    return splat.rasterization(**moved)


class Tally:
    """How many pixels were compared, and for how many of them float32 may be off by more than the tolerance."""

    def __init__(self) -> None:
        self.pixels = self.loose = 0

    def compare(self, device: str, scene: Scene, packed: bool = True, tile_size: int = 16, **options: Any) -> None:
        colors, alphas, _ = render(device, scene, packed=packed, tile_size=tile_size, **options)
        expected = reference.render(**scene.arguments, **options)
        loose = torch.zeros(alphas.shape[:-1], dtype=torch.bool)
        for found, exact, bound in (
            (colors, expected.colors, expected.color_bound),
            (alphas, expected.alphas, expected.alpha_bound),
        ):
            assert found.shape == exact.shape
            assert found.dtype == torch.float32
            off = (found.cpu().double() - exact).abs()
            excess = off - bound.clamp(min=TOLERANCE)
            assert not (excess > 0).any(), f"off by {off[excess > 0].max():.3g} in {(excess > 0).sum()} values"
            assert torch.isfinite(found).all()
            loose |= (bound > TOLERANCE).any(-1)
        self.pixels += loose.numel()
        self.loose += int(loose.sum())

    def assert_tight(self, share: float) -> None:
        """Without this, a bound that grew without limit would make every comparison pass."""
        assert self.pixels > 0
        assert self.loose <= share * self.pixels, f"{self.loose} of {self.pixels} pixels are not compared tightly"


# Random scenes


@pytest.mark.slow
def test_random_scenes_agree_with_the_reference(device: str) -> None:
    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(
        seed=st.integers(0, 2**32 - 1),
        gaussians=st.integers(0, 100),
        width=st.one_of(st.just(1), st.integers(1, 50)),
        height=st.one_of(st.just(1), st.integers(1, 50)),
        size=st.sampled_from(sorted(scenes.SIZES)),
        opacity=st.sampled_from(scenes.OPACITIES),
        views=st.lists(st.sampled_from(scenes.VIEWS), min_size=1, max_size=3),
        channels=st.integers(1, 5),
        packed=st.booleans(),
        antialiased=st.booleans(),
        render_mode=st.sampled_from(["RGB", "D", "ED", "RGB+D", "RGB+ED"]),
        has_background=st.booleans(),
        tile_size=st.sampled_from([16, 16, 8, 4]),
    )
    def check(
        seed: int,
        gaussians: int,
        width: int,
        height: int,
        size: str,
        opacity: str,
        views: list[str],
        channels: int,
        packed: bool,
        antialiased: bool,
        render_mode: str,
        has_background: bool,
        tile_size: int,
    ) -> None:
        scene = random_scene(seed, gaussians, width, height, size, opacity, tuple(views), channels)
        backgrounds = torch.linspace(0, 1, channels).expand(len(views), -1) if has_background else None
        Tally().compare(
            device,
            scene,
            packed=packed,
            tile_size=tile_size,
            backgrounds=backgrounds,
            render_mode=render_mode,
            rasterize_mode="antialiased" if antialiased else "classic",
        )

    check()


def test_random_scenes_are_compared_tightly(device: str) -> None:
    """Of scenes that a seed decides: Hypothesis draws others as soon as a module of ours has a new number in it."""
    tally = Tally()
    for seed in range(40):
        rng = random.Random(seed)
        width, height, gaussians, channels = (
            rng.randint(1, 50),
            rng.randint(1, 50),
            rng.randint(0, 100),
            rng.randint(1, 5),
        )
        size, opacity = rng.choice(sorted(scenes.SIZES)), rng.choice(scenes.OPACITIES)
        views = tuple(rng.choices(scenes.VIEWS, k=rng.randint(1, 3)))
        scene = random_scene(seed, gaussians, width, height, size, opacity, views, channels)
        tally.compare(device, scene, render_mode=rng.choice(["RGB", "D", "ED", "RGB+D", "RGB+ED"]))
    tally.assert_tight(0.02)


# Fixed scenes


@pytest.mark.parametrize("size", sorted(scenes.SIZES))
@pytest.mark.parametrize("view", scenes.VIEWS)
def test_every_size_and_view(device: str, size: str, view: str) -> None:
    tally = Tally()
    tally.compare(device, random_scene(7, 100, 61, 45, size=size, views=(view,)))
    tally.assert_tight(0.1)


@pytest.mark.parametrize(
    ("packed", "rasterize_mode", "has_background"), [(True, "classic", True), (False, "antialiased", False)]
)
@pytest.mark.parametrize("render_mode", ["RGB", "D", "ED", "RGB+D", "RGB+ED"])
def test_every_mode(device: str, packed: bool, rasterize_mode: str, render_mode: str, has_background: bool) -> None:
    """Other combinations are among the random scenes."""
    scene = random_scene(1, 120, 45, 37, views=("front", "close"))
    tally = Tally()
    tally.compare(
        device,
        scene,
        packed=packed,
        rasterize_mode=rasterize_mode,
        render_mode=render_mode,
        backgrounds=torch.tensor([[0.1, 0.5, 1.0], [1.0, 0.0, 0.3]]) if has_background else None,
    )
    tally.assert_tight(0.02)


@pytest.mark.parametrize(
    ("channels", "packed"),
    [(1, True), (3, True), (4, False), (5, True), (8, False), (9, True), (32, False), (33, True), (70, False)],
)
def test_any_number_of_channels(device: str, channels: int, packed: bool) -> None:
    scene = random_scene(2, 80, 35, 33, channels=channels, views=("front", "front"))
    tally = Tally()
    tally.compare(device, scene, packed=packed, backgrounds=torch.linspace(-1, 1, 2 * channels).reshape(2, -1))
    tally.assert_tight(0.02)


@pytest.mark.parametrize(
    ("degree", "bands", "per_camera", "packed"),
    [
        *((degree, (degree + 1) ** 2, degree % 2 == 1, True) for degree in range(5)),
        *((degree, 25, per_camera, False) for degree in (0, 3) for per_camera in (False, True)),
    ],
)
def test_spherical_harmonics(device: str, degree: int, bands: int, per_camera: bool, packed: bool) -> None:
    scene = random_scene(3, 90, 40, 31, views=("front", "close"))
    generator = torch.Generator().manual_seed(4)
    coeffs = torch.randn(2 if per_camera else 1, 90, bands, 3, generator=generator) * 0.4
    tally = Tally()
    tally.compare(device, scene.with_colors(coeffs if per_camera else coeffs[0]), packed=packed, sh_degree=degree)
    tally.assert_tight(0.02)


@pytest.mark.parametrize("packed", [True, False])
def test_colors_of_each_camera(device: str, packed: bool) -> None:
    scene = random_scene(8, 70, 33, 33, views=("front", "front", "close"))
    colors = torch.rand(3, 70, 4, generator=torch.Generator().manual_seed(6))
    tally = Tally()
    tally.compare(device, scene.with_colors(colors), packed=packed)
    tally.assert_tight(0.02)


@pytest.mark.parametrize("tile_size", [1, 4, 7, 16, 32])
def test_gaussians_on_the_edges_of_tiles(device: str, tile_size: int) -> None:
    tally = Tally()
    tally.compare(device, scenes.on_tile_edges(tile_size=tile_size), tile_size=tile_size)
    tally.assert_tight(0.02)


@pytest.mark.parametrize(
    "options",
    [
        {"radius_clip": 2.0},
        {"radius_clip": 1e6},
        {"near_plane": 2.5},
        {"far_plane": 2.5},
        {"far_plane": math.inf},
        {"near_plane": 2.4, "far_plane": 2.6},
        {"eps2d": 0.0},
        {"eps2d": 2.0, "rasterize_mode": "antialiased"},
    ],
    ids=str,
)
def test_culling_and_blur(device: str, options: dict[str, Any]) -> None:
    tally = Tally()
    tally.compare(device, random_scene(9, 150, 50, 40), **options)
    tally.assert_tight(0.02)


def test_channel_chunk_changes_nothing() -> None:
    scene = random_scene(2, 80, 35, 33, channels=5)
    whole, one = (render("cpu", scene, channel_chunk=chunk)[0] for chunk in (32, 1))
    assert torch.equal(whole, one)


def single(opacity: float, color: float, depth: float, **changes: Any) -> Scene:
    """One Gaussian in the middle of 5 x 5 pixels, of a deviation of 1 pixel before the blur."""
    values: dict[str, Any] = {
        "means": torch.tensor([[0.0, 0.0, depth]]),
        "quats": torch.tensor([[1.0, 0.0, 0.0, 0.0]]),
        "scales": torch.full((1, 3), depth / 10),
        "opacities": torch.tensor([opacity]),
        "colors": torch.tensor([[color]]),
        "viewmats": torch.eye(4)[None],
        "Ks": torch.tensor([[[10.0, 0, 2.5], [0, 10.0, 2.5], [0, 0, 1]]]),
        "width": 5,
        "height": 5,
    }
    return Scene(**{**values, **changes})


def test_one_gaussian_by_hand(device: str) -> None:
    colors, alphas, meta = render(device, single(0.5, 3.0, 2.0), backgrounds=torch.tensor([[8.0]]), packed=False)
    # The blurred variance is 1.3; the pixel beside the middle is 1 away.
    beside = 0.5 * math.exp(-0.5 / 1.3)
    expected = torch.tensor([0.5, beside, beside])
    assert alphas[0, [2, 2, 1], [2, 3, 2], 0].cpu() == pytest.approx(expected, abs=1e-6)
    assert colors[0, [2, 2, 1], [2, 3, 2], 0].cpu() == pytest.approx(3 * expected + 8 * (1 - expected), abs=1e-5)
    assert meta["radii"].tolist() == [[[math.ceil(math.sqrt(2 * math.log(127.5) * 1.3))] * 2]]
    assert meta["means2d"].tolist() == [[[2.5, 2.5]]]


def test_an_antialiased_gaussian_by_hand(device: str) -> None:
    _, alphas, meta = render(device, single(0.5, 3.0, 2.0), rasterize_mode="antialiased")
    # A variance of 1 before and 1.3 after the blur, along both axes.
    assert alphas[0, 2, 2, 0].item() == pytest.approx(0.5 / 1.3, abs=1e-6)
    assert meta["opacities"].item() == pytest.approx(0.5 / 1.3, abs=1e-6)


def test_an_antialiased_gaussian_without_area_is_invisible(device: str) -> None:
    scene = single(0.9, 1.0, 2.0, scales=torch.zeros(1, 3))
    _, alphas, _ = render(device, scene, rasterize_mode="antialiased")
    assert alphas.max().item() == 0


def test_alpha_is_at_most_0_999_and_a_ray_ends_before_1e_4(device: str) -> None:
    stacked = single(
        1.0,
        0.0,
        2.0,
        means=torch.tensor([[0.0, 0, 2], [0, 0, 3], [0, 0, 4]]),
        quats=torch.tensor([[1.0, 0, 0, 0]]).expand(3, -1),
        scales=torch.tensor([[0.2], [0.3], [0.4]]).expand(-1, 3),
        opacities=torch.tensor([1.0, 0.5, 0.95]),
        colors=torch.tensor([[0.01], [0.1], [1.0]]),
    )
    colors, alphas, _ = render(device, stacked)
    # 1e-3, then 5e-4; the third would leave 2.5e-5, so it is not drawn.
    assert alphas[0, 2, 2, 0].item() == pytest.approx(1 - 5e-4, abs=1e-6)
    assert colors[0, 2, 2, 0].item() == pytest.approx(0.00999 + 5e-5, abs=1e-7)
    tally = Tally()
    tally.compare(device, stacked)
    tally.assert_tight(0)


@pytest.mark.parametrize("packed", [True, False])
def test_gaussians_of_the_same_depth_are_drawn_in_their_order(device: str, packed: bool) -> None:
    n = 40
    at_once = single(
        0.5,
        0.0,
        2.0,
        means=torch.tensor([[0.0, 0.0, 2.0]]).expand(n, -1),
        quats=torch.tensor([[1.0, 0, 0, 0]]).expand(n, -1),
        scales=torch.full((n, 3), 0.2),
        opacities=torch.full((n,), 0.1),
        colors=torch.arange(n).float()[:, None],
    )
    colors, _, _ = render(device, at_once, packed=packed)
    expected = sum(i * 0.1 * 0.9**i for i in range(n))
    assert colors[0, 2, 2, 0].item() == pytest.approx(expected, rel=1e-5)


def test_other_layouts_of_the_same_numbers_give_the_same_image(device: str) -> None:
    scene = random_scene(10, 64, 40, 30, views=("front", "front"))
    same = {
        "means": scene.means.T.contiguous().T,
        "quats": torch.cat([scene.quats, scene.quats], dim=1)[:, :4],
        "scales": scene.scales[:, :1].expand(-1, 3),
        "opacities": torch.stack([scene.opacities] * 2, dim=1)[:, 0],
        "colors": scene.colors[:, :1].expand(-1, 3),
        "viewmats": scene.viewmats[:1].expand(2, -1, -1),
        "Ks": scene.Ks.mT.contiguous().mT,
    }
    plain = {name: value.clone(memory_format=torch.contiguous_format) for name, value in same.items()}
    assert not any(value.is_contiguous() for value in same.values())
    for packed in (True, False):
        first, second = (render(device, scene, packed=packed, **values)[0] for values in (same, plain))
        assert torch.equal(first, second)


def test_inputs_are_left_as_they_were(device: str) -> None:
    scene = random_scene(12, 30, 20, 20)
    before = {name: value.clone() for name, value in scene.arguments.items() if isinstance(value, Tensor)}
    render(device, scene, render_mode="RGB+ED", backgrounds=torch.ones(1, 3), rasterize_mode="antialiased")
    for name, value in before.items():
        assert torch.equal(getattr(scene, name), value)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("render_mode", ["RGB", "D", "ED", "RGB+D", "RGB+ED"])
def test_no_gaussians_give_the_background(device: str, render_mode: str, packed: bool) -> None:
    scene = random_scene(1, 0, 19, 17, views=("front", "front"))
    background = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    colors, alphas, meta = render(device, scene, backgrounds=background, render_mode=render_mode, packed=packed)
    depth = [torch.zeros(2, 1)] if "D" in render_mode else []
    expected = torch.cat([*([background] if "RGB" in render_mode else []), *depth], dim=1)
    assert torch.equal(colors.cpu(), expected[:, None, None].expand(2, 17, 19, -1))
    assert torch.equal(alphas.cpu(), torch.zeros(2, 17, 19, 1))
    assert meta["flatten_ids"].shape == (0,)


@pytest.mark.parametrize("packed", [True, False])
def test_no_cameras_give_no_images(device: str, packed: bool) -> None:
    scene = random_scene(1, 12, 19, 17)
    none = {"viewmats": torch.zeros(0, 4, 4), "Ks": torch.zeros(0, 3, 3)}
    colors, alphas, meta = render(device, scene, **none, packed=packed)
    assert colors.shape == (0, 17, 19, 3)
    assert alphas.shape == (0, 17, 19, 1)
    assert meta["n_cameras"] == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["means", "quats", "scales", "opacities", "colors"])
def test_a_gaussian_that_is_not_finite_is_not_drawn_but_counted(device: str, name: str, value: float) -> None:
    scene = random_scene(13, 50, 30, 30)
    tensor = getattr(scene, name).clone()
    tensor[17].view(-1)[-1] = value
    without = {
        field: torch.cat([v[:17], v[18:]]) for field, v in scene.arguments.items()
        if isinstance(v, Tensor) and len(v) == 50
    }  # fmt: skip
    found, _, meta = render(device, scene, **{name: tensor})
    expected, _, other = render(device, scene, **without)
    assert torch.equal(found, expected)
    assert meta["n_invalid"].item() == 1
    assert other["n_invalid"].item() == 0


# Real scenes


def test_bulba(device: str) -> None:
    bulba = read_ply(real_scene("bulba.ply"))
    camera = orbit(bulba, 101, 75, azimuth=30, elevation=20)
    scene = Scene(
        bulba.means, bulba.quats, bulba.scales, bulba.opacities, bulba.sh, camera.viewmat[None], camera.K[None], 101, 75
    )  # fmt: skip
    for mode in ("classic", "antialiased"):
        tally = Tally()
        tally.compare(device, scene, sh_degree=3, rasterize_mode=mode, render_mode="RGB+ED")
        tally.assert_tight(0.05)


def test_garden(device: str) -> None:
    tally = Tally()
    tally.compare(device, scenes.garden(reduction=8), packed=False)
    tally.assert_tight(0.05)


# The meta dictionary. C = 2 cameras, N = 50 Gaussians, 40 x 25 pixels, tiles of 16; M and L depend on the
# scene.

META = {
    # name: (dtype, shape if packed, shape if not); None stands for None.
    "batch_ids": (torch.int64, ("M",), None),
    "camera_ids": (torch.int64, ("M",), None),
    "gaussian_ids": (torch.int64, ("M",), None),
    "radii": (torch.int32, ("M", 2), (2, 50, 2)),
    "means2d": (torch.float32, ("M", 2), (2, 50, 2)),
    "depths": (torch.float32, ("M",), (2, 50)),
    "conics": (torch.float32, ("M", 3), (2, 50, 3)),
    "opacities": (torch.float32, ("M",), (2, 50)),
    "tiles_per_gauss": (torch.int32, ("M",), (2, 50)),
    "isect_ids": (torch.int64, ("L",), ("L",)),
    "flatten_ids": (torch.int32, ("L",), ("L",)),
    "isect_offsets": (torch.int32, (2, 2, 3), (2, 2, 3)),
    "n_invalid": (torch.int64, (), ()),
    "n_pairs": (torch.int64, (), ()),
}
META_NUMBERS = {
    "tile_width": 3,
    "tile_height": 2,
    "width": 40,
    "height": 25,
    "tile_size": 16,
    "n_batches": 1,
    "n_cameras": 2,
}


@pytest.mark.parametrize("rasterize_mode", ["classic", "antialiased"])
@pytest.mark.parametrize("packed", [True, False])
def test_meta(device: str, packed: bool, rasterize_mode: str) -> None:
    scene = random_scene(20, 50, 40, 25, views=("front", "beside"))
    _, _, meta = render(device, scene, packed=packed, rasterize_mode=rasterize_mode)
    assert set(meta) == set(META) | set(META_NUMBERS)
    for name, number in META_NUMBERS.items():
        assert meta[name] == number
        assert type(meta[name]) is int
    sizes = {"M": len(meta["means2d"]), "L": len(meta["flatten_ids"])}
    for name, (dtype, packed_shape, dense_shape) in META.items():
        shape = packed_shape if packed else dense_shape
        if shape is None:
            assert meta[name] is None
            continue
        assert meta[name].dtype == dtype, name
        assert tuple(meta[name].shape) == tuple(sizes.get(str(n), n) for n in shape), name
        assert meta[name].device.type == device


@pytest.mark.parametrize("rasterize_mode", ["classic", "antialiased"])
def test_meta_holds_the_projection(device: str, rasterize_mode: str) -> None:
    scene = random_scene(21, 80, 40, 25, views=("front", "close"))
    _, _, meta = render(device, scene, packed=False, rasterize_mode=rasterize_mode)
    for i in range(2):
        expected = reference.project(
            scene.means, scene.quats, scene.scales, scene.opacities, scene.viewmats[i], scene.Ks[i], 40, 25,
            antialiased=rasterize_mode == "antialiased",
        )  # fmt: skip
        found = {name: meta[name][i].cpu() for name in ("radii", "means2d", "depths", "conics", "opacities")}
        seen = (found["radii"] > 0).all(1)
        assert torch.equal(seen[~expected.doubtful], expected.visible[~expected.doubtful])
        assert expected.doubtful.sum() <= 2
        assert 20 < seen.sum() < 80
        assert (found["radii"] >= expected.radii_range[0])[seen].all()
        assert (found["radii"] <= expected.radii_range[1])[seen].all()
        for name in ("means2d", "depths", "conics"):
            exact = getattr(expected, name)[seen]
            assert (found[name][seen] - exact).abs().max() <= 1e-4 * exact.abs().max()
            assert (found[name][~seen] == 0).all()
        exact = scene.opacities * expected.compensations
        assert (found["opacities"] - exact)[seen].abs().max() <= 1e-4


class Operations(TorchDispatchMode):
    """Notes the names of the operations that torch carries out, without those that only make views."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func.is_view and func.overloadpacket.__name__ != "_unsafe_view":
            self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_packing_is_one_operation_forward_and_one_backward(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, one more would be one more launch, and one whose result has a size of its own would wait."""
    monkeypatch.setattr("splat.ops.arguments._check_camera_values", lambda *_: None)  # which is not done on a GPU
    scene = random_scene(24, 50, 40, 25)
    means = scene.means.to(device).requires_grad_()
    noted: dict[bool, list[str]] = {}
    for packed in (True, False):
        with Operations() as operations:
            image, _, _ = render(device, scene, means=means, packed=packed)
            torch.autograd.grad(image.sum(), means)
        noted[packed] = operations.names
    noted[False][noted[False].index("intersect")] = "pack"
    noted[True].remove("pack_backward")
    assert noted[True] == noted[False]


def test_packed_meta_is_the_visible_part_of_the_dense_one(device: str) -> None:
    scene = random_scene(22, 60, 40, 25, views=("front", "beside", "behind"))
    _, _, packed = render(device, scene, packed=True)
    _, _, dense = render(device, scene, packed=False)
    cameras, gaussians = (dense["radii"] > 0).all(-1).nonzero(as_tuple=True)
    assert torch.equal(packed["camera_ids"], cameras)
    assert torch.equal(packed["gaussian_ids"], gaussians)
    assert (packed["batch_ids"] == 0).all()
    for name in ("radii", "means2d", "depths", "conics", "opacities", "tiles_per_gauss"):
        assert torch.equal(packed[name], dense[name][cameras, gaussians])
    for name in ("isect_ids", "isect_offsets"):
        assert torch.equal(packed[name], dense[name])
    assert torch.equal((cameras * 60 + gaussians)[packed["flatten_ids"]], dense["flatten_ids"].long())


def test_meta_lists_each_gaussian_in_its_tiles(device: str) -> None:
    scene = random_scene(23, 60, 70, 50, views=("front", "close"))
    _, _, meta = render(device, scene, packed=False)
    ids, flat = meta["isect_ids"].cpu(), meta["flatten_ids"].cpu().long()
    tiles = meta["tile_width"] * meta["tile_height"]
    assert tiles == 5 * 4
    tile_bits = 5
    image, tile, depth = ids >> (32 + tile_bits), (ids >> 32) & (2**tile_bits - 1), ids & (2**32 - 1)
    assert torch.equal(ids, ids.sort().values)
    assert torch.equal(image, flat // 60)
    assert torch.equal(depth.int().view(torch.float32), meta["depths"].cpu().flatten()[flat])
    # Every tile listed is one that the rectangle of the Gaussian's radii reaches.
    corner = torch.stack([tile % 5, tile // 5], dim=1) * 16
    means2d, radii = (meta[name].cpu().reshape(-1, 2)[flat] for name in ("means2d", "radii"))
    assert ((means2d + radii >= corner) & (means2d - radii <= corner + 16)).all()
    assert torch.equal(torch.bincount(flat, minlength=120), meta["tiles_per_gauss"].cpu().flatten().long())
    runs = torch.searchsorted(image * tiles + tile, torch.arange(2 * tiles))
    assert torch.equal(meta["isect_offsets"].cpu().flatten().long(), runs)


# Room for lists


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("more", [0, 1, 1000])
def test_a_capacity_changes_nothing_but_the_length_of_the_lists(device: str, more: int) -> None:
    scene = random_scene(24, 60, 70, 50, views=("front", "close"))
    exact, padded = [], []
    for found, capacity in ((exact, None), (padded, more)):
        leaves = {name: getattr(scene, name).to(device).requires_grad_() for name in ("means", "colors", "opacities")}
        room = None if capacity is None else int(exact[-1]["n_pairs"]) + capacity
        rest = {"viewmats": scene.viewmats.to(device), "Ks": scene.Ks.to(device)}
        images, alphas, meta = render(device, scene, **leaves, **rest, packed=False, capacity=room)
        (images.square().sum() + alphas.sum()).backward()
        found += [images.detach(), alphas.detach(), *(leaf.grad for leaf in leaves.values()), meta]
    pairs = len(exact[-1]["flatten_ids"])
    assert exact[-1]["n_pairs"] == padded[-1]["n_pairs"] == pairs
    for one, other in zip(exact[:-1], padded[:-1], strict=True):
        assert torch.equal(one, other)
    for name, last in (("flatten_ids", -1), ("isect_ids", torch.iinfo(torch.int64).max)):
        assert torch.equal(padded[-1][name][:pairs], exact[-1][name])
        assert padded[-1][name][pairs:].tolist() == [last] * more
    assert torch.equal(padded[-1]["isect_offsets"], exact[-1]["isect_offsets"])


@pytest.mark.parametrize("nothing", ["cameras", "gaussians"])
def test_there_may_be_room_and_nobody_for_it(device: str, nothing: str) -> None:
    scene = random_scene(24, 60, 70, 50)
    names = ("viewmats", "Ks") if nothing == "cameras" else ("means", "quats", "scales", "opacities", "colors")
    empty = {name: getattr(scene, name)[:0].to(device) for name in names}
    images, _, meta = render(device, scene, **empty, packed=False, capacity=5)
    assert not images.any()
    assert meta["n_pairs"] == 0
    assert meta["flatten_ids"].tolist() == [-1] * 5
    assert meta["isect_ids"].tolist() == [torch.iinfo(torch.int64).max] * 5


def test_too_small_a_capacity_is_an_error_on_the_cpu() -> None:
    scene = random_scene(24, 60, 70, 50)
    pairs = render("cpu", scene)[2]["n_pairs"]
    message = f"the Gaussians touch {pairs} tiles, for which capacity=7 has no room; pass a larger one"
    with pytest.raises(RuntimeError, match=message):
        render("cpu", scene, packed=False, capacity=7)


def test_a_graph_knows_the_size_of_lists_with_a_capacity() -> None:
    scene = random_scene(24, 60, 70, 50)

    def lists(means: Tensor) -> Tensor:
        _, _, meta = splat.rasterization(**{**scene.arguments, "means": means}, packed=False, capacity=5000)
        ids: Tensor = meta["flatten_ids"]
        return ids.new_ones(len(ids)) * (ids + 1)

    compiled = torch.compile(lists, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(scene.means), lists(scene.means))
    assert len(compiled(scene.means)) == 5000


# Bad input


def good() -> dict[str, Any]:
    return {**random_scene(1, 10, 8, 6, views=("front", "front")).arguments}


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"means": [[0, 0, 0]]}, TypeError, "means must be a float32 torch.Tensor, found list"),
    (
        {"means": torch.zeros(10, 3).double()},
        TypeError,
        r"means must be float32, found torch.float64; pass means.to\(torch.float32\)",
    ),
    ({"quats": torch.zeros(10, 4).half()}, TypeError, "quats must be float32, found torch.float16"),
    ({"colors": torch.zeros(10, 3).byte()}, TypeError, "colors must be float32, found torch.uint8"),
    ({"backgrounds": torch.zeros(2, 3).double()}, TypeError, "backgrounds must be float32"),
    (
        {"Ks": torch.zeros(2, 3, 3, device="meta")},
        ValueError,
        "Ks must have values, found a tensor on the device meta",
    ),
    (
        {"means": torch.zeros(10, 4)},
        ValueError,
        r"means must have shape \[\.\.\., N, 3\] = \[10, 3\], found \[10, 4\]",
    ),
    ({"means": torch.zeros(3)}, ValueError, r"means must have shape \[\.\.\., N, 3\], found \[3\]"),
    ({"quats": torch.zeros(9, 4)}, ValueError, r"quats must have shape .* = \[10, 4\], found \[9, 4\]"),
    ({"scales": torch.zeros(10)}, ValueError, r"scales must have shape .* = \[10, 3\], found \[10\]"),
    (
        {"opacities": torch.zeros(10, 1)},
        ValueError,
        r"opacities must have shape \[\.\.\., N\] = \[10\], found \[10, 1\]",
    ),
    (
        {"viewmats": torch.eye(4)},
        ValueError,
        r"viewmats must have shape \[\.\.\., C, 4, 4\], with C = 1 .* found \[4, 4\]",
    ),
    ({"viewmats": torch.eye(3)[None]}, ValueError, r"viewmats must have shape \[\.\.\., C, 4, 4\] = \[1, 4, 4\]"),
    (
        {"Ks": torch.eye(3)[None]},
        ValueError,
        r"Ks must have shape \[\.\.\., C, 3, 3\] = \[2, 3, 3\], found \[1, 3, 3\]",
    ),
    ({"colors": torch.zeros(9, 3)}, ValueError, r"colors must have shape .* found \[9, 3\]"),
    ({"colors": torch.zeros(10, 0)}, ValueError, r"colors must have shape .* D >= 1, found \[10, 0\]"),
    ({"colors": torch.zeros(10)}, ValueError, r"colors must have shape .* found \[10\]"),
    ({"colors": torch.zeros(10, 4, 3)}, ValueError, "pass sh_degree"),
    ({"sh_degree": 1}, ValueError, r"with sh_degree, colors must have shape .* found \[10, 3\]"),
    ({"colors": torch.zeros(10, 4, 3), "sh_degree": 2}, ValueError, "sh_degree=2 needs K >= 9"),
    (
        {"colors": torch.zeros(10, 36, 3), "sh_degree": 5},
        ValueError,
        "sh_degree must be 0 to 4, found 5",
    ),
    (
        {"colors": torch.zeros(10, 4, 3), "sh_degree": -1},
        ValueError,
        "sh_degree must be 0 to 4, found -1",
    ),
    ({"colors": torch.zeros(10, 4, 3), "sh_degree": 1.5}, TypeError, "sh_degree must be an int, found 1.5"),
    ({"backgrounds": torch.zeros(4)}, ValueError, r"backgrounds must have shape .*\[2, 3\], found \[4\]"),
    (
        {"backgrounds": torch.zeros(2, 4)},
        ValueError,
        r"backgrounds must have shape .*\[2, 3\], found \[2, 4\]",
    ),
    (
        {"viewmats": torch.full((2, 4, 4), math.nan)},
        ValueError,
        r"viewmats must be finite, found viewmats\[0\]",
    ),
    ({"viewmats": torch.zeros(2, 4, 4)}, ValueError, r"viewmats must be invertible, found viewmats\[0\]"),
    ({"Ks": torch.full((2, 3, 3), math.inf)}, ValueError, r"Ks must be finite, found Ks\[0\]"),
    (
        {"Ks": torch.zeros(2, 3, 3)},
        ValueError,
        r"Ks must have focal lengths above 0, found Ks\[0\] with \[0.0, 0.0\]",
    ),
    ({"width": 0}, ValueError, "width must be above 0, found 0"),
    ({"height": -5}, ValueError, "height must be above 0, found -5"),
    ({"width": 8.0}, TypeError, r"width must be an int, found 8.0 \(float\)"),
    ({"height": 2**20 + 1}, ValueError, "height must be at most 1048576, found 1048577"),
    ({"tile_size": 0}, ValueError, "tile_size must be above 0"),
    ({"tile_size": 33}, ValueError, "tile_size must be at most 32, found 33"),
    ({"channel_chunk": 0}, ValueError, "channel_chunk must be above 0"),
    ({"near_plane": -1.0}, ValueError, "near_plane must be finite and at least 0, found -1.0"),
    ({"near_plane": math.nan}, ValueError, "near_plane must be finite and at least 0, found nan"),
    ({"near_plane": "near"}, TypeError, "near_plane must be a number, found 'near'"),
    (
        {"near_plane": 2.0, "far_plane": 1.0},
        ValueError,
        "far_plane must be beyond near_plane, found 1.0 and 2.0",
    ),
    ({"radius_clip": -1.0}, ValueError, "radius_clip must be finite and at least 0"),
    ({"eps2d": math.inf}, ValueError, "eps2d must be finite and at least 0, found inf"),
    ({"render_mode": "rgb"}, ValueError, "render_mode must be one of 'RGB', .* found 'rgb'"),
    (
        {"rasterize_mode": "smooth"},
        ValueError,
        "rasterize_mode must be one of 'classic', 'antialiased', found",
    ),
    ({"camera_model": "pinhale"}, ValueError, "camera_model must be one of 'pinhole', .* found 'pinhale'"),
    (
        {"camera_model": "ftheta"},
        ValueError,
        "found 'ftheta', which needs .*with_ut=True",
    ),
    ({"means": torch.zeros(5, 10, 3)}, ValueError, r"quats must have shape .* = \[5, 10, 4\], found \[10, 4\]"),
    ({"viewmats": torch.eye(4).expand(1, 2, 4, 4)}, ValueError, r"viewmats must have shape .* found \[1, 2, 4, 4\]"),
    ({"means": torch.zeros(0, 10, 3)}, ValueError, r"batch dimensions above 0, found \[0, 10, 3\]"),
    ({"covars": torch.zeros(10, 6)}, ValueError, r"covars must have shape .* = \[10, 3, 3\], found \[10, 6\]"),
    ({"quats": None}, ValueError, "quats and scales, or covars, are required; found no covars and no quats"),
    ({"capacity": 100}, ValueError, "capacity needs packed=False and distributed=False.*; found packed=True"),
    ({"capacity": 0, "packed": False}, ValueError, "capacity must be .*, found 0"),
    ({"capacity": 2.5, "packed": False}, TypeError, r"capacity must be an int, found 2\.5 \(float\)"),
    ({"sparse_grad": True, "packed": False}, ValueError, "sparse_grad needs packed=True, found packed=False"),
    ({"distributed": True}, RuntimeError, "distributed=True needs a process group, .* torchrun"),
    ({"with_ut": True}, ValueError, "packed must be False with with_ut=True, found True"),
    ({"with_eval3d": True}, ValueError, "packed must be False with with_eval3d=True, found True"),
    ({"viewmats_rs": torch.eye(4).expand(2, 4, 4)}, ValueError, "viewmats_rs needs with_ut=True"),
]


@pytest.mark.parametrize(("changes", "error", "message"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    splat.rasterization(**good())
    with pytest.raises(error, match=message) as raised:
        splat.rasterization(**{**good(), **changes})
    assert type(raised.value) is error


def test_a_gradient_that_does_not_exist_is_refused_where_it_would_be_lost() -> None:
    arguments = good()
    arguments["Ks"] = arguments["Ks"].clone().requires_grad_()
    with pytest.raises(NotImplementedError, match=r"Ks requires grad.*pass Ks.detach\(\)"):
        splat.rasterization(**arguments)
    with torch.no_grad():
        colors, _, _ = splat.rasterization(**arguments)
    assert torch.equal(colors, splat.rasterization(**good())[0])
