"""The software bill of materials of a wheel: what is compiled or linked in, for tools that look for vulnerabilities.

One CycloneDX 1.6 document in `.dist-info/sboms` (PEP 770; binary distribution format). Equal wheels have equal
documents: nothing in one comes from a clock or a random number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from ..project.build_settings import OLDEST_ZIP_TIME
from ..runtime.manifest import Manifest
from ..version import VERSION
from .components import Component, package_url


@dataclass(frozen=True)
class Subject:
    """What the document is about.

    Attributes:
        name, version: those of the distribution.
        licence: its own, as it declares it; empty if it declares none.
        native: the Artifact's folder in the wheel.
        manifest: the Artifact's.
        epoch: the time that somebody set for the wheel, in seconds since 1970, or the default, which is none.
    """

    name: str
    version: str
    licence: str
    native: str
    manifest: Manifest
    epoch: int


def document(subject: Subject, components: Iterable[Component]) -> bytes:
    """The document, as JSON in ASCII."""
    manifest = subject.manifest
    root = _library(subject.name, subject.version, package_url("pypi", subject.name, subject.version), subject.licence)
    root["properties"] = [{"name": "kernelwheel:fingerprint", "value": manifest.fingerprint}]
    loader = _backend("runtime", "the part of it that is a package inside this one")
    inside = [(each.libraries, _component(each)) for each in components]
    files = []
    depends: dict[str, list[str]] = {}
    for library in manifest.libraries:
        name = f"{subject.native}/{library.file}"
        files.append({"type": "file", "bom-ref": name, "name": name, "hashes": _sha256(library.sha256)})
        depends[name] = [component["bom-ref"] for libraries, component in inside if library.file in libraries]
    depends[root["bom-ref"]] = [loader["bom-ref"], *depends]
    entries = [loader, *files, *(component for _, component in inside)]
    entries.sort(key=lambda each: str(each["bom-ref"]))
    metadata: dict[str, Any] = {
        "component": root,
        "tools": {"components": [_backend("backend", "what built the wheel and wrote this document")]},
    }
    if subject.epoch != OLDEST_ZIP_TIME:
        metadata["timestamp"] = datetime.fromtimestamp(subject.epoch, timezone.utc).isoformat()
    seed = " ".join([root["purl"], manifest.fingerprint, *(library.sha256 for library in manifest.libraries)])
    values = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, seed)}",
        "metadata": metadata,
        "components": entries,
        "dependencies": [
            {"ref": each["bom-ref"], "dependsOn": sorted(depends.get(each["bom-ref"], []))} for each in (root, *entries)
        ],
    }
    return (json.dumps(values, indent=1, sort_keys=True) + "\n").encode("ascii")


def _component(component: Component) -> dict[str, Any]:
    values = _library(component.name, component.version, component.purl, component.licence)
    values["description"] = component.what
    return {**values, "hashes": _sha256(component.sha256)} if component.sha256 else values


def _backend(reference: str, what: str) -> dict[str, Any]:
    values = _library("kernelwheel", VERSION, package_url("pypi", "kernelwheel", VERSION), "Apache-2.0")
    return {**values, "bom-ref": f"{reference}:{values['purl']}", "description": what}  # unlike the other one's


def _library(name: str, version: str, purl: str, licence: str) -> dict[str, Any]:
    values: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "purl": purl}
    if version:
        values["version"] = version
    return {**values, "licenses": [{"expression": licence}]} if licence else values


def _sha256(digest: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest}]
