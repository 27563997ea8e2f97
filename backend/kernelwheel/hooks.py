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
from typing import Any, NamedTuple

from . import requirements
from .project import build_settings
from .project.build_settings import BuildSettings
from .runtime.errors import KernelWheelError, SettingsError
from .runtime.machine import platforms
from .runtime.progress import print_line
from .runtime.settings import DEFAULT, VARIABLE, Origin

with requirements.imports_checked_later():
    from setuptools import build_meta

    from .compiler.compile_job import CompileJob
    from .compiler.find_toolchain import parts_to_install
    from .compiler.toolchain.torch_files import find_torch
    from .compiler.tools import programs_to_install
    from .packing import abi_audit, editable, module_files, sdist, tags, wheel
    from .packing.components import LICENCES, components_of, without_text
    from .packing.core_metadata import completed
    from .packing.setuptools_project import outside_checkout, variable_set
    from .project.package import PackageFacts, read_project, source_root
    from .project.source_files import source_digests
    from .runtime import compiler_process
    from .runtime.artifact import manifest as manifests
    from .runtime.artifact.artifact import Artifact
    from .runtime.artifact.content import can_use_cuda
    from .runtime.decision.snapshot import package_path

Config = Mapping[str, Any] | None

DATE = "SOURCE_DATE_EPOCH"
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
    ours, theirs = _split(config_settings)
    with _setuptools(ours):
        return list(build_meta.get_requires_for_build_sdist(theirs))


@errors_as_messages()
def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Config = None) -> str:
    """The metadata from setuptools, with what our wheel requires besides; nothing is compiled.

    Only for libraries that are bound to one torch, that torch must be installed.
    """
    ours, theirs = _split(config_settings)
    facts, options = read_project(Path.cwd())
    torch = _bound_torch(facts, BuildSettings.resolve(facts.import_name, options, os.environ, ours))
    with _setuptools(ours, torch.version_tag):
        name = str(build_meta.prepare_metadata_for_build_wheel(metadata_directory, theirs))
    _complete(Path(metadata_directory) / name / "METADATA", facts.dependencies, torch.version, [LICENCES])
    return name


@errors_as_messages()
def prepare_metadata_for_build_editable(metadata_directory: str, config_settings: Config = None) -> str:
    """The metadata of an editable wheel from setuptools: it is compiled at first use, and so bound to no torch."""
    ours, theirs = _split(config_settings)
    with _setuptools(ours) as facts:
        name = str(build_meta.prepare_metadata_for_build_editable(metadata_directory, theirs))
    _complete(Path(metadata_directory) / name / "METADATA", facts.dependencies)
    return name


def _complete(metadata: Path, *added: Any) -> None:
    metadata.write_text(completed(metadata.read_text("utf-8"), *added), encoding="utf-8")


@errors_as_messages()
def get_requires_for_build_wheel(config_settings: Config = None) -> list[str]:
    """The requirements of setuptools, plus what this machine lacks: recent cmake and ninja, parts of CUDA 12."""
    ours, theirs = _split(config_settings)
    with _setuptools(ours):
        setuptools_needs = build_meta.get_requires_for_build_wheel(theirs)
    return [*setuptools_needs, *programs_to_install(), *parts_to_install(_job(ours), os.environ)]


@errors_as_messages()
def get_requires_for_build_editable(config_settings: Config = None) -> list[str]:
    """The requirements of setuptools; an editable install compiles nothing at install time."""
    ours, theirs = _split(config_settings)
    with _setuptools(ours):
        return list(build_meta.get_requires_for_build_editable(theirs))


@errors_as_messages()
def build_sdist(sdist_directory: str, config_settings: Config = None) -> str:
    """The sdist from setuptools, with the native sources."""
    ours, theirs = _split(config_settings)
    facts, options = read_project(Path.cwd())
    facts = facts.located(Path.cwd())
    epoch = BuildSettings.resolve(facts.import_name, options, os.environ, ours).source_date_epoch
    with _setuptools(ours):
        name = str(build_meta.build_sdist(sdist_directory, theirs))
    sources = Path(facts.sources)
    files = [(sources / name).as_posix() for name in source_digests(sources, facts.files)]
    sdist.add_sources(Path(sdist_directory) / name, Path.cwd(), files, facts, epoch)
    return name


@errors_as_messages()
def build_editable(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    """The editable wheel from setuptools, with the runtime added; it contains no Artifact.

    Raises:
        SettingsError: `-C` settings were given. They would be lost by the first use, when kernels are compiled.
    """
    ours, theirs = _split(config_settings)
    facts, options = read_project(Path.cwd())
    if ours:
        variables = [build_settings.option_of(key, build_settings.CONFIG).variable(facts.import_name) for key in ours]
        raise SettingsError(
            "an editable install compiles on first use, and -C settings are lost by then",
            required="options set in the environment of the program that uses the kernels, or in [tool.kernelwheel]",
            found=", ".join(f"-C {key}" for key in ours),
            remedies=[f"leave them out, and set {', '.join(variables)} when using the kernels"],
        )
    facts = facts.located(Path.cwd())  # so that a mistake in the tables is found now
    epoch = BuildSettings.resolve(facts.import_name, options, os.environ).source_date_epoch
    module_files.refuse_clashes(facts.extensions, facts.import_name, _modules_of(facts.import_name))
    with tempfile.TemporaryDirectory() as temporary:
        with _setuptools(ours):
            name = str(build_meta.build_editable(temporary, theirs, metadata_directory))
        editable.add_runtime(Path(temporary) / name, Path(wheel_directory), facts, Path.cwd(), epoch)
    return name


@errors_as_messages()
def build_wheel(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    """Add the Artifact for this checkout's Plan, from a Store or compiled now, to the wheel from setuptools."""
    begin = time.monotonic()
    ours, theirs = _split(config_settings)
    job = _job(ours)
    facts, chosen = job.facts, job.settings
    bound = _bound_torch(facts, chosen)
    with tempfile.TemporaryDirectory() as temporary:
        with _setuptools(ours, bound.version_tag) as declared:
            pure = Path(temporary) / build_meta.build_wheel(temporary, theirs, metadata_directory)
        version, members = wheel.read_pure(pure)
        module_files.refuse_clashes(facts.extensions, facts.import_name, members)
        request = job._replace(content={**job.content, "version": version}, scratch=Path(temporary) / "artifact")
        answer = compiler_process.ask(request, _say, {})
        artifact = _artifact_of(answer, facts.import_name)
        libraries = [artifact.folder / library.file for library in artifact.manifest.libraries]
        tag = tags.platform_tag(libraries, chosen, answer["packing"]["torch_libraries"])
        components = components_of(artifact.manifest, answer["packing"]["components"])
        if artifact.manifest.cpu:
            _say(f"CPU: needs {', '.join(artifact.manifest.cpu)}; checked before loading")
        for line in (abi_audit.audit(artifact), *tags.tag_lines(tag), *without_text(components)):
            _say(line)
        where = artifact, job.sources, chosen.source_date_epoch, tag.platform
        contents = wheel.Contents(*where, components, bound.build_tag, declared.dependencies)
        name = wheel.add_artifact(pure, Path(wheel_directory), contents)
    made = [f"{lib.file} ({lib.size / 1e6:.2f} MB)" for lib in artifact.manifest.libraries]
    made += [f"without {each}, which only builds with CUDA have" for each in artifact.manifest.left_out]
    _say(f"{name}: {', '.join(made)}, in {time.monotonic() - begin:.0f} s")
    return name


@contextmanager
def _setuptools(ours: Mapping[str, Any], version_tag: str = "") -> Iterator[PackageFacts]:
    """What every hook calls setuptools in: outside of the checkout, and with one date, which a version may come from.

    The date is the caller's own: that of the variable as it stands, or of the option. Without either, there is none.
    It yields what the project declares.
    """
    facts, options = read_project(Path.cwd())
    chosen = BuildSettings.resolve(facts.import_name, options, os.environ, ours)
    origin, date = chosen.origin("source-date-epoch"), str(chosen.source_date_epoch)
    date_read = {DEFAULT: None, Origin(VARIABLE, DATE): os.environ.get(DATE)}.get(origin, date)
    with outside_checkout(version_tag), variable_set(DATE, date_read):
        yield facts


def _job(ours: Mapping[str, Any]) -> CompileJob:
    """What the compiler is asked for this checkout's wheel; its version is not known yet."""
    facts, options = read_project(Path.cwd())
    facts = facts.located(Path.cwd())
    chosen = BuildSettings.resolve(facts.import_name, options, os.environ, ours)
    sources = Path(facts.sources).resolve()
    content = facts.content("0", source_digests(sources, facts.files), chosen.content())
    if not can_use_cuda(content):
        chosen = chosen.changed("cuda", "off", Origin("no extension uses CUDA"))
    return CompileJob(content, sources, chosen, None)


def _artifact_of(answer: Mapping[str, Any], package: str) -> Artifact:
    """The Artifact that the compiler made, with the decisions of this build, whenever its libraries were compiled."""
    folder = Path(answer["folder"])
    manifest = manifests.read(folder, package)
    assert manifest is not None
    return Artifact(folder, manifest._replace(built_with={**manifest.built_with, **answer["decisions"]}))


def _say(line: str) -> None:
    print_line(line, to_stdout=True)  # the front end shows it (pip: with -v)


class _Bound(NamedTuple):
    """How a wheel says which torch its libraries are bound to; all empty if they are bound to none."""

    version: str | None = None
    build_tag: str = ""
    version_tag: str = ""


def _bound_torch(facts: PackageFacts, chosen: BuildSettings) -> _Bound:
    if not facts.binds_torch:
        return _Bound()
    torch = find_torch()
    with_cuda = torch.cuda is not None and chosen.cuda != "off"  # a build that should use CUDA, and cannot, fails
    if not facts.of_build(with_cuda).binds_torch:
        return _Bound()
    tag = tags.torch_tag(torch.version, chosen.torch_tag)
    return _Bound(torch.version, version_tag=tag) if chosen.torch_tag == "local" else _Bound(torch.version, tag)


def _modules_of(package: str) -> list[str]:
    """The files of the package in the checkout, as they would be called in a wheel."""
    root = source_root(Path(), package)
    return [path.relative_to(root).as_posix() for path in (root / package_path(package)).rglob("*.py")]


def _split(config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the config settings into ours and those for setuptools, with --quiet: its lists of files hide the rest."""
    config = dict(config or {})
    theirs = {key: config.pop(key) for key in SETUPTOOLS_KEYS if key in config}
    BuildSettings.resolve("", {}, {}, config)  # every hook checks ours, so that the first one called reports an error
    return config, {"--quiet": "1", **theirs}
