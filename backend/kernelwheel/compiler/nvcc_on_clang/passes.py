"""The passes of a compile: PTX and SASS for each architecture, packed, and embedded in the object for the host."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from .nvcc_options import Command, Refused

# What every driver for CUDA 12 can compile (PTX ISA, "Release Notes"). It has all that a GPU up to 9.0 has; for newer
# ones clang chooses.
PTX_ISA, NEWEST_OF_ISA = "+ptx80", 90
# As nvcc has them, pointers to shared memory have 32 bits, not 64: an address then takes one register, not two.
DEVICE = ("--cuda-device-only", "-fcuda-short-ptr", "-O3")
HEADER = "include/nvcc_on_clang.h"  # cmake/nvcc_on_clang.h
# Windows, as a toolkit calls it, and as zig and clang do.
WINDOWS, TRIPLE = "x64", "x86_64-windows-gnu"


class Toolkit:
    """The folder of links that this program serves: `bin/clang++`, `bin/ptxas`, `bin/fatbinary`, headers, libdevice."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clang, self.ptxas, self.fatbinary = (
            str(root / "bin" / name) for name in ("clang++", "ptxas", "fatbinary")
        )

    def version(self) -> str:
        """The release line of ptxas, which makes the SASS, as nvcc prints its own."""
        return next(line for line in _output([self.ptxas, "--version"]).splitlines() if "release" in line)

    def virtual(self) -> list[int]:
        """The architectures that clang makes PTX for."""
        listed = _output([self.clang, "--target=nvptx64-nvidia-cuda", "-print-supported-cpus"])
        return sorted({int(code) for code in re.findall(r"\bsm_(\d+)\b", listed)} & set(self.real()))

    def real(self) -> list[int]:
        """The architectures that ptxas makes SASS for."""
        return sorted({int(code) for code in re.findall(r"'sm_(\d+)'", _output([self.ptxas, "--help"]))})

    def part(self, command: Command) -> Path:
        """The folder with the headers for the platform that is compiled for, laid out as a toolkit is."""
        part = self.root / "targets" / command.platform if command.platform else self.root
        if not part.is_dir():
            raise Refused(f"--target-directory={command.platform}: there is no {part}")
        return part

    def compile(self, command: Command) -> None:
        """Compile one source for the device and the host."""
        if len(command.sources) != 1 or not command.output:
            raise Refused(f"expected one source and -o, found {' '.join(command.sources)}")
        part = self.part(command)
        common = [self.clang, "-x", "cuda", f"--cuda-path={part}", "-Wno-unknown-cuda-version", *self._definitions()]
        common += ["-Wno-unknown-warning-option", "-include", str(part / HEADER), *command.both]
        common += _host_of(command, part)
        # As nvcc does: CCCL names its namespaces after it, so that libraries for other GPUs do not share kernels.
        archs = sorted({int(number) * 10 for code in command.codes for number in re.findall(r"\d+", code)})
        common += [f"-D__CUDA_ARCH_LIST__={','.join(map(str, archs))}"] if archs else []
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(command.keep or temporary)
            images = self._images(command, common, folder)
            packed = folder / "device.fatbin"
            # Before 12.4, drivers unpack nothing but what this mode makes.
            modes = [] if "-compress=false" in command.fatbinary else ["-compress-mode=speed"]
            _run([self.fatbinary, "-64", *modes, *command.fatbinary, *images, f"--create={packed}"])
            embed = ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(packed)] if images else []
            _run([*common, "--cuda-host-only", *embed, *command.host, "-c", command.sources[0], "-o", command.output])

    def _definitions(self) -> list[str]:
        """The release, which clang does not define as nvcc does. __NVCC__ is left out: it promises nvcc's front end."""
        names, numbers = ("MAJOR", "MINOR", "BUILD"), re.findall(r"\d+", self.version().partition(" V")[2])
        return [f"-D__CUDACC_VER_{part}__={number}" for part, number in zip(names, numbers, strict=True)]

    def _images(self, command: Command, common: Sequence[str], folder: Path) -> list[str]:
        """fatbinary's options for the targets, once their files are made."""
        known, made, images = self.virtual(), set[Path](), list[str]()
        for kind, _, arch in (code.partition("_") for code in command.codes):
            own = not arch.isdecimal() or int(arch) in known
            if kind == "compute" and not own:
                raise Refused(f"compute_{arch}: this clang makes PTX up to compute_{max(known)}")
            # What is newer than this clang gets SASS from PTX for the newest architecture that it knows.
            base = arch if own else str(max(code for code in known if code < int(arch)))
            ptx = folder / f"{Path(command.sources[0]).stem}.compute_{base}.ptx"
            if ptx not in made:
                made.add(ptx)
                isa = [f"--cuda-feature={PTX_ISA}"] if int(base.rstrip("af")) <= NEWEST_OF_ISA else []
                device = [*DEVICE, f"--cuda-gpu-arch=sm_{base}", *isa, *command.device_options()]
                _run([*common, *device, "-S", command.sources[0], "-o", str(ptx)])
            if kind == "compute":
                images.append(f"--image3=kind=ptx,sm={arch},file={ptx}")
                continue
            cubin = ptx.with_suffix("").with_suffix(f".compute_{arch}.cubin")
            _run([self.ptxas, "-m64", *command.ptxas, f"--gpu-name=sm_{arch}", f"--output-file={cubin}", str(ptx)])
            images.append(f"--image3=kind=elf,sm={arch},file={cubin}")
        return images


def _host_of(command: Command, part: Path) -> list[str]:
    """clang's options for the host compiler's platform, which decides the device's types too, and C++ library."""
    if not command.host_compiler:
        return []
    if command.platform == WINDOWS:
        ours = f"-I{part}/include/windows"
        return [f"--target={TRIPLE}", ours, *_headers_of_zig(command.host_compiler)]
    triple = _output([command.host_compiler, "-dumpmachine"]).strip() if command.platform else ""
    library = Path(_output([command.host_compiler, "-print-libgcc-file-name"]).strip())
    gcc = [f"--gcc-install-dir={library.parent}"] if library.name == "libgcc.a" else []  # a clang finds its own
    return [*([f"--target={triple}"] if triple else []), *gcc]


def _headers_of_zig(zig: str) -> Iterator[str]:
    """The options for the headers that zig compiles with for Windows, as it gives them to its own clang.

    libc++ does without CUDA's support, and without a newer clang, as far as kernels and what launches them need it.
    """
    yield from ("-nostdlibinc", "-D_ALLOW_UNSUPPORTED_LIBCPP", "-Wno-#warnings")
    words = shlex.split(_output([zig, "c++", "-target", TRIPLE, "-###", "-c", "-x", "c++", os.devnull]))
    for option, value in pairwise(words):
        if option == "-D":
            yield f"-D{value}"
        elif option == "-isystem" and re.search(r"libcxx(abi)?/include$", value):
            yield f"-stdlib++-isystem{value}"  # after clang's own for CUDA, which include it
        elif option == "-isystem" and "/libc/" in value:
            yield f"-idirafter{value}"


def _output(words: Sequence[str]) -> str:
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def _run(words: Sequence[str]) -> None:
    status = subprocess.run(words, check=False).returncode
    if status:
        raise SystemExit(status if status > 0 else 128 - status)
