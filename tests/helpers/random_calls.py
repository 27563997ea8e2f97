"""Random calls of the public functions, and their gradients against finite differences.

`python tests/helpers/random_calls.py 600` goes on for as many seconds, and prints what is wrong.
"""

from __future__ import annotations

import functools
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from public_calls import public_calls
from scenes import random_scene
from torch import Tensor
from unscented_cases import LENSES, moved

import splat
from splat import RollingShutterType

MODES = ("RGB", "D", "ED", "RGB+D", "RGB+ED")
RAY_MODES = (*MODES, "d", "Ed", "RGB-d", "RGB-Ed")
WIDTH, HEIGHT, STEP = 32, 24, 1e-3
SHUTTERS = [each for each in RollingShutterType if each.name != "GLOBAL"]
Call = tuple[Callable[..., Any], dict[str, Any], list[str]]


def random_call(seed: int) -> Call:
    """A function, its arguments, and the names of those that it is differentiated by."""
    pick = random.Random(seed)
    torch.manual_seed(seed)
    count = pick.choice([1, 3, 8])
    views = ("front", "front")[: pick.choice([1, 2])]
    scene = random_scene(seed, count, WIDTH, HEIGHT, size="mixed", views=views)
    given: dict[str, Any] = {**scene.arguments, "scales": 0.15 + 0.3 * torch.rand(count, 3)}
    given |= {"opacities": 0.2 + 0.6 * torch.rand(count), "quats": torch.randn(count, 4)}
    given["means"] = 0.5 * given["means"]
    names = ["means", "quats", "scales", "opacities", "colors"]
    kind = pick.choice(["plain", "plain", "2dgs", "rays", "unscented rays", "part", "part"])
    if kind == "part":
        return _part(pick, seed)
    options: dict[str, Any] = {"render_mode": pick.choice(RAY_MODES if "rays" in kind else MODES)}
    degree = pick.choice([None, None, 0, 2])
    if degree is not None:
        given["colors"], options["sh_degree"] = 0.3 * torch.randn(count, 9, 3), degree
    elif pick.random() < 0.3:
        given["colors"] = torch.rand(len(views), count, pick.choice([1, 3, 5]))
    options["packed"] = "rays" not in kind and pick.random() < 0.5
    if pick.random() < 0.5 and options["render_mode"].startswith("RGB"):
        channels = 3 if degree is not None else given["colors"].shape[-1]
        given["backgrounds"] = torch.rand(pick.choice([(channels,), (len(views), channels)]))
        names.append("backgrounds")
    if kind == "2dgs":
        names.append("viewmats")
        options["distloss"] = options["render_mode"] != "RGB" and pick.random() < 0.5
        return splat.rasterization_2dgs, {**given, **options}, names
    return _in_space(pick, kind, given, options, names)


def _in_space(pick: random.Random, kind: str, given: dict[str, Any], options: dict[str, Any], names: list[str]) -> Call:
    """Of `rasterization`."""
    count, cameras = len(given["means"]), len(given["viewmats"])
    options["global_z_order"] = kind != "unscented rays" or pick.random() < 0.5
    if kind == "plain":
        names.append("viewmats")
        options["camera_model"] = pick.choice(["pinhole", "fisheye", "ortho"])
        if options["camera_model"] == "ortho":
            given["Ks"] = given["Ks"].clone()
            given["Ks"][:, :2, :2] /= 3
        options["rasterize_mode"] = pick.choice(["classic", "antialiased"])
        if pick.random() < 0.3:
            covars, _ = splat.quat_scale_to_covar_preci(given["quats"], given["scales"], compute_preci=False)
            given |= {"covars": covars, "quats": None, "scales": None}
            names = [name for name in names if name not in ("quats", "scales")] + ["covars"]
    else:
        options |= {"with_eval3d": True, "return_normals": pick.random() < 0.3}
        options["camera_model"] = pick.choice(["pinhole", "fisheye"])
    if kind == "unscented rays":
        lens = pick.choice(sorted(LENSES))
        of_lens = {name: each[:cameras] if isinstance(each, Tensor) else each for name, each in LENSES[lens].items()}
        options |= {"with_ut": True, "camera_model": "pinhole", **of_lens}
        if pick.random() < 0.4:
            options |= {"rolling_shutter": pick.choice(SHUTTERS), "viewmats_rs": moved(given["viewmats"])}
    if pick.random() < 0.2:
        given["extra_signals"] = torch.rand(count, 2)
        names.append("extra_signals")
        if "backgrounds" in given:
            names.remove("backgrounds")
            del given["backgrounds"]
    return splat.rasterization, {**given, **options}, names


def _part(pick: random.Random, seed: int) -> Call:
    """A call of any of the others that has gradients, of all of its results that have some."""
    others = {name: call for name, call in public_calls(seed, 6).items() if not name.startswith("rasterization")}
    for name in pick.sample(sorted(others), len(others)):
        function, given = others[name]
        tensors = {each: value for each, value in given.items() if isinstance(value, Tensor)}
        floats = (each for each, value in tensors.items() if value.is_floating_point())
        # `densify` is added to nothing: a strategy reads its gradient.
        names = [each for each in floats if each != "densify" and _takes(function, given, each)]
        leaves = {each: given[each].clone().requires_grad_() for each in names}
        has_gradient = [each.requires_grad for each in _results(function(**{**given, **leaves}))]
        if any(has_gradient):
            return functools.wraps(function)(functools.partial(_with_gradients, function, has_gradient)), given, names
    raise AssertionError


def _takes(function: Callable[..., Any], given: dict[str, Any], name: str) -> bool:
    """Whether a function is differentiable by an argument; others are refused."""
    try:
        results = _results(function(**{**given, name: given[name].clone().requires_grad_()}))
    except (ValueError, NotImplementedError, TypeError, RuntimeError):
        return False
    return any(each.requires_grad for each in results)


def _results(returned: Any) -> list[Tensor]:
    """The values in what a function returns."""
    several = returned if isinstance(returned, (tuple, list)) else [returned]
    return [each for each in several if isinstance(each, Tensor) and each.is_floating_point()]


def _with_gradients(function: Callable[..., Any], has_gradient: list[bool], **given: Any) -> tuple[Any, ...]:
    return *(each for each, kept in zip(_results(function(**given)), has_gradient, strict=True) if kept), {}


def drawn(function: Callable[..., Any], given: dict[str, Any]) -> Tensor:
    """All images of a call that have a gradient, as one vector."""
    *images, meta = function(**given)
    if "distloss" in given:
        # The median depth jumps; the normals of the surface are not defined at the edges of what is drawn.
        images = [images[0], images[1], images[2], images[4]]
    images += [meta[name] for name in ("render_extra_signals", "normals") if name in meta and "distloss" not in given]
    return torch.cat([each.flatten() for each in images])


def disagreement(seed: int) -> str | None:
    """What a gradient of a random call has to do with finite differences, if they are not the same."""
    function, given, names = random_call(seed)
    leaves = {name: given[name].clone().requires_grad_() for name in names}
    image = drawn(function, {**given, **leaves})
    weights, values = torch.randn(image.shape), list(leaves.values())
    for name, gradient in zip(
        names, torch.autograd.grad(image, values, weights, True, materialize_grads=True), strict=True
    ):
        if not gradient.isfinite().all():
            return f"{name} has a gradient that is not finite"
    for name in names:
        found = [_directional(function, given, name, leaves[name], image, weights) for _ in range(3)]
        scale = max(max(abs(one), abs(other)) for one, other in found)
        off = sorted(abs(one - other) for one, other in found)[1]
        if off > 0.04 * scale + 0.2:
            pairs = ", ".join(f"{one:.4g} {other:.4g}" for one, other in found)
            return f"{name}: differences and gradients are {pairs}"
    return None


def _directional(
    function: Callable[..., Any], given: dict[str, Any], name: str, leaf: Tensor, image: Tensor, weights: Tensor
) -> tuple[float, float]:
    """A difference, and what the gradient says of it, in one direction."""
    direction = torch.randn(leaf.shape)
    if name == "viewmats":
        direction[..., 3, :] = 0
    if name == "conics":  # which differ by orders of magnitude
        direction *= leaf.detach().abs()
    if name == "covars":
        direction = 0.1 * (direction + direction.mT)
    with torch.no_grad():
        above, below, near_above, near_below = (
            drawn(function, {**given, name: given[name] + step * direction}).double()
            for step in (STEP, -STEP, STEP / 2, -STEP / 2)
        )
        middle = image.double()
        slopes = torch.stack(
            [
                (above - middle) / STEP,
                (middle - below) / STEP,
                (near_above - middle) * 2 / STEP,
                (middle - near_below) * 2 / STEP,
            ]
        )
        # Where an alpha gets too small to be drawn, or the order changes, an image jumps.
        spread = slopes.amax(0) - slopes.amin(0)
        kept = weights * (spread <= 0.1 * slopes.abs().amax(0) + 4e-3 * middle.abs().clamp_min(1))
    (gradient,) = torch.autograd.grad(image, leaf, kept, True, materialize_grads=True)
    return (slopes[:2].mean(0) * kept).sum().item(), (gradient * direction).sum().item()


def described(seed: int) -> str:
    """A call in words."""
    function, given, _ = random_call(seed)
    shown = {name: list(each.shape) if isinstance(each, Tensor) else each for name, each in given.items()}
    return f"{function.__name__}({', '.join(f'{name}={each}' for name, each in shown.items())})"


def main(seconds: float) -> int:
    """Try one seed after the other."""
    torch.set_num_threads(1)
    end, seed, wrong = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        if words := disagreement(seed):
            wrong += 1
            print(f"{seed}: {words}\n    {described(seed)}", flush=True)
        seed += 1
    print(f"{seed} calls, {wrong} of them wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
