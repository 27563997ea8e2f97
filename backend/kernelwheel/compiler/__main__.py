"""The compiler, as a program: `python -m kernelwheel.compiler`, or this file, as the loader of any package runs it."""

from __future__ import annotations

import os
import sys


def _import_worker() -> object:
    """The module `worker`, of the kernelwheel that this file is in, whatever `kernelwheel` another folder has."""
    # Python put this folder first because its file is run; modules of ours must not stand for others.
    if sys.path and os.path.isdir(sys.path[0]) and os.path.samefile(sys.path[0], os.path.dirname(__file__)):
        del sys.path[0]
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    root = Path(__file__).absolute().parents[1]
    spec = spec_from_file_location("kernelwheel", root / "__init__.py", submodule_search_locations=[str(root)])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["kernelwheel"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["kernelwheel"])
    return import_module("kernelwheel.compiler.worker")


if __name__ == "__main__":
    if __package__:
        from . import worker
    else:
        worker = _import_worker()  # type: ignore[assignment]
    sys.exit(worker.main(sys.argv[1:]))
