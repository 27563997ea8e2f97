"""clang behind nvcc's command line: what options become, or why they are refused; what compiled code has of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from builds import TORCH, device_code
from kernelwheel.compiler.nvcc_on_clang.nvcc_options import (
    ALIASES,
    FLAGS,
    NEEDLESS,
    NEEDLESS_VALUES,
    REFUSED,
    VALUED,
    Command,
    Refused,
    parse_call,
)
from kernelwheel.compiler.nvcc_on_clang.passes import DEVICE
from kernelwheel.compiler.toolchain.clang_toolkit import PARTS, clang_toolkit, clangs_on_path
from programs import MACHINE
from standins import inspect_beside, make_program

# Values that are not refused, where `true` is.
VALUES = {
    "Xcicc": "--orig_src_path_name=a.cu",
    "compress-mode": "none",
    "default-stream": "per-thread",
    "gencode": "arch=compute_90,code=[sm_90,compute_90]",
    "rdc": "false",
}
# What setup.py files of the field give nvcc.
COMMON = """
-O3; --use_fast_math; -lineinfo; -Xptxas=-v; -Xptxas -O3,-dlcm=ca; -Xptxas=-warn-spills -Xptxas=-warn-lmem-usage;
-std=c++17; -U__CUDA_NO_HALF_OPERATORS__ -U__CUDA_NO_HALF_CONVERSIONS__ -U__CUDA_NO_HALF2_OPERATORS__;
-U__CUDA_NO_BFLOAT16_CONVERSIONS__; --expt-extended-lambda; --expt-relaxed-constexpr; -Xcompiler -fPIC;
-Xcompiler -fno-gnu-unique; -Xcompiler=-fPIC,-Wall,-Wno-maybe-uninitialized; --compiler-options "'-fPIC'";
-allow-unsupported-compiler; --diag-suppress 20012,20013; -Xcudafe="--diag_suppress=177"; -t4; -split-compile=0;
-static-global-template-stub=false; -Wno-deprecated-declarations; -Wall; -Werror all-warnings;
-Werror=cross-execution-space-call; -w; -g; -DNDEBUG; -DVERSION="1.2"; -I third_party/glm -Ithird_party/glm;
--default-stream per-thread; --keep; --resource-usage; --maxrregcount 128; --fmad=false;
-ftz=true -prec-div=false -prec-sqrt=false; -ftemplate-backtrace-limit=0 -ftemplate-depth=512; -rdc=false;
-lcublas -L /usr/lib; -m64
"""
SOURCE = """#include <cstdio>
#if __CUDACC_VER_MAJOR__ != 12 || !defined(__CUDACC_VER_MINOR__) || !defined(__CUDACC_VER_BUILD__)
#error release
#endif
__global__ void divide(float* to, const float* from) { to[threadIdx.x] = from[0] / from[1] + sinf(from[2]); }
__host__ __device__ float bound(float x) { assert(x != 1); return max(min(x, 1.f), 0.f) + max(0, 1u); }
__global__ void multiply(float* to, float a, float b, float c) { *to = a * b + c; }
__global__ void many(float* to, const float* from) {
  float kept[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) kept[i] = from[i * 64 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 48; ++i) to[i * 64] = kept[i] * from[i];
}
void run(float* to) {
  divide<<<1, 32>>>(to, to);
  many<<<1, 32>>>(to, to);
  std::printf("%s\\n", __FILE__);
}
"""


def spellings(name: str) -> list[str]:
    """An option's names, with one dash and with two."""
    names = [name, *(long for long, short in ALIASES.items() if short == name)]
    return [dashes + each for each in names for dashes in ("-", "--")]


@pytest.mark.parametrize("name", sorted(VALUED))
def test_a_value_follows_the_sign_or_is_the_next_word(name: str) -> None:
    value = VALUES.get(name, "true")
    expected = parse_call([f"-{name}={value}", "a.cu"])

    for option in spellings(name):
        assert parse_call([f"{option}={value}", "a.cu"]) == expected, option
        assert parse_call([option, value, "a.cu"]) == expected, option
    assert expected.sources == ["a.cu"]
    assert (expected == Command(["a.cu"])) == (
        name in NEEDLESS_VALUES or name in ("Xcicc", "fmad", "prec-div", "prec-sqrt", "rdc")
    )


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_a_flag_takes_no_word(name: str) -> None:
    expected = parse_call([f"-{name}", "a.cu"])

    assert all(parse_call([option, "a.cu"]) == expected for option in spellings(name))
    assert expected.sources == ["a.cu"]
    assert (expected == Command(["a.cu"])) == (name in NEEDLESS)


@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [
        ("-O2", "host", ["-O2"]),
        ("-DA=1 -D B -UC -Iinclude --include-path other", "both", ["-DA=1", "-DB", "-UC", "-Iinclude", "-Iother"]),
        ("-Xcompiler=-fPIC,-DA,-std=c++20,-Wno-psabi", "both", ["-DA", "-std=c++20", "-Wno-psabi"]),
        ("-Xcompiler=-fPIC,-DA,-O1 -mavx2", "host", ["-fPIC", "-O1", "-mavx2"]),
        ("-Xcompiler -include,a.h,-isystem,headers", "both", ["-include", "a.h", "-isystem", "headers"]),
        (r"-Xcompiler=-DA=1\,2", "both", ["-DA=1,2"]),
        ("-Xcompiler -fno-gnu-unique", "host", []),
        ("-MD -MT a.o -MF a.o.d -MP", "host", ["-MD", "-MT", "a.o", "-MF", "a.o.d", "-MP"]),
        ("-Xptxas -v,-O2 --maxrregcount 32 --resource-usage", "ptxas", ["-v", "-O2", "-maxrregcount=32", "-v"]),
        ("-lineinfo", "device", ["-gline-tables-only"]),
        ("--default-stream per-thread", "both", ["-Xclang", "-fgpu-default-stream=per-thread"]),
        ("--frandom-seed=12ab", "both", ["-cuid=12ab"]),
        ("-Xfatbin=-compress-all", "fatbinary", ["-compress-all"]),
        ("--compress-mode=none", "fatbinary", ["-compress=false"]),
        ("-gencode arch=compute_90,code=[sm_90,compute_90] --generate-code=arch=compute_100a,code=sm_100a", "codes",
         ["sm_90", "compute_90", "sm_100a"]),
        ("-ccbin /usr/bin/g++-12", "host_compiler", "/usr/bin/g++-12"),
        ("-o a.o --keep-dir=kept", "output", "a.o"),
        ("--dryrun -E -x cu /dev/null", "asked", "dryrun"),
    ],
)  # fmt: skip
def test_what_an_option_becomes(words: str, kind: str, expected: object) -> None:
    assert getattr(parse_call(words.replace("'", "").split()), kind) == expected


PRECISE = ["-ffp-contract=fast", "-nvptx-prec-divf32=2", "-nvptx-prec-sqrtf32=1", "-DNVCC_PREC_SQRT=1"]
FLUSH, APPROXIMATE = "-fgpu-flush-denormals-to-zero", "-fgpu-approx-transcendentals"
FAST = ["-ffp-contract=fast", FLUSH, APPROXIMATE, "-nvptx-prec-divf32=0", "-nvptx-prec-sqrtf32=0", "-DNVCC_PREC_SQRT=0"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", PRECISE),
        ("-use_fast_math", FAST),
        ("--use_fast_math=false", PRECISE),
        ("--use_fast_math --ftz=false --fmad=false", ["-ffp-contract=off", APPROXIMATE, *FAST[3:]]),
        ("--use_fast_math --prec-div=true", [*FAST[:3], PRECISE[1], *FAST[4:]]),
        ("--prec-div false -prec-sqrt=false", [PRECISE[0], "-nvptx-prec-divf32=1", *FAST[4:]]),
        ("--ftz=true", [PRECISE[0], FLUSH, *PRECISE[1:]]),
    ],
)
def test_the_last_word_on_arithmetic_counts(words: str, expected: list[str]) -> None:
    options = parse_call(words.split()).device_options()

    assert [option for option in options if option not in (*DEVICE, "-mllvm")] == expected


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_clang_cannot_do_is_refused_by_the_name_that_was_given(name: str) -> None:
    for option in spellings(name):
        with pytest.raises(Refused, match=f"^{re.escape(option)}: {re.escape(REFUSED[name])}$"):
            parse_call([option, "a.cu"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-rdc=true", "-rdc=true: device code is linked by nvcc alone"),
        ("--device-debug", "--device-debug: device code is always optimised"),
        ("-arch=sm_90", "-arch=sm_90: architectures are named by -gencode"),
        ("-gencode=arch=compute_90", "-gencode=arch=compute_90: expected"),
        ("-Xcompiler=-O3,-fopenmp", "-fopenmp: clang would need an OpenMP library"),
        ("-Xcicc=-v", "-Xcicc=-v: clang is in the place of cicc"),
        ("--fmad=maybe", "fmad=maybe: expected true or false"),
        ("--sanitize=memcheck", "--sanitize=memcheck: this option of nvcc has no equal here"),
        ("-unknown", "-unknown: this option"),
        ("-o", "-o: its value is missing"),
    ],
)
def test_an_option_without_an_equal_is_refused(words: str, said: str) -> None:
    with pytest.raises(Refused, match=f"^{re.escape(said)}"):
        parse_call([*words.split()])


def test_options_files_are_read_and_may_name_others(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("-DONE\n-O2 -Xcompiler '-DA=\"b c\"'")
    (tmp_path / "two").write_text(f"-DTWO --options-file {tmp_path / 'one'} -DTHREE")

    command = parse_call(
        ["-optf", str(tmp_path / "two"), "a.cu", f"--options-file={tmp_path / 'one'},{tmp_path / 'one'}"]
    )

    one = ["-DONE", '-DA="b c"']
    assert command.both == ["-DTWO", *one, "-DTHREE", *one, *one]
    assert command.host == ["-O2"] * 3
    assert command.sources == ["a.cu"]


def test_options_of_the_host_compiler_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "paths.rsp").write_text("-ffile-prefix-map=/a\\ b=. -fno-plt\n")

    command = parse_call([f"-Xcompiler=@{tmp_path / 'paths.rsp'}"])

    assert (command.both, command.host) == (["-ffile-prefix-map=/a b=."], ["-fno-plt"])


@pytest.mark.parametrize("option", COMMON.split(";"))
def test_common_options_are_taken(option: str) -> None:
    assert parse_call([*option.replace("'", "").split(), "a.cu"]).sources == ["a.cu"]


def make_parts(site: Path, *files: str) -> Path:
    """A folder where pip has installed these files of packages of NVIDIA's."""
    for file in files:
        (site / "nvidia" / file).parent.mkdir(parents=True, exist_ok=True)
        (site / "nvidia" / file).touch()
    return site


def test_a_runtime_without_a_static_library_is_linked_dynamically(tmp_path: Path) -> None:
    """That of a torch for CUDA 12.8, which pins it."""
    site = make_parts(tmp_path, *PARTS.values(), "cu13/bin/fatbinary", "cuda_runtime/lib/libcudart.so.12")

    toolkit = clang_toolkit(str(make_program(tmp_path / "clang++", "")), "19.1.7", [site], {})

    assert isinstance(toolkit, Path), toolkit
    libraries = toolkit / "lib64"
    assert (libraries / "libcudart.so.12").resolve() == site / "nvidia/cuda_runtime/lib/libcudart.so.12"
    assert (libraries / "libcudart_static.a").read_text() == "INPUT(libcudart.so.12)\n"


def test_a_folder_with_all_parts_goes_before_the_first_that_has_some(tmp_path: Path) -> None:
    with_torch = make_parts(tmp_path / "torch", "cuda_nvcc/bin/ptxas", "cu13/bin/fatbinary")
    whole = make_parts(tmp_path / "whole", *PARTS.values())
    clang = make_program(tmp_path / "clang++", "")

    toolkit = clang_toolkit(str(clang), "19.1.7", [with_torch, whole], {})

    assert isinstance(toolkit, Path), toolkit
    assert (toolkit / "bin/ptxas").resolve() == whole / "nvidia/cuda_nvcc/bin/ptxas"
    assert (toolkit / "bin/fatbinary").resolve() == with_torch / "nvidia/cu13/bin/fatbinary"


@pytest.fixture(scope="session")
def nvcc() -> Path:
    """A clang of this machine with the parts for CUDA 12, which ci/test brings, in nvcc's place."""
    environ = {**os.environ, "PATH": MACHINE}
    named = filter(None, [os.environ.get("CUDACXX")])
    brought = os.environ.get("SPLAT_TEST_CUDA12", "")
    sites = [TORCH.root.parent, *(Path(folder) for folder in (brought, *sys.path) if folder)]
    said = []
    for place in (*named, *clangs_on_path(environ)):
        candidate = inspect_beside("12.8", place, environ, sites)
        if candidate.nvcc and candidate.nvcc.clang:
            return candidate.nvcc.path
        said.append(f"{place}: {candidate.outcome}")
    pytest.skip("; ".join(said) or "no clang on PATH, and none in CUDACXX; apt-get install clang-19")


def compiled(nvcc: Path, folder: Path, *options: str, source: str = SOURCE) -> Path:
    """The object of a source, compiled as the backend has it compiled."""
    folder.mkdir(exist_ok=True)
    (folder / "source.cu").write_text(source)
    (folder / "paths.rsp").write_text(f"-ffile-prefix-map={folder}=.\n".replace(" ", "\\ "))
    alike = ("-Xcompiler=@paths.rsp", "--frandom-seed=0123", "--keep", "--keep-dir=kept", "-Xfatbin=-compress-all")
    (folder / "kept").mkdir(exist_ok=True)
    target = "-gencode=arch=compute_90,code=[sm_90,compute_90]"
    words: list[str | Path] = [nvcc, "-forward-unknown-to-host-compiler", target, *alike, *options]
    words += ["-MD", "-MT", "source.o"]
    words += ["-MF", "source.o.d", "-x", "cu", "-c", folder / "source.cu", "-o", "source.o"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "source.o"


def ptx_of(library: Path, kernel: str) -> str:
    """One kernel's PTX."""
    (text,) = re.findall(rf"\.entry _Z\d+{kernel}P(?:(?!\.entry).)*", device_code(library, "--dump-ptx"), re.DOTALL)
    return str(text)


def registers(library: Path, kernel: str) -> int:
    """How many registers a kernel takes."""
    found = re.search(rf"Function _Z\d+{kernel}P\w+:\s+REG:(\d+)", device_code(library, "--dump-resource-usage"))
    assert found
    return int(found[1])


@pytest.mark.slow
def test_arithmetic_is_precise_unless_it_is_asked_to_be_fast_as_by_all_common_options_at_once(
    nvcc: Path, tmp_path: Path
) -> None:
    lambdas = """
#if !defined(__CUDACC_EXTENDED_LAMBDA__) || !defined(__CUDACC_RELAXED_CONSTEXPR__)
#error lambdas
#endif
template <class F> __global__ void each(F f) { f(threadIdx.x); }
constexpr int twice(int n) { return 2 * n; }
void lambda(int* to) { each<<<1, 32>>>([=] __device__(int i) { to[i] = twice(i); }); }
"""
    words = re.sub("[;'\"]", "", COMMON).split()

    precise = compiled(nvcc, tmp_path / "precise", "--use_fast_math=false")
    fast = compiled(nvcc, tmp_path / "all", *words, source=SOURCE + lambdas)

    assert "div.rn.f32" in ptx_of(precise, "divide")
    assert "fma.rn.f32" in ptx_of(precise, "multiply")
    assert ".approx" not in ptx_of(precise, "divide")
    # COMMON has --use_fast_math, and --fmad=false after it, which counts.
    assert {"div.approx.ftz.f32", "sin.approx.ftz.f32"} <= {*re.findall(r"[\w.]+", ptx_of(fast, "divide"))}
    assert "FFMA" not in device_code(fast, "--dump-sass", "--function", "_Z8multiplyPffff")
    assert "FFMA" in device_code(precise, "--dump-sass", "--function", "_Z8multiplyPffff")
    assert b"cudaLaunchKernel_ptsz" in fast.read_bytes()
    assert b"cudaLaunchKernel_ptsz" not in precise.read_bytes()
    assert registers(fast, "many") <= 128


@pytest.mark.minutes
@pytest.mark.slow
@pytest.mark.parametrize("root", ["std::sqrt(x[0])", "1.f / sqrtf(x[0])"])
def test_a_root_is_ieee_s_unless_an_approximation_is_asked_for(nvcc: Path, tmp_path: Path, root: str) -> None:
    """That of libdevice is approximate, unless nvcc says otherwise."""
    source = f"#include <cmath>\n__global__ void root(float* x) {{ x[1] = {root}; }}\n"

    precise = ptx_of(compiled(nvcc, tmp_path / "precise", source=source), "root")
    other = ptx_of(compiled(nvcc, tmp_path / "other", "--prec-sqrt=false", source=source), "root")

    assert "sqrt.rn.f32" in precise
    assert "approx" not in precise
    assert "sqrt.approx" in other


@pytest.mark.minutes
@pytest.mark.slow
def test_registers_are_bounded_and_lines_are_kept_on_request(nvcc: Path, tmp_path: Path) -> None:
    plain = compiled(nvcc, tmp_path / "plain")
    bounded = compiled(nvcc, tmp_path / "bounded", "-maxrregcount=32", "-lineinfo")

    assert registers(plain, "many") > 32 >= registers(bounded, "many")
    assert ".loc" not in ptx_of(plain, "many")
    assert ".loc" in ptx_of(bounded, "many")
    for library, kept in ((plain, False), (bounded, True)):
        cubin = library.with_name("kept") / "source.compute_90.cubin"
        assert (b".debug_line" in cubin.read_bytes()) == kept
