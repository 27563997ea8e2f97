"""The `cache` commands of any package: the loader's, and build, explain, prune, export, import.

Exit status: 0 for success, 1 for a finding or an error, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path

from ..project import arch_choice
from ..runtime import cache_commands, progress
from ..runtime.artifact import Artifact
from ..runtime.cache_commands import Command, add_json, show, show_cleaning
from ..runtime.errors import IncompatibleArtifactError, SettingsError, command
from ..runtime.kernels import Kernels
from ..runtime.presentation import call_row, rows_text, selection_row, size_text, targets_text, view_selection
from ..runtime.selection import Request, against
from ..runtime.store_lock import DAY
from ..store import pruning, transfer
from ..store.pruning import Policy
from . import cache_build
from .explain import Explanation, explain
from .inspection import existing_file


def _wants_cuda(args: argparse.Namespace, kernels: Kernels) -> bool:
    said = {"on": True, "off": False}.get(args.cuda)
    cuda = cache_build.wants_cuda(kernels.installed, kernels.host) if said is None else said
    if cuda and kernels.host.capabilities is None:
        kernels.probe_gpus()
    return cuda


def _build(args: argparse.Namespace, kernels: Kernels) -> int:
    cuda = _wants_cuda(args, kernels)
    say = progress.printer(kernels.installed.package)
    artifact, compiled = cache_build.build(kernels.installed, kernels.host, cuda, args.archs or "", say)
    targets = targets_text(artifact.manifest)
    view = {
        "compiled": compiled,
        "folder": str(artifact.folder),
        "fingerprint": artifact.manifest.fingerprint,
        "kernels": targets,
    }
    where = "the wheel" if artifact.store is None else "a store"
    how = "compiled" if compiled else f"nothing to compile, {where} has it"
    show(args, view, f"{how}: {targets}\n{artifact.folder}")
    return 0


def _explain(args: argparse.Namespace, kernels: Kernels) -> int:
    explanation = explain(kernels.installed, kernels.host, _wants_cuda(args, kernels), args.archs or "")
    nearest = explanation.nearest
    view = {
        "device": explanation.device,
        "found": str(explanation.found) if explanation.found else None,
        "next": [view_selection(each) for each in explanation.calls],
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
    show(args, view, _explanation_text(explanation))
    return 0 if explanation.found else 1


def _explanation_text(explanation: Explanation) -> str:
    device = explanation.device.upper()
    lines = [f"{device} kernels: " + (f"in {explanation.found}" if explanation.found else "not found")]
    rows = [call_row(view_selection(each)) for each in explanation.calls]
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


def _prune(args: argparse.Namespace, kernels: Kernels) -> int:
    named = args.foreign_versions or args.older_than is not None or args.max_size is not None
    policy = Policy(
        foreign_versions=args.foreign_versions or not named,
        older_than=None if args.older_than is None else args.older_than * DAY,
        max_size=None if args.max_size is None else int(args.max_size * 1e6),
    )
    cleaning = pruning.prune(kernels.installed.own_store(), policy, time.time(), args.dry_run)
    return show_cleaning(args, cleaning, "would free" if args.dry_run else "freed")


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
    say = progress.printer(kernels.installed.package)
    entry = transfer.import_file(args.file, kernels.installed.own_store(), say)
    kernels.probe_gpus()
    mismatches = [m.dimension for m in against(entry, Request("cuda"), kernels.host, kernels.installed.wanted)]
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


def _prune_options(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("--older-than", type=_number, metavar="DAYS", help="remove entries older than this")
    parser.add_argument(
        "--max-size", type=_number, metavar="MB", help="remove the oldest entries until the rest fit in this size"
    )
    parser.add_argument("--foreign-versions", action="store_true", help="remove entries of other versions")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")


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
    **cache_commands.COMMANDS,
    "build": Command(_build, "compile kernels ahead of the first call, if none fit; needs no GPU", _build_options),
    "explain": Command(
        _explain, "explain why no kernels were found: show the closest match and how it differs", _build_options
    ),
    "prune": Command(
        _prune,
        "remove damaged entries, leftovers and the entries that the options select; default: those of other versions",
        _prune_options,
    ),
    "export": Command(_export, "export the kernels that this machine uses to a file", _export_options),
    "import": Command(_import, "import kernels from an exported file or a wheel", _import_options),
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
