"""Runs of a setup.py in child processes, one for each machine that it is to believe in, and what was observed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..project.build_platforms import HOST_PLATFORM
from ..requirements import install
from ..runtime.errors import KernelWheelError
from .project_copy import copied

# What there is, as setup.py is told: a toolkit and no GPU; a GPU as well; neither.
Mode = Literal["cuda", "gpu", "cpu"]
# What setup_script.py notes with a name behind it, if it is not there.
Sought = Literal["variable", "word", "download"]
SECONDS = 120
QUOTED_LINES = 12
_DRIVER = Path(__file__).with_name("setup_script.py")


@dataclass(frozen=True)
class ObservedExtension:
    """One of the ext_modules of a setup.py.

    Attributes:
        name: its import name.
        made_by: `CUDAExtension` or `CppExtension`, torch's functions; otherwise the name of its class.
        fields: the attributes of setuptools' Extension, by their names.
        beyond: the names of arguments that setuptools' Extension does not know.
    """

    name: str
    made_by: str
    fields: Mapping[str, Any]
    beyond: Sequence[str]

    def listed(self, field: str) -> list[Any]:
        """A field that is a list, without None in it (`unset`); empty without one."""
        value = self.fields.get(field)
        return [item for item in value if item is not None] if isinstance(value, list) else []

    @property
    def unset(self) -> list[str]:
        """The fields that are lists with None in them: the project's own code found no value for this machine."""
        return [name for name, value in self.fields.items() if isinstance(value, list) and None in value]

    @property
    def compile_flags(self) -> list[str]:
        """The flags of all compilers, in one list."""
        return [flag for flags in self.flags_by_compiler().values() for flag in flags]

    def flags_by_compiler(self) -> dict[str, list[str]]:
        """The flags of each compiler; those for all of them are under an empty name."""
        given = self.fields.get("extra_compile_args") or []
        flags = given if isinstance(given, dict) else {"": given}
        return {name: [flag for flag in each or [] if isinstance(flag, str)] for name, each in flags.items()}


@dataclass(frozen=True)
class Observation:
    """What a setup.py did in one run.

    Attributes:
        arguments: what setup() was given, without ext_modules and cmdclass.
        values: what setuptools makes of that, of setup.cfg and of pyproject.toml, by the names of its attributes.
        wheel: the wheel that this describes, without what would be compiled: see `setup_distribution.contents`.
        wheel_failure: why there is none; empty if there is one.
        made: the files that setup.py made or changed, relative to the project; links with where they lead.
        extensions: its ext_modules.
        commands: its cmdclass: for each command the name of its class, None if that is torch's.
        calls: how often setup() was called; the other fields are of the first call.
        asked: what it asked about hardware, `torch.cuda.is_available`; what it tried to download; and the variables and
            words of the command line that it looked for in vain.
        assumed_cuda: the torch.version.cuda that it was told if torch itself has none.
        below: folders of torch and of the toolkit. What lies in them, a build finds by itself.
        exactly: folders of headers, Python's and the compiler's, that a build searches anyway.
    """

    arguments: Mapping[str, Any]
    values: Mapping[str, Any]
    wheel: Mapping[str, Any]
    wheel_failure: str
    made: Mapping[str, str]
    extensions: tuple[ObservedExtension, ...]
    commands: Mapping[str, str | None]
    calls: int
    asked: tuple[str, ...]
    assumed_cuda: str | None
    below: tuple[str, ...]
    exactly: tuple[str, ...]

    def made_by(self, function: str) -> dict[str, ObservedExtension]:
        """The extensions that one of torch's functions made, by name."""
        return {extension.name: extension for extension in self.extensions if extension.made_by == function}

    def looked_for(self, what: Sought) -> list[str]:
        """The variables, the words of the command line, or the downloads that setup.py looked for in vain."""
        return _looked_for(self.asked, what)


def _looked_for(asked: Sequence[str], what: Sought) -> list[str]:
    return [text.partition(": ")[2] for text in asked if text.startswith(f"{what}: ")]


@dataclass(frozen=True)
class SetupRuns:
    """A setup.py as it is where there is CUDA, and where there is not; the latter is None if it fails there.

    Attributes:
        with_cuda: the run to translate.
        without_cuda: None also if there is nothing to compare: no extension needs CUDA.
        needed_gpu: it compiles CUDA code, or gets as far as setup(), only if torch sees a GPU.
    """

    with_cuda: Observation
    without_cuda: Observation | None
    needed_gpu: bool


def run_setup_script(project: Path, environ: Mapping[str, str], words: Sequence[str] = ()) -> SetupRuns:
    """Run a project's setup.py once or more, until it is clear what it does with CUDA and without.

    Args:
        project: its folder.
        environ: the environment, of which tools and flags of this machine are left out.
        words: what is on its command line, beside the command.

    Raises:
        KernelWheelError: setup.py does not get as far as setup().
    """
    first = _observe(project, "cuda", environ, words)
    needed_gpu = False
    if _wants_gpu(first):
        second = _observe(project, "gpu", environ, words)  # if it fails, what happens without a GPU is all there is
        if isinstance(second, Observation) and (isinstance(first, Unread) or second.made_by("CUDAExtension")):
            first, needed_gpu = second, True
    if isinstance(first, Unread):
        raise first.error
    without = None
    if first.made_by("CUDAExtension"):
        found = _observe(project, "cpu", environ, words)
        without = found if isinstance(found, Observation) else None  # most do fail without CUDA: they require it
    return SetupRuns(first, without, needed_gpu)


class Unread(NamedTuple):
    """A run that did not get as far as setup(): why, and what it had asked."""

    error: KernelWheelError
    asked: Sequence[str]


def _wants_gpu(run: Observation | Unread) -> bool:
    if isinstance(run, Unread):
        return any(question.startswith("torch.cuda.") for question in run.asked)
    return not run.made_by("CUDAExtension") and "torch.cuda.is_available" in run.asked


def _observe(project: Path, mode: Mode, environ: Mapping[str, str], arguments: Sequence[str]) -> Observation | Unread:
    with tempfile.TemporaryDirectory() as scratch, copied(project) as copy:
        before = copy.state()
        words = [str(_DRIVER), str(copy.project), str(copy.original), mode, str(Path(scratch).resolve()), *arguments]
        output, found = _run_child(words, environ)
        made = copy.made(before)
    said: dict[str, Any] | None = json.loads(copy.as_original(output)) if output else None
    found = copy.as_original(found)
    if said is None or not said["calls"]:
        asked = [] if said is None else said["asked"]
        found = found if said is None else f"{said['failure']}\n{_last_lines(found)}".strip()
        return Unread(_failure(found, asked), asked)
    call = said["calls"][0]
    return Observation(
        arguments=call["arguments"],
        values={
            name: _dotted(name, value) for name, value in (call["described"]["values"] or call["arguments"]).items()
        },
        wheel=call["described"]["wheel"],
        wheel_failure=call["described"]["failure"] or "",
        made=made,
        extensions=tuple(
            ObservedExtension(fields.pop("name"), fields.pop("made_by"), fields, fields.pop("beyond"))
            for fields in call["extensions"]
        ),
        commands=call["commands"],
        calls=len(said["calls"]),
        asked=tuple(said["asked"]),
        assumed_cuda=said["assumed_cuda"],
        below=tuple(said["below"]),
        exactly=(*said["exactly"], *HOST_PLATFORM.headers),
    )


def _dotted(name: str, value: Any) -> Any:
    """An argument about packages with their names as pyproject.toml takes them; setup() took `a/b` for `a.b`."""
    if name in ("packages", "namespace_packages"):
        return [package.strip("/").replace("/", ".") for package in value or ()]
    if name in ("package_dir", "package_data", "exclude_package_data"):
        return {package.strip("/").replace("/", "."): each for package, each in (value or {}).items()}
    return value


def _run_child(arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[str, str]:
    """What the child says, empty if it ended before it could, and its other output or why it ended."""
    child = subprocess.Popen(
        [sys.executable, *arguments],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, output = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        _end(child)
        return "", f"it was still running after {SECONDS} seconds\n{_last_lines(child.communicate()[1])}"
    finally:
        _end(child)
    if child.returncode or not said:
        return "", f"its process ended with status {child.returncode}\n{_last_lines(output)}"
    return said, output


def _end(child: subprocess.Popen[str]) -> None:
    """Kill what is left of a child's session: also what setup.py started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def _last_lines(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return "\n".join(lines[-QUOTED_LINES:])


def _failure(found: str, asked: Sequence[str]) -> KernelWheelError:
    downloads = _looked_for(asked, "download")
    remedies = ["let setup.py get as far as setup(); `python setup.py --name` shows the same error in most cases"]
    if any(what.startswith("torch.cuda.get_") for what in asked):
        found += "\nit had asked for the GPU, and was told that there is none"
        remedies.insert(0, "if it then leaves the GPU alone, set TORCH_CUDA_ARCH_LIST=9.0 and run adopt again")
    if variables := _looked_for(asked, "variable"):
        found += f"\nit had looked for variables that are not set: {', '.join(variables)}"
    if downloads:
        found += f"\nit had tried to download from {', '.join(downloads)}"
        remedies = ["download by hand what setup.py needs, to the place where it looks for it, and run adopt again"]
    if "No module named 'pkg_resources'" in found:  # setuptools has had none since 82
        remedies = [f"{install(['setuptools<82'])}, which has pkg_resources, and run adopt again"]
    return KernelWheelError(
        "setup.py cannot be read: it did not get as far as setup()",
        required="a setup.py that calls setup(), also without a GPU and without a download",
        found=found,
        remedies=remedies,
    )
