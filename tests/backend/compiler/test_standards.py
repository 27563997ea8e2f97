"""The C++ standard of a Plan: what torch's files ask for, and what becomes of flags that name an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from declared import LIGHT, extension, make_package
from folders import REPOSITORY
from kernelwheel.compiler.cmake_inputs import as_one, cache_entries, cmake_lists
from kernelwheel.compiler.plan import CudaPlan, Plan
from kernelwheel.compiler.standards import MISREADING, draw_standards, raised_standards
from kernelwheel.compiler.toolchain.binding import CUDA_HEADERS, Binding
from kernelwheel.compiler.toolchain.toolchain import Toolchain
from kernelwheel.content import make_content
from kernelwheel.project.arch_choice import ArchList
from kernelwheel.project.extension import Extension, to_json
from kernelwheel.project.package import PackageFacts
from kernelwheel.project.source_files import files_of, find_sources
from kernelwheel.version import LOADED
from standins import make_machine, settings_with, toolchain_of_files

# What ATen/ATen.h says up to torch 2.14, and since 2.15.
HEADER = (
    "#if !defined(_MSC_VER) && __cplusplus < {}\n#error C++ or later compatible compiler is required to use ATen.\n"
)
LATER = (
    "#if (defined(_MSVC_LANG) && _MSVC_LANG < {0}) || \\\n    (!defined(_MSVC_LANG) && __cplusplus < {0})\n#error C++\n"
)
CHOOSER = "cflags + ['-std=c++20', '-fPIC']\n            cpp_flag = cpp_flag_prefix + 'c++{}'\n"


def planned(
    tools: Toolchain, *extensions: Extension, version: str = "1.0", options: Mapping[str, Any] | None = None
) -> Plan:
    """A Plan with the part about the standard, for extensions of files that nobody reads."""
    binding = Binding(None, "2") if any(each.kind != "operators" for each in extensions) else None
    cuda = CudaPlan(ArchList((), ()), {}) if tools.cuda.nvcc else None
    content = make_content("light", version, {}, "stable", "2.10", map(to_json, extensions), options or {})
    plan = Plan(content, {}, cuda, binding, "linux-x86_64")
    return replace(plan, standards=draw_standards(plan, tools))


def declare(**table: Any) -> Extension:
    return replace(extension(cuda="optional", **table), sources=("native/a.cpp", "native/k.cu"))


@pytest.mark.parametrize(
    ("header", "chooser", "standard"),
    [
        ("", "", "c++17"), (HEADER.format("201703L"), CHOOSER.format(17), "c++17"),
        (HEADER.format("202002L"), "", "c++20"), (LATER.format("202002L"), CHOOSER.format(20), "c++20"),
        (HEADER.format("201703L"), CHOOSER.format(20), "c++20"), (LATER.format("202302L"), CHOOSER.format(20), "c++23"),
        ("#if __cplusplus < 202302L\n// no error\n#endif\n", "", "c++17"),
    ],
)  # fmt: skip
def test_torch_itself_says_which_standard_it_asks_for(tmp_path: Path, header: str, chooser: str, standard: str) -> None:
    plan = planned(toolchain_of_files(tmp_path, header, chooser), declare())

    assert plan.target["standard"] == {"stable": "c++17", "torch": standard}
    assert planned(toolchain_of_files(tmp_path, header, chooser), declare(kind="operators")).target["standard"] == {
        "stable": "c++17"
    }


@pytest.mark.parametrize(
    ("nvcc", "torch", "standard"),
    [
        ("13.3.33", "2.11.0+cu130", "c++20"), ("13.4.92", "2.12.0", "c++20"), ("13.2.86", "2.11.0", "c++17"),
        ("13.5.37", "2.11.0", "c++17"), ("13.3.33", "2.13.0", "c++17"), ("", "2.11.0", "c++17"),
    ],
)  # fmt: skip
def test_an_nvcc_that_misreads_torch_s_headers_gets_the_standard_in_which_it_does_not(
    tmp_path: Path, nvcc: str, torch: str, standard: str
) -> None:
    tools = toolchain_of_files(tmp_path, version=torch, nvcc=nvcc)
    plan = planned(tools, declare(**{"cuda-flags": ["-std=c++17"]}))

    assert plan.target["standard"]["torch"] == standard
    misread = f"which nvcc {nvcc} beside torch {torch} asks for"
    assert [misread in line for line in raised_standards(plan, tools)] == [True] * (standard != "c++17")
    by_clang = toolchain_of_files(tmp_path, version=torch, nvcc=nvcc or "12.9.1", clang="19.1.7")
    assert planned(by_clang, declare()).target["standard"]["torch"] == "c++17"


def test_an_earlier_standard_is_raised_wherever_it_stands_and_one_line_says_where(tmp_path: Path) -> None:
    tools = toolchain_of_files(tmp_path, HEADER.format("202002L"), version="2.14.1", nvcc="13.2.86")
    for name in CUDA_HEADERS:
        (tmp_path / name).touch()
    tools = replace(tools, settings=settings_with({"CXXFLAGS": "-std=gnu++14", "CUDAFLAGS": "-std=c++23"}))
    table = {
        "cxx-flags": ["-std=c++17"], "cuda-flags": ["-Xcompiler", "-O1,-std=c++1z"],
        "file-flags": {"native/a.cpp": ["--std", "c++14"]},
    }  # fmt: skip
    options = {name: getattr(tools.settings, name.replace("-", "_")) for name in ("cxx-flags", "cuda-flags")}

    plan = planned(tools, declare(**table), options={"glibc": "", **options})

    text, entries = cmake_lists(plan), cache_entries(tmp_path, plan, tools)
    assert as_one(["-std=c++20"]) in text
    assert as_one(["-Xcompiler", "-O1,-std=c++20"]) in text
    assert "--std c++20" in text
    assert entries["KERNELWHEEL_CXX_FLAGS"] == as_one(["-std=gnu++20"])
    assert entries["KERNELWHEEL_CUDA_FLAGS"] == as_one(["-std=c++23"])
    said = "is raised to c++20, which torch 2.14.1 asks for"
    assert list(raised_standards(plan, tools)) == [
        f"-std=gnu++14 in environment variable CXXFLAGS {said}", f"-std=c++17 in cxx-flags of light._C {said}",
        f"-std=c++14 in file-flags of light._C {said}", f"-std=c++1z in cuda-flags of light._C {said}",
    ]  # fmt: skip


def test_operators_are_raised_to_what_the_stable_abi_asks_for_and_no_further(tmp_path: Path) -> None:
    tools = toolchain_of_files(tmp_path, HEADER.format("202002L"))
    operators = declare(kind="operators", **{"cxx-flags": ["-std=c++17"], "cuda-flags": ["-std=c++14"]})

    both = planned(tools, operators, replace(declare(**{"cxx-flags": ["-std=c++17"]}), name="light.module"))

    assert [line.partition(", which")[0] for line in raised_standards(both, tools)] == [
        "-std=c++17 in cxx-flags of light.module is raised to c++20"
    ]
    for_cuda = replace(tools, cuda=toolchain_of_files(tmp_path, nvcc="13.2.86").cuda)
    assert list(raised_standards(planned(for_cuda, operators), for_cuda)) == [
        "-std=c++14 in cuda-flags of light._C is raised to c++17, which torch's stable ABI asks for"
    ]


def test_the_arguments_of_load_are_named_as_they_are_called(tmp_path: Path) -> None:
    tools = toolchain_of_files(tmp_path, HEADER.format("202002L"), nvcc="13.2.86")
    called = declare(**{"cxx-flags": ["-std=c++17"], "cuda-flags": ["-std=c++17"]})

    lines = list(raised_standards(planned(tools, called, version=LOADED), tools))

    assert [line.partition(" is raised")[0] for line in lines] == [
        "-std=c++17 in extra_cflags of light._C", "-std=c++17 in extra_cuda_cflags of light._C"
    ]  # fmt: skip


def test_as_written_keeps_every_flag_says_nothing_and_is_another_plan(tmp_path: Path) -> None:
    table = {"cxx-flags": ["-std=c++17"]}
    tools = toolchain_of_files(tmp_path, HEADER.format("202002L"), cxx_standard="as-written")

    plan = planned(tools, declare(**table))

    assert as_one(["-std=c++17"]) in cmake_lists(plan)
    assert list(raised_standards(plan, tools)) == []
    assert plan.target["standard"] == {}


def test_another_standard_of_torch_is_another_fingerprint_of_modules_alone(tmp_path: Path) -> None:
    machine = make_machine(tmp_path / "machine")
    project = make_package(tmp_path / "project", LIGHT)
    found = {}
    for kind in ("module", "operators"):
        extensions = find_sources([extension(kind=kind)], project)
        facts = PackageFacts("light", ".", "2.10", "stable", extensions, files_of(extensions, project))
        found[kind] = [machine.draw_for(facts, project, cuda="off").fingerprint]
        (machine.torch / "utils").mkdir(exist_ok=True)
        (machine.torch / "utils/cpp_extension.py").write_text(CHOOSER.format(20))
        found[kind].append(machine.draw_for(facts, project, cuda="off").fingerprint)
        (machine.torch / "utils/cpp_extension.py").unlink()

    assert found["module"][0] != found["module"][1]
    assert found["operators"][0] == found["operators"][1]


def test_docs_list_the_pairs_of_nvcc_and_torch_that_need_a_later_standard() -> None:
    page = (REPOSITORY / "docs/packaging.md").read_text(encoding="utf-8")
    for major, minor in MISREADING:
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {major}.{minor} |"))
        assert "C++20" in row
