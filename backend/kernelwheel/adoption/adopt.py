"""The command `python -m kernelwheel adopt`: the tables of pyproject.toml for a setup.py with torch extensions."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import BuildError, KernelWheelError
from ..core.package import read_toml
from ..core.requirements import TO_ADOPT, install, missing
from . import project_tables
from .extension_tables import AdoptionNotes, ExtensionTable, merge, own_home, translate, with_globs
from .setup_flags import Places, arch_list
from .setup_runs import Observation, SetupRuns, run_setup_script

_DESCRIPTION = """\
Read the CUDAExtension and CppExtension of a project's setup.py, and print the tables of pyproject.toml with which
kernelwheel builds the same. What cannot be translated is said on standard error, with the reason.

This RUNS setup.py, two or three times: its own code is executed, as pip would. Its calls of setup() are observed:
nothing is built. It is told that this machine has a CUDA toolkit and no GPU, so that every machine gives the same.

The exit status is 0 if all was translated, 1 if something could not be, 2 if the command is wrong.
"""
# What a setup.py asks that compiles for the GPU of the machine it runs on.
GPU_QUESTIONS = ("torch.cuda.get_device_capability", "torch.cuda.get_device_properties", "torch.cuda.get_arch_list")
_TORCH_S = ("CUDAExtension", "CppExtension")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        "python -m kernelwheel adopt", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", nargs="?", default=".", help="the folder of setup.py (default: .)")
    parser.add_argument(
        "--write", action="store_true", help="add the tables to pyproject.toml instead of printing them"
    )
    chosen = parser.parse_args(arguments)
    project = Path(chosen.folder).resolve()
    if not (project / "setup.py").is_file():
        parser.error(f"no setup.py in {project}" if project.is_dir() else f"no folder {project}")
    notes = AdoptionNotes()
    try:
        if names := missing(TO_ADOPT):
            raise BuildError(
                "what adopt needs is not installed",
                required=", ".join(name for _, name in TO_ADOPT),
                found=f"no {', '.join(names)} in {sys.prefix}",
                remedies=[install(names)],
            )
        from .pyproject_text import add_tables, toml_text

        tables = adopted_tables(project, os.environ, notes)
        if chosen.write:
            add_tables(project / "pyproject.toml", tables)
    except KernelWheelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if chosen.write:
        print(f"{project / 'pyproject.toml'} is written", file=sys.stderr)
    else:
        print(toml_text(tables), end="")
    for text in notes.untranslated:
        print(f"not translated: {text}", file=sys.stderr)
    for text in notes.remarks:
        print(f"note: {text}", file=sys.stderr)
    return 1 if notes.untranslated else 0


def adopted_tables(project: Path, environ: Mapping[str, str], notes: AdoptionNotes) -> dict[str, Any]:
    """The tables for a project, by running its setup.py.

    Raises:
        KernelWheelError: setup.py cannot be read, or has no extension of torch's; pyproject.toml cannot be read.
    """
    present = read_toml(project / "pyproject.toml") if (project / "pyproject.toml").exists() else {}
    runs = run_setup_script(project, environ)
    seen, given = runs.with_cuda, runs.with_cuda.arguments
    extensions, archs = _extensions(project, runs, notes)
    project_tables.report_commands(seen, notes)
    cuda = any(extension.cuda != "none" for extension in extensions)
    tables = {"build-system": project_tables.build_system(cuda, present.get("build-system", {}), given, notes)}
    if "project" in present:
        project_tables.report_dynamic(present["project"], given, notes)
    elif project_table := project_tables.project_table(project, given, notes):
        tables["project"] = project_table
    tool = {}
    if setuptools := project_tables.setuptools_table(given, "setuptools" in present.get("tool", {}), notes):
        tool["setuptools"] = setuptools
    names = [extension.name for extension in extensions]
    name = present.get("project", {}).get("name") or given.get("name")
    package = project_tables.home_package(names, name, given.get("packages") or [], notes)
    package = package or own_home(extensions, project, str(name or ""))
    keys = {"package": package, "archs": archs, "extension": [extension.keys() for extension in extensions]}
    tool["kernelwheel"] = {key: value for key, value in keys.items() if value}
    _report_runs(runs, notes)
    return {**tables, "tool": tool}


def _extensions(project: Path, runs: SetupRuns, notes: AdoptionNotes) -> tuple[list[ExtensionTable], str | None]:
    """The table of each extension, and the architectures that they share."""
    seen = runs.with_cuda
    places = Places(project, seen.below, seen.exactly)
    plain = runs.without_cuda.made_by("CppExtension") if runs.without_cuda else {}
    tables, arch_flags = [], {}
    for extension in seen.extensions:
        if extension.made_by not in _TORCH_S:
            notes.untranslated.append(f"{extension.name}: made by {extension.made_by}, not by a function of torch")
            continue
        table, flags = translate(extension, places, notes)
        if extension.made_by == "CUDAExtension" and extension.name in plain:
            without = translate(plain[extension.name], places, AdoptionNotes())[0]
            table = merge(table, without, notes)
        tables.append(with_globs(table, project))
        if table.cuda != "none":
            arch_flags[table.name] = flags
    if not tables:
        raise _nothing(seen)
    if runs.without_cuda:
        _compare(runs.without_cuda, seen, notes)
    return tables, _shared_archs(arch_flags, seen.asked, notes)


def _shared_archs(flags: Mapping[str, Sequence[str]], asked: Sequence[str], notes: AdoptionNotes) -> str | None:
    """The value of `archs`; None if no flag chooses architectures, or if no one list can say what they choose."""
    lists = {}
    for name, chosen in flags.items():
        try:
            lists[name] = arch_list(chosen)
        except ValueError as error:
            notes.untranslated.append(f"{name}: the flag {error}, which no list of architectures can say")
            return None
    if len(set(lists.values())) > 1:
        each = ", ".join(f"{name}: {chosen or 'the default'}" for name, chosen in lists.items())
        notes.untranslated.append(f"the extensions are for different architectures ({each}), but there is one `archs`")
        return None
    (shared,) = set(lists.values()) or {""}
    if shared and any(question in GPU_QUESTIONS for question in asked):
        notes.remarks.append(
            f"setup.py takes the GPU's own architecture, and {shared!r} without one: that is left out, and "
            "kernelwheel's default list has more"
        )
        return None
    if shared:
        notes.remarks.append(f"flags that choose architectures became archs = {shared!r}; TORCH_CUDA_ARCH_LIST wins")
    return shared or None


def _compare(without: Observation, seen: Observation, notes: AdoptionNotes) -> None:
    """Tell which extensions there are only with CUDA, or only without."""
    there = {extension.name for extension in without.extensions}
    for name in seen.made_by("CUDAExtension"):
        if name not in there:
            notes.remarks.append(f'{name}: without CUDA, setup.py leaves it out; cuda = "required" fails there')
    for name in sorted(there - {extension.name for extension in seen.extensions}):
        notes.untranslated.append(f"{name}: an extension that is built only without CUDA")


def _report_runs(runs: SetupRuns, notes: AdoptionNotes) -> None:
    seen = runs.with_cuda
    if seen.calls > 1:
        notes.untranslated.append(f"setup() was called {seen.calls} times: only the first call was read")
    if runs.needed_gpu:
        notes.remarks.append("setup.py compiles CUDA code only where torch sees a GPU; it was told that there is one")
    if seen.assumed_cuda and seen.made_by("CUDAExtension"):
        notes.remarks.append(f"this torch has no CUDA; setup.py was told torch.version.cuda = {seen.assumed_cuda!r}")
    for question in seen.asked:
        if question.startswith("download: "):
            notes.remarks.append(f"setup.py tried to download from {question.removeprefix('download: ')}")
        elif question == "nvidia-smi":
            notes.remarks.append("setup.py asked nvidia-smi; it was not there")
    if any(question.startswith("torch.cuda.get_device") for question in seen.asked):
        notes.remarks.append(
            "setup.py asked for the GPU's compute capability; kernelwheel takes architectures from "
            "TORCH_CUDA_ARCH_LIST or a default list"
        )
    notes.remarks.append("then remove setup.py: its ext_modules would be compiled a second time")


def _nothing(seen: Observation) -> KernelWheelError:
    found = [f"{extension.name}, made by {extension.made_by}" for extension in seen.extensions]
    return KernelWheelError(
        "setup.py has no extension that adopt can translate",
        required="a CUDAExtension or CppExtension of torch.utils.cpp_extension in ext_modules",
        found="\n".join(found) or "no ext_modules",
        remedies=["for other extensions, write [tool.kernelwheel] by hand, as docs/adopt.md says"],
    )
