"""What one rank of test_distributed.py does; torchrun starts it. Argument: the folder of cases and results."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import Tensor

import splat

GAUSSIANS = ("means", "quats", "scales", "opacities", "colors")
SIGNALS = "extra_signals"


def main(folder: Path) -> None:
    """Render and differentiate this rank's part of each case."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for name, case in torch.load(folder / "cases.pt").items():
        torch.save(outcome(case, rank), folder / f"{name}.{rank}.pt")
    dist.destroy_process_group()


def part(tensor: Tensor, counts: list[int], rank: int) -> Tensor:
    """The rows of one rank."""
    return tensor[: sum(counts)].split(counts)[rank].clone()  # type: ignore[no-any-return]


def outcome(case: dict[str, Any], rank: int) -> dict[str, Any]:
    """The images, the gradients of what this rank has and where an optimizer moves it, or the error."""
    arguments = dict(case["arguments"])
    for name in (*GAUSSIANS, SIGNALS, "viewmats", "viewmats_rs", "Ks", "backgrounds", "radial_coeffs"):
        if name in arguments:
            counts = case["gaussians"] if name in (*GAUSSIANS, SIGNALS) else case["cameras"]
            arguments[name] = part(arguments[name], counts, rank)
    if "rolling_shutter" in arguments:  # by name: some Pythons' enumerations are no safe pickles
        arguments["rolling_shutter"] = splat.RollingShutterType[arguments["rolling_shutter"]]
    arguments |= case["changes"].get(rank, {})
    requires_grad = arguments.pop("requires_grad", True)
    leaves = {name: arguments[name].requires_grad_(requires_grad) for name in (*GAUSSIANS, *case["also"])}
    rasterization = gsplat_s_rasterization() if case["gsplat"] else splat.rasterization
    grad_enabled = arguments.pop("grad_enabled", True)
    try:
        with torch.set_grad_enabled(grad_enabled):
            images, alphas, meta = with_signals(*rasterization(**arguments, distributed=True))
    except (ValueError, RuntimeError) as error:
        return {"error": str(error)}
    if meta["means2d"].requires_grad:
        meta["means2d"].retain_grad()
    weights, alpha_weights = (part(case[name], case["cameras"], rank) for name in ("weights", "alpha_weights"))
    height, width = images.shape[1:3]
    values = images * weights[:, :height, :width]
    (values.sum() + (alphas * alpha_weights[:, :height, :width]).sum()).backward()
    found = {"images": images.detach(), "alphas": alphas.detach()}
    found |= {f"v_{name}": leaf.grad for name, leaf in leaves.items()}
    means2d: Any = meta["means2d"]
    found |= {"v_means2d": means2d.grad, "absgrad": getattr(means2d, "absgrad", None)}
    found |= {name: meta[name] for name in ("camera_ids", "gaussian_ids", "radii", "n_cameras")}
    return found | {"stepped": stepped(leaves["means"], meta)}


def with_signals(images: Tensor, alphas: Tensor, meta: dict[str, Any]) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """The images of extra signals, if there are any, behind those of colours."""
    return (
        (torch.cat([images, meta["render_extra_signals"]], dim=-1) if f"render_{SIGNALS}" in meta else images),
        alphas,
        meta,
    )


@cache
def gsplat_s_rasterization() -> Callable[..., Any]:
    """gsplat's own function, with its own exchange between ranks, and splat's in place of its CUDA functions."""
    from gsplat import distributed, rendering

    for name in splat.__all__:
        if inspect.isfunction(getattr(rendering, name, None)) and name != "rasterization":
            setattr(rendering, name, getattr(splat, name))
    # What gloo does not have: parts of different sizes, and tensors without a dimension. And the one test for CUDA.
    dist.all_to_all = torch.distributed.nn.functional.all_to_all = all_to_all
    code = inspect.getsource(distributed.all_gather_int32)
    assertion = 'assert value_tensor.is_cuda, "value should be on CUDA"'
    assert assertion in code
    exec(code.replace(assertion, "value_tensor = value_tensor.reshape(1)"), vars(distributed))
    rendering.all_gather_int32 = distributed.all_gather_int32
    function: Callable[..., Any] = rendering.rasterization
    return function


def all_to_all(received: list[Tensor], sent: Sequence[Tensor]) -> None:
    """torch.distributed's and its differentiable form, with the collective that gloo has."""
    counts = [[part.numel() for part in parts] for parts in (received, sent)]
    rows = torch.cat([part.flatten() for part in sent])
    found = torch.distributed.nn.functional.all_to_all_single(rows.new_empty(sum(counts[0])), rows, *counts)
    for place, part in zip(received, found.split(counts[0]), strict=True):
        place.copy_(part.view_as(place))


def stepped(means: Tensor, meta: dict[str, Any]) -> Tensor:
    """Where the means are after a step of the optimizer for those that a camera sees."""
    seen = torch.zeros(len(means), dtype=torch.bool)
    if meta["gaussian_ids"] is None:
        seen |= (meta["radii"] > 0).all(dim=-1).any(dim=0)
    else:
        seen[meta["gaussian_ids"]] = True
    moved = torch.nn.Parameter(means.detach().clone())
    moved.grad = means.grad
    splat.SelectiveAdam([moved], eps=1e-8, betas=(0.9, 0.999)).step(seen)
    return moved.detach()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
