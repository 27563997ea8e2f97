"""The parameters of the Gaussians that are being fitted, and what Adam remembers of each of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..ops.densification import chosen_state
from ..scene.gaussians import SH_C0, Gaussians

Parameters = dict[str, Tensor]

MOMENTS = ("exp_avg", "exp_avg_sq")
_THINNEST = 1e-12
"""A standard deviation of 0 has no logarithm."""


class GaussianTable:
    """N Gaussians before activation, a row of each parameter for each, and Adam.

    `parameters` has `means` [N, 3], `quats` [N, 4], `scales` [N, 3] (logarithms), `opacities` [N] (logits), `constant`
    [N, 1, 3] and `bands` [N, K - 1, 3] (coefficients of spherical harmonics).
    """

    def __init__(self, parameters: Parameters, pictures: int = 1) -> None:
        """A step is for the mean of `pictures` pictures: Adam's rates grow with their root, and it remembers equally
        many of them (Zhao et al., *On Scaling Up 3D Gaussian Splatting Training*, 2024, section 4.3).
        """
        self.parameters = {name: value.requires_grad_() for name, value in parameters.items()}
        self._factor = math.sqrt(pictures)
        groups = [{"params": [value], "name": name, "lr": 0.0} for name, value in self.parameters.items()]
        betas = (0.9**pictures, 0.999**pictures)
        self.optimizer = torch.optim.Adam(groups, betas=betas, eps=1e-15, fused=True)

    def __len__(self) -> int:
        """N."""
        return len(self.parameters["means"])

    def activated(self) -> Gaussians:
        """The Gaussians as `rasterization` takes them."""
        p = self.parameters
        return Gaussians(
            means=p["means"],
            quats=p["quats"],
            scales=p["scales"].exp(),
            opacities=p["opacities"].sigmoid(),
            sh=torch.cat([p["constant"], p["bands"]], dim=1),
        )

    def set_rates(self, rates: dict[str, float]) -> None:
        """Set the learning rate of each parameter, for steps of one picture."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._factor * rates[group["name"]]

    def rebuild(self, rows: Tensor, changes: Parameters, places: Tensor) -> None:
        """Keep the Gaussians `rows`, in this order, some of them several times.

        Those at `places` among them get new values of the parameters in `changes`, and Adam forgets them.
        """
        values, states = {}, {}
        for name, old in self.parameters.items():
            values[name] = old.detach()[rows]
            if name in changes:
                values[name][places] = changes[name]
            states[name] = chosen_state(self.optimizer.state.get(old, {}), rows, places)
        # All or nothing: if memory ran out above, the Gaussians are what they were.
        self.replace(values, states)

    def replace(self, values: Parameters, states: dict[str, dict[str, Tensor]]) -> None:
        """Put other Gaussians in the place of these, and for each parameter what Adam knows of it."""
        for group in self.optimizer.param_groups:
            name = group["name"]
            self.optimizer.state.pop(self.parameters[name], None)
            new = values[name].requires_grad_()
            if states[name]:
                self.optimizer.state[new] = states[name]
            group["params"] = [new]
            self.parameters[name] = new


def first_parameters(points: Tensor, colors: Tensor, sizes: Tensor, sh_degree: int) -> Parameters:
    """Spheres of standard deviations `sizes` [N] at `points` [N, 3], with `colors` [N, 3] from 0 to 1."""
    quats = torch.zeros(len(points), 4, device=points.device)
    quats[:, 0] = 1
    return {
        "means": points.clone(),
        "quats": quats,
        "scales": sizes.log()[:, None].repeat(1, 3),
        "opacities": torch.full_like(points[:, 0], 0.1).logit(),
        "constant": ((colors - 0.5) / SH_C0)[:, None],
        "bands": points.new_zeros(len(points), (sh_degree + 1) ** 2 - 1, 3),
    }


def scene_parameters(scene: Gaussians, means: Tensor, sh_degree: int) -> Parameters:
    """Those of a scene's Gaussians, at `means` [N, 3]; coefficients that it lacks are 0, higher ones are left out."""
    sh = torch.nn.functional.pad(scene.sh, (0, 0, 0, (sh_degree + 1) ** 2))[:, : (sh_degree + 1) ** 2]
    return {
        "means": means.clone(),
        "quats": torch.nn.functional.normalize(scene.quats, dim=1),
        "scales": scene.scales.clamp_min(_THINNEST).log(),
        "opacities": scene.opacities.clamp(1e-6, 1 - 1e-6).logit(),
        "constant": sh[:, :1].clone(),
        "bands": sh[:, 1:].clone(),
    }


def used_degree(bands: Tensor) -> int:
    """The highest degree of spherical harmonics with a coefficient other than 0, of `bands` [N, K - 1, 3]."""
    used = (bands != 0).any(dim=2).any(dim=0).nonzero()
    return math.isqrt(int(used.max()) + 1) if len(used) else 0


def neighbour_distances(points: Tensor, cell: int = 1024) -> Tensor:
    """The mean distance [N] of each of the points [N, 3] to the 3 nearest others, or to all if there are fewer.

    More than `cell` points are halved along their longest side, again and again, and neighbours looked for in the same
    part: there they are exact, and beside its border too far away rather than too near. 0 for a single point.
    """
    distances = torch.zeros_like(points[:, 0])
    parts = [torch.arange(len(points), device=points.device)]
    while parts:
        rows = parts.pop()
        inside = points[rows]
        if len(rows) <= cell:
            # Not by the product of matrices, whose rounding is as large as small distances.
            pairs = torch.cdist(inside, inside, compute_mode="donot_use_mm_for_euclid_dist")
            nearest = pairs.topk(min(4, len(rows)), largest=False).values[:, 1:]
            distances[rows] = nearest.sum(dim=1) / max(nearest.shape[1], 1)
            continue
        low, high = inside.aminmax(dim=0)
        order = inside[:, int((high - low).argmax())].argsort(stable=True)
        middle = len(rows) // 2
        parts += [rows[order[:middle]], rows[order[middle:]]]
    return distances
