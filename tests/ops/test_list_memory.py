"""The lists of the Gaussians in each tile: of large Gaussians, a small file makes more than there is memory.

How much there is, another folder says: a machine cannot have little on request.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import processes
import pytest
import torch
from folders import HELPERS
from kernelwheel.compiler.resources import MB, find_resources

from splat.commands.memory import NotEnoughMemory, enough_memory
from splat.scene.formats import write_scene
from splat.scene.gaussians import Gaussians

pytestmark = [pytest.mark.slow]

GB = 1024 * MB
MOUNTS = {
    1: "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    2: "25 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
}
UNLIMITED_1 = "9223372036854771712\n"
CACHED = f"anon 7\nfile {GB}\ninactive_file {64 * MB}\nactive_file {32 * MB}\n"
# The version of control groups, this process's group, and files of them.
MACHINES: dict[str, tuple[int, str, dict[str, str]]] = {
    "no groups": (0, "", {}),
    "no limit": (2, "/a", {"a/memory.max": "max\n", "a/memory.current": "7\n"}),
    "a limit": (2, "/a/b", {"a/b/memory.max": f"{2 * GB}\n", "a/b/memory.current": f"{GB}\n", "a/memory.max": "max"}),
    "a limit above": (2, "/a/b", {"a/memory.max": f"{2 * GB}\n", "a/memory.current": f"{GB}\n"}),
    "a high one": (2, "/a", {"a/memory.max": "max\n", "a/memory.high": f"{GB}\n", "a/memory.current": "7000\n"}),
    "cached files": (
        2,
        "/a",
        {"a/memory.max": f"{GB}\n", "a/memory.current": f"{512 * MB}\n", "a/memory.stat": CACHED},
    ),
    "over the limit": (2, "/a", {"a/memory.max": "7\n", "a/memory.current": "8\n"}),
    "outside": (2, "/../a", {"memory.max": f"{GB}\n", "memory.current": "0\n"}),
    "version 1": (
        1,
        "/a",
        {
            "memory/a/memory.limit_in_bytes": f"{GB}\n",
            "memory/a/memory.usage_in_bytes": f"{512 * MB}\n",
            "memory/a/memory.stat": f"inactive_file 5\ntotal_inactive_file {64 * MB}\n",
            "memory/memory.limit_in_bytes": UNLIMITED_1,
            "memory/memory.usage_in_bytes": f"{GB}\n",
        },
    ),
    "no limit of version 1": (
        1,
        "/a",
        {"memory/a/memory.limit_in_bytes": UNLIMITED_1, "memory/a/memory.usage_in_bytes": f"{GB}\n"},
    ),
}

CHILD = """
import json, os, resource, sys
from concurrent.futures import ThreadPoolExecutor
import splat, torch
from splat import _kernels
from splat.cli import main
from splat.commands.memory import available_memory
from splat.commands.view_command import draw_in_memory
from splat.scene.camera import orbit
from splat.scene.formats import read_scene
from splat.view.drawing import Look

_kernels.require(torch.device("cpu"))
scene, roots, (short, enough, plenty) = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]

def lists(count, rows, columns, capacity=None):
    means = torch.tensor([8.0 * columns, 8.0 * rows]).repeat(1, count, 1)
    values = means, torch.full((1, count, 2), 10**6, dtype=torch.int32), torch.ones(1, count)
    shape = torch.tensor([1e-14, 0, 1e-14]).repeat(1, count, 1), torch.ones(1, count)
    try:
        return len(torch.ops.splat.intersect(*values, *shape, None, 1, 16, columns, rows, capacity)[1])
    except RuntimeError as error:
        where, found, words = str(error).partition(chr(10))[0].partition("not enough")
        return found + words or where

def drawn(function, **options):
    count = 20_000
    means = torch.linspace(-1, 1, count)[:, None].expand(-1, 3) + torch.tensor([0.0, 0.0, 4.0])
    quats, scales = torch.tensor([1.0, 0, 0, 0]).expand(count, 4), torch.full((count, 3), 300.0)
    K = torch.tensor([[[1000.0, 0, 512], [0, 1000, 512], [0, 0, 1]]])
    given = means, quats, scales, torch.full((count,), 0.1), torch.rand(count, 3), torch.eye(4)[None], K, 1024, 1024
    try:
        function(*given, **options)
    except RuntimeError as error:
        return "pairs of Gaussian and tile" in str(error)
    return False

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

said = {"found": [], "commands": []}
for root in roots:
    os.environ["OTHER_MEMORY"] = root
    said["found"].append(lists(1, 1, 1, 2**31 - 1))
    said["commands"].append(available_memory())
os.environ["OTHER_MEMORY"] = short
said["small"] = lists(100, 64, 64)
before = peak()
said["covering"] = lists(20_000, 64, 64)
said["covering took"] = peak() - before
said["tall"] = lists(4_000, 2**14, 1)
said["tall took"] = peak() - before
said["render"] = main(["render", scene, "-o", "a.png", "--device", "cpu", "--size", "1024x1024"])
read = read_scene(scene)
look = Look(read, "colour", 0, (0.0, 0.0, 0.0), 0.01)
try:
    draw_in_memory(look, orbit(read, 1024, 1024))
except RuntimeError as error:
    said["view"] = str(error)
draw_in_memory(look, orbit(read, 64, 64))
os.environ["OTHER_MEMORY"] = enough
with ThreadPoolExecutor(8) as threads:
    said["at once"] = list(threads.map(lambda _: lists(20_000, 64, 64), range(8)))
os.environ["OTHER_MEMORY"] = plenty
said["plenty"] = lists(20_000, 64, 64)
os.environ["OTHER_MEMORY"] = short
said["functions"] = [
    drawn(splat.rasterization, packed=True), drawn(splat.rasterization, packed=False),
    drawn(splat.rasterization, packed=False, with_eval3d=True),
    drawn(splat.rasterization_2dgs, packed=True), drawn(splat.rasterization_2dgs, packed=False),
]
print(json.dumps(said))
"""


def lay_out(root: Path, version: int, group: str, files: dict[str, str], available: int = 4 * GB) -> Path:
    name = "memory:" if version == 1 else ":"
    given = {
        "proc/meminfo": f"MemTotal: 9 kB\nMemAvailable:   {available >> 10} kB\n",
        "proc/self/cgroup": f"9:name=systemd:/\n{4 if version == 1 else 0}:{name}{group}\n" if version else "",
        "proc/self/mountinfo": MOUNTS.get(version, ""),
        **{f"sys/fs/cgroup/{file}": text for file, text in files.items()},
    }
    for file, text in given.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return root


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("machines")
    return [lay_out(folder / name, *machine) for name, machine in MACHINES.items()]


@pytest.fixture(scope="module")
def said(roots: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process says that has little memory."""
    folder = tmp_path_factory.mktemp("child")
    source, library = HELPERS / "other_memory.c", folder / "other_memory.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", source, "-o", library, "-ldl"], check=True)
    count = 20_000
    spread, quats = torch.linspace(-1, 1, count)[:, None].expand(-1, 3), torch.tensor([1.0, 0, 0, 0]).expand(count, 4)
    scales, opacities = torch.full((count, 3), 300.0), torch.full((count,), 0.1)
    write_scene(folder / "covering.spz", Gaussians(spread, quats, scales, opacities, torch.zeros(count, 1, 3)))
    assert (folder / "covering.spz").stat().st_size < 99_000
    sizes = {"short": 300 * MB, "enough": 400 * MB, "plenty": 8 * GB}
    others = [lay_out(folder / name, 0, "", {}, size) for name, size in sizes.items()]
    words = [sys.executable, "-c", CHILD, "covering.spz", json.dumps([str(root) for root in roots]), *others]
    done = processes.run(words, cwd=folder, env={"LD_PRELOAD": str(library)})
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "stderr": done.stderr}


def test_the_memory_is_what_the_commands_find(said: dict[str, Any], roots: list[Path]) -> None:
    for name, root, words, commands in zip(MACHINES, roots, said["found"], said["commands"], strict=True):
        before, _, after = words.partition(" for 1 pairs of Gaussian and tile, found ")
        assert before == "not enough memory to allocate 8589934588 bytes", name
        assert int(after.split()[0]) // MB == find_resources(root).memory_mb, name
        assert int(after.split()[0]) == commands, name


def test_lists_that_do_not_fit_are_refused_before_they_are_made(said: dict[str, Any]) -> None:
    assert said["small"] == 100 * 64 * 64, "the memory is not even asked for"
    assert said["covering"] == (
        "not enough memory to allocate 327680000 bytes for 81920000 pairs of Gaussian and tile, found 314572800 bytes; "
        "render smaller images or fewer Gaussians, or move the camera away"
    )
    assert said["covering took"] < 128 * MB
    assert said["plenty"] == 81_920_000


def test_every_way_to_draw_refuses_such_lists(said: dict[str, Any]) -> None:
    assert said["functions"] == [True] * 5


def test_lists_that_are_made_at_once_share_the_memory(said: dict[str, Any]) -> None:
    made = said["at once"].count(81_920_000)
    refused = [words for words in said["at once"] if isinstance(words, str)]
    assert 0 < made < 8
    assert len(refused) == 8 - made
    assert all("pairs of Gaussian and tile, found 0 " in words or " found 91750400 " in words for words in refused)


def test_what_the_lists_are_made_of_is_refused_too(said: dict[str, Any]) -> None:
    """Rows of tiles, which take as many bytes as three pairs."""
    needed, _, rest = said["tall"].removeprefix("not enough memory to allocate ").partition(" bytes for ")
    assert int(needed) > 300 * MB + 4 * 4_000 * 2**14
    assert rest.startswith("65536000 pairs of Gaussian and tile, found 314572800 bytes; ")
    assert said["tall took"] < 300 * MB


def test_commands_say_it_in_a_line_and_go_on(said: dict[str, Any]) -> None:
    assert said["render"] == 1
    line = "1024x1024 needs more memory than there is (312.50 MiB in one allocation); "
    assert f"rendering 20000 Gaussians at {line}choose a smaller" in said["stderr"]
    assert said["stderr"].count("\n") == 1
    assert said["view"] == f"drawing 20000 Gaussians at {line}make the page smaller, or choose another scene"


def test_more_pairs_than_an_operator_counts_are_a_lack_of_memory_too() -> None:
    words = "the Gaussians touch 2147483648 tiles, more than 2^31 - 1; render fewer images at once, or use larger tiles"
    with pytest.raises(NotEnoughMemory, match="drawing it needs more memory"), enough_memory(lambda: "drawing it", "x"):
        raise RuntimeError(words)
