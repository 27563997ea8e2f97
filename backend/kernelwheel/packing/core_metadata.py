"""What METADATA requires besides what the project declares: the runtime's needs, and the torch of its modules."""

from __future__ import annotations

from collections.abc import Iterable
from email.parser import HeaderParser

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ..toolchain.binding import torch_release

# What the runtime imports beside torch: for reports, for the cache folder, and for a compile.
RUNTIME_NEEDS = ("packaging>=24", "platformdirs>=4", "rich>=13", 'tomli>=2; python_version < "3.11"')


def field_of(metadata: str, name: str) -> str:
    """The value of a field that METADATA has once, such as Name."""
    return str(HeaderParser().parsestr(metadata)[name])


def completed(metadata: str, torch: str | None) -> str:
    """METADATA with further requirements (core metadata specification, Requires-Dist).

    Args:
        metadata: the text that setuptools wrote.
        torch: the version that modules were compiled for; None if there are none.
    """
    declared = HeaderParser().parsestr(metadata).get_all("Requires-Dist", [])
    names = set(_unconditional(declared))
    added = [need for need in RUNTIME_NEEDS if canonicalize_name(Requirement(need).name) not in names]
    if torch:
        added.append(f"torch=={torch_release(torch)}.*")
    return with_fields(metadata, [f"Requires-Dist: {requirement}" for requirement in added])


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
