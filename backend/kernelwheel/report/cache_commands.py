"""The `cache` subcommands of a package: list, path, build, explain, verify, prune, clear, export, import.

Exit status 0 good, 1 a finding, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..build import progress
from ..core import architectures as archs
from ..core.errors import IncompatibleArtifactError, KernelWheelError, SettingsError
from ..runtime import serving
from ..runtime.kernels import Kernels
from ..store import maintenance as caretaking
from ..store import transfer as exchange
from ..store.artifact import Artifact
from ..store.entries import DAY, Store
from ..store.inventory import take_inventory
from ..store.maintenance import Cleaning, Policy
from . import presentation as views
from .explain import Explanation, explain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands of `cache` and their options."""
    commands = parser.add_subparsers(dest="cache_command", required=True, metavar="COMMAND")

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        return command

    add("list", "the entries of all versions, and whether they fit this machine")
    add("path", "the folder of the user's store")
    for name, summary in (
        ("build", "compile what a call would have to compile, GPU or not"),
        ("explain", "say what is nearest to the kernels that were not found, and what differs"),
    ):
        command = add(name, summary)
        command.add_argument(
            "--archs",
            type=_archs,
            metavar="LIST",
            help="as TORCH_CUDA_ARCH_LIST; default: the GPUs seen, else the list of a wheel",
        )
        command.add_argument("--cuda", choices=("on", "off"), help="default: as torch, or off by the setting")
    add("verify", "check every entry, byte for byte; damaged ones are put away")
    prune = add(
        "prune",
        "remove what is damaged or left over, and what the options name; without options, entries of other versions",
    )
    prune.add_argument("--older-than", type=_number, metavar="DAYS", help="entries made longer ago")
    prune.add_argument("--max-size", type=_number, metavar="MB", help="the oldest entries, until the rest fits")
    prune.add_argument("--foreign-versions", action="store_true", help="entries of other versions")
    prune.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    clear = add("clear", "remove the entries of this version")
    clear.add_argument("--all-versions", action="store_true", help="and those of all others")
    export = add("export", "write the kernels that this machine uses to a file")
    export.add_argument("file", type=Path, metavar="FILE")
    export.add_argument("--fingerprint", type=_fingerprint, metavar="PREFIX", help="those of another entry")
    imports = add("import", "put the kernels of an exported file or of a wheel into the user's store")
    imports.add_argument("file", type=_existing, metavar="FILE")


def run(args: argparse.Namespace, kernels: Kernels) -> int:
    """Run a subcommand on a package's kernels; prints and returns the exit status."""
    try:
        return COMMANDS[args.cache_command](args, kernels)
    except KernelWheelError as error:
        print(f"{kernels.package}: {error}", file=sys.stderr)
        return 1


def _show(args: argparse.Namespace, view: dict[str, Any], text: str) -> None:
    print(json.dumps(view, indent=1) if args.json else text)


def _own(kernels: Kernels) -> Store:
    *_, store = kernels.stores()
    return store


def _list(args: argparse.Namespace, kernels: Kernels) -> int:
    kernels.probe_gpus()
    stores, lines, finding = [], [], False
    for store in kernels.stores():
        seen = take_inventory(store)
        entries = [views.view_entry(entry, kernels) for entry in seen.entries]
        refused = [str(error) for error in seen.refused]
        stores.append({"folder": str(store.folder), "own": store.own, "entries": entries, "refused": refused})
        lines.append(f"{store.folder}{'' if store.own else ' (read-only)'}")
        lines += [f"  {views.entry_text(entry, time.time())}" for entry in entries] or ["  nothing"]
        lines += refused
        finding = finding or bool(refused) or any(entry["damage"] or entry["unread"] for entry in entries)
    _show(args, {"package": kernels.package, "version": kernels.version, "stores": stores}, "\n".join(lines))
    return int(finding)


def _path(args: argparse.Namespace, kernels: Kernels) -> int:
    store = _own(kernels)
    _show(args, {"path": str(store.folder), "version": str(store.root)}, str(store.folder))
    return 0


def _wants_cuda(args: argparse.Namespace, kernels: Kernels) -> bool:
    if args.cuda is None:
        return serving.wants_cuda(kernels)
    return bool(args.cuda == "on")


def _build(args: argparse.Namespace, kernels: Kernels) -> int:
    cuda, archs_wanted = _wants_cuda(args, kernels), args.archs or ""
    found, made = serving.find(kernels, cuda, archs_wanted), False
    if found is None:
        with progress.shown(kernels.package) as say:
            lines: list[str] = []

            def heard(line: str) -> None:
                lines.append(line)
                say(line)

            found = serving.build(kernels, cuda, archs_wanted, heard)
        made = any(line.startswith("compiling ") for line in lines)
    targets = views.targets_text(found.manifest)
    view = {
        "compiled": made,
        "folder": str(found.folder),
        "fingerprint": found.manifest.fingerprint,
        "kernels": targets,
    }
    where = "the wheel" if found.store is None else "a store"
    how = "compiled" if made else f"nothing to compile, {where} has it"
    _show(args, view, f"{how}: {targets}\n{found.folder}")
    return 0


def _explain(args: argparse.Namespace, kernels: Kernels) -> int:
    explanation = explain(kernels, _wants_cuda(args, kernels), args.archs or "")
    nearest = explanation.nearest
    view = {
        "device": explanation.device,
        "found": explanation.found,
        "next": [asdict(each) for each in explanation.calls],
        "build": asdict(explanation.build),
        "fingerprint": explanation.plan.fingerprint if explanation.plan else None,
        "no_plan": explanation.no_plan or None,
        "nearest": str(nearest.folder) if nearest else None,
        "differences": [asdict(difference) for difference in explanation.differences],
        "candidates": [
            {
                "folder": str(candidate.folder),
                "damage": candidate.damage or None,
                "mismatches": [mismatch._asdict() for mismatch in candidate.mismatches],
            }
            for candidate in explanation.candidates
        ],
    }
    _show(args, view, _explanation_text(explanation))
    return 0 if explanation.found else 1


def _explanation_text(explanation: Explanation) -> str:
    device = explanation.device.upper()
    lines = [f"{device} kernels: " + (f"in {explanation.found}" if explanation.found else "not found")]
    rows = [views.call_row(asdict(each)) for each in explanation.calls]
    lines += ["the next call", views.rows_text([*rows, views.forecast_row("cache build", asdict(explanation.build))])]
    if explanation.plan:
        lines.append(f"a compile now would make {explanation.plan.fingerprint[:12]}")
    else:
        lines += ["nothing can be compiled here:", *(f"  {line}" for line in explanation.no_plan.splitlines())]
    if explanation.nearest and not explanation.found:
        lines.append(f"nearest: {explanation.nearest.folder}")
        lines += [f"  {difference}" for difference in explanation.differences]
    for candidate in explanation.candidates:
        worth = "damaged: " + candidate.damage if candidate.damage else ""
        lines.append(f"{candidate.folder}: {worth or ('does not fit' if candidate.mismatches else 'fits')}")
        lines += [f"  {m.dimension}: required {m.required}; found {m.found}" for m in candidate.mismatches]
    if not explanation.candidates:
        lines.append("there is no entry of any version, and no Artifact in the package")
    return "\n".join(lines)


def _verify(args: argparse.Namespace, kernels: Kernels) -> int:
    count, damaged, refused = 0, [], []
    for store in kernels.stores():
        seen, found = caretaking.verify(store)
        count += len(seen.entries)
        refused += [str(error) for error in seen.refused]
        damaged += [
            {"folder": str(d.entry.folder), "damage": d.damage, "moved": str(d.moved) if d.moved else None}
            for d in found
        ]
    lines = [f"{count - len(damaged)} of {count} entries are whole", *refused]
    for each in damaged:
        lines += [f"damaged: {each['folder']}", f"  {each['damage']}"]
        lines.append(f"  {'now in ' + each['moved'] if each['moved'] else 'left where it is'}")
    _show(args, {"checked": count, "damaged": damaged, "refused": refused}, "\n".join(lines))
    return 1 if damaged or refused else 0


def _prune(args: argparse.Namespace, kernels: Kernels) -> int:
    named = args.foreign_versions or args.older_than is not None or args.max_size is not None
    policy = Policy(
        foreign_versions=args.foreign_versions or not named,
        older_than=None if args.older_than is None else args.older_than * DAY,
        max_size=None if args.max_size is None else int(args.max_size * 1e6),
    )
    cleaning = caretaking.prune(_own(kernels), policy, time.time(), args.dry_run)
    return _show_cleaning(args, cleaning, "would free" if args.dry_run else "freed")


def _clear(args: argparse.Namespace, kernels: Kernels) -> int:
    return _show_cleaning(args, caretaking.clear(_own(kernels), args.all_versions), "freed")


def _show_cleaning(args: argparse.Namespace, cleaning: Cleaning, verb: str) -> int:
    view = {
        "freed": cleaning.freed,
        "removed": [asdict(removed) for removed in cleaning.removed],
        "skipped": list(cleaning.skipped),
    }
    lines = [f"{r.kind}  {r.version}  {r.name[:12]}  {views.size_text(r.size)}  {r.because}" for r in cleaning.removed]
    lines += [f"left alone: {reason}" for reason in cleaning.skipped]
    lines.append(f"{verb} {views.size_text(cleaning.freed)}")
    _show(args, view, "\n".join(lines))
    return 1 if cleaning.skipped else 0


def _export(args: argparse.Namespace, kernels: Kernels) -> int:
    entry = _chosen(kernels, args.fingerprint)
    try:
        exchange.export(entry, args.file)
    except OSError as error:
        print(f"{kernels.package}: {args.file} cannot be written: {error}", file=sys.stderr)
        return 1
    size = args.file.stat().st_size
    view = {"file": str(args.file), "size": size, "fingerprint": entry.manifest.fingerprint}
    _show(args, view, f"{args.file}: {views.targets_text(entry.manifest)}, {views.size_text(size)}")
    return 0


def _chosen(kernels: Kernels, prefix: str | None) -> Artifact:
    """The Artifact at hand of a fingerprint, or the one in use: what a CUDA call here takes, else a CPU call."""
    at_hand: dict[str, Artifact] = {}
    for found in kernels.candidates():
        at_hand.setdefault(found.manifest.fingerprint, found)
    if prefix is None:
        kernels.probe_gpus()
        for device in ("cuda", "cpu") if kernels.host.cuda else ("cpu",):
            for found in at_hand.values():
                if not kernels.mismatches(found.manifest, device, None):
                    return found
        wanted = "kernels that fit this machine"
    else:
        matching = [found for name, found in at_hand.items() if name.startswith(prefix)]
        if len(matching) == 1:
            return matching[0]
        wanted = f"one Artifact of {kernels.package} {kernels.version} whose fingerprint starts with {prefix}"
    raise IncompatibleArtifactError(
        "there is nothing to export",
        required=wanted,
        found="\n".join(f"{name[:12]}: {views.targets_text(f.manifest)}" for name, f in at_hand.items()) or "none",
        remedies=[f"name one (python -m {kernels.package} cache list), or make one: cache build"],
    )


def _import(args: argparse.Namespace, kernels: Kernels) -> int:
    with progress.shown(kernels.package) as say:
        entry = exchange.import_file(args.file, _own(kernels), say, kernels.settings.import_limit)
    kernels.probe_gpus()
    mismatches = [m.dimension for m in kernels.mismatches(entry.manifest, "cuda", None)]
    view = {"folder": str(entry.folder), "fingerprint": entry.manifest.fingerprint, "mismatches": mismatches}
    worth = "does not fit this machine: " + ", ".join(mismatches) if mismatches else "fits this machine"
    _show(args, view, f"{views.targets_text(entry.manifest)}; {worth}\n{entry.folder}")
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


def _archs(text: str) -> str:
    try:
        archs.parse(text, "--archs")
    except SettingsError as error:
        raise argparse.ArgumentTypeError(f"{error.problem}; {error.remedies[0]}") from None
    return text


def _number(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 on")
    return float(text)


def _fingerprint(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{4,64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the start of a fingerprint: 4 to 64 of 0-9 and a-f")
    return text


def _existing(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no such file: {text}")
    return path
