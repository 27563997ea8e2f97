"""The package tiny, imported from a checkout, so that its kernels are compiled at first use: by real compilers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import warm_python
from builds import TORCH
from folders import BACKEND, PACKAGES
from kernelwheel.compiler.toolchain.cuda import decide_cuda
from kernelwheel.compiler.toolchain.cxx import find_cxx
from kernelwheel.compiler.toolchain.nvcc import NvccSearch
from kernelwheel.runtime.store.store import Store
from processes import Done
from standins import settings_with

# Two source files that compile in no time and register no operators, so that any process can load them many times.
SMALL = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.24)
project(tiny LANGUAGES CXX)
include(KernelWheel)
kernelwheel_add_op_library(tiny_cpu SOURCES one.cpp two.cpp)
""",
    "one.cpp": '#include "one.h"\nextern "C" int tiny_one() { return ONE; }\n',
    "one.h": "#define ONE 1\n",
    "two.cpp": 'extern "C" int tiny_two() { return 2; }\n',
}
REQUIRE = 'import tiny; tiny.KERNELS.require("cpu"); print(tiny.KERNELS.info()["loaded"]["cpu"])'


def one_gpu(major: int, minor: int) -> str:
    """The beginning of a script: as if there were a GPU, for which kernels are compiled and loaded; none runs."""
    return f"""
import torch
torch.cuda.get_device_capability = lambda index=None: {(major, minor)}
import tiny
from tiny._kernelwheel.machine import host
host.with_gpus = lambda found: found._replace(driver=(13, 2), capabilities=({(major, minor)},))
"""


def for_each_device(*sources: str) -> str:
    """The CMakeLists.txt of a library of one.cpp for the CPU, and one of these sources for CUDA."""
    return f"""cmake_minimum_required(VERSION 3.24)
project(tiny LANGUAGES CXX)
include(KernelWheel)
kernelwheel_add_op_library(tiny_cpu SOURCES one.cpp)
if(KERNELWHEEL_CUDA)
  kernelwheel_add_op_library(tiny_cuda CUDA SOURCES {" ".join(sources)})
endif()
"""


@dataclass(frozen=True)
class Editable:
    """A checkout of tiny, and what belongs to the user who imports it.

    Attributes:
        checkout: the folder to put on sys.path.
        folder: holds the user's cache, temporary folder and compiler.
        version: of tiny.
    """

    checkout: Path
    folder: Path
    version: str = "1.2.3"

    @property
    def cache(self) -> Path:
        """The cache folder."""
        return self.folder / "cache"

    @property
    def store(self) -> Store:
        """tiny's part of it."""
        return Store(self.cache, "tiny", self.version)

    @property
    def temporary(self) -> Path:
        """The temporary folder."""
        return self.folder / "tmp"

    @property
    def builds(self) -> Path:
        """The folder of the folders that the compile works in."""
        return self.store.builds

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the user's processes."""
        return {
            "CXX": str(self.folder / "c++"),
            "TINY_CACHE_DIR": str(self.cache),
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(self.checkout),
        }

    def python(self, script: str, **env: str | None) -> Done:
        """Run a script that can import tiny, and must succeed."""
        return warm_python.run_python(script, cwd=self.folder, env={**self.environment, **env})

    def failure(self, script: str = REQUIRE, **env: str | None) -> str:
        """The error of tiny's that a script ends with."""
        done = warm_python.run_python(script, cwd=self.folder, env={**self.environment, **env}, check=False)
        assert done.returncode == 1, done.stderr
        assert "\ntiny._kernelwheel." in done.stderr
        return done.stderr.rpartition("\ntiny._kernelwheel.")[2]

    def compiled(self) -> list[str]:
        """The source files that the compiler was given, once for each time, in the order of their names."""
        calls = (self.folder / "calls").read_text().split("\n") if (self.folder / "calls").exists() else []
        inputs = (call.rpartition(" ")[2] for call in calls if " -c " in call)
        return sorted(Path(name).name for name in inputs if "/src/" in name)

    def change(self, file: str, old: str, new: str) -> None:
        """Edit a file of the checkout. Of Python, no bytecode is left: it is judged by whole seconds and the size."""
        path = self.checkout / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        for bytecode in path.parent.glob(f"__pycache__/{path.stem}.*"):
            bytecode.unlink()


@cache
def build_compiler() -> Path:
    """The C++ compiler of a build here: the machine's newest may be too new for the nvcc beside torch."""
    chosen = settings_with()
    return find_cxx(chosen, os.environ, decide_cuda(NvccSearch(chosen, TORCH, os.environ)).nvcc).path


def make_editable(folder: Path, sources: Mapping[str, str] | None = None) -> Editable:
    """A checkout of tiny below `folder`, with these sources or its own, and its user."""
    checkout = folder / "checkout"
    shutil.copytree(PACKAGES / "tiny", checkout, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (checkout / "tiny" / "_kernelwheel").symlink_to(BACKEND / "kernelwheel" / "runtime")
    if sources is not None:
        shutil.rmtree(checkout / "native")
        for name, text in sources.items():
            path = checkout / "native" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return make_user(checkout, folder)


def make_user(site: Path, folder: Path) -> Editable:
    """A user of the tiny in `site`, a checkout or an installed wheel.

    The user's compiler counts its calls, and takes very long while there is a file `slow` beside it.
    """
    (folder / "tmp").mkdir(parents=True)
    compiler = folder / "c++"
    compiler.write_text(
        '#!/bin/sh\nhere="${0%/*}"\necho "$@" >> "$here/calls"\n'
        'case "$*" in *"-c "*/src/*) test -e "$here/slow" && sleep 100;; esac\n'
        f'exec {build_compiler()} "$@"\n'
    )
    compiler.chmod(0o755)
    return Editable(site, folder)
