"""The exception hierarchy: each error states what was required, what was found, and how to fix it."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any

# It does not name the package: on a package index, that name may belong to another one.
REINSTALL = "reinstall the package from where it came: pip install --force-reinstall --no-deps <wheel file or checkout>"
# Nor is kernelwheel, except by a release, which is on an index under our names: `ci/wheels` writes this into it.
PUBLISHED = False
COMPILERS = ">=0.1,<0.2"  # of kernelwheel's releases, those whose minor number is the contract's (compiler_process.py)
_BY_FILE = "pip install '<file of kernelwheel's wheel>[jit]'; by its name, an index may have somebody else's"
INSTALL_COMPILER = f"pip install 'kernelwheel[jit]{COMPILERS}'" if PUBLISHED else _BY_FILE
TEXT = "\n\t"  # kept in what is meant to have lines
# errno values if this process, or the whole machine, has too many open files.
TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)
SHARING_VIOLATION = 32  # ERROR_SHARING_VIOLATION, winerror.h


def command(package: str, arguments: str = "") -> str:
    """A command of a package's own copy of the loader, for remedies; what `kernelwheel.load` makes has none."""
    if package.startswith("kernelwheel."):
        return f"python -m kernelwheel {arguments} {package}"
    return f"python -m {package}._kernelwheel {arguments}".rstrip()


class KernelWheelError(Exception):
    """Base of all errors of this package.

    Args:
        problem: one line that says what failed.
        required: what was needed.
        found: what was found instead; several lines if several places were searched.
        remedies: ways to fix it, each a sentence with the command or setting that does it.
    """

    def __init__(self, problem: str, required: str, found: str, remedies: Sequence[str]) -> None:
        super().__init__(problem, required, found, tuple(remedies))  # by which it is pickled (multiprocessing)
        self.problem = problem
        self.required = required
        self.found = found
        self.remedies = tuple(remedies)

    def __str__(self) -> str:
        """The whole message, one line per part; the further lines of a part are indented."""
        parts = [printable(self.problem), _labelled("required", self.required), _labelled("found", self.found)]
        parts += [_labelled("to fix", remedy) for remedy in self.remedies]
        return "\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The kind of error and its parts as plain JSON values."""
        parts = {"problem": self.problem, "required": self.required, "found": self.found}
        return {"kind": type(self).__name__, **parts, "remedies": list(self.remedies)}


class BuildError(KernelWheelError, RuntimeError):
    """Kernels cannot be compiled: bad settings, no suitable toolchain, or a compiler error.

    torch raises a RuntimeError where an extension does not compile.
    """


class SettingsError(BuildError):
    """An option is unknown, malformed or contradicts another one."""


class IncompatibleArtifactError(KernelWheelError):
    """Compiled kernels are missing, damaged or unfit for this machine, and must not be loaded."""


class UnreadableArtifactError(IncompatibleArtifactError):
    """Compiled kernels exist but cannot be used right now; they may be intact."""


class OtherSchemaError(IncompatibleArtifactError):
    """Compiled kernels exist, but another version of this package wrote their manifest."""


class LeftOutError(IncompatibleArtifactError, ImportError):
    """An extension that only builds with CUDA have is not there; packages do without by catching an ImportError."""


class StoreError(KernelWheelError):
    """The Store cannot be used: unsafe, unreadable, unwritable, or full."""


class UnreadableStoreError(StoreError):
    """The Store, or an entry, cannot be read right now; it may be intact."""


def from_json(values: Mapping[str, Any]) -> KernelWheelError:
    """The error that `to_json` described, in another process."""
    kinds = (BuildError, SettingsError, IncompatibleArtifactError, UnreadableArtifactError, OtherSchemaError)
    kind = {each.__name__: each for each in (*kinds, StoreError, UnreadableStoreError)}[values["kind"]]
    return kind(values["problem"], required=values["required"], found=values["found"], remedies=values["remedies"])


def printable(text: str, kept: str = "") -> str:
    r"""The text on one line, with what does not print escaped: `\x1b`, `\n`, `\u202e`.

    That is what a terminal would obey (control characters), or reorder the line by (those for right to left).
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else ascii(each)[1:-1] for each in text)


def way_out(refusal: OSError) -> str:
    """The remedy for an error on opening or reading a file."""
    if refusal.errno in TOO_MANY_OPEN:
        return "close files, or raise the limit on open files (ulimit -n), and try again"
    if getattr(refusal, "winerror", None) == SHARING_VIOLATION:
        return "close the program that has it open for writing, and try again"
    if isinstance(refusal, PermissionError):
        return "give this user permission to read it"
    return "try again; if it fails again, check the disk or the network filesystem"


def _labelled(label: str, text: str) -> str:
    first, *rest = printable(text, TEXT).splitlines() or [""]
    return "\n".join([f"  {label + ':':<10} {first}", *(f"  {'':<10} {line}" for line in rest)])
