"""Sizes that do not fit the 32 bits of the kernels are refused before a kernel sees them.

Expanded tensors have any shape without memory, and no memory must be asked for before the refusal. Where it does end,
that is what the error says. Sizes beside a size of 0 ask for no work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import processes
import pytest
import torch
from processes import RunPython

import splat

MANY = 2**31
TILES = "there must be at most 1073741824 images x columns of tiles x rows of tiles"
PAIRS = "there must be at most 2147483647 images x Gaussians, .* found "
CHANNELS = "colors must have at most 1073741824 channels, found "


def render(batch: tuple[int, ...] = (), n: int = 1, c: int = 1, channels: int = 3, **options: Any) -> Any:
    eye = torch.eye(4)
    arguments = {
        "means": torch.zeros(3).expand(*batch, n, 3),
        "quats": torch.ones(4).expand(*batch, n, 4),
        "scales": torch.ones(3).expand(*batch, n, 3),
        "opacities": torch.ones(()).expand(*batch, n),
        "colors": torch.ones(()).expand(*batch, n, channels),
        "viewmats": eye.expand(*batch, c, 4, 4),
        "Ks": eye[:3, :3].expand(*batch, c, 3, 3),
        "width": 4,
        "height": 4,
    }
    return splat.rasterization(**{**arguments, **options})


def project(n: int, c: int) -> Any:
    eye = torch.eye(4)
    means, quats = torch.zeros(3).expand(n, 3), torch.ones(4).expand(n, 4)
    views = eye.expand(c, 4, 4), eye[:3, :3].expand(c, 3, 3)
    return splat.fully_fused_projection(means, None, quats, means, *views, 4, 4)


def tiles(
    images: int = 1, n: int = 1, packed: bool = False, columns: int = 1, rows: int = 1, n_images: int | None = None
) -> Any:
    lead = (n,) if packed else (images, n)
    return splat.isect_tiles(
        torch.zeros(()).expand(*lead, 2),
        torch.zeros((), dtype=torch.int32).expand(*lead, 2),
        torch.zeros(()).expand(lead),
        16,
        columns,
        rows,
        packed=packed,
        n_images=n_images if n_images is not None else images,
        image_ids=torch.zeros((), dtype=torch.int64).expand(n) if packed else None,
    )


def pixels(
    images: int = 1,
    n: int = 1,
    channels: int = 3,
    entries: int = 0,
    side: int = 4,
    packed: bool = False,
    size: int = 16,
) -> Any:
    lead = (n,) if packed else (images, n)
    value, index = torch.zeros(()), torch.zeros((), dtype=torch.int32)
    across = -(-side // size)
    return splat.rasterize_to_pixels(
        value.expand(*lead, 2),
        value.expand(*lead, 3),
        value.expand(*lead, channels),
        value.expand(lead),
        side,
        side,
        size,
        index.expand(images, across, across),
        index.expand(entries),
        packed=packed,
    )


def operator(channels: int) -> Any:
    value, index = torch.zeros(()), torch.zeros((), dtype=torch.int32)
    shapes = value.expand(1, 0, 2), value.expand(1, 0, 3), value.expand(1, 0, channels), value.expand(1, 0)
    return torch.ops.splat.rasterize(*shapes, None, None, 1, 1, 16, index.expand(1, 1, 1), index.expand(0), 0.999)


def offsets(length: int = 1, images: int = 1, columns: int = 1, rows: int = 1) -> Any:
    return splat.isect_offset_encode(torch.zeros((), dtype=torch.int64).expand(length), images, columns, rows)


def harmonics(*lead: int) -> Any:
    return splat.spherical_harmonics(0, torch.ones(3).expand(*lead, 3), torch.ones(3).expand(*lead, 1, 3))


CASES: list[tuple[Callable[[], Any], str]] = [
    # Where there are no Gaussians, so many channels were an image that nothing had written.
    (lambda: render(n=0, channels=MANY), CHANNELS),
    (lambda: render(channels=MANY), CHANNELS),
    (lambda: render(channels=2**32 + 3), CHANNELS),
    (
        lambda: render(channels=2**30, render_mode="RGB+D", n=0),
        "at most 1073741823 channels beside 1 of depth or extra signals, found ",
    ),
    (lambda: pixels(n=0, channels=MANY), CHANNELS),
    (lambda: pixels(n=0, channels=2**30 + 1, packed=True), CHANNELS),
    (lambda: render(n=MANY), PAIRS + "1 x 2147483648"),
    (lambda: render(n=2**16, c=2**15), PAIRS + "32768 x 65536"),
    (lambda: render((2**8, 2**8), n=2**15), PAIRS),
    (lambda: render((2**16,), n=2**15, c=0), PAIRS),
    (lambda: render(c=MANY), "there must be at most 1073741824 images, .* found 2147483648"),
    (lambda: render((MANY,)), "there must be at most 1073741824 images, .* found 2147483648"),
    (lambda: render(width=2**20, height=2**20, tile_size=1), TILES),
    (lambda: render(width=2**20, height=2**20, c=2), TILES),
    (lambda: project(MANY, 1), PAIRS),
    (lambda: project(2**16, 2**16), PAIRS),
    (lambda: tiles(columns=2**20, rows=2**20), TILES),
    (lambda: tiles(packed=True, n_images=MANY), TILES),
    (lambda: tiles(packed=True, n_images=-1), "n_images must be at least 0, found -1"),
    (lambda: tiles(images=2**16, n=2**16), PAIRS),
    (lambda: tiles(packed=True, n=MANY), PAIRS),
    (lambda: pixels(images=2**16, n=2**16), PAIRS),
    (lambda: pixels(packed=True, n=MANY), PAIRS),
    (lambda: pixels(images=2**28, side=4, size=1, n=1), TILES + ".* found 268435456 x 4 x 4"),
    (lambda: pixels(side=2**20, size=32, n=0, channels=2**30), "at most 2305843009213693951 values of the images"),
    (
        lambda: render(width=2**20, height=2**20, tile_size=32, n=0, channels=2**30),
        "at most 2305843009213693951 values of the images, .* found 1 x 1048576 x 1048576 x 1073741824",
    ),
    (lambda: pixels(entries=MANY), "at most 2147483647 entries of flatten_ids, .* found 2147483648"),
    (lambda: offsets(columns=2**20, rows=2**20), TILES),
    (lambda: offsets(images=MANY), TILES),
    (lambda: offsets(images=-1), "n_images must be at least 0"),
    (lambda: offsets(length=MANY), "at most 2147483647 isect_ids, .* found 2147483648"),
    (lambda: harmonics(MANY), "at most 2147483647 directions, .* found 2147483648"),
    (lambda: harmonics(2**16, 2**16), "at most 2147483647 directions, .* found 65536 x 65536"),
    (lambda: render(sh_degree=2**32, colors=torch.ones(1, 1, 3)), "sh_degree must be 0 to 4"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_sizes_beyond_32_bits_are_refused(case: int) -> None:
    call, message = CASES[case]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("channels", [0, 2**30 + 1, MANY, 2**32 + 1])
def test_the_operator_itself_refuses_channels_that_it_cannot_number(channels: int) -> None:
    # Beyond 32 bits the number of channels was cut, and the image was memory that nothing had written.
    with pytest.raises(RuntimeError, match="channels of colors must be between 1 and 1073741824; found"):
        operator(channels)


def test_n_images_is_an_integer() -> None:
    with pytest.raises(TypeError, match="n_images must be an int"):
        tiles(packed=True, n_images=1.5)  # type: ignore[arg-type]


LISTS = """
import resource, torch
from splat import _kernels
torch.set_num_threads(1)
_kernels.require(torch.device("cpu"))
n = 20_000

def lists(rows):
    means, radii = torch.full((1, n, 2), 5.0), torch.full((1, n, 2), 10_000, dtype=torch.int32)
    conics = torch.tensor([1e-9, 0.0, 1e-9]).expand(1, n, 3).contiguous()
    return torch.ops.splat.intersect(means, radii, torch.ones(1, n), conics, torch.ones(1, n), None, 1, 16, 1, rows)

lists(1)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    lists(1000)
except MemoryError as error:
    print(error)
"""


def test_memory_that_ends_within_the_work_of_a_thread_is_said_to_be_that(run_with_torch: RunPython) -> None:
    assert run_with_torch(LISTS).stdout == "std::bad_alloc\n"


IMAGE = """
import resource, torch, splat
torch.set_num_threads(1)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (2 << 30)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
eye = torch.eye(4)
try:
    splat.rasterization(
        torch.zeros(1, 3), eye[:1], torch.ones(1, 3), torch.ones(1), torch.ones(1, 3), eye[None], eye[None, :3, :3],
        width=100_000, height=100_000,
    )
except torch.OutOfMemoryError as error:
    print(error)
"""


def test_an_image_that_no_memory_holds_is_one_clear_error(run_with_torch: RunPython) -> None:
    done = run_with_torch(IMAGE)

    assert done.stdout == (
        "1 x 100000 x 100000 pixels with 3 channels take 186.3 GiB, more than there is on cpu; render a smaller image, "
        "or parts of it (move the principal points in Ks)\n"
    )
    assert done.stderr == ""  # no stack of C++


# Each call has nothing to compute; with work for each of so many sets, it would not end.
NOTHING = """
import torch
from splat import _kernels
torch.set_num_threads(1)
for part in ("main", "2dgs", "rays", "loss"):
    _kernels.require(torch.device("cpu"), part)
ops = torch.ops.splat
f, i = torch.zeros(()), torch.zeros((), dtype=torch.int32)

def pack_backward(n, channels, sets):
    no_rows = [f.expand(0, 2), f.expand(0), f.expand(0, 3), f.expand(0)]
    colors = None if channels is None else f.expand(0, channels)
    return ops.pack_backward(i.expand(0, n, 2), i.expand(0, n), sets, *no_rows, colors)

most = 2**31 - 1
for n, channels in ((0, 3), (1, 0), (1, None), (3, 0)):
    print([list(value.shape) for value in pack_backward(n, channels, most // max(n, 1))])
"""


@pytest.mark.slow
def test_many_sets_of_nothing_are_no_work(tmp_path: Path) -> None:
    lines = processes.run([sys.executable, "-c", NOTHING], cwd=tmp_path, limit=60).stdout.splitlines()
    assert lines[0] == "[[0, 0, 2], [0, 0], [0, 0, 3], [0, 0], [2147483647, 0, 3]]"
    assert lines[1] == "[[0, 1, 2], [0, 1], [0, 1, 3], [0, 1], [2147483647, 1, 0]]"


@pytest.mark.parametrize("images", [0, 1])
def test_pack_backward_refuses_sets_that_it_cannot_number(images: int) -> None:
    value, index = torch.zeros(()), torch.zeros((), dtype=torch.int32)
    rows = value.expand(0, 2), value.expand(0), value.expand(0, 3), value.expand(0)
    with pytest.raises(RuntimeError, match=r"sets of .* Gaussians are more than|equally many of the 1 images"):
        torch.ops.splat.pack_backward(index.expand(images, 1, 2), index.expand(images, 1), 2**33, *rows, None)
