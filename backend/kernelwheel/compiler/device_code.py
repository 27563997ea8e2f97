"""Device code in a finished library, in the place of its own: the same kernels, for other GPUs.

Host code is the same for all architectures, unless its sources know them. nvcc makes a fatbinary of each source, in the
section `.nv_fatbin`, and what registers it with the CUDA runtime has its address, in `.nvFatBinSegment`: the struct
`__fatBinC_Wrapper_t` of fatbinary_section.h. The others are appended to the file, as a segment of their own, and the
addresses changed to theirs.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from ..flags.words import directives_of
from ..runtime.machine.files import json_sha256
from ..source_language import CUDA_SUFFIX
from .cpu import COMMANDS
from .files_read import names_in_rule
from .machine_flags import words

# The macro that tells host code the architectures (CUDA C++ Programming Guide). CUB launches its kernels by it, and
# Thrust's have it in their names.
ARCHITECTURES = b"__CUDA_ARCH_LIST__"
CODE, WRAPPERS = ".nv_fatbin", ".nvFatBinSegment"
LINKED = "__nv_relfatbin"  # where nvlink put the device code of several sources together
_FATBINARY, _MAGIC = struct.Struct("<IHHQ"), 0xBA55ED50  # magic, version, size of this, size of the rest
_WRAPPER, _ADDRESS = 24, 8  # the size of a wrapper, and where in it the address is
# System V ABI, for 64 bits: "Program Header", "Section Header", and relocations with an addend.
_SEGMENT = struct.Struct("<2I6Q")  # type, flags, place in the file, address, the same, size, the same, alignment
_RELOCATION = struct.Struct("<2Qq")
_SECTION, _SECTION_ADDRESS = 64, 16
_LOAD, _TABLE, _READ = 1, 6, 4


class OtherHostCode(Exception):
    """The host code of a library is not that of this device code; the message says why."""


def host_code_digest(work: Path, file: str) -> str:
    """The digest of what a library's host code was compiled with in a work folder, besides sources: their macros.

    Empty if no kernels are in it, or if a file that was read for them knows the architectures.
    """
    build = work / "build"
    objects = f"CMakeFiles/{file.removeprefix('lib').removesuffix('.so')}.dir/"
    told = {}
    for command in json.loads((build / COMMANDS).read_text(encoding="utf-8")):
        if f" -o {objects}" in command["command"] and command["file"].endswith(CUDA_SUFFIX):  # others are not parsed
            options = words(command["command"], build)
            macros = directives_of(options).decode(errors="surrogateescape")
            told[options[options.index("-o") + 1]] = sorted(macros.splitlines())
    lists = [build / f"{made}.d.read" for made in told]
    if not lists or not all(each.is_file() for each in lists):
        return ""
    read = {build / name for each in lists for name in names_in_rule(each)}
    if any(ARCHITECTURES in path.read_bytes() for path in read if path.is_file()):
        return ""
    return json_sha256(told)


def split(data: bytes) -> list[bytes]:
    """Fatbinaries that lie behind one another.

    Raises:
        OtherHostCode: there is something else.
    """
    found = []
    while data:
        magic, _, header, rest = _FATBINARY.unpack(data[: _FATBINARY.size].ljust(_FATBINARY.size, b"\0"))
        if magic != _MAGIC or header + rest > len(data):
            raise OtherHostCode("more than device code would be linked")
        found.append(data[: header + rest])
        data = data[header + rest :]
    return found


def exchange(library: bytes, fatbinaries: Sequence[bytes]) -> bytes:
    """An ELF library with these fatbinaries, which are in the order that its sources were linked in.

    Raises:
        OtherHostCode: it has another number of them; or they were linked, or are not registered as nvcc does it.
    """
    elf = ELFFile(io.BytesIO(library))
    wrappers, code = elf.get_section_by_name(WRAPPERS), elf.get_section_by_name(CODE)
    if wrappers is None or code is None or elf.get_section_by_name(LINKED):
        raise OtherHostCode("it has device code that was linked, or none")
    places = _addresses(elf, wrappers)
    own = [struct.unpack_from("<Q", library, place)[0] - code["sh_addr"] + code["sh_offset"] for place in places]
    if any(library[each : each + 4] != struct.pack("<I", _MAGIC) for each in own):
        raise OtherHostCode("its device code is not registered as nvcc does it")
    if len(own) != len(fatbinaries):
        raise OtherHostCode(f"it has the device code of {len(own)} sources, not of {len(fatbinaries)}")

    body = b"".join(fatbinaries)
    made, offset, address = _with_segment(library, elf, body)
    header = elf["e_shoff"] + _SECTION * (elf.get_section_index(CODE) or 0)
    struct.pack_into("<3Q", made, header + _SECTION_ADDRESS, address, offset, len(body))
    for place, fatbinary in zip(places, fatbinaries, strict=True):
        struct.pack_into("<Q", made, place, address)
        address += len(fatbinary)
    return bytes(made)


def _addresses(elf: ELFFile, wrappers: Section) -> list[int]:
    """Where in the file the addresses of the fatbinaries are: in relocations, or, where those are packed, in place."""
    within = range(_ADDRESS, wrappers["sh_size"], _WRAPPER)
    places = {wrappers["sh_addr"] + each: wrappers["sh_offset"] + each for each in within}
    for section in elf.iter_sections("SHT_RELA"):
        for number, (address, _, _) in enumerate(_RELOCATION.iter_unpack(section.data())):
            if address in places:
                places[address] = section["sh_offset"] + _RELOCATION.size * number + 16
    return [*places.values()]


def _with_segment(library: bytes, elf: ELFFile, body: bytes) -> tuple[bytearray, int, int]:
    """The library with one segment more, that can be read; where in the file and in memory its body begins.

    The table of segments, for which there is no room where it was, is at its beginning.
    """
    start, count = elf["e_phoff"], elf["e_phnum"]
    segments = [_SEGMENT.unpack_from(library, start + _SEGMENT.size * number) for number in range(count)]
    loaded = [number for number, segment in enumerate(segments) if segment[0] == _LOAD]
    align = max(segments[number][7] for number in loaded)
    offset = _rounded(len(library), align)
    address = _rounded(max(segments[number][3] + segments[number][6] for number in loaded), align)
    table = _SEGMENT.size * (count + 1)
    size = table + len(body)
    segments.insert(loaded[-1] + 1, (_LOAD, _READ, offset, address, address, size, size, align))
    text = b"".join(
        _SEGMENT.pack(kind, flags, *((offset, address, address, table, table) if kind == _TABLE else place), aligned)
        for kind, flags, *place, aligned in segments
    )
    made = bytearray(library.ljust(offset, b"\0") + text + body)
    struct.pack_into("<Q", made, 32, offset)  # ELF header: e_phoff, e_phnum
    struct.pack_into("<H", made, 56, count + 1)
    return made, offset + table, address + table


def _rounded(number: int, to: int) -> int:
    return -(-number // to) * to
