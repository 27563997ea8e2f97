"""The arguments of a call of `load` or `load_inline` that say what to do with its sources, and the errors for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ..flags.words import with_files
from ..runtime.errors import SettingsError
from ..runtime.machine.files import is_file
from ..runtime.record import Record

Abi = Literal["torch", "stable"]
Strings = str | Sequence[str] | None
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None


class LoadArguments(Record):
    """What to do with the sources; the names and meanings are torch.utils.cpp_extension's."""

    name: str
    extra_cflags: Strings
    extra_cuda_cflags: Strings
    extra_ldflags: Strings
    extra_include_paths: Paths
    build_directory: str | None
    verbose: bool
    with_cuda: bool | None
    is_python_module: bool
    abi: Abi
    unique_namespace: bool
    only_compile: bool

    def refuse_unfit(self, is_standalone: bool, sycl: bool) -> None:
        """Raise a SettingsError for what is wrong by itself, and for what only torch's functions do."""
        if is_standalone:
            remedy = "build it with CMake and torch's TorchConfig.cmake"
            raise self.refusal("is_standalone", "a library, which a Python process loads", "an executable", remedy)
        if sycl:
            remedy = "use torch.utils.cpp_extension for SYCL"
            raise self.refusal("SYCL", "sources for the CPU and for CUDA", "sources or options for SYCL", remedy)
        name: Any = self.name
        if not (isinstance(name, str) and name.isidentifier() and name.isascii() and len(name) < 80):
            raise self.refusal("name", "an identifier, of less than 80 letters, digits and _", repr(name))
        if self.abi not in ("torch", "stable"):
            raise self.refusal("abi", "torch or stable", repr(self.abi))
        self.paths("build_directory", self.build_directory)
        self.paths("extra_include_paths", self.extra_include_paths)

    @property
    def wants_module(self) -> bool:
        """Whether what it returns is a module."""
        return self.is_python_module and self.abi == "torch"

    def refusal(self, argument: str, required: str, found: str, remedy: str = "") -> SettingsError:
        """The error for an argument."""
        problem, remedies = f"{self.name} cannot be compiled: {argument}", [remedy or f"correct {argument}"]
        return SettingsError(problem, required=required, found=found, remedies=remedies)

    def words(self, argument: str, given: Strings) -> list[str]:
        """The options in an argument, each of which is what a shell would split, and those in files that they name."""
        if not given:
            return []
        from shlex import split  # imported only if needed, to keep a warm start fast

        def read(name: str) -> list[str] | None:
            file = Path(absolute(name))
            return split(file.read_text(encoding="utf-8")) if is_file(file) else None

        try:
            return list(with_files([word for flag in self.texts(argument, given) for word in split(flag)], read))
        except ValueError as error:
            required = "a list of options, quoted as for a shell"
            raise self.refusal(argument, required, f"{given!r}: {error}") from None

    def texts(self, argument: str, given: Strings) -> tuple[str, ...]:
        """The texts of an argument that takes one or several."""
        several = (given,) if isinstance(given, str) else given or ()
        if not isinstance(several, Sequence) or not all(isinstance(each, str) for each in several):
            raise self.refusal(argument, "a string, or a list of strings", repr(given))
        return tuple(several)

    def paths(self, argument: str, given: Paths) -> tuple[str, ...]:
        """The paths of an argument that takes one or several."""
        try:
            several = (given,) if isinstance(given, (str, os.PathLike)) else () if given is None else given
            found = tuple(os.fspath(each) for each in several)
            if any("\0" in each for each in found):
                raise ValueError("embedded null character")
        except (TypeError, ValueError) as error:
            required = "a path, or a list of paths, each a string or an os.PathLike of one"
            raise self.refusal(argument, required, f"{given!r}: {error}") from None
        return found


def absolute(path: str) -> str:
    """A path from the root, with links, as compilers see it; `..` after a link leads to where the link leads."""
    whole = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
    short = os.path.normpath(whole)
    if ".." in Path(path).parts and os.path.realpath(whole) != os.path.realpath(short):
        return os.path.realpath(whole)
    return short
