"""The sources that kernels are compiled from at run time: those in the wheel, or those of a checkout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .content import Content
from .extension import from_plan
from .files import is_file, is_folder
from .manifest import Manifest
from .package import NOTE, Abi, PackageFacts, read_project, read_toml
from .settings import recorded
from .source_files import source_digests

_NOTE = Path(__file__).parent.parent / NOTE


class Source(NamedTuple):
    """The sources of a package's kernels.

    Attributes:
        facts: the facts of the package.
        folder: the folder with CMakeLists.txt, or with the files of the extensions.
        options: those in `[tool.kernelwheel]`; for a wheel, those that decide the binary, from its manifest.
    """

    facts: PackageFacts
    folder: Path
    options: Mapping[str, Any]

    def content(self, version: str, options: Mapping[str, Any]) -> Content:
        """The content of what would be compiled of them with these options; raises as `source_digests`."""
        return self.facts.content(version, self.digests(), options)

    def digests(self) -> dict[str, str]:
        """The sha256 of each source as it is now; raises as `source_digests`."""
        return source_digests(self.folder, self.facts.files)


def find_source(package: str, native: Path, manifest: Manifest | None) -> Source | None:
    """Find the sources next to a wheel's Artifact, or those of the checkout that the package is imported from.

    Args:
        package: its import name.
        native: the Artifact's folder, which an editable install does not have.
        manifest: the Artifact's.
    """
    if manifest is not None:
        facts = _facts_of(manifest)
        if not (is_folder(native / "src") if facts.extensions else is_file(native / "src" / "CMakeLists.txt")):
            return None
        return Source(facts, native / "src", recorded(manifest.built_with["settings"]))
    project = _checkout(package, native)
    try:
        table = read_toml(project / "pyproject.toml").get("tool", {}).get("kernelwheel", {})
    except FileNotFoundError:
        return None
    if "extension" not in table and table.get("package") != package:
        return None
    facts, options = read_project(project)
    if facts.import_name != package:
        return None
    return Source(facts.located(project), project / facts.sources, options)


def _facts_of(manifest: Manifest) -> PackageFacts:
    content = manifest.content
    extensions = tuple(map(from_plan, content["extensions"]))
    abi: Abi = content["abi"]
    files = tuple(sorted(content["sources"])) if extensions else None
    return PackageFacts(manifest.package, "src", str(content["torch_target"]), abi, extensions, files)


def _checkout(package: str, native: Path) -> Path:
    """The project of an editable install: where its note says, or around the package that is imported."""
    if is_file(_NOTE):
        return Path(json.loads(_NOTE.read_text(encoding="utf-8"))["project"])
    # Follow the file's link: a strict editable install imports a folder of links to the checkout's files.
    return (native.parent / "__init__.py").resolve().parents[package.count(".") + 1]
