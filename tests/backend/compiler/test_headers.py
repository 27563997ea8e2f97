"""The headers that sources reach: which are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwheel.compiler.headers import headers_of
from kernelwheel.compiler.toolchain.toolchain import Toolchain
from standins import Machine, make_machine, settings_with


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path)


def reached(machine: Machine, text: str, **options: str) -> dict[str, set[str]]:
    """The names of the headers that a source with this text reaches, by origin."""
    (machine.sources / "twice.cpp").write_text(text)
    found = headers_of(machine.draw(**options), toolchain(machine, **options), machine.sources)
    return {origin: set(named) for origin, named in found.digests.items()}


def toolchain(machine: Machine, **options: str) -> Toolchain:
    return machine.toolchain(settings_with({"CUDA_HOME": str(machine.toolkit), "CXX": str(machine.cxx)}, **options))


def write(folder: Path, name: str, text: str = "") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "line",
    [
        '#include "torch/a.h"', " # \t include<torch/a.h>", "#include_next <torch/a.h>",
        "#if defined X || __has_include( <torch/a.h> )", "#define HEADER <torch/a.h>\n#include HEADER",
        "/**/ #include <torch/a.h>", "/* x\n*/ # /* y */ include/**/<torch/a.h>", "#include /*\n*/ <torch/a.h>",
        "%:include <torch/a.h>", "#inc\\\nlude <torch/a.h>", "#define HEADER \\\r\n  <torch/a.h>",
        "#if __has_include(/**/<torch/a.h>)", '#embed "torch/a.h"', 'asm(".incbin \\"torch/a.h\\"");',
        'asm(R"(.include "torch/a.h")");',
    ],
)  # fmt: skip
def test_a_header_is_found_however_it_is_named(machine: Machine, line: str) -> None:
    write(machine.torch, "include/torch/a.h")

    assert reached(machine, f"{line}\n") == {"torch": {"torch/a.h"}}


@pytest.mark.parametrize("line", ["// a.h", "#error <torch/a.h>", "#include <torch/b.h>", 'auto a = "torch/a.h";'])
def test_a_header_that_no_line_includes_is_not_found(machine: Machine, line: str) -> None:
    write(machine.torch, "include/torch/a.h")

    assert reached(machine, f"{line}\n") == {}


def test_headers_are_followed_into_the_headers_that_they_include(machine: Machine) -> None:
    write(machine.torch, "include/torch/a.h", "#include <torch/b.h>\n")
    write(machine.torch, "include/torch/b.h", '#include "c.h"\n#include <a.h>\n#include <torch/a.h>\n')
    write(machine.torch, "include/torch/c.h", '#include "../c10/d.h"\n')
    write(machine.torch, "include/c10/d.h", "#include <vector>\n")

    assert reached(machine, "#include <torch/a.h>\n") == {
        "torch": {"torch/a.h", "torch/b.h", "torch/c.h", "c10/d.h"}, "system": {"vector"},
    }  # fmt: skip


def test_a_header_that_two_folders_have_counts_twice(machine: Machine) -> None:
    """C++'s stdlib.h includes the next one, C's."""
    (machine.folder / "c").mkdir()
    write(machine.folder / "c", "vector", "// another")
    before = machine.draw(cxx_flags=f"-I{machine.folder}/c").headers
    write(machine.folder / "c", "vector", "// yet another")

    after = machine.draw(cxx_flags=f"-I{machine.folder}/c").headers

    assert before["system"] == after["system"]
    assert before["flags"] != after["flags"]


@pytest.mark.parametrize(
    "flags",
    [
        "-I {}", "-isystem {}", "-iquote{}", "-Xcompiler=-I{}", "-Xcompiler -isystem -Xcompiler {}", "-Wp,-I,{}",
        "--include-directory={}", "--include-directory-after {}",
    ],
)  # fmt: skip
def test_headers_in_folders_that_flags_name_are_found(machine: Machine, flags: str) -> None:
    write(machine.folder / "eigen", "Eigen/Core")
    flags = flags.format(machine.folder / "eigen")

    assert reached(machine, "#include <Eigen/Core>\n", cuda_flags=flags) == {"flags": {"Eigen/Core"}}


def test_a_header_that_flags_include_is_found(machine: Machine) -> None:
    header = write(machine.folder / "eigen", "all.h", "#include <vector>\n")

    found = {"flags": {str(header)[1:]}, "system": {"vector"}}
    assert reached(machine, "", cxx_flags=f"-include {header}") == found
    assert reached(machine, "#include HEADER\n", cxx_flags=f"-D 'HEADER=\"{header}\"'") == found
    for flag in ("--include={}", "-imacros {}", "-Wp,-include,{}", "-Xpreprocessor -include -Xpreprocessor {}"):
        assert reached(machine, "", cxx_flags=flag.format(header)) == found


def test_a_header_that_is_named_by_its_path_is_found(machine: Machine) -> None:
    header = write(machine.folder / "eigen", "all.h")

    assert reached(machine, f'#include "{header}"\n') == {"flags": {str(header)[1:]}}


def test_headers_of_the_toolkit_lead_to_others_and_compilers_include_some_by_themselves(machine: Machine) -> None:
    write(machine.torch, "include/stdc-predef.h")
    write(machine.torch, "include/limits.h")
    write(machine.toolkit, "include/cuda_runtime.h", "#include <limits.h>\n")

    assert reached(machine, "") == {"torch": {"stdc-predef.h", "limits.h"}}
    assert reached(machine, "", cuda="off") == {"torch": {"stdc-predef.h"}}


def test_of_the_toolkit_s_folder_only_what_is_not_in_its_identity_is_found(machine: Machine) -> None:
    write(machine.toolkit, "include/cublas_v2.h", '#include "cublas_api.h"\n#include "cuda_runtime.h"\n')
    write(machine.toolkit, "include/cublas_api.h")
    text = "#include <cublas_v2.h>\n#include <cuda_runtime.h>\n#include <nv/target>\n"

    assert reached(machine, text) == {"cuda": {"cublas_v2.h", "cublas_api.h"}}


def test_a_folder_or_a_broken_link_is_no_header(machine: Machine) -> None:
    (machine.torch / "include/torch/a.h").mkdir()
    (machine.torch / "include/torch/b.h").symlink_to("b.h")

    assert reached(machine, "#include <torch/a.h>\n#include <torch/b.h>\n") == {}
