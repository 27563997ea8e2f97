"""The options of nvcc, sorted by who does what they ask for: clang for the device or the host, ptxas, fatbinary.

An option that clang has no equal for is refused by name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# nvcc's long names of options that setup.py files use, which its manual gives beside the short ones.
ALIASES = {
    "compiler-bindir": "ccbin", "compiler-options": "Xcompiler", "debug": "g", "define-macro": "D",
    "device-c": "dc", "device-debug": "G", "device-link": "dlink", "disable-warnings": "w",
    "expt-extended-lambda": "extended-lambda", "generate-code": "gencode", "generate-line-info": "lineinfo",
    "gpu-architecture": "arch", "gpu-code": "code", "include-path": "I", "optf": "options-file", "optimize": "O",
    "output-file": "o", "pre-include": "include", "ptxas-options": "Xptxas", "relocatable-device-code": "rdc",
    "res-usage": "resource-usage", "system-include": "isystem", "undefine-macro": "U", "V": "version",
}  # fmt: skip
ASKED = ("version", "help", "dryrun", "list-gpu-arch", "list-gpu-code")
# Options that have no effect here: what clang does in any case, hints, what steers programs that it does not have, and
# nvcc's own warnings. Those in the second list take a value.
NEEDLESS = {
    "allow-unsupported-compiler", "c", "extra-device-vectorization", "forward-unknown-to-host-compiler", "keep", "m64",
    "restrict", "save-temps", "source-in-ptx", "Wno-deprecated-gpu-targets",
}  # fmt: skip
NEEDLESS_VALUES = {
    "cudadevrt", "cudart", "diag-error", "diag-suppress", "diag-warn", "l", "L", "split-compile",
    "static-global-template-stub", "t", "threads", "Werror", "x", "Xcudafe",
}  # fmt: skip
LINKED = "device code is linked by nvcc alone; put kernels and the device functions that they call in one file"
OTHER_ARCHS = "architectures are named by -gencode=arch=compute_90,code=sm_90"
REFUSED = {
    "G": "device code is always optimised; -lineinfo gives its line numbers",
    "arch": OTHER_ARCHS,
    "code": OTHER_ARCHS,
    **dict.fromkeys(("dc", "dlink", "dlto", "lto"), LINKED),
    **dict.fromkeys(("E", "M", "MM", "cubin", "fatbin", "lib", "ptx"), "nothing but objects is made"),
}
# The values that nvcc's manual gives for these by default, and those that --use_fast_math implies.
PRECISE = {"ftz": False, "prec-div": True, "prec-sqrt": True, "fmad": True}
FAST = {"ftz": True, "prec-div": False, "prec-sqrt": False, "fmad": True}
OF_GCC = ("-fno-canonical-system-headers", "-fno-gnu-unique")  # clang knows neither, and does what they ask for
# Of the host compiler's options, those that device code has to be compiled with too: nvcc has the host compiler
# preprocess either, and takes -std, -w and the template limits itself.
OF_BOTH = re.compile(r"-[DUI]|-i(system|quote|dirafter)|-std=|-w$|-Wno-|-ftemplate-|-f(file|debug|macro)-prefix-map=")
PAIRED = ("-D", "-U", "-I", "-isystem", "-iquote", "-idirafter", "-include")


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
    keep: str = ""
    asked: str = ""

    def device_options(self) -> list[str]:
        """How clang makes PTX."""
        # Division: 2 is IEEE's, 1 is what nvcc makes of --prec-div=false, 0 what it makes of --use_fast_math.
        division = 2 if self.math["prec-div"] else 0 if self.fast else 1
        return [
            f"-ffp-contract={'fast' if self.math['fmad'] else 'off'}",
            *(["-fgpu-flush-denormals-to-zero"] if self.math["ftz"] else []),
            *(["-fgpu-approx-transcendentals"] if self.fast else []),
            *("-mllvm", f"-nvptx-prec-divf32={division}"),
            *("-mllvm", f"-nvptx-prec-sqrtf32={int(self.math['prec-sqrt'])}"),
            f"-DNVCC_PREC_SQRT={int(self.math['prec-sqrt'])}",  # for a header of ours, nvcc_on_clang.h
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
            raise Refused(f"{word}: this option of nvcc has no equal here")
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
