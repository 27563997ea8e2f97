"""What one environment of the matrix says of the installed splat; run inside of it, outside of the checkout.

Prints one JSON object a line, one for each step that it got through: `import`, `verdict`, `cuda`, `picture`,
`gradients`. The scene is made by multiplying and adding numbers of Python's own generator, whose sequence is
guaranteed, so that no release of torch, numpy or libm has a part in it. Nor does a loss: the gradients of the output
are given.
"""

from __future__ import annotations

import hashlib
import json
import platform
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

GAUSSIANS = 400
WIDTH, HEIGHT = 150, 100
PARAMETERS = ("means", "quats", "scales", "opacities", "colors", "viewmats")
# Gaussians listed in two ways, colours given and from harmonics, with depths and without.
WAYS: tuple[dict[str, Any], ...] = (
    {"packed": True},
    {"packed": False, "sh_degree": 3, "render_mode": "RGB+ED", "rasterize_mode": "antialiased"},
)


def main() -> None:
    """Take the steps in turn; the first that fails ends the process with an error."""
    import torch

    import splat

    info = splat.build_info()
    report("import", python=platform.python_version(), torch=torch.__version__, cuda=torch.version.cuda)
    assert info["damage"] is None, info["damage"]
    assert info["verdict"] == [], info["verdict"]
    assert list(info["loaded"]) == ["cpu"], f"loaded: {info['loaded']}"
    assert Path(info["artifact"]).parent == Path(splat.__file__).parent, f"not the wheel's kernels: {info['artifact']}"
    report("verdict")
    if torch.version.cuda:
        load_cuda(info)
    images, gradients = render_all()
    report("picture", sha256=digest(images))
    report("gradients", sha256={name: digest(found) for name, found in gradients.items()})


def load_cuda(info: dict[str, Any]) -> None:
    """Load the library for CUDA, which takes no GPU. ctypes, by which torch loads it, binds every symbol at once."""
    import torch

    files = [library["file"] for library in info["manifest"]["libraries"] if library["device"] == "cuda"]
    for file in files:
        torch.ops.load_library(str(Path(info["artifact"], file)))
    report("cuda", files=files)


def render_all() -> tuple[list[Any], dict[str, list[Any]]]:
    """The images of all ways, and each parameter's gradients."""
    import torch

    import splat

    images: list[Any] = []
    gradients: dict[str, list[Any]] = {name: [] for name in PARAMETERS}
    for options in WAYS:
        numbers = random.Random(7)
        leaves = {name: values.requires_grad_() for name, values in scene(numbers, "sh_degree" in options).items()}
        K = torch.tensor([[[120.0, 0, WIDTH / 2], [0, 110.0, HEIGHT / 2], [0, 0, 1]]])
        colors, alphas, _ = splat.rasterization(**leaves, Ks=K, width=WIDTH, height=HEIGHT, **options)
        assert bool(colors.isfinite().all()), "the picture is not finite"
        assert float(alphas.detach().max()) > 0.9, "the picture is empty"
        given = [tensor(numbers, output.shape, -1, 1) for output in (colors, alphas)]
        images += [colors, alphas]
        found = torch.autograd.grad((colors, alphas), list(leaves.values()), given)
        for name, gradient in zip(leaves, found, strict=True):
            assert bool(gradient.isfinite().all()), f"the gradient of {name} is not finite"
            assert bool(gradient.any()), f"the gradient of {name} is zero"
            gradients[name].append(gradient)
    return images, gradients


def scene(numbers: random.Random, harmonics: bool) -> dict[str, Any]:
    """Gaussians in a box in front of a camera, as the arguments of `rasterization` that have gradients."""
    import torch

    view = torch.eye(4)[None]
    view[0, :3, 3] = torch.tensor([0.1, -0.1, 2.5])
    return {
        "means": tensor(numbers, (GAUSSIANS, 3), -1, 1),
        "quats": tensor(numbers, (GAUSSIANS, 4), -1, 1),
        "scales": tensor(numbers, (GAUSSIANS, 3), 0.01, 0.2),
        "opacities": tensor(numbers, (GAUSSIANS,), 0, 1),
        "colors": tensor(numbers, (GAUSSIANS, 16, 3) if harmonics else (GAUSSIANS, 3), 0, 1),
        "viewmats": view,
    }


def tensor(numbers: random.Random, shape: Sequence[int], low: float, high: float) -> Any:
    """Numbers between two bounds."""
    import torch

    values = torch.empty(tuple(shape)).numel()
    return torch.tensor([low + (high - low) * numbers.random() for _ in range(values)]).reshape(tuple(shape))


def digest(tensors: Sequence[Any]) -> str:
    """The sha256 of the bytes of tensors, one after the other."""
    found = hashlib.sha256()
    for part in tensors:
        found.update(part.detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def report(step: str, **said: object) -> None:
    """Say at once that a step is done: the next one may end the process."""
    print(json.dumps({"step": step, **said}), flush=True)


if __name__ == "__main__":
    main()
