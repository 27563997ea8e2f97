"""The wheel that a project's tables describe, made of a copy and without compiling, next to the one of its setup.py."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import KernelWheelError
from .project_copy import copied
from .pyproject_text import add_tables
from .setup_distribution import contents
from .setup_runs import SECONDS

_BACKEND = Path(__file__).resolve().parents[2]
_NAME = str(__package__).partition(".")[0]
# Without the project on the path, whose modules may be called like setuptools'.
_CODE = """import json, sys
sys.path[0] = sys.argv[1]
from {0}.hooks import describe_wheel
print(json.dumps(describe_wheel(sys.argv[2])))
"""


def described_by(project: Path, tables: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """What the wheel has besides kernels once the tables are written and setup.py is gone.

    Raises:
        KernelWheelError: such a project does not build; quotes why.
    """
    with copied(project) as copy, tempfile.TemporaryDirectory() as folder:
        add_tables(copy.project / "pyproject.toml", tables)
        (copy.project / "setup.py").unlink()
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
                found="\n".join(copy.as_original(done.stderr).strip().splitlines()[-8:]),
                remedies=["correct what is said here in pyproject.toml, after `adopt --write`"],
            )
        said = json.loads(done.stdout.splitlines()[-1])
        described = contents(Path(folder) / said["wheel"])
    if said["refused"]:
        described["refused"] = said["refused"]
    names = {*described["about"].get("top_level.txt", "").split(), *said["top"]}
    described["about"]["top_level.txt"] = "\n".join(sorted(names))
    return described
