"""The architectures that a setup.py compiles for, by flags or a variable, as `archs` of the package or an extension."""

from __future__ import annotations

from collections.abc import Sequence

from ..project.arch_choice import OLDEST_DEFAULT, ArchList, from_flags, parse
from ..runtime.errors import SettingsError
from .cuda_extension import AdoptionNotes, Table
from .setup_runs import SetupRun

GPU = "9.0"  # what setup.py is told that there is, unless a person says otherwise


def family(flags: Sequence[str]) -> ArchList | None:
    """What flags compile for, if some of it is for one family of GPUs alone, such as 9.0a."""
    try:
        archs = from_flags(flags)
    except ValueError:
        return None
    return archs if any(each.suffix for each in archs.sass) else None


def give(table: Table, archs: ArchList, notes: AdoptionNotes) -> None:
    """Put a family of GPUs where no TORCH_CUDA_ARCH_LIST changes it: instructions such as wgmma are in no other."""
    table["archs"] = str(archs)
    notes.remarks.append(f"{table['name']}: archs = {str(archs)!r} is its own, whatever TORCH_CUDA_ARCH_LIST says")


def choose(
    flags: Sequence[str], tables: Sequence[Table], run: SetupRun, gpus: Sequence[str], notes: AdoptionNotes
) -> str | None:
    """The value of `archs`; None if nothing chooses architectures, or if a list cannot say what is chosen.

    That is what flags choose, otherwise what setup.py puts into TORCH_CUDA_ARCH_LIST, as for torch's own build_ext.
    """
    if not flags:
        return _from_variable(tables, run, gpus, notes) if run.archs_set.strip() else None
    if run.asked_capability and not gpus:
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


def _from_variable(tables: Sequence[Table], run: SetupRun, gpus: Sequence[str], notes: AdoptionNotes) -> str | None:
    """The value of `archs` from what setup.py puts into TORCH_CUDA_ARCH_LIST, which has no effect any more."""
    text = run.archs_set
    said = f"setup.py sets TORCH_CUDA_ARCH_LIST to {text!r}"
    try:
        archs = parse(text, "setup.py")
    except SettingsError as error:
        notes.untranslated.append(f"{said}: {error.problem}")
        return None
    if any(each.suffix for each in archs.sass):
        for table in tables:
            if table["cuda"] != "none" and not table["archs"]:
                give(table, archs, notes)
        return None
    is_gpu_s = run.asked_capability and not gpus and {f"{each.major}.{each.minor}" for each in archs.sass} == {GPU}
    if is_gpu_s or archs.sass[0][:2] < OLDEST_DEFAULT:
        why = "that of the GPU it was told of" if is_gpu_s else "for GPUs older than CUDA 13 compiles for"
        notes.remarks.append(f"{said}, {why}: left out, so that TORCH_CUDA_ARCH_LIST or a default list decides")
        return None
    notes.remarks.append(f"{said}, which became archs = {str(archs)!r}; that of a build's environment wins")
    return str(archs)
