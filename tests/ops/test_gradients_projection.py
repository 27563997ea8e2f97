"""Projection and spherical harmonics, forward and backward, against the float64 reference and its derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import reference_rasterizer as reference
import torch
from gradient_tolerances import TOLERANCE
from hypothesis import HealthCheck, given, settings
from reference_rasterizer import sh_basis
from torch import Tensor

from splat import _kernels
from splat.ops.camera_models import CAMERA_MODELS

_kernels.require(torch.device("cpu"))
OPS = torch.ops.splat
DEVICES = ["cpu"]
if torch.cuda.is_available():
    _kernels.require(torch.device("cuda"))
    DEVICES.append("cuda")

CAMERAS = {name: number for number, name in enumerate(CAMERA_MODELS)}
WIDTH, HEIGHT = 57, 41
NEAR, FAR = 0.2, 1e10
PARAMETERS = ("means", "quats", "scales", "covars", "coeffs", "viewmats")
OUTPUTS = ("means2d", "depths", "conics", "compensations", "colors")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Case:
    """Gaussians with quats and scales, or with covars, perhaps with harmonics [N, K, 3], and cameras."""

    means: Tensor
    quats: Tensor | None
    scales: Tensor | None
    covars: Tensor | None
    opacities: Tensor
    viewmats: Tensor
    Ks: Tensor
    eps2d: float = 0.3
    antialiased: bool = False
    camera_model: str = "pinhole"
    coeffs: Tensor | None = None
    degree: int = 0

    def parameters(self) -> dict[str, Tensor]:
        """What a gradient is asked of."""
        named = {name: getattr(self, name) for name in PARAMETERS}
        return {name: value for name, value in named.items() if value is not None}

    def arguments(self, **changes: Tensor | None) -> dict[str, Any]:
        """Those of the operator project."""
        names = ("means", "quats", "scales", "covars", "opacities", "coeffs", "viewmats", "Ks", "eps2d", "antialiased")
        others = {"width": WIDTH, "height": HEIGHT, "near_plane": NEAR, "far_plane": FAR, "radius_clip": 0.0}
        numbers = {"camera_model": CAMERAS[self.camera_model], "degree": self.degree, "direct": None}
        found = {name: getattr(self, name) for name in names} | others | numbers | changes
        return found | {"coeffs": None if found["coeffs"] is None else found["coeffs"][None]}

    def project(self, device: str = "cpu", **changes: Tensor | None) -> tuple[Tensor, ...]:
        """The operator's radii, means2d, depths, conics, compensations and colours."""
        moved = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in self.arguments(**changes).items()}
        found: tuple[Tensor, ...] = OPS.project(**moved)
        return found[:6]

    def exact(self, image: int, keep: Tensor, parameters: dict[str, Tensor]) -> reference.Projected:
        """Gaussians `keep` as the reference projects them, with these parameters."""

        def of(name: str) -> Tensor | None:
            return parameters[name][keep] if name in parameters else None

        return reference.project(
            parameters["means"][keep], of("quats"), of("scales"), self.opacities[keep], parameters["viewmats"][image],
            self.Ks[image], WIDTH, HEIGHT, self.eps2d, NEAR, FAR, 0.0, self.antialiased, of("covars"),
            self.camera_model,
        )  # fmt: skip

    def exact_colors(self, image: int, keep: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        """The colours of Gaussians `keep` by the reference."""
        means, coeffs, viewmat = parameters["means"][keep], parameters["coeffs"][keep], parameters["viewmats"][image]
        return reference.shade(means, coeffs, viewmat, self.degree)[0]


KINDS = ("plain", "behind", "margin", "axis", "thin", "needle", "huge", "flat", "far", "quats")


def _place(
    rng: np.random.Generator, kind: str, depth: float, pixel: np.ndarray, center: np.ndarray
) -> tuple[float, np.ndarray]:
    size = np.array([WIDTH, HEIGHT])
    if kind == "behind":
        return rng.choice([-2.0, -1.0, -0.5]), pixel
    if kind == "far":
        return 10.0 ** rng.uniform(2.0, 4.0), pixel
    if kind == "axis":
        return depth, center + rng.choice([-1.0, 1.0], size=2) * 10.0 ** rng.uniform(-3.0, 1.0)
    if kind == "margin":
        # On both sides of where the projection is linearised last, and far beyond.
        beyond = 0.15 * size + rng.choice([-1.0, -0.01, 0.01, 1.0, 30.0], size=2)
        return depth, np.where(rng.integers(2, size=2) > 0, size + beyond, -beyond)
    return depth, pixel


def _stretch(rng: np.random.Generator, kind: str, scales: np.ndarray) -> np.ndarray:
    if kind == "thin":
        return np.full(3, 10.0 ** rng.uniform(-7.0, -2.0))
    if kind == "needle":
        return rng.permutation([1.0, 1e-3, 1e-6])
    if kind == "huge":
        return scales * 10.0 ** rng.uniform(1.0, 3.0)
    if kind == "flat":
        return scales * rng.choice([0.0, 1.0], size=3)
    return scales


def make_case(
    seed: int,
    kinds: tuple[str, ...] = KINDS,
    each: int = 5,
    images: int = 2,
    whole: bool = False,
    stout: bool = False,
    degree: int | None = None,
    **options: Any,
) -> Case:
    """`each` random Gaussians of each kind, in front of cameras near the origin that look along z, more or less.

    `whole` gives covars; `stout` makes no axis shorter than a tenth of the longest; `degree` gives harmonics, and more
    of them than it needs.
    """
    rng = np.random.default_rng(seed)
    count = each * len(kinds)
    ortho = options.get("camera_model") == "ortho"
    focal = rng.uniform(8.0, 16.0, size=(images, 2)) if ortho else rng.uniform(25.0, 60.0, size=(images, 2))
    center = np.array([WIDTH, HEIGHT]) * rng.uniform(0.3, 0.7, size=(images, 2))
    depths = np.exp(rng.uniform(np.log(0.5), np.log(8.0), count))
    pixels = rng.uniform(0.0, 1.0, size=(count, 2)) * np.array([WIDTH, HEIGHT])
    scales = np.exp(rng.uniform(np.log(0.01), np.log(0.3), size=(count, 3)))
    quats = rng.normal(size=(count, 4))
    for i, kind in enumerate(np.repeat(kinds, each)):
        depths[i], pixels[i] = _place(rng, kind, depths[i], pixels[i], center[0])
        # Large enough to be seen from beside the image, or from far away.
        scales[i] = _stretch(rng, kind, scales[i]) * {"margin": 10 * depths[i], "far": depths[i]}.get(kind, 1)
        if stout or whole:
            # A covariance matrix in float32 has no digits left for axes much shorter than the longest.
            scales[i] = scales[i].clip(0.1 * scales[i].max())
        if kind == "quats":
            quats[i] = rng.choice([0.0, 1.0, -1.0, 1e-12, 1e12], size=4)
    spread = 1.0 if ortho else depths[:, None]
    xy = (pixels - center[0]) / focal[0] * spread
    quats *= np.exp(rng.uniform(-3.0, 3.0, size=(count, 1)))
    viewmats = np.tile(np.eye(4), (images, 1, 1))
    for matrix in viewmats[1:]:
        turn, _ = np.linalg.qr(np.eye(3) + 0.1 * rng.normal(size=(3, 3)))
        matrix[:3, :3] = turn * np.sign(np.diag(turn))
        matrix[:3, 3] = 0.1 * rng.normal(size=3)
    Ks = np.zeros((images, 3, 3))
    Ks[:, [0, 1], [0, 1]], Ks[:, :2, 2], Ks[:, 2, 2] = focal, center, 1.0

    def tensor(values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(values, dtype=np.float32))

    covars = None
    if whole:
        unit = quats / np.linalg.norm(quats, axis=1, keepdims=True).clip(1e-6)
        axes = reference.rotations(torch.from_numpy(np.where(np.abs(unit).max(1, keepdims=True) > 0.1, unit, 0.5)))
        matrix = (axes * torch.from_numpy(scales)[:, None] ** 2 @ axes.mT).numpy()
        covars = tensor(matrix[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]])
    return Case(
        means=tensor(np.concatenate([xy, depths[:, None]], axis=1)),
        quats=None if whole else tensor(quats),
        scales=None if whole else tensor(scales),
        covars=covars,
        opacities=tensor(rng.uniform(0.1, 1.0, count)),
        viewmats=tensor(viewmats),
        Ks=tensor(Ks),
        coeffs=None if degree is None else tensor(0.5 * rng.normal(size=(count, (degree + 1) ** 2 + 3, 3))),
        degree=degree or 0,
        **options,
    )


def incoming(seed: int, outputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """Random gradients by the operator's outputs but the radii."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(output.shape, generator=generator) for name, output in zip(OUTPUTS, outputs[1:], strict=True)
    }


def comparable(case: Case, radii: Tensor) -> Tensor:
    """[I, N] bool: what the operator and the reference both see, and float32 cannot see otherwise.

    The compensation has a slope without bound at 0, which gsplat bounds.
    """
    seen = (radii > 0).all(-1).cpu()
    for image in range(len(seen)):
        everything = torch.ones(len(case.means), dtype=torch.bool)
        p = case.exact(image, everything, case.parameters())
        seen[image] &= p.visible & ~p.doubtful & (p.compensations > 0.01)
    return seen


def exact_loss(case: Case, parameters: dict[str, Tensor], mask: Tensor, weights: dict[str, Tensor]) -> Tensor:
    """The reference's outputs [I, N], times weights, 0 where not in the mask."""
    images = []
    for image, keep in enumerate(mask):
        p = case.exact(image, keep, parameters)
        values = {name: case.exact_colors(image, keep, parameters) if name == "colors" else getattr(p, name)
                  for name in weights}  # fmt: skip
        each = sum((values[name] * w[image, keep].double()).reshape(len(p.depths), -1).sum(1)
                   for name, w in weights.items())  # fmt: skip
        images.append(torch.zeros(len(keep)).double().masked_scatter(keep, each))
    return torch.stack(images)


def found_gradients(case: Case, mask: Tensor, weights: dict[str, Tensor], device: str) -> dict[str, Tensor]:
    leaves = {name: value.to(device).requires_grad_() for name, value in case.parameters().items()}
    outputs = dict(zip(OUTPUTS, case.project(device, **leaves)[1:], strict=True))
    masked = [w * mask.reshape(mask.shape + (1,) * (w.ndim - 2)) for w in weights.values()]
    found = torch.autograd.grad(
        [outputs[name] for name in weights], list(leaves.values()), [value.to(device) for value in masked]
    )
    return {name: value.cpu().double() for name, value in zip(leaves, found, strict=True)}


def assert_close(case: Case, found: dict[str, Tensor], exact: dict[str, Tensor]) -> None:
    """Each gradient, as a vector for each Gaussian or image, within TOLERANCE of its own length."""
    for name, value in exact.items():
        off = (found[name] - value).flatten(1).norm(dim=1)
        allowed = TOLERANCE * value.flatten(1).norm(dim=1)
        if name == "quats":
            # Where a turn changes next to nothing: next to what a stretch changes.
            assert case.quats is not None
            assert case.scales is not None
            allowed += 1e-5 * (exact["scales"] * case.scales).norm(dim=1) / case.quats.norm(dim=1).clamp(min=1e-18)
        wrong = off > allowed + 1e-30
        assert not wrong.any(), f"{name}[{int(wrong.nonzero()[0])}]: {found[name][wrong][0]}, not {value[wrong][0]}"


@pytest.mark.parametrize("camera_model", CAMERAS)
def test_gradients_are_those_of_the_reference(device: str, camera_model: str) -> None:
    compared = dict.fromkeys(KINDS, 0)

    @settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(
        seed=st.integers(0, 2**32 - 1),
        whole=st.booleans(),
        antialiased=st.booleans(),
        images=st.integers(1, 3),
        eps2d=st.sampled_from([0.3, 0.3, 0.05, 2.0]),
        degree=st.sampled_from([None, 0, 1, 2, 3, 4]),
    )
    def check(seed: int, whole: bool, antialiased: bool, images: int, eps2d: float, degree: int | None) -> None:
        case = make_case(
            seed, images=images, whole=whole, antialiased=antialiased, eps2d=eps2d, camera_model=camera_model,
            degree=degree,
        )  # fmt: skip
        outputs = case.project()
        mask = comparable(case, outputs[0])
        for kind, count in zip(KINDS, mask.sum(0).reshape(-1, 5).sum(1).tolist(), strict=True):
            compared[kind] += count
        doubles = {name: value.double().requires_grad_() for name, value in case.parameters().items()}
        # One output at a time: each has its own size.
        for name, weight in incoming(seed, outputs).items():
            if (name == "compensations" and not antialiased) or (name == "colors" and degree is None):
                continue
            loss = exact_loss(case, doubles, mask, {name: weight}).sum()
            gradients = torch.autograd.grad(loss, list(doubles.values()), allow_unused=True, materialize_grads=True)
            exact = dict(zip(doubles, gradients, strict=True))
            assert_close(case, found_gradients(case, mask, {name: weight}, device), exact)

    check()
    assert compared.pop("behind") == 0
    assert min(compared.values()) >= 20, compared


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("camera_model", CAMERAS)
def test_every_camera_sees_what_the_reference_sees(device: str, camera_model: str, whole: bool) -> None:
    case = make_case(5, each=30, whole=whole, antialiased=True, camera_model=camera_model, degree=3)
    outputs = [output.cpu() for output in case.project(device)]
    everything = torch.ones(len(case.means), dtype=torch.bool)
    for image in range(2):
        p = case.exact(image, everything, case.parameters())
        radii, means2d, depths, conics, compensations, colors = (output[image] for output in outputs)
        seen = (radii > 0).all(1)
        assert torch.equal(seen[~p.doubtful], p.visible[~p.doubtful])
        assert p.doubtful.sum() <= 0.2 * len(seen)
        assert seen.sum() > 0.3 * len(seen)
        assert ((radii >= p.radii_range[0]) & (radii <= p.radii_range[1]))[seen].all()
        assert ((means2d - p.means2d).abs() <= (1e-5 * p.means2d.abs() + p.means2d_error + 1e-4))[seen].all()
        assert ((depths - p.depths).abs() <= 1e-5 * p.depths)[seen].all()
        scale = p.conics.norm(dim=1, keepdim=True)
        assert ((conics - p.conics).abs() <= 1e-4 * scale)[seen].all()
        off = (compensations - p.compensations).abs() - p.compensations_error
        assert (off <= 1e-4)[seen].all()
        torch.testing.assert_close(
            colors[seen].double(), case.exact_colors(image, seen, case.parameters()), rtol=1e-4, atol=1e-4
        )
        assert (colors[~seen] == 0).all()
        assert (colors[seen] == 0).any()


def test_a_covariance_is_worth_its_quaternion_and_scales(device: str) -> None:
    axes, whole = (
        make_case(6, kinds=("plain",), each=50, antialiased=True, whole=w, stout=True) for w in (False, True)
    )
    found, expected = whole.project(device), axes.project(device)
    assert torch.equal(found[0] > 0, expected[0] > 0)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


# What must be exact: sums, order, what is left alone.


def backward(case: Case, outputs: tuple[Tensor, ...], weights: dict[str, Tensor]) -> dict[str, Tensor]:
    leaves = {name: value.clone().requires_grad_() for name, value in case.parameters().items()}
    found = torch.autograd.grad(case.project(**leaves)[1:], list(leaves.values()), list(weights.values()))
    return dict(zip(leaves, found, strict=True))


@pytest.mark.parametrize("whole", [False, True])
def test_gradients_do_not_depend_on_the_number_of_threads(whole: bool, threads: Callable[[int], None]) -> None:
    case = make_case(8, kinds=("plain", "huge"), each=2600, images=3, whole=whole, antialiased=True, degree=3)
    outputs = case.project()
    weights = incoming(9, outputs)
    results = []
    for count in (1, 2, 5):
        threads(count)
        results.append(backward(case, outputs, weights))
    for other in results[1:]:
        for name, value in other.items():
            assert torch.equal(value, results[0][name]), name


def test_gradients_of_many_gaussians_are_the_sums_of_those_of_few() -> None:
    case = make_case(10, kinds=("plain",), each=3000, images=2, degree=2)
    outputs = case.project()
    weights = incoming(11, outputs)
    together = backward(case, outputs, weights)
    poses = torch.zeros(2, 4, 4).double()
    for part in torch.arange(3000).split(700):
        shapes = {name: getattr(case, name)[part] for name in ("means", "quats", "scales", "opacities", "coeffs")}
        few = replace(case, **shapes)
        found = backward(few, few.project(), {name: value[:, part] for name, value in weights.items()})
        for name in ("means", "quats", "scales", "coeffs"):
            assert torch.equal(found[name], together[name][part])
        poses += found["viewmats"]
    assert (together["viewmats"] - poses).abs().max() <= 1e-6 * poses.abs().max()
    assert (together["viewmats"][:, 3] == 0).all()


BAD = [
    *((name, value) for name in ("means", "quats", "scales") for value in (math.nan, math.inf, -math.inf)),
    *(("opacities", value) for value in (math.nan, math.inf, -math.inf)),
    *(("quats", value) for value in (0.0, 1e-25, 1e25)),
    *(("covars", value) for value in (math.nan, math.inf)),
]


@pytest.mark.parametrize("camera_model", CAMERAS)
@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_gaussian_that_is_none_is_culled_and_touches_no_other(
    device: str, name: str, value: float, camera_model: str
) -> None:
    """The same as one behind the camera, to the bit: its outputs and gradients are 0, whatever comes in for it."""
    case = make_case(
        12, kinds=("plain",), each=40, whole=name == "covars", camera_model=camera_model, antialiased=True, degree=2,
    )  # fmt: skip
    tensor = getattr(case, name).clone()
    tensor[17] = value
    behind = case.means.clone()
    behind[17] = torch.tensor([0.0, 0.0, -5.0])
    results = []
    for changes in ({name: tensor}, {"means": behind}):
        leaves = {key: changes.get(key, old).to(device).requires_grad_() for key, old in case.parameters().items()}
        opacities = changes.get("opacities", case.opacities)
        outputs = case.project(device, **leaves, opacities=opacities)
        weights = incoming(13, outputs)
        weights["conics"][:, 17] = weights["colors"][:, 17] = math.nan
        gradients = torch.autograd.grad(
            outputs[1:], list(leaves.values()), [weight.to(device) for weight in weights.values()]
        )
        assert all((output[:, 17] == 0).all() for output in outputs)
        assert all((gradient[17] == 0).all() for gradient in gradients[:-1])
        assert all(gradient.isfinite().all() for gradient in gradients)
        results.append([*outputs, *gradients])
    assert (results[0][0] > 0).sum() > 40
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("images", "each"), [(0, 5), (2, 0), (0, 0)])
@pytest.mark.parametrize("whole", [False, True])
def test_nothing_has_gradients_of_zero(device: str, images: int, each: int, whole: bool) -> None:
    case = make_case(1, each=5, whole=whole, degree=1)
    rows = ("means", "quats", "scales", "covars", "opacities", "coeffs")
    few = {name: value[:each] for name in rows if (value := getattr(case, name)) is not None}
    case = replace(case, **few, viewmats=case.viewmats[:images], Ks=case.Ks[:images])
    leaves = {name: value.to(device).requires_grad_() for name, value in case.parameters().items()}
    sum(output.sum() for output in case.project(device, **leaves)[1:]).backward()  # type: ignore[union-attr]
    for name, leaf in leaves.items():
        assert leaf.grad is not None, name
        assert leaf.grad.shape == leaf.shape
        assert not leaf.grad.any()


def test_gradients_may_come_expanded() -> None:
    case = make_case(14)
    leaves = {name: value.clone().requires_grad_() for name, value in case.parameters().items()}
    case.project(**leaves)[1].sum().backward()
    weights = {name: torch.zeros_like(value) for name, value in incoming(0, case.project()).items()}
    weights["means2d"] += 1.0
    expected = backward(case, case.project(), weights)
    assert all(torch.equal(leaf.grad, expected[name]) for name, leaf in leaves.items() if leaf.grad is not None)
    assert expected["means"].any()


@pytest.mark.parametrize("degree", [0, 1, 4])
def test_coefficients_of_each_camera_are_worth_those_that_they_share(device: str, degree: int) -> None:
    case = make_case(17, each=40, degree=degree)
    assert case.coeffs is not None
    shared = case.coeffs[None].to(device).requires_grad_()
    own = shared.detach().repeat(2, 1, 1, 1).requires_grad_()
    results = []
    for coeffs in (shared, own):
        arguments = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in case.arguments().items()}
        *outputs, _ = OPS.project(**arguments | {"coeffs": coeffs})
        weights = incoming(18, tuple(outputs))["colors"].to(device)
        (gradient,) = torch.autograd.grad(outputs[5], coeffs, weights)
        results.append((outputs, gradient))
    (expected, whole), (found, each) = results
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert torch.equal(each[0] + each[1], whole[0])
    seen = (found[0] > 0).all(-1)
    assert seen.any()
    assert (each[~seen] == 0).all()
    assert (each[:, :, (degree + 1) ** 2 :] == 0).all()
    assert each[:, :, : (degree + 1) ** 2][seen].any()


def test_a_colour_that_just_is_black_has_a_gradient_and_one_that_was_negative_has_none(device: str) -> None:
    k0 = torch.tensor(0.28209479177387814)
    near = torch.arange(-100, 100) * 2.0**-24 - 0.5 / k0
    (black,) = near[k0 * near + 0.5 == 0][:1]
    case = replace(make_case(19, kinds=("plain",), each=30), coeffs=torch.zeros(30, 1, 3))
    assert case.coeffs is not None
    case.coeffs[:, 0, 1], case.coeffs[:, 0, 2] = black, 1.1 * black
    coeffs = case.coeffs.to(device).requires_grad_()
    outputs = case.project(device, coeffs=coeffs)
    outputs[5].sum().backward()
    seen = (outputs[0][0] > 0).all(1)
    assert seen.any()
    assert (outputs[5][0, seen] == torch.tensor([0.5, 0.0, 0.0], device=device)).all()
    assert coeffs.grad is not None
    passed = (outputs[0] > 0).all(-1).sum(0)[seen] * k0.to(device)
    expected = torch.stack([passed, passed, 0 * passed], dim=1)
    torch.testing.assert_close(coeffs.grad[seen, 0], expected)


def test_a_shape_is_given_once() -> None:
    axes, whole = make_case(0), make_case(0, whole=True)
    for changes in ({"covars": whole.covars}, {"scales": None}, {"quats": None, "scales": None}):
        with pytest.raises(RuntimeError, match="either quats and scales or covars are required; found"):
            axes.project(**changes)


def test_more_gaussians_than_can_be_numbered_are_refused() -> None:
    many = 2**30
    case = make_case(0, kinds=("plain",), each=1, images=2)
    expanded = {name: getattr(case, name).expand(many, -1) for name in ("means", "quats", "scales")}
    with pytest.raises(RuntimeError, match=r"2 images of 1073741824 Gaussians are more than the 2\^31 - 1"):
        case.project(**expanded, opacities=case.opacities.expand(many))
    with pytest.raises(RuntimeError, match=r"2\^31 - 1"):
        OPS.spherical_harmonics(0, torch.ones(1, 1, 3).expand(2, many, 3), torch.ones(1, 1, 1, 3), None)


# Spherical harmonics


@pytest.mark.parametrize(
    ("left_out", "shared"),
    [
        ("means2d", True), ("depths", True), ("conics", True), ("compensations", True), ("colors", True),
        ("colors", False), ("all", True), ("all", False),
    ],
)  # fmt: skip
def test_a_gradient_that_does_not_come_is_zero(simt_ptx: ModuleType, left_out: str, shared: bool) -> None:
    arguments = make_case(15, each=20, images=2, degree=1).arguments()
    if not shared:
        arguments["coeffs"] = torch.cat([arguments["coeffs"], -arguments["coeffs"]])
    radii, *outputs, _ = OPS.project(**arguments)
    del arguments["direct"]
    come = {f"v_{name}": weight for name, weight in incoming(16, (radii, *outputs)).items()}
    known = {"radii": radii, "conics": outputs[2], "compensations": outputs[3], "colors": outputs[4]}
    absent = [name for name in come if left_out in ("all", name.removeprefix("v_"))]
    zeros = {name: torch.zeros_like(come[name]) for name in absent}
    for ops in (OPS, getattr(torch.ops, simt_ptx.__name__)):
        expected = ops.project_backward(**arguments, **known, **(come | zeros))
        found = ops.project_backward(**arguments, **known, **(come | dict.fromkeys(absent)))
        assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
        *others, poses = ops.project_backward(**arguments, **known, **come, poses=False)
        everything = ops.project_backward(**arguments, **known, **come)
        assert poses.shape == (0, 4, 4)
        assert all(torch.equal(*pair) for pair in zip(others, everything, strict=False))


def test_the_gradient_of_a_fixed_camera_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = OPS.project_backward
    monkeypatch.setattr(OPS, "project_backward", lambda *given: asked.append(given) or original(*given))
    case = make_case(15, each=5, images=1)
    for moves in (False, True):
        arguments = case.arguments()
        arguments["means"] = arguments["means"].clone().requires_grad_()
        arguments["viewmats"] = arguments["viewmats"].clone().requires_grad_(moves)
        _, means2d, *_ = OPS.project(**arguments)
        means2d.sum().backward()
        assert (arguments["viewmats"].grad is not None) is moves
    assert [given[-1] for given in asked] == [False, True]
    # Nothing but the means had a gradient.
    assert [[one is None for one in given[-6:-1]] for given in asked] == [[False, True, True, True, True]] * 2


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("degree", "bases"), [(0, 1), (0, 4), (1, 4), (2, 9), (2, 16), (3, 16), (4, 25)])
def test_gradients_of_spherical_harmonics(device: str, degree: int, bases: int, shared: bool) -> None:
    generator = torch.Generator().manual_seed(degree)
    directions = torch.randn(3, 40, 3, generator=generator)
    directions *= torch.exp(4 * torch.randn(3, 40, 1, generator=generator))
    coeffs = torch.randn(1 if shared else 3, 40, bases, 3, generator=generator)
    mask = torch.rand(3, 40, generator=generator) > 0.3
    mask[:, 5] = False
    weights = torch.randn(3, 40, 3, generator=generator)

    leaves = [directions.double().requires_grad_(), coeffs.double().requires_grad_()]
    colors = torch.stack([
        (sh_basis(leaves[0][i], degree)[..., None] * leaves[1][0 if shared else i, :, : (degree + 1) ** 2]).sum(1)
        for i in range(3)
    ])  # fmt: skip
    exact = torch.autograd.grad(
        (colors * weights * mask[..., None]).sum(), leaves, allow_unused=True, materialize_grads=True
    )

    moved = [directions.to(device).requires_grad_(), coeffs.to(device).requires_grad_()]
    # What is masked does not count, not even if it is no number.
    weights[~mask] = math.nan
    values = OPS.spherical_harmonics(degree, *moved, mask.to(device))
    found = [value.cpu().double() for value in torch.autograd.grad(values, moved, weights.to(device))]
    for one, other in zip(found, exact, strict=True):
        # A basis of degree 0 does not depend on the direction; the reference says so with rounding errors.
        off, size = (one - other).norm(dim=-1), other.norm(dim=-1)
        assert (off <= TOLERANCE * size + 1e-5 * (degree > 0) / directions.norm(dim=-1).max()).all()
    assert (found[0][~mask] == 0).all()
    assert (found[1][..., (degree + 1) ** 2 :, :] == 0).all()
    assert (found[1][:, 5] == 0).all()
    assert found[1][:, :5].any()


def test_spherical_harmonics_of_no_direction_have_finite_gradients(device: str) -> None:
    directions = torch.zeros(1, 2, 3, device=device, requires_grad=True)
    coeffs = torch.ones(1, 2, 25, 3, device=device, requires_grad=True)
    OPS.spherical_harmonics(4, directions, coeffs, None).sum().backward()
    assert directions.grad is not None
    assert coeffs.grad is not None
    assert (directions.grad == 0).all()
    assert coeffs.grad.isfinite().all()


def test_gradients_of_spherical_harmonics_do_not_depend_on_the_number_of_threads(
    threads: Callable[[int], None],
) -> None:
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(3, 2000, 3, generator=generator)
    coeffs = torch.randn(1, 2000, 16, 3, generator=generator)
    weights = torch.randn(3, 2000, 3, generator=generator)
    results = []
    for count in (1, 2, 5):
        threads(count)
        results.append(OPS.spherical_harmonics_backward(3, directions, coeffs, None, weights))
    for other in results[1:]:
        assert all(torch.equal(one, expected) for one, expected in zip(other, results[0], strict=True))


# The CUDA kernels, executed on the CPU: nothing in them is contracted, so they give the same bits


def assert_kernel_agrees(simt: ModuleType, name: str, arguments: dict[str, Any]) -> None:
    results = [getattr(ops, name)(**arguments) for ops in (getattr(torch.ops, simt.__name__), OPS)]
    for found, other in zip(*[(each,) if isinstance(each, Tensor) else each for each in results], strict=True):
        if name == "project_backward" and found.shape[1:] == (4, 4):
            # Sums over all Gaussians: in another order, and in float32 within a block.
            assert (found - other).abs().max() <= 1e-5 * other.abs().max()
        else:
            assert torch.equal(found, other)


@pytest.mark.parametrize(
    ("camera_model", "whole", "degree", "shared"),
    [
        *((model, whole, 1, False) for model in CAMERAS for whole in (False, True)),
        *(("pinhole", False, degree, degree != 2) for degree in (None, 0, 2, 4)),
    ],
)
def test_cuda_kernels_of_projection_agree_with_the_cpu(
    simt_ptx: ModuleType, camera_model: str, whole: bool, degree: int | None, shared: bool
) -> None:
    # More than one block, the last one not full.
    case = make_case(
        15, each=35, images=2, whole=whole, antialiased=not shared, camera_model=camera_model, degree=degree
    )
    arguments = case.arguments()
    if not shared:
        arguments["coeffs"] = torch.cat([arguments["coeffs"], -arguments["coeffs"]])
    radii, *outputs, _ = OPS.project(**arguments)
    incoming_gradients = {f"v_{name}": weight for name, weight in incoming(16, (radii, *outputs)).items()}
    known = {"radii": radii, "conics": outputs[2], "compensations": outputs[3], "colors": outputs[4]}
    simt_ptx.set_seed(int(shared))
    try:
        assert_kernel_agrees(simt_ptx, "project", arguments)
        del arguments["direct"]
        assert_kernel_agrees(simt_ptx, "project_backward", arguments | known | incoming_gradients)
    finally:
        simt_ptx.set_seed(0)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("degree", "bases"), [(0, 1), (1, 5), (2, 9), (3, 16), (4, 25)])
def test_cuda_kernels_of_spherical_harmonics_agree_with_the_cpu(
    simt_ptx: ModuleType, degree: int, bases: int, shared: bool
) -> None:
    generator = torch.Generator().manual_seed(degree)
    arguments = {
        "degree": degree,
        "directions": torch.randn(2, 150, 3, generator=generator),
        "coeffs": torch.randn(1 if shared else 2, 150, bases, 3, generator=generator),
        "mask": None if degree == 2 else torch.rand(2, 150, generator=generator) > 0.3,
    }
    assert_kernel_agrees(simt_ptx, "spherical_harmonics", arguments)
    v_colors = torch.randn(2, 150, 3, generator=generator)
    assert_kernel_agrees(simt_ptx, "spherical_harmonics_backward", arguments | {"v_colors": v_colors})
