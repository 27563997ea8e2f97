"""What is compiled or linked into an Artifact besides the package's own sources: versions, licences and digests.

It is what a compiler reads and a linker copies, not what is found at run time, such as libtorch or libstdc++.so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from packageurl import PackageURL

from ..compiler.toolchain.linked_toolkit import CUDART
from ..runtime.manifest import Library, Manifest

# What NVIDIA's own wheels declare.
NVIDIA = "LicenseRef-NVIDIA-Proprietary"
# As its headers say: libcu++; Thrust; CUB; and what Thrust has of Boost.
CCCL = "Apache-2.0 WITH LLVM-exception AND Apache-2.0 AND BSD-3-Clause AND BSL-1.0"

Facts = Mapping[str, Mapping[str, Any]]


class LicenceText(NamedTuple):
    """The text of a licence, and the file that it was found in, by name."""

    file: str
    text: str


@dataclass(frozen=True)
class Component:
    """One thing that is compiled or linked in."""

    name: str
    version: str  # empty if nothing says it
    purl: str  # its package URL
    licence: str  # an SPDX licence expression
    what: str  # what of it is in the libraries
    libraries: tuple[str, ...]  # the files that it is in
    sha256: str = ""  # that of the one file that is linked in; empty for headers, whose digests the manifest has
    texts: tuple[LicenceText, ...] = ()  # of its licence
    asks_for_text: bool = True  # whether its licence asks for its text beside the binary


def components_of(manifest: Manifest, facts: Facts) -> tuple[Component, ...]:
    """The components of an Artifact, in the order of their names; `facts` are those of compiler/component_facts.py."""
    every = _files(manifest.libraries)
    found = [_torch(manifest, facts, every), _cxx(manifest, every)]
    if "cuda-runtime" in facts and manifest.libraries_for("cuda"):
        found += _cuda(manifest, facts)
    if manifest.modules:
        found += _python(manifest, facts)
    return tuple(sorted(found, key=lambda component: component.name))


def without_text(components: Iterable[Component]) -> Iterator[str]:
    """What to say of components whose licence asks for its text, and of which none was found."""
    for each in components:
        if each.asks_for_text and not each.texts:
            yield (
                f"note: no text was found of the licence of {each.name} ({each.licence}), which is in "
                f"{', '.join(each.libraries)}; before you publish the wheel, add it to license-files in pyproject.toml"
            )


def _torch(manifest: Manifest, facts: Facts, every: tuple[str, ...]) -> Component:
    version = str(manifest.built_with["torch"])
    return Component(
        "torch",
        version,
        _purl("pypi", "torch", version),
        "BSD-3-Clause",
        "inline functions and templates of its headers",
        every,
        texts=_texts(facts, "torch"),
    )


def _cxx(manifest: Manifest, every: tuple[str, ...]) -> Component:
    cxx = manifest.plan["tools"]["cxx"]
    # clang uses the libstdc++ of a gcc beside it, and does not say which.
    version = str(cxx["version"]) if cxx["kind"] == "gcc" else ""
    return Component(
        "libstdc++",
        version,
        _purl("generic", "gcc", version),
        "GPL-3.0-or-later WITH GCC-exception-3.1",
        "inline functions and templates of its headers, and the pieces of libgcc that a compiler links in",
        every,
        asks_for_text=False,  # the exception lets the result be conveyed on any terms
    )


def _cuda(manifest: Manifest, facts: Facts) -> Iterator[Component]:
    cuda = manifest.libraries_for("cuda")
    kernels = _files(library for library in cuda if library.sass or library.ptx)
    toolkit = manifest.plan["tools"]["toolkit"]
    version = facts["cuda-runtime"]["version"]
    yield Component(
        "cuda-runtime",
        version,
        _purl("generic", "cuda-runtime", version),
        NVIDIA,
        f"{CUDART}, and inline functions of its headers",
        _files(cuda),
        sha256=toolkit.get("cudart_static", ""),
        texts=_texts(facts, "cuda-runtime"),
    )
    if kernels:
        version = str(toolkit["version"])
        yield Component(
            "cuda-crt",
            version,
            _purl("generic", "cuda-crt", version),
            NVIDIA,
            "inline functions of the compiler's own headers, and device code of libdevice",
            kernels,
            texts=_texts(facts, "cuda-crt"),
        )
        if clang := facts["clang"]["version"]:
            yield Component(
                "clang",
                clang,
                _purl("github", "llvm-project", f"llvmorg-{clang}", namespace="llvm"),
                "Apache-2.0 WITH LLVM-exception",
                "inline functions of its headers for CUDA",
                kernels,
                asks_for_text=False,  # its exception is for what a compiler puts into binaries
            )
        version = str(manifest.built_with["cccl"] or "")
        yield Component(
            "cccl",
            version,
            _purl("github", "cccl", f"v{version}" if version else "", namespace="nvidia"),
            CCCL,
            "templates of CUB, Thrust and libcu++",
            kernels,
            texts=_texts(facts, "cccl"),
        )


def _python(manifest: Manifest, facts: Facts) -> Iterator[Component]:
    modules = _files(manifest.modules.values())
    version = facts["pybind11"]["version"]
    yield Component(
        "pybind11",
        version,
        _purl("pypi", "pybind11", version),
        "BSD-3-Clause",
        "templates of the copy among torch's headers",
        modules,
        texts=_texts(facts, "pybind11"),
    )
    abi = re.match(r"cp(\d)(\d+)", manifest.requires.python or "")
    version = f"{abi[1]}.{abi[2]}" if abi else ""
    yield Component(
        "python",
        version,
        _purl("generic", "python", version),
        "Python-2.0.1",
        "inline functions of its headers",
        modules,
        texts=_texts(facts, "python"),
    )


def _files(libraries: Iterable[Library]) -> tuple[str, ...]:
    return tuple(library.file for library in libraries)


def _texts(facts: Facts, name: str) -> tuple[LicenceText, ...]:
    return tuple(LicenceText(file, text) for file, text in facts[name]["texts"])


def _purl(kind: str, name: str, version: str, namespace: str | None = None) -> str:
    return PackageURL(kind, namespace, name, version or None).to_string()
