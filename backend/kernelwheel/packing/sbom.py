"""What is compiled or linked into an Artifact besides the package's own sources: its licences, and a bill of materials.

It is what a compiler reads and a linker copies, not what is found at run time, such as libtorch or libstdc++.so. The
bill is one CycloneDX document in `.dist-info/sboms`, for tools that look for vulnerabilities (PEP 770; binary
distribution format). Equal wheels have equal documents: nothing in one comes from a clock or a random number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
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

# What NVIDIA's own wheels declare.
NVIDIA = "LicenseRef-NVIDIA-Proprietary"
# As its headers say: libcu++; Thrust; CUB; and what Thrust has of Boost.
CCCL = "Apache-2.0 WITH LLVM-exception AND Apache-2.0 AND BSD-3-Clause AND BSL-1.0"

# The file with the licences, in `.dist-info/licenses`, in a folder of its own: a project may have a file of any name
# there (PEP 639). Its name is fixed, because METADATA lists it, and is written before there is a Toolchain (PEP 517).
LICENCES = "compiled-in/LICENSES.txt"

Facts = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Component:
    """One thing that is compiled or linked in."""

    name: str
    licence: str  # an SPDX licence expression
    what: str  # what of it is in the libraries
    within: str = "all"  # the libraries that it is in: those for `cuda`, with `kernels`, `modules`, or `all`
    source: str = ""  # its package URL up to the version; empty: `generic/NAME@`
    asks_for_text: bool = True  # whether its licence asks for its text beside the binary
    # What differs between wheels:
    version: str = ""  # empty if nothing says it
    libraries: tuple[str, ...] = ()  # the files that it is in
    sha256: str = ""  # that of the one file that is linked in; empty for headers, whose digests the manifest has
    texts: tuple[tuple[str, str], ...] = ()  # of its licence, each after the name of the file that it was found in

    @property
    def purl(self) -> PackageURL:
        """Its package URL."""
        source = self.source or f"generic/{self.name}@"
        return PackageURL.from_string(f"pkg:{source}{self.version}" if self.version else f"pkg:{source.split('@')[0]}")


_LLVM, _OF_LLVM = "Apache-2.0 WITH LLVM-exception", "github/llvm/llvm-project@llvmorg-"
_KNOWN = (
    Component("torch", "BSD-3-Clause", "inline functions and templates of its headers", source="pypi/torch@"),
    Component(
        "libstdc++",
        "GPL-3.0-or-later WITH GCC-exception-3.1",
        "inline functions and templates of its headers, and the pieces of libgcc that a compiler links in",
        source="generic/gcc@",
        asks_for_text=False,  # the exception lets the result be conveyed on any terms
    ),
    Component(
        "libc++",
        _LLVM,
        "libc++, libc++abi and libunwind, and inline functions of their headers",
        source=_OF_LLVM,
        asks_for_text=False,  # as clang's
    ),
    Component("mingw-w64", "ZPL-2.1", "what starts a library, and functions of the C runtime"),
    Component("zig", "MIT", "functions of its compiler-rt", source="pypi/ziglang@"),
    Component("cuda-runtime", NVIDIA, "the static library, and inline functions of its headers", "cuda"),
    Component(
        "cuda-crt", NVIDIA, "inline functions of the compiler's own headers, and device code of libdevice", "kernels"
    ),
    Component(
        "clang",
        _LLVM,
        "inline functions of its headers for CUDA",
        "kernels",
        _OF_LLVM,
        asks_for_text=False,  # its exception is for what a compiler puts into binaries
    ),
    Component("cccl", CCCL, "templates of CUB, Thrust and libcu++", "kernels", "github/nvidia/cccl@v"),
    Component("pybind11", "BSD-3-Clause", "templates of the copy among torch's headers", "modules", "pypi/pybind11@"),
    Component("python", "Python-2.0.1", "inline functions of its headers", "modules"),
)


def components_of(manifest: Manifest, facts: Facts) -> tuple[Component, ...]:
    """The components of an Artifact, in the order of their names; `facts` are those of compiler/component_facts.py."""
    toolkit = manifest.plan["tools"]["toolkit"] or {}
    cuda, recorded = manifest.libraries_for("cuda"), _recorded_versions(manifest)
    libraries = {
        "all": manifest.libraries,
        "cuda": cuda,
        "kernels": [library for library in cuda if library.sass or library.ptx],
        "modules": [*manifest.modules.values()],
    }
    found = [
        replace(
            each,
            version=recorded.get(each.name) or facts[each.name].get("version") or "",
            libraries=tuple(library.file for library in libraries[each.within]),
            sha256=toolkit.get("cudart_static", "") if each.name == "cuda-runtime" else "",
            texts=tuple((file, text) for file, text in facts[each.name]["texts"]) if each.asks_for_text else (),
        )
        for each in _KNOWN
        if each.name in facts and libraries[each.within]
    ]
    return tuple(sorted(found, key=lambda component: component.name))


def _recorded_versions(manifest: Manifest) -> dict[str, str]:
    """The versions that the manifest says, whenever the libraries were compiled."""
    built_with, tools = manifest.built_with, manifest.plan["tools"]
    abi = re.match(r"cp(\d)(\d+)", manifest.requires.python or "")
    return {
        "torch": built_with["torch"],
        # clang uses the libstdc++ of a gcc beside it, and does not say which
        "libstdc++": tools["cxx"]["version"] if tools["cxx"]["kind"] == "gcc" else "",
        "cuda-crt": tools["toolkit"]["version"] if tools["toolkit"] else "",
        "cccl": built_with["cccl"] or "",
        "python": f"{abi[1]}.{abi[2]}" if abi else "",
    }


def without_text(components: Iterable[Component]) -> Iterator[str]:
    """What to say of components whose licence asks for its text, and of which none was found."""
    for each in components:
        if each.asks_for_text and not each.texts:
            yield (
                f"note: no text was found of the licence of {each.name} ({each.licence}), which is in "
                f"{', '.join(each.libraries)}; before you publish the wheel, add it to license-files in pyproject.toml"
            )


def licence_texts(components: Iterable[Component]) -> bytes:
    """The file: what is compiled in, on what terms, and their texts; a text that two components share is there once."""
    return "\n".join(_lines(components)).encode("utf-8")


def _lines(components: Iterable[Component]) -> Iterator[str]:
    yield "What is compiled or linked into the libraries of this wheel besides its own sources, and the licences."
    first: dict[str, str] = {}
    for each in components:
        yield from ("", "=" * 80, f"{each.name} {each.version}".rstrip(), f"licence: {each.licence}")
        yield from (f"what: {each.what}", f"in: {', '.join(each.libraries)}")
        if not each.texts:
            yield "text: none was found" if each.asks_for_text else "text: not needed beside a binary"
        for file, text in each.texts:
            if text in first:
                yield f"text: {file}, as under {first[text]}"
            else:
                first[text] = each.name
                yield from (f"text: {file}", "", text.strip())
    yield ""


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
