"""Predictions of what the next call and the next `cache build` will do, for `doctor` and `cache explain`."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..runtime import compiler_process
from ..runtime.artifact import Artifact
from ..runtime.compile_into_store import compile_request
from ..runtime.doctor import foresee_calls, if_compiled
from ..runtime.errors import KernelWheelError, from_json
from ..runtime.find import foresee
from ..runtime.host import Host
from ..runtime.installed import InstalledPackage
from ..runtime.inventory import UNREADABLE
from ..runtime.platforms import require_supported
from ..runtime.request import CompileRequest
from ..runtime.selection import Request, Selection, failed
from ..runtime.settings import Settings
from . import cache_build


@dataclass(frozen=True)
class Foresight:
    """What a package's next calls and builds do.

    Attributes:
        calls: the next call on the CPU, and on each compute capability among the visible GPUs.
        build: what `cache build` will do.
        plan: what it would compile, as plain JSON values; None if no Plan can be drawn up, or nothing was asked.
        fingerprint: that of the Plan.
        no_plan: why no Plan can be drawn up.
        toolchain: what this machine compiles with, as the compiler says.
    """

    calls: tuple[Selection, ...]
    build: Selection
    plan: Mapping[str, Any] | None
    fingerprint: str | None
    no_plan: KernelWheelError | None
    toolchain: Mapping[str, Any] | None


class _Asked(NamedTuple):
    """What the compiler was asked, and what it answered: JSON of a Plan, or an error."""

    request: CompileRequest | None
    refused: KernelWheelError | None = None
    answer: Mapping[str, Any] | None = None

    @property
    def error(self) -> KernelWheelError | None:
        if self.refused:
            return self.refused
        return from_json(self.answer["error"]) if self.answer and "error" in self.answer else None


def predict(
    package: InstalledPackage, host: Host, cuda: bool | None = None, archs: str = "", whole: bool = False
) -> Foresight:
    """Predict the next calls, and `cache build` with the same arguments; nothing is compiled or changed.

    Args:
        package: the package whose kernels are called.
        host: the machine, including its GPUs.
        cuda: with CUDA kernels or without; None: as the command does by default.
        archs: the architectures to serve, as in `cache_build.build`.
        whole: whether to draw up the build's Plan, and look for the toolchain, even if nothing would be compiled.
    """
    calls = foresee_calls(package, host)
    build, build_request = _build(package, host, cuda, archs)
    asked = [
        _asked(package, host, call.request, package.settings) if call.outcome == "compile" else _Asked(None)
        for call in calls
    ]
    wanted = build_request is not None and (whole or build.outcome == "compile")
    settings = cache_build.build_settings(package, archs) if wanted else None
    asked.append(_asked(package, host, build_request, settings) if build_request and settings else _Asked(None))
    asked, toolchain = _answered(asked, _machine(package, host) if whole else None, package.environ)
    of_build, no_store = asked[-1], _no_store(package)
    return Foresight(
        tuple(if_compiled(call, no_store or each.error) for call, each in zip(calls, asked, strict=False)),
        (None if no_store else _of_the_very_plan(package, build, of_build))
        or if_compiled(build, no_store or of_build.error),
        of_build.answer.get("plan") if of_build.answer else None,
        of_build.answer.get("fingerprint") if of_build.answer else None,
        of_build.error,
        toolchain,
    )


def _build(package: InstalledPackage, host: Host, cuda: bool | None, archs: str) -> tuple[Selection, Request | None]:
    device = "cpu"
    try:
        device = "cuda" if (cache_build.wants_cuda(package, host) if cuda is None else cuda) else "cpu"
        request = cache_build.build_request(package, host, device == "cuda", archs)
    except KernelWheelError as error:
        return failed(Request(device), error), None
    return foresee(package, host, request, Artifact.verify), request


def _asked(package: InstalledPackage, host: Host, request: Request, settings: Settings) -> _Asked:
    try:
        return _Asked(compile_request(package, host, request, settings))
    except KernelWheelError as error:
        return _Asked(None, error)


def _no_store(package: InstalledPackage) -> KernelWheelError | None:
    """Why nothing that is compiled could be stored, as far as can be seen without making anything."""
    try:
        require_supported()
        store = package.own_store()
    except KernelWheelError as error:
        return error
    try:
        with suppress(FileNotFoundError):
            store.guard.check(store.root / ".work")
        for folder in (store.root, store.root / ".work"):
            there = next(place for place in (folder, *folder.parents) if place.exists())
            if not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
                if os.statvfs(there).f_flag & os.ST_RDONLY:
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(there))
                raise PermissionError(errno.EACCES, "this user may not make files here", str(there))
    except KernelWheelError as error:
        return error
    except OSError as error:
        return store.unwritable(error)
    return None


def _machine(package: InstalledPackage, host: Host) -> CompileRequest | None:
    """What to look for a toolchain for; None if the package's settings or sources say nothing."""
    try:
        source, content = package.source, package.wanted.content
        if source is None or content is None:
            return None
        return CompileRequest(content, source.folder, package.settings, source.options, host.driver)
    except KernelWheelError:  # whoever needs them gets the same error
        return None


def _answered(
    asked: list[_Asked], machine: CompileRequest | None, environ: Mapping[str, str]
) -> tuple[list[_Asked], Mapping[str, Any] | None]:
    requests = [each.request for each in asked if each.request]
    if not requests and machine is None:
        return asked, None
    try:
        question = {"requests": [each.to_json() for each in requests], "machine": machine and machine.to_json()}
        told = compiler_process.send({"dry-run": question}, lambda line: None, environ)
    except KernelWheelError as error:
        return [each._replace(refused=error) if each.request else each for each in asked], None
    answers = iter(told["plans"])
    return [each._replace(answer=next(answers)) if each.request else each for each in asked], told["toolchain"]


def _of_the_very_plan(package: InstalledPackage, build: Selection, asked: _Asked) -> Selection | None:
    """The entry of exactly the build's Plan, if it exists: only the Plan knows the default architectures."""
    if build.outcome != "compile" or asked.answer is None or "fingerprint" not in asked.answer:
        return None
    store = package.own_store()
    try:
        artifact = store.read(store.root / asked.answer["fingerprint"])
        artifact.verify()
    except UNREADABLE as error:
        return failed(build.request, error)
    except KernelWheelError:  # missing, or damaged: then a build quarantines it
        return None
    return Selection(build.request, "load", "the store already has what would be compiled", artifact)
