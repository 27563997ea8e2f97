"""The software bill of materials of a wheel: what is compiled or linked in, for tools that look for vulnerabilities.

One CycloneDX document in `.dist-info/sboms` (PEP 770; binary distribution format). Equal wheels have equal documents:
nothing in one comes from a clock or a random number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
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
from ..runtime.artifact.manifest import Library, Manifest
from ..store.archive import native_folder
from ..version import __version__
from .components import Component


def document(
    manifest: Manifest, components: Iterable[Component], name: str, version: str, licence: str, epoch: int
) -> bytes:
    """The document, as JSON in UTF-8, about a distribution with an Artifact.

    `licence` is what it declares as its own; may be empty. `epoch` is the time that somebody set for the wheel, in
    seconds since 1970, or the default, which is none.
    """
    hashes = [library.sha256 for library in manifest.libraries]
    purl = PackageURL("pypi", name=name, version=version)
    root = cyclonedx.Component(
        name=name,
        version=version,
        type=cyclonedx.ComponentType.LIBRARY,
        bom_ref=str(purl),
        purl=purl,
        licenses=[LicenseExpression(licence)] if licence else [],
        properties=[Property(name="kernelwheel:fingerprint", value=manifest.fingerprint)],
    )
    bom = Bom(
        metadata=BomMetaData(component=root, tools=[], timestamp=datetime.fromtimestamp(epoch, timezone.utc)),
        serial_number=uuid5(NAMESPACE_URL, " ".join([str(purl), manifest.fingerprint, *hashes])),
    )
    runtime = _backend("runtime", "the part of it that is a package inside this one")
    bom.metadata.tools.components.add(_backend("backend", "what built the wheel and wrote this document"))
    files = {library.file: _file(native_folder(manifest), library) for library in manifest.libraries}
    inside = [(each.libraries, _component(each)) for each in components]
    bom.components.update([runtime, *files.values(), *(component for _, component in inside)])
    bom.register_dependency(root, [runtime, *files.values()])
    for library, file in files.items():
        bom.register_dependency(file, [component for libraries, component in inside if library in libraries])
    values: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    if epoch == OLDEST_ZIP_TIME:
        del values["metadata"]["timestamp"]  # the library would otherwise ask the clock
    return (json.dumps(values, indent=1, sort_keys=True) + "\n").encode("ascii")


def _file(native: str, library: Library) -> cyclonedx.Component:
    name = native + library.file
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
        bom_ref=str(component.purl),
        description=component.what,
        purl=component.purl,
        licenses=[LicenseExpression(component.licence)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=component.sha256)] if component.sha256 else [],
    )


def _backend(reference: str, what: str) -> cyclonedx.Component:
    purl = PackageURL("pypi", name="kernelwheel", version=__version__)
    return cyclonedx.Component(
        name="kernelwheel",
        version=__version__,
        type=cyclonedx.ComponentType.LIBRARY,
        bom_ref=f"{reference}:{purl}",  # unlike the other one's
        description=what,
        purl=purl,
        licenses=[LicenseExpression("Apache-2.0")],
    )
