"""The Plan: everything that determines the bytes of the binary, and nothing else.

It has three parts: content (what is compiled, and how), tools (what compiles it) and target (what it is compiled for).
It must not depend on paths, times, job counts or the order of files or variables. Its fingerprint names the Artifact
wherever that is built: on a builder for a wheel, or on the user's machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ..content import make_content
from ..flags.standard import Standards
from ..project.arch_choice import ArchList
from ..project.build_platforms import PLATFORMS
from ..project.extension import Extension, to_json
from ..runtime.artifact.content import Content
from ..runtime.artifact.manifest import SCHEMA
from ..store.manifest_fields import digests_of, fingerprint_of
from .machine_flags import CpuPlan
from .toolchain.binding import Binding


@dataclass(frozen=True)
class CudaPlan:
    """The CUDA half of a Plan: architectures, and the toolkit's identity."""

    archs: ArchList
    toolkit: Mapping[str, str]  # its version, and digests of its parts


@dataclass(frozen=True)
class Plan:
    """Everything that a compile depends on. `package.FACTS` describes what has no comment."""

    package: str  # its import name
    version: str  # of the package
    sources: Mapping[str, str]  # sha256 of each source, keyed by its path relative to the source folder
    options: Mapping[str, Any]  # the options that are part of the content, by name; see `Settings.content`
    cxx: Mapping[str, str]  # the C++ compiler's identity: kind, version, target, and digests of its parts
    cuda: CudaPlan | None  # the CUDA half, or None for a CPU-only Artifact
    # the target version of torch's stable ABI, such as `2.10`. It stands for the installed torch, of which nothing else
    # is in the Plan but the headers that are compiled in
    torch_target: str
    # the Python and torch that modules are bound to; None if all libraries are operators on the stable ABI, so that one
    # Plan serves every Python and every torch
    binding: Binding | None
    platform: str  # such as `linux-x86_64`
    abi: str = "stable"
    extensions: tuple[Extension, ...] = ()  # what is built without a CMakeLists.txt, in the order of their names
    recipe: Mapping[str, str] = field(default_factory=dict)  # digests of all that is told to CMake and the compilers
    headers: Mapping[str, str] = field(default_factory=dict)  # by origin, the digest of those that sources can reach
    cpu: CpuPlan = field(default_factory=CpuPlan)  # the CPU that it is compiled for
    standards: Standards = field(default_factory=Standards)
    dispatched: tuple[str, ...] = ()
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    devices: str = "together"
    cpu_kernels: bool = True  # whether there are libraries for the CPU
    # sha256 of the libraries that are taken from a wheel, and of those whose host code is, with other device code
    taken: Mapping[str, str] = field(default_factory=dict)
    host_code: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The Plan's three parts as plain JSON values, with the schema number of Plans."""
        return {"schema": SCHEMA, "content": self.content, "tools": self.tools, "target": self.target}

    @property
    def content(self) -> Content:
        """What is compiled, and how: what an Artifact is found by."""
        facts = (self.package, self.version, self.sources, self.abi, self.torch_target)
        extensions = map(to_json, self.extensions)
        return make_content(*facts, extensions, self.options, self.dispatched, self.parts, self.devices)

    @property
    def tools(self) -> dict[str, Any]:
        """What compiles it, by content."""
        return {
            "recipe": dict(self.recipe),
            "cxx": dict(self.cxx),
            "toolkit": dict(self.cuda.toolkit) if self.cuda else None,
            "headers": dict(self.headers),
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
        return tuple(self.options.get(option, ()))

    def for_compilers(self, flags: Iterable[str], abi: str = "") -> tuple[str, ...]:
        """The flags that compilers are given for declared ones, for libraries of an ABI; empty: for all."""
        return self.standards.given(self.cpu.stands_for(flags), abi)

    @property
    def glibc(self) -> str | None:
        """The oldest glibc that they are linked for, `2.28`; None for that of the build machine, or without glibc.

        None, too, if no host code is linked.
        """
        return self.options["glibc"] or None if PLATFORMS[self.platform].has_glibc and not self.host_code else None

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
