"""The wheel that a project's tables describe, made of a copy and without compiling, next to the one of its setup.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..runtime.errors import KernelWheelError
from . import project_tables
from .checkout import report_made
from .extension_tables import AdoptionNotes
from .project_copy import copied
from .pyproject_text import add_tables
from .setup_distribution import contents
from .setup_edit import without_extensions
from .setup_flags import Places
from .setup_runs import SECONDS, Observation
from .wheel_differences import wheel_differences

_BACKEND = Path(__file__).resolve().parents[2]
_NAME = str(__package__).partition(".")[0]
# Without the project on the path, whose modules may be called like setuptools'.
_CODE = """import json, sys
sys.path[0] = sys.argv[1]
from {0}.adoption.setup_distribution import hide_file_finders
from {0}.adoption.wheel_without_kernels import make_wheel
hide_file_finders("")
print(json.dumps(make_wheel(sys.argv[2])))
"""


def differences_of(
    project: Path,
    tables: Mapping[str, Any],
    seen: Observation,
    environ: Mapping[str, str],
    notes: AdoptionNotes,
    rest: AdoptionNotes,
    script: bytes | None = None,
) -> list[str]:
    """What differs between setup.py's wheel and the one of these tables, less what is told in other words.

    Beside the tables there is no setup.py, or one with that text.
    """
    if seen.wheel_failure:
        notes.untranslated.append(
            f"setuptools cannot make setup.py's wheel, so nothing is compared: {seen.wheel_failure}"
        )
        return []
    made = set() if script else report_made(project, seen, rest)
    try:
        ours = described_by(project, tables, environ, script)
    except KernelWheelError as error:
        notes.untranslated.append(f"{error.problem}: {' '.join(error.found.split())}")
        return []
    if "refused" in ours:
        notes.untranslated.append(f"kernelwheel refuses these tables: {ours['refused']}")
    places = Places(project, seen.below, seen.exactly)
    sources = {places.relative(source) for each in seen.extensions for source in each.listed("sources")}
    packed = made | {name for name in seen.wheel["files"] if name in sources and name not in ours["files"]}
    if packed - made:
        notes.remarks.append(
            f"sources that setup.py's wheel has beside its modules are in _native/src of ours: {len(packed - made)}"
        )
    theirs = {**seen.wheel, "files": {name: sha for name, sha in seen.wheel["files"].items() if name not in packed}}
    return list(wheel_differences(theirs, ours))


def script_that_stays(
    project: Path, tables: Mapping[str, Any], seen: Observation, environ: Mapping[str, str]
) -> bytes | None:
    """The text of setup.py without its extensions, if its wheel is the same but for these; None if it is not."""
    torch_s = {name for name, kind in seen.commands.items() if kind is None}
    script = without_extensions((project / "setup.py").read_bytes(), torch_s)
    told = AdoptionNotes()
    named = seen.values.get("name") not in (None, "UNKNOWN")
    if (
        not script
        or not named
        or differences_of(project, with_script(project, tables, seen), seen, environ, told, told, script)
    ):
        return None
    return None if told.untranslated else script


def with_script(project: Path, tables: Mapping[str, Any], seen: Observation) -> dict[str, Any]:
    """Of these tables, what goes with a setup.py that stays: it says all but how the extensions are built."""
    build = tables["build-system"]
    present = project_tables.present_tables(project)
    others = project_tables.other_requirements(present.get("build-system", {}), seen.arguments)
    kernelwheel = tables["tool"]["kernelwheel"]
    if not any("." in each["name"] for each in kernelwheel["extension"]):  # else the project's name says it
        home = re.sub(r"[-.]+", "_", str(seen.values["name"]))
        kernelwheel = {"package": home, **kernelwheel}
    return {"build-system": {**build, "requires": [*build["requires"], *others]}, "tool": {"kernelwheel": kernelwheel}}


def described_by(
    project: Path, tables: Mapping[str, Any], environ: Mapping[str, str], script: bytes | None = None
) -> dict[str, Any]:
    """What the wheel has besides kernels once the tables are written, and setup.py is gone or has that text.

    Raises:
        KernelWheelError: such a project does not build; quotes why.
    """
    with copied(project) as copy, tempfile.TemporaryDirectory() as folder:
        add_tables(copy.project / "pyproject.toml", tables)
        (copy.project / "setup.py").unlink()
        if script:
            (copy.project / "setup.py").write_bytes(script)
        done = subprocess.run(
            [sys.executable, "-c", _CODE.format(_NAME), str(_BACKEND), folder],
            cwd=copy.project,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise KernelWheelError(
                "the project does not build with these tables",
                required="a project whose metadata and files setuptools can pack",
                found=_reason(copy.as_original(done.stderr)),
                remedies=["correct what is said here in pyproject.toml, after `adopt --write`"],
            )
        said = json.loads(done.stdout.splitlines()[-1])
        described = contents(Path(folder) / said["wheel"])
    if said["refused"]:
        described["refused"] = said["refused"]
    names = {*described["about"].get("top_level.txt", "").split(), *said["top"]}
    described["about"]["top_level.txt"] = "\n".join(sorted(names))
    return described


def _reason(output: str) -> str:
    """The lines of a failure that say why: setuptools puts a whole JSON schema before them."""
    lines = output.strip().splitlines()
    said = [line for line in lines if "configuration error: " in line]
    return "\n".join(said or lines[-8:])
