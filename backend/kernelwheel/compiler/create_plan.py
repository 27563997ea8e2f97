"""Drawing up the Plan for a package, from what this machine compiles with and what the settings ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from packaging.version import Version

from ..flags.options import HOST_COMPILER, without_device_linking
from ..flags.words import values_of
from ..project import arch_choice
from ..project.build_platforms import PLATFORMS
from ..project.build_settings import BuildSettings
from ..project.package import PackageFacts
from ..project.source_files import source_digests
from ..runtime.artifact.content import Content, can_use_cuda, without_cuda
from ..runtime.decision.no_kernels import changed_sources
from ..runtime.errors import BuildError, SettingsError
from ..runtime.machine.files import json_sha256
from ..runtime.variables import own_variable
from ..source_language import CUDA_SUFFIX
from .cmake_inputs import recipe_of
from .cpu import draw_cpu
from .headers import headers_of
from .linked_files import linked_files
from .plan import CudaPlan, Plan, declared_flags
from .standards import draw_standards
from .taken_libraries import NOTHING, Taken
from .toolchain.binding import bind
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit import Nvcc
from .toolchain.toolkit_identity import toolkit_identity


def create_plan(
    content: Content, source_root: Path, toolchain: Toolchain, taken: Taken = NOTHING, *, cpu_kernels: bool = True
) -> Plan:
    """Draw up the Plan for a content, with the options for CUDA.

    Where it has CUDA kernels, it may be without `cpu_kernels`.

    Raises:
        BuildError: the toolchain cannot do what the settings ask; settings for CUDA kernels contradict each other;
            torch is older than the ABI target; or something a module needs is missing.
        IncompatibleArtifactError: the sources are not those of the content.
    """
    facts = PackageFacts.from_content(content)
    sources = source_digests(source_root, facts.files)
    if sources != content["sources"]:
        old, new = json_sha256(content["sources"]), json_sha256(sources)
        raise changed_sources(facts.import_name, source_root.parent, old, new, editable=False)
    require_torch_target(facts, toolchain)
    require_cuda(facts, toolchain)
    cuda = _draw_cuda(facts, toolchain) if can_use_cuda(content) else None
    built = facts.of_build(cuda is not None)
    plan = Plan(
        content=content if cuda else without_cuda(content),
        cxx=toolchain.cxx.identity(),
        cuda=cuda,
        binding=bind(toolchain, built.binds_python) if built.binds_torch else None,
        platform=toolchain.platform,
        cpu_kernels=cpu_kernels or cuda is None,
        taken=taken.whole,
        host_code=taken.host_code,
    )
    _refuse_host_compiler(plan, toolchain.settings)
    plan = replace(plan, cpu=draw_cpu(plan, toolchain), standards=draw_standards(plan, toolchain))
    plan = replace(plan, recipe=recipe_of(plan, toolchain))
    headers, linked = headers_of(plan, toolchain, source_root), linked_files(plan, toolchain)
    return replace(plan, headers={**headers.digests, **linked.digests})


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


def _draw_cuda(facts: PackageFacts, toolchain: Toolchain) -> CudaPlan | None:
    nvcc, settings = toolchain.cuda.nvcc, toolchain.settings
    if nvcc is None:
        return None
    _refuse_archs_in_flags(settings)
    _refuse_device_linking(facts, nvcc, settings)
    if settings.archs:
        origin = str(settings.origin("archs"))
        wanted = arch_choice.parse(settings.archs, origin)
        arch_choice.check_supported(wanted, nvcc.supported, nvcc.name, origin, nvcc.virtual)
    else:
        wanted = arch_choice.default(nvcc.supported, PLATFORMS[toolchain.platform].has_tegra, nvcc.virtual)
    for each in facts.extensions:
        if each.archs:
            where = f"archs of {each.name}"
            arch_choice.check_supported(each.own_archs, nvcc.supported, nvcc.name, where, nvcc.virtual)
    return CudaPlan(wanted, toolkit_identity(nvcc))


def _refuse_device_linking(facts: PackageFacts, nvcc: Nvcc, settings: BuildSettings) -> None:
    """Reject device code that is linked by clang, or for all extensions alike."""
    linked = [each.name for each in facts.extensions if each.device_link and each.has_kernels]
    if linked and nvcc.clang:
        raise BuildError(
            f"{facts.import_name} cannot be built with clang: its device code is linked from several files",
            required=f"an nvcc, for {', '.join(linked)}",
            found=f"{nvcc.name}, {nvcc.origin}",
            remedies=[
                "build with an nvcc: see the option nvcc (CUDACXX)",
                "or put kernels and the device functions that they call in one file, without device-link",
            ],
        )
    if facts.extensions and without_device_linking(settings.cuda_flags)[1]:
        raise SettingsError(
            "the options for nvcc ask for device code that is linked",
            required="device-link = true in the tables of extensions, or -rdc=true in extra_cuda_cflags of load",
            found=f"{' '.join(settings.cuda_flags)} in {settings.origin('cuda-flags')}",
            remedies=["remove -rdc=true and -dc there"],
        )


def _refuse_host_compiler(plan: Plan, settings: BuildSettings) -> None:
    """Reject a C++ compiler in flags for nvcc: it would be another than the one that was found and is recorded."""
    for each in declared_flags(plan, settings) if plan.cuda else ():
        if each.file and each.file.endswith(CUDA_SUFFIX) and (named := values_of(each.flags, HOST_COMPILER)):
            raise SettingsError(
                "the options for nvcc name a C++ compiler",
                required=f"one C++ compiler for all files, in the option cxx ({settings.variable('cxx')})",
                found=f"{HOST_COMPILER[0]} {named[0]} in {each.where}",
                remedies=[f"remove it there, and set {settings.variable('cxx')}={named[0]} if that is to be used"],
            )


def _refuse_archs_in_flags(settings: BuildSettings) -> None:
    """Reject nvcc options that choose architectures: nvcc would add them to the Plan's, or fail on both."""
    found = arch_choice.chosen_by(settings.cuda_flags)
    if found:
        raise SettingsError(
            "the options for nvcc choose architectures",
            required="architectures only in the option archs (TORCH_CUDA_ARCH_LIST)",
            found=f"{' '.join(found)} in {settings.origin('cuda-flags')}",
            remedies=["remove them there and name the architectures with archs: -C 'archs=8.0;9.0+PTX'"],
        )
