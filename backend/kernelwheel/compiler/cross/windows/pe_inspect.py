"""Reading a PE file, a library for Windows (Microsoft, "PE Format"), with pefile."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...elf_inspect import NeededSymbol


class PeFile:
    """A PE file; as ElfFile."""

    needed_symbols: Sequence[NeededSymbol] = ()  # they have no versions

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def needed(self) -> list[str]:
        """The libraries in its import table."""
        return [each.dll.decode("ascii") for each in self._table("IMPORT")]

    def exported(self) -> Iterator[str]:
        """The symbols that it defines for others."""
        return (each.name.decode("ascii") for table in self._table("EXPORT") for each in table.symbols if each.name)

    def used(self) -> Iterator[str]:
        """The symbols that it needs from others."""
        return (each.name.decode("ascii") for table in self._table("IMPORT") for each in table.imports if each.name)

    def unique(self) -> Iterator[str]:
        """None: each library has its own symbols."""
        return iter(())

    @contextmanager
    def device_code(self) -> Iterator[Path]:
        """A file with its device code alone, which cuobjdump does not find in it: `.nv_fatbin`, cut to 8 letters."""
        import pefile

        with pefile.PE(self.path, fast_load=True) as file, tempfile.TemporaryDirectory() as folder:
            code = Path(folder, f"{self.path.name}.fatbin")
            sections = (each for each in file.sections if each.Name == b".nv_fatb")
            code.write_bytes(b"".join(each.get_data(length=each.Misc_VirtualSize) for each in sections))
            yield code

    def _table(self, name: str) -> list[Any]:
        """The entries of the table of imports, one for each library, or that of exports; empty if there is none."""
        import pefile  # installed only for such builds

        with pefile.PE(self.path, fast_load=True) as file:
            file.parse_data_directories([pefile.DIRECTORY_ENTRY[f"IMAGE_DIRECTORY_ENTRY_{name}"]])
            found = getattr(file, f"DIRECTORY_ENTRY_{name}", [])
            return found if isinstance(found, list) else [found]
