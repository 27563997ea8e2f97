"""The long report of `doctor`: what the loader's says, the toolchain, the installation, settings and variables."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..runtime.doctor import damage, failures, findings_text, kernels_text, look_at_stores, machine_text
from ..runtime.errors import BuildError
from ..runtime.installed import InstalledPackage
from ..runtime.kernels import Kernels
from ..runtime.presentation import call_row, rows_text, selection_row, view_selection
from . import installation
from .installation import Installation
from .manifest_text import manifest_text, settings_text
from .prediction import predict


def run(args: argparse.Namespace, kernels: Kernels) -> int:
    """Print the report; return 1 if something needs attention."""
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
    stores, findings = look_at_stores(package, host)
    ahead = predict(package, host, whole=True)
    findings = [*installation.look(_installation(package, path), environ), *damage(package), *findings]
    findings += failures(ahead.calls, host)
    return {
        **kernels.info(),
        "settings": _settings(package),
        "toolchain": ahead.toolchain or _no_toolchain(package),
        "stores": stores,
        "next": [view_selection(each) for each in ahead.calls],
        "build": view_selection(ahead.build),
        "variables": installation.variables(package.package, environ),
        "findings": [finding._asdict() for finding in findings],
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
        settings = package.settings
    except BuildError:  # `look_at_stores` reports it as a finding
        return {}
    return {name: {"value": settings.values[name], "origin": str(each)} for name, each in settings.origins.items()}


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


def page(view: Mapping[str, Any], kernels: Kernels) -> str:
    """The report as text."""
    lines = [*machine_text(kernels.host), "", "and compiles with", _toolchain_text(view["toolchain"]), ""]
    if kernels.installed.manifest:
        lines += [manifest_text(kernels.installed.manifest), ""]
    lines += kernels_text(view, kernels)
    build = [selection_row("cache build", view["build"])]
    lines += ["", "The next call", rows_text([*(call_row(each) for each in view["next"]), *build])]
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
