"""What setuptools makes of the arguments of setup(): the metadata and the files of the wheel, without its extensions.

Part of the child process that runs a setup.py: it imports nothing from this package, as setup_script.py.
"""

from __future__ import annotations

import hashlib
import re
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

METADATA = (
    "name", "version", "description", "long_description", "long_description_content_type", "author", "author_email",
    "maintainer", "maintainer_email", "url", "download_url", "project_urls", "license", "license_expression",
    "license_files", "classifiers", "keywords", "platforms", "provides", "obsoletes",
)  # fmt: skip
LISTS = (
    "packages", "py_modules", "package_dir", "package_data", "exclude_package_data", "include_package_data",
    "scripts", "data_files", "namespace_packages", "headers", "extras_require", "install_requires", "python_requires",
)  # fmt: skip
# Where setuptools writes, below a folder that is given: commands, their options, and the folders.
OUTSIDE = (
    ("build", "build_base", "build"), ("egg_info", "egg_base", "."), ("bdist_wheel", "dist_dir", "wheel"),
    ("bdist_wheel", "bdist_dir", "bdist"),
)  # fmt: skip

# Where a project says what its build requires.
_REQUIRING = ("pyproject.toml", "setup.cfg", "setup.py")
# Files beside a wheel's METADATA that are no licences; pip ignores dependency_links.txt.
NO_LICENCES = {"RECORD", "WHEEL", "dependency_links.txt"}


def described_distribution(given: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The values that setuptools works with, from setup(), setup.cfg and pyproject.toml, and the wheel that they make.

    Args:
        given: the arguments of setup().
        folder: where setuptools may write.
    """
    import setuptools
    from setuptools.command.build_ext import build_ext

    class NoBuild(build_ext):  # type: ignore[misc]
        """The command that would compile: it knows the extensions' names and sources, and compiles nothing."""

        def run(self) -> None:
            pass

        def get_outputs(self) -> list[str]:
            return []

    folder.mkdir(parents=True)
    hide_file_finders("".join(path.read_text("utf-8", "replace") for path in map(Path, _REQUIRING) if path.is_file()))
    values: dict[str, Any] = {}
    hidden = without_own_modules(Path.cwd())
    try:
        skipped = ("setup_requires", "distclass", "script_args", "options")
        attributes = {name: value for name, value in given.items() if name not in skipped}
        make: Any = given.get("distclass") or setuptools.Distribution
        distribution = make({**attributes, "cmdclass": {"build_ext": NoBuild}, "script_name": "setup.py"})
        distribution.parse_config_files()
        values.update({name: getattr(distribution.metadata, name, None) for name in METADATA})
        values.update({name: getattr(distribution, name, None) for name in LISTS})
        for command, option, place in OUTSIDE:
            distribution.get_option_dict(command)[option] = ("adopt", str(folder / place))
        distribution.run_command("bdist_wheel")
        (wheel,) = (folder / "wheel").iterdir()
        return {"values": values, "wheel": contents(wheel), "failure": None}
    except (Exception, SystemExit) as error:
        return {"values": values, "wheel": {}, "failure": f"{type(error).__name__}: {error}"}
    finally:
        sys.modules.update(hidden)
        sys.path.insert(0, str(Path.cwd()))


def hide_file_finders(required: str) -> None:
    """Keep from setuptools what a distribution of this environment, such as setuptools-scm, lists as files to pack.

    Args:
        required: text that names the ones that the project asks for: those do it in every build.
    """
    import setuptools.command.egg_info
    import setuptools.command.sdist

    def listed(place: str = "") -> list[str]:
        own = re.sub(r"[-_.]+", "-", required).lower()
        return [
            file
            for point in metadata.entry_points(group="setuptools.file_finders")
            if point.dist and re.sub(r"[-_.]+", "-", point.dist.name).lower() in own
            for file in point.load()(place)
        ]

    for module in (setuptools.command.egg_info, setuptools.command.sdist):
        vars(module)["walk_revctrl"] = listed


def without_own_modules(project: Path) -> dict[str, ModuleType]:
    """Take a project's own modules from Python's sight, and return them: one may be called like one of setuptools'."""
    sys.path[:] = [place for place in sys.path if Path(place or ".").resolve() != project]
    own = {
        name: module
        for name, module in sys.modules.items()
        if name != "__main__" and Path(str(getattr(module, "__file__", None) or "/")).is_relative_to(project)
    }
    for name in own:
        del sys.modules[name]
    return own


def contents(wheel: Path) -> dict[str, Any]:
    """A wheel's files by their digests, and the texts in its folder of metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        about = {name.partition("/")[2]: archive.read(name).decode("utf-8") for name in names if _about(name)}
        files = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names if ".dist-info/" not in name}
        licences = [name.partition("/")[2] for name in names if ".dist-info/" in name and not _about(name)]
    return {"about": about, "files": files, "licences": sorted(set(licences) - NO_LICENCES)}


def _about(name: str) -> bool:
    return name.partition(".dist-info/")[2] in ("METADATA", "entry_points.txt", "top_level.txt")
