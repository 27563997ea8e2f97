"""`cache explain`: why kernels are not found, by comparing the Plan that would be compiled with those that were."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.compatible import Mismatch
from ..runtime.commands.own_commands import show
from ..runtime.decision.carry_out import compile_request, predict
from ..runtime.decision.decision import Request, against
from ..runtime.decision.snapshot import InstalledPackage, Snapshot
from ..runtime.errors import KernelWheelError, SettingsError, from_json
from ..runtime.kernels import Kernels
from ..runtime.settings import Settings
from ..store import build_ahead
from ..store.build_ahead import BuildRequest
from ..store.content_changes import differences
from ..store.inventory import take_inventory


class Candidate(NamedTuple):
    """A folder with an Artifact, and the mismatches that rule it out; the Artifact is None if unreadable."""

    folder: Path
    artifact: Artifact | None
    mismatches: tuple[Mismatch, ...]
    damage: str


def run(args: argparse.Namespace, kernels: Kernels) -> int:
    """Print what `cache build` would find with the same arguments, or why it would not; return 1 then."""
    snapshot, requests = requested(args, kernels)
    views = [_explained(kernels.installed, snapshot, request, args.archs or "") for request in requests]
    show(args, together(views), "\n\n".join(map(_text, views)))
    return 0 if all(view["found"] for view in views) else 1


def together(views: list[dict[str, Any]]) -> dict[str, Any]:
    """What `--json` shows of views that each are about a part: the only one if there are no parts."""
    return views[0] if len(views) == 1 and not views[0]["part"] else {"parts": views}


def requested(args: argparse.Namespace, kernels: Kernels) -> tuple[Snapshot, list[BuildRequest]]:
    """What `cache build` asks for with these arguments, of the parts that `--only` names or all that there are."""
    cuda = build_ahead.wants_cuda(kernels, args.cuda)
    snapshot = kernels.installed.read(kernels.host)  # with its GPUs, if they count
    parts = snapshot.parts
    if unknown := set(args.only or ()).difference(parts):
        raise SettingsError(
            f"{snapshot.package} has no part {min(unknown)}",
            required=f"one of {', '.join(parts)}" if any(parts) else "no --only: its kernels are not in parts",
            found=f"--only {min(unknown)}",
            remedies=["correct --only, or leave it out"],
        )
    archs = args.archs or ""
    return snapshot, build_ahead.build_requests(kernels.installed, snapshot, cuda, archs, args.only or parts)


def _explained(package: InstalledPackage, snapshot: Snapshot, request: Request, archs: str) -> dict[str, Any]:
    decision = predict(snapshot, request, Artifact.verify)
    found = decision.artifact.folder if decision.artifact else None
    answer = {} if found else _ask(package, snapshot, request, build_ahead.build_settings(package, archs))
    no_plan = str(from_json(answer["error"])) if "error" in answer else None
    candidates = list(_candidates(package, snapshot, request))
    nearest, changes = _nearest(candidates, answer["plan"]) if "plan" in answer else (None, {})
    if nearest and not changes and not nearest.damage and nearest.folder != package.folder:
        found = nearest.folder  # an entry: only the Plan knows the default architectures
    return {
        "part": request.part,
        "device": request.device,
        "found": str(found) if found else None,
        "because": decision.because,
        "no_plan": no_plan,
        "nearest": str(nearest.folder) if nearest else None,
        "differences": changes,
        "candidates": [
            {
                "folder": str(each.folder),
                "damage": each.damage or None,
                "mismatches": [mismatch._asdict() for mismatch in each.mismatches],
            }
            for each in candidates
        ],
    }


def _ask(package: InstalledPackage, snapshot: Snapshot, request: Request, settings: Settings) -> Mapping[str, Any]:
    """What the compiler says would be compiled: a Plan, or an error."""
    try:
        asked = compile_request(snapshot, request, settings)
        answer: Mapping[str, Any] = build_ahead.preview([asked], None, package.environ)["plans"][0]
        return answer
    except KernelWheelError as error:
        return {"error": error.to_json()}


def _candidates(package: InstalledPackage, snapshot: Snapshot, request: Request) -> Iterator[Candidate]:
    def mismatches(artifact: Artifact) -> tuple[Mismatch, ...]:
        host = snapshot.host.asked_for(artifact.manifest.cpu)  # those of other versions are not in the Snapshot
        return against(snapshot._replace(host=host), request, artifact)

    if snapshot.artifact:
        yield Candidate(snapshot.folder, snapshot.artifact.only(request.part), mismatches(snapshot.artifact), "")
    for store in package.stores():
        for entry in take_inventory(store).entries:
            schema = (entry.mismatch,) if entry.mismatch else ()
            found = mismatches(entry.artifact) if entry.artifact else schema
            yield Candidate(entry.folder, entry.artifact, found, entry.unread.found if entry.unread else entry.damage)


def _nearest(candidates: list[Candidate], plan: Mapping[str, Any]) -> tuple[Candidate | None, dict[str, str]]:
    """The candidate whose Plan differs least, and how it differs."""
    nearest: Candidate | None = None
    least: dict[str, str] = {}
    for each in candidates:
        if each.artifact is not None and not any(mismatch.dimension == "part" for mismatch in each.mismatches):
            every = differences(each.artifact.manifest.plan, plan)
            # What CMake is told follows from the rest of the Plan; alone, it is another version of the backend.
            changes = {name: change for name, change in every.items() if not name.startswith("tools.recipe.")} or every
            if nearest is None or len(changes) < len(least):
                nearest, least = each, changes
    return nearest, least


def _text(view: Mapping[str, Any]) -> str:
    kernels = " ".join(filter(None, (view["part"], view["device"].upper(), "kernels")))
    lines = [f"{kernels}: " + (f"in {view['found']}" if view["found"] else "not found")]
    if not view["found"]:
        lines.append(f"  {view['because']}")
    if view["no_plan"]:
        lines += ["nothing can be compiled here:", *(f"  {line}" for line in view["no_plan"].splitlines())]
    if view["differences"]:
        lines += [f"nearest: {view['nearest']}", *(f"  {name}: {what}" for name, what in view["differences"].items())]
    for each in view["candidates"]:
        fits = "does not fit" if each["mismatches"] else "fits"
        lines.append(f"{each['folder']}: {'damaged: ' + each['damage'] if each['damage'] else fits}")
        lines += [f"  {m['dimension']}: required {m['required']}; found {m['found']}" for m in each["mismatches"]]
    if not view["candidates"]:
        lines.append("there are no entries of any version, and no Artifact in the package")
    return "\n".join(lines)
