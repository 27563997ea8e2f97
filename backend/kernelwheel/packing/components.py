"""What is compiled or linked into an Artifact besides the package's own sources: versions, licences and digests.

It is what a compiler reads and a linker copies, not what is found at run time, such as libtorch or libstdc++.so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from packageurl import PackageURL

from ..runtime.artifact.manifest import Library, Manifest

# What NVIDIA's own wheels declare.
NVIDIA = "LicenseRef-NVIDIA-Proprietary"
# As its headers say: libcu++; Thrust; CUB; and what Thrust has of Boost.
CCCL = "Apache-2.0 WITH LLVM-exception AND Apache-2.0 AND BSD-3-Clause AND BSL-1.0"

# The file with the licences, in `.dist-info/licenses`, in a folder of its own: a project may have a file of any name
# there (PEP 639). Its name is fixed, because METADATA lists it, and is written before there is a Toolchain (PEP 517).
LICENCES = "compiled-in/LICENSES.txt"

Facts = Mapping[str, Mapping[str, Any]]


class About(NamedTuple):
    """What is the same in every wheel of something that is compiled or linked in."""

    licence: str  # an SPDX licence expression
    what: str  # what of it is in the libraries
    purl: tuple[str, str | None, str, str]  # of its package URL: type, namespace, name, what is before the version
    asks_for_text: bool = True  # whether its licence asks for its text beside the binary


@dataclass(frozen=True)
class Component:
    """One thing that is compiled or linked in."""

    name: str
    version: str  # empty if nothing says it
    about: About
    libraries: tuple[str, ...]  # the files that it is in
    sha256: str = ""  # that of the one file that is linked in; empty for headers, whose digests the manifest has
    texts: tuple[tuple[str, str], ...] = ()  # of its licence, each after the name of the file that it was found in

    @property
    def purl(self) -> PackageURL:
        """Its package URL."""
        kind, namespace, project, prefix = self.about.purl
        return PackageURL(kind, namespace, project, prefix + self.version if self.version else None)


_ABOUT = {
    "torch": About("BSD-3-Clause", "inline functions and templates of its headers", ("pypi", None, "torch", "")),
    "libstdc++": About(
        "GPL-3.0-or-later WITH GCC-exception-3.1",
        "inline functions and templates of its headers, and the pieces of libgcc that a compiler links in",
        ("generic", None, "gcc", ""),
        asks_for_text=False,  # the exception lets the result be conveyed on any terms
    ),
    "libc++": About(
        "Apache-2.0 WITH LLVM-exception",
        "libc++, libc++abi and libunwind, and inline functions of their headers",
        ("github", "llvm", "llvm-project", "llvmorg-"),
        asks_for_text=False,  # as clang's
    ),
    "mingw-w64": About(
        "ZPL-2.1", "what starts a library, and functions of the C runtime", ("generic", None, "mingw-w64", "")
    ),
    "zig": About("MIT", "functions of its compiler-rt", ("pypi", None, "ziglang", "")),
    "cuda-runtime": About(
        NVIDIA, "the static library, and inline functions of its headers", ("generic", None, "cuda-runtime", "")
    ),
    "cuda-crt": About(
        NVIDIA,
        "inline functions of the compiler's own headers, and device code of libdevice",
        ("generic", None, "cuda-crt", ""),
    ),
    "clang": About(
        "Apache-2.0 WITH LLVM-exception",
        "inline functions of its headers for CUDA",
        ("github", "llvm", "llvm-project", "llvmorg-"),
        asks_for_text=False,  # its exception is for what a compiler puts into binaries
    ),
    "cccl": About(CCCL, "templates of CUB, Thrust and libcu++", ("github", "nvidia", "cccl", "v")),
    "pybind11": About("BSD-3-Clause", "templates of the copy among torch's headers", ("pypi", None, "pybind11", "")),
    "python": About("Python-2.0.1", "inline functions of its headers", ("generic", None, "python", "")),
}


def components_of(manifest: Manifest, facts: Facts) -> tuple[Component, ...]:
    """The components of an Artifact, in the order of their names; `facts` are those of compiler/component_facts.py."""
    toolkit = manifest.plan["tools"]["toolkit"] or {}
    found = []
    for name, version, libraries in _found(manifest, facts) if manifest.libraries else ():
        about = _ABOUT[name]
        found.append(
            Component(
                name=name,
                version=version,
                about=about,
                libraries=tuple(library.file for library in libraries),
                sha256=toolkit.get("cudart_static", "") if name == "cuda-runtime" else "",
                texts=tuple((file, text) for file, text in facts[name]["texts"]) if about.asks_for_text else (),
            )
        )
    return tuple(sorted(found, key=lambda component: component.name))


def _found(manifest: Manifest, facts: Facts) -> Iterator[tuple[str, str, Sequence[Library]]]:
    """What is compiled or linked in: its name, its version, and the libraries that it is in."""
    built_with, tools = manifest.built_with, manifest.plan["tools"]
    yield "torch", str(built_with["torch"]), manifest.libraries
    if "zig" in facts:
        for name in ("libc++", "mingw-w64", "zig"):
            yield name, facts[name]["version"], manifest.libraries
    else:  # clang uses the libstdc++ of a gcc beside it, and does not say which
        yield "libstdc++", str(tools["cxx"]["version"]) if tools["cxx"]["kind"] == "gcc" else "", manifest.libraries
    if "cuda-runtime" in facts and (cuda := manifest.libraries_for("cuda")):
        yield "cuda-runtime", facts["cuda-runtime"]["version"], cuda
        if kernels := [library for library in cuda if library.sass or library.ptx]:
            yield "cuda-crt", str(tools["toolkit"]["version"]), kernels
            yield "cccl", str(built_with["cccl"] or ""), kernels
            if clang := facts["clang"]["version"]:
                yield "clang", clang, kernels
    if modules := [*manifest.modules.values()]:
        yield "pybind11", facts["pybind11"]["version"], modules
        abi = re.match(r"cp(\d)(\d+)", manifest.requires.python or "")
        yield "python", f"{abi[1]}.{abi[2]}" if abi else "", modules


def without_text(components: Iterable[Component]) -> Iterator[str]:
    """What to say of components whose licence asks for its text, and of which none was found."""
    for each in components:
        if each.about.asks_for_text and not each.texts:
            yield (
                f"note: no text was found of the licence of {each.name} ({each.about.licence}), which is in "
                f"{', '.join(each.libraries)}; before you publish the wheel, add it to license-files in pyproject.toml"
            )


def licence_texts(components: Iterable[Component]) -> bytes:
    """The file: what is compiled in, on what terms, and their texts; a text that two components share is there once."""
    return "\n".join(_lines(components)).encode("utf-8")


def _lines(components: Iterable[Component]) -> Iterator[str]:
    yield "What is compiled or linked into the libraries of this wheel besides its own sources, and the licences."
    first: dict[str, str] = {}
    for each in components:
        yield from ("", "=" * 80, f"{each.name} {each.version}".rstrip(), f"licence: {each.about.licence}")
        yield from (f"what: {each.about.what}", f"in: {', '.join(each.libraries)}")
        if not each.texts:
            yield "text: none was found" if each.about.asks_for_text else "text: not needed beside a binary"
        for file, text in each.texts:
            if text in first:
                yield f"text: {file}, as under {first[text]}"
            else:
                first[text] = each.name
                yield from (f"text: {file}", "", text.strip())
    yield ""
