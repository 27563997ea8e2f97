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
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection

PYTHON = "3.11"  # Debian 12's
TORCH = "2.13.0"
PACKAGES = ("numpy", "pillow", "packaging", "platformdirs", "rich")
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
SYSTEM = (
    "libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "libstdc++.so", "libgcc_s.so", "ld-linux", "libz.so",
)  # fmt: skip
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
    recipe = f"torch {torch}\n{Path(__file__).read_text(encoding='utf-8')}"
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
    pip_install(folder / "site", (f"torch=={torch}", *PACKAGES, *NEEDED_BY_THEM))
    pip_install(folder / "toolkit", TOOLKIT)
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


def pip_install(target: Path, packages: Iterable[str]) -> None:
    """Unpack packages for aarch64."""
    words = ["--python-version", PYTHON, "--only-binary=:all:", "--no-deps", "--no-compile"]
    words += [f"--platform={each}" for each in PLATFORMS]
    run([sys.executable, "-m", "pip", "install", "--target", target, *words, *packages])


def make_libraries(torch: Path, libraries: Path, toolkit: Path) -> None:
    """The real CUDA runtime, whose constructors torch calls, and a stub of each other library that torch needs."""
    libraries.mkdir()
    for path in toolkit.glob("nvidia/cu13/lib/libcudart.so.*"):
        shutil.copy2(path, libraries)
    brought = {path.name for path in (*torch.iterdir(), *libraries.iterdir())}
    needed: dict[str, dict[str, str]] = {}
    bare: set[str] = set()
    for path in sorted(torch.glob("libtorch*.so")) + sorted(torch.glob("libc10*.so")):
        with path.open("rb") as stream:
            collect(ELFFile(stream), needed, bare)
    known = {name for symbols in needed.values() for name in symbols}
    missing = [name for name in sorted(needed) if name not in brought and not name.startswith(SYSTEM)]
    unversioned = sorted(name for name in bare - known if name.startswith(("cuda", "cu", "nccl", "nv")))
    for library in missing:
        write_stub(libraries / library, needed[library], unversioned if library.startswith("libnccl") else [])


def collect(elf: ELFFile, needed: dict[str, dict[str, str]], bare: set[str]) -> None:
    """Add what a library needs: by soname, the symbols with their versions; and the symbols without a version."""
    for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED"):
        needed.setdefault(tag.needed, {})
    symbols, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
    wanted = elf.get_section_by_name(".gnu.version_r")
    assert isinstance(versions, GNUVerSymSection)
    assert isinstance(wanted, GNUVerNeedSection)
    names = {
        each.entry.vna_other: (library.name, each.name) for library, inside in wanted.iter_versions() for each in inside
    }
    for symbol, at in zip(symbols.iter_symbols(), versions.iter_symbols(), strict=True):
        if symbol.entry.st_shndx != "SHN_UNDEF":
            continue
        if at.entry["ndx"] in names:
            library, version = names[at.entry["ndx"]]
            needed.setdefault(library, {})[symbol.name] = version
        else:
            bare.add(symbol.name)


def write_stub(path: Path, symbols: dict[str, str], more: list[str]) -> None:
    """A library that has these functions, and whose functions fail."""
    with tempfile.TemporaryDirectory() as temporary:
        source, script = Path(temporary) / "stub.c", Path(temporary) / "stub.map"
        source.write_text(
            "".join(f"int {name}(void) {{ return 1; }}\n" for name in [*symbols, *more]), encoding="ascii"
        )
        versions = sorted(set(symbols.values()))
        text = "".join(
            f"{version} {{ global: {'; '.join(n for n, v in symbols.items() if v == version)}; }};\n"
            for version in versions
        )
        script.write_text(text, encoding="ascii")
        words = ["-x", "c", "-shared", "-fPIC", "-nostdlib", "-w", f"-Wl,-soname,{path.name}"]
        words += [f"-Wl,--version-script={script}"] if versions else []
        run(["aarch64-linux-gnu-g++", *words, "-o", path, source])


def run(command: list[str | Path], cwd: Path | None = None) -> None:
    """Run a program; if it fails, what it said is shown."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(make_machine(Path(sys.argv[1]).resolve()))
