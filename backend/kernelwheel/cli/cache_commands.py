"""The `cache` commands of any package: list, verify, build, explain, prune, export, import, and the loader's.

Exit status: 0 for success, 1 for a finding or an error, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

from ..project import arch_choice
from ..runtime import progress
from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.content import part_made
from ..runtime.commands import own_commands
from ..runtime.commands.doctor import targets_text
from ..runtime.commands.own_commands import OF_KERNELWHEEL, Command, add_json, show, show_cleaning, size_text
from ..runtime.decision.decision import Request, against
from ..runtime.errors import IncompatibleArtifactError, SettingsError, command
from ..runtime.kernels import Kernels
from ..runtime.store.store_lock import DAY
from ..store import build_ahead, pruning, transfer
from ..store.inventory import take_inventory
from ..store.verification import verify_entries
from . import explain
from .entry_text import entry_text, view_entry
from .inspection import existing_file


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
        lines += [f"  {entry_text(entry)}" for entry in entries] or ["  nothing"]
        lines += refused
        finding = finding or bool(refused) or any(entry["damage"] or entry["unread"] for entry in entries)
    show(args, {"package": package.package, "version": package.version, "stores": stores}, "\n".join(lines))
    return int(finding)


def _verify(args: argparse.Namespace, kernels: Kernels) -> int:
    count, damaged, refused = 0, [], []
    for store in kernels.installed.stores():
        seen, found = verify_entries(store)
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
    show(args, {"checked": count, "damaged": damaged, "refused": refused}, "\n".join(lines))
    return 1 if damaged or refused else 0


def _build(args: argparse.Namespace, kernels: Kernels) -> int:
    views: list[dict[str, Any]] = []
    lines: list[str] = []
    for request in explain.requested(args, kernels)[1]:
        artifact, compiled = build_ahead.build(kernels.installed, kernels.host, request, args.archs or "")
        part, targets = request.part, targets_text(artifact.manifest)
        if views and (views[-1]["part"], views[-1]["folder"]) == (part, str(artifact.folder)):
            continue  # it serves both devices
        view = {
            "part": part,
            "compiled": compiled,
            "folder": str(artifact.folder),
            "fingerprint": artifact.manifest.fingerprint,
            "kernels": targets,
        }
        where = "the wheel" if artifact.guard is None else "a store"
        how = "compiled" if compiled else f"nothing to compile, {where} has it"
        views.append(view)
        lines += [f"{how}: {f'{part}: ' if part else ''}{targets}", str(artifact.folder)]
    show(args, explain.together(views), "\n".join(lines))
    return 0


def _prune(args: argparse.Namespace, kernels: Kernels) -> int:
    older_than = None if args.older_than is None else args.older_than * DAY
    return show_cleaning(args, *pruning.prune(kernels.installed.own_store(), older_than, time.time()))


def _export(args: argparse.Namespace, kernels: Kernels) -> int:
    entry = _chosen(kernels, args.fingerprint)
    try:
        transfer.export(entry, args.file)
    except OSError as error:
        print(f"{kernels.installed.package}: {args.file} cannot be written: {error}", file=sys.stderr)
        return 1
    size = args.file.stat().st_size
    view = {"file": str(args.file), "size": size, "fingerprint": entry.manifest.fingerprint}
    show(args, view, f"{args.file}: {targets_text(entry.manifest)}, {size_text(size)}")
    return 0


def _chosen(kernels: Kernels, prefix: str | None) -> Artifact:
    """The Artifact with a fingerprint; by default the one that a CUDA call here would use, or else a CPU call."""
    package = kernels.installed
    if prefix is None:
        kernels.probe_gpus()
    snapshot = package.read(kernels.host)
    if snapshot.error:
        raise snapshot.error
    at_hand: dict[str, Artifact] = {}
    for each in snapshot.candidates:
        if isinstance(each, Artifact):
            at_hand.setdefault(each.manifest.fingerprint, each)
    if prefix is None:
        for device in ("cuda", "cpu") if kernels.host.cuda else ("cpu",):
            for artifact in at_hand.values():
                if not against(snapshot, Request(device, part=snapshot.parts[0]), artifact):
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
            f"choose one: {command(package.package, 'cache list')}",
            f"or compile one: {command(package.package, 'cache build')}",
        ],
    )


def _import(args: argparse.Namespace, kernels: Kernels) -> int:
    say = progress.printer(kernels.installed.package)
    entry = transfer.import_file(args.file, kernels.installed.own_store(), say)
    kernels.probe_gpus()
    snapshot = kernels.installed.read(kernels.host)
    request = Request("cuda", part=part_made(entry.manifest.content))
    mismatches = [m.dimension for m in against(snapshot, request, entry)]
    view = {"folder": str(entry.folder), "fingerprint": entry.manifest.fingerprint, "mismatches": mismatches}
    worth = "does not fit this machine: " + ", ".join(mismatches) if mismatches else "fits this machine"
    show(args, view, f"{targets_text(entry.manifest)}; {worth}\n{entry.folder}")
    return 0


def _build_options(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument(
        "--archs",
        type=_archs,
        metavar="LIST",
        help="CUDA architectures, as in TORCH_CUDA_ARCH_LIST; default: the visible GPUs, or else a wheel's list",
    )
    parser.add_argument(
        "--cuda",
        choices=("on", "off"),
        help="with or without CUDA kernels; default: on if torch has CUDA and the option cuda is not off",
    )
    parser.add_argument(
        "--only", action="append", metavar="PART", help="this part of the package, of those declared in its tables"
    )


def _prune_options(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument(
        "--older-than", type=_number, metavar="DAYS", help="remove entries that are older, of any version, instead"
    )


def _export_options(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument(
        "--fingerprint", type=_fingerprint, metavar="PREFIX", help="export the entry with this fingerprint instead"
    )


def _import_options(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("file", type=existing_file, metavar="FILE")


COMMANDS = {
    **own_commands.COMMANDS,
    "list": Command(_list, OF_KERNELWHEEL["list"]),
    "verify": Command(_verify, OF_KERNELWHEEL["verify"]),
    "build": Command(_build, OF_KERNELWHEEL["build"], _build_options),
    "explain": Command(explain.run, OF_KERNELWHEEL["explain"], _build_options),
    "prune": Command(_prune, OF_KERNELWHEEL["prune"], _prune_options),
    "export": Command(_export, OF_KERNELWHEEL["export"], _export_options),
    "import": Command(_import, OF_KERNELWHEEL["import"], _import_options),
}


def _archs(text: str) -> str:
    try:
        arch_choice.parse(text, "--archs")
    except SettingsError as error:
        raise argparse.ArgumentTypeError(f"{error.problem}; {error.remedies[0]}") from None
    return text


def _number(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a non-negative number")
    return float(text)


def _fingerprint(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{4,64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a fingerprint prefix: 4 to 64 characters from 0-9 and a-f")
    return text
