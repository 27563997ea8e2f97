"""The libraries of a wheel that are taken instead of compiled, where nothing decides that they would be others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.content import Content, part_made, without_cuda
from ..runtime.artifact.manifest import Manifest
from ..runtime.machine.platforms import platform_name
from .plan import Plan


def libraries_taken(wheel: Manifest, wanted: Content) -> dict[str, str]:
    """The digests of a wheel's libraries that need not be compiled again, by their files: operators for the CPU.

    Empty if they are bound to one Python or torch, or made of extensions, which may be one file for both devices; or if
    they were compiled with other options, for another platform, or for some of its CPUs.
    """
    wheel = wheel.only(part_made(wanted))
    content, target = without_cuda(wheel.content), wheel.plan["target"]
    if (
        target["binding"]
        or wheel.cpu
        or content["extensions"]
        or content != without_cuda(wanted)
        or target["platform"] != platform_name()
    ):
        return {}
    return {library.file: library.sha256 for library in wheel.libraries_for("cpu")}


def take_libraries(plan: Plan, wheel: Artifact, folder: Path) -> None:
    """Copy the libraries that the Plan takes from a wheel, if they are what its manifest says."""
    for library in wheel.manifest.libraries:
        if library.file in plan.taken:
            with os.fdopen(wheel.open_library(library), "rb") as source, (folder / library.file).open("wb") as copy:
                shutil.copyfileobj(source, copy)
