"""What one rank of test_distributed.py does; torchrun starts it. Argument: the folder of cases and results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import splat

GAUSSIANS = ("means", "quats", "scales", "opacities", "colors")


def main(folder: Path) -> None:
    """Render and differentiate this rank's part of each case."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for name, case in torch.load(folder / "cases.pt").items():
        torch.save(outcome(case, rank), folder / f"{name}.{rank}.pt")
    dist.destroy_process_group()


def part(tensor: Tensor, counts: list[int], rank: int) -> Tensor:
    """The rows of one rank."""
    return tensor.split(counts)[rank].clone()  # type: ignore[no-untyped-call,no-any-return]


def outcome(case: dict[str, Any], rank: int) -> dict[str, Any]:
    """The images, the gradients of what this rank has, or the error."""
    arguments = dict(case["arguments"])
    for name in (*GAUSSIANS, "viewmats", "Ks", "backgrounds"):
        if name in arguments:
            counts = case["gaussians"] if name in GAUSSIANS else case["cameras"]
            arguments[name] = part(arguments[name], counts, rank)
    arguments |= case["changes"].get(rank, {})
    requires_grad = arguments.pop("requires_grad", True)
    leaves = {name: arguments[name].requires_grad_(requires_grad) for name in (*GAUSSIANS, *case["also"])}
    try:
        images, alphas, meta = splat.rasterization(**arguments, distributed=True)
    except (ValueError, RuntimeError) as error:
        return {"error": str(error)}
    meta["means2d"].retain_grad()
    weights, alpha_weights = (part(case[name], case["cameras"], rank) for name in ("weights", "alpha_weights"))
    ((images * weights).sum() + (alphas * alpha_weights).sum()).backward()  # type: ignore[no-untyped-call]
    found = {"images": images.detach(), "alphas": alphas.detach()}
    found |= {f"v_{name}": leaf.grad for name, leaf in leaves.items()}
    means2d: Any = meta["means2d"]
    found |= {"v_means2d": means2d.grad, "absgrad": getattr(means2d, "absgrad", None)}
    found |= {name: meta[name] for name in ("camera_ids", "gaussian_ids", "radii", "n_cameras")}
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
