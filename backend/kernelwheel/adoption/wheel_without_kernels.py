"""The wheel that setuptools makes of a project with tables, without kernels: what `adopt` compares with setup.py's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setuptools import build_meta

from ..hooks import errors_as_messages
from ..packing import module_files, wheel
from ..packing.setuptools_project import outside_checkout
from ..project.package import read_project
from ..runtime.errors import SettingsError


@errors_as_messages()
def make_wheel(wheel_directory: str) -> dict[str, Any]:
    """Make it of the project in the current folder.

    Returns:
        Its name; the extensions' names for top_level.txt, which it lacks; why the tables are refused, or nothing.
    """
    facts, _ = read_project(Path.cwd())
    refused = ""
    with outside_checkout():
        pure = Path(wheel_directory) / str(build_meta.build_wheel(wheel_directory, {"--quiet": "1"}))
    wheel.refuse_native_files(pure)
    try:
        facts.located(Path.cwd())
        module_files.refuse_clashes(facts.extensions, facts.import_name, wheel.members_of(pure))
    except SettingsError as error:
        refused = f"{error.problem}: {error.required}; found {error.found}"
    top = sorted({each.name.partition(".")[0] for each in facts.extensions})
    return {"wheel": pure.name, "top": top, "refused": refused}
