"""The command `python -m kernelwheel adopt`: the tables of pyproject.toml for a setup.py with torch extensions."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..requirements import TO_ADOPT, install, missing
from ..runtime.errors import BuildError, KernelWheelError, printable
from ..runtime.exit_status import Parser
from . import project_tables
from .checkout import edit_script, remove_script, report_outside, report_submodules, shortened, what_to_delete
from .extension_tables import AdoptionNotes, ExtensionTable, merge, own_home, translate, with_globs
from .setup_flags import Places, arch_list
from .setup_runs import Observation, SetupRuns, run_setup_script

_DESCRIPTION = """\
Read the CUDAExtension and CppExtension of a project's setup.py, and print the tables of pyproject.toml with which
kernelwheel builds the same. What cannot be translated is said on standard error, with the reason. The metadata and the
files of setup.py's wheel are compared with those of a wheel by these tables; what differs is said, too.

This RUNS setup.py, two or three times, in copies of the project: its own code is executed, as pip would. Its calls of
setup() are observed: nothing is compiled. It is told that this machine has a CUDA toolkit and no GPU, and only if it
wants one, that it has a GPU, so that every machine gives the same.

The exit status is 0 if all was translated and nothing differs, 1 if not, 2 if the command is wrong.
"""
_TORCH_S = ("CUDAExtension", "CppExtension")
_CAPABILITY = {"torch.cuda.get_device_capability", "torch.cuda.get_device_properties"}
# What a setup.py asks that compiles for the GPU of the machine it runs on.
_GPU_QUESTIONS = {*_CAPABILITY, "torch.cuda.get_arch_list"}


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    project = Path(chosen.folder).resolve()
    if not (project / "setup.py").is_file():
        parser.error(f"no setup.py in {project}" if project.is_dir() else f"no folder {project}")
    notes, rest = AdoptionNotes(), AdoptionNotes()
    try:
        _require_packages()
        from .comparison_builds import differences_of, script_that_stays, with_script
        from .pyproject_text import add_tables, toml_text

        tables, seen = adopted_tables(project, os.environ, notes, rest, chosen.setup_argument)
        differences = differences_of(project, tables, seen, os.environ, notes, rest)
        lost = bool(notes.untranslated or rest.untranslated or differences)
        script = None
        if chosen.write and lost and not notes.untranslated:
            script = script_that_stays(project, tables, seen, os.environ)
        if script:
            tables, lost = with_script(project, tables, seen), False
        else:
            notes.untranslated.extend([*rest.untranslated, *([] if chosen.check else shortened(differences))])
            notes.remarks.extend(rest.remarks)
        if chosen.write:
            add_tables(project / "pyproject.toml", tables)
            print(f"{project / 'pyproject.toml'} is written", file=sys.stderr)
        else:
            print("".join(f"{line}\n" for line in differences) if chosen.check else toml_text(tables), end="")
    except KernelWheelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    notes.remarks.append(_end_of_script(project / "setup.py", script, lost, chosen.write))
    for text in notes.untranslated:
        print(f"not translated: {printable(text)}", file=sys.stderr)
    for text in notes.remarks:
        print(f"note: {printable(text)}", file=sys.stderr)
    return 1 if lost else 0


def _parser() -> Parser:
    parser = Parser(
        "python -m kernelwheel adopt", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", nargs="?", default=".", help="the folder of setup.py (default: .)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--write",
        action="store_true",
        help="add the tables to pyproject.toml instead of printing them, and remove setup.py, or its extensions if it "
        "does something else as well",
    )
    what.add_argument(
        "--check", action="store_true", help="print every difference between setup.py's wheel and kernelwheel's instead"
    )
    parser.add_argument(
        "--setup-argument", metavar="WORD", action="append", default=[], help="a word for setup.py's command line"
    )
    return parser


def _require_packages() -> None:
    if names := missing(TO_ADOPT):
        raise BuildError(
            "what adopt needs is not installed",
            required=", ".join(name for _, name in TO_ADOPT),
            found=f"no {', '.join(names)} in {sys.prefix}",
            remedies=[install(names)],
        )


def _end_of_script(script: Path, text: bytes | None, lost: bool, write: bool) -> str:
    """Remove a setup.py or give it its new text, if either may be done; returns what became of it, or should."""
    if text:
        return edit_script(script, text, os.environ)
    if lost:
        return what_to_delete(script)
    if write:
        return remove_script(script, os.environ)
    return "then remove setup.py: its ext_modules would be compiled a second time"


def adopted_tables(
    project: Path, environ: Mapping[str, str], notes: AdoptionNotes, rest: AdoptionNotes, words: Sequence[str] = ()
) -> tuple[dict[str, Any], Observation]:
    """The tables for a project, by running its setup.py, and the run that they translate.

    Args:
        project: its folder.
        environ: the environment.
        notes: where to tell of the extensions.
        rest: where to tell of the rest, which a setup.py that stays still says.
        words: for setup.py's command line.

    Raises:
        KernelWheelError: setup.py cannot be read, or has no extension of torch's; pyproject.toml cannot be read.
    """
    present = project_tables.present_tables(project)
    runs = run_setup_script(project, environ, words)
    seen = runs.with_cuda
    extensions, archs = _extensions(project, runs, notes)
    project_tables.report_commands(seen, notes, rest)
    report_outside(project, seen, notes)
    report_submodules(project, seen, notes)
    cuda = any(extension.cuda != "none" for extension in extensions)
    old = present.get("build-system", {})
    tables: dict[str, Any] = {"build-system": project_tables.build_system(cuda, old, seen.arguments, notes, rest)}
    names = [extension.name for extension in extensions]
    home = next((name.partition(".")[0] for name in names if "." in name), names[0])
    if project_table := project_tables.project_table(project, present, seen, home, rest):
        tables["project"] = project_table
    tool: dict[str, Any] = {}
    setuptools = present.get("tool", {}).get("setuptools", {})
    licence = tables.get("project", {}).get("license")
    if added := project_tables.setuptools_table(project, setuptools, seen, licence, rest):
        tool["setuptools"] = added
    name = present.get("project", {}).get("name") or tables.get("project", {}).get("name")
    package = project_tables.home_package(names, name, seen.values.get("packages") or [], notes)
    package = package or own_home(extensions, project, str(name or ""))
    keys = {"package": package, "archs": archs, "extension": [extension.keys() for extension in extensions]}
    tool["kernelwheel"] = {key: value for key, value in keys.items() if value}
    _report_runs(runs, notes)
    whole: dict[str, Any] = project_tables.without_places({**tables, "tool": tool}, project, notes)
    return whole, seen


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
    if runs.needed_gpu and _CAPABILITY & {*seen.asked}:
        arch_flags = {}  # of a GPU that there is none of
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
    if shared and _GPU_QUESTIONS & {*asked}:
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
        if defined := sorted(_of_pretended_gpu(seen)):
            notes.remarks.append(f"setup.py asked for that GPU's compute capability, 9.0: check {', '.join(defined)}")
    if seen.assumed_cuda and seen.made_by("CUDAExtension"):
        notes.remarks.append(f"this torch has no CUDA; setup.py was told torch.version.cuda = {seen.assumed_cuda!r}")
    for place in seen.looked_for("download"):
        notes.remarks.append(f"setup.py tried to download from {place}")
    if "nvidia-smi" in seen.asked:
        notes.remarks.append("setup.py asked nvidia-smi; it was not there")
    if any(question.startswith("torch.cuda.get_device") for question in seen.asked):
        notes.remarks.append(
            "setup.py asked for the GPU's compute capability; kernelwheel takes architectures from "
            "TORCH_CUDA_ARCH_LIST or a default list"
        )


def _of_pretended_gpu(seen: Observation) -> set[str]:
    """What has the compute capability of the pretended GPU in it: definitions, and names of extensions."""
    if not _CAPABILITY & {*seen.asked}:
        return set()
    flags = [flag for each in seen.extensions for flag in each.compile_flags]
    names = [f"the extension {each.name}" for each in seen.extensions]
    return {
        text
        for text in (*flags, *names)
        if re.search(r"(?<!\d)90(?!\d)", text) and "gencode" not in text and "-arch" not in text
    }


def _nothing(seen: Observation) -> KernelWheelError:
    found = [f"{extension.name}, made by {extension.made_by}" for extension in seen.extensions]
    remedies = ["for other extensions, write [tool.kernelwheel] by hand, as docs/packaging.md says"]
    variables = [name for name in seen.looked_for("variable") if not name.startswith("TORCH_CUDA_")]
    if not found and variables:
        found = [f"no ext_modules; setup.py looked for variables that are not set: {', '.join(variables)}"]
        remedies.insert(0, "set the one that switches them on, to what setup.py compares it with, and run adopt again")
    if not seen.extensions and (words := seen.looked_for("word")):
        found = [*(found or ["no ext_modules"]), f"and for words of its command line: {' '.join(words)}"]
        remedies.insert(
            0, f"pass the one that switches them on, as in adopt --setup-argument={words[0]}, and run adopt again"
        )
    return KernelWheelError(
        "setup.py has no extension that adopt can translate",
        required="a CUDAExtension or CppExtension of torch.utils.cpp_extension in ext_modules",
        found="\n".join(found) or "no ext_modules",
        remedies=remedies,
    )
