"""The report of `doctor` on one page: this machine, the package's kernels, and what the next call does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..artifact.artifact import Artifact
from ..artifact.compatible import Mismatch
from ..artifact.content import needed_for
from ..artifact.manifest import Manifest
from ..compiler_process import kernelwheel, program
from ..decision.carry_out import predict
from ..decision.decision import Decision, Request, failed, verdict
from ..decision.snapshot import InstalledPackage, Snapshot
from ..errors import INSTALL_COMPILER, IncompatibleArtifactError, KernelWheelError, printable
from ..kernels import Kernels
from ..machine.host import Host
from ..record import Record

SUMMARY = "show what is installed, what this machine has, and whether they fit"


class Finding(Record):
    """Something a person should act on: what it is, what was found, and how to fix it."""

    what: str
    found: str
    remedy: str

    def __str__(self) -> str:
        """It on two lines, or more if several things were found."""
        found = "\n    ".join(printable(line) for line in self.found.split("\n"))
        return f"  {self.what}: {found}\n    to fix: {printable(self.remedy)}"


def of_error(error: KernelWheelError) -> Finding:
    """An error as a finding."""
    return Finding(error.problem, error.found, "; ".join(error.remedies))


def run(args: argparse.Namespace, kernels: Kernels) -> int:
    """Print the report; return 1 if something needs attention."""
    view = examine(kernels)
    print(json.dumps(view, indent=1) if args.json else page(view, kernels))
    return 1 if view["findings"] else 0


def examine(kernels: Kernels) -> dict[str, Any]:
    """What `doctor` reports, as plain JSON values; `findings` are what a person should act on. The GPUs are probed."""
    kernels.probe_gpus()
    package, host = kernels.installed, kernels.host
    calls = next_calls(package, host)
    return {
        **kernels.info(),
        "next": [view_decision(each) for each in calls],
        "findings": [each._asdict() for each in (*damage(package), *bad_settings(package), *failures(calls, host))],
    }


def next_calls(package: InstalledPackage, host: Host) -> list[Decision]:
    """What the next call on the CPU does, and on each compute capability among the visible GPUs.

    A compile is predicted to fail where kernelwheel is not installed. What else it may lack, such as compilers or a
    store that can be written to, kernelwheel's own `doctor` looks for.
    """
    obstacle = None
    try:
        program()
    except KernelWheelError as error:
        obstacle = error
    return [if_compiled(expected, obstacle) for expected in predict_calls(package.read(host))]


def predict_calls(snapshot: Snapshot) -> list[Decision]:
    """A call of each part on the CPU, and on each GPU's compute capability; a compile is taken to succeed."""
    gpus = snapshot.host.capabilities or (None,)
    devices = [Request("cpu"), *(Request("cuda", capability) for capability in gpus)]
    requests = [each._replace(part=part) for each in devices for part in snapshot.parts]
    return [predict(snapshot, each, partial(_verify_loaded, each.device)) for each in requests]


def if_compiled(expected: Decision, obstacle: KernelWheelError | None) -> Decision:
    """Turn a Decision to compile into one to fail, if this machine cannot compile, or store what it compiled."""
    if obstacle is None or expected.outcome != "compile":
        return expected
    return failed(expected.request, obstacle, before=f"{expected.because}; compiling would fail: ")


def _verify_loaded(device: str, artifact: Artifact) -> None:
    """Verify only what a call on a device type loads."""
    for library in artifact.manifest.libraries:
        if library.device in needed_for(device, artifact.manifest.content):
            artifact.verify_library(library)


def failures(calls: Sequence[Decision], host: Host) -> Iterator[Finding]:
    """The calls that fail. Without a GPU, those for CUDA are expected to."""
    for call in calls:
        if call.error and (call.request.device == "cpu" or host.capabilities):
            yield Finding(f"{call.request.device.upper()} calls fail", call.because, "; ".join(call.error.remedies))


def damage(package: InstalledPackage) -> Iterator[Finding]:
    """What is wrong with the wheel's Artifact, including CUDA libraries that are not loaded yet."""
    try:
        if package.damage:
            raise package.damage
        if package.manifest:
            Artifact(package.folder, package.manifest).verify()
    except IncompatibleArtifactError as error:
        yield of_error(error)


def bad_settings(package: InstalledPackage) -> Iterator[Finding]:
    """The settings if they cannot be read, or the lack of a cache folder."""
    try:
        _ = package.settings, [*package.stores()]
    except KernelWheelError as error:
        yield of_error(error)


def page(view: Mapping[str, Any], kernels: Kernels) -> str:
    """The report as text."""
    lines = [*machine_text(kernels.host), "", *kernels_text(kernels), "", *next_text(view), "", *findings_text(view)]
    lines += ["", "Stores, compilers, the installation, settings"]
    lines.append(f"  python -m kernelwheel doctor {kernels.installed.package}")
    if kernelwheel() is None:
        lines.append(f"  which needs kernelwheel: {INSTALL_COMPILER}")
    return "\n".join(lines)


def machine_text(host: Host) -> list[str]:
    """What the machine has."""
    gpus = ", ".join("{}.{}".format(*capability) for capability in host.capabilities or ())
    runs = [
        ("platform", ", ".join(filter(None, (host.platform, host.libc, host.libstdcxx)))),
        ("torch", f"{host.torch}, CUDA {host.cuda or 'none'}"),
        ("driver", "CUDA {}.{}".format(*host.driver) if host.driver else "none"),
        ("GPUs", f"compute capability {gpus}" if gpus else "none"),
    ]
    return ["This machine has", rows_text(runs)]


def kernels_text(kernels: Kernels) -> list[str]:
    """The package's own kernels, and whether they fit."""
    package = kernels.installed
    lines = [f"{package.package} {package.version}: {package.folder}"]
    if package.manifest:
        built = targets_text(package.manifest)
        rows = rows_text([("fingerprint", package.manifest.fingerprint), ("kernels", built)])
        lines += [rows, verdict_text(verdict(package.read_wheel(kernels.host)))]
    elif not package.damage:
        lines.append(f"  {package.missing.found}")
    return lines


def next_text(view: Mapping[str, Any]) -> list[str]:
    """What the next calls do, under a heading: a row for the parts of which that is the same."""
    words = {"load": "loads", "compile": "compiles, then loads", "fail": "fails"}
    rows: dict[tuple[str, str], list[str]] = {}
    for call in view["next"]:
        device = " ".join(filter(None, (call["device"].upper(), call["capability"])))
        where = f" ({call['artifact']})" if call["artifact"] else ""
        outcome = f"{words[call['outcome']]}: {call['because']}{where}"
        rows.setdefault((device, outcome), []).append(call["part"])
    named = [(f"{device} {', '.join(parts)}".rstrip(), outcome) for (device, outcome), parts in rows.items()]
    return ["The next call", rows_text(named)]


def findings_text(view: Mapping[str, Any]) -> list[str]:
    """The findings, under a heading."""
    heading = "Findings" if view["findings"] else "No findings"
    return [heading, *(str(Finding(**finding)) for finding in view["findings"])]


def view_decision(decision: Decision) -> dict[str, Any]:
    """What a call does, as plain JSON values; `capability` is that of the call's GPU."""
    capability = decision.request.capability
    return {
        "device": decision.request.device,
        "part": decision.request.part,
        "outcome": decision.outcome,
        "because": decision.because,
        "artifact": str(decision.artifact.folder) if decision.artifact else None,
        "remedies": list(decision.error.remedies) if decision.error else [],
        "capability": "{}.{}".format(*capability) if capability else None,
    }


def verdict_text(mismatches: Sequence[Mismatch]) -> str:
    """Mismatches as text: one line if there are none, otherwise each mismatch with its remedy."""
    if not mismatches:
        return "verdict: fits this machine"
    lines = ["verdict: does not fit this machine"]
    for mismatch in mismatches:
        scope = "all kernels" if mismatch.device == "cpu" else "CUDA kernels"
        lines += [
            f"  {mismatch.dimension} ({scope})",
            f"    required: {mismatch.required}",
            f"    found:    {mismatch.found}",
            f"    to fix:   {mismatch.remedy}",
        ]
    return "\n".join(lines)


def targets_text(manifest: Manifest) -> str:
    """The targets of an Artifact's kernels: `CPU`, or `CPU; CUDA 13.0: SASS 8.0 9.0, PTX 9.0`."""
    cuda = [
        f"SASS {' '.join(library.sass) or 'none'}, PTX {' '.join(library.ptx) or 'none'}"
        for library in manifest.libraries_for("cuda")
    ]
    if manifest.left_out:
        return f"CPU, without {', '.join(manifest.left_out)}"
    on_cuda = [f"CUDA {manifest.requires.driver}: {'; '.join(dict.fromkeys(cuda))}"] if cuda else []
    return "; ".join([*(["CPU"] if manifest.plan["target"]["cpu_kernels"] else []), *on_cuda])


def rows_text(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns, names and values; a value may have several lines."""
    width = max(len(name) for name, _ in rows)
    lines = []
    for name, value in rows:
        first, *rest = str(value).splitlines() or [""]
        lines += [f"  {name:<{width}}  {first}", *(f"  {'':<{width}}  {line}" for line in rest)]
    return "\n".join(lines)
