"""The `cache` subcommands of a package: list, path, build, explain, verify, prune, clear, export, import.

Exit status: 0 for success, 1 for a finding or an error, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from ..core import progress
from ..core.errors import IncompatibleArtifactError, KernelWheelError, command
from ..loader import obtain
from ..loader.installed import InstalledPackage
from ..loader.kernels import Kernels
from ..loader.selection import Request, against
from ..store import maintenance, transfer
from ..store.artifact import Artifact
from ..store.entries import Store
from ..store.inventory import take_inventory
from ..store.maintenance import Cleaning, Policy
from ..store.publishing import DAY
from .cache_arguments import add_arguments as add_arguments
from .explain import Explanation, explain
from .presentation import (
    call_row,
    entry_text,
    rows_text,
    selection_row,
    size_text,
    targets_text,
    view_entry,
    view_selection,
)


def run(args: argparse.Namespace, kernels: Kernels) -> int:
    """Run a subcommand on a package's kernels, print its result and return the exit status."""
    try:
        return COMMANDS[args.cache_command](args, kernels)
    except KernelWheelError as error:
        print(f"{kernels.installed.package}: {error}", file=sys.stderr)
        return 1


def _show(args: argparse.Namespace, view: dict[str, Any], text: str) -> None:
    print(json.dumps(view, indent=1) if args.json else text)


def _own(package: InstalledPackage) -> Store:
    *_, store = package.stores()
    return store


def _list(args: argparse.Namespace, kernels: Kernels) -> int:
    kernels.probe_gpus()
    package = kernels.installed
    stores, lines, finding = [], [], False
    for store in package.stores():
        seen = take_inventory(store)
        entries = [view_entry(entry, kernels.host, package.wanted) for entry in seen.entries]
        refused = [str(error) for error in seen.refused]
        stores.append({"folder": str(store.folder), "own": store.own, "entries": entries, "refused": refused})
        lines.append(f"{store.folder}{'' if store.own else ' (read-only)'}")
        lines += [f"  {entry_text(entry, time.time())}" for entry in entries] or ["  nothing"]
        lines += refused
        finding = finding or bool(refused) or any(entry["damage"] or entry["unread"] for entry in entries)
    _show(args, {"package": package.package, "version": package.version, "stores": stores}, "\n".join(lines))
    return int(finding)


def _path(args: argparse.Namespace, kernels: Kernels) -> int:
    store = _own(kernels.installed)
    _show(args, {"path": str(store.folder), "version": str(store.root)}, str(store.folder))
    return 0


def _wants_cuda(args: argparse.Namespace, kernels: Kernels) -> bool:
    said = {"on": True, "off": False}.get(args.cuda)
    cuda = obtain.wants_cuda(kernels.installed, kernels.host) if said is None else said
    if cuda and kernels.host.capabilities is None:
        kernels.probe_gpus()
    return cuda


def _build(args: argparse.Namespace, kernels: Kernels) -> int:
    cuda = _wants_cuda(args, kernels)
    with progress.shown(kernels.installed.package) as say:
        artifact, compiled = obtain.build(kernels.installed, kernels.host, cuda, args.archs or "", say)
    targets = targets_text(artifact.manifest)
    view = {
        "compiled": compiled,
        "folder": str(artifact.folder),
        "fingerprint": artifact.manifest.fingerprint,
        "kernels": targets,
    }
    where = "the wheel" if artifact.store is None else "a store"
    how = "compiled" if compiled else f"nothing to compile, {where} has it"
    _show(args, view, f"{how}: {targets}\n{artifact.folder}")
    return 0


def _explain(args: argparse.Namespace, kernels: Kernels) -> int:
    explanation = explain(kernels.installed, kernels.host, _wants_cuda(args, kernels), args.archs or "")
    nearest = explanation.nearest
    view = {
        "device": explanation.device,
        "found": str(explanation.found) if explanation.found else None,
        "next": [view_selection(*each) for each in explanation.calls],
        "build": view_selection(explanation.foreseen.build),
        "fingerprint": explanation.foreseen.fingerprint,
        "no_plan": str(explanation.foreseen.no_plan) if explanation.foreseen.no_plan else None,
        "nearest": str(nearest.folder) if nearest else None,
        "differences": [asdict(difference) for difference in explanation.differences],
        "candidates": [
            {
                "folder": str(each.folder),
                "damage": each.damage or None,
                "mismatches": [mismatch._asdict() for mismatch in each.mismatches],
            }
            for each in explanation.examined
        ],
    }
    _show(args, view, _explanation_text(explanation))
    return 0 if explanation.found else 1


def _explanation_text(explanation: Explanation) -> str:
    device = explanation.device.upper()
    lines = [f"{device} kernels: " + (f"in {explanation.found}" if explanation.found else "not found")]
    rows = [call_row(view_selection(*each)) for each in explanation.calls]
    rows.append(selection_row("cache build", view_selection(explanation.foreseen.build)))
    lines += ["the next call", rows_text(rows)]
    if explanation.foreseen.fingerprint:
        lines.append(f"compiling now would make {explanation.foreseen.fingerprint[:12]}")
    else:
        no_plan = str(explanation.foreseen.no_plan).splitlines()
        lines += ["nothing can be compiled here:", *(f"  {line}" for line in no_plan)]
    if explanation.nearest and not explanation.found:
        lines.append(f"nearest: {explanation.nearest.folder}")
        lines += [f"  {difference}" for difference in explanation.differences]
    for each in explanation.examined:
        worth = "damaged: " + each.damage if each.damage else ""
        lines.append(f"{each.folder}: {worth or ('does not fit' if each.mismatches else 'fits')}")
        lines += [f"  {m.dimension}: required {m.required}; found {m.found}" for m in each.mismatches]
    if not explanation.examined:
        lines.append("there are no entries of any version, and no Artifact in the package")
    return "\n".join(lines)


def _verify(args: argparse.Namespace, kernels: Kernels) -> int:
    count, damaged, refused = 0, [], []
    for store in kernels.installed.stores():
        seen, found = maintenance.verify_entries(store)
        count += len(seen.entries)
        refused += [str(error) for error in seen.refused]
        damaged += [
            {"folder": str(d.entry.folder), "damage": d.damage, "moved": str(d.moved) if d.moved else None}
            for d in found
        ]
    lines = [f"{count - len(damaged)} of {count} entries are intact", *refused]
    for each in damaged:
        lines += [f"damaged: {each['folder']}", f"  {each['damage']}"]
        lines.append(f"  {'moved to ' + each['moved'] if each['moved'] else 'left in place'}")
    _show(args, {"checked": count, "damaged": damaged, "refused": refused}, "\n".join(lines))
    return 1 if damaged or refused else 0


def _prune(args: argparse.Namespace, kernels: Kernels) -> int:
    named = args.foreign_versions or args.older_than is not None or args.max_size is not None
    policy = Policy(
        foreign_versions=args.foreign_versions or not named,
        older_than=None if args.older_than is None else args.older_than * DAY,
        max_size=None if args.max_size is None else int(args.max_size * 1e6),
    )
    cleaning = maintenance.prune(_own(kernels.installed), policy, time.time(), args.dry_run)
    return _show_cleaning(args, cleaning, "would free" if args.dry_run else "freed")


def _clear(args: argparse.Namespace, kernels: Kernels) -> int:
    return _show_cleaning(args, maintenance.clear(_own(kernels.installed), args.all_versions), "freed")


def _show_cleaning(args: argparse.Namespace, cleaning: Cleaning, verb: str) -> int:
    view = {
        "freed": cleaning.freed,
        "removed": [asdict(removed) for removed in cleaning.removed],
        "skipped": list(cleaning.skipped),
    }
    lines = [f"{r.kind}  {r.version}  {r.name[:12]}  {size_text(r.size)}  {r.because}" for r in cleaning.removed]
    lines += [f"left alone: {reason}" for reason in cleaning.skipped]
    lines.append(f"{verb} {size_text(cleaning.freed)}")
    _show(args, view, "\n".join(lines))
    return 1 if cleaning.skipped else 0


def _export(args: argparse.Namespace, kernels: Kernels) -> int:
    entry = _chosen(kernels, args.fingerprint)
    try:
        transfer.export(entry, args.file)
    except OSError as error:
        print(f"{kernels.installed.package}: {args.file} cannot be written: {error}", file=sys.stderr)
        return 1
    size = args.file.stat().st_size
    view = {"file": str(args.file), "size": size, "fingerprint": entry.manifest.fingerprint}
    _show(args, view, f"{args.file}: {targets_text(entry.manifest)}, {size_text(size)}")
    return 0


def _chosen(kernels: Kernels, prefix: str | None) -> Artifact:
    """The Artifact with a fingerprint; by default the one that a CUDA call here would use, or else a CPU call."""
    package = kernels.installed
    at_hand: dict[str, Artifact] = {}
    for artifact in package.candidates():
        at_hand.setdefault(artifact.manifest.fingerprint, artifact)
    if prefix is None:
        kernels.probe_gpus()
        for device in ("cuda", "cpu") if kernels.host.cuda else ("cpu",):
            for artifact in at_hand.values():
                if not against(artifact, Request(device), kernels.host, package.wanted):
                    return artifact
        wanted = "kernels that fit this machine"
    else:
        matching = [artifact for name, artifact in at_hand.items() if name.startswith(prefix)]
        if len(matching) == 1:
            return matching[0]
        wanted = f"one Artifact of {package.package} {package.version} whose fingerprint starts with {prefix}"
    raise IncompatibleArtifactError(
        "there is nothing to export",
        required=wanted,
        found="\n".join(f"{name[:12]}: {targets_text(f.manifest)}" for name, f in at_hand.items()) or "none",
        remedies=[
            f"choose one: {command(package.package)} cache list",
            f"or compile one: {command(package.package)} cache build",
        ],
    )


def _import(args: argparse.Namespace, kernels: Kernels) -> int:
    with progress.shown(kernels.installed.package) as say:
        entry = transfer.import_file(args.file, _own(kernels.installed), say)
    kernels.probe_gpus()
    mismatches = [m.dimension for m in against(entry, Request("cuda"), kernels.host, kernels.installed.wanted)]
    view = {"folder": str(entry.folder), "fingerprint": entry.manifest.fingerprint, "mismatches": mismatches}
    worth = "does not fit this machine: " + ", ".join(mismatches) if mismatches else "fits this machine"
    _show(args, view, f"{targets_text(entry.manifest)}; {worth}\n{entry.folder}")
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace, Kernels], int]] = {
    "list": _list,
    "path": _path,
    "build": _build,
    "explain": _explain,
    "verify": _verify,
    "prune": _prune,
    "clear": _clear,
    "export": _export,
    "import": _import,
}
