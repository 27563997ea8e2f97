"""Runs of a setup.py in child processes, and what they gave to setup()."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..project.build_platforms import HOST_PLATFORM
from ..runtime.errors import KernelWheelError

_CHILD = Path(__file__).with_name("setup_child.py")
_QUOTED_LINES = 12


@dataclass(frozen=True)
class RecordedExtension:
    """One of the ext_modules of a setup.py."""

    name: str  # its import name
    made_by: str  # `CUDAExtension` or `CppExtension`, torch's functions; otherwise the name of its class
    fields: Mapping[str, Any]  # the attributes of setuptools' Extension, by their names

    def listed(self, field: str) -> list[Any]:
        """A field that is a list, without None in it; empty without one."""
        return [item for item in self.fields.get(field) or () if item is not None]

    def flags_by_compiler(self) -> dict[str, list[str]]:
        """The flags of each compiler; those for all of them are under an empty name."""
        given = self.fields.get("extra_compile_args") or []
        flags = given if isinstance(given, dict) else {"": given}
        return {name: [flag for flag in each or [] if isinstance(flag, str)] for name, each in flags.items()}


@dataclass(frozen=True)
class SetupRun:
    """What a setup.py gave to setup() in one run; setup_child.py prints these fields."""

    extensions: Sequence[RecordedExtension]  # its ext_modules
    commands: Mapping[str, str | None]  # its cmdclass: for each command the name of its class, None if that is torch's
    arguments: Mapping[str, Any]  # all other arguments
    name: str | None  # the distribution's, also if setup.cfg or pyproject.toml has it
    packages: list[str] | None  # likewise; None if they are not listed
    lists_modules: bool  # whether packages or single modules are listed, so that setuptools does not look for them
    calls: int  # how often setup() was called; the other fields are of the first call
    cuda: str | None  # the torch.version.cuda that it was told
    asked_capability: bool  # whether it asked for the compute capability of the GPU that it was told of
    known_folders: Sequence[str]  # of torch and of the toolkit; what lies in them, a build finds by itself
    searched_folders: Sequence[str]  # of headers, Python's and the compiler's, that a build searches anyway
    archs_set: str = ""  # what it put into the environment as TORCH_CUDA_ARCH_LIST


def run_setup_script(
    project: Path, environ: Mapping[str, str], source: bytes, *, cuda: bool, importable: bool = True
) -> SetupRun:
    """Run a text as the setup.py of a project, where that is.

    It is told that there are a CUDA toolkit and a GPU, or neither; if `importable`, it can import the project's
    modules, as setuptools' older backend lets it.

    Raises:
        KernelWheelError: it does not get as far as setup().
    """
    options = [name for name, on in {"cuda": cuda, "importable": importable}.items() if on]
    words = [sys.executable, str(_CHILD), str(project), *options]
    done = subprocess.run(words, input=source, env=environ, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        raise failure(f"its process ended with status {done.returncode}", done.stderr)
    said = json.loads(done.stdout)
    if said["failure"]:
        raise failure(said["failure"], done.stderr)
    run = said["run"]
    run["extensions"] = [RecordedExtension(**extension) for extension in run["extensions"]]
    run["searched_folders"] += HOST_PLATFORM.headers
    return SetupRun(**run)


def failure(found: str, output: bytes) -> KernelWheelError:
    """The error for a setup.py that did not get as far as setup()."""
    remedies = ["let it get there, as `python setup.py --name` does; install torch and what else it imports"]
    if "pkg_resources" in found:
        remedies = [
            "in setup.py, use packaging or importlib.metadata: setuptools has no pkg_resources since release 82"
        ]
    lines = [line for line in output.decode("utf-8", errors="replace").splitlines() if line.strip()]
    return KernelWheelError(
        "setup.py cannot be read: it did not get as far as setup()",
        required="a setup.py that calls setup() where torch says that there are CUDA and a GPU",
        found="\n".join([found, *lines[-_QUOTED_LINES:]]),
        remedies=remedies,
    )
