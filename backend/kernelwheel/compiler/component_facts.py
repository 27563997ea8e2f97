"""What only this machine's files tell of what is compiled and linked in: versions, and the texts of licences."""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .cross.windows.zig import Zig
from .toolchain.clang_toolkit import clang_version
from .toolchain.programs import output_of
from .toolchain.toolchain import Toolchain
from .toolchain.toolkit import Nvcc
from .toolchain.toolkit_identity import cudart_version

# One header of each part of CCCL, which begins with its notice. A toolkit has no other text of these licences.
CCCL_NOTICES = ("cub/version.cuh", "thrust/version.h", "cuda/std/version")

Text = tuple[str, str]  # of a licence: the name of the file that it was found in, and what is in it


def component_facts(tools: Toolchain) -> dict[str, dict[str, Any]]:
    """`version` and `texts` of each component that may be in a wheel, by its name, as plain JSON values."""
    site = tools.torch.root.parent
    folders = (Path(sysconfig.get_path("stdlib")), Path(sys.base_prefix))
    facts: dict[str, dict[str, Any]] = {
        "torch": {"texts": list(_texts_beside(site, "torch"))},
        "pybind11": {"version": _pybind11(tools.torch.root), "texts": list(_texts_beside(site, "torch", "pybind11"))},
        "python": {"texts": list(_first_text(*(folder / "LICENSE.txt" for folder in folders)))},
    }
    facts |= _zig_parts(tools.cxx) if isinstance(tools.cxx, Zig) else {"libstdc++": {}}
    if nvcc := tools.cuda.nvcc:
        texts = list(_nvidia_texts(nvcc))
        facts["cuda-runtime"] = {"version": cudart_version(nvcc.include), "texts": texts}
        facts["cuda-crt"] = {"texts": texts}
        facts["cccl"] = {"texts": list(_cccl_notices(nvcc))}
        facts |= {"clang": {"version": nvcc.clang}} if nvcc.clang else {}
    return facts


def _zig_parts(zig: Zig) -> dict[str, dict[str, Any]]:
    """What it links in besides the C runtime that is part of Windows: LLVM's libraries, mingw-w64's and its own."""
    folder = zig.path.parent
    return {
        "libc++": {"version": clang_version(output_of(str(zig.path), "c++", "--version"))},
        "mingw-w64": {"version": "", "texts": list(_first_text(folder / "lib/libc/mingw/COPYING"))},
        "zig": {"version": zig.version, "texts": list(_first_text(folder / "LICENSE"))},
    }


def _pybind11(torch: Path) -> str:
    """The version of the copy among torch's headers; empty if there is none."""
    header = torch / "include/pybind11/detail/common.h"
    text = header.read_text(encoding="utf-8", errors="replace") if header.is_file() else ""
    return ".".join(re.findall(r"# *define PYBIND11_VERSION_(?:MAJOR|MINOR|MICRO|PATCH) +(\d+)", text)[:3])


def _texts_beside(site: Path, distribution: str, vendored: str = "") -> Iterator[Text]:
    """What pip installed of a distribution's licence, or of the licence of something that it has a copy of."""
    for folder in sorted(site.glob(f"{distribution}-*.dist-info")):
        own = [*folder.glob("licenses/LICEN[CS]E*"), *folder.glob("licenses/License*"), *folder.glob("LICEN[CS]E*")]
        theirs = [*folder.glob(f"licenses/third_party/{vendored}/LICEN[CS]E*")] if vendored else []
        for path in sorted(theirs or own)[:1]:
            text = path.read_text(encoding="utf-8", errors="replace")
            if not vendored or theirs or vendored in text:
                yield path.name, text


def _nvidia_texts(nvcc: Nvcc) -> Iterator[Text]:
    """The licence of the toolkit: beside it, where pip installed it, or in the folder of a system's toolkit."""
    if nvcc.root.parent.name == "nvidia":
        yield from list(_texts_beside(nvcc.root.parents[1], "nvidia_cuda_runtime*"))[:1]
    else:
        yield from _first_text(nvcc.root / "EULA.txt", nvcc.root / "LICENSE")


def _cccl_notices(nvcc: Nvcc) -> Iterator[Text]:
    for name in CCCL_NOTICES:
        for path in (nvcc.include / "cccl" / name, nvcc.include / name):  # in include/cccl since CUDA 13
            if path.is_file():
                if notice := _first_comment(path.read_text(encoding="utf-8", errors="replace")):
                    yield name, notice
                break


def _first_comment(text: str) -> str:
    """The comment that a header begins with, without its marks; empty if it says nothing of a licence."""
    match = re.match(r"\s*(?:/\*(?P<block>.*?)\*/|(?P<lines>(?://[^\n]*\n)+))", text, re.DOTALL)
    comment = (match["block"] or match["lines"]) if match else ""
    lines = [re.sub(r"^[\s*/=-]+$|^\s*(?:\*|//) ?", "", line) for line in comment.splitlines()]
    return "\n".join(lines).strip() if "licen" in comment.lower() or "redistribut" in comment.lower() else ""


def _first_text(*paths: Path) -> Iterator[Text]:
    """The text of the first of these files that is there."""
    for path in paths:
        if path.is_file():
            yield path.name, path.read_text(encoding="utf-8", errors="replace")
            return
