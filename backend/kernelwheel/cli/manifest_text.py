"""A manifest, and the options in it, as text for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from ..runtime.artifact.manifest import Manifest
from ..runtime.commands.doctor import rows_text


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
