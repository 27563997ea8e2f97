"""Reading the symbols of a PE file, a library for Windows (Microsoft, "PE Format"), with pefile."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...elf_inspect import NeededSymbol


def needed(path: Path) -> list[str]:
    """The libraries in its import table."""
    return [each.dll.decode("ascii") for each in _table(path, "IMPORT")]


def exported(path: Path) -> Iterator[str]:
    """The symbols that it defines for others."""
    return (each.name.decode("ascii") for table in _table(path, "EXPORT") for each in table.symbols if each.name)


def used(path: Path) -> Iterator[str]:
    """The symbols that it needs from others."""
    return (each.name.decode("ascii") for table in _table(path, "IMPORT") for each in table.imports if each.name)


def unique(path: Path) -> Iterator[str]:
    """None: each library has its own symbols."""
    return iter(())


def needed_symbols(path: Path) -> Iterator[NeededSymbol]:
    """None: symbols have no versions."""
    return iter(())


@contextmanager
def device_code(path: Path) -> Iterator[Path]:
    """A file with its device code alone, which cuobjdump does not find in a PE file: `.nv_fatbin`, cut to 8 letters."""
    import pefile

    with pefile.PE(path, fast_load=True) as file, tempfile.TemporaryDirectory() as folder:
        code = Path(folder, f"{path.name}.fatbin")
        sections = (each for each in file.sections if each.Name == b".nv_fatb")
        code.write_bytes(b"".join(each.get_data(length=each.Misc_VirtualSize) for each in sections))
        yield code


def _table(path: Path, name: str) -> list[Any]:
    """The entries of the table of imports, one for each library, or that of exports; empty if there is none."""
    import pefile  # installed only for such builds

    with pefile.PE(path, fast_load=True) as file:
        file.parse_data_directories([pefile.DIRECTORY_ENTRY[f"IMAGE_DIRECTORY_ENTRY_{name}"]])
        found = getattr(file, f"DIRECTORY_ENTRY_{name}", [])
        return found if isinstance(found, list) else [found]
