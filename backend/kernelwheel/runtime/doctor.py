"""The report of `doctor`: this machine, the package's kernels, its stores, and what the next call does."""

from __future__ import annotations

import argparse
import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from .artifact import Artifact
from .compiler_process import program
from .decision import Decision, Request, failed, verdict
from .errors import IncompatibleArtifactError, KernelWheelError, StoreError, command, printable
from .find import predict
from .host import Host
from .inventory import UNREADABLE, find_damage, take_inventory
from .kernels import Kernels
from .loading import needed_for
from .places import temporary_guard
from .platforms import require_supported
from .presentation import call_row, entry_text, rows_text, targets_text, verdict_text, view_decision, view_entry
from .record import Record
from .snapshot import InstalledPackage
from .store import Store

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
    stores, findings = look_at_stores(package, host)
    calls = next_calls(package, host)
    findings = [*damage(package), *findings, *failures(calls, host)]
    return {
        **kernels.info(),
        "stores": stores,
        "next": [view_decision(each) for each in calls],
        "findings": [finding._asdict() for finding in findings],
    }


def next_calls(package: InstalledPackage, host: Host) -> list[Decision]:
    """What the next call on the CPU does, and on each compute capability among the visible GPUs.

    A compile is predicted to fail where kernelwheel is not installed, or nothing could be stored; what else it lacks,
    such as compilers, kernelwheel's own `doctor` looks for.
    """
    obstacle = None
    try:
        require_store(package)
        program()
    except KernelWheelError as error:
        obstacle = error
    return [if_compiled(expected, obstacle) for expected in predict_calls(package, host)]


def require_store(package: InstalledPackage) -> None:
    """Raise the error for a store that what is compiled could not be put into, as far as is seen without making it."""
    require_supported()
    store = package.own_store()
    try:
        with suppress(FileNotFoundError):
            store.guard.check(store.root / ".work")
        for folder in (store.root, store.root / ".work"):
            there = next(place for place in (folder, *folder.parents) if place.exists())
            if not os.access(there, os.W_OK | os.X_OK, effective_ids=True):
                if os.statvfs(there).f_flag & os.ST_RDONLY:
                    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(there))
                raise PermissionError(errno.EACCES, "this user may not make files here", str(there))
    except OSError as error:
        raise store.unwritable(error) from error


def predict_calls(package: InstalledPackage, host: Host) -> list[Decision]:
    """A call on the CPU, and one on each compute capability among the visible GPUs; a compile is taken to succeed."""
    requests = [Request("cpu"), *(Request("cuda", capability) for capability in host.capabilities or (None,))]
    return [predict(package, host, each, partial(_verify_loaded, each.device)) for each in requests]


def if_compiled(expected: Decision, obstacle: KernelWheelError | None) -> Decision:
    """Turn a Decision to compile into one to fail, if this machine cannot compile, or store what it compiled."""
    if obstacle is None or expected.outcome != "compile":
        return expected
    return failed(expected.request, obstacle, before=f"{expected.because}; compiling would fail: ")


def _verify_loaded(device: str, artifact: Artifact) -> None:
    """Verify only what a call on a device type loads."""
    for name in needed_for(device):
        for library in artifact.manifest.libraries_for(name):
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


def look_at_stores(package: InstalledPackage, host: Host) -> tuple[list[dict[str, Any]], list[Finding]]:
    """The stores with their entries, as plain JSON values, and what is wrong with them."""
    try:
        stores = list(package.stores())
        wanted = package.wanted
    except KernelWheelError as error:  # the settings cannot be read, or no cache folder can be determined
        return [], [of_error(error)]
    if not stores:
        return [], []
    views, findings = [], list(_open_to_others(package.package, stores))
    for store in stores:
        seen = take_inventory(store)
        for entry in seen.entries:
            try:
                damaged = find_damage(entry)
            except UNREADABLE as error:
                findings.append(of_error(error))
                continue
            if damaged:
                verify = f"move it to quarantine: {command(package.package, 'cache verify')}"
                findings.append(Finding("a damaged entry in the store", f"{entry.folder}: {damaged}", verify))
        for refusal in map(of_error, seen.refused):
            findings += [refusal] if refusal not in findings else []
        entries = [view_entry(entry, host, wanted) for entry in seen.entries]
        views.append({"folder": str(store.folder), "own": store.own, "entries": entries})
    return views, findings


def _open_to_others(package: str, stores: Sequence[Store]) -> Iterator[Finding]:
    """The cache folders and temporary folder that other users could change, even if they are empty."""
    for guard in (*(store.guard for store in stores), temporary_guard(package, stores[-1].trust)):
        try:
            guard.check(guard.folder)
        except StoreError as error:
            yield of_error(error)
        except OSError:  # it does not exist, and its parents are safe; or the inventory reports the error
            continue


def page(view: Mapping[str, Any], kernels: Kernels) -> str:
    """The report as text."""
    lines = [*machine_text(kernels.host), "", *kernels_text(view, kernels)]
    lines += ["", "The next call", rows_text([call_row(each) for each in view["next"]])]
    return "\n".join([*lines, "", *findings_text(view)])


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


def kernels_text(view: Mapping[str, Any], kernels: Kernels) -> list[str]:
    """The package's own kernels, whether they fit, and the entries of its stores."""
    package, host = kernels.installed, kernels.host
    lines = [f"{package.package} {package.version}: {package.folder}"]
    if package.manifest:
        built = targets_text(package.manifest)
        rows = rows_text([("fingerprint", package.manifest.fingerprint), ("kernels", built)])
        lines += [rows, verdict_text(verdict(package.read_wheel(host)))]
    elif not package.damage:
        lines.append(f"  {package.no_artifact().found}")
    for store in view["stores"]:
        lines += ["", f"{'The store' if store['own'] else 'A read-only store'} {store['folder']}"]
        lines += [f"  {entry_text(entry)}" for entry in store["entries"]] or ["  nothing"]
    return lines


def findings_text(view: Mapping[str, Any]) -> list[str]:
    """The findings, under a heading."""
    heading = "Findings" if view["findings"] else "No findings"
    return [heading, *(str(Finding(**finding)) for finding in view["findings"])]
