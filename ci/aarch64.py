"""Makes a folder in which a wheel for aarch64 can be run on x86-64, under qemu; run by ci/aarch64.

sysroot/     Debian's Python, its headers and what it needs, from its arm64 packages: fetched by apt-get with a state of
             its own, so that nothing of this system changes, and nothing is installed
site/        torch's wheel for aarch64 and the other packages that splat needs, from pip
libraries/   the CUDA runtime from its wheel, and stubs of the CUDA libraries that torch is linked to: they take
             gigabytes, and no call reaches them without a GPU
toolkit/     the parts of the CUDA toolkit for aarch64, for -C target-packages
machine.json how to run a program there
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import cuda_stubs
import machine_setup
from cuda_stubs import write_stubs
from machine_setup import run, unpack_packages

PYTHON = "3.11"  # Debian 12's
TORCH = "2.13.0"
PACKAGES = ("numpy", "pillow", "rich")
# Tags of wheels that Debian 12 on aarch64 takes.
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64")
# Of torch's dependencies, those that it imports: without NVIDIA's libraries, which are stubs here.
NEEDED_BY_THEM = (
    "filelock", "fsspec", "jinja2", "markdown-it-py", "markupsafe", "mdurl", "mpmath", "networkx", "pygments", "sympy",
    "typing-extensions",
)  # fmt: skip
RUNTIME = "nvidia-cuda-runtime==13.0.96"
# The release of the toolkit in ci/lib.sh; and the newest of CUDA 12, for clang.
TOOLKIT = (
    RUNTIME, "nvidia-cuda-crt==13.0.88", "nvidia-cuda-cccl==13.0.85", "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-runtime-cu12==12.9.79", "nvidia-cuda-nvcc-cu12==12.9.86", "nvidia-cuda-cccl-cu12==12.9.27",
)  # fmt: skip
HEADERS = f"libpython{PYTHON}-dev"  # for modules; without what it depends on, such as a libc's headers
DEBIAN = ("python3-minimal", f"libpython{PYTHON}-stdlib", "libstdc++6", "libgomp1", "libc-bin")
CPU = "neoverse-n1"  # has no SVE: one that qemu executes fast enough
# What libraries of torch look up in /proc and /sys: under qemu they would see the builder's CPU.
CPUINFO = """processor\t: {0}
BogoMIPS\t: 50.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""


def make_machine(folder: Path, torch: str = TORCH) -> int:
    """Make the folder, with a release of torch; 2 and a reason if this machine cannot."""
    made = folder / "machine.json"
    texts = [Path(file).read_text(encoding="utf-8") for file in (__file__, cuda_stubs.__file__, machine_setup.__file__)]
    recipe = "\n".join([f"torch {torch}", *texts])
    if made.is_file() and json.loads(made.read_text(encoding="utf-8"))["recipe"] == recipe:
        return 0
    if lacking := [
        name for name in ("apt-get", "dpkg", "qemu-aarch64", "aarch64-linux-gnu-g++") if not shutil.which(name)
    ]:
        print(
            f"required:  {', '.join(lacking)}\nfound:     not on PATH\n"
            "to fix:    Debian, Ubuntu: apt-get install qemu-user g++-aarch64-linux-gnu",
            file=sys.stderr,
        )
        return 2
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_sysroot(folder / "sysroot")
    unpack_packages(folder / "site", (f"torch=={torch}", *PACKAGES, *NEEDED_BY_THEM), PYTHON, PLATFORMS)
    unpack_packages(folder / "toolkit", TOOLKIT, PYTHON, PLATFORMS)
    make_libraries(folder / "site" / "torch" / "lib", folder / "libraries", folder / "toolkit")
    command = ["qemu-aarch64", "-cpu", CPU, "-L", str(folder / "sysroot")]
    command += ["-E", f"LD_LIBRARY_PATH={folder / 'libraries'}"]
    values = {"python": [*command, str(folder / "sysroot/usr/bin" / f"python{PYTHON}")], "recipe": recipe}
    made.write_text(json.dumps(values, indent=1), encoding="utf-8")
    return 0


def make_sysroot(sysroot: Path) -> None:
    """Unpack Debian's packages; and what is asked of the machine's CPU, which qemu does not answer."""
    with tempfile.TemporaryDirectory() as temporary:
        state = Path(temporary)
        for name in ("state/lists/partial", "cache/archives/partial"):
            (state / name).mkdir(parents=True)
        options = {
            "APT::Architecture": "arm64", "APT::Architectures": "arm64", "Dir::State": f"{state}/state",
            "Dir::State::status": "/dev/null", "Dir::Cache": f"{state}/cache", "APT::Sandbox::User": "root",
            "Debug::NoLocking": "true",
        }  # fmt: skip
        apt = ["apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
        run([*apt, "update"])
        run([*apt, "install", "--download-only", "--yes", "--no-install-recommends", *DEBIAN])
        run([*apt, "download", HEADERS], cwd=state)
        for package in sorted([*(state / "cache" / "archives").glob("*.deb"), *state.glob("*.deb")]):
            run(["dpkg", "-x", package, sysroot])
    for number in range(os.cpu_count() or 1):
        register = sysroot / f"sys/devices/system/cpu/cpu{number}/regs/identification/midr_el1"
        register.parent.mkdir(parents=True)
        register.write_text("0x00000000413fd0c1\n", encoding="ascii")
    (sysroot / "proc").mkdir(exist_ok=True)
    (sysroot / "proc/cpuinfo").write_text(
        "".join(CPUINFO.format(n) for n in range(os.cpu_count() or 1)), encoding="ascii"
    )


def make_libraries(torch: Path, libraries: Path, toolkit: Path) -> None:
    """The real CUDA runtime, whose constructors torch calls, and a stub of each other library that torch needs."""
    libraries.mkdir()
    for path in toolkit.glob("nvidia/cu13/lib/libcudart.so.*"):
        shutil.copy2(path, libraries)
    write_stubs(torch, libraries, "aarch64-linux-gnu-g++")


if __name__ == "__main__":
    sys.exit(make_machine(Path(sys.argv[1]).resolve()))
