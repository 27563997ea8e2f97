"""Asking the compiler, which is a program of its own: a compile that crashes is an error here, and no more than that.

It is a part of kernelwheel, which is installed where kernels are compiled. It runs with the same Python, its options
and its folders of modules. These come in the message: in PYTHONPATH, a folder with a colon would be two, and a CMake of
another Python would get modules of this one. So it runs as a file, from where this Python finds kernelwheel. It is in a
session of its own, and ends when this process does.

What it is asked and what it answers, each one line of JSON (compiler/worker.py), is with the manifest the contract
between loader and compiler. Its number rises when a request's meaning changes: a compiler serves all earlier numbers,
with manifests that the loader of that number reads, and refuses later ones. It is the minor number of kernelwheel's
releases, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import errors
from .artifact.content import Content
from .errors import INSTALL_COMPILER, BuildError
from .record import Record
from .settings import Settings

CONTRACT = 1
MOST_LINES = 20  # of what it says as it crashes


class CompileRequest(Record):
    """A request for an Artifact."""

    # what to compile, and how, with the options for CUDA. The Artifact's is equal to it; if it has no CUDA kernels,
    # then without these.
    content: Content
    sources: Path  # the folder with CMakeLists.txt, or with the files of the extensions
    settings: Settings  # the effective options, in which `cuda` and `archs` say what this request is for
    # those of the package's own table, for the options that only the compiler knows; None if `settings` has all of
    # them, as for a wheel
    options: Mapping[str, Any] | None
    # the CUDA version that the driver of this machine supports, if the kernels must run here
    driver: tuple[int, int] | None = None
    # the folder of the wheel's own Artifact, if its CPU libraries are taken where they are the same
    wheel: Path | None = None
    cpu_kernels: bool = True  # whether the libraries for the CPU are wanted too, where there are some for CUDA
    # the descriptor of the store's lock, which the asking process holds; None: the compiler takes it
    lock: int | None = None
    scratch: Path | None = None  # the folder for an Artifact that cannot be stored; None: then there is none

    def to_json(self) -> dict[str, Any]:
        """The request as plain JSON values."""
        values = {name: str(each) if isinstance(each, Path) else each for name, each in self._asdict().items()}
        return {"contract": CONTRACT, **values, "settings": self.settings.to_json()}


def ask(request: CompileRequest, say: Callable[[str], None], environ: Mapping[str, str]) -> dict[str, Any]:
    """Have an Artifact compiled, unless a store has it: its `folder`, and whether it was `compiled` just now.

    What else there is, for a build, says compiler/build_or_reuse.py.
    """
    inherited = () if request.lock is None else (request.lock,)
    return dict(send({"make": request.to_json()}, say, environ, inherited))


def describe(package: str, version: str, project: Path) -> dict[str, Any] | None:
    """What the checkout of an editable install declares: `content`, the `folder` of its sources, and `options`.

    None if it is not the package's.
    """
    found = send({"describe": {"package": package, "version": version, "project": str(project)}}, lambda line: None, {})
    return dict(found) if found else None


def send(
    message: Mapping[str, Any], say: Callable[[str], None], environ: Mapping[str, str], inherited: tuple[int, ...] = ()
) -> Any:
    """Start the compiler, send it a message (see compiler/worker.py) and return its answer."""
    crash: deque[str] = deque(maxlen=MOST_LINES)
    with _start(environ, inherited) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            folders = [folder for folder in sys.path if folder and isinstance(folder, str)]
            process.stdin.write(json.dumps({"path": folders, **message}).encode("ascii") + b"\n")
            process.stdin.flush()
        except BrokenPipeError:  # it has ended already, and said why
            with suppress(BrokenPipeError):
                process.stdin.close()
        for line in process.stdout:
            reply = _reply(line)
            if "say" in reply:
                say(reply["say"])
            elif "answer" in reply:
                return reply["answer"]
            elif "error" in reply:
                raise errors.from_json(reply["error"])
            else:
                crash.append(line.decode("utf-8", "replace").rstrip())
    raise _no_answer(process.returncode, crash)


def program() -> Path:
    """The compiler's file. Raises a BuildError if this program cannot run it."""
    if getattr(sys, "frozen", False):  # as PyInstaller and its kind set it: `sys.executable` would run it a second time
        raise BuildError(
            "kernels cannot be compiled here: this program is frozen",
            required="a Python that runs the compiler, in sys.executable",
            found=f"{sys.executable}, the program itself",
            remedies=["freeze it with a wheel that was built for this machine"],
        )
    folder = kernelwheel()
    if folder is None:
        raise BuildError(
            "kernels cannot be compiled here: the compiler is not installed",
            required="kernelwheel, which compiles kernels",
            found=f"no kernelwheel in {sys.prefix}",
            remedies=[INSTALL_COMPILER, "or install a wheel that was built for this machine"],
        )
    return folder / "compiler" / "__main__.py"


def kernelwheel() -> Path | None:
    """The folder of the kernelwheel that this Python would import, if there is one; it is not imported here."""
    from importlib.util import find_spec

    beside = Path(__file__).parents[1]
    if (beside / "compiler" / "__main__.py").is_file():  # kernelwheel's own loader, as in an editable install with it
        return beside
    spec = find_spec("kernelwheel")
    return Path(spec.origin).parent if spec and spec.origin else None


def _start(environ: Mapping[str, str], inherited: tuple[int, ...]) -> subprocess.Popen[bytes]:
    file = program()
    try:
        return subprocess.Popen(
            [sys.executable or "", *_options(), "-u", str(file), str(os.getpid())],
            # Under C, Python 3.11 fails on .pth files of an environment in a folder such as "Müller".
            env={**os.environ, **environ, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=inherited,
            start_new_session=True,
        )
    except OSError as error:
        raise BuildError(
            "the compiler of the kernels cannot be started",
            required="a Python that this user may run, in sys.executable",
            found=f"{sys.executable or 'an empty sys.executable'}: {error.strerror}",
            remedies=["run the program with a Python of this user's, or let this user run that one"],
        ) from error


def _options() -> list[str]:
    """The options of this Python that say whose code it runs as it starts (Python's manual, "Command line")."""
    flags = sys.flags
    if flags.isolated:
        return ["-I"]
    given = {"-E": flags.ignore_environment, "-s": flags.no_user_site, "-S": flags.no_site}
    given["-P"] = getattr(flags, "safe_path", False)  # since Python 3.11
    return [option for option, said in given.items() if said]


def _reply(line: bytes) -> dict[str, Any]:
    """What a line of the compiler's says; empty if it is none of its messages."""
    try:
        reply = json.loads(line)
    except ValueError:
        return {}
    return reply if isinstance(reply, dict) else {}


def _no_answer(status: int, said: Sequence[str]) -> BuildError:
    ended = f"signal {-status}" if status < 0 else f"exit status {status}"
    return BuildError(
        "the compiler of the kernels ended without an answer",
        required="an Artifact, or an error",
        found="\n".join([ended, *said]),
        remedies=["try again; if it was killed (signal 9), give it more memory, or set MAX_JOBS=1"],
    )
