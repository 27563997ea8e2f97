"""What METADATA has besides what the project declares: the runtime's needs, the torch of its modules, licences."""

from __future__ import annotations

from collections.abc import Iterable
from email.parser import HeaderParser

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ..compiler.toolchain.binding import torch_release

# What the runtime imports beside torch: to read an editable install's tables. uv takes the requirements of an editable
# install from [project], without this.
RUNTIME_NEEDS = ('tomli>=2; python_version < "3.11"',)


def field_of(metadata: str, name: str) -> str:
    """The value of a field that METADATA has once, such as Name; empty if it has not."""
    return str(HeaderParser().parsestr(metadata)[name] or "")


def completed(metadata: str, torch: str | None, licence_files: Iterable[str] = ()) -> str:
    """METADATA with further requirements and licence files (core metadata specification, Requires-Dist, License-File).

    The project's own licence stays what it declares, because it is that of the sources.

    Args:
        metadata: the text that setuptools wrote.
        torch: the version that modules were compiled for; None if there are none.
        licence_files: what this backend adds to the folder of licences; none to an editable wheel, without libraries.
    """
    declared = HeaderParser().parsestr(metadata).get_all("Requires-Dist", [])
    names = set(_unconditional(declared))
    added = [need for need in RUNTIME_NEEDS if canonicalize_name(Requirement(need).name) not in names]
    if torch:
        added.append(f"torch=={torch_release(torch)}.*")
    files = [f"License-File: {name}" for name in licence_files]
    return with_fields(metadata, [*(f"Requires-Dist: {requirement}" for requirement in added), *files])


def with_fields(metadata: str, fields: Iterable[str]) -> str:
    """METADATA with further lines at the end of its header, unless they are there already."""
    header, blank, body = metadata.partition("\n\n")
    lines = header.splitlines()
    return "\n".join([*lines, *(field for field in fields if field not in lines)]) + (blank + body or "\n")


def _unconditional(requirements: Iterable[str]) -> Iterable[str]:
    """The names of what is required always: a marker may be about an extra, or another machine."""
    for line in requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:  # setuptools has accepted it
            continue
        if requirement.marker is None or "extra" not in str(requirement.marker):
            yield canonicalize_name(requirement.name)
