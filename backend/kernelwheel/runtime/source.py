"""Where a package's kernels can be compiled from at run time: a wheel's own sources, or a checkout's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..build.package import Abi, PackageFacts, read_toml, split_table
from ..core.files import is_file
from ..core.manifest import Manifest
from ..core.settings import TABLE


class Source(NamedTuple):
    """Where a package's kernels can be compiled from.

    Attributes:
        facts: the package's.
        folder: the folder with CMakeLists.txt.
        options: of `[tool.kernelwheel]`; of a wheel those that decide the binary, as its manifest has them.
    """

    facts: PackageFacts
    folder: Path
    options: Mapping[str, Any]


def find_source(package: str, native: Path, manifest: Manifest | None) -> Source | None:
    """The sources beside a wheel's Artifact, or those of the checkout that the package is imported from.

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
    # The file's own place: a strict editable install imports a folder of links to the checkout's files.
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
    """What the package's own table said when the wheel was built; of architectures, this machine's GPUs decide."""
    settings: Mapping[str, Mapping[str, Any]] = manifest.built_with.get("settings", {})
    written = {name: setting["value"] for name, setting in settings.items() if setting["origin"] == TABLE}
    return {name: value for name, value in written.items() if value is not None and name != "archs"}
