"""The headers that sources reach: which are found, and that a compile is held to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwheel.compiler.headers import check_headers, headers_of
from kernelwheel.compiler.toolchain.toolchain import Toolchain
from kernelwheel.runtime.errors import BuildError
from standins import Machine, make_machine, settings_with

pytestmark = pytest.mark.once


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path)


def reached(machine: Machine, text: str, **options: str) -> dict[str, set[str]]:
    """The names of the headers that a source with this text reaches, by origin."""
    (machine.sources / "twice.cpp").write_text(text)
    found = headers_of(machine.draw(**options), toolchain(machine, **options), machine.sources)
    return {origin: set(named) for origin, named in found.items()}


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
        "-I {}", "-isystem {}", "-iquote{}", "-Xcompiler=-I{}", "-Xcompiler -isystem -Xcompiler {}",
    ],
)  # fmt: skip
def test_headers_in_folders_that_flags_name_are_found(machine: Machine, flags: str) -> None:
    write(machine.folder / "eigen", "Eigen/Core")
    flags = flags.format(machine.folder / "eigen")

    assert reached(machine, "#include <Eigen/Core>\n", cuda_flags=flags) == {"flags": {"Eigen/Core"}}


def test_a_header_that_flags_include_is_found(machine: Machine) -> None:
    header = write(machine.folder / "eigen", "all.h", "#include <vector>\n")

    assert reached(machine, "", cxx_flags=f"-include {header}") == {"flags": {"all.h"}, "system": {"vector"}}


def test_of_the_toolkit_s_folder_only_what_is_not_in_its_identity_is_found(machine: Machine) -> None:
    write(machine.toolkit, "include/cublas_v2.h", '#include "cublas_api.h"\n#include "cuda_runtime.h"\n')
    write(machine.toolkit, "include/cublas_api.h")
    text = "#include <cublas_v2.h>\n#include <cuda_runtime.h>\n#include <nv/target>\n"

    assert reached(machine, text) == {"cuda": {"cublas_v2.h", "cublas_api.h"}}


def test_a_folder_or_a_broken_link_is_no_header(machine: Machine) -> None:
    (machine.torch / "include/torch/a.h").mkdir()
    (machine.torch / "include/torch/b.h").symlink_to("b.h")

    assert reached(machine, "#include <torch/a.h>\n#include <torch/b.h>\n") == {}


def test_a_header_that_compilers_read_without_the_plan_is_refused(machine: Machine) -> None:
    plan = machine.draw()
    headers = headers_of(plan, toolchain(machine), machine.sources)
    check_headers(plan, headers, {"torch/csrc/stable/library.h"})

    with pytest.raises(BuildError, match="the Plan does not cover") as caught:
        check_headers(plan, headers, {"torch/csrc/stable/library.h", "torch/other.h"})

    assert caught.value.found == "torch/other.h"


def test_headers_that_change_during_a_build_are_refused(machine: Machine) -> None:
    plan = machine.draw()
    write(machine.torch, "include/torch/csrc/stable/library.h", "// another torch")

    with pytest.raises(BuildError, match="changed during the build") as caught:
        check_headers(plan, headers_of(plan, toolchain(machine), machine.sources), set())

    assert "torch" in caught.value.found
