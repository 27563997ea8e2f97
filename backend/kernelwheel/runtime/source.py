"""The sources that kernels are compiled from at run time: those in the wheel, or those of a checkout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..build.package import Abi, PackageFacts, read_toml, split_table
from ..core.files import is_file
from ..core.manifest import Manifest
from ..core.settings import TABLE


class Source(NamedTuple):
    """The sources of a package's kernels.

    Attributes:
        facts: the facts of the package.
        folder: the folder with CMakeLists.txt.
        options: those in `[tool.kernelwheel]`; for a wheel, those that decide the binary, from its manifest.
    """

    facts: PackageFacts
    folder: Path
    options: Mapping[str, Any]


def find_source(package: str, native: Path, manifest: Manifest | None) -> Source | None:
    """Find the sources next to a wheel's Artifact, or those of the checkout that the package is imported from.

    Args:
        package: its import name.
        native: the Artifact's folder, which an editable install does not have.
        manifest: the Artifact's.
    """
    if manifest is not None:
        if not is_file(native / "src" / "CMakeLists.txt"):
            return None
        abi: Abi = "torch" if manifest.plan.get("binding") else "stable"
        facts = PackageFacts(package, "src", str(manifest.plan["torch_target"]), abi)
        return Source(facts, native / "src", _options_of(manifest))
    # Follow the file's link: a strict editable install imports a folder of links to the checkout's files.
    project = (native.parent / "__init__.py").resolve().parent.parent
    try:
        table = read_toml(project / "pyproject.toml").get("tool", {}).get("kernelwheel", {})
    except FileNotFoundError:
        return None
    if table.get("package") != package:
        return None
    facts, options = split_table(table)
    return Source(facts, project / facts.sources, options)


def _options_of(manifest: Manifest) -> dict[str, Any]:
    """The options of the package's own table when the wheel was built; `archs` is left to this machine's GPUs."""
    settings: Mapping[str, Mapping[str, Any]] = manifest.built_with.get("settings", {})
    written = {name: setting["value"] for name, setting in settings.items() if setting["origin"] == TABLE}
    return {name: value for name, value in written.items() if value is not None and name != "archs"}
