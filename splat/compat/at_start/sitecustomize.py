"""With SPLAT_AS_GSPLAT set to 1 or cpu, the modules of gsplat get splat's functions as soon as they are imported.

Programs for gsplat also import `fused_ssim`, a package of one CUDA kernel: that is splat's, installed or not.

Every Python that a program starts reads this first (Python's documentation, "site"), so it imports neither torch nor
splat itself: `overlay` and `cpu_device` come when gsplat and torch do. Unset, it does nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

HERE = os.path.dirname(__file__)  # noqa: PTH120, as pathlib takes a while to import


class _AfterImport:
    """A finder that lets the others find gsplat, and with `device` cpu torch, and changes the modules once they ran."""

    def __init__(self, device: str) -> None:
        self.device = device

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "fused_ssim":
            return spec_from_file_location(name, f"{HERE}/../fused_ssim.py")
        if name.partition(".")[0] == "gsplat":
            after = "overlay"
        elif name == "torch" and self.device == "cpu":
            after = "cpu_device"
        else:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((found for other in others if (found := other.find_spec(name, path, target))), None)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_and_change(module: ModuleType) -> None:
            run(module)
            import_module(f"splat.compat.{after}").change(module)

        spec.loader.exec_module = run_and_change  # type: ignore[method-assign]
        return spec


def _import_the_one_behind() -> None:
    """Import the `sitecustomize` that Python would have imported without this folder."""
    this = sys.modules[__name__]
    sys.path[:] = [folder for folder in sys.path if folder != HERE]
    del sys.modules[__name__]
    try:
        import_module(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = this


if _device := os.environ.get("SPLAT_AS_GSPLAT", ""):
    if _device not in ("1", "cpu"):
        sys.exit(f"SPLAT_AS_GSPLAT must be 1 or cpu, or unset; found {_device!r}")
    sys.meta_path.insert(0, _AfterImport(_device))
if __name__ == "sitecustomize":
    _import_the_one_behind()
