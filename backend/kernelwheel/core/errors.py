"""The one family of exceptions: each says what was required, what was found, and what fixes it."""

from __future__ import annotations

import errno
from collections.abc import Sequence

# Without a name: on a package index, the name may be that of another package.
REINSTALL = (
    "install the package again from where it came: pip install --force-reinstall --no-deps <wheel file or checkout>"
)
# What the system answers where this process, or the machine, has too many open files.
TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)


class KernelWheelError(Exception):
    """Base of all errors of this package.

    Args:
        problem: one line that says what cannot be done.
        required: what was needed for it.
        found: what was there instead; several lines list every place that was looked at.
        remedies: the ways out, each a sentence with the command or setting that does it.
    """

    def __init__(self, problem: str, *, required: str, found: str, remedies: Sequence[str]) -> None:
        super().__init__(problem, required, found, tuple(remedies))
        self.problem = problem
        self.required = required
        self.found = found
        self.remedies = tuple(remedies)

    def __str__(self) -> str:
        """The whole message, one part a line, longer parts indented below their name."""
        parts = [self.problem, _labelled("required", self.required), _labelled("found", self.found)]
        parts += [_labelled("to fix", remedy) for remedy in self.remedies]
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the named parts, so that the error crosses process boundaries (multiprocessing)."""
        return _rebuild, (type(self), self.problem, self.required, self.found, self.remedies)


class BuildError(KernelWheelError):
    """Kernels cannot be compiled: bad settings, no fitting toolchain, or a compiler that failed."""


class SettingsError(BuildError):
    """An option is unknown, malformed or in contradiction with another."""


class IncompatibleArtifactError(KernelWheelError):
    """Compiled kernels are there, or should be, and may not be loaded on this machine."""


class UnreadableArtifactError(IncompatibleArtifactError):
    """Compiled kernels are there and cannot be read now; they may be whole."""


class OtherSchemaError(IncompatibleArtifactError):
    """Compiled kernels are there whose manifest another version of this package wrote."""


class StoreError(KernelWheelError):
    """The Store cannot be used: unsafe, unreadable, unwritable, or full."""


class UnreadableStoreError(StoreError):
    """The Store, or an entry, cannot be read now; it may be whole."""


def way_out(refusal: OSError) -> str:
    """What helps where the system refuses to open or to read a file, as a remedy."""
    if refusal.errno in TOO_MANY_OPEN:
        return "close files, or allow more of them to be open (ulimit -n), and try again"
    if isinstance(refusal, PermissionError):
        return "let this user read it"
    return "try again; if it fails again, check the disk or the network filesystem"


def _labelled(label: str, text: str) -> str:
    first, *rest = text.splitlines() or [""]
    return "\n".join([f"  {label + ':':<10} {first}", *(f"  {'':<10} {line}" for line in rest)])


def _rebuild(
    kind: type[KernelWheelError], problem: str, required: str, found: str, remedies: Sequence[str]
) -> KernelWheelError:
    return kind(problem, required=required, found=found, remedies=remedies)
