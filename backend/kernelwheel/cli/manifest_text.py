"""Manifests, their options, and entries of a store: as text for people, and as JSON values for `--json`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ..runtime.artifact.compatible import Wanted, check
from ..runtime.artifact.manifest import Manifest
from ..runtime.commands.doctor import rows_text, targets_text
from ..runtime.commands.own_commands import size_text
from ..runtime.machine.host import Host
from ..store.inventory import Entry


def manifest_text(manifest: Manifest) -> str:
    """A summary of a manifest."""
    needs, built = manifest.requires, manifest.built_with
    cuda = built.get("cuda", {})
    torch = needs.torch if manifest.plan["target"]["binding"] else f">= {needs.torch}"
    torch += f", Python {needs.python}" if needs.python else ""
    tools = f"kernelwheel {built.get('kernelwheel')}, torch {built.get('torch')}, {built.get('cxx')}"
    nvcc = str(built.get("nvcc") or "not used")
    standards = [f"{standard} ({abi})" for abi, standard in manifest.plan["target"]["standard"].items()]
    rows = [
        ("package", f"{manifest.package} {manifest.version}"),
        ("fingerprint", manifest.fingerprint),
        ("built with", f"{tools}, {nvcc if nvcc.startswith('clang') else f'nvcc {nvcc}'}"),
        ("C++", ", ".join(standards) or "as flags say"),
        ("CUDA kernels", f"{'yes' if cuda.get('enabled') else 'no'}: {cuda.get('because')}"),
        ("settings", settings_text(built.get("settings", {}))),
        ("requires", ", ".join(filter(None, (f"torch {torch}", needs.platform, needs.libc, needs.libstdcxx)))),
    ]
    if manifest.cpu:
        rows.append(("", f"a CPU with {', '.join(manifest.cpu)}"))
    if manifest.uses_cuda:
        torch = "any CUDA" if needs.cuda is None else f"CUDA {needs.cuda}"
        rows.append(("", f"for CUDA: torch with {torch}, driver {needs.driver} (PTX: {needs.driver_for_ptx})"))
    if manifest.left_out:
        rows.append(("left out", f"{', '.join(manifest.left_out)}: only builds with CUDA have it"))
    if taken := manifest.plan["tools"]["taken"]:
        rows.append(("of the wheel", ", ".join(sorted(taken))))
    for library in manifest.libraries:
        kind = f", imported as {library.module}" if library.module else ""
        rows.append((library.file, f"{library.size / 1e6:.2f} MB, {library.device}{kind}"))
        if library.device == "cuda":
            rows.append(("", f"SASS {' '.join(library.sass)}; PTX {' '.join(library.ptx) or 'none'}"))
    return rows_text(rows)


def settings_text(record: Mapping[str, Any]) -> str:
    """The options that were set, one per line: `archs = 9.0 (-C archs)`; for a path, only its origin."""
    lines = []
    for name, setting in record.items():
        if setting["origin"] != "default":
            value = setting["value"]
            text = shlex.join(value) if isinstance(value, (list, tuple)) else value
            lines.append(f"{name}{f' = {text}' if text is not None else ''} ({setting['origin']})")
    return "\n".join(lines) or "none set"


def view_entry(entry: Entry, host: Host, wanted: Wanted) -> dict[str, Any]:
    """An entry of a store and whether it fits this machine, as plain JSON values."""
    view: dict[str, Any] = {
        "folder": str(entry.folder),
        "version": entry.version,
        "fingerprint": entry.folder.name,
        "size": entry.size,
        "made": datetime.fromtimestamp(entry.made, timezone.utc).isoformat(timespec="seconds"),
        "damage": entry.damage or None,
        "unread": entry.unread.found if entry.unread else None,
        "kernels": None,
        "mismatches": [],
        "fits": False,
    }
    if entry.mismatch:
        view["mismatches"] = [entry.mismatch._asdict()]
    if entry.artifact is not None:
        manifest = entry.artifact.manifest
        found = check(manifest, host.asked_for(manifest.cpu), wanted)
        parts = manifest.content["parts"]
        of_part = f"{', '.join(parts)}: " if parts else ""
        view["kernels"] = of_part + targets_text(entry.artifact.manifest)
        view["mismatches"] = [mismatch._asdict() for mismatch in found]
        view["fits"] = not found and not entry.damage
    return view


def entry_text(view: Mapping[str, Any]) -> str:
    """One line for an entry: version, fingerprint, size, when it was made, targets, and whether it fits."""
    if view["damage"]:
        worth = f"damaged: {view['damage']}"
    elif view["unread"]:
        worth = f"cannot be read now: {view['unread']}"
    elif view["fits"]:
        worth = "fits"
    else:
        scope = (
            "does not fit" if any(m["device"] == "cpu" for m in view["mismatches"]) else "fits CPU calls, not CUDA's"
        )
        worth = f"{scope}: " + ", ".join(dict.fromkeys(m["dimension"] for m in view["mismatches"]))
    parts = (view["version"], view["fingerprint"][:12], size_text(view["size"]), view["made"][:10])
    return "  ".join([*parts, *([view["kernels"]] if view["kernels"] else []), worth])
