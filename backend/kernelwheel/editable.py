"""Adding the runtime to an editable wheel: a copy, and a finder that makes it importable below the package."""

from __future__ import annotations

from pathlib import Path

from wheel.wheelfile import WheelFile

from .wheel import runtime_files, write_wheel

# The package itself is imported from the checkout, so what belongs below it must be put there by an import hook
# (Python's documentation, "The import system", "The meta path"). It is run at each start of Python: it imports nothing.
FINDER = '''"""Makes {package}._kernelwheel importable, the runtime of an editable install."""

import sys


class Finder:
    """Comes last on the meta path: a copy of the package's own goes first."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """The spec of {package}._kernelwheel."""
        if name != "{package}._kernelwheel":
            return None
        from importlib.util import spec_from_file_location
        from pathlib import Path

        folder = Path(__file__).with_name("{folder}")
        return spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])


sys.meta_path.append(Finder)
'''


def add_runtime(editable: Path, destination: Path, package: str, epoch: int) -> None:
    """Write the editable wheel that setuptools built, with the runtime added, under the same name.

    Args:
        editable: the wheel from setuptools.
        destination: the folder to write to, another one.
        package: the import name of the package.
        epoch: the timestamp of every file in the wheel, in seconds since 1970.

    Raises:
        BuildError: it cannot be written; no partial file is left.
    """
    folder = f"_{package}_kernelwheel"
    added = [
        (f"{folder}_finder.py", FINDER.format(package=package, folder=folder).encode()),
        (f"{folder}.pth", f"import {folder}_finder\n".encode()),  # run at start-up (Python's documentation, `site`)
        *runtime_files(folder, ()),
    ]
    with WheelFile(editable) as source:
        write_wheel(source, destination / editable.name, epoch, added)
