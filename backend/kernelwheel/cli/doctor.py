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

from ..compiler import run_time
from ..compiler.toolchain.cuda import decide_cuda
from ..compiler.toolchain.cxx import find_cxx
from ..compiler.toolchain.nvcc import NvccCandidate
from ..compiler.toolchain.torch_files import find_torch
from ..compiler.work_folder import temporary_guard
from ..core.errors import BuildError, IncompatibleArtifactError, KernelWheelError, StoreError, command
from ..core.host import Host
from ..loader.installed import InstalledPackage
from ..loader.kernels import Kernels
from ..store.entries import Store
from ..store.inventory import UNREADABLE, find_damage, take_inventory
from . import installation
from .foresight import list_nvccs, next_build, next_calls
from .installation import Finding, Installation
from .presentation import (
    call_row,
    decision_row,
    entry_text,
    manifest_text,
    rows_text,
    settings_text,
    verdict_text,
    view_decision,
    view_entry,
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
    nvccs = list_nvccs(package, host, environ, path)
    calls = list(next_calls(package, host, nvccs))
    findings = [*installation.look(_installation(package, path), environ), *_damage(package), *findings]
    for decision, _ in calls:
        # Without a GPU, CUDA calls are expected to fail.
        if decision.error and (decision.device == "cpu" or host.capabilities):
            remedies = "; ".join(decision.error.remedies)
            findings.append(Finding(f"{decision.device.upper()} calls fail", decision.because, remedies))
    return {
        **kernels.info(),
        "settings": _settings(package),
        "toolchain": _toolchain(package, host, environ, path, nvccs),
        "stores": stores,
        "next": [view_decision(*each) for each in calls],
        "build": view_decision(next_build(package, host, nvccs)),
        "variables": installation.variables(package.package, environ),
        "findings": [asdict(finding) for finding in findings],
    }


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


def _toolchain(
    package: InstalledPackage,
    host: Host,
    environ: Mapping[str, str],
    path: Sequence[str],
    nvccs: Sequence[NvccCandidate] | None,
) -> dict[str, Any]:
    """Look for each part separately, so that a missing one does not hide the others."""
    view: dict[str, Any] = {"candidates": []}
    try:
        chosen = package.settings
    except BuildError as error:
        return {**view, "settings": str(error)}
    view.update({name: state for name, state in run_time.find_tools().items() if state != run_time.INSTALLED})
    taken = None
    try:
        torch = find_torch()
        view["torch"] = f"{torch.root}: {torch.version}"
        decision = decide_cuda(chosen, torch, environ, path, nvccs, run_time.nvcc_limits(package.source, host))
        view["cuda"], taken = decision.reason, decision.nvcc
    except BuildError as error:
        view["cuda"] = error.problem
    for each in nvccs or ():
        seen = {"origin": each.origin, "place": each.place, "outcome": each.outcome, "usable": each.nvcc is not None}
        view["candidates"].append({**seen, "taken": taken is not None and each.nvcc is taken})
    try:
        cxx = find_cxx(chosen, environ, taken)
        view["cxx"] = "\n".join([*cxx.passed_over, f"{cxx.path}: {cxx.kind} {cxx.version}"])
    except BuildError as error:
        view["cxx"] = str(error)
    return view


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
    build = [decision_row("cache build", view["build"])]
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
