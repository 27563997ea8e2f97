"""Rendering with Gaussians and cameras that are spread over the processes of torch.distributed.

Each rank projects its own Gaussians into the cameras of all ranks, and draws its own cameras with the Gaussians of all
(Zhao et al., *On Scaling Up 3D Gaussian Splatting Training*, 2024). What is projected goes to the camera's rank, in one
exchange; its gradients come back in another.

Shapes: C cameras and M visible pairs of one rank, W values of a pair.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .arguments import Sizes
from .packing import Splats, Visible, pack


class Ranks:
    """The processes of the default group: this one's number, and how many Gaussians and cameras each of them has."""

    def __init__(self, rank: int, gaussians: list[int], cameras: list[int]) -> None:
        self.rank = rank
        self.gaussians = gaussians
        self.cameras = cameras

    @property
    def all_cameras(self) -> int:
        """The number of cameras of all ranks."""
        return sum(self.cameras)


def meet(sizes: Sizes, device: torch.device, facts: dict[str, object]) -> Ranks:
    """What the ranks bring. `facts` are arguments on which they must agree.

    Raises:
        RuntimeError: there is no process group.
        ValueError: they do not agree; in all ranks alike.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "distributed=True needs a process group, and there is none; start with torchrun --nproc-per-node N, and "
            "call torch.distributed.init_process_group() first"
        )
    mine = torch.tensor([sizes.gaussians, sizes.cameras, zlib.crc32(repr(sorted(facts.items())).encode())])
    found = _gathered(mine.to(device)).tolist()
    if len({crc for _, _, crc in found}) > 1:
        everyone: list[dict[str, object]] = [{} for _ in found]
        dist.all_gather_object(everyone, facts)
        raise ValueError(disagreement(everyone) or "all ranks must have the same arguments, and have not")
    return Ranks(dist.get_rank(), [n for n, _, _ in found], [c for _, c, _ in found])


def disagreement(everyone: list[dict[str, object]]) -> str | None:
    """How the facts of a rank differ from those of rank 0, in the same words on all ranks; None if they do not."""
    for name, first in everyone[0].items():
        for rank, facts in enumerate(everyone):
            if facts[name] != first:
                return f"all ranks must have the same {name}; rank 0 has {first}, rank {rank} has {facts[name]}"
    return None


def _gathered(tensor: Tensor) -> Tensor:
    """The tensors of all ranks, of one shape, stacked."""
    everyone = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, tensor.contiguous())
    return torch.stack(everyone)


def gather_cameras(ranks: Ranks, viewmats: Tensor, Ks: Tensor) -> tuple[Tensor, Tensor]:
    """The cameras of all ranks, in their order. Each rank gets the gradients by its own viewmats."""
    apply: Any = _GatheredViews.apply
    views: Tensor = apply(viewmats, ranks)
    return views, _of_all_cameras(Ks.detach(), ranks)


def _of_all_cameras(own: Tensor, ranks: Ranks) -> Tensor:
    """The matrices of all ranks' cameras; ranks with fewer cameras than others send zeros too."""
    filled = own.new_zeros(max(ranks.cameras), *own.shape[1:])
    filled[: len(own)] = own
    return torch.cat([part[:count] for part, count in zip(_gathered(filled), ranks.cameras, strict=True)])


class _GatheredViews(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, viewmats: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return _of_all_cameras(viewmats, ranks)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ranks = ctx.ranks
        total = gradients[0].contiguous()
        dist.all_reduce(total)
        mine: Tensor = total.split(ranks.cameras)[ranks.rank]  # type: ignore[no-untyped-call]
        return mine, None


def exchange_pairs(
    ranks: Ranks, splats: Splats, colors: Tensor | None, per_camera: bool, sizes: Sizes, packed: bool, absgrad: bool
) -> tuple[Splats, Splats, Tensor]:
    """Send pairs to the ranks whose cameras see them; the backward pass sends their gradients back.

    Args:
        ranks: the processes.
        splats: this rank's Gaussians in the cameras of all ranks, [C, N, *].
        colors: theirs, [C, N, D] if `per_camera`, else [N, D].
        per_camera: which of the two.
        sizes: of these cameras and Gaussians.
        packed: the layout of what is returned first.
        absgrad: whether the backward pass sets the attribute `absgrad` of its means2d.

    Returns:
        This rank's pairs; the pairs of this rank's cameras with the Gaussians of all, by rank, and their colours
        [M, D]. Of the latter, images are numbered among this rank's, Gaussians among those of all ranks.
    """
    own, own_colors, _ = pack(splats, colors, per_camera, sizes, None)
    visible = own.visible
    assert visible is not None
    device = own.radii.device
    first_cameras = torch.tensor([sum(ranks.cameras[:rank]) for rank in range(len(ranks.cameras) + 1)], device=device)
    # The pairs are in the order of their cameras, and so of the ranks.
    sent = torch.searchsorted(visible.image_ids, first_cameras).diff()
    images = visible.image_ids - first_cameras[:-1].repeat_interleave(sent)
    gaussians = visible.gaussian_ids + sum(ranks.gaussians[: ranks.rank])
    integers = torch.cat([torch.stack([images, gaussians], dim=1).int(), own.radii], dim=1)
    values = torch.cat([own.means2d, own.depths[:, None], own.conics, own.opacities[:, None], own_colors], dim=1)

    counts = _gathered(sent).tolist()
    shown = own if packed else splats
    exchange = _Exchange(counts[ranks.rank], [row[ranks.rank] for row in counts], (shown.means2d, visible), absgrad)
    apply: Any = _Exchanged.apply
    values, integers = apply(values, integers, exchange)
    means2d, depths, conics, opacities, colors = values.split([2, 1, 3, 1, own_colors.shape[1]], dim=1)
    exchange.received = weakref.ref(means2d)  # means2d is made from what holds `exchange`
    images, gaussians, radii = integers[:, 0].long(), integers[:, 1].long(), integers[:, 2:].contiguous()
    received = Splats(radii, means2d, depths[:, 0], conics, opacities[:, 0], Visible(images, gaussians))
    return shown, received, colors


class _Exchange:
    """How many pairs go to each rank and come from it, and where absolute gradients come from and go to."""

    def __init__(
        self, sent: list[int], received_counts: list[int], absolute_of: tuple[Any, Visible], absgrad: bool
    ) -> None:
        self.sent = sent
        self.received_counts = received_counts
        self.absolute_of = absolute_of if absgrad else None
        self.received: Callable[[], Any] = lambda: None

    def set_absgrad(self, rows: Tensor) -> None:
        """Of means2d, [M, 2] or [C, N, 2], from that of the packed pairs."""
        assert self.absolute_of is not None
        means2d, visible = self.absolute_of
        if means2d.ndim == 3:
            dense = torch.zeros_like(means2d)
            dense[visible.image_ids, visible.gaussian_ids] = rows
            rows = dense
        means2d.absgrad = rows


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, integers: Tensor, exchange: _Exchange) -> tuple[Tensor, Tensor]:
        ctx.exchange = exchange
        # One exchange for both: nothing is computed with the integers' bits.
        rows = torch.cat([integers.view(torch.float32), values], dim=1)
        found = rows.new_empty(sum(exchange.received_counts), rows.shape[1])
        dist.all_to_all_single(found, rows, exchange.received_counts, exchange.sent)
        integers = found[:, : integers.shape[1]].contiguous().view(torch.int32)
        ctx.mark_non_differentiable(integers)
        return found[:, integers.shape[1] :].contiguous(), integers

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        exchange: _Exchange = ctx.exchange
        rows = gradients[0]
        width = rows.shape[1]
        if exchange.absolute_of is not None:
            rows = torch.cat([rows, exchange.received().absgrad], dim=1)
        found = rows.new_empty(sum(exchange.sent), rows.shape[1])
        dist.all_to_all_single(found, rows.contiguous(), exchange.sent, exchange.received_counts)
        if exchange.absolute_of is not None:
            exchange.set_absgrad(found[:, width:].contiguous())
        return found[:, :width], None, None
