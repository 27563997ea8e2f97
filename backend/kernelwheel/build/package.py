"""The facts of the package being built: `[tool.kernelwheel]` without its options, and the source files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from ..core.digests import file_sha256
from ..core.errors import BuildError, SettingsError, way_out
from ..core.files import is_file, is_folder

# Files that can reach a compiler. Files without a suffix count too: some libraries name headers so (Eigen/Core).
# Anything else in the folder (editor files, notes, caches) is ignored.
SOURCE_SUFFIXES = {
    ".c", ".cc", ".cpp", ".cxx", ".c++", ".cu", ".cuh", ".ptx", ".s", ".S", ".h", ".hh", ".hpp", ".hxx", ".h++",
    ".inl", ".inc", ".ipp", ".tpp", ".tcc", ".txx", ".def", ".in", ".cmake",
}  # fmt: skip
SOURCE_NAMES = {"CMakeLists.txt"}

# What a package's libraries are bound to: only torch's stable ABI, or one Python and one torch release.
Abi = Literal["stable", "torch"]


class PackageFacts(NamedTuple):
    """The fixed facts of a package, as opposed to options, which a single build may override.

    Attributes:
        import_name: the top-level package, for example `splat`.
        sources: the folder with CMakeLists.txt, relative to the project.
        torch_target: the oldest torch that the operators run on, `major.minor`: the stable ABI's target version.
        abi: `stable` if all libraries are operators on torch's stable ABI; `torch` if there are modules that Python
            itself imports and that use all of torch's C++ API.
    """

    import_name: str
    sources: str
    torch_target: str
    abi: Abi = "stable"

    @property
    def native(self) -> str:
        """The Artifact's folder in the wheel."""
        return f"{self.import_name}/_native"


def split_table(table: Mapping[str, Any]) -> tuple[PackageFacts, dict[str, Any]]:
    """Split `[tool.kernelwheel]` into the package's facts and its options.

    Raises:
        SettingsError: a fact is missing or malformed.
    """
    options = dict(table)
    facts = {}
    for key, default, pattern, takes in (
        ("package", None, r"[A-Za-z_]\w*", "the import name of the package"),
        ("sources", None, r"[^/].*", "a folder in the project"),
        ("torch-target", None, r"\d+\.\d+", "a torch release such as 2.10"),
        ("abi", "stable", r"stable|torch", "stable, or torch if there are modules that Python itself imports"),
    ):
        value = options.pop(key, default)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise SettingsError(
                f"[tool.kernelwheel] {key} is missing or malformed",
                required=takes,
                found=repr(value),
                remedies=[f"set {key} in [tool.kernelwheel] of pyproject.toml"],
            )
        facts[key] = value
    abi = cast(Abi, facts["abi"])
    return PackageFacts(facts["package"], facts["sources"], facts["torch-target"], abi), options


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's values.

    Raises:
        FileNotFoundError: the file does not exist.
        SettingsError: the file cannot be read or parsed.
    """
    try:
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        return dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise
    except (ImportError, ValueError, OSError) as error:
        raise SettingsError(
            f"{path.name} cannot be read",
            required="a valid TOML file, and before Python 3.11 the package tomli",
            found=f"{path}: {type(error).__name__}: {error}",
            remedies=[_way_out_of_toml(path, error)],
        ) from error


def _way_out_of_toml(path: Path, error: Exception) -> str:
    if isinstance(error, ImportError):
        return "pip install tomli"
    return way_out(error) if isinstance(error, OSError) else f"fix {path}"


def source_digests(root: Path) -> dict[str, str]:
    """The sha256 of every source file below `root`, keyed by its path relative to `root`, with forward slashes.

    Symbolic links are followed, so a folder may be shared with another package. Hidden files are ignored.

    Raises:
        SettingsError: there is no CMakeLists.txt in `root`.
        BuildError: a file or folder cannot be read.
    """
    try:
        return _source_digests(root)
    except OSError as error:
        raise BuildError(
            "the native sources cannot be read",
            required=f"files and folders that this user can read in {root}",
            found=f"{type(error).__name__}: {error}",
            remedies=[way_out(error)],
        ) from error


def _source_digests(root: Path) -> dict[str, str]:
    if not is_file(root / "CMakeLists.txt"):
        raise SettingsError(
            "the native sources are missing",
            required="a folder with CMakeLists.txt",
            found=f"no CMakeLists.txt in {root}",
            remedies=["fix `sources` in [tool.kernelwheel]; for an sdist, add the folder to MANIFEST.in"],
        )
    files = (path for path in _files(root, ()) if path.suffix in {*SOURCE_SUFFIXES, ""} or path.name in SOURCE_NAMES)
    return {path.relative_to(root).as_posix(): file_sha256(path) for path in sorted(files)}


def _files(folder: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """The files below a folder that are not hidden; a link to an enclosing folder is not followed."""
    around = (*above, folder.resolve())
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name == "__pycache__":
            continue
        if is_file(path):
            yield path
        elif is_folder(path) and path.resolve() not in around:
            yield from _files(path, around)
