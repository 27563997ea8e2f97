"""Compilers' flags about the CPU, and the features that they stand for, which the compiler itself is asked.

They are the macros that it predefines with a flag and not for the oldest CPU. A feature has the name that Linux gives
it in /proc/cpuinfo, where a Host is asked for it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ..flags.words import with_files
from ..project.build_settings import NATIVE
from ..runtime.errors import BuildError
from ..runtime.machine.files import json_sha256
from ..source_language import CUDA_SUFFIX
from .toolchain.cxx import Cxx
from .toolchain.programs import last_line, output_of

# `native`, the CPU of the machine that compiles.
NATIVE_OPTION = re.compile(r"(?:-m|--machine-)(arch|cpu|tune)=native\b")
# What compiles for every CPU of a compiler's target, also where its name is that of a script which adds a later -march.
_OLDEST = {"x86_64": ("-march=x86-64", "-mno-sse3"), "aarch64": ("-march=armv8-a",)}
# Features that a compiler uses only where a source names them, for the work of a system: Linux does not list them all,
# nor has every machine those of its CPU. And macros that are no features.
_NO_FEATURES = {
    "BTI", "BTI_DEFAULT", "CET", "CLDEMOTE", "CLFLUSHOPT", "CLWB", "CLZERO", "ENQCMD", "EVEX256", "EVEX512", "FSGSBASE",
    "HLE", "HRESET", "INVPCID", "KL", "LONG_DOUBLE_128", "LONG_DOUBLE_64", "LWP", "MEMORY_TAGGING", "MOVDIR64B",
    "MOVDIRI", "MWAITX", "PAC_DEFAULT", "PAUTH", "PCONFIG", "PKU", "PREFETCHI", "PREFETCHWT1", "PTWRITE", "RDPID",
    "SERIALIZE", "SGX", "SHSTK", "SVE_BITS", "SVE_PREDICATE_OPERATORS", "SVE_VECTOR_OPERATORS", "TSXLDTRK", "UINTR",
    "USERMSR", "WAITPKG", "WBNOINVD", "WIDEKL", "XSAVE", "XSAVEC", "XSAVEOPT", "XSAVES",
}  # fmt: skip
# The names in /proc/cpuinfo that are not the macros' own in small letters (Linux, cpufeatures.h and hwcap.h).
_X86 = {
    "SSE3": "pni", "BMI": "bmi1", "LZCNT": "abm", "PCLMUL": "pclmulqdq", "SHA": "sha_ni", "RDRND": "rdrand",
    "PRFCHW": "3dnowprefetch", "LAHF_SAHF": "lahf_lm", "CRC32": "sse4_2", "SYNC_COMPARE_AND_SWAP_16": "cx16",
    "3dNOW_A": "3dnowext", "AVX512VNNI": "avx512_vnni", "AVX512BF16": "avx512_bf16", "AVX512FP16": "avx512_fp16",
    "AVX512VBMI2": "avx512_vbmi2", "AVX512BITALG": "avx512_bitalg", "AVX512VPOPCNTDQ": "avx512_vpopcntdq",
    "AVX512VP2INTERSECT": "avx512_vp2intersect", "AVXVNNI": "avx_vnni", "AVXVNNIINT8": "avx_vnni_int8",
    "AVXVNNIINT16": "avx_vnni_int16", "AVXIFMA": "avx_ifma", "AVXNECONVERT": "avx_ne_convert",
}  # fmt: skip
_ARM = {
    "QRDMX": "asimdrdm", "DOTPROD": "asimddp", "FP16_SCALAR_ARITHMETIC": "fphp", "FP16_VECTOR_ARITHMETIC": "asimdhp",
    "FP16_FML": "asimdfhm", "CRYPTO": "aes", "JCVT": "jscvt", "COMPLEX": "fcma", "RCPC": "lrcpc",
    "BF16_SCALAR_ARITHMETIC": "bf16", "BF16_VECTOR_ARITHMETIC": "bf16", "MATMUL_INT8": "i8mm",
    "SVE_MATMUL_INT8": "svei8mm", "SVE_MATMUL_FP32": "svef32mm", "SVE_MATMUL_FP64": "svef64mm", "SVE_BF16": "svebf16",
    "SVE2_BITPERM": "svebitperm", "SVE2_AES": "sveaes", "SVE2_SHA3": "svesha3", "SVE2_SM4": "svesm4",
}  # fmt: skip
_MACRO = re.compile(
    r"^#define (?:__(?P<x86>(?:3d)?[A-Z][A-Z0-9_]*)__|__GCC_HAVE_(?P<sync>SYNC_COMPARE_AND_SWAP_16)"
    r"|__ARM_FEATURE_(?P<arm>\w+)) ",
    re.MULTILINE,
)
# A flag about the machine, by itself or in the list of one that hands it on: `-Xcompiler=-O3,-march=native`.
_MACHINE = re.compile(r"""(?:^|[\s,="'])(?:-m|--machine-)(?P<option>[a-z0-9][^\s,"']*)""")
_OTHER = re.compile(r"-[DUILo]|-(Wl|Wa),|-(isystem|iquote)")
_NOT_ABOUT_IT = ("-mllvm", "-maxrregcount")
_FORWARDS = ("-Xcompiler", "--compiler-options")  # of nvcc


@dataclass(frozen=True)
class CpuPlan:
    """What a Plan says of the CPU."""

    name: str = ""  # what -march is given, and `native` in flags stands for; empty: neither
    # the features that files are compiled for beyond the platform's baseline, and what asks for each: `cpu`, or
    # `flags`, without which nothing compiles
    features: Mapping[str, str] = field(default_factory=dict)
    native: str = ""  # a digest of what the compiler makes of `native`, if that is in use

    @property
    def options(self) -> tuple[str, ...]:
        """What the C++ compiler is told for each file."""
        return (f"-march={self.name}",) if self.name else ()

    def stands_for(self, flags: Iterable[str]) -> tuple[str, ...]:
        """Flags, in which `native` is the CPU that was named."""
        if self.name in ("", NATIVE):
            return tuple(flags)
        named = {"arch": f"-march={self.name}", "cpu": f"-march={self.name}", "tune": "-mtune=generic"}
        return tuple(NATIVE_OPTION.sub(lambda found: named[found[1]], flag) for flag in flags)


def machine_options(flags: Sequence[str], file: str = "") -> tuple[str, ...]:
    """Those of a file's flags that are about the CPU, as the C++ compiler takes them; for CUDA, of host code."""
    for_host_only = file.endswith(CUDA_SUFFIX) and not any("forward-unknown" in flag for flag in flags)
    found: list[str] = []
    for before, flag in zip(("", *flags), flags, strict=False):
        if before == "-Xclang":
            found += [before, flag]
        elif not _OTHER.match(flag) and (not for_host_only or before in _FORWARDS or flag.startswith(_FORWARDS)):
            options = (f"-m{each['option']}" for each in _MACHINE.finditer(flag))
            found += [each for each in options if not each.startswith(_NOT_ABOUT_IT)]
    return tuple(found)


def features_of(cxx: Cxx, options: Sequence[str]) -> frozenset[str]:
    """What the C++ compiler may use with these options that not every CPU of its target has.

    Without any, that is nothing, unless whoever built the compiler chose another default: Red Hat 9's is x86-64-v2.

    Raises:
        BuildError: it does not know an option.
    """
    program, environ = (str(cxx.path), *cxx.mode), tuple(sorted(cxx.environ.items()))
    every_cpu = _OLDEST.get(cxx.target.partition("-")[0], ()) if cxx.kind != "zig" else ()
    macros = _macros(program, environ, tuple(options)) - _macros(program, environ, every_cpu)
    return frozenset(filter(None, map(_name, macros)))


@cache
def _macros(
    program: tuple[str, ...], environ: tuple[tuple[str, str], ...], options: tuple[str, ...]
) -> frozenset[tuple[str, str]]:
    """Of the macros that a compiler predefines, those that may be about the CPU: its kind, and the name."""
    said = output_of(*program, *options, "-dM", "-E", "-x", "c++", os.devnull, environ=dict(environ))
    if "#define __cplusplus " not in said:
        raise BuildError(
            "the C++ compiler does not say which CPU it compiles for",
            required=f"options that {program[0]} takes: {' '.join(options)}",
            found=next((line for line in said.splitlines() if "error" in line), last_line(said)),
            remedies=["correct the flags or the option cpu: gcc(1) and clang(1) list the names of -march"],
        )
    return frozenset((str(each.lastgroup), each[each.lastindex or 0]) for each in _MACRO.finditer(said))


def _name(macro: tuple[str, str]) -> str:
    """A feature by its name in /proc/cpuinfo; empty for what is none."""
    kind, name = macro
    return "" if name in _NO_FEATURES else (_ARM if kind == "arm" else _X86).get(name, name.lower())


def meaning(cxx: Cxx, options: Iterable[tuple[str, ...]]) -> str:
    """A digest of what the compiler makes of options with `native` in them, wherever it is installed."""
    said = [cxx.answer(*each, "-###", "-E", "-x", "c++", os.devnull).split() for each in sorted({*options})]
    return json_sha256([[word for word in words if "/" not in word] for words in said])


def words(command: str, folder: Path) -> tuple[str, ...]:
    """The words of a command that is run in a folder, and of the files that it takes some from."""

    def read(name: str) -> list[str] | None:
        file = folder / name
        return shlex.split(file.read_text(encoding="utf-8", errors="replace")) if file.is_file() else None

    return tuple(with_files(shlex.split(command), read))
