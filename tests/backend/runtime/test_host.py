"""What a machine is said to run, against what other programs say of it."""

from __future__ import annotations

import ctypes
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from folders import BACKEND
from kernelwheel.runtime.machine import host
from processes import RunPython, run
from programs import find_optional

PROBE = """
import ctypes, json, os, resource, sys
import torch
from kernelwheel.runtime.machine import host
if "replaced" in sys.argv:
    library = os.path.join(os.environ["LD_LIBRARY_PATH"], "libstdc++.so.6")
    os.unlink(library)
    open(library, "wb").write(b"GLIBCXX_3.4.98")
if "no descriptors" in sys.argv:
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
print(json.dumps(host.probe()._asdict()))
"""
# Without torch: what another Python says of the C++ library that it has loaded, or of none.
LIBRARY = """
import ctypes, sys
if "loaded" in sys.argv:
    ctypes.CDLL("libstdc++.so.6")
from kernelwheel.project.build_platforms import HOST_PLATFORM
print(HOST_PLATFORM.newest_libstdcxx())
"""


def loaded_libstdcxx() -> Path:
    ctypes.CDLL("libstdc++.so.6")
    (path,) = {
        line.split(None, 5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/libstdc++" in line
    }
    return Path(path)


@pytest.fixture
def odd_folder(tmp_path: Path) -> Path:
    """A folder with a C++ library of its own, and a name as environments of some users have."""
    folder = tmp_path / "my enviro\u00f1ment"
    folder.mkdir()
    shutil.copy(loaded_libstdcxx(), folder / "libstdc++.so.6")
    return folder


def test_the_host_is_this_machine() -> None:
    found = host.probe()

    assert found.platform == f"linux-{platform.machine()}"
    assert found.libc == " ".join(platform.libc_ver())
    assert found.torch == torch.__version__
    assert found.cuda == torch.version.cuda
    assert found.python == f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert (found.driver, found.capabilities) == (None, None), "nobody asked for the GPUs"


def test_the_newest_symbol_version_is_the_one_that_the_library_defines() -> None:
    from elftools.elf.elffile import ELFFile

    with loaded_libstdcxx().open("rb") as file:
        section = ELFFile(file).get_section_by_name(".gnu.version_d")
        names = [next(names).name for _, names in section.iter_versions()]
    numbers = [int(name.rpartition(".")[2]) for name in names if name.startswith("GLIBCXX_3.4.")]

    assert host.probe().libstdcxx == f"GLIBCXX_3.4.{max(numbers)}"


def test_what_counts_is_the_cpp_library_that_was_loaded_and_no_file_is_opened_for_it(
    run_python: RunPython, odd_folder: Path
) -> None:
    done = run_python(PROBE, "replaced", "no descriptors", path=[BACKEND], env={"LD_LIBRARY_PATH": str(odd_folder)})

    assert json.loads(done.stdout) == json.loads(json.dumps(host.probe()._asdict()))


@pytest.mark.parametrize("minor", range(10, 15))
def test_every_python_says_the_same_of_the_cpp_library(minor: int, run_python: RunPython, tmp_path: Path) -> None:
    python = find_optional(f"python3.{minor}")
    if not python or subprocess.run([python, "-c", "import ctypes"], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no Python 3.{minor} on PATH")

    said = [
        run([python, "-c", LIBRARY, *words], cwd=tmp_path, env={"PYTHONPATH": str(BACKEND)}).stdout.strip()
        for words in (["loaded"], [])
    ]

    assert said == [host.probe().libstdcxx, ""]
