"""The job that a request asks the compiler for: with all options, of which the loader knows only its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..project.build_settings import NATIVE, BuildSettings
from ..project.package import PackageFacts
from ..runtime.compiler_process import CONTRACT, CompileRequest
from ..runtime.errors import INSTALL_COMPILER, BuildError
from ..runtime.settings import Origin, Settings

AnySettings = TypeVar("AnySettings", bound=Settings)
OF_RUN_TIME = Origin("kernels that are compiled at run time")


class CompileJob(CompileRequest):
    """A request with the options of a build in its settings, and no others."""

    settings: BuildSettings

    @property
    def facts(self) -> PackageFacts:
        """The facts of the package."""
        return PackageFacts.from_content(self.content)


def read_job(values: Mapping[str, Any], environ: Mapping[str, str]) -> CompileJob:
    """The job for a request, as plain JSON values, of any contract up to ours; `environ` is for options of ours.

    Raises:
        BuildError: the loader is newer than this compiler; or an option is malformed.
    """
    if values["contract"] > CONTRACT:
        raise BuildError(
            f"the kernels of {values['content']['package']} ask for a newer kernelwheel",
            required=f"a kernelwheel that serves requests of contract {values['contract']}",
            found=f"one that serves contracts up to {CONTRACT}",
            remedies=[f"a newer one: {INSTALL_COMPILER}"],
        )
    driver = values["driver"]
    paths = {name: Path(values[name]) if values[name] else None for name in ("wheel", "scratch")}
    settings = _settings(values, environ)
    return CompileJob(
        values["content"],
        Path(values["sources"]),
        settings,
        None,
        tuple(driver) if driver else None,
        cpu_kernels=values["cpu_kernels"],
        lock=values["lock"],
        **paths,
    )


def _settings(values: Mapping[str, Any], environ: Mapping[str, str]) -> BuildSettings:
    asked = values["settings"]
    if values["options"] is None:
        return _from_json(BuildSettings, asked)
    known = _from_json(Settings, asked)
    own = BuildSettings.resolve(known.package, values["options"], environ)
    settings = BuildSettings(known.package, {**own.values, **known.values}, {**own.origins, **known.origins})
    return settings.changed("platform", NATIVE, OF_RUN_TIME).changed("drivers", "", Origin("this machine's driver"))


def _from_json(kind: type[AnySettings], values: Mapping[str, Any]) -> AnySettings:
    """The settings that `to_json` described."""
    typed = {name: tuple(each) if isinstance(each, list) else each for name, each in values["values"].items()}
    return kind(values["package"], typed, {name: Origin(*each) for name, each in values["origins"].items()})
