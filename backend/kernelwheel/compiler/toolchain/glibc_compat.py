"""The interface of an older glibc and libstdc++, so that libraries linked here run on older systems.

A linker binds a symbol to the newest version that it finds. But glibc keeps the older ones, for programs that were
linked long ago (LSB core, "Symbol Versioning"), and stub libraries that export only those make the linker choose them.
What has no older version in libstdc++, and is small, is linked in statically, as the compilers of manylinux images do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ...runtime.machine.platforms import numbers
from .cxx import Cxx
from .programs import output_of

# A newer version may mean another signature (totalorder, 2.31), so only symbols are rebound that are known to be the
# same: those that moved into libc.so.6 up to 2.34, and mathematical functions that no longer call error handlers.
MOVED = {
    "libpthread.so.0": r"_{0,2}pthread_\w+|sem_\w+|mtx_\w+|cnd_\w+|thrd_\w+|tss_\w+|call_once",
    "libdl.so.2": r"dl\w+",
    "librt.so.1": r"aio_\w+|lio_\w+|_{0,2}mq_\w+|shm_\w+|timer_\w+",
}
LAST_MOVE = (2, 34)
MATHEMATICAL_LIBRARY = "libm.so.6"
MATHEMATICAL = (
    r"((exp|exp2|exp10|log|log2|pow|hypot|fmod|remainder)f?"
    r"|(acos|acosh|asin|atan2|atanh|cosh|j0|j1|jn|lgamma|log10|sinh|sqrt|tgamma|y0|y1|yn)f|lgammaf_r)"
)
# What is linked in if it is used, each a source file. Weak, as a compiler may have libstdc++ as an archive alone, which
# then has the same.
LINKED_IN = Path(__file__).parents[2] / "cmake" / "glibc_compat"


def older_symbols(cxx: Cxx, oldest: str) -> dict[str, dict[str, str]]:
    """The symbols that would be bound to a glibc newer than `oldest`, and need not be.

    Returns:
        For each library of that glibc, such as `libpthread.so.0`: symbol -> the version to bind it to,
        `GLIBC_2.2.5`. Empty if the libc here is no glibc.
    """
    found: dict[str, dict[str, str]] = {}
    for symbol, default, version in _rebound(_listing(cxx, "libc.so.6"), numbers(oldest)):
        home = next((library for library, names in MOVED.items() if re.fullmatch(names, symbol)), None)
        if home and numbers(default) <= LAST_MOVE:
            found.setdefault(home, {})[symbol] = version
    for symbol, _, version in _rebound(_listing(cxx, MATHEMATICAL_LIBRARY), numbers(oldest)):
        if re.fullmatch(MATHEMATICAL, symbol):
            found.setdefault(MATHEMATICAL_LIBRARY, {})[symbol] = version
    return found


def source_files(cxx: Cxx, oldest: str) -> dict[str, str]:
    """The source files, by name: `stubs/libdl.so.2.cpp` and its version script for each library, `linked-in/*.cpp`."""
    files = {f"linked-in/{path.name}": path.read_text(encoding="utf-8") for path in LINKED_IN.glob("*.cpp")}
    for library, rebound in older_symbols(cxx, oldest).items():
        symbols, others = dict(rebound), []
        if library == MATHEMATICAL_LIBRARY:
            # The linker takes its stub for it, and reads no other library of that name: the stub has all that it has.
            listed = _versions_in(_listing(cxx, library))
            for symbol, at, version in listed:
                if at == "@@":
                    symbols.setdefault(symbol, version)
            named = [(symbol, version) for symbol, at, version in listed if at == "@"]
            others = [(symbol, version) for symbol, version in named if symbols.get(symbol) != version]
        files[f"stubs/{library}.cpp"] = stub_source(symbols) + _versioned_source(others)
        files[f"stubs/{library}.map"] = _version_script(symbols, [version for _, version in others])
    return files


def _versions_in(listing: str) -> list[tuple[str, str, str]]:
    """The symbols in a listing: name; `@@` for the version that a linker takes, `@` for one that a source must name."""
    return re.findall(r" [A-Za-z] ([\w.]+)(@@?)(GLIBC_[\d.]+)$", listing, re.MULTILINE)


def stub_source(symbols: Collection[str]) -> str:
    """Functions with these names for the linker, which are never called. A compiler would take a second for libm's."""
    return "".join(
        f'__asm__(".globl {symbol}\\n.type {symbol}, %function\\n{symbol}:");\n' for symbol in sorted(symbols)
    )


def _versioned_source(symbols: Collection[tuple[str, str]]) -> str:
    """Functions that are found by a symbol and its version alone (gas manual, ".symver")."""
    return "".join(
        f'extern "C" void v{n}() {{}}\n__asm__(".symver v{n}, {symbol}@{version}");\n'
        for n, (symbol, version) in enumerate(sorted(symbols))
    )


def _version_script(symbols: Mapping[str, str], others: Collection[str] = ()) -> str:
    """The script that gives each symbol its version (ld manual, "VERSION Command"), and has the other versions."""
    versions = sorted({*symbols.values(), *others})
    names = {version: sorted(name for name in symbols if symbols[name] == version) for version in versions}
    shared = {version: f" global: {'; '.join(names[version])}; " if names[version] else " " for version in versions}
    return "".join(f"{version} {{{shared[version]}}};\n" for version in versions)


def _listing(cxx: Cxx, library: str) -> str:
    """The symbols of a library that the compiler links to, with their versions, as nm prints them."""
    nm = cxx.answer("-print-prog-name=nm")
    path = cxx.answer(f"-print-file-name={library}")
    return output_of(nm, "-D", "--defined-only", "--with-symbol-versions", path, environ=cxx.environ)


def _rebound(listing: str, oldest: tuple[int, ...]) -> Iterator[tuple[str, str, str]]:
    """The symbols whose default version is too new: symbol, that version, and the newest version that is not."""
    versions: dict[str, list[str]] = {}
    defaults: dict[str, str] = {}
    found = _versions_in(listing)
    for symbol, at, version in found:
        versions.setdefault(symbol, []).append(version)
        if at == "@@":
            defaults[symbol] = version
    known = {version: numbers(version) for version in {version for _, _, version in found}}  # some forty
    for symbol, default in sorted(defaults.items()):
        older = [version for version in versions[symbol] if known[version] <= oldest]
        if known[default] > oldest and older:
            yield symbol, default, max(older, key=known.__getitem__)
