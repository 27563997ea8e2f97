"""The architectures that a setup.py compiles for by flags, as `archs` of the package or an extension."""

from __future__ import annotations

from collections.abc import Sequence

from ..project.arch_choice import ArchList, from_flags
from .cuda_extension import AdoptionNotes
from .setup_runs import SetupRun


def family(flags: Sequence[str]) -> ArchList | None:
    """What flags compile for, if some of it is for one family of GPUs alone, such as 9.0a."""
    try:
        archs = from_flags(flags)
    except ValueError:
        return None
    return archs if any(each.suffix for each in archs.sass) else None


def choose(flags: Sequence[str], run: SetupRun, notes: AdoptionNotes) -> str | None:
    """The value of `archs`, which is what flags choose; None if they choose nothing, or what no list can say."""
    if not flags and run.archs_set.strip():
        notes.remarks.append(
            f"setup.py sets TORCH_CUDA_ARCH_LIST to {run.archs_set!r}: left out, so that the variable of a build or a "
            "default list decides; archs in [tool.kernelwheel] names others"
        )
    if not flags:
        return None
    if run.asked_capability:
        notes.remarks.append(
            "flags that choose the GPU's own architecture are left out: kernelwheel compiles for TORCH_CUDA_ARCH_LIST "
            "or a default list"
        )
        return None
    try:
        archs = str(from_flags(flags))
    except ValueError as error:
        notes.untranslated.append(f"the flag {error}, which no list of architectures can say")
        return None
    if archs:
        notes.remarks.append(f"flags that choose architectures became archs = {archs!r}; TORCH_CUDA_ARCH_LIST wins")
    return archs or None
