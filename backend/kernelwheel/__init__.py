"""A build backend and runtime that compile torch kernels into wheels and check them before loading.

The build half (`hooks`) and the runtime half (`runtime`) share one Plan, one manifest and one check. `load`,
`load_inline` and `prepare` are the same for kernels that are in no package.
"""

from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .jit.load import load as load
    from .jit.load import load_inline as load_inline
    from .jit.load import prepare as prepare

__all__ = ["__version__", "load", "load_inline", "prepare"]


def __getattr__(name: str) -> Any:
    """What calls of a program need, imported when it is asked for: the import of this package takes no time."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .jit import load as of_jit

    return getattr(of_jit, name)
