"""What is reported from a build's log: short names for progress, and the first error if the build fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builds import Wheel
from kernelwheel.compiler.cmake_build import first_failure, progress
from kernelwheel.compiler.crashes import find_crash
from kernelwheel.compiler.work_folder import locked_workdir
from kernelwheel.runtime.machine.permissions import NOBODY_ELSE
from standins import make_machine, toolchain_of_files

COMMAND = "/usr/bin/c++ -Werror=x -o a.o -c a.cpp"
DRIVER = ["ninja: build stopped: subcommand failed.", "Traceback (most recent call last):", "  in main", "Failed: x"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("[1/2] Building CXX object CMakeFiles/tiny_cpu.dir/twice.cpp.o\n", "[1/2] CXX twice.cpp"),
        ("[3/9] Building CUDA object CMakeFiles/x.dir/cuda/a.b.cu.o\n", "[3/9] CUDA cuda/a.b.cu"),
        ('[2/2] Linking CXX shared library "/tmp/a folder/out/libtiny.so"\n', "[2/2] CXX libtiny.so"),
        ("[1/1] Generating table.h\n", "[1/1] Generating table.h"),
    ],
)
def test_progress_names_the_file_and_not_the_builder_s_folders(line: str, shown: str) -> None:
    assert progress(line) == shown


def test_the_first_error_of_the_first_failed_file_is_quoted_without_the_command() -> None:
    failed = ["FAILED: [code=1] CMakeFiles/x.dir/a.cpp.o ", COMMAND, "a.cpp: In function 'f':", "a.cpp:3:1: error: no"]
    other = [
        "[2/3] Building CXX object CMakeFiles/x.dir/b.cpp.o",
        "FAILED: CMakeFiles/x.dir/b.cpp.o ",
        COMMAND,
        "later",
    ]

    failure = first_failure(["-- Configuring done", *failed, *other, *DRIVER])

    assert failure == "a.cpp\na.cpp: In function 'f':\na.cpp:3:1: error: no"


def test_an_error_below_pages_of_warnings_is_quoted() -> None:
    warnings = [f"a.cpp:{number}: warning: old" for number in range(100)]
    failed = ["FAILED: CMakeFiles/x.dir/a.cpp.o ", COMMAND, *warnings, "a.cpp:101: error: no", "  101 | f()"]

    quoted = ["a.cpp", "a.cpp:99: warning: old", "a.cpp:101: error: no", "  101 | f()"]
    assert first_failure([*failed, *DRIVER]).splitlines() == quoted


def test_a_symbol_that_the_linker_misses_is_quoted() -> None:
    failed = ["FAILED: [code=1] /w/out/libx.so ", COMMAND, "ld: a.cpp: undefined reference to `f()'", "c++: error: ld"]

    assert first_failure([*failed, *DRIVER]).splitlines() == ["libx.so", *failed[2:]]


def test_of_a_compiler_that_ends_without_an_error_the_first_lines_are_quoted() -> None:
    failed = ["FAILED: [code=139] CMakeFiles/x.dir/a.cu.o ", COMMAND, "Segmentation fault"]

    assert first_failure([*failed, *DRIVER]) == "a.cu\nSegmentation fault"


GCC_CRASHED = "a.cu\na.cu:3:1: internal compiler error: in f, at g.c:1\nPlease submit a full bug report"
NVCC_CRASHED = "a.cu\nnvcc error   : 'cudafe++' died due to signal 11 (Invalid memory reference)"


@pytest.mark.parametrize(
    ("failure", "release", "name", "remedy"),
    [
        (NVCC_CRASHED, "13.2.86", "nvcc 13.2.86", "13.1 and 13.3 compile what this one is reported to crash at"),
        ("a.cu\nb.h(5): internal error: assertion failed at: lower.cpp", "13.0.88", "nvcc 13.0.88", "release of nvcc"),
        ("a.cu\nsh: line 1: 99 Segmentation fault (core dumped)", "13.0.88", "nvcc 13.0.88", "CUDACXX"),
        (GCC_CRASHED, "13.2.86", "gcc 12.2.0", "another release of gcc, which CXX names"),
        ("a.cpp\nSegmentation fault", "13.2.86", "gcc 12.2.0", "which CXX names"),
        ("a.cpp\nSegmentation fault", "", "gcc 12.2.0", "which CXX names"),
    ],
)  # fmt: skip
def test_a_compiler_that_crashes_is_called_that_with_a_release_that_does_not(
    tmp_path: Path, failure: str, release: str, name: str, remedy: str
) -> None:
    crash = find_crash(failure, toolchain_of_files(tmp_path, nvcc=release))

    assert crash is not None
    assert crash.name == name
    assert remedy in crash.remedy


@pytest.mark.parametrize(
    "failure", ["a.cu\na.cu:3:1: error: no", "nvcc error : 'ptxas' failed", 'a.cpp\n"internal" error']
)
def test_a_compiler_that_refuses_did_not_crash(tmp_path: Path, failure: str) -> None:
    assert find_crash(failure, toolchain_of_files(tmp_path, nvcc="13.2.86")) is None


def test_an_error_of_cmake_s_own_is_quoted() -> None:
    lines = ["-- The CXX compiler is", "CMake Error at CMakeLists.txt:3 (include):", "  no such file", *DRIVER[1:]]

    assert first_failure(lines).splitlines() == ["CMake Error at CMakeLists.txt:3 (include):", "  no such file"]


def test_an_empty_log_says_so() -> None:
    assert first_failure([]) == "no output"


# What pip -v shows of a real build


def test_a_build_shows_each_file_and_ends_in_a_line_that_sums_it_up(wheel: Wheel) -> None:
    lines = [line.strip() for line in wheel.output.splitlines()]
    steps = [line for line in lines if re.match(r"\[\d+/\d+\] ", line)]

    assert {step.partition("] ")[2] for step in steps} >= {"CXX twice.cpp", "CXX libtiny_cpu.so"}
    assert [step.partition("/")[0] for step in steps] == [f"[{number + 1}" for number in range(len(steps))]
    (summary,) = (line for line in lines if line.startswith(f"{wheel.file.name}: "))
    assert all(name in summary for name in wheel.libraries)
    assert re.search(r"in \d+ s$", summary)


def test_what_setuptools_copies_is_not_shown(wheel: Wheel) -> None:
    assert "copying" not in wheel.output
    assert "adding" not in wheel.output


@pytest.mark.parametrize("names_log", [True, False])
def test_a_log_in_the_temporary_folder_is_kept_for_the_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names_log: bool
) -> None:
    plan = make_machine(tmp_path / "machine").draw(cuda="off")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    logs: list[str] = []

    def fail() -> None:
        with locked_workdir(plan, None, NOBODY_ELSE, print) as work:
            (work / "build.log").write_text("[1/2]")
            (work / "src").mkdir()
            logs.extend([str(work / "build.log")] * names_log)
            raise OSError(f"the store is full: {logs}")

    with pytest.raises(OSError, match="full"):
        fail()

    assert [str(each) for each in (tmp_path / "tmp").rglob("*") if each.is_file()] == logs
    assert len(list((tmp_path / "tmp").iterdir())) == len(logs)
