"""The Plan: everything that determines the bytes of the binary, and nothing else.

It has three parts: content (what is compiled, and how), tools (what compiles it) and target (what it is compiled for).
It must not depend on paths, times, job counts or the order of files or variables. Its fingerprint names the Artifact
wherever that is built: on a builder for a wheel, or on the user's machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from ..flags.standard import Standards
from ..project.arch_choice import ArchList
from ..project.build_platforms import PLATFORMS
from ..project.build_settings import BuildSettings
from ..project.extension import Extension, from_plan
from ..runtime.artifact.content import Content
from ..runtime.artifact.manifest import SCHEMA
from ..runtime.machine.files import json_sha256
from ..runtime.record import remembered
from ..source_language import CUDA_SUFFIX
from ..store.manifest_fields import digests_of, fingerprint_of
from ..version import LOADED
from .machine_flags import CpuPlan
from .toolchain.binding import Binding

# Origin (`torch`, `python`, `cuda`, `flags`, `system`, `linked`) -> name of a header in a search folder, or of what is
# linked in -> sha256 of it.
Headers = dict[str, dict[str, str]]


@dataclass(frozen=True)
class CudaPlan:
    """The CUDA half of a Plan: architectures, and the toolkit's identity."""

    archs: ArchList
    toolkit: Mapping[str, str]  # its version, and digests of its parts


@dataclass(frozen=True)
class Plan:
    """Everything that a compile depends on."""

    # what is compiled, and how: what an Artifact is found by. The target version of torch's stable ABI in it stands for
    # the installed torch, of which nothing else is in the Plan but the headers that are compiled in
    content: Content
    cxx: Mapping[str, str]  # the C++ compiler's identity: kind, version, target, and digests of its parts
    cuda: CudaPlan | None  # the CUDA half, or None for a CPU-only Artifact
    # the Python and torch that modules are bound to; None if all libraries are operators on the stable ABI, so that one
    # Plan serves every Python and every torch
    binding: Binding | None
    platform: str  # such as `linux-x86_64`
    recipe: Mapping[str, str] = field(default_factory=dict)  # digests of all that is told to CMake and the compilers
    headers: Headers = field(default_factory=dict)  # that sources can reach, and the files that are linked in
    cpu: CpuPlan = field(default_factory=CpuPlan)  # the CPU that it is compiled for
    standards: Standards = field(default_factory=Standards)
    cpu_kernels: bool = True  # whether there are libraries for the CPU
    # sha256 of the libraries that are taken from a wheel, and of those whose host code is, with other device code
    taken: Mapping[str, str] = field(default_factory=dict)
    host_code: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The Plan's three parts as plain JSON values, with the schema number of Plans."""
        return {"schema": SCHEMA, "content": self.content, "tools": self.tools, "target": self.target}

    @property
    def package(self) -> str:
        """Its import name."""
        return str(self.content["package"])

    @property
    def version(self) -> str:
        """That of the package."""
        return str(self.content["version"])

    @property
    def sources(self) -> Mapping[str, str]:
        """The sha256 of each source, keyed by its path relative to the source folder."""
        sources: Mapping[str, str] = self.content["sources"]
        return sources

    @remembered
    def extensions(self) -> tuple[Extension, ...]:
        """What is built without a CMakeLists.txt, in the order of their names."""
        return tuple(map(from_plan, self.content["extensions"]))

    @remembered
    def tools(self) -> dict[str, Any]:
        """What compiles it, by content."""
        return {
            "recipe": dict(self.recipe),
            "cxx": dict(self.cxx),
            "toolkit": dict(self.cuda.toolkit) if self.cuda else None,
            "headers": {origin: json_sha256(named) for origin, named in self.headers.items()},
            "taken": {**self.taken, **{f"host code of {file}": digest for file, digest in self.host_code.items()}},
        }

    @property
    def target(self) -> dict[str, Any]:
        """What it is compiled for."""
        cuda = self.cuda
        return {
            "platform": self.platform,
            "cuda": {"sass": [*map(str, cuda.archs.sass)], "ptx": [*map(str, cuda.archs.ptx)]} if cuda else None,
            "cpu_kernels": self.cpu_kernels,
            "binding": asdict(self.binding) if self.binding else None,
            "cpu": dict(self.cpu.features),
            "standard": self.standards.to_json(),
        }

    @property
    def digests(self) -> dict[str, str]:
        """The digests of the three parts."""
        return digests_of(self.to_json())

    @property
    def fingerprint(self) -> str:
        """The digest of the digests of the three parts."""
        return fingerprint_of(SCHEMA, self.digests)

    @property
    def built(self) -> tuple[Extension, ...]:
        """The extensions that it makes a library of."""
        return tuple(each for each in self.extensions if each.is_built(self.cuda is not None))

    def flags(self, option: str) -> tuple[str, ...]:
        """The compiler options that an option gives, such as `cxx-flags`."""
        return tuple(self.content["options"].get(option, ()))

    @property
    def compiler_flags(self) -> tuple[str, ...]:
        """All flags for compilers."""
        own = [each for of in self.built for each in (of.cxx_flags, of.cuda_flags, *of.file_flags.values())]
        return (*self.flags("cxx-flags"), *self.flags("cuda-flags"), *chain.from_iterable(own))

    @property
    def linker_flags(self) -> tuple[str, ...]:
        """All flags for the linker."""
        return (*self.flags("link-flags"), *chain.from_iterable(each.link_flags for each in self.built))

    def for_compilers(self, flags: Iterable[str], abi: str = "") -> tuple[str, ...]:
        """The flags that compilers are given for declared ones, for libraries of an ABI; empty: for all."""
        return self.standards.given(self.cpu.stands_for(flags), abi)

    @property
    def glibc(self) -> str | None:
        """The oldest glibc that they are linked for, `2.28`; None for that of the build machine, or without glibc.

        None, too, if no host code is linked.
        """
        return (
            self.content["options"]["glibc"] or None
            if PLATFORMS[self.platform].has_glibc and not self.host_code
            else None
        )

    @property
    def kernels(self) -> str:
        """A readable summary of the kernels it makes."""
        cpu = f", for a CPU with {', '.join(self.cpu.features)}" if self.cpu.features else ""
        if self.cuda is None:
            return f"CPU only{cpu}"
        cuda = f"CUDA {self.cuda.toolkit['version']} ({self.cuda.archs})"
        taken = ", ".join(sorted(self.tools["taken"]))
        if taken:
            return f"{cuda}, with {taken} of the wheel"
        return f"CPU and {cuda}{cpu}" if self.cpu_kernels else f"{cuda}{cpu}"

    def targets(self, file: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The SASS and PTX targets that a library must have, if it uses CUDA."""
        assert self.cuda is not None
        extension = next((each for each in self.extensions if each.file(self.platform) == file), None)
        archs = self.archs_of(extension) if extension else self.cuda.archs
        return tuple(map(str, archs.sass)), tuple(map(str, archs.ptx))

    def archs_of(self, extension: Extension) -> ArchList:
        """What an extension's kernels are compiled for, if it has any: linked device code is machine code alone."""
        if self.cuda is None or not extension.has_kernels:
            return ArchList((), ())
        archs = extension.own_archs if extension.archs else self.cuda.archs
        return archs._replace(ptx=()) if extension.device_link else archs


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
