"""Adding the runtime to an editable wheel: a copy, and a finder that makes it importable below the package."""

from __future__ import annotations

import json
from pathlib import Path

from wheel.wheelfile import WheelFile

from ..project.extension import refuse
from ..project.package import PackageFacts
from ..runtime.decision.snapshot import NOTE, editable_name
from .core_metadata import completed, field_of
from .module_files import module_file, module_files
from .wheel import RUNTIME, runtime_files, write_wheel

# The package itself is imported from the checkout, so what belongs below it must be put there by an import hook
# (Python's documentation, "The import system", "The meta path"). It is run at each start of Python: it imports nothing.
FINDER = '''"""Makes {package}._kernelwheel and the extensions of an editable install importable."""

import sys

FILES = {files!r}


class Finder:
    """Comes first on the meta path: a library that an earlier build left in the checkout must not be loaded."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """The spec of {package}._kernelwheel, or of an extension."""
        if name not in FILES:
            return None
        from importlib.util import spec_from_file_location
        from pathlib import Path

        file = Path(__file__).with_name("{folder}") / FILES[name]  # or an absolute path
        folders = [str(file.parent)] if file.name == "__init__.py" else None
        return spec_from_file_location(name, file, submodule_search_locations=folders)


sys.meta_path.insert(0, Finder)
'''


def add_runtime(editable: Path, destination: Path, facts: PackageFacts, project: Path, epoch: int) -> None:
    """Write the editable wheel that setuptools built, with the runtime added, under the same name to another folder.

    Kernels are compiled from `project`, the checkout. `epoch` is the timestamp of every file, in seconds since 1970.

    Raises:
        SettingsError: a library is loaded by its path, and there is none.
        BuildError: it cannot be written; no partial file is left.
    """
    for each in facts.extensions:
        if each.by_path:
            refuse(each.name, "by-path", "a wheel", "an editable install, which has no library", "install without -e")
    package = facts.import_name
    folder = editable_name(package)
    with WheelFile(editable) as source:
        metadata = f"{source.dist_info_path}/METADATA"
        declared = source.read(metadata).decode("utf-8")
        modules = module_files(facts.extensions, package, field_of(declared, "Name"))
        # A checkout that has the backend in it goes on with that, as it is edited.
        live = here if (here := RUNTIME.resolve()).is_relative_to(project.resolve()) else None
        files = {f"{package}._kernelwheel": str(live / "__init__.py") if live else "__init__.py"}
        files |= {each.name: f"extensions/{module_file(each.name, package)}" for each in facts.extensions}
        added = [
            (f"{folder}_finder.py", FINDER.format(package=package, folder=folder, files=files).encode()),
            (f"{folder}.pth", f"import {folder}_finder\n".encode()),  # run at start-up (Python's documentation, `site`)
            (f"{folder}/{NOTE}", json.dumps({"project": str(project)}).encode()),
            *((f"{folder}/extensions/{file}", text) for file, text in modules),
            *(() if live else runtime_files(folder)),
        ]
        changed = {metadata: completed(declared, facts.dependencies).encode()}
        write_wheel(source, destination / editable.name, epoch, added, changed)
