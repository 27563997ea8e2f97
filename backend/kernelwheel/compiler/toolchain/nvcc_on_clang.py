"""nvcc's command line, served by clang: the program that stands in nvcc's place in a toolkit that has no nvcc.

clang compiles for the device (to PTX) and for the host, ptxas assembles SASS, and fatbinary packs both (clang's
manual, "Compiling CUDA with clang"; nvcc's manual, "CUDA Compilation Trajectory"). CMake, a CMakeLists.txt and flags
say the same to either compiler, and here, nowhere else, an option of nvcc becomes one of clang, or is refused by name.

It runs as a file, in a process for each source, so it imports nothing of the package.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# nvcc's long names of options, which its manual gives beside the short ones, and its own synonyms.
ALIASES = {
    "arch-ls": "list-gpu-arch", "brief-diag": "brief-diagnostics", "code-ls": "list-gpu-code", "compile": "c",
    "compiler-bindir": "ccbin", "compiler-options": "Xcompiler", "debug": "g", "define-macro": "D",
    "dependency-output": "MF", "dependency-target-name": "MT", "device-c": "dc", "device-debug": "G",
    "device-link": "dlink", "device-w": "dw", "disable-warnings": "w", "dlink-time-opt": "dlto",
    "err-no": "display-error-number", "expt-extended-lambda": "extended-lambda", "extensible-whole-program": "ewp",
    "fatbin-options": "Xfatbin", "generate-code": "gencode", "generate-dependencies-with-compile": "MD",
    "generate-dependency-targets": "MP", "generate-line-info": "lineinfo",
    "generate-nonsystem-dependencies-with-compile": "MMD", "gpu-architecture": "arch", "gpu-code": "code", "h": "help",
    "include-path": "I", "library": "l", "library-path": "L", "linker-options": "Xlinker", "machine": "m",
    "no-err-no": "no-display-error-number", "nvlink-options": "Xnvlink", "Ofc": "Ofast-compile",
    "optf": "options-file", "optimize": "O", "output-file": "o", "pre-include": "include", "preprocess": "E",
    "ptxas-options": "Xptxas", "relocatable-device-code": "rdc", "res-usage": "resource-usage",
    "src-in-ptx": "source-in-ptx", "system-include": "isystem", "target-dir": "target-directory",
    "undefine-macro": "U", "V": "version", "verbose": "v",
}  # fmt: skip
ASKED = ("version", "help", "dryrun", "list-gpu-arch", "list-gpu-code")
# Options that have no effect here: what clang does in any case, hints, what steers programs that it does not have, and
# nvcc's own warnings. Those in the second list take a value.
NEEDLESS = {
    "allow-unsupported-compiler", "c", "display-error-number", "extra-device-vectorization", "forward-unknown-opts",
    "forward-unknown-to-host-compiler", "forward-unknown-to-host-linker", "jobserver", "keep", "m64",
    "no-display-error-number", "restrict", "save-temps", "source-in-ptx", "Wdefault-stream-launch",
    "Wext-lambda-captures-this", "Wmissing-launch-bounds", "Wno-deprecated-gpu-targets", "Wreorder",
}  # fmt: skip
NEEDLESS_VALUES = {
    "brief-diagnostics", "cudadevrt", "cudart", "device-entity-has-hidden-visibility", "diag-error", "diag-suppress",
    "diag-warn", "dopt", "l", "L", "m", "split-compile", "static-global-template-stub", "t", "threads", "Werror", "x",
    "Xcudafe", "Xlinker", "Xnvlink",
}  # fmt: skip
LINKED = "device code is linked by nvcc alone; put kernels and the device functions that they call in one file"
OTHER_ARCHS = "architectures are named by -gencode=arch=compute_90,code=sm_90"
REFUSED = {
    "G": "device code is always optimised; -lineinfo gives its line numbers",
    "arch": OTHER_ARCHS,
    "code": OTHER_ARCHS,
    **dict.fromkeys(("dc", "dlink", "dlto", "dw", "ewp", "lto"), LINKED),
    **dict.fromkeys(("E", "M", "MM", "cubin", "fatbin", "lib", "link", "ptx", "shared"), "nothing but objects is made"),
    "Ofast-compile": "device code is always optimised",
    "ldir": "libdevice is the toolkit's",
}
# The values that nvcc's manual gives for these by default, and those that --use_fast_math implies.
PRECISE = {"ftz": False, "prec-div": True, "prec-sqrt": True, "fmad": True}
FAST = {"ftz": True, "prec-div": False, "prec-sqrt": False, "fmad": True}
OF_GCC = ("-fno-canonical-system-headers", "-fno-gnu-unique")  # clang knows neither, and does what they ask for
# Of the host compiler's options, those that device code has to be compiled with too: nvcc has the host compiler
# preprocess either, and takes -std, -w and the template limits itself.
OF_BOTH = re.compile(r"-[DUI]|-i(system|quote|dirafter)|-std=|-w$|-Wno-|-ftemplate-|-f(file|debug|macro)-prefix-map=")
PAIRED = ("-D", "-U", "-I", "-isystem", "-iquote", "-idirafter", "-include")
# What every driver for CUDA 12 can compile (PTX ISA, "Release Notes"). It has all that a GPU up to 9.0 has; for newer
# ones clang chooses.
PTX_ISA, NEWEST_OF_ISA = "+ptx80", 90
# As nvcc has them, pointers to shared memory have 32 bits, not 64: an address then takes one register, not two.
DEVICE = ("--cuda-device-only", "-fcuda-short-ptr", "-O3")
HEADER = "include/nvcc_on_clang.h"  # made by clang_headers.py


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
    math: dict[str, bool] = field(default_factory=lambda: dict(PRECISE))
    fast: bool = False
    host_compiler: str = ""
    platform: str = ""  # of the toolkit's part for another platform, `sbsa-linux`
    triple: str = ""  # of a host compiler that is told what to compile for
    keep: str = ""
    asked: str = ""

    def device_options(self) -> list[str]:
        """How clang makes PTX."""
        # Division: 2 is IEEE's, 1 is what nvcc makes of --prec-div=false, 0 what it makes of --use_fast_math.
        division = 2 if self.math["prec-div"] else 0 if self.fast else 1
        return [
            *DEVICE,
            f"-ffp-contract={'fast' if self.math['fmad'] else 'off'}",
            *(["-fgpu-flush-denormals-to-zero"] if self.math["ftz"] else []),
            *(["-fgpu-approx-transcendentals"] if self.fast else []),
            *("-mllvm", f"-nvptx-prec-divf32={division}"),
            *("-mllvm", f"-nvptx-prec-sqrtf32={int(self.math['prec-sqrt'])}"),
            *self.device,
        ]


Action = Callable[[Command, str], object]


def _fast_math(command: Command, value: str) -> None:
    command.fast = _is_true("use_fast_math", value or "true")
    command.math.update(FAST if command.fast else {})


def _math(name: str) -> Action:
    return lambda command, value: command.math.update({name: _is_true(name, value)})


def _is_true(name: str, value: str) -> bool:
    if value not in ("true", "1", "false", "0"):
        raise Refused(f"{name}={value}: expected true or false")
    return value in ("true", "1")


def _code(command: Command, value: str) -> None:
    """The targets of `arch=compute_90,code=[sm_90,compute_90]`: clang makes PTX for each by itself."""
    _, _, codes = value.replace(" ", "").partition("code=")
    found = re.findall(r"(?:sm|compute)_\d+[af]?", codes)
    if not found:
        raise Refused(f"-gencode={value}: expected arch=compute_90,code=sm_90")
    command.codes += found


def _for_host(command: Command, value: str) -> None:
    words = iter(_split(value))
    for word in words:
        if word.startswith("@"):
            _for_host(command, ",".join(shlex.split(Path(word[1:]).read_text(encoding="utf-8"))))
        elif word.startswith("-fopenmp"):
            raise Refused(f"{word}: clang would need an OpenMP library of its own; put parallel loops in C++ files")
        elif word in PAIRED:
            command.both += [word, _next(words, word)]
        elif OF_BOTH.match(word):
            command.both.append(word)
        elif word.startswith("--target="):
            command.triple = word.partition("=")[2]
        elif word not in OF_GCC:
            command.host.append(word)


def _packed(command: Command, value: str) -> None:
    command.fatbinary += [word for word in _split(value) if "compress-mode" not in word]


def _relocatable(_: Command, value: str) -> None:
    if _is_true("rdc", value):
        raise Refused(f"-rdc=true: {LINKED}")


def _of_cicc(_: Command, value: str) -> None:
    if not value.startswith("--orig_src_path_name="):  # -cuid does what it is for
        raise Refused(f"-Xcicc={value}: clang is in the place of cicc")


def _stream(command: Command, value: str) -> None:
    if value == "per-thread":
        command.both += ["-Xclang", "-fgpu-default-stream=per-thread"]  # clang's driver takes it for HIP alone


def _line_info(command: Command, _: str) -> None:
    command.device.append("-gline-tables-only")
    command.ptxas.append("-lineinfo")


def _split(value: str) -> list[str]:
    """nvcc's own lists: separated by commas that are not escaped; a part may be in quotes."""
    parts = [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", value) if part]
    return [part[1:-1] if part[0] in "'\"" and part[0] == part[-1] else part for part in parts]


def _add(words: str, *options: str) -> Action:
    """Adds to the words of one kind; `{}` in an option is the value."""
    return lambda command, value: getattr(command, words).extend(option.format(value) for option in options)


def _keep_value(attribute: str) -> Action:
    return lambda command, value: setattr(command, attribute, value)


VALUED: dict[str, Action] = {
    "D": _add("both", "-D{}"),
    "I": _add("both", "-I{}"),
    "U": _add("both", "-U{}"),
    "MF": _add("host", "-MF", "{}"),
    "MQ": _add("host", "-MQ", "{}"),
    "MT": _add("host", "-MT", "{}"),
    "O": _add("host", "-O{}"),
    "Xcicc": _of_cicc,
    "Xcompiler": _for_host,
    "Xfatbin": _packed,
    "Xptxas": lambda command, value: command.ptxas.extend(_split(value)),
    "ccbin": _keep_value("host_compiler"),
    "compress-mode": lambda command, value: command.fatbinary.append("-compress=false") if value == "none" else None,
    "default-stream": _stream,
    "frandom-seed": _add("both", "-cuid={}"),
    "ftemplate-backtrace-limit": _add("both", "-ftemplate-backtrace-limit={}"),
    "ftemplate-depth": _add("both", "-ftemplate-depth={}"),
    "gencode": _code,
    "include": _add("both", "-include", "{}"),
    "isystem": _add("both", "-isystem", "{}"),
    "keep-dir": _keep_value("keep"),
    "maxrregcount": _add("ptxas", "-maxrregcount={}"),
    "o": _keep_value("output"),
    "rdc": _relocatable,
    "std": _add("both", "-std={}"),
    "target-directory": _keep_value("platform"),
    **{name: _math(name) for name in PRECISE},
    **dict.fromkeys(NEEDLESS_VALUES, lambda command, value: None),
}
# `--use_fast_math=true` is allowed, a value in the next word is not.
FLAGS: dict[str, Action] = {
    "extended-lambda": _add("both", "-D__CUDACC_EXTENDED_LAMBDA__"),
    "expt-relaxed-constexpr": _add("both", "-D__CUDACC_RELAXED_CONSTEXPR__"),
    "lineinfo": _line_info,
    "no-compress": _add("fatbinary", "-compress=false"),
    "resource-usage": _add("ptxas", "-v"),
    "use_fast_math": _fast_math,
    "w": _add("both", "-w"),
    "Wno-deprecated-declarations": _add("both", "-Wno-deprecated-declarations"),
    **{name: _add("host", f"-{name}") for name in ("g", "MD", "MMD", "MP", "pthread", "v")},
    **dict.fromkeys(NEEDLESS, lambda command, value: None),
}


def parse_call(arguments: Sequence[str]) -> Command:
    """Sort the words of a call of nvcc.

    Raises:
        Refused: names the first option that clang has no equal for.
    """
    command, words = Command(), _words(arguments)
    for word in words:
        if not word.startswith("-") or word == "-":
            command.sources.append(word)
            continue
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        name = ALIASES.get(name, name)
        attached = re.fullmatch(r"-([DIULlO])(.+)|-(t)(\d+)", word, re.DOTALL)
        if name in ASKED:
            command.asked = name
        elif name in VALUED:
            VALUED[name](command, value if equals else _next(words, word))
        elif name in FLAGS:
            FLAGS[name](command, value)
        elif name in REFUSED:
            if not command.asked:
                raise Refused(f"{word}: {REFUSED[name]}")
        elif attached:
            short, value = filter(None, attached.groups())
            VALUED[short](command, value)
        elif re.match(r"-[Wfm]", word):  # as with --forward-unknown-to-host-compiler
            _for_host(command, word)
        else:
            raise Refused(f"{word}: clang has nothing that corresponds to this option of nvcc")
    return command


def _next(words: Iterator[str], option: str) -> str:
    value = next(words, None)
    if value is None:
        raise Refused(f"{option}: its value is missing")
    return value


def _words(arguments: Sequence[str]) -> Iterator[str]:
    """The words of a call, with those in options files."""
    words = iter(arguments)
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and ALIASES.get(name, name) == "options-file":
            for file in (value if equals else _next(words, word)).split(","):
                yield from _words(shlex.split(Path(file).read_text(encoding="utf-8")))
        else:
            yield word


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
        common += ["-Wno-unknown-warning-option", "-include", str(self.root / HEADER), *command.both]
        common += _host_of(command)
        # As nvcc does: CCCL names its namespaces after it, so that libraries for other GPUs do not share kernels.
        archs = sorted({int(number) * 10 for code in command.codes for number in re.findall(r"\d+", code)})
        common += [f"-D__CUDA_ARCH_LIST__={','.join(map(str, archs))}"] if archs else []
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(command.keep or temporary)
            common += _overlay(Path(command.sources[0]), folder)
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
                device = [f"--cuda-gpu-arch=sm_{base}", *isa, *command.device_options()]
                _run([*common, *device, "-S", command.sources[0], "-o", str(ptx)])
            if kind == "compute":
                images.append(f"--image3=kind=ptx,sm={arch},file={ptx}")
                continue
            cubin = ptx.with_suffix("").with_suffix(f".compute_{arch}.cubin")
            _run([self.ptxas, "-m64", *command.ptxas, f"--gpu-name=sm_{arch}", f"--output-file={cubin}", str(ptx)])
            images.append(f"--image3=kind=elf,sm={arch},file={cubin}")
        return images


def joined_launches(text: str) -> str:
    """A source with `kernel << <grid, block >> > ()` as clang reads it: nvcc allows spaces in `<<<` and `>>>`.

    Lines and columns stay, and so does what is in comments and literals. Where `>> >` ends lists of template arguments,
    `>>>` does too.
    """
    return _LAUNCH.sub(
        lambda found: (
            f"{found['bracket'] * 3}{found[0].replace(found['bracket'], '')}" if found["bracket"] else found[0]
        ),
        text,
    )


_LAUNCH = re.compile(
    r"""//.*
    | /\*[\s\S]*?\*/
    | R"(?P<end>[^\s()\\]{0,16})\([\s\S]*?\)(?P=end)"
    | "(?:\\.|[^"\\\n])*"
    | (?<![\da-fA-F])'(?:\\.|[^'\\\n])*'
    | operator\s*<<
    | (?P<bracket>[<>]) (?: (?P=bracket)\s+ | \s+(?P=bracket) ) (?P=bracket)
    """,
    re.VERBOSE,
)


def _overlay(source: Path, folder: Path) -> list[str]:
    """clang's options to read a source with joined launches in place of this one; none if it has no others."""
    try:
        text = source.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []  # clang says what is wrong
    joined = joined_launches(text)
    if joined == text:
        return []
    copy, table = folder / f"{source.stem}.joined.cu", folder / f"{source.stem}.overlay.json"
    copy.write_text(joined, encoding="utf-8", errors="surrogateescape")
    file = {"name": str(source.absolute()), "type": "file", "external-contents": str(copy.absolute())}
    table.write_text(json.dumps({"version": 0, "use-external-names": False, "roots": [file]}), encoding="utf-8")
    return ["-ivfsoverlay", str(table)]


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
    command = parse_call(arguments)
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
