"""Stubs of the CUDA libraries that torch is linked to: they take gigabytes, and no call reaches them without a GPU.

torch is imported with them, and computes on the CPU. The CUDA runtime must be the real one: torch's
constructors call it.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

SYSTEM = (
    "libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "libstdc++.so", "libgcc_s.so", "ld-linux", "libz.so",
)  # fmt: skip


def write_stubs(torch: Path, libraries: Path, compiler: str, also: frozenset[str] = frozenset()) -> None:
    """Write a stub of each library that those in torch's folder need, and that neither folder has.

    Args:
        torch: the folder lib of torch.
        libraries: the folder for the stubs.
        compiler: for the platform of torch.
        also: names of libraries that are found elsewhere.
    """
    brought = {path.name for path in (*torch.iterdir(), *libraries.iterdir())} | also
    needed: dict[str, dict[str, str]] = {}
    bare: set[str] = set()
    for path in sorted(torch.glob("libtorch*.so")) + sorted(torch.glob("libc10*.so")):
        with path.open("rb") as stream:
            collect(ELFFile(stream), needed, bare)
    known = {name for symbols in needed.values() for name in symbols}
    missing = [name for name in sorted(needed) if name not in brought and not name.startswith(SYSTEM)]
    unversioned = sorted(name for name in bare - known if name.startswith(("cuda", "cu", "nccl", "nv")))
    for library in missing:
        symbols, more = needed[library], unversioned if library.startswith("libnccl") else []
        write_stub(libraries / library, symbols, more, compiler)


def collect(elf: ELFFile, needed: dict[str, dict[str, str]], bare: set[str]) -> None:
    """Add what a library needs: by soname, the symbols with their versions; and the symbols without a version."""
    dynamic, symbols = elf.get_section_by_name(".dynamic"), elf.get_section_by_name(".dynsym")
    versions = elf.get_section_by_name(".gnu.version")
    wanted = elf.get_section_by_name(".gnu.version_r")
    assert isinstance(dynamic, DynamicSection)
    assert isinstance(symbols, SymbolTableSection)
    assert isinstance(versions, GNUVerSymSection)
    assert isinstance(wanted, GNUVerNeedSection)
    for tag in dynamic.iter_tags("DT_NEEDED"):
        needed.setdefault(tag.needed, {})  # type: ignore[attr-defined]
    names = {
        each.entry.vna_other: (library.name, each.name) for library, inside in wanted.iter_versions() for each in inside
    }
    for symbol, at in zip(symbols.iter_symbols(), versions.iter_symbols(), strict=True):
        if symbol.entry.st_shndx != "SHN_UNDEF":
            continue
        if at.entry["ndx"] in names:
            library, version = names[at.entry["ndx"]]
            needed.setdefault(str(library), {})[symbol.name] = version
        else:
            bare.add(symbol.name)


def write_stub(path: Path, symbols: dict[str, str], more: list[str], compiler: str) -> None:
    """A library that has these functions, and whose functions fail."""
    with tempfile.TemporaryDirectory() as temporary:
        source, script = Path(temporary) / "stub.c", Path(temporary) / "stub.map"
        source.write_text(
            "".join(f"int {name}(void) {{ return 1; }}\n" for name in [*symbols, *more]), encoding="ascii"
        )
        versions = sorted(set(symbols.values()))
        text = "".join(
            f"{version} {{ global: {'; '.join(n for n, v in symbols.items() if v == version)}; }};\n"
            for version in versions
        )
        script.write_text(text, encoding="ascii")
        words = ["-x", "c", "-shared", "-fPIC", "-nostdlib", "-w", f"-Wl,-soname,{path.name}"]
        words += [f"-Wl,--version-script={script}"] if versions else []
        subprocess.run([compiler, *words, "-o", path, source], check=True)
