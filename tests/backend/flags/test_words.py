"""The words of flags, and the values of options among them."""

from __future__ import annotations

import pytest
from kernelwheel.flags.options import FOLDERS
from kernelwheel.flags.words import directives_of, values_of, with_files, with_headers


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["-Xcompiler", "-I/d", "-O3"], ["-Xcompiler", "-I/new", "-O3"]),
        (["-Xcompiler=-O2,-I/d,-g"], ["-Xcompiler=-O2,-I/new,-g"]),
        (["-Xcompiler", "-isystem", "-g", "-Xcompiler", "/d"], ["-Xcompiler", "-isystem", "-g", "-Xcompiler", "/new"]),
        (["-Xcompiler", "-isystem,/d,-O1"], ["-Xcompiler", "-isystem,/new,-O1"]),
        (["--compiler-options=-iquote/d"], ["--compiler-options=-iquote/new"]),
        (["-Wp,-I,/d,-DX"], ["-Wp,-I,/new,-DX"]),
        (["--system-include=/d", "--include-path", "/d"], ["--system-include=/new", "--include-path", "/new"]),
        (["-Xcompiler", "-I/gone", "-O3"], ["-O3"]),
        (["-Xcompiler=-I/gone,-g", "-isystem", "/gone"], ["-Xcompiler=-g"]),
        (["-Xcompiler", "-isystem", "-Xcompiler", "/gone", "-I/d"], ["-I/new"]),
    ],
)  # fmt: skip
def test_paths_are_changed_in_their_places_among_the_flags(flags: list[str], expected: list[str]) -> None:
    assert with_headers(flags, lambda _, path, __: None if path == "/gone" else "/new") == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["-I", "/a", "-isystem/b", "--include-directory=/c", "-I=/d", "-iquote"], ["/a", "/b", "/c", "/d", ""]),
        (["-Xcompiler", "-isystem", "-g", "-Xcompiler", "/a"], ["/a"]),
        (["-Xcompiler", "-isystem", "-I/b", "-Xcompiler=/a"], ["/a", "/b"]),
        (["-I", "-I", "-I/b"], ["-I", "/b"]),
        (["--include-directories=/no", "-include", "/no", "-O2"], []),
    ],
)  # fmt: skip
def test_a_value_is_the_next_word_that_the_same_program_gets(flags: list[str], expected: list[str]) -> None:
    assert values_of(flags, FOLDERS) == expected


def test_the_linker_gets_all_words_in_one_row() -> None:
    assert values_of(["-Wl,-L", "/a", "-L", "-Xlinker", "/b"], ["-L"], linker=True) == ["/a", "/b"]


def test_macros_and_headers_are_directives_and_folders_are_none() -> None:
    flags = ["-DA=b=c", "-D", "D", "-I", "-DNO", "--define-macro=E", "-include", "e.h", "-Xcompiler", "--include=f.h"]
    expected = [b"#define A b=c", b"#define D", b"#define E", b'#include "e.h"', b'#include "f.h"']
    assert directives_of(flags).split(b"\n") == expected


def test_files_of_options_are_read_where_they_are_named() -> None:
    files = {"a": ["-1", "@b", "-2"], "b": ["-3", "-optf", "a", "--options-file=c"], "c": []}
    given = ["@a", "-optf", "b", "-optf", "none", "-optf=none", "@none", "@", "x@a"]
    given += ["-Xcompiler=-O,@b", "-Xcompiler", "@c"]
    inside = ["-3", "-optf", "a"]  # as it is inside itself

    expected = ["-1", *inside, "-2", "-3", "-1", "@b", "-2", "-optf", "none", "-optf=none", "@none", "@", "x@a"]
    expected += ["-Xcompiler=-O", "-Xcompiler=-3", "-Xcompiler=-1", "-Xcompiler=@b", "-Xcompiler=-2"]
    assert list(with_files(given, files.get)) == expected
