"""The long report of `doctor`: what the loader's says, the toolchain, the installation, settings and variables."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..runtime.commands.doctor import (
    Finding,
    damage,
    failures,
    findings_text,
    if_compiled,
    kernels_text,
    machine_text,
    next_text,
    of_error,
    predict_calls,
    rows_text,
    view_decision,
)
from ..runtime.compiler_process import CompileRequest
from ..runtime.decision.carry_out import compile_request
from ..runtime.decision.decision import Decision, Request
from ..runtime.decision.snapshot import InstalledPackage, Snapshot
from ..runtime.errors import BuildError, KernelWheelError, StoreError, command, from_json
from ..runtime.kernels import Kernels
from ..runtime.machine.host import Host
from ..runtime.store.store import Store
from ..store.build_ahead import preview
from ..store.inventory import UNREADABLE, find_damage, take_inventory
from ..store.temporary_folder import temporary_guard
from . import installation
from .entry_text import entry_text, view_entry
from .manifest_text import manifest_text, settings_text

# Those that change what is found or loaded, and are no options.
VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "XDG_CACHE_HOME")


def run(args: argparse.Namespace, kernels: Kernels) -> int:
    """Print the report; return 1 if something needs attention."""
    view = examine(kernels, os.environ, sys.path)
    print(json.dumps(view, indent=1) if args.json else page(view, kernels))
    return 1 if view["findings"] else 0


def examine(kernels: Kernels, environ: Mapping[str, str], path: Sequence[str]) -> dict[str, Any]:
    """Everything `doctor` reports, as plain JSON values; `findings` are what a person should act on; probes GPUs."""
    import torch

    kernels.probe_gpus()
    package, host = kernels.installed, kernels.host
    stores, findings = look_at_stores(package, host)
    calls, toolchain = predict(package, host)
    findings = [*installation.look(package, Path(torch.__file__).parent, path), *damage(package), *findings]
    findings += failures(calls, host)
    return {
        **kernels.info(),
        "settings": _settings(package),
        "toolchain": toolchain,
        "stores": stores,
        "next": [view_decision(each) for each in calls],
        "variables": {name: environ[name] for name in VARIABLES if environ.get(name)},
        "findings": [finding._asdict() for finding in findings],
    }


def look_at_stores(package: InstalledPackage, host: Host) -> tuple[list[dict[str, Any]], list[Finding]]:
    """The stores with their entries, as plain JSON values, and what is wrong with them."""
    try:
        stores = list(package.stores())
        wanted = package.wanted
    except KernelWheelError as error:  # the settings cannot be read, or no cache folder can be determined
        return [], [of_error(error)]
    if not stores:
        return [], []
    views, findings = [], list(_open_to_others(package.package, stores))
    for store in stores:
        seen = take_inventory(store)
        for entry in seen.entries:
            try:
                damaged = find_damage(entry)
            except UNREADABLE as error:
                findings.append(of_error(error))
                continue
            if damaged:
                verify = f"move it to quarantine: {command(package.package, 'cache verify')}"
                findings.append(Finding("a damaged entry in the store", f"{entry.folder}: {damaged}", verify))
        for refusal in map(of_error, seen.refused):
            findings += [refusal] if refusal not in findings else []
        entries = [view_entry(entry, host, wanted) for entry in seen.entries]
        views.append({"folder": str(store.folder), "own": store.own, "entries": entries})
    return views, findings


def _open_to_others(package: str, stores: Sequence[Store]) -> Iterator[Finding]:
    """The cache folders and temporary folder that other users could change, even if they are empty."""
    for guard in (*(store.guard for store in stores), temporary_guard(package, stores[-1].trust)):
        try:
            guard.check(guard.folder)
        except StoreError as error:
            yield of_error(error)
        except OSError:  # it does not exist, and its parents are safe; or the inventory reports the error
            continue


def predict(package: InstalledPackage, host: Host) -> tuple[list[Decision], Mapping[str, Any] | None]:
    """What the next calls do, and what this machine compiles with, as the compiler says; nothing is compiled.

    There is no toolchain to look for if the package's settings or sources cannot be read.
    """
    snapshot = package.read(host)
    calls = predict_calls(snapshot)
    asked = [_ask(package, snapshot, call.request) if call.outcome == "compile" else None for call in calls]
    requests = [each for each in asked if isinstance(each, CompileRequest)]
    machine = _machine(package, host)
    try:
        found = preview(requests, machine, package.environ) if requests or machine else {"plans": [], "toolchain": None}
    except KernelWheelError as error:
        found = {"plans": [{"error": error.to_json()}] * len(requests), "toolchain": None}
    answers = iter(found["plans"])
    predicted = []
    for call, each in zip(calls, asked, strict=True):
        if isinstance(each, CompileRequest):
            answer = next(answers)
            each = from_json(answer["error"]) if "error" in answer else None
        predicted.append(if_compiled(call, each))
    return predicted, found["toolchain"]


def _require_store(package: InstalledPackage) -> None:
    """Raise the error for a store that what is compiled could not be put into, as far as is seen without making it."""
    store = package.own_store()
    try:
        with suppress(FileNotFoundError):
            store.guard.check(store.root / ".work")
        for folder in (store.root, store.root / ".work"):
            there = next(place for place in (folder, *folder.parents) if place.exists())
            if not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
                if os.statvfs(there).f_flag & os.ST_RDONLY:
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(there))
                raise PermissionError(errno.EACCES, "this user may not make files here", str(there))
    except OSError as error:
        raise store.unwritable(error) from error


def _ask(package: InstalledPackage, snapshot: Snapshot, request: Request) -> CompileRequest | KernelWheelError:
    """What the compiler would be asked, or what prevents that."""
    try:
        _require_store(package)
        return compile_request(snapshot, request, package.settings)
    except KernelWheelError as error:
        return error


def _machine(package: InstalledPackage, host: Host) -> CompileRequest | None:
    """What to look for a toolchain for; None if the package's settings or sources say nothing."""
    try:
        source, content = package.source, package.wanted.content
        if source is None or content is None:
            return None
        return CompileRequest(content, source.folder, package.settings, source.options, host.driver)
    except KernelWheelError:  # `look_at_stores` reports it as a finding
        return None


def _settings(package: InstalledPackage) -> dict[str, dict[str, Any]]:
    try:
        settings = package.settings
    except BuildError:  # `look_at_stores` reports it as a finding
        return {}
    return {name: {"value": settings.values[name], "origin": str(each)} for name, each in settings.origins.items()}


def page(view: Mapping[str, Any], kernels: Kernels) -> str:
    """The report as text."""
    lines = [*machine_text(kernels.host), ""]
    if view["toolchain"]:
        lines += ["and compiles with", _toolchain_text(view["toolchain"]), ""]
    if kernels.installed.manifest:
        lines += [manifest_text(kernels.installed.manifest), ""]
    lines += kernels_text(kernels)
    for store in view["stores"]:
        lines += ["", f"{'The store' if store['own'] else 'A read-only store'} {store['folder']}"]
        lines += [f"  {entry_text(entry)}" for entry in store["entries"]] or ["  nothing"]
    lines += ["", *next_text(view)]
    lines += ["", "Settings", rows_text([("", settings_text(view["settings"]))])]
    if view["variables"]:
        lines += ["", "Set in the environment", rows_text(list(view["variables"].items()))]
    return "\n".join([*lines, "", *findings_text(view)])


def _toolchain_text(view: Mapping[str, Any]) -> str:
    rows = [(name, value) for name, value in view.items() if isinstance(value, str)]
    shown = []
    for candidate in view["candidates"]:
        shown.append(f"{candidate['origin']}: {candidate['place']}: {candidate['outcome']}")
        if candidate["taken"]:
            break  # the rest does not matter; --json includes it
    return rows_text([*rows, *([("nvcc", "\n".join(shown))] if shown else [])])
