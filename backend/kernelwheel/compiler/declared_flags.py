"""All flags that are declared for a Plan, each with the files that it is for and where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..project.build_settings import BuildSettings
from ..project.extension import Extension
from ..source_language import CUDA_SUFFIX
from ..version import LOADED
from .plan import Plan

# The arguments of `load` that these are.
_ARGUMENTS = {"cxx-flags": "extra_cflags", "cuda-flags": "extra_cuda_cflags", "link-flags": "extra_ldflags"}


class Declared(NamedTuple):
    """Flags that are declared."""

    file: str | None  # that they are for; empty: any; None: the linker
    where: str  # in words
    flags: tuple[str, ...]
    extension: Extension | None = None  # that they are for; None: all


def declared_flags(plan: Plan, settings: BuildSettings) -> Iterator[Declared]:
    """All flags, in the order in which each file gets them."""
    yield Declared(None, str(settings.origin("link-flags")), plan.flags("link-flags"))
    if not plan.extensions:  # which files there are, only the CMakeLists.txt knows
        for file, option in (("", "cxx-flags"), (CUDA_SUFFIX, "cuda-flags")):
            yield Declared(file, str(settings.origin(option)), plan.flags(option))
    keys = _ARGUMENTS if plan.version == LOADED else {}
    for each in plan.built:
        yield Declared(None, f"{keys.get('link-flags', 'link-flags')} of {each.name}", each.link_flags, each)
        for file in each.compiled(plan.cuda is not None):
            for_cuda = file.endswith(CUDA_SUFFIX)
            option = "cuda-flags" if for_cuda else "cxx-flags"
            own = each.cuda_flags if for_cuda else each.cxx_flags
            yield Declared(file, str(settings.origin(option)), plan.flags(option))
            yield Declared(file, f"{keys.get(option, option)} of {each.name}", own, each)
            yield Declared(file, f"file-flags of {each.name}", each.file_flags.get(file, ()), each)
