"""What the checkout of an editable install declares, for its loader, which reads no TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..runtime.settings import TABLE
from .build_settings import written
from .package import read_project, read_toml
from .source_files import source_digests


def describe(package: str, version: str, project: str) -> dict[str, Any] | None:
    """The content of the package's kernels without options, the folder of its sources, its table's options as texts.

    Returns:
        Plain JSON values; None if the checkout `project` is not the package's.

    Raises:
        BuildError: what pyproject.toml declares is not right, or sources cannot be read.
    """
    folder = Path(project)
    try:
        table = read_toml(folder / "pyproject.toml").get("tool", {}).get("kernelwheel", {})
    except FileNotFoundError:
        return None
    if "extension" not in table and table.get("package") != package:
        return None
    facts, options = read_project(folder)
    if facts.import_name != package:
        return None
    sources = folder / facts.sources
    facts = facts.located(folder)
    content = facts.content(version, source_digests(sources, facts.files), {})
    texts = {name: text for name, (text, _) in written(options, TABLE).items()}
    return {"content": content, "folder": str(sources), "options": texts}
