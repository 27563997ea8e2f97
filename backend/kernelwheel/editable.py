"""Adding the runtime to an editable wheel: a copy, and a finder that makes it importable below the package."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED

from wheel.wheelfile import WheelFile

from .core.variables import variable_set
from .wheel import runtime_files, zip_info

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


def add_runtime(editable: Path, package: str, epoch: int) -> None:
    """Add the runtime to the editable wheel that setuptools built, in place.

    Args:
        editable: the wheel.
        package: the import name of the package.
        epoch: the timestamp of every added file, in seconds since 1970.
    """
    folder = f"_{package}_kernelwheel"
    added = {
        f"{folder}_finder.py": FINDER.format(package=package, folder=folder).encode(),
        f"{folder}.pth": f"import {folder}_finder\n".encode(),  # run at start-up (Python's documentation, `site`)
        **dict(runtime_files(folder, ())),
    }
    with WheelFile(editable) as source:
        members = [(source.getinfo(name), source.read(name)) for name in source.namelist()]
        record = f"{source.dist_info_path}/RECORD"
    # WheelFile takes RECORD's timestamp from this variable, or else from the clock.
    with variable_set("SOURCE_DATE_EPOCH", str(epoch)), WheelFile(editable, "w", compression=ZIP_DEFLATED) as target:
        for info, data in members:
            if info.filename != record:
                target.writestr(info, data)
        for name, data in added.items():
            target.writestr(zip_info(name, epoch), data)
