"""`kernelwheel.load`: what compilers, assembler and linker read is in the content, or the compile is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import kernelwheel
import pytest
from kernelwheel.jit.package import described
from kernelwheel.jit.sources import read_sources
from loadable import MODULE, called, refusal_of, write

# Of the value that a module gives, each file has one bit.
VALUE = "#undef V{0}\n#define V{0} {1}\n"
FOUND = """/**/ #include "{0}/1.h"
%:include "{0}/2.h"
#inc\\
lude/* a comment */"{0}/3.h"
#include HEADER
asm(".section .rodata\\nblob: .incbin \\"{0}/6.bin\\"\\n.previous\\n");
extern "C" int seven();
static int blob() {{ unsigned char found; asm("movb blob(%%rip), %0" : "=r"(found)); return found - '0'; }}
#define ANSWER V1 + V2 + V3 + V4 + V5 + blob() + seven()
"""
NAMED = ['-DHEADER=\\"{0}/4.h\\"', "--include={0}/5.h"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWHEEL_CACHE_DIR", str(tmp_path / "cache"))


def archive(folder: Path, name: str, function: str, value: int, *, options: str = "rcs") -> Path:
    (folder / "made.c").write_text(f"int {function}(void) {{ return {value}; }}\n")
    subprocess.run(["gcc", "-fPIC", "-c", "made.c", "-o", f"{function}.o"], cwd=folder, check=True)
    (folder / name).unlink(missing_ok=True)
    subprocess.run(["ar", options, name, f"{folder}/{function}.o"], cwd=folder, check=True)
    return folder / name


def source_in(folder: Path, text: str) -> Path:
    return write(folder, {"light.cpp": MODULE.replace('#include "answer.h"', text)}) / "light.cpp"


@pytest.mark.slow
def test_a_file_counts_however_it_is_named(tmp_path: Path) -> None:
    apart = write(tmp_path / "apart", {f"{number}.h": VALUE.format(number, 0) for number in range(1, 6)})
    (apart / "6.bin").write_text("0")
    flags = [flag.format(apart) for flag in NAMED]
    source = source_in(tmp_path / "here", FOUND.format(apart))

    link = [f"{apart}/libseven.a"]

    def content() -> Any:
        call = called(extra_cflags=flags, extra_ldflags=link)
        return described(call, read_sources(call, source)).content

    archive(apart, "libseven.a", "seven", 0)
    contents = [content()]
    for number in range(1, 6):
        (apart / f"{number}.h").write_text(VALUE.format(number, 1))
        contents.append(content())
    (apart / "6.bin").write_text("1")
    contents.append(content())
    archive(apart, "libseven.a", "seven", 1)
    contents.append(content())

    assert len({str(each) for each in contents}) == len(contents) == 8
    assert kernelwheel.load("light", source, flags, extra_ldflags=link).answer() == 7


UNFOUND = """
#define TEXT(x) #x
#define NAME(x) TEXT(x)
#include NAME({0}/1.h)
asm(".section .rodata\\nblob: .inc" "bin \\"{0}/2.bin\\"\\n.previous\\n");
extern "C" int three();
extern "C" int four();
extern "C" int five();
#define ANSWER V1 + three() + four() + five()
"""


@pytest.mark.slow
def test_a_file_that_reading_does_not_find_is_an_error_that_names_it(tmp_path: Path) -> None:
    apart = write(tmp_path / "apart", {"1.h": VALUE.format(1, 0), "options": "-DX=1", "all.map": "{ global: *; };"})
    (apart / "2.bin").write_text("0")
    archive(apart, "libthree.a", "three", 0)
    archive(apart, "libfour.a", "four", 0)
    archive(apart, "libfive.a", "five", 0, options="rcsT")  # T: it has the names of its members alone
    (apart / "four.ld").write_text(f"INPUT({apart}/libfour.a)")
    source = source_in(tmp_path / "here", UNFOUND.format(apart))
    link = ["-Wl,--whole-archive,{}/libthree.a,--no-whole-archive", "{}/four.ld", "{}/libfive.a"]
    link += ["-Wl,--version-script={}/all.map"]

    said = refusal_of(
        "light", source, extra_cflags=f"@{apart}/options", extra_ldflags=[each.format(apart) for each in link]
    )

    for name in ("1.h", "2.bin", "libfour.a"):
        assert f"{apart}/{name}" in said
    assert "/libfive.a" in said
    assert "all.map" not in said, "of which there is a copy"
    assert f'#include "{apart}/1.h"' in said
    assert "extra_include_paths" in said
    assert "extra_ldflags" in said


@pytest.mark.minutes
@pytest.mark.slow
def test_an_archive_that_is_exchanged_before_the_link_is_in_the_library_as_it_was_digested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = tmp_path / "apart"
    apart.mkdir()
    exchanged = archive(apart, "other.a", "own", 2).rename(tmp_path / "other.a")
    library = archive(apart, "libown.a", "own", 1)
    source = source_in(tmp_path / "here", 'extern "C" int own();\n#define ANSWER own()')
    shim = tmp_path / "c++"
    shim.write_text(f'#!/bin/sh\ncase "$*" in *light.cpp*) cp {exchanged} {library};; esac\nexec g++ "$@"\n')
    shim.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("CXX", str(shim))
        assert kernelwheel.load("light", source, extra_ldflags=str(library)).answer() == 1

    assert library.read_bytes() == exchanged.read_bytes()
    archive(apart, "libown.a", "own", 1)
    assert kernelwheel.load("light", source, extra_ldflags=str(library)).answer() == 1
