"""The Plan: everything that determines the bytes of the binary, and nothing else.

It has three parts: content (what is compiled, and how), tools (what compiles it) and target (what it is compiled for).
It must not depend on paths, times, job counts or the order of files or variables. Its fingerprint names the Artifact
wherever that is built: on a builder for a wheel, or on the user's machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from ..core import architectures
from ..core.architectures import ArchList
from ..core.content import Content, digests_of, fingerprint_of, make_content
from ..core.digests import file_sha256, json_sha256
from ..core.errors import BuildError, SettingsError
from ..core.extension import Extension, to_json
from ..core.package import PackageFacts
from ..core.platforms import PLATFORMS
from ..core.settings import Settings
from ..core.source_files import source_digests
from ..core.variables import own_variable
from .headers import digests, headers_of, refuse_other_headers
from .toolchain.binding import Binding, bind
from .toolchain.cxx_identity import cxx_identity
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit_identity import toolkit_identity

SCHEMA = 5
# Files of ours that can change the binary: flags, the compilers' environment, and the layout of the work folder.
RECIPE = (
    "cmake/KernelWheel.cmake",
    "compiler/cmake_driver.py",
    "compiler/cmake_build.py",
    "compiler/extension_lists.py",
    "compiler/headers.py",
    "compiler/work_folder.py",
    "compiler/work_links.py",
    "compiler/toolchain/binding.py",
    "compiler/toolchain/older_libraries.py",
    "compiler/toolchain/programs.py",
    "core/architectures.py",
    "core/extension.py",
    "core/platforms.py",
)


@dataclass(frozen=True)
class CudaPlan:
    """The CUDA half of a Plan: architectures, and the toolkit's identity."""

    sass: tuple[str, ...]
    ptx: tuple[str, ...]
    toolkit: Mapping[str, str]

    @property
    def archs(self) -> ArchList:
        """The architectures, parsed."""
        parse = architectures.Arch.from_string
        return ArchList(tuple(map(parse, self.sass)), tuple(map(parse, self.ptx)))


@dataclass(frozen=True)
class Plan:
    """Everything that a compile depends on.

    Attributes:
        package: import name of the package.
        version: the package's version.
        sources: sha256 of each source, keyed by its path relative to the source folder.
        options: the options that are part of the content, by name; see `Settings.content`.
        recipe: sha256 of each of our own files that can change the binary.
        cxx: the C++ compiler's identity: kind, version, target, and digests of its parts.
        cuda: the CUDA half, or None for a CPU-only Artifact.
        torch_target: the target version of torch's stable ABI, such as `2.10`. It stands for the installed torch, of
            which nothing else is in the Plan but the headers that are compiled in.
        binding: the Python and torch that modules are bound to; None if all libraries are operators on the stable
            ABI, so that one Plan serves every Python and every torch.
        platform: such as `linux-x86_64`.
        abi: `stable` or `torch`; what a CMakeLists.txt builds, see `PackageFacts`.
        extensions: what is built without a CMakeLists.txt, in the order of their names.
        headers: one digest for each origin (torch, the system, …) of the headers there that the sources can reach.
        taken: sha256 of each library for the CPU that is not compiled, but taken from a wheel of the same sources.
    """

    package: str
    version: str
    sources: Mapping[str, str]
    options: Mapping[str, Any]
    recipe: Mapping[str, str]
    cxx: Mapping[str, str]
    cuda: CudaPlan | None
    torch_target: str
    binding: Binding | None
    platform: str
    abi: str = "stable"
    extensions: tuple[Extension, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The Plan's three parts as plain JSON values, with the schema number of Plans."""
        return {"schema": SCHEMA, "content": self.content, "tools": self.tools, "target": self.target}

    @property
    def content(self) -> Content:
        """What is compiled, and how: what an Artifact is found by."""
        facts = (self.package, self.version, self.sources, self.abi, self.torch_target)
        return make_content(*facts, map(to_json, self.extensions), self.options)

    @property
    def tools(self) -> dict[str, Any]:
        """What compiles it, by content."""
        return {
            "recipe": dict(self.recipe),
            "cxx": dict(self.cxx),
            "toolkit": dict(self.cuda.toolkit) if self.cuda else None,
            "headers": dict(self.headers),
            "taken": dict(self.taken),
        }

    @property
    def target(self) -> dict[str, Any]:
        """What it is compiled for."""
        return {
            "platform": self.platform,
            "cuda": {"sass": list(self.cuda.sass), "ptx": list(self.cuda.ptx)} if self.cuda else None,
            "binding": asdict(self.binding) if self.binding else None,
        }

    @property
    def digests(self) -> dict[str, str]:
        """The digests of the three parts."""
        return digests_of(self.to_json())

    @property
    def fingerprint(self) -> str:
        """The digest of the digests of the three parts."""
        return fingerprint_of(SCHEMA, self.digests)

    def flags(self, option: str) -> tuple[str, ...]:
        """The compiler options that an option gives, such as `cxx-flags`."""
        return tuple(self.options.get(option, ()))

    @property
    def glibc(self) -> str | None:
        """The oldest glibc that the libraries are linked for, `2.28`; None for the one of the build machine."""
        return self.options["glibc"] or None

    @property
    def kernels(self) -> str:
        """A readable summary of the kernels it makes."""
        if self.cuda is None:
            return "CPU only"
        cuda = f"CUDA {self.cuda.toolkit['version']} ({self.cuda.archs})"
        return f"{cuda}, with {', '.join(sorted(self.taken))} of the wheel" if self.taken else f"CPU and {cuda}"

    @property
    def sources_digest(self) -> str:
        """A single digest of all sources."""
        return json_sha256(self.sources)

    def targets(self, file: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The SASS and PTX targets that a library must have, if it uses CUDA; none for one without kernels."""
        assert self.cuda is not None
        extension = next((each for each in self.extensions if each.file(self.platform) == file), None)
        if extension is None or (extension.has_kernels and not extension.archs):
            return self.cuda.sass, self.cuda.ptx
        archs = extension.own_archs if extension.has_kernels else ArchList((), ())
        return tuple(map(str, archs.sass)), tuple(map(str, archs.ptx))


def draw_plan(
    facts: PackageFacts,
    version: str,
    source_root: Path,
    settings: Settings,
    toolchain: Toolchain,
    taken: Mapping[str, str] | None = None,
) -> Plan:
    """Draw up the Plan.

    Args:
        facts: the package.
        version: its version.
        source_root: the folder with CMakeLists.txt, or with the files of the extensions.
        settings: the effective options.
        toolchain: what this machine compiles with.
        taken: the libraries that need not be compiled, and their digests.

    Raises:
        BuildError: the toolchain cannot do what the settings ask; settings for CUDA kernels contradict each other;
            torch is older than the ABI target; or something a module needs is missing.
    """
    require_torch_target(facts, toolchain)
    here = Path(__file__).parent.parent
    cuda = _draw_cuda(facts, settings, toolchain)
    plan = Plan(
        package=facts.import_name,
        version=version,
        sources=source_digests(source_root, facts.files),
        options=settings.content(cuda is not None),
        recipe={name: file_sha256(here / name) for name in RECIPE},
        cxx=cxx_identity(toolchain.cxx),
        cuda=cuda,
        torch_target=facts.torch_target,
        binding=bind(toolchain, facts.binds_python) if facts.binds_torch else None,
        platform=toolchain.platform,
        abi=facts.abi,
        extensions=facts.extensions,
        taken=dict(taken or {}),
    )
    headers = headers_of(plan, toolchain, source_root)
    if toolchain.cross and toolchain.cross.torch and toolchain.cross.torch != toolchain.torch:
        theirs = headers_of(plan, replace(toolchain, torch=toolchain.cross.torch), source_root)
        refuse_other_headers(headers, theirs, plan.platform)
    return replace(plan, headers=digests(headers))


def require_torch_target(facts: PackageFacts, toolchain: Toolchain) -> None:
    """Reject a torch that is older than the ABI target."""
    if Version(toolchain.torch.version).release < Version(facts.torch_target).release:
        raise BuildError(
            f"torch {toolchain.torch.version} is too old to build {facts.import_name}",
            required=f"torch >= {facts.torch_target}, its stable ABI target",
            found=f"torch {toolchain.torch.version}",
            remedies=[f"pip install 'torch>={facts.torch_target}'"],
        )


def require_cuda(facts: PackageFacts, toolchain: Toolchain) -> None:
    """Reject a build without CUDA, if there are extensions that need it."""
    if facts.needs_cuda and toolchain.cuda.nvcc is None:
        raise BuildError(
            f"{facts.import_name} cannot be built without CUDA",
            required=f"a torch built for CUDA, and its nvcc, for {', '.join(facts.needs_cuda)}",
            found=toolchain.cuda.reason,
            remedies=[
                "install a CUDA build of torch in the environment that builds it",
                f"or, if {own_variable(facts.import_name, 'cuda')} is off, unset it",
            ],
        )


def _draw_cuda(facts: PackageFacts, settings: Settings, toolchain: Toolchain) -> CudaPlan | None:
    require_cuda(facts, toolchain)
    nvcc = toolchain.cuda.nvcc
    if nvcc is None or not facts.can_use_cuda:
        return None
    _refuse_archs_in_flags(settings)
    if settings.archs:
        origin = str(settings.origin("archs"))
        wanted = architectures.parse(settings.archs, origin)
        architectures.check_supported(wanted, nvcc.supported, nvcc.version, origin)
    else:
        wanted = architectures.default(nvcc.supported, PLATFORMS[toolchain.platform].has_tegra)
    for each in facts.extensions:
        if each.archs:
            architectures.check_supported(each.own_archs, nvcc.supported, nvcc.version, f"archs of {each.name}")
    return CudaPlan(
        sass=tuple(map(str, wanted.sass)),
        ptx=tuple(map(str, wanted.ptx)),
        toolkit=toolkit_identity(nvcc),
    )


def _refuse_archs_in_flags(settings: Settings) -> None:
    """Reject nvcc options that choose architectures: nvcc would add them to the Plan's, or fail on both."""
    found = architectures.chosen_by(settings.cuda_flags)
    if found:
        raise SettingsError(
            "the options for nvcc choose architectures",
            required="architectures only in the option archs (TORCH_CUDA_ARCH_LIST)",
            found=f"{' '.join(found)} in {settings.origin('cuda-flags')}",
            remedies=["remove them there and name the architectures with archs: -C 'archs=8.0;9.0+PTX'"],
        )
