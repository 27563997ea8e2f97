"""The warning that a wheel is built with one torch and may be installed beside a different one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from packaging.version import Version

from ..compiler.toolchain.torch_files import Torch, version_in
from ..project.package import PackageFacts
from ..runtime.machine.host import torch_required


def note(facts: PackageFacts, torch: Torch, site: Path) -> Iterator[str]:
    """What to say before compiling; nothing if the torch in `site`, the interpreter's own folder of packages, will do.

    An isolated build takes the newest torch, whatever is installed.
    """
    installed = version_in(site / "torch")
    if installed is None or site == torch.root.parent:
        return
    if facts.binds_torch:
        if torch_required(installed) == torch_required(torch.version):
            return
        yield (
            f"note: this wheel is built for torch {torch_required(torch.version)}, and will require it; torch "
            f"{installed} is installed in {site}. To build for that one:"
        )
        yield "  with kernelwheel installed beside it: pip install --no-build-isolation"
        yield f"  or pip install --build-constraint FILE, with a FILE that says torch=={installed.partition('+')[0]}"
        yield "  or uv: extra-build-dependencies with match-runtime = true, as kernelwheel's docs/packaging.md shows"
    elif Version(installed).release < Version(facts.torch_target).release:
        yield (
            f"note: this wheel requires torch {facts.torch_target} or later; torch {installed} is installed in {site}"
        )
