"""What is compiled or linked into an Artifact besides the package's own sources: versions, licences and digests.

It is what a compiler reads and a linker copies, not what is found at run time, such as libtorch or libstdc++.so.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from ..compiler.toolchain.linked_toolkit import CUDART
from ..compiler.toolchain.toolchain import Toolchain
from ..compiler.toolchain.toolkit import Nvcc
from ..compiler.toolchain.toolkit_identity import cudart_version
from ..runtime.manifest import Library, Manifest

# What NVIDIA's own wheels declare.
NVIDIA = "LicenseRef-NVIDIA-Proprietary"
# As its headers say: libcu++; Thrust; CUB; and what Thrust has of Boost.
CCCL = "Apache-2.0 WITH LLVM-exception AND Apache-2.0 AND BSD-3-Clause AND BSL-1.0"
# One header of each part of CCCL, which begins with its notice. A toolkit has no other text of these licences.
CCCL_NOTICES = ("cub/version.cuh", "thrust/version.h", "cuda/std/version")


class LicenceText(NamedTuple):
    """The text of a licence, and the file that it was found in, by name."""

    file: str
    text: str


@dataclass(frozen=True)
class Component:
    """One thing that is compiled or linked in.

    Attributes:
        name, version: its own; the version is empty if nothing says it.
        purl: its package URL.
        licence: an SPDX licence expression.
        what: what of it is in the libraries.
        libraries: the files that it is in.
        sha256: that of the one file that is linked in; empty for headers, whose digests the manifest has.
        texts: of its licence.
        asks_for_text: whether its licence asks for its text beside the binary.
    """

    name: str
    version: str
    purl: str
    licence: str
    what: str
    libraries: tuple[str, ...]
    sha256: str = ""
    texts: tuple[LicenceText, ...] = ()
    asks_for_text: bool = True


def components_of(manifest: Manifest, tools: Toolchain) -> tuple[Component, ...]:
    """The components of an Artifact, in the order of their names.

    Args:
        manifest: the Artifact's; it has the versions and digests.
        tools: what it was compiled with, or the same on another machine; it has the rest, and the licences.
    """
    every = _files(manifest.libraries)
    found = [_torch(manifest, tools, every), _cxx(manifest, every)]
    if tools.cuda.nvcc and manifest.libraries_for("cuda"):
        found += _cuda(manifest, tools.cuda.nvcc)
    if manifest.modules:
        found += _python(manifest, tools)
    return tuple(sorted(found, key=lambda component: component.name))


def without_text(components: Iterable[Component]) -> Iterator[str]:
    """What to say of components whose licence asks for its text, and of which none was found."""
    for each in components:
        if each.asks_for_text and not each.texts:
            yield (
                f"note: no text was found of the licence of {each.name} ({each.licence}), which is in "
                f"{', '.join(each.libraries)}; before you publish the wheel, add it to license-files in pyproject.toml"
            )


def _torch(manifest: Manifest, tools: Toolchain, every: tuple[str, ...]) -> Component:
    version = str(manifest.built_with["torch"])
    return Component(
        "torch",
        version,
        package_url("pypi", "torch", version),
        "BSD-3-Clause",
        "inline functions and templates of its headers",
        every,
        texts=tuple(_texts_beside(tools.torch.root.parent, "torch")),
    )


def _cxx(manifest: Manifest, every: tuple[str, ...]) -> Component:
    cxx = manifest.plan["tools"]["cxx"]
    # clang uses the libstdc++ of a gcc beside it, and does not say which.
    version = str(cxx["version"]) if cxx["kind"] == "gcc" else ""
    return Component(
        "libstdc++",
        version,
        package_url("generic", "gcc", version),
        "GPL-3.0-or-later WITH GCC-exception-3.1",
        "inline functions and templates of its headers, and the pieces of libgcc that a compiler links in",
        every,
        asks_for_text=False,  # the exception lets the result be conveyed on any terms
    )


def _cuda(manifest: Manifest, nvcc: Nvcc) -> Iterator[Component]:
    cuda = manifest.libraries_for("cuda")
    kernels = _files(library for library in cuda if library.sass or library.ptx)
    toolkit = manifest.plan["tools"]["toolkit"]
    version = cudart_version(nvcc.include)
    eula = tuple(_nvidia_texts(nvcc))
    yield Component(
        "cuda-runtime",
        version,
        package_url("generic", "cuda-runtime", version),
        NVIDIA,
        f"{CUDART}, and inline functions of its headers",
        _files(cuda),
        sha256=toolkit.get("cudart_static", ""),
        texts=eula,
    )
    if kernels:
        version = str(toolkit["version"])
        yield Component(
            "cuda-crt",
            version,
            package_url("generic", "cuda-crt", version),
            NVIDIA,
            "inline functions of the compiler's own headers, and device code of libdevice",
            kernels,
            texts=eula,
        )
        if nvcc.clang:
            yield Component(
                "clang",
                nvcc.clang,
                package_url("github/llvm", "llvm-project", f"llvmorg-{nvcc.clang}"),
                "Apache-2.0 WITH LLVM-exception",
                "inline functions of its headers for CUDA",
                kernels,
                asks_for_text=False,  # its exception is for what a compiler puts into binaries
            )
        version = str(manifest.built_with["cccl"] or "")
        yield Component(
            "cccl",
            version,
            package_url("github/nvidia", "cccl", f"v{version}" if version else ""),
            CCCL,
            "templates of CUB, Thrust and libcu++",
            kernels,
            texts=tuple(_cccl_notices(nvcc)),
        )


def _python(manifest: Manifest, tools: Toolchain) -> Iterator[Component]:
    modules = _files(manifest.modules.values())
    header = tools.torch.root / "include/pybind11/detail/common.h"
    text = header.read_text(encoding="utf-8", errors="replace") if header.is_file() else ""
    numbers = re.findall(r"# *define PYBIND11_VERSION_(?:MAJOR|MINOR|MICRO|PATCH) +(\d+)", text)
    version = ".".join(numbers[:3])
    yield Component(
        "pybind11",
        version,
        package_url("pypi", "pybind11", version),
        "BSD-3-Clause",
        "templates of the copy among torch's headers",
        modules,
        texts=tuple(_texts_beside(tools.torch.root.parent, "torch", "pybind11")),
    )
    abi = re.match(r"cp(\d)(\d+)", manifest.requires.python or "")
    version = f"{abi[1]}.{abi[2]}" if abi else ""
    yield Component(
        "python",
        version,
        package_url("generic", "python", version),
        "Python-2.0.1",
        "inline functions of its headers",
        modules,
        texts=tuple(_first_text(*(Path(at, "LICENSE.txt") for at in (sysconfig.get_path("stdlib"), sys.base_prefix)))),
    )


def _files(libraries: Iterable[Library]) -> tuple[str, ...]:
    return tuple(library.file for library in libraries)


def package_url(kind: str, name: str, version: str) -> str:
    """The package URL of something; `kind` is its type, and may end in a namespace: `github/nvidia` (purl-spec)."""
    return f"pkg:{kind}/{name}" + (f"@{quote(version, safe='')}" if version else "")


# Texts


def _texts_beside(site: Path, distribution: str, vendored: str = "") -> Iterator[LicenceText]:
    """What pip installed of a distribution's licence, or of the licence of something that it has a copy of."""
    for folder in sorted(site.glob(f"{distribution}-*.dist-info")):
        own = [*folder.glob("licenses/LICEN[CS]E*"), *folder.glob("licenses/License*"), *folder.glob("LICEN[CS]E*")]
        theirs = [*folder.glob(f"licenses/third_party/{vendored}/LICEN[CS]E*")] if vendored else []
        for path in sorted(theirs or own)[:1]:
            text = path.read_text(encoding="utf-8", errors="replace")
            if not vendored or theirs or vendored in text:
                yield LicenceText(path.name, text)


def _nvidia_texts(nvcc: Nvcc) -> Iterator[LicenceText]:
    """The licence of the toolkit: beside it, where pip installed it, or in the folder of a system's toolkit."""
    if nvcc.root.parent.name == "nvidia":
        yield from list(_texts_beside(nvcc.root.parents[1], "nvidia_cuda_runtime*"))[:1]
    else:
        yield from _first_text(nvcc.root / "EULA.txt", nvcc.root / "LICENSE")


def _cccl_notices(nvcc: Nvcc) -> Iterator[LicenceText]:
    for name in CCCL_NOTICES:
        for path in (nvcc.include / "cccl" / name, nvcc.include / name):  # in include/cccl since CUDA 13
            if path.is_file():
                if notice := _first_comment(path.read_text(encoding="utf-8", errors="replace")):
                    yield LicenceText(name, notice)
                break


def _first_comment(text: str) -> str:
    """The comment that a header begins with, without its marks; empty if it says nothing of a licence."""
    match = re.match(r"\s*(?:/\*(?P<block>.*?)\*/|(?P<lines>(?://[^\n]*\n)+))", text, re.DOTALL)
    comment = (match["block"] or match["lines"]) if match else ""
    lines = [re.sub(r"^[\s*/=-]+$|^\s*(?:\*|//) ?", "", line) for line in comment.splitlines()]
    return "\n".join(lines).strip() if "licen" in comment.lower() or "redistribut" in comment.lower() else ""


def _first_text(*paths: Path) -> Iterator[LicenceText]:
    """The text of the first of these files that is there."""
    for path in paths:
        if path.is_file():
            yield LicenceText(path.name, path.read_text(encoding="utf-8", errors="replace"))
            return
