"""A wheel's tag: which Python it is for, and which Linux its libraries earn (PyPA, platform compatibility tags).

A manylinux tag says that a wheel runs wherever glibc is new enough (PEP 600). Which symbols and which libraries each
tag allows comes from auditwheel's policies.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import Policy, WheelPolicies

from ..compiler.binary_inspect import AnyFile, library_at
from ..compiler.cross.target_platform import cross_platform
from ..project.build_platforms import PLATFORMS, LinuxBuild, WindowsBuild
from ..project.build_settings import BuildSettings
from ..runtime.errors import BuildError
from ..runtime.machine.host import torch_required
from ..runtime.machine.platforms import numbers, platform_name
from .allowed_dlls import is_allowed

MOST_REASONS = 20


class Tag(NamedTuple):
    """A platform tag, and what keeps the wheel from a better one: one line for each symbol or library."""

    platform: str
    reasons: tuple[str, ...] = ()


def python_tag(abi: str | None) -> str:
    """The first two parts of a wheel's tag.

    They are `py3-none` for libraries that use no Python symbols; otherwise they name the ABI that the modules are bound
    to, as in `cp313-cp313t`.
    """
    return f"{abi.rstrip('td')}-{abi}" if abi else "py3-none"


def torch_tag(version: str, kind: str) -> str:
    """How a wheel says which torch its libraries are bound to: `213torch`, its build number, or `+torch2.13`, local.

    Of a build between releases, all of its version is in it. pip compares build numbers: digits come first (binary
    distribution format, "File name convention").
    """
    required = torch_required(version)
    whole = re.sub(r"[^a-z0-9]+", ".", required.removesuffix(".*").lower())
    if kind == "local":
        return f"+torch{whole}"
    major, minor = numbers(required)[:2]
    return f"{major}{minor:02}torch{'' if required.endswith('.*') else whole}" if kind == "build" else ""


def platform_tag(libraries: Sequence[Path], settings: BuildSettings, external: Collection[str] = ()) -> Tag:
    """The platform tag of a wheel with these libraries, which are all that it has.

    `external` are the file names of those that torch's wheel and its dependencies provide.

    Raises:
        BuildError: the tag is required, and the libraries do not earn it.
    """
    platform = cross_platform(settings) or PLATFORMS[platform_name()]
    read = [*map(library_at, libraries)]
    if isinstance(platform, WindowsBuild):
        files = [(each.path.name, dll) for each in read for dll in each.needed if not is_allowed(dll)]
        tag = Tag(platform.tag, tuple(f"{name}: {dll}, which not every Windows has" for name, dll in files))
    else:
        tag = _earned(platform, read, settings.glibc, external)
    if settings.manylinux == "required" and tag.reasons:
        raise BuildError(
            f"the libraries do not earn the tag that is required: they earn {tag.platform}",
            required=f"libraries that run with glibc {settings.glibc}, because manylinux is required "
            f"({settings.origin('manylinux')})",
            found="\n".join(tag.reasons),
            remedies=[
                "do without these functions, or build on a system with an older glibc and gcc",
                f"or accept a newer glibc: set {settings.variable('glibc')} (-C glibc=2.34)",
            ],
        )
    return tag


def tag_lines(tag: Tag) -> list[str]:
    """Lines that say which tag a wheel has and why not a better one."""
    shown = tag.reasons[:MOST_REASONS]
    more = [f"  and {len(tag.reasons) - len(shown)} more"] if len(tag.reasons) > len(shown) else []
    return [
        f"platform tag: {tag.platform}" + (", because of:" if shown else ""),
        *(f"  {line}" for line in shown),
        *more,
    ]


def _earned(platform: LinuxBuild, libraries: Sequence[AnyFile], glibc: str, external: Collection[str]) -> Tag:
    """The tag of the first policy that all libraries fit, or else that which promises nothing."""
    failed: list[str] = []
    for policy in _wanted(glibc, Architecture(platform.machine)):
        reasons = [reason for each in libraries for reason in _reasons(policy, each, external)]
        if not reasons:
            return Tag(policy.name, tuple(failed))
        failed = failed or reasons
    return Tag(platform.tag, tuple(failed))


def _wanted(glibc: str, machine: Architecture) -> list[Policy]:
    """The policies from the wanted glibc on, the oldest first; all of them if none is wanted."""
    policies = WheelPolicies(libc=Libc.GLIBC, arch=machine)
    releases = [(numbers(policy.name)[:2], policy) for policy in policies if policy != policies.linux]
    return [policy for release, policy in sorted(releases, key=itemgetter(0)) if release >= numbers(glibc)]


def _reasons(policy: Policy, library: AnyFile, external: Collection[str]) -> Iterator[str]:
    """Why a library does not earn a policy's tag."""
    file, symbols = library.path.name, library.needed_symbols
    for symbol in symbols:
        prefix, _, number = symbol.version.partition("_")
        if prefix in policy.symbol_versions and number not in policy.symbol_versions[prefix]:
            yield f"{file}: {symbol.name}@{symbol.version} of {symbol.soname}"
    for needed in library.needed:
        known = needed in policy.whitelist or needed in external
        if not known and not re.fullmatch(LinuxBuild.external_libs, needed):
            yield f"{file}: {needed}, which not every Linux has"
        for name in sorted(policy.blacklist.get(needed, frozenset()) & {symbol.name for symbol in symbols}):
            yield f"{file}: {name} of {needed}, which newer releases lack"
