"""The sources that kernels are compiled from at run time: those in the wheel, or those of a checkout."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..artifact.content import Content
from ..artifact.manifest import Manifest
from ..machine.files import is_file, is_folder, is_seen
from ..record import Record
from ..settings import recorded

# The file that says where the checkout of an editable install is, in its copy of the loader.
NOTE = "checkout.json"


def editable_name(package: str) -> str:
    """What an editable install of a package calls its copy of the runtime, which is beside the package."""
    return f"_{package.replace('.', '__')}_kernelwheel"


def package_path(package: str) -> str:
    """A package's folder in a wheel, relative to where it is installed: `acme/ops`."""
    return package.replace(".", "/")


class Sources(Record):
    """The sources of a package's kernels."""

    # what would be compiled, with the options of the package's own table or none: those of this process take their
    # place
    content: Content
    folder: Path  # the folder with CMakeLists.txt, or with the files of the extensions
    # those in `[tool.kernelwheel]`; for a wheel, those that decide the binary, from its manifest
    options: dict[str, str]


def find_sources(package: str, version: str, native: Path, manifest: Manifest | None) -> Sources | None:
    """Find the sources next to a wheel's Artifact, or those of the checkout that the package is imported from."""
    if manifest is not None:
        folder, content = native / "src", manifest.content
        there = is_folder(folder) if content["extensions"] else is_file(folder / "CMakeLists.txt")
        return Sources(content, folder, recorded(manifest.built_with["settings"])) if there else None
    project = _checkout(package, native)
    if not is_file(project / "pyproject.toml"):
        return None
    from ..compiling import compiler_process

    found = compiler_process.describe(package, version, project)
    return Sources(found["content"], Path(found["folder"]), found["options"]) if found else None


def _checkout(package: str, native: Path) -> Path:
    """The project of an editable install: where its note says, or around the package that is imported."""
    for note in (Path(folder or ".") / editable_name(package) / NOTE for folder in sys.path):
        if is_seen(note):
            return Path(json.loads(note.read_text(encoding="utf-8"))["project"])
    # Follow the file's link: a strict editable install imports a folder of links to the checkout's files.
    return (native.parent / "__init__.py").resolve().parents[package.count(".") + 1]
