"""The facts of the package being built: `[tool.kernelwheel]` without its options."""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from ..content import make_content
from ..runtime.artifact.content import MAIN, Content, part_made
from ..runtime.decision.snapshot import package_path
from ..runtime.errors import SettingsError, way_out
from ..runtime.machine.files import is_file, is_folder
from ..runtime.settings import TABLE
from ..version import OLDEST_TORCH
from . import source_files
from .build_settings import written
from .extension import EXTENSION, Extension, Key, from_plan, read_extensions, strings, to_json

# What a package's libraries are bound to: only torch's stable ABI, or one Python and one torch release.
Abi = Literal["stable", "torch"]
# Whether a call on CUDA needs the libraries for the CPU too.
Devices = Literal["together", "apart"]
_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"


class PackageFacts(NamedTuple):
    """The fixed facts of a package, which FACTS describes, as opposed to options, which a single build may override."""

    import_name: str  # `package`
    sources: str  # with extensions, the project itself
    torch_target: str
    abi: Abi = "stable"  # with extensions, their kinds say that
    extensions: tuple[Extension, ...] = ()  # what is built without a CMakeLists.txt
    files: tuple[str, ...] | None = None  # of the extensions, below `sources`; None without them or until `located`
    dispatched: tuple[str, ...] = ()
    # patterns until there is a content, then files, with main, which has what is in no other; with extensions, `apart`
    # says what these are
    parts: Mapping[str, tuple[str, ...]] = {}
    devices: Devices = "together"
    dependencies: tuple[str, ...] = ()

    @property
    def binds_torch(self) -> bool:
        """Whether its libraries are compiled for one release of torch."""
        return self.abi == "torch" or any(each.kind != "operators" for each in self.extensions)

    @property
    def binds_python(self) -> bool:
        """Whether its libraries are compiled for one Python."""
        return self.abi == "torch" or any(each.kind == "module" for each in self.extensions)

    @property
    def binds_cuda(self) -> bool:
        """Whether its libraries are compiled for the CUDA major of one torch, as far as is declared.

        Operators need a driver instead: the CUDA runtime is linked into them.
        """
        return self.binds_torch or any(each.binds_cuda for each in self.extensions)

    @property
    def needs_cuda(self) -> tuple[str, ...]:
        """The extensions that cannot be built without CUDA, by name."""
        return tuple(each.name for each in self.extensions if each.cuda == "required")

    def of_build(self, cuda: bool) -> PackageFacts:
        """The same facts without the extensions that a build with CUDA, or one without, leaves out."""
        return self._replace(extensions=tuple(each for each in self.extensions if each.is_built(cuda)))

    def located(self, project: Path) -> PackageFacts:
        """The same facts with the extensions' files looked up in the project.

        Raises:
            SettingsError: as `source_files.find_sources`.
        """
        if not self.extensions:
            return self
        extensions = source_files.find_sources(self.extensions, project)
        apart = {each.name: each.compiled(cuda=True) for each in extensions if each.apart}
        rest = {file for each in extensions if not each.apart for file in each.compiled(cuda=True)}
        parts = {**apart, **({MAIN: tuple(sorted(rest))} if rest else {})} if apart else {}
        files = source_files.files_of(extensions, project)
        return self._replace(extensions=extensions, files=files, parts=parts)

    def content(self, version: str, sources: Mapping[str, str], options: Mapping[str, Any]) -> Content:
        """The content of kernels of it: as `make_content`.

        Raises:
            SettingsError: a pattern in `dispatched` or `parts` matches no file.
        """
        for pattern in self.dispatched:
            self._files("dispatched", pattern, sources)
        parts = self.parts
        if not self.extensions:
            parts = {
                part: tuple(file for pattern in patterns for file in self._files(f"parts.{part}", pattern, sources))
                for part, patterns in parts.items()
            }
        extensions, about = map(to_json, self.extensions), (self.import_name, version, sources, self.abi)
        return make_content(*about, self.torch_target, extensions, options, self.dispatched, parts, self.devices)

    def _files(self, key: str, pattern: str, sources: Iterable[str]) -> list[str]:
        """The sources that a pattern stands for."""
        if found := fnmatch.filter(sources, pattern):
            return found
        raise SettingsError(
            f"{key} names files that are not there",
            required=f"patterns of files in {self.sources}, such as avx*.cpp",
            found=f"{pattern!r}: no such file",
            remedies=[f"correct {key} in [tool.kernelwheel] of pyproject.toml"],
        )

    @classmethod
    def from_content(cls, content: Content) -> PackageFacts:
        """The facts in a content, whose sources are all in one folder, as in a wheel."""
        extensions = tuple(map(from_plan, content["extensions"]))
        files = tuple(sorted(content["sources"])) if extensions or part_made(content) else None
        abi = cast(Abi, content["abi"])
        dispatched = tuple(content["dispatched"])
        parts = {part: tuple(files) for part, files in content["parts"].items()}
        devices = cast(Devices, content["devices"])
        return cls(content["package"], ".", content["torch_target"], abi, extensions, files, dispatched, parts, devices)


_texts = strings(((r"\Z", "empty"),))


def _requirements(value: Any) -> tuple[str, ...]:
    """Requirements as METADATA has them (PyPA, dependency specifiers)."""
    from packaging.requirements import Requirement  # not at the top: the compiler looks for its packages first

    return tuple(str(Requirement(each)) for each in _texts(value))


def _matching(pattern: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError
        return value

    return read


def _parts(table: Any) -> dict[str, tuple[str, ...]]:
    """The parts, with main."""
    if not isinstance(table, dict) or not all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_]*", part) for part in table):
        raise ValueError
    parts = {part: _texts(patterns) for part, patterns in table.items()}
    return {MAIN: (), **parts} if parts else {}


# The keys of the table that are neither options nor extensions. What stands for one that is absent may depend on these.
FACTS = (
    Key(
        "package",
        _matching(_DOTTED),
        "the import name of the package, such as acme.ops",
        "The package that the kernels and the loader are in; below a namespace package, which other distributions have "
        "files of too, `acme.ops`.",
        "that of the extensions",
        None,
    ),
    Key(
        "sources",
        _matching(r"[^/].*"),
        f"a folder with CMakeLists.txt, or {EXTENSION} instead",
        "Where the CMakeLists.txt is, relative to the project.",
        "the project, with extensions; else required",
        None,
    ),
    Key(
        "torch-target",
        _matching(r"\d+\.\d+"),
        "a torch release such as 2.10",
        "The oldest torch that operators run on: the target version of torch's stable ABI.",
        f"`{OLDEST_TORCH}` with extensions; else required",
        None,
    ),
    Key(
        "abi",
        _matching("stable|torch"),
        "stable, or torch if there are modules that Python itself imports",
        "What a CMakeLists.txt builds: operators on torch's stable ABI, or what uses all of torch's C++ API.",
        "`stable`",
        "stable",
    ),
    Key(
        "dispatched",
        _texts,
        'a list of patterns of files, such as ["csrc/avx*.cpp"]',
        "Files whose code is called only where the package itself has asked the CPU: what their flags say of it "
        "(-mavx2) is no requirement of a library.",
        absent=[],
    ),
    Key(
        "parts",
        _parts,
        'a table of names and lists of patterns of files, such as rays = ["cuda/*rays*"]',
        "The files of each part that is found, compiled and loaded by itself; `main` has what is in no other.",
        absent={},
    ),
    Key(
        "devices",
        _matching("together|apart"),
        "together, or apart if no library for the CPU defines operators",
        "`apart`: a call on CUDA needs no library for the CPU, so neither is compiled nor loaded for the other. The "
        "operators are then defined in Python.",
        "`together`",
        "together",
    ),
    Key(
        "dependencies",
        _requirements,
        'a list of requirements, such as ["numpy>=1.26"]',
        "What the project requires besides what setuptools knows of, where [project] may not say so, because wheels "
        "require a torch besides.",
        absent=[],
    ),
)


def source_root(project: Path, package: str) -> Path:
    """The folder of a project that its package is imported from: `src`, or the project itself."""
    return project / "src" if is_folder(project / "src" / package.partition(".")[0]) else project


def split_table(
    table: Mapping[str, Any], project_name: str = "", project: Path | None = None
) -> tuple[PackageFacts, dict[str, Any]]:
    """Split `[tool.kernelwheel]` into the package's facts and its options.

    A package that has only extensions at the top level is named after the project. Its folder, `project`, shows what is
    a namespace package.

    Raises:
        SettingsError: a fact is missing or malformed.
    """
    options = dict(table)
    extensions = read_extensions(options.pop("extension", []))
    names = [each.name for each in extensions]
    if extensions:
        _refuse_lists(table, names)
    absent = {"package": _home(names, project_name, project)}
    if extensions:
        absent |= {"sources": ".", "torch-target": OLDEST_TORCH}
    facts: dict[str, Any] = {}
    for key in FACTS:
        value = options.pop(key.name, absent.get(key.name, key.absent))
        try:
            facts[key.name.replace("-", "_")] = key.read(value)
        except ValueError:
            homeless = f"extensions without a home in common: {', '.join(names)}"
            raise SettingsError(
                f"[tool.kernelwheel] {key.name} is missing or malformed",
                required=key.takes,
                found=homeless if value is None and names else repr(value),
                remedies=[f"set {key.name} in [tool.kernelwheel] of pyproject.toml"],
            ) from None
    import_name = facts.pop("package")
    if project:
        _refuse_namespace(project, import_name)
    return PackageFacts(import_name, extensions=extensions, **facts), options


def read_project(project: Path) -> tuple[PackageFacts, dict[str, Any]]:
    """The facts and options in a project's pyproject.toml, as `split_table`.

    Raises:
        FileNotFoundError: there is none.
        SettingsError: it cannot be read, or `[tool.kernelwheel]` is malformed.
    """
    return split_table(*_table(project), project)


def _table(project: Path) -> tuple[dict[str, Any], str]:
    """`[tool.kernelwheel]` of a project's pyproject.toml, and the project's name."""
    values = read_toml(project / "pyproject.toml")
    return values.get("tool", {}).get("kernelwheel", {}), str(values.get("project", {}).get("name", ""))


def describe(package: str, version: str, project: str) -> dict[str, Any] | None:
    """The content of the package's kernels without options, the folder of its sources, its table's options as texts.

    Returns:
        Plain JSON values; None if the checkout `project` is not the package's.

    Raises:
        BuildError: what pyproject.toml declares is not right, or sources cannot be read.
    """
    folder = Path(project)
    try:
        table, name = _table(folder)
    except FileNotFoundError:
        return None
    if "extension" not in table and table.get("package") != package:
        return None
    facts, options = split_table(table, name, folder)
    if facts.import_name != package:
        return None
    sources = folder / facts.sources
    facts = facts.located(folder)
    content = facts.content(version, source_files.source_digests(sources, facts.files), {})
    texts = {name: text for name, (text, _) in written(options, TABLE).items()}
    return {"content": content, "folder": str(sources), "options": texts}


def _home(names: Sequence[str], project_name: str, project: Path | None) -> str | None:
    """The package that extensions belong to, if `package` does not say: theirs, or the one named as the project.

    A package without `__init__.py` may be a namespace, where another distribution's home would be the same.
    """
    above = {tuple(name.split(".")[:-1]) for name in names if "." in name}
    if not above:
        return re.sub(r"[-.]+", "_", project_name) if names else None
    common = tuple(parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*above, strict=False)))
    root = source_root(project, common[0]) if project and common else None
    if root is None or not is_folder(root / common[0]):
        return common[0] if common else None
    outer = (common[:count] for count in range(1, len(common) + 1))
    regular = next((each for each in outer if is_file(root.joinpath(*each, "__init__.py"))), None)
    return ".".join(regular or common) if regular or len(above) == 1 else None


def _refuse_namespace(project: Path, package: str) -> None:
    """A folder of packages alone is a namespace package: other distributions' kernels would go to the same place."""
    folder = source_root(project, package) / package_path(package)
    if not is_folder(folder) or any(folder.glob("*.py")):
        return
    packages = sorted(f"{package}.{file.parent.name}" for file in folder.glob("*/__init__.py"))
    if packages:
        raise SettingsError(
            "[tool.kernelwheel] package is a namespace package, which other distributions may have files of",
            required=f"a package that is this distribution's alone, such as {packages[0]}",
            found=f"{package}, with no module of its own",
            remedies=["set package in [tool.kernelwheel] of pyproject.toml"],
        )


def _refuse_lists(table: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse a CMakeLists.txt beside tables: each says what is built."""
    for key in ("sources", "abi", "parts", "devices"):
        if key in table:
            raise SettingsError(
                f"extensions are declared beside {key}, which is for a CMakeLists.txt",
                required=f"either {EXTENSION} or a folder with CMakeLists.txt",
                found=f"{key} = {table[key]!r}, and the extensions {', '.join(names)}",
                remedies=[
                    f"remove {key} from [tool.kernelwheel]",
                    "or remove the extensions, and name them in CMakeLists.txt",
                ],
            )


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's values.

    Raises:
        FileNotFoundError: the file does not exist.
        SettingsError: the file cannot be read or parsed.
    """
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (ValueError, OSError) as error:
        raise SettingsError(
            f"{path.name} cannot be read",
            required="a valid TOML file that this user can read",
            found=f"{path}: {type(error).__name__}: {error}",
            remedies=[way_out(error) if isinstance(error, OSError) else f"fix {path}"],
        ) from error


def parse_toml(text: str) -> dict[str, Any]:
    """The values in the text of a TOML file; a ValueError if it is none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return dict(tomllib.loads(text))
