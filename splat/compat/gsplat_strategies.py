"""gsplat's own training strategies, unmodified, with splat's operators where they call gsplat's CUDA functions.

    from splat.compat.gsplat_strategies import MCMCStrategy  # was: from gsplat.strategy import MCMCStrategy

Relocation and the covariances of the noise are all that the strategies call. gsplat's own module has them from gsplat,
where they exist on CUDA only. This package has a second copy of those modules, from the files of the gsplat that is
installed, 1.5.3 or 1.4.0, with splat's functions under the same names; gsplat's own modules stay as they are.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ..ops.projection import quat_scale_to_covar_preci
from ..ops.relocation import compute_relocation

if find_spec("gsplat") is None:
    raise ImportError(
        f"{__name__} runs the strategies of gsplat, which is not installed: pip install gsplat==1.5.3 (it is pure "
        "Python; its CUDA kernels are not needed)"
    )

# A module with a path is a package: its modules, with their relative imports, are read from gsplat's folder.
__path__ = list(import_module("gsplat.strategy").__path__)

_ops: Any = import_module(".ops", __name__)
_ops.compute_relocation = compute_relocation
_ops.quat_scale_to_covar_preci = quat_scale_to_covar_preci

Strategy: Final[Any] = import_module(".base", __name__).Strategy
DefaultStrategy: Final[Any] = import_module(".default", __name__).DefaultStrategy
MCMCStrategy: Final[Any] = import_module(".mcmc", __name__).MCMCStrategy
