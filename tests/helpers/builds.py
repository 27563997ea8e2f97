"""Real builds of the packages of tests/packages, and what can be read out of their wheels.

Most are made by the hook that every front end calls in the end: pip's own way there, three processes more, takes longer
than many a compile here (test_front_ends.py has each front end's).
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from kernelwheel.compiler.toolchain.torch_files import find_torch
from processes import Done, run

TORCH = find_torch()
NATIVE = "tiny/_native"
TWO_ARCHS = "8.0;9.0+PTX"  # of the wheel that many tests look at, where torch has CUDA
HOOK = """
import json, sys
sys.path[0] = "backend"  # backend-path, in those that have one
from kernelwheel import hooks
hooks.build_wheel(sys.argv[1], json.loads(sys.argv[2]))
"""

# For a test that is about torch's build: it runs wherever there is such a torch, and conftest.py skips it elsewhere.
needs_cuda_torch = pytest.mark.needs_torch("cuda")
needs_cpu_torch = pytest.mark.needs_torch("cpu")


def for_another_platform(folder: str, otherwise: str) -> list[pytest.MarkDecorator]:
    """The marks of tests that build a wheel for another platform and run it in the folder that ci/test made, if any."""
    return [
        pytest.mark.every_program,
        pytest.mark.slow,
        pytest.mark.minutes,
        pytest.mark.skipif(not folder, reason=otherwise),
        pytest.mark.skipif(platform.machine() != "x86_64", reason="this is about builds on x86-64"),
        needs_cuda_torch,  # of the release that is for the other platform, and with both libraries
    ]


@dataclass(frozen=True)
class Wheel:
    """A built wheel: its file, what pip said, and what was unpacked from it."""

    file: Path
    output: str
    unpacked: Path

    @property
    def native(self) -> Path:
        (folder,) = self.unpacked.glob("*/_native")
        return folder

    @property
    def manifest(self) -> dict[str, Any]:
        values: dict[str, Any] = json.loads((self.native / "manifest.json").read_text())
        return values

    @property
    def libraries(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.native.glob("*.so"))}


def pip_wheel(checkout: Path, folder: Path, *, config: Mapping[str, str] | None = None, **options: Any) -> Done:
    """`pip wheel` of a checkout into `folder`."""
    words = ["-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir", "-v"]
    settings = [word for key, value in (config or {}).items() for word in ("-C", f"{key}={value}")]
    return _run([*words, *settings, "-w", folder, checkout], folder, folder.parent, **options)


def call_hook(checkout: Path, folder: Path, *, config: Mapping[str, str] | None = None, **options: Any) -> Done:
    """The same by the hook `build_wheel` alone (PEP 517): in a process of its own, in the checkout's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return _run(["-c", HOOK, folder.resolve(), json.dumps(dict(config or {}))], folder, checkout, **options)


def _run(
    words: Sequence[str | Path],
    folder: Path,
    cwd: Path,
    *,
    env: Mapping[str, str | None] | None = None,
    prefix: Sequence[str] = (),
    python: str | Path = sys.executable,
    kept: bool = False,
    limit: float = 600,
) -> Done:
    """`python WORDS`, a build into `folder`, in this environment or `python`'s; `prefix` goes before the command.

    Without `kept`, everything is compiled: the cache is another one for each folder.
    """
    folder.parent.mkdir(exist_ok=True)
    own = {} if kept else {"XDG_CACHE_HOME": str(cache_of(folder))}
    environment = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "TMPDIR": str(folder.parent), **own, **(env or {})}
    return run([*prefix, python, *words], cwd=cwd, env=environment, check=False, limit=limit)


def cache_of(folder: Path) -> Path:
    """The cache folder of a build into `folder` that is not `kept`, as XDG_CACHE_HOME."""
    return folder.with_name(f"{folder.name}-cache")


def remove_work(builds: Path) -> None:
    """Remove the folders that compiles left, all in one folder."""
    for work in builds.glob("kernelwheel-*/"):
        shutil.rmtree(work)


def build(checkout: Path, folder: Path, *, how: Callable[..., Done] = call_hook, **options: Any) -> Wheel:
    """A wheel of a checkout, unpacked; the build must succeed."""
    done = how(checkout, folder, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("*.whl")
    with ZipFile(file) as archive:
        archive.extractall(folder / "unpacked")
    return Wheel(file, done.stdout + done.stderr, folder / "unpacked")


def refused_build(checkout: Path, folder: Path, **options: Any) -> str:
    """What a build says that must fail, and fail with an error of the backend."""
    done = call_hook(checkout, folder, **options)
    assert done.returncode != 0, f"the build succeeded:\n{done.stdout}"
    assert list(folder.glob("*.whl")) == []
    assert "kernelwheel.runtime.errors." in done.stdout + done.stderr
    return done.stdout + done.stderr


def uv(*words: str | Path) -> list[str | Path]:
    """A command of uv's for this Python."""
    program = shutil.which("uv", path=os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])))
    if program is None:
        pytest.skip("there is no uv here: pip install uv")
    return [program, *words, "--python", sys.executable]


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below a folder, by relative path, None for folders; not what Python keeps of imports."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }


def cuobjdump() -> str:
    """NVIDIA's reader of device code: ci/test's, on PATH, in a toolkit, or inside triton."""
    site = TORCH.root.parent
    places = [
        os.environ.get("SPLAT_TEST_CUOBJDUMP"),
        shutil.which("cuobjdump"),
        *site.glob("nvidia/cu*/bin/cuobjdump"),
        *site.glob("triton/backends/nvidia/bin/cuobjdump"),
    ]
    return str(next(place for place in places if place))


def device_code(library: Path, *options: str) -> str:
    """What cuobjdump prints of a library, such as with `--list-elf` or `--list-ptx`."""
    return subprocess.run([cuobjdump(), *options, library], capture_output=True, text=True, check=False).stdout
