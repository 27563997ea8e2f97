"""What the command line shows: a manifest, a verdict, a machine; as values for `--json` and as text for people."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from . import host as hosts
from . import manifest as manifests
from . import settings, toolchain
from .compat import Mismatch, Verdict, check
from .errors import BuildError, IncompatibleArtifactError
from .manifest import Manifest
from .runtime import Kernels


@dataclass(frozen=True)
class WheelView:
    """A wheel's manifest, what is wrong with its files, and what it is worth on this machine."""

    wheel: str
    manifest: Manifest
    damage: tuple[str, ...]
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "wheel": self.wheel,
            "manifest": self.manifest.to_json(),
            "damage": list(self.damage),
            "verdict": [asdict(mismatch) for mismatch in self.verdict.mismatches],
        }


def view_wheel(path: Path) -> WheelView:
    """Read a wheel without unpacking it, check its files against its manifest, and that against this machine.

    Raises:
        IncompatibleArtifactError: the file is no wheel, or holds no Artifact.
    """
    try:
        with ZipFile(path) as archive:
            members = [name for name in archive.namelist() if name.endswith(f"/_native/{manifests.FILE}")]
            if len(members) != 1:
                raise _no_artifact(path, f"{len(members)} files */_native/{manifests.FILE}")
            manifest = manifests.from_text(archive.read(members[0]).decode("utf-8", "replace"), f"{path}:{members[0]}")
            folder = members[0].rpartition("/")[0]
            damage = tuple(_damage(archive, folder, manifest))
    except (BadZipFile, OSError) as error:
        raise _no_artifact(path, str(error)) from error
    return WheelView(path.name, manifest, damage, check(manifest, hosts.with_gpus(hosts.probe())))


def _damage(archive: ZipFile, folder: str, manifest: Manifest) -> list[str]:
    found = []
    for library in manifest.libraries:
        try:
            data = archive.read(f"{folder}/{library.file}")
        except (KeyError, BadZipFile) as error:
            found.append(f"{library.file}: {error}")
            continue
        if hashlib.sha256(data).hexdigest() != library.sha256:
            found.append(f"{library.file}: its sha256 is not the manifest's")
    return found


def _no_artifact(path: Path, found: str) -> IncompatibleArtifactError:
    return IncompatibleArtifactError(
        f"{path.name} holds no compiled kernels",
        required=f"a wheel with one */_native/{manifests.FILE}",
        found=found,
        remedies=["name a wheel that this build backend made"],
    )


def manifest_text(manifest: Manifest) -> str:
    """A manifest on half a page."""
    needs, built = manifest.requires, manifest.built_with
    cuda = built.get("cuda", {})
    rows = [
        ("package", f"{manifest.package} {manifest.version}"),
        ("fingerprint", manifest.fingerprint),
        ("built with", f"torch {built.get('torch')}, {built.get('cxx')}, nvcc {built.get('nvcc') or 'not used'}"),
        ("CUDA kernels", f"{'yes' if cuda.get('enabled') else 'no'}: {cuda.get('because')}"),
        ("requires", f"torch >= {needs.torch}, {needs.platform}, {needs.libc}, {needs.libstdcxx}"),
    ]
    if needs.cuda:
        rows.append(("", f"for CUDA: torch of CUDA {needs.cuda}, driver {needs.driver} (PTX: {needs.driver_for_ptx})"))
    for library in manifest.libraries:
        rows.append((library.file, f"{library.size / 1e6:.2f} MB, {library.device}"))
        if library.device == "cuda":
            rows.append(("", f"SASS {' '.join(library.sass)}; PTX {' '.join(library.ptx) or 'none'}"))
    return _rows(rows)


def verdict_text(mismatches: Sequence[Mismatch]) -> str:
    """A verdict: one line when it is empty, else each mismatch with its remedy."""
    if not mismatches:
        return "verdict: fits this machine"
    lines = ["verdict: does not fit this machine"]
    for mismatch in mismatches:
        scope = "all kernels" if mismatch.device == "cpu" else "CUDA kernels"
        lines += [
            f"  {mismatch.dimension} ({scope})",
            f"    required: {mismatch.required}",
            f"    found:    {mismatch.found}",
            f"    to mend:  {mismatch.remedy}",
        ]
    return "\n".join(lines)


def view_machine(kernels: Kernels, table: Mapping[str, Any]) -> dict[str, Any]:
    """Everything `doctor` knows: what is installed, what this machine runs, and what it can compile with.

    Args:
        kernels: the package's kernels in this process; the GPUs are asked now.
        table: the package's own options (`[tool.kernelwheel]`), empty for the defaults.
    """
    kernels.probe_gpus()
    return {**kernels.info(), "toolchain": _view_toolchain(kernels.package, table)}


def _view_toolchain(package: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Each part by itself, so that one that is missing does not hide the others."""
    view: dict[str, Any] = {}
    try:
        chosen = settings.resolve(package, table, os.environ)
    except BuildError as error:
        return {"settings": str(error)}
    try:
        cxx = toolchain.find_cxx(chosen, os.environ)
        view["cxx"] = f"{cxx.path}: {cxx.kind} {cxx.version}"
    except BuildError as error:
        view["cxx"] = str(error)
    try:
        torch = toolchain.find_torch()
        view["torch"] = f"{torch.root}: {torch.version}"
        decision = toolchain.decide_cuda(chosen, torch, os.environ)
        view["cuda"] = decision.reason
        view["nvcc"] = f"{decision.nvcc.path}: {decision.nvcc.version}" if decision.nvcc else "not needed"
    except BuildError as error:
        view["cuda"] = str(error)
    return view


def machine_text(view: Mapping[str, Any], kernels: Kernels) -> str:
    """The page that `doctor` prints."""
    host = kernels.host
    gpus = ", ".join("{}.{}".format(*capability) for capability in host.capabilities or ())
    rows = [
        ("platform", f"{host.platform}, {host.libc}, {host.libstdcxx}"),
        ("torch", f"{host.torch}, CUDA {host.cuda or 'none'}"),
        ("driver", "CUDA {}.{}".format(*host.driver) if host.driver else "none"),
        ("GPUs", f"compute capability {gpus}" if gpus else "none"),
    ]
    parts = ["This machine runs", _rows(rows), "", "and compiles with", _rows(list(view["toolchain"].items()))]
    parts += ["", f"{kernels.package} {kernels.version}: {kernels.folder}"]
    if kernels.damage:
        parts.append(str(kernels.damage))
    elif kernels.manifest:
        parts.append(manifest_text(kernels.manifest))
    if not kernels.damage:
        parts.append(verdict_text(kernels.verdict.mismatches))
    return "\n".join(parts)


def _rows(rows: Sequence[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    lines = []
    for name, value in rows:
        first, *rest = str(value).splitlines() or [""]
        lines += [f"  {name:<{width}}  {first}", *(f"  {'':<{width}}  {line}" for line in rest)]
    return "\n".join(lines)
