"""The wheel for aarch64, run: it loads, says that it fits, and gives the same numbers as the one for x86-64.

There is no Arm machine: Debian's Python and torch's own wheel for aarch64 run under qemu-user. `ci/aarch64` brings
them, with apt-get and pip, into the folder that SPLAT_TEST_AARCH64 names; ci/test does so where it can.
"""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from builds import for_another_platform
from folders import HELPERS, REPOSITORY
from processes import run

FOLDER = os.environ.get("SPLAT_TEST_AARCH64", "")
pytestmark = for_another_platform(FOLDER, "SPLAT_TEST_AARCH64 names no folder made by ci/aarch64")

# Draws, and runs commands of `splat`; in one process, because qemu takes 20 seconds to import torch.
DRAW_AND_RUN = """
import contextlib, io, json, sys

sys.path.append(sys.argv[1])
from drawn_digests import described, drawn_with
from kernelwheel.__main__ import main  # as `splat inspect`, without a process, which qemu-user cannot start
from splat import cli

print(json.dumps({"digests": drawn_with([]), **described()}))
for run, command in ((cli.main, ["doctor", "--json"]), (main, ["inspect", sys.argv[2], "--json"])):
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        run(command)
    print(json.dumps(json.loads(printed.getvalue())))
"""


# Draws the picture of ci/matrix; says which kernels drew it, and on what.
PICTURE = """
import json, sys
sys.path.append(sys.argv[1])
import matrix_probe, splat
from splat._kernelwheel.machine.platforms import platform_name
images, _ = matrix_probe.render_all()
loaded = splat.build_info()["loaded"]
print(json.dumps({"picture": matrix_probe.digest(images), "platform": platform_name(), "kernels": loaded["cpu"]}))
"""

# Preloaded into a program for aarch64 that sees this machine's files: what torch asks of the CPU, the others answer.
# A third argument that a function does not have does no harm (AAPCS64: it is in a register).
CPU_QUESTIONS = """
#include <dlfcn.h>
#include <string.h>
int snprintf(char *, size_t, const char *, ...);
#define ANSWER(type, name, second) \\
  type name(const char *path, second argument, int mode) { \\
    char there[4096]; \\
    snprintf(there, sizeof there, "%s%s", SYSROOT, path); \\
    int ours = !strncmp(path, "/sys/devices/system/cpu/", 24) || !strcmp(path, "/proc/cpuinfo"); \\
    return ((type (*)(const char *, second, int))dlsym(RTLD_NEXT, #name))(ours ? there : path, argument, mode); \\
  }
ANSWER(int, open, int)
ANSWER(int, open64, int)
ANSWER(void *, fopen, const char *)
ANSWER(void *, fopen64, const char *)
"""


def build_for_arm(folder: Path, **config: str) -> Path:
    """The folder of an unpacked wheel for aarch64, for one architecture, of this checkout."""
    config = {"platform": "linux-aarch64", "target-packages": f"{FOLDER}/toolkit", **config}
    options = [word for key, value in config.items() for word in ("-C", f"{key}={value}")]
    run(
        [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", *options, "-w", folder, REPOSITORY],
        cwd=folder,
        env={"TORCH_CUDA_ARCH_LIST": "9.0", "XDG_CACHE_HOME": str(folder / "cache")},
        limit=300,
    )
    (wheel,) = folder.glob("*-py3-none-manylinux_2_28_aarch64.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def machine_command() -> list[str]:
    """How to run a program on the other machine; the last word is its Python."""
    words: list[str] = json.loads((Path(FOLDER) / "machine.json").read_text(encoding="utf-8"))["python"]
    return words


def draw_picture(folder: Path, command: list[str], env: dict[str, str], limit: float = 300) -> dict[str, Any]:
    """What a Python prints of PICTURE."""
    (folder / "picture.py").write_text(PICTURE, encoding="utf-8")
    done = run([*command, folder / "picture.py", REPOSITORY / "ci"], cwd=folder, env=env, limit=limit)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def arm_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel for aarch64 from the default compiler, unpacked."""
    return build_for_arm(tmp_path_factory.mktemp("arm"))


@pytest.fixture(scope="module")
def on_arm(arm_package: Path) -> list[dict[str, Any]]:
    """What drawn_digests, `doctor --json` and `inspect --json` print there, with the package beside torch's."""
    *machine, python = machine_command()
    (wheel,) = arm_package.parent.glob("*.whl")
    both = arm_package.parent / "both.py"
    both.write_text(DRAW_AND_RUN, encoding="utf-8")
    path = f"PYTHONPATH={arm_package}:{FOLDER}/site:{REPOSITORY}/backend"  # kernelwheel, for `inspect`
    done = run([*machine, "-E", path, python, both, HELPERS, wheel], cwd=arm_package.parent, limit=300)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_libraries_are_for_aarch64_and_have_the_device_code_asked_for(arm_package: Path) -> None:
    native = arm_package / "splat" / "_native"
    manifest = json.loads((native / "manifest.json").read_text(encoding="utf-8"))

    machines = {path.name: int.from_bytes(path.read_bytes()[18:20], "little") for path in native.glob("*.so")}

    assert machines.keys() == {each["file"] for each in manifest["libraries"]}
    assert {*machines.values()} == {183}  # System V ABI, EM_AARCH64
    assert {tuple(each["sass"]) for each in manifest["libraries"] if each["device"] == "cuda"} == {("9.0",)}
    assert manifest["requires"]["driver"] == "13.0"


def test_it_draws_and_differentiates_as_on_x86_64_to_the_last_bit_and_loads_both_libraries(
    on_arm: list[dict[str, Any]], tmp_path: Path
) -> None:
    done = run([sys.executable, HELPERS / "drawn_digests.py"], cwd=tmp_path)
    here = json.loads(done.stdout.strip().splitlines()[-1])
    there = on_arm[0]

    assert (here["platform"], there["platform"]) == ("linux-x86_64", "linux-aarch64")
    assert there["mismatches"] == []
    assert "+cu" in there["torch"]
    assert there["digests"] == here["digests"]
    assert there["cuda operators"] == here["cuda operators"] > 0


def test_doctor_and_inspect_say_that_it_fits_there(on_arm: list[dict[str, Any]]) -> None:
    _, doctor, inspected = on_arm

    assert doctor["host"]["platform"] == "linux-aarch64"
    assert (doctor["verdict"], inspected["verdict"]) == ([], [])
    assert inspected["manifest"]["requires"]["platform"] == "linux-aarch64"


@pytest.mark.minutes
def test_kernels_compiled_there_at_run_time_draw_the_same_picture_and_are_not_for_x86_64(
    arm_package: Path, tmp_path: Path
) -> None:
    python = make_python_that_compiles(tmp_path)
    store = {"SPLAT_CACHE_DIR": str(tmp_path / "store")}
    settings = {"SPLAT_JIT": "always", "SPLAT_CUDA": "off", "CXX": "aarch64-linux-gnu-g++"}
    # Last, this Python's packages: what the extra `jit` brings, but nothing that is there for aarch64.
    packages = f"{arm_package}:{FOLDER}/site:{REPOSITORY}/backend:{sysconfig.get_path('purelib')}"
    paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": packages}

    there = draw_picture(tmp_path, [str(python)], {**store, **settings, **paths}, limit=600)

    assert there["platform"] == "linux-aarch64"
    assert Path(there["kernels"]).is_relative_to(tmp_path / "store")
    assert there["picture"] == draw_picture(tmp_path, [sys.executable], {})["picture"]
    listed = run([sys.executable, "-P", "-m", "splat", "cache", "list", "--json"], cwd=tmp_path, env=store).stdout
    (entry,) = json.loads(listed)["stores"][0]["entries"]
    assert (entry["folder"], entry["fits"]) == (there["kernels"], False)
    assert [mismatch["dimension"] for mismatch in entry["mismatches"]] == ["platform"]


def make_python_that_compiles(folder: Path) -> Path:
    """A Python for aarch64 that can start compilers: it sees this machine's files, and is a program to this machine.

    The compiler is the cross g++, and CMake and Ninja are this machine's: `uname` tells CMake what it runs on.
    """
    sysroot = Path(FOLDER) / "sysroot"
    command = ["aarch64-linux-gnu-g++", "-xc", "-w", "-shared", "-fPIC", f'-DSYSROOT="{sysroot}"', "-D_GNU_SOURCE"]
    (folder / "questions.c").write_text(CPU_QUESTIONS, encoding="utf-8")
    run([*command, "-o", folder / "questions.so", folder / "questions.c"], cwd=folder)
    python, libraries = folder / "python", f"{sysroot}/lib/aarch64-linux-gnu:{sysroot}/usr/lib/aarch64-linux-gnu"
    emulator = " ".join(machine_command()[:3])  # without its folder of files
    scripts = {
        "uname": '[ "$1" != -m ] || exec echo aarch64; exec /bin/uname "$@"',
        "python": f"exec {emulator} -E PYTHONHOME={sysroot}/usr {sysroot}/lib/ld-linux-aarch64.so.1 "
        f"--preload {folder}/questions.so --library-path {libraries}:{FOLDER}/libraries "
        f'--argv0 {python} {machine_command()[-1]} "$@"',
    }
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return python
