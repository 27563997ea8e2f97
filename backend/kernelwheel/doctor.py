"""One page about this machine and the kernels on it that a person can act on: `doctor`, as values and as text."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from . import environment, jit, manifest, nvcc, toolchain, views
from .compat import Wanted, check
from .cxx import find_cxx
from .environment import Finding, Installation
from .errors import BuildError, IncompatibleArtifactError, KernelWheelError
from .forecast import Circumstances, Forecast, forecast
from .found import Found, needed_for, verify
from .host import Host
from .runtime import Kernels
from .survey import UNREADABLE, find_damage, survey


def examine(kernels: Kernels, environ: Mapping[str, str], path: Sequence[str]) -> dict[str, Any]:
    """Everything `doctor` knows, as plain JSON values; `findings` are what a person should act on.

    Args:
        kernels: the package's kernels in this process; the GPUs are asked now.
        environ: the process environment, for the compilers' PATH and for variables that change what is found.
        path: sys.path.
    """
    kernels.probe_gpus()
    stores, findings = _stores(kernels)
    tools = _toolchain(kernels, environ, path)
    forecasts = list(_forecasts(kernels, tools))
    findings = [*environment.look(_installation(kernels, path), environ), *_damage(kernels), *findings]
    for each in forecasts:
        # Without a GPU, that CUDA calls fail is as it should be.
        if each.outcome == "fail" and (each.device == "cpu" or kernels.host.capabilities):
            findings.append(Finding(f"{each.device.upper()} calls fail", each.because, "; ".join(each.remedies)))
    return {
        **kernels.info(),
        "settings": _settings(kernels),
        "toolchain": tools,
        "stores": stores,
        "next": [asdict(each) for each in forecasts],
        "variables": environment.variables(kernels.package, environ),
        "findings": [asdict(finding) for finding in findings],
    }


def _settings(kernels: Kernels) -> dict[str, dict[str, Any]]:
    try:
        return kernels.settings.effective()
    except BuildError:  # a finding: `_stores` needs them too
        return {}


def _installation(kernels: Kernels, path: Sequence[str]) -> Installation:
    import torch

    return Installation(
        kernels.package,
        kernels.version,
        kernels.folder.parent,
        kernels.manifest,
        Path(torch.__file__).parent,
        path,
        (Path(sys.prefix), Path(sys.base_prefix)),
    )


def _damage(kernels: Kernels) -> Iterator[Finding]:
    """What is wrong with the wheel's Artifact, CUDA libraries included, which nothing has loaded yet."""
    try:
        if damage := kernels.damage:
            raise damage
        if kernels.manifest:
            verify(Found(kernels.folder, kernels.manifest, None))
    except IncompatibleArtifactError as error:
        yield Finding(error.problem, error.found, "; ".join(error.remedies))


def _stores(kernels: Kernels) -> tuple[list[dict[str, Any]], list[Finding]]:
    views_of, findings = [], []
    try:
        stores = list(kernels.stores())
    except BuildError as error:  # the settings cannot be read
        return [], [Finding(error.problem, error.found, "; ".join(error.remedies))]
    for store in stores:
        seen = survey(store)
        for kept in seen.kept:
            try:
                damage = find_damage(kept)
            except UNREADABLE as error:
                findings.append(Finding(error.problem, error.found, "; ".join(error.remedies)))
                continue
            if damage:
                verify = f"python -m {kernels.package} cache verify puts it into quarantine"
                findings.append(Finding("a damaged entry in the store", f"{kept.folder}: {damage}", verify))
        for refusal in seen.refused:
            findings.append(Finding(refusal.problem, refusal.found, "; ".join(refusal.remedies)))
        entries = [views.view_entry(kept, kernels) for kept in seen.kept]
        views_of.append({"folder": str(store.folder), "own": store.own, "entries": entries})
    return views_of, findings


def _toolchain(kernels: Kernels, environ: Mapping[str, str], path: Sequence[str]) -> dict[str, Any]:
    """Each part by itself, so that one that is missing does not hide the others."""
    view: dict[str, Any] = {"candidates": []}
    try:
        chosen = kernels.settings
    except BuildError as error:
        return {**view, "settings": str(error)}
    view.update(_programs())
    taken_nvcc: nvcc.Nvcc | None = None
    try:
        torch = toolchain.find_torch()
        view["torch"] = f"{torch.root}: {torch.version}"
        if torch.cuda is not None and chosen.cuda != "off":
            sites = toolchain.package_folders(torch, path)
            for origin, place in nvcc.nvcc_places(chosen, sites, environ):
                candidate = nvcc.inspect_nvcc(origin, place, torch.cuda, sites, environ)
                taken = candidate.nvcc is not None and taken_nvcc is None
                taken_nvcc = taken_nvcc or candidate.nvcc
                view["candidates"].append(
                    {
                        "origin": origin,
                        "place": place,
                        "outcome": candidate.outcome,
                        "usable": candidate.nvcc is not None,
                        "taken": taken,
                    }
                )
        view["cuda"] = toolchain.decide_cuda(chosen, torch, environ, path).reason
    except BuildError as error:
        view["cuda"] = error.problem
    try:
        cxx = find_cxx(chosen, environ, taken_nvcc)
        view["cxx"] = "\n".join([*cxx.passed_over, f"{cxx.path}: {cxx.kind} {cxx.version}"])
    except BuildError as error:
        view["cxx"] = str(error)
    return view


def _programs() -> dict[str, str]:
    """CMake and Ninja as the driver finds them, and the Python packages that a compile needs."""
    missing = [name for module, name in jit.NEEDED if importlib.util.find_spec(module) is None]
    if missing:
        return {"packages": "missing: " + ", ".join(missing)}
    from packaging.specifiers import SpecifierSet
    from scikit_build_core.program_search import best_program, get_cmake_programs, get_ninja_programs

    from .drive import CMAKE_VERSION, NINJA_VERSION

    view = {}
    for name, wanted, programs in (
        ("cmake", CMAKE_VERSION, get_cmake_programs()),
        ("ninja", NINJA_VERSION, get_ninja_programs()),
    ):
        program = best_program(programs, version=SpecifierSet(wanted))
        view[name] = f"{program.path}: {program.version}" if program else f"missing: {wanted}"
    return view


def _forecasts(kernels: Kernels, tools: Mapping[str, Any]) -> Iterator[Forecast]:
    """For the CPU, and for each generation of GPU that this process sees."""
    at = _circumstances(kernels)
    hosts = [kernels.host._replace(capabilities=(c,)) for c in kernels.host.capabilities or ()]
    for device, host in [("cpu", kernels.host), *(("cuda", host) for host in hosts or [kernels.host])]:
        here = replace(at, damage=_damage_met(kernels, device, host, at))
        expected = forecast(device, host, here)
        if expected.outcome == "compile":
            expected = forecast(device, host, replace(here, no_tools=_no_tools(kernels, device, host, tools)))
        capability = "{}.{}".format(*host.capabilities[0]) if device == "cuda" and host.capabilities else None
        yield replace(expected, capability=capability)


def _damage_met(kernels: Kernels, device: str, host: Host, at: Circumstances) -> IncompatibleArtifactError | None:
    """The damage of the wheel's Artifact that a call finds: it looks at what it would load, and no further."""
    wheel = kernels.manifest
    if kernels.damage or wheel is None or at.jit == "always" or check(wheel, host, at.wanted).against(device):
        return kernels.damage
    try:
        for name in needed_for(device):
            for library in wheel.libraries_for(name):
                manifest.verify(kernels.folder, library)
    except IncompatibleArtifactError as error:
        return error
    return None


def _circumstances(kernels: Kernels) -> Circumstances:
    artifacts, blocked, jit_setting, origin, off = [], None, "auto", "default", ""
    wanted, sources = Wanted(kernels.version), False
    if kernels.manifest is not None:
        artifacts.append(Found(kernels.folder, kernels.manifest, None))
    try:
        sources = kernels.source is not None
        jit_setting, origin = kernels.settings.jit, kernels.settings.origin("jit")
        off = kernels.settings.origin("cuda") if kernels.settings.cuda == "off" else ""
        wanted = kernels.wanted
        for store in kernels.stores():
            # Damaged ones of our own are put away when a call finds them; those of others stop it.
            entries = store.entries((lambda *_: None) if store.own else None)
            found = (Found(entry.folder, entry.manifest, store) for entry in entries)
            artifacts += [each for each in found if not (store.own and _is_damaged(each))]
    except KernelWheelError as error:
        blocked = error
    return Circumstances(
        wanted=wanted,
        artifacts=artifacts,
        damage=kernels.damage,
        blocked=blocked,
        jit=jit_setting,
        jit_origin=origin,
        cuda_off=off,
        sources=sources,
        no_tools=None,
    )


def _is_damaged(found: Found) -> bool:
    try:
        verify(found)
    except IncompatibleArtifactError:
        return True
    return False


def _no_tools(kernels: Kernels, device: str, host: Host, tools: Mapping[str, Any]) -> KernelWheelError | None:
    """Why a compile for a device type would not even start here; None where it would."""
    assert kernels.source is not None
    try:
        capabilities = host.capabilities or () if device == "cuda" else ()
        jit.draw(kernels.source, kernels.version, kernels.settings, device == "cuda", capabilities)
    except KernelWheelError as error:
        return error
    missing = [f"{name} {tools[name]}" for name in ("cmake", "ninja") if tools.get(name, "").startswith("missing")]
    if missing:
        return BuildError(
            "the kernels cannot be compiled here",
            required="CMake and Ninja",
            found="; ".join(missing),
            remedies=[f"pip install '{kernels.package}[jit]'"],
        )
    return None


def page(view: Mapping[str, Any], kernels: Kernels) -> str:
    """The page that `doctor` prints."""
    host = kernels.host
    gpus = ", ".join("{}.{}".format(*capability) for capability in host.capabilities or ())
    runs = [
        ("platform", f"{host.platform}, {host.libc}, {host.libstdcxx}"),
        ("torch", f"{host.torch}, CUDA {host.cuda or 'none'}"),
        ("driver", "CUDA {}.{}".format(*host.driver) if host.driver else "none"),
        ("GPUs", f"compute capability {gpus}" if gpus else "none"),
    ]
    parts = ["This machine runs", views.rows_text(runs), "", "and compiles with", _toolchain_text(view["toolchain"])]
    parts += ["", f"{kernels.package} {kernels.version}: {kernels.folder}"]
    if kernels.manifest:
        parts.append(views.manifest_text(kernels.manifest))
        parts.append(views.verdict_text(kernels.verdict.mismatches))
    elif not kernels.damage:
        parts.append("  no kernels are installed with the package, as in an editable install")
    for store in view["stores"]:
        parts += ["", f"{'The store' if store['own'] else 'A read-only store'} {store['folder']}"]
        parts += [f"  {views.entry_text(entry, time.time())}" for entry in store["entries"]] or ["  nothing"]
    parts += ["", "The next call", views.rows_text([_next_row(each) for each in view["next"]])]
    parts += ["", "Settings", views.rows_text([("", views.settings_text(view["settings"]))])]
    if view["variables"]:
        parts += ["", "Set in the environment", views.rows_text(list(view["variables"].items()))]
    parts += ["", "Findings" if view["findings"] else "No findings"]
    for finding in view["findings"]:
        parts += [f"  {finding['what']}: {finding['found']}", f"    to mend: {finding['remedy']}"]
    return "\n".join(parts)


def _next_row(expected: Mapping[str, Any]) -> tuple[str, str]:
    words = {"load": "loads", "compile": "compiles, then loads", "fail": "fails"}
    device = expected["device"].upper() + (f" {expected['capability']}" if expected.get("capability") else "")
    where = f" ({expected['artifact']})" if expected["artifact"] else ""
    return device, f"{words[expected['outcome']]}: {expected['because']}{where}"


def _toolchain_text(view: Mapping[str, Any]) -> str:
    rows = [(name, value) for name, value in view.items() if isinstance(value, str)]
    shown = []
    for candidate in view["candidates"]:
        shown.append(f"{candidate['origin']}: {candidate['place']}: {candidate['outcome']}")
        if candidate["taken"]:
            break  # the rest does not matter; --json has it
    return views.rows_text([*rows, *([("nvcc", "\n".join(shown))] if shown else [])])
