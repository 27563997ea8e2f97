"""The compiler, as a program: `python -m <package>._kernelwheel.compiler`, or this file, which imports no package."""

from __future__ import annotations

import os
import sys


def _import_program() -> object:
    """The module `program`, below a name of its own, so that the package around this copy is not imported."""
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(here):
        del sys.path[0]  # put there because this file is run; modules of ours must not stand for others
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    root = os.path.dirname(here)
    spec = spec_from_file_location("kernelwheel", os.path.join(root, "__init__.py"), submodule_search_locations=[root])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["kernelwheel"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["kernelwheel"])
    return import_module("kernelwheel.compiler.program")


if __name__ == "__main__":
    if __package__:
        from . import program
    else:
        program = _import_program()  # type: ignore[assignment]
    sys.exit(program.main(sys.argv[1:]))
