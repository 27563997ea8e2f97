"""The report of `doctor` on this machine and its kernels, as values and as text."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..core.errors import BuildError, IncompatibleArtifactError, KernelWheelError, StoreError, command
from ..core.host import Host
from ..loader.installed import InstalledPackage
from ..loader.kernels import Kernels
from ..store.entries import Store
from ..store.inventory import UNREADABLE, find_damage, take_inventory
from ..store.places import temporary_guard
from . import installation
from .foresight import look_ahead
from .installation import Finding, Installation
from .presentation import (
    call_row,
    entry_text,
    manifest_text,
    rows_text,
    selection_row,
    settings_text,
    verdict_text,
    view_entry,
    view_selection,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `doctor`."""
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def run(args: argparse.Namespace, kernels: Kernels) -> int:
    """Print the page; return 1 if something needs attention."""
    view = examine(kernels, os.environ, sys.path)
    print(json.dumps(view, indent=1) if args.json else page(view, kernels))
    return 1 if view["findings"] else 0


def examine(kernels: Kernels, environ: Mapping[str, str], path: Sequence[str]) -> dict[str, Any]:
    """Everything `doctor` reports, as plain JSON values; `findings` are what a person should act on.

    Args:
        kernels: the package's kernels in this process; the GPUs are probed here.
        environ: the process environment, for the compilers' PATH and for variables that change what is found.
        path: sys.path.
    """
    kernels.probe_gpus()
    package, host = kernels.installed, kernels.host
    stores, findings = _stores(package, host)
    ahead = look_ahead(package, host, whole=True)
    findings = [*installation.look(_installation(package, path), environ), *_damage(package), *findings]
    for call, _ in ahead.calls:
        # Without a GPU, CUDA calls are expected to fail.
        if call.error and (call.device == "cpu" or host.capabilities):
            findings.append(Finding(f"{call.device.upper()} calls fail", call.because, "; ".join(call.error.remedies)))
    return {
        **kernels.info(),
        "settings": _settings(package),
        "toolchain": ahead.toolchain or _no_toolchain(package),
        "stores": stores,
        "next": [view_selection(*each) for each in ahead.calls],
        "build": view_selection(ahead.build),
        "variables": installation.variables(package.package, environ),
        "findings": [asdict(finding) for finding in findings],
    }


def _no_toolchain(package: InstalledPackage) -> dict[str, Any]:
    """What stands in place of the toolchain where nothing says what to look for."""
    try:
        _ = package.settings
    except BuildError as error:
        return {"candidates": [], "settings": str(error)}
    return {"candidates": [], "sources": "none are installed to compile from"}


def _settings(package: InstalledPackage) -> dict[str, dict[str, Any]]:
    try:
        return package.settings.effective()
    except BuildError:  # `_stores` reports it as a finding
        return {}


def _installation(package: InstalledPackage, path: Sequence[str]) -> Installation:
    import torch

    return Installation(
        package.package,
        package.version,
        package.folder.parent,
        package.manifest,
        Path(torch.__file__).parent,
        path,
        (Path(sys.prefix), Path(sys.base_prefix)),
    )


def _damage(package: InstalledPackage) -> Iterator[Finding]:
    """What is wrong with the wheel's Artifact, including CUDA libraries that are not loaded yet."""
    try:
        if damage := package.damage:
            raise damage
        if package.artifact:
            package.artifact.verify()
    except IncompatibleArtifactError as error:
        yield Finding(error.problem, error.found, "; ".join(error.remedies))


def _stores(package: InstalledPackage, host: Host) -> tuple[list[dict[str, Any]], list[Finding]]:
    try:
        stores = list(package.stores())
    except KernelWheelError as error:  # the settings cannot be read, or no cache folder can be determined
        return [], [Finding(error.problem, error.found, "; ".join(error.remedies))]
    views_of, findings = [], list(_open_to_others(package.package, stores))
    for store in stores:
        seen = take_inventory(store)
        for entry in seen.entries:
            try:
                damage = find_damage(entry)
            except UNREADABLE as error:
                findings.append(Finding(error.problem, error.found, "; ".join(error.remedies)))
                continue
            if damage:
                verify = f"move it to quarantine: {command(package.package)} cache verify"
                findings.append(Finding("a damaged entry in the store", f"{entry.folder}: {damage}", verify))
        for refusal in seen.refused:
            finding = Finding(refusal.problem, refusal.found, "; ".join(refusal.remedies))
            findings += [finding] if finding not in findings else []
        entries = [view_entry(entry, host, package.wanted) for entry in seen.entries]
        views_of.append({"folder": str(store.folder), "own": store.own, "entries": entries})
    return views_of, findings


def _open_to_others(package: str, stores: Sequence[Store]) -> Iterator[Finding]:
    """The cache folders and temporary folder that other users could change, even if they are empty."""
    for guard in (*(store.guard for store in stores), temporary_guard(package, stores[-1].trust)):
        try:
            guard.check(guard.folder)
        except StoreError as error:
            yield Finding(error.problem, error.found, "; ".join(error.remedies))
        except OSError:  # it does not exist, and its parents are safe; or the inventory reports the error
            continue


def page(view: Mapping[str, Any], kernels: Kernels) -> str:
    """The page that `doctor` prints."""
    package, host = kernels.installed, kernels.host
    gpus = ", ".join("{}.{}".format(*capability) for capability in host.capabilities or ())
    runs = [
        ("platform", f"{host.platform}, {host.libc}, {host.libstdcxx}"),
        ("torch", f"{host.torch}, CUDA {host.cuda or 'none'}"),
        ("driver", "CUDA {}.{}".format(*host.driver) if host.driver else "none"),
        ("GPUs", f"compute capability {gpus}" if gpus else "none"),
    ]
    parts = [
        "This machine has",
        rows_text(runs),
        "",
        "and compiles with",
        _toolchain_text(view["toolchain"]),
    ]
    parts += ["", f"{package.package} {package.version}: {package.folder}"]
    if package.manifest:
        parts.append(manifest_text(package.manifest))
        parts.append(verdict_text(package.mismatches(host)))
    elif not package.damage:
        parts.append("  no kernels are installed with the package, as in an editable install")
    for store in view["stores"]:
        parts += ["", f"{'The store' if store['own'] else 'A read-only store'} {store['folder']}"]
        parts += [f"  {entry_text(entry, time.time())}" for entry in store["entries"]] or ["  nothing"]
    build = [selection_row("cache build", view["build"])]
    parts += [
        "",
        "The next call",
        rows_text([*(call_row(each) for each in view["next"]), *build]),
    ]
    parts += ["", "Settings", rows_text([("", settings_text(view["settings"]))])]
    if view["variables"]:
        parts += ["", "Set in the environment", rows_text(list(view["variables"].items()))]
    parts += ["", "Findings" if view["findings"] else "No findings"]
    parts += [str(Finding(**finding)) for finding in view["findings"]]
    return "\n".join(parts)


def _toolchain_text(view: Mapping[str, Any]) -> str:
    rows = [(name, value) for name, value in view.items() if isinstance(value, str)]
    shown = []
    for candidate in view["candidates"]:
        shown.append(f"{candidate['origin']}: {candidate['place']}: {candidate['outcome']}")
        if candidate["taken"]:
            break  # the rest does not matter; --json includes it
    return rows_text([*rows, *([("nvcc", "\n".join(shown))] if shown else [])])
