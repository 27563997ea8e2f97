"""The C++ standard in flags: every spelling of gcc, clang and nvcc."""

from __future__ import annotations

import pytest
from kernelwheel.flags.standard import with_standard


@pytest.mark.parametrize(
    ("flags", "expected", "earlier"),
    [
        (["-O3", "-std=c++17", "-g"], ["-O3", "-std=c++20", "-g"], ["-std=c++17"]),
        (["--std=gnu++17"], ["--std=gnu++20"], ["-std=gnu++17"]),
        (["--std", "c++17", "-g"], ["--std", "c++20", "-g"], ["-std=c++17"]),
        (["-std", "c++14"], ["-std", "c++20"], ["-std=c++14"]),
        (["-Xcompiler=-fPIC,-std=c++1z"], ["-Xcompiler=-fPIC,-std=c++20"], ["-std=c++1z"]),
        (["-Xcompiler", "-std=c++11", "-O2"], ["-Xcompiler", "-std=c++20", "-O2"], ["-std=c++11"]),
        (["--compiler-options", "-fPIC -std=c++98"], ["--compiler-options", "-fPIC -std=c++20"], ["-std=c++98"]),
        (["-Wp,-std=c++0x"], ["-Wp,-std=c++20"], ["-std=c++0x"]),
        (["-std=c++14", "-std=c++20"], ["-std=c++20", "-std=c++20"], ["-std=c++14"]),
    ],
)  # fmt: skip
def test_every_spelling_of_an_earlier_standard_is_raised(
    flags: list[str], expected: list[str], earlier: list[str]
) -> None:
    assert with_standard(flags, 20) == (tuple(expected), tuple(earlier))


@pytest.mark.parametrize(
    "flags",
    [
        ["-std=c++20", "-std=gnu++2a", "-std=c++23", "--std", "c++26", "-std=c++2c"], ["-stdlib=libc++", "-std=c17"],
        ["-DA=-std=c++11", "-D", "A=--std=c++11"], ["-std"], ["-Xcompiler", "-O2,-g", "-Xcompiler=-w"], ["c++11"],
    ],
)  # fmt: skip
def test_all_else_stays(flags: list[str]) -> None:
    assert with_standard(flags, 20) == (tuple(flags), ())


def test_what_is_left_out_leaves_nothing_behind() -> None:
    flags = [
        "-std=c++17",
        "-O3",
        "--std",
        "c++14",
        "-Xcompiler",
        "-std=c++11",
        "-Xcompiler=-w,-std=c++17",
        "-std=c++2a",
    ]

    kept, earlier = with_standard(flags, 20, leave_out=True)

    assert kept == ("-O3", "-Xcompiler=-w", "-std=c++2a")
    assert earlier == ("-std=c++17", "-std=c++14", "-std=c++11", "-std=c++17")
