"""The command `python -m kernelwheel adopt`: the tables of pyproject.toml for a setup.py with torch extensions."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..packing.setuptools_project import needed_dynamic, refuse_ext_modules
from ..project.package import read_toml, split_table
from ..runtime.commands.exit_status import Parser
from ..runtime.errors import KernelWheelError, SettingsError, printable
from .architectures import choose, family
from .build_requirements import build_system
from .compile_args import Places
from .cuda_extension import AdoptionNotes, Table, merge, translate
from .pyproject_text import add_tables, toml_text
from .setup_child import GPU
from .setup_edit import without_extensions
from .setup_runs import SetupRun, run_setup_script

_DESCRIPTION = """\
Read the CUDAExtension and CppExtension of a project's setup.py, and print the tables of pyproject.toml with which
kernelwheel builds the same. What else setup.py says, such as the metadata and the packages, stays there: setuptools
reads it as before. What cannot be translated is said on standard error, with the reason.

This RUNS setup.py, where it is, as pip would: first as if this machine had a CUDA toolkit and a GPU (compute capability
9.0), then as if it had neither, and with --write what is left of it. What it gives to setup() is recorded, and nothing
is compiled.

The exit status is 0 if all was translated, 1 if not, 2 if the command is wrong.
"""
_TORCH_S = ("CUDAExtension", "CppExtension")


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status.

    Raises:
        KernelWheelError: setup.py cannot be read, or has no extension of torch's; pyproject.toml cannot be read or
            edited.
    """
    parser = Parser(
        "python -m kernelwheel adopt", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", nargs="?", default=".", help="the folder of setup.py (default: .)")
    parser.add_argument(
        "--write",
        action="store_true",
        help="add the tables to pyproject.toml instead of printing them, and take the extensions and what only they "
        "use out of setup.py; setup.py.old is then the one before",
    )
    chosen = parser.parse_args(arguments)
    project = Path(chosen.folder).resolve()
    script = project / "setup.py"
    if not script.is_file():
        parser.error(f"no setup.py in {project}" if project.is_dir() else f"no folder {project}")
    notes = AdoptionNotes()
    source = script.read_bytes()
    run = run_setup_script(project, os.environ, source, cuda=True)
    without_cuda = _without_cuda(project, run, source, notes)
    required, kernelwheel, dynamic = adopted_tables(project, run, without_cuda, notes)
    if chosen.write and notes.refused:
        notes.remarks.append("nothing was written; without --write, adopt prints the tables")
    elif chosen.write:
        try:
            edited = _edited(project, run, without_cuda, source)
        except KernelWheelError as careful:
            try:
                edited = _edited(project, run, without_cuda, source, whole_blocks=True)
            except KernelWheelError:
                raise careful from None
            notes.remarks.append("what setup.py did besides where it made extensions, such as checks, is gone, too")
        add_tables(project / "pyproject.toml", required, kernelwheel, dynamic)
        shutil.copy2(script, script.with_name("setup.py.old"))
        script.write_bytes(edited)
        notes.remarks.append("setup.py has no extensions any more; it was as setup.py.old is: compare them")
    else:
        print("\n".join(toml_text(required, kernelwheel)), end="")
        notes.remarks.append("setup.py must not have ext_modules any more: --write takes them out")
    for text in notes.untranslated:
        print(f"not translated: {printable(text)}", file=sys.stderr)
    for text in notes.remarks:
        print(f"note: {printable(text)}", file=sys.stderr)
    return 1 if notes.untranslated else 0


def _without_cuda(project: Path, run: SetupRun, source: bytes, notes: AdoptionNotes) -> SetupRun | None:
    """What setup.py does without CUDA; None if nothing needs CUDA, or if it fails there, as most do that require it."""
    if not any(extension.made_by == "CUDAExtension" for extension in run.extensions):
        return None
    try:
        return run_setup_script(project, os.environ, source, cuda=False)
    except KernelWheelError as error:
        reason = error.found.partition("\n")[0]
        notes.remarks.append(f"setup.py fails without CUDA, so its extensions require CUDA: {reason}")
        return None


def adopted_tables(
    project: Path, run: SetupRun, without_cuda: SetupRun | None, notes: AdoptionNotes
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """The tables [build-system] and [tool.kernelwheel] for a project, and what `dynamic` in [project] must become, if
    it must; what is lost goes to `notes`.

    Raises:
        KernelWheelError: there is no extension of torch's, or pyproject.toml cannot be read.
    """
    present = read_toml(project / "pyproject.toml") if (project / "pyproject.toml").exists() else {}
    extensions, arch_flags = _extensions(project, run, without_cuda, notes)
    name = str(run.name or "")
    keys = {
        "package": _home([each["name"] for each in extensions], name, run.packages or [], notes),
        "archs": choose(arch_flags, run, notes),
        "extension": [{key: value for key, value in each.items() if value} for each in extensions],
    }
    kernelwheel = {key: value for key, value in keys.items() if value}
    dynamic: list[str] = []
    try:
        facts = split_table(kernelwheel, name, project)[0].located(project)
        if dynamic := needed_dynamic(present.get("project"), facts):
            moved = present["project"].get("dependencies", [])
            kernelwheel = {**({"dependencies": moved} if moved else {}), **kernelwheel}
            notes.remarks.append(
                f"a wheel requires the torch that it is built for: [project] needs dynamic = {json.dumps(dynamic)}"
                + (", and its dependencies are in [tool.kernelwheel]" if moved else "")
            )
    except SettingsError as error:
        said = f"{error.problem}: {error.required}; found {error.found}"
        notes.refused.append(said)
        notes.untranslated.append(f"kernelwheel refuses these tables: {said}")
    if kind := run.commands.get("build_ext"):
        notes.untranslated.append(f"setup.py has its own build_ext, {kind}: nothing calls it any more")
    if run.calls > 1:
        notes.untranslated.append(f"setup() was called {run.calls} times: only the first call was read")
    told = f"setup.py was told that there are CUDA {run.cuda} and a GPU with compute capability {GPU}"
    notes.remarks.append(told + (", which it asked for" if run.asked_capability else ""))
    any_cuda = any(each["cuda"] != "none" for each in extensions)
    return build_system(any_cuda, present.get("build-system", {}), notes), kernelwheel, dynamic


def _extensions(
    project: Path, run: SetupRun, without_cuda: SetupRun | None, notes: AdoptionNotes
) -> tuple[list[Table], list[str]]:
    """The table of each extension, and the flags that choose architectures."""
    places = Places(project, run.known_folders, run.searched_folders)
    plain = {each.name: each for each in without_cuda.extensions} if without_cuda else {}
    tables, arch_flags = [], []
    for extension in run.extensions:
        other = plain.pop(extension.name, None)
        if extension.made_by not in _TORCH_S:
            notes.untranslated.append(f"{extension.name}: made by {extension.made_by}, not by a function of torch")
            continue
        table, flags = translate(extension, places, notes)
        if extension.made_by == "CUDAExtension" and other and other.made_by == "CppExtension":
            table = merge(table, translate(other, places, AdoptionNotes())[0], notes)
        elif without_cuda and other is None:
            table["cuda"] = "only"
            notes.remarks.append(f"{extension.name}: a build without CUDA leaves it out, as setup.py does")
        tables.append(table)
        if own := family(flags):  # where no TORCH_CUDA_ARCH_LIST changes it: instructions such as wgmma are in no other
            table["archs"] = str(own)
            notes.remarks.append(
                f"{table['name']}: archs = {str(own)!r} is its own, whatever TORCH_CUDA_ARCH_LIST says"
            )
        else:
            arch_flags += flags
    notes.untranslated.extend(f"{name}: an extension that is built only without CUDA" for name in plain)
    if not tables:
        raise KernelWheelError(
            "setup.py has no extension that adopt can translate",
            required="a CUDAExtension or CppExtension of torch.utils.cpp_extension in ext_modules",
            found=", ".join(f"{each.name}, made by {each.made_by}" for each in run.extensions) or "no ext_modules",
            remedies=[
                "if a variable of the environment switches the extensions on, set it and run adopt again",
                "for other extensions, write [tool.kernelwheel] by hand, as docs/packaging.md says",
            ],
        )
    return tables, arch_flags


def _home(names: Sequence[str], name: str, packages: Sequence[str], notes: AdoptionNotes) -> str | None:
    """The key `package`, the home of kernels and runtime; None if the extensions are in one package.

    For extensions at the top level, it is the package with the project's name, or the only one, else an extension
    itself. No other package is taken: importing it would run its `__init__.py`, which need not work by itself.
    """
    above = list(dict.fromkeys(each.partition(".")[0] for each in names if "." in each))
    if len(above) > 1:
        notes.remarks.append(f"the extensions are in several packages, {', '.join(above)}: the first is the home")
        return above[0]
    if above:
        return None
    top = list(dict.fromkeys(re.split(r"[./]", each)[0] for each in packages))
    default = re.sub(r"[-.]+", "_", name)
    if default in top:
        return default
    return top[0] if len(top) == 1 else names[0]


def _edited(
    project: Path, run: SetupRun, without_cuda: SetupRun | None, source: bytes, whole_blocks: bool = False
) -> bytes:
    """The text of setup.py without its extensions, if it is certain what to take out, and the rest does the same."""
    # Without ext_modules and packages, setuptools would look for packages by itself.
    instead: dict[str, list[str]] = {} if run.lists_modules else {"packages": []}
    torch_s = {name: kind is None for name, kind in run.commands.items()}
    try:
        edited = without_extensions(source, torch_s, b"packages=[]" if instead else b"", whole_blocks)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "setup.py").write_bytes(edited)
            refuse_ext_modules(Path(folder), {})
        after = run_setup_script(project, os.environ, edited, cuda=False, importable=False)
    except SettingsError as error:
        raise _refusal("ext_modules is used for something else as well, or is no plain argument of setup()") from error
    except (SyntaxError, ValueError) as error:
        raise _refusal(str(error)) from error
    except KernelWheelError as error:
        raise _refusal(f"without its extensions, it fails in a build by kernelwheel\n{error.found}") from error
    before = {**(without_cuda or run).arguments, **instead}
    if changed := [name for name in before if before[name] != after.arguments.get(name)]:
        raise _refusal(f"without its extensions, it gives setup() another {', '.join(changed)}")
    return edited


def _refusal(found: str) -> KernelWheelError:
    return KernelWheelError(
        "setup.py and pyproject.toml are left as they are: setup.py cannot be edited",
        required="a setup.py that gives setup() the same without its extensions, also without a GPU and without its "
        "folder on sys.path",
        found=found,
        remedies=[
            "change that in setup.py, and run adopt --write again",
            "or leave out --write, copy what adopt prints, and take ext_modules and torch's build_ext out by hand",
        ],
    )
