"""nvcc's command line, served by clang: the program that stands in nvcc's place in a toolkit that has no nvcc.

clang compiles for the device (to PTX) and for the host, ptxas assembles SASS, and fatbinary packs both (clang's manual,
"Compiling CUDA with clang"; nvcc's manual, "CUDA Compilation Trajectory"). CMake, a CMakeLists.txt and flags say the same
to either compiler, and here, nowhere else, an option of nvcc becomes one of clang, or is refused by name.

It runs as a file, in a process for each source, so it imports nothing of the package.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ALIASES = {
    "compiler-bindir": "ccbin",
    "compiler-options": "Xcompiler",
    "default-stream": "default-stream",
    "expt-extended-lambda": "extended-lambda",
    "fatbin-options": "Xfatbin",
    "generate-code": "gencode",
    "generate-line-info": "lineinfo",
    "include-path": "I",
    "define-macro": "D",
    "undefine-macro": "U",
    "optf": "options-file",
    "optimize": "O",
    "output-file": "o",
    "pre-include": "include",
    "ptxas-options": "Xptxas",
    "relocatable-device-code": "rdc",
    "system-include": "isystem",
    "target-dir": "target-directory",
}
# Options that have no effect here: what clang does in any case, what steers programs that it does not have, and nvcc's
# own warnings. Those in the second line take a value.
NEEDLESS = frozenset(
    "allow-unsupported-compiler c compile display-error-number expt-relaxed-constexpr extended-lambda forward-unknown-opts "
    "forward-unknown-to-host-compiler keep m64 restrict source-in-ptx Wno-deprecated-gpu-targets".split()
)
NEEDLESS_VALUES = frozenset("Xcudafe cudart diag-error diag-suppress diag-warn split-compile t threads".split())
OF_GCC = ("-fno-canonical-system-headers", "-fno-gnu-unique")  # clang knows neither, and does what they ask for
# What every driver for CUDA 12 can compile (PTX ISA, "Release Notes"). It has all that a GPU up to 9.0 has; for newer
# ones clang chooses.
PTX_ISA, NEWEST_OF_ISA = "+ptx80", 90
# As nvcc has them, pointers to shared memory have 32 bits, not 64: an address then takes one register, not two.
DEVICE = ("--cuda-device-only", "-fcuda-short-ptr", "-O3")


class Refused(Exception):
    """What was asked for cannot be done with clang."""


@dataclass
class Command:
    """What one call asks for, by who does it."""

    sources: list[str] = field(default_factory=list)
    output: str = ""
    both: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)
    device: list[str] = field(default_factory=list)
    ptxas: list[str] = field(default_factory=list)
    fatbinary: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    host_compiler: str = ""
    platform: str = ""  # of the toolkit's part for another platform, `sbsa-linux`
    triple: str = ""  # of a host compiler that is told what to compile for
    keep: str = ""
    asked: str = ""


def _fast_math(command: Command, value: str) -> None:
    """nvcc's manual: implies ftz, no precise division or square root, and approximate functions."""
    if value in ("", "true"):
        command.device += ["-fgpu-approx-transcendentals", "-ffp-contract=fast", "-fgpu-flush-denormals-to-zero"]
        command.device += _llvm("-nvptx-prec-divf32=0", "-nvptx-prec-sqrtf32=0")


def _llvm(*options: str) -> list[str]:
    return [word for option in options for word in ("-mllvm", option)]


def _is_true(value: str) -> bool:
    return value in ("true", "1")


def _code(command: Command, value: str) -> None:
    """The targets of `arch=compute_90,code=[sm_90,compute_90]`: clang makes PTX for each by itself."""
    _, _, codes = value.replace(" ", "").partition("code=")
    found = re.findall(r"(?:sm|compute)_\d+[af]?", codes)
    if not found:
        raise Refused(f"-gencode={value}: expected arch=compute_90,code=sm_90")
    command.codes += found


def _for_host(command: Command, value: str) -> None:
    for word in _split(value):
        if word.startswith("@"):
            _for_host(command, ",".join(shlex.split(Path(word[1:]).read_text(encoding="utf-8"))))
        elif re.match(r"-[DUI]|-f(file|debug|macro)-prefix-map=", word):
            command.both.append(word)
        elif word.startswith("--target="):
            command.triple = word.partition("=")[2]
        elif word not in OF_GCC:
            command.host.append(word)


def _packed(command: Command, value: str) -> None:
    command.fatbinary += [word for word in _split(value) if "compress-mode" not in word]


def _relocatable(_: Command, value: str) -> None:
    if _is_true(value):
        raise Refused("-rdc=true: device code is linked by nvcc alone; put kernels and what they call in one file")


def _of_cicc(_: Command, value: str) -> None:
    if not value.startswith("--orig_src_path_name="):  # -cuid does what it is for
        raise Refused(f"-Xcicc={value}: clang is in the place of cicc")


def _stream(command: Command, value: str) -> None:
    command.both.append(f"-fgpu-default-stream={value}")


def _split(value: str) -> list[str]:
    """nvcc's own lists: separated by commas, unless they are quoted or escaped."""
    return [part.replace("\\,", ",").strip("'\"") for part in re.split(r"(?<!\\),", value) if part]


VALUED: dict[str, Callable[[Command, str], object]] = {
    "D": lambda command, value: command.both.append(f"-D{value}"),
    "I": lambda command, value: command.both.append(f"-I{value}"),
    "U": lambda command, value: command.both.append(f"-U{value}"),
    "MF": lambda command, value: command.host.extend(["-MF", value]),
    "MQ": lambda command, value: command.host.extend(["-MQ", value]),
    "MT": lambda command, value: command.host.extend(["-MT", value]),
    "Xcicc": _of_cicc,
    "Xcompiler": _for_host,
    "Xfatbin": _packed,
    "Xptxas": lambda command, value: command.ptxas.extend(_split(value)),
    "ccbin": lambda command, value: setattr(command, "host_compiler", value),
    "compress-mode": lambda command, value: command.fatbinary.append("-compress=false") if value == "none" else None,
    "default-stream": _stream,
    "fmad": lambda command, value: command.device.append(f"-ffp-contract={'fast' if _is_true(value) else 'off'}"),
    "frandom-seed": lambda command, value: command.both.append(f"-cuid={value}"),
    "ftz": lambda command, value: command.device.extend(["-fgpu-flush-denormals-to-zero"] if _is_true(value) else []),
    "gencode": _code,
    "include": lambda command, value: command.both.extend(["-include", value]),
    "isystem": lambda command, value: command.both.extend(["-isystem", value]),
    "keep-dir": lambda command, value: setattr(command, "keep", value),
    "maxrregcount": lambda command, value: command.ptxas.append(f"-maxrregcount={value}"),
    "o": lambda command, value: setattr(command, "output", value),
    "prec-div": lambda command, value: command.device.extend([] if _is_true(value) else _llvm("-nvptx-prec-divf32=1")),
    "prec-sqrt": lambda command, value: command.device.extend([] if _is_true(value) else _llvm("-nvptx-prec-sqrtf32=0")),
    "rdc": _relocatable,
    "std": lambda command, value: command.both.append(f"-std={value}"),
    "target-directory": lambda command, value: setattr(command, "platform", value),
    "x": lambda command, value: None,
    **dict.fromkeys(NEEDLESS_VALUES, lambda command, value: None),
}
# `--use_fast_math=true` is allowed, a value in the next word is not.
FLAGS: dict[str, Callable[[Command, str], object]] = {
    "lineinfo": lambda command, value: (command.device.append("-gline-tables-only"), command.ptxas.append("-lineinfo")),
    "use_fast_math": _fast_math,
    **dict.fromkeys(NEEDLESS, lambda command, value: None),
}


def parse(arguments: Sequence[str]) -> Command:
    """Sort the words of a call of nvcc.

    Raises:
        Refused: names the first option that clang has no equal for.
    """
    command, words = Command(), _words(arguments)
    for word in words:
        dashes = len(word) - len(word.lstrip("-"))
        name, equals, value = word[dashes:].partition("=")
        name = ALIASES.get(name, name)
        if not dashes or word == "-":
            command.sources.append(word)
        elif name in VALUED:
            VALUED[name](command, value if equals else next(words, ""))
        elif name in FLAGS:
            FLAGS[name](command, value)
        elif dashes == 1 and re.match("[DUI].", name):
            command.both.append(word)
        elif name in ("version", "V", "help", "h", "dryrun", "list-gpu-arch", "list-gpu-code"):
            command.asked = {"V": "version", "h": "help"}.get(name, name)
        elif name == "DNDEBUG" or name.startswith("O"):
            command.host.append(f"-{name}")
        elif dashes == 1 and re.match(r"[Wfgm]|M{1,2}D?$|E$|v$|w$|pthread$", name):
            _for_host(command, word)
        else:
            raise Refused(f"{word}: clang has nothing that corresponds to this option of nvcc")
    return command


def _words(arguments: Sequence[str]) -> Iterator[str]:
    """The words of a call, with those in options files."""
    words = iter(arguments)
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and ALIASES.get(name, name) == "options-file":
            yield from _words(shlex.split(Path(value if equals else next(words)).read_text(encoding="utf-8")))
        else:
            yield word


class Toolkit:
    """The folder of links that this program serves: `bin/clang++`, `bin/ptxas`, `bin/fatbinary`, headers, libdevice."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clang, self.ptxas, self.fatbinary = (str(root / "bin" / name) for name in ("clang++", "ptxas", "fatbinary"))

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
        common = [self.clang, "-x", "cuda", f"--cuda-path={part}", "-Wno-unknown-cuda-version", *command.both]
        common += _host_of(command)
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
                device = [*DEVICE, f"--cuda-gpu-arch=sm_{base}", *isa, *command.device]
                _run([*common, *device, "-S", command.sources[0], "-o", str(ptx)])
            if kind == "compute":
                images.append(f"--image3=kind=ptx,sm={arch},file={ptx}")
                continue
            cubin = ptx.with_suffix("").with_suffix(f".compute_{arch}.cubin")
            _run([self.ptxas, "-m64", "-O3", *command.ptxas, f"--gpu-name=sm_{arch}", f"--output-file={cubin}", str(ptx)])
            images.append(f"--image3=kind=elf,sm={arch},file={cubin}")
        return images


def _host_of(command: Command) -> list[str]:
    """clang's options for the host compiler's platform, which decides the device's types too, and its libstdc++."""
    if not command.host_compiler:
        return []
    asked = [command.host_compiler, *([f"--target={command.triple}"] if command.triple else [])]
    triple = command.triple or (_output([*asked, "-dumpmachine"]).strip() if command.platform else "")
    library = Path(_output([*asked, "-print-libgcc-file-name"]).strip())
    gcc = [f"--gcc-install-dir={library.parent}"] if library.name == "libgcc.a" else []  # a clang finds its own
    return [*([f"--target={triple}"] if triple else []), *gcc]


def _output(words: Sequence[str]) -> str:
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def _run(words: Sequence[str]) -> None:
    status = subprocess.run(words, check=False).returncode
    if status:
        raise SystemExit(status if status > 0 else 128 - status)


def main(program: str, arguments: Sequence[str]) -> None:
    """Answer or compile as `nvcc` would; the toolkit is the folder around `program`."""
    toolkit = Toolkit(Path(program).parents[1])
    command = parse(arguments)
    if command.asked == "version":
        print(f"nvcc: clang in its place\n{toolkit.version()}")
    elif command.asked.startswith("list-gpu"):
        codes, kind = (toolkit.virtual(), "compute") if command.asked == "list-gpu-arch" else (toolkit.real(), "sm")
        print("\n".join(f"{kind}_{code}" for code in codes))
    elif command.asked == "help":
        print("\n".join(f"--{name}" for name in sorted({*VALUED, *FLAGS})))
    elif command.asked == "dryrun":
        part = toolkit.part(command)
        library = f'"-L{part / ("lib" if command.platform else "lib64")}"'
        # After an empty line: CMake reads a first line that is no variable with its #$, as the name of the linker.
        print(f'\n#$ TOP={toolkit.root}\n#$ INCLUDES="-I{part}/include"  \n#$ LIBRARIES=  {library}')
        host = command.host_compiler or "c++"
        print("#$ clang++ -x cuda")  # of the line before the one that links, CMake takes the mark away
        print(f'#$ "{host}" -m64 {library} -lcudadevrt -lcudart_static -lrt -lpthread -ldl -o "a.out"')
    else:
        toolkit.compile(command)


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except Refused as refused:
        sys.exit(f"nvcc (clang): error: {refused}")
    except subprocess.CalledProcessError as failed:
        sys.exit(f"nvcc (clang): error: {failed}: {failed.stdout}")
