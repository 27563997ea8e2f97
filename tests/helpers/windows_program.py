"""What is tried on Windows, in one process, because torch takes half a minute to import under Wine.

Arguments: a new folder to work in, one with the files of another platform's wheel, and the checks, if not all. Prints
one line of JSON: what each check found, or how it failed.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import shutil
import socket
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import photographs
import torch
from drawn_digests import NATIVE, described, drawn_with, numbers
from splat._kernelwheel import Kernels, KernelWheelError

import splat
from splat import cli
from splat.commands.output_lock import locked
from splat.photos.capture import CaptureFolder
from splat.photos.named_picture import find_picture
from splat.scene.gaussians import SceneError
from splat.scene.streamed_sog import _chunk
from splat.view.server import check_address

WORK, OTHER = Path(sys.argv[1]), Path(sys.argv[2])
LIBRARY = NATIVE / "splat_cpu.dll"


def error_of(act: Callable[[], object], kind: type[Exception] | tuple[type[Exception], ...] = Exception) -> str:
    """What an act says as it fails; empty if it does not."""
    try:
        act()
    except kind as error:
        return f"{type(error).__name__}: {error}"
    return ""


def loader() -> dict[str, Any]:
    """What the installed package says of itself."""
    info = splat.build_info()
    return {name: info[name] for name in ("verdict", "damage", "loaded", "host")} | described()


def exchanges() -> dict[str, str]:
    """Ways to put another library in the place of one that is loaded."""
    other = Path(shutil.copyfile(LIBRARY, LIBRARY.with_name("other.dll")))
    found = {
        "write": error_of(lambda: LIBRARY.open("r+b"), OSError),
        "remove": error_of(LIBRARY.unlink, OSError),
        "rename": error_of(lambda: LIBRARY.rename(LIBRARY.with_name("aside.dll")), OSError),
        "replace": error_of(lambda: other.replace(LIBRARY), OSError),
    }
    other.unlink()
    return found


def kernels(folder: Path, **environ: str) -> str:
    """The error of kernels in a folder."""
    installed = Kernels.constructed["splat"]
    try:
        return error_of(lambda: Kernels("splat", splat.__version__, folder, environ).require("cpu"), KernelWheelError)
    finally:
        Kernels.constructed["splat"] = installed


def refusals() -> dict[str, str]:
    """What is not loaded, and why."""

    def copy(name: str, native: Path = NATIVE) -> Path:
        return Path(shutil.copytree(native, WORK / "native" / name, copy_function=shutil.copyfile))

    damaged, missing, busy = map(copy, ("damaged", "missing", "busy"))
    data = bytearray(LIBRARY.read_bytes())
    data[len(data) // 2] ^= 1
    (damaged / LIBRARY.name).write_bytes(data)
    (missing / LIBRARY.name).unlink()
    with (busy / LIBRARY.name).open("r+b"):
        in_use = kernels(busy)
    return {
        "damaged": kernels(damaged),
        "missing": kernels(missing),
        "busy": in_use,
        "foreign": kernels(copy("foreign", OTHER / "splat" / "_native")),
        "always": kernels(NATIVE, SPLAT_JIT="always"),
    }


def caught_errors() -> dict[str, Any]:
    """An operator fails a thousand times, and works a thousand times with an argument that is optional."""
    directions, mask = numbers(1, 1, 4, 3), torch.tensor([[True, False, True, True]])

    def harmonics(degree: int) -> Any:
        return torch.ops.splat.spherical_harmonics(degree, directions, numbers(2, 1, 4, 16, 3), mask)

    failed = [error_of(lambda: harmonics(9), RuntimeError) for _ in range(1000)]
    sums = {float(harmonics(3).sum()) for _ in range(1000)}
    return {"said": sorted({each.splitlines()[0] for each in failed}), "sums": len(sums)}


def command(*words: object) -> tuple[int, str]:
    """The status of a command, and what it prints on a redirected standard output."""
    printed = io.TextIOWrapper(io.BytesIO(), "cp1252", write_through=True)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()) as said:
        status = cli.main([str(word) for word in words])
    output = printed.detach()
    assert isinstance(output, io.BytesIO)
    return status, output.getvalue().decode("cp1252") + said.getvalue()


def commands() -> dict[str, Any]:
    """Each command, in a folder whose name no code page of the West has."""
    folder = WORK / "Ж ü"
    folder.mkdir()
    found: dict[str, Any] = {"render": command("render", "-o", folder / "knot.png", "--size", "64x48")}
    found["fit"] = command("fit", folder / "knot.png", "-o", folder / "scene.ply", "--steps", 20, "--gaussians", 50)
    for ending in (".spz", ".splat", ".sog", ".compressed.ply"):
        found[ending] = command("convert", folder / "scene.ply", folder / f"scene{ending}")
    found["info"] = command("info", folder / "scene.ply")
    found["json"] = command("info", "--json", folder / "scene.sog")
    found["export"] = command("export", folder / "scene.ply", "-o", folder / "scene.html")
    found["again"] = command("render", folder / "scene.ply", "-o", str(folder / "fit.png"), "--size", "64x48")
    found["frames"] = command(
        "render", "--path", "orbit", "--seconds", 1, "--fps", 2, "--size", "16x12", "-o", f"{folder}\\frames\\"
    )
    found["doctor"] = command("doctor")
    found["cache"] = command("cache", "list")
    found["files"] = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    return found


def photograph_folder() -> dict[str, Any]:
    """A fit to photographs whose files have the line ends of Windows."""
    folder = photographs.colmap_folder(WORK / "photographs", binary=False)
    for path in folder.rglob("*.txt"):
        path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
    out = WORK / "photographs.ply"
    return {"fit": command("fit", folder, "-o", out, "--steps", 5, "--gaussians", 300, "--hold-out", 5)}


def locks() -> dict[str, Any]:
    """Two commands that write the same files; and the lock's file is gone afterwards."""
    path = WORK / "locked"
    with locked(path):
        second = error_of(lambda: locked(path).__enter__(), OSError)
    with locked(path):
        pass
    return {"second": second, "process": os.getpid(), "left": [each.name for each in WORK.glob(".locked*")]}


def names() -> dict[str, str]:
    """Names in files of others that lead to a drive, or to another machine."""
    folder = WORK / "named"
    folder.mkdir()
    bad = ("C:a.png", "C:\\a.png", "D:\\a.png", "\\a.png", "/a.png", "\\\\machine\\share\\a.png", "..\\a.png")
    found = {}
    for name in bad:
        found[f"file {name}"] = error_of(lambda name=name: CaptureFolder(folder).file(name, "it"), SceneError)
        found[f"chunk {name}"] = error_of(lambda name=name: _chunk(folder, name), SceneError)
        found[f"picture {name}"] = "none" if find_picture(folder, name) is None else ""
    return found


def viewer() -> dict[str, Any]:
    """A port that is in use is refused; and the page of `splat view` is served."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        used = error_of(lambda: check_address("127.0.0.1", port))
    thread = threading.Thread(target=command, args=("view", "--port", str(port)), daemon=True)
    thread.start()
    page = b""
    end = time.monotonic() + 100
    while not page and thread.is_alive() and time.monotonic() < end:
        with contextlib.suppress(OSError):
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20).read()
        time.sleep(0.5)
    return {"used": used, "page": page[:200].decode("utf-8", "replace")}


def draw() -> Any:
    """Digests with each instruction set."""
    return drawn_with(["baseline", "avx2", "avx512"])


def cuda() -> dict[str, Any]:
    """The operators with kernels for CUDA, once their library is loaded beside a stand-in for torch's."""
    libraries = [*NATIVE.glob("splat_cuda*.dll")]
    if not libraries:
        return {}
    ctypes.CDLL(str(WORK / "torch_cuda.dll"))
    for library in libraries:
        torch.ops.load_library(str(library))
    found = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    return {"registered": sorted(name for name in found if name.startswith("splat::"))}


CHECKS: tuple[Callable[[], Any], ...] = (
    loader, exchanges, refusals, caught_errors, draw, commands, photograph_folder, locks, names, viewer, cuda,
)  # fmt: skip


def main() -> None:
    """Try all of it."""
    found: dict[str, Any] = {}
    output = sys.stdout
    for check in [each for each in CHECKS if each.__name__ in sys.argv[3:] or not sys.argv[3:]]:
        began = time.monotonic()
        try:
            found[check.__name__] = check()
        except BaseException:
            found[check.__name__] = {"failed": traceback.format_exc()}
        print(f"{check.__name__}: {time.monotonic() - began:.1f} s", file=sys.stderr)
    print(json.dumps(found), file=output, flush=True)
    os._exit(0)  # a thread serves the page


if __name__ == "__main__":
    main()
