"""What a small scene with all that depends on the CPU looks like, as digests: printed by the Python of each platform.

Arguments: the instruction sets to draw with; by default, the one in use.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from splat._kernelwheel.artifact import compatible
from splat._kernelwheel.artifact import manifest as manifests
from splat._kernelwheel.machine import host as hosts
from splat._kernelwheel.machine.platforms import platform_name
from torch import Tensor

import splat

NATIVE = Path(splat.__file__).parent / "_native"


def numbers(seed: int, *shape: int) -> Tensor:
    """The same everywhere, without torch's generator."""
    count = torch.Size(shape).numel()
    x = (torch.arange(count) * 1103515245 + seed * 12345 + 1013904223) % 2147483648
    return ((x * 48271 + 11 + seed) % 2147483647 % 65536).to(torch.float32).reshape(shape) / 65536


def digest(tensor: Tensor) -> str:
    """The sha256 of a tensor's bytes."""
    return hashlib.sha256(bytes(tensor.detach().contiguous().view(torch.uint8).flatten().tolist())).hexdigest()


def drawn() -> dict[str, list[str]]:
    """Digests of pictures and gradients, by camera model."""
    count = 400
    values = [
        numbers(1, count, 3) * 2 - torch.tensor([1.0, 1.0, -2.0]), numbers(2, count, 4) - 0.5,
        numbers(3, count, 3) * 0.2 + 0.01, numbers(4, count), numbers(5, count, 16, 3) - 0.25,
    ]  # fmt: skip
    intrinsics = torch.tensor([[[40.0, 0, 32], [0, 40, 24], [0, 0, 1]]])
    found = {}
    for camera, mode, packed in (("pinhole", "antialiased", True), ("fisheye", "classic", False)):
        inputs = [value.clone().requires_grad_() for value in values]
        image, alpha, _ = splat.rasterization(
            *inputs, torch.eye(4)[None], intrinsics, 67, 45, sh_degree=3, camera_model=camera, rasterize_mode=mode,
            packed=packed,
        )  # fmt: skip
        ((image * numbers(6, *image.shape)).sum() + alpha.sum()).backward()
        gradients = [each.grad for each in inputs if each.grad is not None]
        assert len(gradients) == len(inputs)
        found[camera] = [digest(each) for each in (image, alpha, *gradients)]
        assert image.abs().sum() > 0
        assert all(each.abs().sum() > 0 for each in gradients)
    return found


def drawn_with(names: list[str]) -> dict[str, dict[str, list[str]]]:
    """The same for each of these instruction sets that this CPU has."""
    before = torch.ops.splat.instruction_set("")
    found = {}
    for name in names or [before]:
        try:
            torch.ops.splat.instruction_set(name)
        except RuntimeError:
            continue
        found[name if names else ""] = drawn()
    torch.ops.splat.instruction_set(before)
    return found


def described() -> dict[str, Any]:
    """What the kernels are here."""
    check = compatible.check(manifests.read(NATIVE), hosts.probe())
    registered = 0
    if torch.version.cuda:
        for library in NATIVE.glob("libsplat_cuda*.so"):
            torch.ops.load_library(library)
        registered = sum(
            name.startswith("splat::") for name in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
        )
    return {
        "platform": platform_name(),
        "mismatches": [str(each) for each in check],
        "torch": torch.__version__,
        "cuda operators": registered,
    }


if __name__ == "__main__":
    print(json.dumps({"digests": drawn_with(sys.argv[1:]), **described()}))
