"""`rasterization(distributed=True)`: the images and gradients of one process with everything, on gloo."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import distributed_program as program
import processes
import pytest
import torch
from folders import HELPERS
from scenes import random_scene
from torch import Tensor
from unscented_cases import moved

import splat

pytestmark = [pytest.mark.slow]

N, WIDTH, HEIGHT = 120, 33, 21
VIEWS = ("front", "close", "inside", "beside", "front")
# Of three ranks, one without Gaussians and one without cameras.
GAUSSIANS, CAMERAS = [60, 0, 60], [3, 2, 0]

SCENE = random_scene(7, N, WIDTH, HEIGHT, size="mixed", views=VIEWS)
SCENE.means[::12, 0] += 1e4  # which no camera sees
COEFFS = torch.randn(N, 9, 3, generator=torch.Generator().manual_seed(1)) * 0.3
SIGNALS = torch.randn(N, 4, 5, generator=torch.Generator().manual_seed(4))
BACKGROUNDS = torch.rand(len(VIEWS), 3, generator=torch.Generator().manual_seed(2))
LENSES: dict[str, Any] = {
    "with_ut": True,
    "packed": False,
    "radial_coeffs": torch.tensor([[-0.2, 0.05, 0.0, 0.0, 0.0, 0.0]]) * torch.arange(len(VIEWS))[:, None],
    "rolling_shutter": "ROLLING_TOP_TO_BOTTOM",
    "viewmats_rs": moved(SCENE.viewmats),
    "colors": COEFFS,
    "sh_degree": 2,
}

# What differs from a plain picture, and what has a gradient beside the Gaussians.
OPTIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "poses": ({"colors": COEFFS, "sh_degree": 2}, ("viewmats",)),
    "antialiased": (
        {"rasterize_mode": "antialiased", "render_mode": "RGB+ED", "camera_model": "ortho", "tile_size": 8},
        (),
    ),
    "backgrounds": ({"backgrounds": BACKGROUNDS}, ("backgrounds",)),
    "depth": ({"render_mode": "D", "colors": COEFFS, "sh_degree": 1}, ()),
    "absgrad": ({"absgrad": True}, ()),
    "dense": ({"absgrad": True, "packed": False, "colors": COEFFS, "sh_degree": 2}, ()),
    "signals through lenses": (LENSES | {"extra_signals": SIGNALS, "extra_signals_sh_degree": 1}, ("extra_signals",)),
    "signals": ({"extra_signals": SIGNALS[:, 0], "render_mode": "RGB+ED"}, ("extra_signals",)),
    "harmonics": ({"extra_signals": SIGNALS, "extra_signals_sh_degree": 1}, ("extra_signals", "viewmats")),
}
# Each rank that has cameras has images of a size of its own.
SIZES = {0: (WIDTH, 15), 1: (20, HEIGHT)}
SIZED: dict[str, dict[str, Any]] = {
    "sizes": {"colors": COEFFS, "sh_degree": 2, "rasterize_mode": "antialiased"},
    "sizes of lenses": LENSES,
}
# What gsplat can do: as many cameras on each rank, Gaussians on all, no absolute gradients, and only this layout: for
# the other it would have to exchange `image_ids` (its issue 871).
DENSE: dict[str, Any] = {"packed": False}
SHARED: dict[str, dict[str, Any]] = {
    "harmonics": {"colors": COEFFS, "sh_degree": 2, "backgrounds": BACKGROUNDS} | DENSE,
    "depth": {"rasterize_mode": "antialiased", "render_mode": "RGB+ED"} | DENSE,
}
# By rank, what one of them has otherwise.
WRONG: dict[str, tuple[dict[int, dict[str, Any]], str]] = {
    "far": ({2: {"far_plane": 9.0}}, "all ranks must have the same far_plane; rank 0 has 10000000000.0, rank 2 has 9"),
    "mode": ({1: {"render_mode": "D"}}, "all ranks must have the same render_mode; rank 0 has RGB, rank 1 has D"),
    "gradients": (
        {0: {"requires_grad": False}},
        "all ranks must have the same requires_grad (False in torch.no_grad); rank 0 has False, rank 1 has",
    ),
    "no_grad": (
        {1: {"grad_enabled": False}},
        "all ranks must have the same requires_grad (False in torch.no_grad); rank 0 has True, rank 1 has",
    ),
    "degree": (
        {2: {"colors": COEFFS[:60], "sh_degree": 1}},
        "all ranks must have the same sh_degree; rank 0 has None, rank 2 has 1",
    ),
    "unscented": (
        {1: {"with_ut": True, "packed": False}},
        "all ranks must have the same with_ut; rank 0 has False, rank 1 has",
    ),
    "model": ({2: {"camera_model": "fisheye"}}, "all ranks must have the same camera_model; rank 0 has "),
}


def case_of(
    options: dict[str, Any], also: tuple[str, ...] = (), changes: dict[int, dict[str, Any]] | None = None
) -> dict[str, Any]:
    arguments = SCENE.arguments | options
    shape = program.with_signals(*splat.rasterization(**arguments))[0].shape
    generator = torch.Generator().manual_seed(3)
    return {
        "arguments": arguments, "also": also, "changes": changes or {}, "gaussians": GAUSSIANS, "cameras": CAMERAS,
        "gsplat": False,
        "weights": torch.randn(shape, generator=generator),
        "alpha_weights": torch.randn(*shape[:-1], 1, generator=generator),
    }  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """By case, what each rank found."""
    folder = tmp_path_factory.mktemp("ranks")
    cases = {name: case_of(*each) for name, each in OPTIONS.items()}
    cases |= {f"wrong-{name}": case_of({}, (), changes) for name, (changes, _) in WRONG.items()}
    cases["again"] = cases["poses"]
    changes = {rank: {"width": width, "height": height} for rank, (width, height) in SIZES.items()}
    cases |= {name: case_of(options, ("viewmats",), changes) for name, options in SIZED.items()}
    for name, options in SHARED.items():
        cases[f"ours-{name}"] = case_of(options) | {"gaussians": [60, 10, 50], "cameras": [1, 1, 1]}
        cases[f"theirs-{name}"] = cases[f"ours-{name}"] | {"gsplat": True}
    cases["no cameras"] = cases["absgrad"] | {"cameras": [0] * len(CAMERAS)}
    cases["no Gaussians"] = cases["backgrounds"] | {"gaussians": [0] * len(GAUSSIANS)}
    torch.save(cases, folder / "cases.pt")
    ranks = len(GAUSSIANS)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    environ = {"OMP_NUM_THREADS": "1"}
    processes.run([*command, program.__file__, str(folder)], cwd=folder, env=environ)
    return {name: [torch.load(folder / f"{name}.{rank}.pt") for rank in range(ranks)] for name in cases}


def of_one_process(name: str) -> dict[str, Any]:
    """Images and gradients of everything."""
    case = case_of(*OPTIONS[name])
    arguments = case["arguments"]
    leaves = {each: arguments[each].clone().requires_grad_() for each in (*program.GAUSSIANS, *case["also"])}
    images, alphas, meta = program.with_signals(*splat.rasterization(**arguments | leaves))
    if meta["means2d"].requires_grad:
        meta["means2d"].retain_grad()
    ((images * case["weights"]).sum() + (alphas * case["alpha_weights"]).sum()).backward()
    found = {"images": images.detach(), "alphas": alphas.detach(), "v_means2d": meta["means2d"].grad}
    found |= {f"v_{each}": leaf.grad for each, leaf in leaves.items()}
    return found | {"absgrad": getattr(meta["means2d"], "absgrad", None), "meta": meta}


def of_each_size(name: str) -> tuple[list[Tensor], dict[str, Tensor | None]]:
    """The images of each rank's cameras with all Gaussians, from one call for each, and the gradients of all."""
    case = case_of(SIZED[name], ("viewmats",))
    leaves = {each: case["arguments"][each].clone().requires_grad_() for each in (*program.GAUSSIANS, "viewmats")}
    every, found = [], []
    for rank in range(len(CAMERAS)):
        width, height = SIZES.get(rank, (WIDTH, HEIGHT))
        arguments = case["arguments"] | leaves | {"width": width, "height": height}
        weights, alpha_weights = (case[each].split(CAMERAS)[rank] for each in ("weights", "alpha_weights"))
        for each in {"viewmats", "Ks", "viewmats_rs", "radial_coeffs"} & set(arguments):
            arguments[each] = arguments[each].split(CAMERAS)[rank]
        images, alphas, _ = splat.rasterization(**arguments)
        every.append((images * weights[:, :height, :width]).sum() + (alphas * alpha_weights[:, :height, :width]).sum())
        found.append(images.detach())
    sum(every).backward()
    return found, {f"v_{each}": leaf.grad for each, leaf in leaves.items()}


def assert_close(found: Tensor, expected: Tensor) -> None:
    """To the order of sums."""
    largest = max([1.0, *expected.abs().flatten().tolist()])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("name", OPTIONS)
def test_images_and_gradients_are_those_of_one_process(results: dict[str, list[dict[str, Any]]], name: str) -> None:
    expected = of_one_process(name)
    for image in ("images", "alphas"):
        assert torch.equal(torch.cat([each[image] for each in results[name]]), expected[image])
    for leaf in (f"v_{each}" for each in (*program.GAUSSIANS, *OPTIONS[name][1])):
        if expected[leaf] is None:
            assert all(each[leaf] is None for each in results[name])
        else:
            assert_close(torch.cat([each[leaf] for each in results[name]]), expected[leaf])


@pytest.mark.parametrize("name", SIZED)
def test_each_rank_s_images_have_their_own_size(results: dict[str, list[dict[str, Any]]], name: str) -> None:
    images, gradients = of_each_size(name)
    for found, expected in zip(results[name], images, strict=True):
        assert torch.equal(found["images"], expected)
    for leaf, gradient in gradients.items():
        if gradient is not None:
            assert_close(torch.cat([each[leaf] for each in results[name]]), gradient)


@pytest.mark.parametrize("name", SHARED)
def test_gsplat_s_own_exchange_gives_the_same(results: dict[str, list[dict[str, Any]]], name: str) -> None:
    for ours, theirs in zip(results[f"ours-{name}"], results[f"theirs-{name}"], strict=True):
        tensors = {part for part, found in ours.items() if isinstance(found, Tensor)}
        assert "error" not in theirs, theirs["error"]
        assert len(tensors) >= 10
        for part in tensors - {"radii"}:
            assert_close(theirs[part], ours[part])
        assert torch.equal(theirs["radii"], ours["radii"])


def test_no_rank_need_have_a_camera_or_a_gaussian(results: dict[str, list[dict[str, Any]]]) -> None:
    for found, count in zip(results["no cameras"], GAUSSIANS, strict=True):
        assert found["images"].shape == (0, HEIGHT, WIDTH, 3)
        assert torch.equal(found["v_means"], torch.zeros(count, 3))
    images = torch.cat([found["images"] for found in results["no Gaussians"]])
    assert torch.equal(images, BACKGROUNDS[:, None, None].expand(images.shape))


@pytest.mark.parametrize("name", ["absgrad", "dense"])
def test_selective_adam_steps_what_a_camera_of_any_rank_sees(
    results: dict[str, list[dict[str, Any]]], name: str
) -> None:
    expected = of_one_process(name)
    means = case_of(*OPTIONS[name])["arguments"]["means"]
    leaf = means.clone().requires_grad_()
    leaf.grad = expected["v_means"]
    moved = torch.cat([found["stepped"] for found in results[name]])
    assert_close(moved, program.stepped(leaf, expected["meta"]))
    still = (moved == means).all(dim=1)
    assert 0 < still.sum() < N, "some are seen, and some are not"


@pytest.mark.parametrize("name", ["absgrad", "dense"])
def test_meta_shows_a_rank_s_own_gaussians_in_the_cameras_of_all(
    results: dict[str, list[dict[str, Any]]], name: str
) -> None:
    """As gsplat's does: strategies of training need it."""
    expected = of_one_process(name)
    meta = expected["meta"]
    first = 0
    for rank, found in enumerate(results[name]):
        count = GAUSSIANS[rank]
        assert found["n_cameras"] == CAMERAS[rank]
        if name == "dense":
            mine: Any = (slice(None), slice(first, first + count))
        else:
            mine = (meta["gaussian_ids"] >= first) & (meta["gaussian_ids"] < first + count)
            assert torch.equal(found["gaussian_ids"], meta["gaussian_ids"][mine] - first)
            assert torch.equal(found["camera_ids"], meta["camera_ids"][mine])
        assert torch.equal(found["radii"], meta["radii"][mine])
        assert_close(found["v_means2d"], expected["v_means2d"][mine])
        assert_close(found["absgrad"], expected["absgrad"][mine])
        first += count


def test_the_same_ranks_give_the_same_bits(results: dict[str, list[dict[str, Any]]]) -> None:
    for one, other in zip(results["poses"], results["again"], strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one if isinstance(one[name], Tensor))


@pytest.mark.parametrize("name", WRONG)
def test_ranks_that_disagree_get_one_error(results: dict[str, list[dict[str, Any]]], name: str) -> None:
    errors = {found["error"] for found in results[f"wrong-{name}"]}
    assert len(errors) == 1
    assert errors.pop().startswith(WRONG[name][1])


ALONE = """
import datetime, os, sys, torch, splat
import torch.distributed as dist
sys.path.insert(0, {tests!r})
from scenes import random_scene
rank = int(sys.argv[1])
limit = datetime.timedelta(seconds=20)
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2, timeout=limit)
dist.barrier()
if rank == 1:
    os._exit(9)
splat.rasterization(**random_scene(0).arguments, distributed=True)
"""


def test_a_rank_that_dies_is_an_error_in_the_others(tmp_path: Path) -> None:
    code = ALONE.format(tests=str(HELPERS))
    commands = [[sys.executable, "-c", code, str(rank), str(tmp_path / "meeting")] for rank in range(2)]
    with ThreadPoolExecutor(2) as threads:
        alive, dead = threads.map(lambda command: processes.run(command, cwd=tmp_path, check=False, limit=60), commands)
    assert dead.returncode == 9
    assert alive.returncode == 1
    assert re.search(r"RuntimeError: .*(peer|[Tt]imed out)", alive.stderr), alive.stderr


def test_without_a_process_group_it_says_what_to_run() -> None:
    with pytest.raises(RuntimeError, match=r"needs a process group, and there is none; start with torchrun"):
        splat.rasterization(**SCENE.arguments, distributed=True)


def test_colours_of_each_camera_and_batches_are_refused() -> None:
    each = SCENE.colors.expand(len(VIEWS), N, 3)
    with pytest.raises(ValueError, match=r"needs one set of colours, \[N, D\] or \[N, K, 3\]"):
        splat.rasterization(**SCENE.arguments | {"colors": each}, distributed=True)
    batch = {name: value[None] for name, value in SCENE.arguments.items() if isinstance(value, Tensor)}
    with pytest.raises(ValueError, match="needs Gaussians without batch dimensions, found \\[1\\]"):
        splat.rasterization(**SCENE.arguments | batch, distributed=True)
