"""What a call of `kernelwheel.load` describes: content, files, flags; and what it refuses. Nothing is compiled."""

from __future__ import annotations

import shlex
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import kernelwheel
import pytest
from kernelwheel.__main__ import command_line
from kernelwheel.flags.words import directives_of
from kernelwheel.jit.flags import flags_of_call
from kernelwheel.jit.inline import inline_sources
from kernelwheel.jit.namespaces import taken_namespace
from kernelwheel.jit.package import described
from kernelwheel.jit.sources import gather, read_sources
from kernelwheel.runtime.errors import SettingsError, command
from loadable import called, refusal_of, write
from torch import library
from torch.utils import cpp_extension


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, which does not exist yet."""
    monkeypatch.setenv("KERNELWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_change_of_anything_that_is_compiled_is_another_content(tmp_path: Path) -> None:
    folder = write(tmp_path)
    source, include = folder / "csrc/light.cpp", folder / "include"

    def content(**changed: Any) -> Any:
        call = called(**{"extra_include_paths": [include], **changed})
        return described(call, read_sources(call, source)).content

    first = content()
    assert content(verbose=True, only_compile=True) == first
    different = [
        content(extra_cflags="-DX=1"),
        content(extra_ldflags="-lm"),
        content(extra_include_paths=[include, write(tmp_path / "more")]),
        content(unique_namespace=True),
    ]
    (folder / "include/detail/value.h").write_text("#define ANSWER 1\n")
    different.append(content())
    assert first not in different
    assert len({str(each) for each in different}) == len(different)


def test_headers_are_found_by_where_they_are_relative_to_what_includes_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "p/csrc/a.cpp": '#include "../common/c.h"\n#include <lib/l.h>\n#include MACRO\n#include <vector>\n',
            "p/common/c.h": "#if 0\n#include <lib/never.h>\n#endif\n",
            "q/include/lib/l.h": '#include "../up.h"\n',
            "q/include/lib/never.h": "",
            "q/include/up.h": "",
            "q/include/macro.h": "",
            "q/include/unused.h": "",
            "p/common/unused.h": "",
        },
    )
    source = tmp_path / "p/csrc/a.cpp"

    call = called(extra_include_paths=tmp_path / "q/include", extra_cflags=r"-DMACRO=\"macro.h\"")
    tree = gather(read_sources(call, source), flags_of_call(call, cuda=False))

    assert sorted(tree.files) == [
        "include1/lib/l.h",
        "include1/lib/never.h",
        "include1/macro.h",
        "include1/up.h",
        "sources/common/c.h",
        "sources/csrc/a.cpp",
    ]
    assert tree.sources == ["sources/csrc/a.cpp"]
    assert tree.include_dirs == ["include1"]
    assert {"vector", "lib/l.h"} <= tree.headers


def test_flags_are_what_a_shell_would_split_and_torch_s_own_libraries_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, dict.fromkeys(("first/a.h", "second/a.h", "lib/libown.a"), ""))
    monkeypatch.chdir(tmp_path)

    archs = [
        "-gencode arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]",
        "-arch=sm_86",
    ]
    call = called(
        extra_cflags=["-g\n\n", "-O0 -Wall", "-isystem first", r"-DTEXT=\"a\ b\"", "-include /x/before.h"],
        extra_cuda_cflags=[*archs, "-arch=sm_86", "-lineinfo", "-imacros/x/macros.h"],
        extra_ldflags=[f"-L{tmp_path}/lib -lm", f"{tmp_path}/lib/libown.a", "-ltorch", "-Wl,-rpath,/x"],
        extra_include_paths=["  second\n"],
    )

    flags = flags_of_call(call, cuda=True)

    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    assert flags.cxx == ["-g", "-O0", "-Wall", "-isystem", first, '-DTEXT="a b"', "-include", "/x/before.h"]
    assert flags.cuda == ["-lineinfo", "-imacros/x/macros.h"]
    assert flags.archs == "8.0;8.6+PTX;9.0a+PTX"
    assert b'#define TEXT "a b"\n#include "/x/before.h"\n#include "/x/macros.h"' in directives_of(
        [*flags.cxx, *flags.cuda]
    )
    assert flags.link == [f"-L{tmp_path}/lib", "-lm", "../src/linked/0/libown.a", "-Wl,-rpath,/x"]
    assert flags.libraries == ["m"]
    assert flags.linked == [f"{tmp_path}/lib/libown.a"]
    assert (flags.include_dirs, flags.folders) == ([second], [second, first])


@pytest.mark.parametrize(
    ("given", "expected", "libraries"),
    [
        ("-Wl,--whole-archive {d}/liba.a -Wl,--no-whole-archive -lm",
         "-Wl,--whole-archive {0}/liba.a -Wl,--no-whole-archive -lm", ["m"]),
        ("-Wl,--whole-archive,{d}/liba.a,--no-whole-archive", "-Wl,--whole-archive,{0}/liba.a,--no-whole-archive", []),
        ("-Wl,--start-group {d}/liba.a {d}/b.o {d}/liba.a -Wl,--end-group",
         "-Wl,--start-group {0}/liba.a {1}/b.o {0}/liba.a -Wl,--end-group", []),
        ("-Xlinker {d}/liba.a -Xlinker --as-needed", "-Xlinker {0}/liba.a -Xlinker --as-needed", []),
        ("-L{d} -la -lb", "-L{d} {0}/liba.a -lb", ["b"]),
        ("-lboth -L {d} -Wl,-Bstatic -lboth -Wl,-Bdynamic -lboth",
         "-lboth -L{d} -Wl,-Bstatic {0}/libboth.a -Wl,-Bdynamic -lboth", ["both"]),
        ("-Wl,-L,{d} -l:b.o", "-Wl,-L{d} {0}/b.o", []),
        ("{d}/libboth.so -O2", "-L{d} -l:libboth.so -O2", [":libboth.so"]),
        ("-Xlinker {d}/libboth.so", "-Xlinker -L{d} -Xlinker -l:libboth.so", [":libboth.so"]),
        ("-Wl,--version-script={d}/v.map -Wl,--dynamic-list,{d}/v.map",
         "-Wl,--version-script={0}/v.map -Wl,--dynamic-list={0}/v.map", []),
        ("-Xlinker -rpath-link -Xlinker {d}/b.o -Wl,-Map,{d}/b.o",
         "-Xlinker -rpath-link -Xlinker {d}/b.o -Wl,-Map,{d}/b.o", []),
        ("-z now -u v.map -Wl,-rpath,{d} -Wl,-Map={d}/v.map -pthread",
         "-z now -u v.map -Wl,-rpath,{d} -Wl,-Map={d}/v.map -pthread", []),
        ("-ltorch -lc10 -Wl,--no-as-needed -lx -lx", "-Wl,--no-as-needed -lx -lx", ["x"]),
        ("@{d}/options -s", "-Wl,-z,now {0}/liba.a -s", []),
    ],
)  # fmt: skip
def test_what_is_linked_stays_in_its_place(tmp_path: Path, given: str, expected: str, libraries: list[str]) -> None:
    write(tmp_path, dict.fromkeys(("liba.a", "b.o", "libboth.so", "libboth.a", "v.map"), ""))
    write(tmp_path, {"options": f"-Wl,-z,now\n{tmp_path}/liba.a"})

    flags = flags_of_call(called(extra_ldflags=given.format(d=tmp_path)), cuda=False)

    places = [f"../src/linked/{number}" for number in range(2)]
    assert flags.link == expected.format(*places, d=tmp_path).split()
    assert flags.libraries == libraries


def test_options_in_a_file_count_by_what_they_say(tmp_path: Path) -> None:
    write(tmp_path, {"one": f"-DA @{tmp_path}/two", "two": f"-DB @{tmp_path}/one", "include/x.h": ""})

    flags = flags_of_call(
        called(extra_cflags=f"@{tmp_path}/one -I{tmp_path}/include @none", extra_cuda_cflags=f"-optf {tmp_path}/two"),
        cuda=True,
    )

    assert flags.cxx == ["-DA", "-DB", f"@{tmp_path}/one", f"-I{tmp_path}/include", "@none"]
    assert flags.cuda == ["-DB", "-DA", f"@{tmp_path}/two"]


@pytest.mark.parametrize("asked", ["-rdc=true", ["-dc"]])
def test_device_code_is_linked_by_a_flag(tmp_path: Path, asked: str | list[str]) -> None:
    source = write(tmp_path, {"a.cu": "int a;\n"}) / "a.cu"

    def extension(**given: Any) -> dict[str, Any]:
        call = called(**given)
        return described(call, read_sources(call, source)).extension

    made, flags = extension(extra_cuda_cflags=asked), flags_of_call(called(extra_cuda_cflags=asked), cuda=False)

    assert (made["device_link"], made["cuda_flags"], flags.device_link) == (True, [], False)
    assert not extension()["device_link"]
    assert not extension(extra_cuda_cflags="-rdc=false")["device_link"]


@pytest.mark.parametrize("of_nvcc", ["-I{d}", "-Xcompiler -I{d}", "-isystem {d}", ""])
def test_folders_in_flags_are_those_of_one_compiler_or_of_both(tmp_path: Path, of_nvcc: str) -> None:
    write(tmp_path, {"a.h": ""})
    call = called(extra_cflags=f"-O2 -I{tmp_path}", extra_cuda_cflags=of_nvcc.format(d=tmp_path))

    flags = flags_of_call(call, cuda=True)

    both = of_nvcc == "-I{d}"
    assert flags.include_dirs == ([str(tmp_path)] if both else [])
    assert flags.cxx == (["-O2"] if both else ["-O2", f"-I{tmp_path}"])
    assert flags.cuda == ([] if both else of_nvcc.format(d=tmp_path).split())
    assert flags.folders == [str(tmp_path)]


LIBRARY = b"\0taken\0another\0answer() -> int\0inferred\0plain\0"


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("TORCH_LIBRARY(taken, m) {}", "taken"),
        ("STABLE_TORCH_LIBRARY ( taken , m) {}", "taken"),
        ("TORCH_LIBRARY(TORCH_EXTENSION_NAME, m) {}", "taken"),
        ("#define OWN taken\nTORCH_LIBRARY(OWN, m) {}", "taken"),
        ("TORCH_LIBRARY(FROM_FLAGS, m) {}", "taken"),
        ("#define REGISTER(x, ns) \\\n  TORCH_LIBRARY(ns, m)\nREGISTER(1, taken) {}", "taken"),
        ("#define A(n, m) TORCH_LIBRARY(n, m)\n#define B(n) A(n, m)\nB(taken) {}", "taken"),
        ("TORCH_LIBRARY_FRAGMENT(taken, m) {}", "taken"),
        ("TORCH_LIBRARY_FRAGMENT(inferred, m) {}", "inferred"),
        ("#define REGISTER(n, m) TORCH_LIBRARY(n, m)\nREGISTER(JOIN(TORCH_EXTENSION_NAME, s), m) {}", "taken"),
        ("TORCH_LIBRARY(JOIN(TORCH_EXTENSION_NAME, (s)), m) {}", "taken"),
        ("TORCH_LIBRARY_FRAGMENT(other, m) {}", None),
        ("TORCH_LIBRARY(another, m) {}", None),
        ("// TORCH_LIBRARY(taken, m)\n/* TORCH_LIBRARY(taken, m) */", None),
        ("TORCH_LIBRARY_IMPL(taken, CPU, m) {}", None),
        ("#ifdef NEVER\nTORCH_LIBRARY(aten, m) {}\n#endif", None),
        ("int f();", None),
    ],
)
def test_a_namespace_that_the_process_has_is_known_from_sources_and_library(text: str, taken: str | None) -> None:
    registered = library.Library("taken", "DEF")
    registered.define("answer() -> int")
    inferred = library.Library("inferred", "FRAGMENT")
    inferred.define("plain() -> int")
    try:
        found = taken_namespace([b"", text.encode()], ["-O2", "-DFROM_FLAGS=taken"], "taken", LIBRARY)
    finally:
        registered._destroy()
        inferred._destroy()

    assert found == taken


def test_architectures_that_no_list_can_say_are_an_error() -> None:
    for flags in ("-arch=native", "-arch compute_80 -code sm_86", "-gencode arch=compute_80,code=lto_80"):
        with pytest.raises(SettingsError, match="name them in TORCH_CUDA_ARCH_LIST"):
            flags_of_call(called(extra_cuda_cflags=flags), cuda=True)


def test_folders_of_headers_that_do_not_exist_are_left_out_as_compilers_do(tmp_path: Path) -> None:
    assert flags_of_call(called(extra_include_paths=["/nowhere", tmp_path]), cuda=False).folders == [str(tmp_path)]


@pytest.mark.both
@pytest.mark.parametrize("name", ["load", "load_inline"])
def test_the_parameters_are_torch_s_in_its_order_and_with_its_defaults(name: str) -> None:
    def of(module: Any) -> list[tuple[str, object]]:
        every = signature(getattr(module, name)).parameters.values()
        return [(each.name, each.default) for each in every if each.kind is Parameter.POSITIONAL_OR_KEYWORD]

    ours, torch_s = of(kernelwheel), of(cpp_extension)

    assert ours[: len(torch_s)] == torch_s
    assert {name for name, _ in ours[len(torch_s) :]} <= {"gil_not_used"}  # since torch 2.15


def test_a_module_that_does_without_the_gil_is_bound_as_one() -> None:
    def main(*, gil_not_used: bool) -> bytes:
        (text,) = inline_sources(
            called(), "", None, "f", with_headers=False, with_error_handling=True, gil_not_used=gil_not_used
        ).values()
        return text

    assert b"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m, pybind11::mod_gil_not_used()) {" in main(gil_not_used=True)
    assert b"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {" in main(gil_not_used=False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"extra_cflags": ["-I/nowhere"]}, "no folder '/nowhere'"),
        ({"extra_ldflags": ["-L/nowhere"]}, "no folder '/nowhere'"),
        ({"extra_ldflags": ["/nowhere/liba.so"]}, "no file /nowhere/liba.so"),
        ({"extra_cflags": ['-DA="']}, "No closing quotation"),
        ({"with_sycl": True}, "SYCL"),
        ({"is_standalone": True, "is_python_module": False}, "build it with CMake"),
        ({"abi": "unstable"}, "torch or stable"),
        ({"extra_include_paths": [5]}, "extra_include_paths"),
        ({"extra_include_paths": 5}, "a list of paths"),
        ({"extra_include_paths": b"/"}, "a list of paths"),
        ({"extra_include_paths": "a\0b"}, "embedded null"),
        ({"build_directory": 5}, "build_directory"),
        ({"extra_cflags": 5}, "a string, or a list of strings"),
        ({"extra_cflags": ["-O2", None]}, "a string, or a list of strings"),
        ({"extra_cflags": ["-I"]}, "no folder ''"),
    ],
)
def test_bad_arguments_are_one_error_before_anything_is_made(
    cache: Path, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    source = write(tmp_path) / "csrc/light.cpp"

    assert says in refusal_of("light", source, **options)
    assert not cache.exists()


def test_remedies_name_commands_that_there_are() -> None:
    for arguments in ("cache prune", "cache verify", "cache list"):
        words = shlex.split(command("kernelwheel.light", arguments))
        assert words[:3] == ["python", "-m", "kernelwheel"]
        assert command_line().parse_args(words[3:]).package == "kernelwheel.light"


def test_bad_names_and_sources_are_one_error_before_anything_is_made(cache: Path, tmp_path: Path) -> None:
    source = write(tmp_path) / "csrc/light.cpp"

    for name in ("", "two words", "a-b", "a.b", "../x", "é", "n" * 80):
        assert "an identifier" in refusal_of(name, source)
    assert f"no file {tmp_path}/missing.cpp" in refusal_of("light", tmp_path / "missing.cpp")
    assert "an empty list" in refusal_of("light")
    assert "files called .cpp" in refusal_of("light", source.parents[1] / "include/answer.h")
    with pytest.raises(SettingsError, match="names of C\\+\\+ functions"):
        kernelwheel.load_inline("light", "", functions=["not a name"])
    assert "a list of paths" in refusal_of("light", 5)
    for sources in (5, [5], {"a": ""}):
        with pytest.raises(SettingsError, match="a list of strings"):
            kernelwheel.load_inline("light", sources)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="a string or None"):
        kernelwheel.load_inline("light", "", functions={"f": 5})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="not 5"):
        kernelwheel.load_inline("light", "", functions=5)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="with_cuda"):
        kernelwheel.load_inline("light", "", "__global__ void f() {}", with_cuda=False)
    assert not cache.exists()
