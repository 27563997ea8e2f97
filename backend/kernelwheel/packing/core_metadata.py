"""What METADATA has besides what setuptools knows of: further requirements, the torch of its modules, licences.

It names no kernelwheel, which compiles at run time: on an index, that name may belong to somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable
from email.parser import HeaderParser

from ..runtime.machine.host import torch_required


def field_of(metadata: str, name: str) -> str:
    """The value of a field that METADATA has once, such as Name; empty if it has not."""
    return str(HeaderParser().parsestr(metadata)[name] or "")


def completed(
    metadata: str, dependencies: Iterable[str], torch: str | None = None, licence_files: Iterable[str] = ()
) -> str:
    """METADATA with further requirements and licence files (core metadata specification, Requires-Dist, License-File).

    `dependencies` are those of [tool.kernelwheel]: setuptools has the project's others from wherever they stand. The
    project's own licence stays what it declares, because it is that of the sources. `torch` is the version that modules
    were compiled for; None if there are none.
    """
    required = [*dependencies, *([f"torch=={torch_required(torch)}"] if torch else [])]
    added = (f"Requires-Dist: {each}" for each in required)
    return with_fields(metadata, [*added, *(f"License-File: {name}" for name in licence_files)])


def with_fields(metadata: str, fields: Iterable[str]) -> str:
    """METADATA with further lines at the end of its header, unless they are there already."""
    header, blank, body = metadata.partition("\n\n")
    lines = header.splitlines()
    return "\n".join([*lines, *(field for field in fields if field not in lines)]) + (blank + body or "\n")
