"""The gradients of `splat.rasterization` from end to end: against autograd of the float64 reference, in every layout,
under `torch.compile` and under `torch.use_deterministic_algorithms`, and with Gaussians that are not finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
import reference_rasterizer as reference
import scenes
import torch
from gradient_tolerances import TOLERANCE
from hypothesis import HealthCheck, given, settings
from scenes import Scene, random_scene
from torch import Tensor

import splat

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]

Tensors = dict[str, Tensor]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def parameters_of(scene: Scene, sh_degree: int | None, has_background: bool, covars: bool) -> Tensors:
    """The tensors of a scene that gradients are asked of."""
    found = {name: getattr(scene, name) for name in ("means", "quats", "scales", "opacities", "colors", "viewmats")}
    generator = torch.Generator().manual_seed(9)
    if sh_degree is not None:
        found["colors"] = torch.randn(len(scene.means), 25, 3, generator=generator) * 0.4
    if has_background:
        found["backgrounds"] = torch.rand(len(scene.viewmats), scene.colors.shape[-1], generator=generator)
    if covars:
        found["covars"] = splat.quat_scale_to_covar_preci(found.pop("quats"), found.pop("scales"))[0]
    return {name: value.clone() for name, value in found.items()}


def by_reference(
    parameters: Tensors, scene: Scene, sh_degree: int | None, render_mode: str, rasterize_mode: str, camera_model: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Images, opacities and where they are doubtful, [C, H, W, *], float64, differentiable."""
    images, opacities, doubts = [], [], []
    y, x = torch.meshgrid(torch.arange(scene.height), torch.arange(scene.width), indexing="ij")
    pixels = torch.stack([x.flatten(), y.flatten()], 1).double() + 0.5
    triangle = [0, 1, 2, 4, 5, 8]
    for camera in range(len(scene.viewmats)):
        viewmat = parameters["viewmats"][camera]
        p = reference.project(
            parameters["means"], parameters.get("quats"), parameters.get("scales"), parameters["opacities"], viewmat,
            scene.Ks[camera], scene.width, scene.height, antialiased=rasterize_mode == "antialiased",
            covars=parameters["covars"].flatten(1)[:, triangle] if "covars" in parameters else None,
            camera_model=camera_model,
        )  # fmt: skip
        features = parameters["colors"]
        if sh_degree is not None:
            features, _ = reference.shade(parameters["means"], features, viewmat, sh_degree)
        background = parameters.get("backgrounds", torch.zeros(len(scene.viewmats), features.shape[-1]).double())[
            camera
        ]
        if render_mode == "RGB+ED":
            features = torch.cat([features, p.depths[:, None]], dim=1)
            background = torch.cat([background, torch.zeros(1).double()])
        order = p.visible.nonzero().flatten()
        order = order[p.depths[order].detach().argsort(stable=True)]
        seen = parameters["opacities"] * p.compensations
        blended = reference.blend(p.means2d[order], p.conics[order], features[order], seen[order], background, pixels)
        colors, alphas = blended.colors, blended.alphas
        if render_mode == "RGB+ED":
            colors = torch.cat([colors[:, :-1], colors[:, -1:] / alphas.clamp_min(1e-10)], dim=1)
        doubtful = torch.ones_like(blended.doubtful) if p.doubtful.any() else blended.doubtful
        images.append(colors)
        opacities.append(alphas)
        # Where next to nothing is seen, the quotient of two roundings is not compared.
        doubts.append(doubtful | (alphas[:, 0] < 1e-3) if render_mode == "RGB+ED" else doubtful)
    shape = (len(scene.viewmats), scene.height, scene.width, -1)
    return tuple(torch.stack(parts).reshape(shape) for parts in (images, opacities, doubts))  # type: ignore[return-value]


def assert_near(found: Tensor, expected: Tensor, what: str) -> None:
    """Within the tolerance of each Gaussian's or camera's largest gradient, plus 1e-5 of the largest of all."""
    assert found.shape == expected.shape
    if not expected.numel():
        return
    off = (found.cpu().double() - expected).abs()
    size = expected.abs().reshape(len(expected), -1).amax(1).reshape(-1, *[1] * (expected.ndim - 1))
    allowed = TOLERANCE * (size + 0.01 * expected.abs().max()) + 1e-9
    assert (off <= allowed).all(), f"{what}: {(off / allowed).max():.3g} times what is allowed"


def compare(
    device: str,
    scene: Scene,
    packed: bool = False,
    sh_degree: int | None = None,
    render_mode: str = "RGB",
    rasterize_mode: str = "classic",
    camera_model: str = "pinhole",
    has_background: bool = True,
    covars: bool = False,
) -> float:
    """Compare all gradients; the share of pixels that were compared."""
    values = parameters_of(scene, sh_degree, has_background, covars)
    exact = {name: value.double().requires_grad_() for name, value in values.items()}
    images, alphas, doubtful = by_reference(exact, scene, sh_degree, render_mode, rasterize_mode, camera_model)
    generator = torch.Generator().manual_seed(3)
    v_images, v_alphas = (
        torch.where(doubtful, 0.0, torch.randn(part.shape, generator=generator)) for part in (images, alphas)
    )
    expected = torch.autograd.grad(
        (images, alphas), list(exact.values()), (v_images.double(), v_alphas.double()), materialize_grads=True
    )

    leaves = {name: value.to(device).requires_grad_() for name, value in values.items()}
    given: dict[str, Any] = {"quats": None, "scales": None, **leaves}
    found = splat.rasterization(
        **given, Ks=scene.Ks.to(device), width=scene.width, height=scene.height, packed=packed, sh_degree=sh_degree,
        render_mode=render_mode, rasterize_mode=rasterize_mode, camera_model=camera_model,
    )[:2]  # fmt: skip
    for name, one, other in zip(leaves, torch.autograd.grad(
        found, list(leaves.values()), (v_images.to(device), v_alphas.to(device)), materialize_grads=True
    ), expected, strict=True):  # fmt: skip
        if name == "covars":
            # Of a symmetric matrix only the upper triangle is used, by both.
            assert not one.tril(-1).any()
        assert_near(one, other, name)
    return 1 - float(doubtful.double().mean())


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sh_degree": 0},
        {"sh_degree": 3, "rasterize_mode": "antialiased"},
        {"sh_degree": 4, "has_background": False},
        {"render_mode": "RGB+ED"},
        {"render_mode": "RGB+ED", "rasterize_mode": "antialiased", "sh_degree": 1},
        {"covars": True},
        {"covars": True, "rasterize_mode": "antialiased"},
        {"camera_model": "ortho"},
        {"camera_model": "fisheye", "sh_degree": 2},
    ],
    ids=str,
)
def test_gradients_in_every_mode(device: str, options: dict[str, Any], packed: bool) -> None:
    scene = random_scene(0, 30, 29, 19, size="mixed", views=("front", "close"))
    assert compare(device, scene, packed, **options) > 0.5


def test_gradients_of_any_number_of_channels(device: str) -> None:
    for channels in (1, 2, 5, 33):
        assert compare(device, random_scene(4, 30, 29, 19, channels=channels)) > 0.5


def test_gradients_of_random_scenes(device: str) -> None:
    shares = []

    @settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(
        seed=st.integers(0, 2**32 - 1),
        gaussians=st.integers(0, 40),
        width=st.one_of(st.just(1), st.integers(1, 35)),
        height=st.one_of(st.just(1), st.integers(1, 35)),
        size=st.sampled_from(sorted(scenes.SIZES)),
        opacity=st.sampled_from(scenes.OPACITIES),
        views=st.lists(st.sampled_from(scenes.VIEWS), min_size=1, max_size=2),
        packed=st.booleans(),
        rasterize_mode=st.sampled_from(["classic", "antialiased"]),
        sh_degree=st.sampled_from([None, 2]),
    )
    def check(
        seed: int, gaussians: int, width: int, height: int, size: str, opacity: str, views: list[str], **options: Any
    ) -> None:
        shares.append(
            compare(device, random_scene(seed, gaussians, width, height, size, opacity, tuple(views)), **options)
        )

    check()
    assert sum(shares) > 0.5 * len(shares)


# Layouts


def leaves_of(scene: Scene, device: str = "cpu") -> Tensors:
    return {name: value.to(device).requires_grad_() for name, value in parameters_of(scene, None, False, False).items()}


def render(leaves: Tensors, scene: Scene, **options: Any) -> tuple[Tensor, Tensor, dict[str, Any]]:
    device = leaves["means"].device
    return splat.rasterization(**leaves, Ks=scene.Ks.to(device), width=scene.width, height=scene.height, **options)  # type: ignore[arg-type]


def loss(leaves: Tensors, scene: Scene, **options: Any) -> Tensor:
    colors, alphas, _ = render(leaves, scene, **options)
    return colors.square().sum() + alphas.sum()


def gradients(leaves: Tensors, scene: Scene, **options: Any) -> Tensors:
    found = torch.autograd.grad(loss(leaves, scene, **options), list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


def assert_same(found: Tensors, expected: Tensors) -> None:
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6 * float(value.abs().max()), msg=name)


@pytest.mark.parametrize("sh_degree", [None, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_scenes_of_a_batch_get_the_gradients_they_get_alone(device: str, packed: bool, sh_degree: int | None) -> None:
    alone = [random_scene(seed, 30, 29, 19, size="mixed", views=("front", "close")) for seed in range(6)]
    values = [parameters_of(scene, sh_degree, True, False) for scene in alone]
    batch = {
        name: torch.stack([v[name] for v in values]).reshape(3, 2, *values[0][name].shape).to(device)
        for name in values[0]
    }
    whole = Scene(**{name: getattr(alone[0], name) for name in alone[0].arguments})
    object.__setattr__(whole, "Ks", torch.stack([scene.Ks for scene in alone]).reshape(3, 2, 2, 3, 3))
    leaves = {name: value.requires_grad_() for name, value in batch.items()}
    found = gradients(leaves, whole, packed=packed, sh_degree=sh_degree)
    for i, scene in enumerate(alone):
        one = {name: value.to(device).requires_grad_() for name, value in values[i].items()}
        expected = gradients(one, scene, packed=packed, sh_degree=sh_degree)
        assert_same({name: value.flatten(0, 1)[i] for name, value in found.items()}, expected)


@pytest.mark.parametrize("absgrad", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch", [(), (1,), (1, 1)])
def test_means2d_keeps_its_gradients(device: str, batch: tuple[int, ...], packed: bool, absgrad: bool) -> None:
    scene = random_scene(3, 30, 29, 19, size="mixed", views=("front", "close"))
    leaves = {name: value.reshape(*batch, *value.shape).to(device).detach() for name, value in leaves_of(scene).items()}
    leaves["means"].requires_grad_()
    object.__setattr__(scene, "Ks", scene.Ks.reshape(*batch, 2, 3, 3))
    colors, _, meta = render(leaves, scene, packed=packed, absgrad=absgrad)
    meta["means2d"].retain_grad()
    colors.square().sum().backward()
    gradient = meta["means2d"].grad
    assert gradient.shape == meta["means2d"].shape
    assert gradient.abs().sum() > 0
    assert hasattr(meta["means2d"], "absgrad") == absgrad
    if absgrad:
        assert meta["means2d"].absgrad.shape == gradient.shape
        assert (meta["means2d"].absgrad >= gradient.abs() * (1 - 1e-4)).all()
        assert meta["means2d"].absgrad.sum() > 1.1 * gradient.abs().sum()


@pytest.mark.parametrize("sh_degree", [None, 2])
@pytest.mark.parametrize("covars", [False, True])
def test_sparse_gradients_are_the_rows_of_visible_gaussians(device: str, covars: bool, sh_degree: int | None) -> None:
    scene = random_scene(3, 60, 29, 19, size="mixed", views=("close", "beside"))
    values = parameters_of(scene, sh_degree, False, covars)
    leaves = {name: value.to(device).requires_grad_() for name, value in values.items()}
    given: Any = {"quats": None, "scales": None, **leaves} if covars else leaves
    dense = torch.autograd.grad(loss(given, scene, sh_degree=sh_degree), list(leaves.values()))
    colors, alphas, meta = render(given, scene, sh_degree=sh_degree, sparse_grad=True)
    found = torch.autograd.grad(colors.square().sum() + alphas.sum(), list(leaves.values()))
    visible = meta["gaussian_ids"].unique()
    assert 0 < len(visible) < 60
    for name, one, other in zip(leaves, found, dense, strict=True):
        assert one.is_sparse == (name in {"means", "quats", "scales", "covars"})
        if one.is_sparse:
            assert torch.equal(one.coalesce().indices()[0], visible)
            one = one.to_dense()
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6 * float(other.abs().max()), msg=name)


def test_a_projection_s_sparse_gradients() -> None:
    scene = random_scene(3, 60, 29, 19, size="mixed", views=("close", "beside"))
    found = []
    for sparse in (False, True):
        leaves = [getattr(scene, name).clone().requires_grad_() for name in ("means", "quats", "scales")]
        means, quats, scales = leaves
        _, _, ids, *_, means2d, depths, conics, _ = splat.fully_fused_projection(
            means, None, quats, scales, scene.viewmats, scene.Ks, 29, 19, packed=True, sparse_grad=sparse
        )
        assert means2d is not None
        found.append(torch.autograd.grad(means2d.square().sum() + depths.sum() + conics.sum(), leaves))
    for dense, rows in zip(*found, strict=True):
        assert torch.equal(rows.coalesce().indices()[0], ids.unique())
        assert torch.equal(rows.to_dense(), dense)


# Other ways to run


@pytest.mark.parametrize(("packed", "sh_degree"), [(False, None), (True, 1)])
def test_rasterization_compiles_into_one_graph(packed: bool, sh_degree: int | None) -> None:
    scene = random_scene(3, 40, 29, 19, views=("front", "close"))
    leaves = {k: v.requires_grad_() for k, v in parameters_of(scene, sh_degree, True, False).items()}
    options = {"packed": packed, "sh_degree": sh_degree, "render_mode": "RGB+ED", "rasterize_mode": "antialiased"}
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(leaves, scene, **options), list(leaves.values()))
    for one, (name, expected) in zip(found, gradients(leaves, scene, **options).items(), strict=True):
        assert torch.equal(one, expected), name


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("packed", [False, True])
def test_gradients_are_the_same_every_time_where_that_is_asked_for(device: str, packed: bool) -> None:
    scene = random_scene(3, 400, 67, 49, size="mixed", views=("front", "close"))
    leaves = leaves_of(scene, device)
    first, *others = (gradients(leaves, scene, packed=packed) for _ in range(4))
    for other in others:
        for name, value in first.items():
            assert torch.equal(other[name], value), name


def test_gradients_do_not_depend_on_the_number_of_threads() -> None:
    scene = random_scene(3, 400, 67, 49, size="mixed", views=("front", "close"))
    leaves = leaves_of(scene)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(gradients(leaves, scene))
    finally:
        torch.set_num_threads(before)
    for name, value in found[0].items():
        assert torch.equal(found[1][name], value), name
        assert torch.equal(found[2][name], value), name


# Bad values


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("sh_degree", [None, 2])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("bad", ["means", "quats", "scales", "opacities", "colors", "covars"])
def test_a_gaussian_that_is_not_finite_leaves_all_gradients_alone(
    device: str, bad: str, value: float, sh_degree: int | None, packed: bool
) -> None:
    scene = random_scene(13, 30, 29, 19, size="mixed", views=("front", "close"))
    options: dict[str, Any] = {"packed": packed, "sh_degree": sh_degree, "rasterize_mode": "antialiased"}
    values = parameters_of(scene, sh_degree, True, bad == "covars")
    shape = {"quats": None, "scales": None} if bad == "covars" else {}
    without = {name: torch.cat([v[:17], v[18:]]) if len(v) == 30 else v for name, v in values.items()}
    values[bad][17].view(-1)[0] = value
    results = []
    for tensors in (values, without):
        leaves = {name: v.to(device).requires_grad_() for name, v in tensors.items()}
        found = torch.autograd.grad(loss({**shape, **leaves}, scene, **options), list(leaves.values()))  # type: ignore[dict-item]
        results.append(dict(zip(leaves, found, strict=True)))
    for name, found_ in results[0].items():
        if len(found_) == 30:
            assert not found_[17].any(), name
            found_ = torch.cat([found_[:17], found_[18:]])
        torch.testing.assert_close(found_, results[1][name], rtol=1e-5, atol=1e-6, msg=name)
