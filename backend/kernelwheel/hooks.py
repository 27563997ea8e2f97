"""The PEP 517 and PEP 660 hooks, which add compiled kernels to the wheels that setuptools builds.

They run in the root of the project (PEP 517).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from . import requirements
from .project.build_settings import CONFIG, BuildSettings
from .runtime.errors import KernelWheelError, SettingsError
from .runtime.machine import platforms
from .runtime.progress import print_line
from .runtime.settings import Origin

with requirements.imports_checked_later():
    from setuptools import build_meta

    from .compiler.compile_job import CompileJob
    from .compiler.find_toolchain import parts_to_install
    from .compiler.toolchain.torch_files import find_torch
    from .compiler.tools import programs_to_install
    from .packing import abi_audit, editable, module_files, sdist, tags, wheel
    from .packing.core_metadata import completed
    from .packing.sbom import LICENCES, components_of, without_text
    from .packing.setuptools_project import outside_checkout
    from .project.package import PackageFacts, read_project, source_root
    from .project.source_files import source_digests
    from .runtime import compiler_process
    from .runtime.artifact import manifest as manifests
    from .runtime.artifact.artifact import Artifact
    from .runtime.artifact.content import can_use_cuda
    from .runtime.decision.snapshot import package_path

Config = Mapping[str, Any] | None

# The config settings that setuptools' own hooks read.
SETUPTOOLS_KEYS = ("--global-option", "--build-option", "editable_mode", "editable-mode")


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Make an uncaught KernelWheelError print only its message, without a traceback; a missing package is one, too."""
    try:
        platforms.require_supported()
        requirements.require_build_packages()
        yield
    except KernelWheelError:
        sys.excepthook = _print_message
        raise


def _print_message(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, KernelWheelError):
        print("".join(traceback.format_exception_only(kind, error)), end="", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


@errors_as_messages()
def get_requires_for_build_sdist(config_settings: Config = None) -> list[str]:
    """The requirements of setuptools."""
    facts, settings, theirs = _read(config_settings)
    with outside_checkout(facts, settings):
        return list(build_meta.get_requires_for_build_sdist(theirs))


@errors_as_messages()
def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Config = None) -> str:
    """The metadata from setuptools, with what our wheel requires besides; nothing is compiled.

    Only for libraries that are bound to one torch, that torch must be installed.
    """
    facts, settings, theirs = _read(config_settings)
    torch, torch_tag = _bound_torch(facts, settings)
    with outside_checkout(facts, settings, torch_tag):
        name = str(build_meta.prepare_metadata_for_build_wheel(metadata_directory, theirs))
    _complete(Path(metadata_directory) / name, facts.dependencies, torch, [LICENCES])
    return name


@errors_as_messages()
def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Config = None) -> str:
    """The metadata of an editable wheel from setuptools: it is compiled at first use, and so bound to no torch."""
    facts, settings, theirs = _read(config_settings)
    with outside_checkout(facts, settings):
        name = str(build_meta.prepare_metadata_for_build_editable(metadata_directory, theirs))
    _complete(Path(metadata_directory) / name, facts.dependencies)
    return name


def _complete(folder: Path, *added: Any) -> None:
    metadata = folder / "METADATA"
    metadata.write_text(completed(metadata.read_text("utf-8"), *added), encoding="utf-8")


@errors_as_messages()
def get_requires_for_build_wheel(config_settings: Config = None) -> list[str]:
    """The requirements of setuptools, plus what this machine lacks: recent cmake and ninja, parts of CUDA 12."""
    facts, settings, theirs = _read(config_settings)
    with outside_checkout(facts, settings):
        setuptools_needs = build_meta.get_requires_for_build_wheel(theirs)
    return [*setuptools_needs, *programs_to_install(), *parts_to_install(_job(facts, settings), os.environ)]


@errors_as_messages()
def get_requires_for_build_editable(config_settings: Config = None) -> list[str]:
    """The requirements of setuptools; an editable install compiles nothing at install time."""
    facts, settings, theirs = _read(config_settings)
    with outside_checkout(facts, settings):
        return list(build_meta.get_requires_for_build_editable(theirs))


@errors_as_messages()
def build_sdist(sdist_directory: str, config_settings: Config = None) -> str:
    """The sdist from setuptools, with the native sources."""
    facts, settings, theirs = _read(config_settings)
    facts = facts.located(Path.cwd())
    with outside_checkout(facts, settings):
        name = str(build_meta.build_sdist(sdist_directory, theirs))
    sources = Path(facts.sources)
    files = [(sources / name).as_posix() for name in source_digests(sources, facts.files)]
    sdist.add_sources(Path(sdist_directory) / name, Path.cwd(), files, facts, settings.source_date_epoch)
    return name


@errors_as_messages()
def build_editable(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    """The editable wheel from setuptools, with the runtime added; it contains no Artifact.

    Raises:
        SettingsError: `-C` settings were given. They would be lost by the first use, when kernels are compiled.
    """
    facts, settings, theirs = _read(config_settings)
    if given := {name: origin for name, origin in settings.origins.items() if origin.place == CONFIG}:
        raise SettingsError(
            "an editable install compiles on first use, and -C settings are lost by then",
            required="options set in the environment of the program that uses the kernels, or in [tool.kernelwheel]",
            found=", ".join(map(str, given.values())),
            remedies=[f"leave them out, and set {', '.join(map(settings.variable, given))} when using the kernels"],
        )
    facts = facts.located(Path.cwd())  # so that a mistake in the tables is found now
    module_files.refuse_clashes(facts.extensions, facts.import_name, _modules_of(facts.import_name))
    with tempfile.TemporaryDirectory() as temporary:
        with outside_checkout(facts, settings):
            name = str(build_meta.build_editable(temporary, theirs, metadata_directory))
        epoch = settings.source_date_epoch
        editable.add_runtime(Path(temporary) / name, Path(wheel_directory), facts, Path.cwd(), epoch)
    return name


@errors_as_messages()
def build_wheel(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    """Add the Artifact for this checkout's Plan, from a Store or compiled now, to the wheel from setuptools."""
    begin = time.monotonic()
    facts, settings, theirs = _read(config_settings)
    job = _job(facts, settings)
    _, torch_tag = _bound_torch(facts, settings)
    with tempfile.TemporaryDirectory() as temporary:
        with outside_checkout(facts, settings, torch_tag):
            pure = Path(temporary) / build_meta.build_wheel(temporary, theirs, metadata_directory)
        version, members = wheel.read_pure(pure)
        module_files.refuse_clashes(facts.extensions, facts.import_name, members)
        request = job._replace(content={**job.content, "version": version}, scratch=Path(temporary) / "artifact")
        answer = compiler_process.ask(request, _say, {})
        artifact = _artifact_of(answer, facts.import_name)
        libraries = [artifact.folder / library.file for library in artifact.manifest.libraries]
        tag = tags.platform_tag(libraries, settings, answer["packing"]["torch_libraries"])
        components = components_of(artifact.manifest, answer["packing"]["components"])
        if artifact.manifest.cpu:
            _say(f"CPU: needs {', '.join(artifact.manifest.cpu)}; checked before loading")
        for line in (abi_audit.audit(artifact), *tags.tag_lines(tag), *without_text(components)):
            _say(line)
        where = artifact, job.sources, settings.source_date_epoch, tag.platform
        build_tag = torch_tag if settings.torch_tag == "build" else ""
        contents = wheel.Contents(*where, components, build_tag, facts.dependencies)
        name = wheel.add_artifact(pure, Path(wheel_directory), contents)
    made = [f"{lib.file} ({lib.size / 1e6:.2f} MB)" for lib in artifact.manifest.libraries]
    made += [f"without {each}, which only builds with CUDA have" for each in artifact.manifest.left_out]
    _say(f"{name}: {', '.join(made)}, in {time.monotonic() - begin:.0f} s")
    return name


def _read(config: Config) -> tuple[PackageFacts, BuildSettings, dict[str, Any]]:
    """What the project declares, the settings, and setuptools' own, with --quiet: its lists of files hide the rest."""
    ours = dict(config or {})
    theirs = {key: ours.pop(key) for key in SETUPTOOLS_KEYS if key in ours}
    facts, options = read_project(Path.cwd())
    return facts, BuildSettings.resolve(facts.import_name, options, os.environ, ours), {"--quiet": "1", **theirs}


def _job(facts: PackageFacts, settings: BuildSettings) -> CompileJob:
    """What the compiler is asked for this checkout's wheel; its version is not known yet."""
    facts = facts.located(Path.cwd())
    sources = Path(facts.sources).resolve()
    content = facts.content("0", source_digests(sources, facts.files), settings.content())
    if not can_use_cuda(content):
        settings = settings.changed("cuda", "off", Origin("no extension uses CUDA"))
    return CompileJob(content, sources, settings, None)


def _artifact_of(answer: Mapping[str, Any], package: str) -> Artifact:
    """The Artifact that the compiler made, with the decisions of this build, whenever its libraries were compiled."""
    folder = Path(answer["folder"])
    manifest = manifests.read(folder, package)
    assert manifest is not None
    return Artifact(folder, manifest._replace(built_with={**manifest.built_with, **answer["decisions"]}))


def _say(line: str) -> None:
    print_line(line, to_stdout=True)  # the front end shows it (pip: with -v)


def _bound_torch(facts: PackageFacts, settings: BuildSettings) -> tuple[str | None, str]:
    """The torch that a wheel's libraries are bound to, and how the wheel says which; None if they are bound to none."""
    if facts.binds_torch:
        torch = find_torch()
        with_cuda = torch.cuda is not None and settings.cuda != "off"  # a build that should use CUDA, and cannot, fails
        if facts.of_build(with_cuda).binds_torch:
            return torch.version, tags.torch_tag(torch.version, settings.torch_tag)
    return None, ""


def _modules_of(package: str) -> list[str]:
    """The files of the package in the checkout, as they would be called in a wheel."""
    root = source_root(Path(), package)
    return [path.relative_to(root).as_posix() for path in (root / package_path(package)).rglob("*.py")]
