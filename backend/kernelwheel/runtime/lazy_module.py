"""What stands in a wheel where the library of an extension used to be: a module that becomes the compiled one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from .kernels import Kernels

# The special names that load the module; tools ask every module for others, such as `__path__` and `__wrapped__`.
_LOADED_FOR = ("__all__", "__version__")


def import_lazily(name: str, package: str, distribution: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Import a module of the package in place of the module `name`: now, if that takes no compile, or at first use.

    Returns:
        The functions `__getattr__` and `__dir__` of the module that is replaced (PEP 562).
    """

    def compiled() -> ModuleType:
        placeholder = sys.modules.get(name)  # the loader of the module puts that in its place
        module = _kernels(package, distribution).module(name)
        _replace(name, placeholder, module)
        return module

    def attribute(asked: str) -> Any:
        if asked.startswith("__") and asked.endswith("__") and asked not in _LOADED_FOR:
            raise AttributeError(f"module {name!r} has no attribute {asked!r}")
        return getattr(compiled(), asked)

    kernels = _kernels(package, distribution)
    if error := kernels.left_out(name):
        raise error
    if kernels.extension_if_usable(name):
        compiled()
    return attribute, lambda: dir(compiled())


def load_operators(name: str, package: str, distribution: str) -> None:
    """Load an extension's operators: nothing tells when `torch.ops` is first asked for them. Raises as that does."""
    _kernels(package, distribution).extension(name)


def _kernels(package: str, distribution: str) -> Kernels:
    """The package's kernels in this process; this copy of the runtime is the package's own.

    In the process of a command, such as `cache build`, this does not return: the command needs no more of the package,
    and what that does next, such as registering a fake kernel, may need kernels that do not fit or are to be compiled.
    """
    kernels = Kernels.constructed.get(package) or Kernels(package, version(distribution), _home(package) / "_native")
    if ("-m", f"{package}._kernelwheel") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False):
        sys.exit(import_module(f"{package}._kernelwheel.__main__").main(package, sys.argv[1:]))
    return kernels


def _home(package: str) -> Path:
    """The package's folder, from which an editable install is imported, too."""
    found = find_spec(package)
    assert found is not None
    assert found.submodule_search_locations  # it has this module
    return Path(found.submodule_search_locations[0])


def _replace(name: str, placeholder: ModuleType | None, module: ModuleType) -> None:
    """Put the compiled module in the place of its placeholder, for those who have imported that one too."""
    sys.modules[name] = module
    if placeholder is not None and placeholder is not module:
        vars(placeholder).update({key: value for key, value in vars(module).items() if not key.startswith("__")})
    parent, _, last = name.rpartition(".")
    if parent and getattr(sys.modules.get(parent), last, None) is placeholder:
        setattr(sys.modules[parent], last, module)
