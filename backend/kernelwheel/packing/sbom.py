"""The software bill of materials of a wheel: what is compiled or linked in, for tools that look for vulnerabilities.

One CycloneDX document in `.dist-info/sboms` (PEP 770; binary distribution format). Equal wheels have equal documents:
nothing in one comes from a clock or a random number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model import component as cyclonedx
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from ..project.build_settings import OLDEST_ZIP_TIME
from ..runtime.manifest import Library, Manifest
from ..version import VERSION
from .components import Component


@dataclass(frozen=True)
class Subject:
    """What the document is about."""

    name: str  # the distribution's
    version: str
    licence: str  # its own, as it declares it; empty if it declares none
    native: str  # the Artifact's folder in the wheel
    manifest: Manifest
    epoch: int  # the time that somebody set for the wheel, in seconds since 1970, or the default, which is none

    @property
    def purl(self) -> PackageURL:
        """The package URL of the distribution."""
        return PackageURL("pypi", name=self.name, version=self.version)


def document(subject: Subject, components: Iterable[Component]) -> bytes:
    """The document, as JSON in UTF-8."""
    made = subject.manifest
    hashes = [library.sha256 for library in made.libraries]
    root = cyclonedx.Component(
        name=subject.name,
        version=subject.version,
        type=cyclonedx.ComponentType.LIBRARY,
        bom_ref=str(subject.purl),
        purl=subject.purl,
        licenses=[LicenseExpression(subject.licence)] if subject.licence else [],
        properties=[Property(name="kernelwheel:fingerprint", value=made.fingerprint)],
    )
    bom = Bom(
        metadata=BomMetaData(component=root, tools=[], timestamp=datetime.fromtimestamp(subject.epoch, timezone.utc)),
        serial_number=uuid5(NAMESPACE_URL, " ".join([str(subject.purl), made.fingerprint, *hashes])),
    )
    runtime = _backend("runtime", "the part of it that is a package inside this one")
    bom.metadata.tools.components.add(_backend("backend", "what built the wheel and wrote this document"))
    files = {library.file: _file(subject.native, library) for library in made.libraries}
    inside = [(each.libraries, _component(each)) for each in components]
    bom.components.update([runtime, *files.values(), *(component for _, component in inside)])
    bom.register_dependency(root, [runtime, *files.values()])
    for name, file in files.items():
        bom.register_dependency(file, [component for libraries, component in inside if name in libraries])
    values: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    if subject.epoch == OLDEST_ZIP_TIME:
        del values["metadata"]["timestamp"]  # the library would otherwise ask the clock
    return (json.dumps(values, indent=1, sort_keys=True) + "\n").encode("ascii")


def _file(native: str, library: Library) -> cyclonedx.Component:
    name = f"{native}/{library.file}"
    return cyclonedx.Component(
        name=name,
        type=cyclonedx.ComponentType.FILE,
        bom_ref=name,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=library.sha256)],
    )


def _component(component: Component) -> cyclonedx.Component:
    return cyclonedx.Component(
        name=component.name,
        version=component.version or None,
        type=cyclonedx.ComponentType.LIBRARY,
        bom_ref=component.purl,
        description=component.what,
        purl=PackageURL.from_string(component.purl),
        licenses=[LicenseExpression(component.licence)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=component.sha256)] if component.sha256 else [],
    )


def _backend(reference: str, what: str) -> cyclonedx.Component:
    purl = PackageURL("pypi", name="kernelwheel", version=VERSION)
    return cyclonedx.Component(
        name="kernelwheel",
        version=VERSION,
        type=cyclonedx.ComponentType.LIBRARY,
        bom_ref=f"{reference}:{purl}",  # unlike the other one's
        description=what,
        purl=purl,
        licenses=[LicenseExpression("Apache-2.0")],
    )
