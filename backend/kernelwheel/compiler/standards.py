"""The C++ standard of a Plan's libraries: what the torch at hand asks for, which flags may exceed."""

from __future__ import annotations

from packaging.version import Version

from ..flags.standard import Standards, with_standard
from .plan import Plan, declared_flags
from .toolchain.toolchain import Toolchain
from .toolchain.torch_files import STABLE_HEADER, standard_of

# Releases of nvcc that misread ATen/core/List_inl.h, as it is up to the torch before this one: what they make of
# `typename decltype(impl_->list)::…` lacks the `typename`, which C++20 makes optional. docs/packaging.md has what was
# tried.
MISREADING, MISREAD_BEFORE = ((13, 3), (13, 4)), "2.13"


def draw_standards(plan: Plan, toolchain: Toolchain) -> Standards:
    """What a Plan says of the standard, as torch's files say it."""
    torch, nvcc = toolchain.torch, toolchain.cuda.nvcc if plan.cuda else None
    years, by = {"stable": standard_of(torch.root / STABLE_HEADER)}, {"stable": "torch's stable ABI"}
    if plan.binding:
        files = ("include/ATen/ATen.h", "utils/cpp_extension.py")
        years["torch"], by["torch"] = standard_of(*(torch.root / name for name in files)), f"torch {torch.version}"
        misreads = nvcc and not nvcc.clang and nvcc.release in MISREADING
        if nvcc and misreads and years["torch"] < 20 and Version(torch.version) < Version(MISREAD_BEFORE):
            years["torch"], by["torch"] = 20, f"{nvcc.name} beside torch {torch.version}"
    return Standards(years, by, toolchain.settings.cxx_standard == "as-written")


def raised_standards(plan: Plan, toolchain: Toolchain) -> tuple[str, ...]:
    """The flags that name an earlier standard, one line each: where it stands, and what becomes of it."""
    drawn, lines = plan.standards, list[str]()
    for each in declared_flags(plan, toolchain.settings) if not drawn.as_written else ():
        abi = each.extension.abi if each.extension else drawn.latest
        for flag in with_standard(each.flags, drawn.years[abi])[1] if each.file is not None else ():
            raised = f"is raised to c++{drawn.years[abi]}, which {drawn.asked_by[abi]} asks for"
            lines.append(f"{flag} in {each.where} {raised}")
    return tuple(dict.fromkeys(lines))
