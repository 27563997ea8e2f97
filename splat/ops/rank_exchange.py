"""Rendering with Gaussians and cameras that are spread over the processes of torch.distributed.

Each rank projects its own Gaussians into the cameras of all ranks, and draws its own cameras with the Gaussians of all
(Zhao et al., *On Scaling Up 3D Gaussian Splatting Training*, 2024). What is projected goes to the camera's rank, in one
exchange; its gradients come back in another.

Shapes: C cameras and M visible pairs of one rank, W values of a pair.
"""

from __future__ import annotations

import json
import math
import weakref
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from .arguments import ProjectionSettings, Sizes
from .packing import Splats, Visible, pack

if TYPE_CHECKING:
    from .lens_cameras import LensCameras

MOST_BYTES = 16 << 20  # of a value that a rank sends


class Ranks:
    """The processes of the default group: this one's number, and what each of them has."""

    def __init__(self, rank: int, gaussians: list[int], cameras: list[int], images: list[tuple[int, int]]) -> None:
        self.rank = rank
        self.gaussians = gaussians
        """How many."""
        self.cameras = cameras
        """How many."""
        self.images = images
        """The width and height of its images."""

    @property
    def all_cameras(self) -> int:
        """The number of cameras of all ranks."""
        return sum(self.cameras)

    def camera_runs(self) -> list[tuple[int, tuple[int, int]]]:
        """All cameras in their order, as numbers of those one after the other whose images have one size, and that."""
        runs: list[tuple[int, tuple[int, int]]] = []
        for count, size in zip(self.cameras, self.images, strict=True):
            if count and runs and runs[-1][1] == size:
                runs[-1] = runs[-1][0] + count, size
            elif count:
                runs.append((count, size))
        return runs or [(0, self.images[0])]


def sync_ranks(sizes: Sizes, settings: ProjectionSettings, device: torch.device, facts: dict[str, object]) -> Ranks:
    """What the ranks bring. `facts` are arguments on which they must agree, as they must on the settings but the size
    of the images.

    Raises:
        RuntimeError: there is no process group.
        ValueError: they do not agree; in all ranks alike.
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError(
            "distributed=True needs a process group, and there is none; start with torchrun --nproc-per-node N, and "
            "call torch.distributed.init_process_group() first"
        )
    facts = {**facts, **vars(settings)}
    image = facts.pop("width"), facts.pop("height")
    mine = torch.tensor([zlib.crc32(repr(sorted(facts.items())).encode()), sizes.gaussians, sizes.cameras, *image])
    found = _gathered(mine.to(device)).tolist()
    if len({crc for crc, *_ in found}) > 1:
        raise ValueError(
            disagreement(gather_values(facts, device)) or "all ranks must have the same arguments, and have not"
        )
    _, gaussians, cameras, widths, heights = map(list, zip(*found, strict=True))
    return Ranks(dist.get_rank(), gaussians, cameras, list(zip(widths, heights, strict=True)))


def gather_values(value: Any, device: torch.device) -> list[Any]:
    """A value of each rank, on all of them, as JSON: torch's all_gather_object would unpickle what a rank sends.

    Args:
        value: what JSON can say, and else its repr; of MOST_BYTES at most.
        device: that of the tensors which the group exchanges.
    """
    mine = torch.frombuffer(bytearray(json.dumps(value, default=repr), "ascii"), dtype=torch.uint8)
    lengths = _gathered(torch.tensor(len(mine), device=device)).tolist()
    if max(lengths) > MOST_BYTES:
        raise ValueError(f"a rank may send {MOST_BYTES} bytes at most, found {max(lengths)}")
    filled = torch.zeros(max(lengths), dtype=torch.uint8)
    filled[: len(mine)] = mine
    rows = _gathered(filled.to(device)).cpu().numpy()
    return [json.loads(row[:length].tobytes()) for row, length in zip(rows, lengths, strict=True)]


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


def gather_cameras(
    ranks: Ranks, viewmats: Tensor, Ks: Tensor, lenses: LensCameras | None
) -> tuple[Tensor, Tensor, LensCameras | None]:
    """The cameras of all ranks, in their order. Each rank gets the gradients by its own viewmats."""
    apply: Any = _GatheredViews.apply
    views: Tensor = apply(viewmats, ranks)
    intrinsics = _of_all_cameras(Ks.detach(), ranks)
    if lenses is not None:
        lenses = lenses.with_tensors(lambda own: _of_all_cameras(own, ranks), viewmats=views, Ks=intrinsics)
    return views, intrinsics, lenses


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
    @once_differentiable  # what comes from other ranks is a constant to autograd
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ranks = ctx.ranks
        total = gradients[0].contiguous()
        dist.all_reduce(total)
        mine: Tensor = total.split(ranks.cameras)[ranks.rank]
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

    Raises:
        ValueError: only some ranks will have a backward pass, in which they would wait for the others; in all alike.
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

    values = own.means2d, own.depths, own.conics, own.opacities, own_colors
    differentiable = torch.is_grad_enabled() and any(each.requires_grad for each in values)
    *counts, kinds = _gathered(torch.cat([sent, sent.new_tensor([differentiable])])).T.tolist()
    if found := disagreement([{"requires_grad (False in torch.no_grad)": bool(kind)} for kind in kinds]):
        raise ValueError(found)
    shown = own if packed else splats
    exchange = _Exchange([row[ranks.rank] for row in counts], counts[ranks.rank], (shown.means2d, visible), absgrad)
    apply: Any = _Exchanged.apply
    integers = images.int(), gaussians.int(), own.radii
    images, gaussians, radii, means2d, depths, conics, opacities, colors = apply(exchange, *integers, *values)
    exchange.received = weakref.ref(means2d)  # means2d is made from what holds `exchange`
    received = Splats(radii, means2d, depths, conics, opacities, Visible(images.long(), gaussians.long()))
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
    """Columns of each pair, [M] or [M, *], of which the first three are integers."""

    @staticmethod
    def forward(ctx: Any, exchange: _Exchange, *columns: Tensor) -> tuple[Tensor, ...]:
        ctx.exchange = exchange
        # One exchange for both: nothing is computed with the integers' bits.
        integers, values = columns[:3], columns[3:]
        floats = [*(each.view(torch.float32) for each in integers), *values]
        found = _swapped(floats, exchange.sent, exchange.received_counts)
        integers = tuple(each.view(torch.int32) for each in found[:3])
        ctx.mark_non_differentiable(*integers)
        return *integers, *found[3:]

    @staticmethod
    @once_differentiable  # what comes from other ranks is a constant to autograd
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        exchange: _Exchange = ctx.exchange
        columns = [*gradients[3:]]
        if exchange.absolute_of is not None:
            columns.append(exchange.received().absgrad)
        found = _swapped(columns, exchange.received_counts, exchange.sent)
        if exchange.absolute_of is not None:
            exchange.set_absgrad(found.pop())
        return None, None, None, None, *found


def _swapped(columns: list[Tensor], sent: list[int], received: list[int]) -> list[Tensor]:
    """Columns [M] or [M, *] of rows for each rank, in their order; the same columns of what comes from each."""
    widths = [math.prod(each.shape[1:]) for each in columns]
    rows = torch.cat([each.reshape(len(each), width) for each, width in zip(columns, widths, strict=True)], dim=1)
    found = rows.new_empty(sum(received), rows.shape[1])
    dist.all_to_all_single(found, rows, received, sent)
    parts = zip(found.split_with_sizes(widths, dim=1), columns, strict=True)
    return [part.reshape(len(found), *like.shape[1:]).contiguous() for part, like in parts]
