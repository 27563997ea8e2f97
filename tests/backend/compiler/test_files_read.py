"""A compile is held to what was really read: comparisons of lists as compilers, assembler and linker write them."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kernelwheel.compiler.files_read import are_followed, check_read, files_read
from kernelwheel.compiler.linked_files import files_in, linked_files
from kernelwheel.compiler.plan import Plan
from kernelwheel.compiler.toolchain.cxx import Cxx
from kernelwheel.compiler.toolchain.toolchain import Toolchain
from kernelwheel.project.source_files import file_sha256
from kernelwheel.runtime.errors import BuildError
from kernelwheel.version import LOADED
from standins import Machine, make_machine, settings_with

SHARED = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00"  # the beginning of a shared library


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path)


@pytest.fixture
def work(machine: Machine) -> Path:
    """A work folder in which one source was compiled and linked."""
    folder = machine.folder / "work"
    (folder / "build/CMakeFiles").mkdir(parents=True)
    (folder / "tmp").mkdir()
    (folder / "build/CMakeFiles/a.cpp.o").touch()
    (folder / "build/build.ninja").write_text("")
    (folder / "torch").symlink_to(machine.torch)
    shutil.copytree(machine.sources, folder / "src")
    return folder


def toolchain(machine: Machine, **options: str) -> Toolchain:
    return machine.toolchain(settings_with({"CUDA_HOME": str(machine.toolkit), "CXX": str(machine.cxx)}, **options))


def wrote(work: Path, *, compiled: str = "", assembled: str = "", linked: str = "", commands: str = "") -> None:
    """Put into the folder what compiler, assembler, linker and CMake wrote."""
    (work / "build/CMakeFiles/a.cpp.o.d.read").write_text(f"CMakeFiles/a.cpp.o: ../src/a.cpp \\\n {compiled}\n")
    (work / "build/CMakeFiles/a.cpp.o.as").write_text(f"CMakeFiles/a.cpp.o: {assembled} a.cpp /nowhere/cc.s\n")
    (work / "tmp/a.linked").write_text(f"../out/a.so: \\\n  CMakeFiles/a.cpp.o \\\n  {linked}\n\n{linked}:\n")
    (work / "build/build.ninja").write_text(commands)


def refused(machine: Machine, work: Path, plan: Plan, *, by_content: bool = False) -> BuildError:
    with pytest.raises(BuildError) as caught:
        check_read(plan, toolchain(machine), work, by_content=by_content)
    return caught.value


def test_names_are_read_as_tools_write_them(work: Path, tmp_path: Path) -> None:
    (tmp_path / "a file").mkdir()
    for name in ("b.bin", "c d.a", "opts", "e.map"):
        (tmp_path / "a file" / name).write_text("-specs=/etc/passwd" if name == "opts" else "")
    (work / "src/opts").write_text(f"'@{tmp_path}/a file/opts' -g")
    wrote(
        work,
        compiled=f"/x/a\\ b.h \\\n /x/$$c\\#.h ../src/a.h {work}/torch/include/x.h",
        assembled=f"{tmp_path}/a\\ file/b.bin",
        linked=f"{tmp_path}/a file/c d.a",
        commands="  FLAGS = -DX=/etc/passwd @../src/opts -g\n"
        f"  LINK_FLAGS = -Wl,--version-script='{tmp_path}/a$ file/e.map'\n",
    )

    read = files_read(work)

    assert read.compiled == {"/x/a b.h", "/x/$c#.h", f"{(work / 'torch').resolve()}/include/x.h"}
    assert read.assembled == {f"{tmp_path}/a file/b.bin"}
    assert read.linked == {f"{tmp_path}/a file/c d.a", f"{tmp_path}/a file/e.map"}
    assert read.options == {f"{tmp_path}/a file/opts", "/etc/passwd"}


@pytest.mark.parametrize(
    ("edited", "followed"),
    [
        ("a.h twice.cpp cmake/x.cmake unread.cuh", True),
        ("a.h weights.bin", False),  # known to the assembler
        ("opts", False),  # to the compiler, but as options
        ("both.h", False),  # to the assembler, too
        ("unread.py", False),  # to whatever CMake runs
    ],
)
def test_ninja_follows_edits_of_what_compilers_alone_read(work: Path, edited: str, followed: bool) -> None:
    for name in ("a.h", "weights.bin", "both.h", "opts"):
        (work / "src" / name).touch()
    wrote(
        work,
        compiled="../src/twice.cpp ../src/a.h ../src/both.h",
        assembled="../src/weights.bin ../src/both.h",
        commands="  FLAGS = @../src/opts\n",
    )

    assert are_followed(work, edited.split()) == followed


@pytest.mark.parametrize("word", ["{}", "@{}", "--version-script={}", "a,{},b", "--x=y,{}", "-specs={}"])
def test_a_word_names_a_file_wherever_it_is_in_it(word: str, tmp_path: Path) -> None:
    (tmp_path / "a=b,c").touch()

    assert set(files_in([word.format(tmp_path / "a=b,c")], Path("/"))) == {str(tmp_path / "a=b,c")}
    assert set(files_in([f"-DFILE={tmp_path}/a=b,c"], Path("/"))) == set()


def test_a_header_that_the_plan_does_not_cover_is_refused(machine: Machine, work: Path) -> None:
    plan = machine.draw()
    known = "torch/include/torch/csrc/stable/library.h"
    wrote(work, compiled=f"{work}/{known} {machine.toolkit}/include/cuda_runtime.h")
    check_read(plan, toolchain(machine), work, by_content=True)

    (machine.torch / "include/torch/other.h").touch()
    wrote(work, compiled=f"{work}/{known} {work}/torch/include/torch/other.h")
    error = refused(machine, work, plan)

    assert error.found == str(machine.torch / "include/torch/other.h")
    assert "#include <torch/other.h>" in error.remedies[1]


def test_what_changes_during_a_build_is_refused(machine: Machine, work: Path) -> None:
    library = machine.folder / "lib/libown.a"
    library.parent.mkdir()
    library.write_text("!<arch>\n")
    plan = machine.draw(link_flags=f"{library}")
    assert "linked" in plan.headers
    wrote(work, linked=str(library))

    library.write_text("!<arch>\nchanged")
    error = refused(machine, work, plan)
    assert (error.problem, error.found) == ("headers or libraries were changed during the build", "other ones: linked")
    library.write_text("!<arch>\n")
    (machine.torch / "include/torch/csrc/stable/library.h").write_text("// another torch")
    assert "torch" in refused(machine, work, plan).found


@pytest.mark.parametrize(
    "flags",
    [
        "{}/libown.a",
        "-L{} -lown",
        "-L {} -l own",
        "-L{} -l:libown.a",
        "-Wl,-L{},-lown",
        "-Wl,--whole-archive,{}/libown.a",
    ],
)
def test_archives_in_flags_count_and_shared_libraries_do_not(machine: Machine, flags: str) -> None:
    folder = machine.folder / "lib"
    folder.mkdir()
    (folder / "libown.a").write_text("!<arch>\n")
    (folder / "libown.so").write_bytes(SHARED)

    found = linked_files(machine.draw(link_flags=flags.format(folder)), toolchain(machine))

    assert [path for path, origin in found.origins.items() if origin == "flags"] == [str(folder / "libown.a")]
    assert "libown.a" in found.digests["linked"]
    assert "libown.so" not in found.digests["linked"]


def test_a_script_that_gcc_16_links_by_itself_counts(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    script = machine.folder / "libatomic_asneeded.so"
    script.write_text("INPUT ( AS_NEEDED ( -latomic ) )\n")
    monkeypatch.setattr(Cxx, "linker_folders", lambda _: (str(machine.folder),))

    assert script.name in linked_files(machine.draw(), toolchain(machine)).digests["linked"]


@pytest.mark.parametrize(("version", "remedy"), [(LOADED, "extra_ldflags"), ("0", "pip install .")])
def test_where_kernels_are_found_by_content_all_that_flags_name_is_in_it(
    machine: Machine, work: Path, version: str, remedy: str
) -> None:
    library = machine.folder / "libown.a"
    library.write_text("!<arch>\n")
    wrote(work, linked=str(library))
    plan = machine.draw(version=version, link_flags=str(library))
    check_read(plan, toolchain(machine), work, by_content=False)

    error = refused(machine, work, plan, by_content=True)

    assert error.found == str(library)
    assert any(remedy in each for each in error.remedies)
    sources = {**plan.sources, "twice.cpp": file_sha256(library)}
    plan = replace(plan, content={**plan.content, "sources": sources})
    check_read(plan, toolchain(machine), work, by_content=True)


def test_so_are_headers_but_for_those_of_the_environment(
    machine: Machine, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine.folder / "include").mkdir()
    (machine.folder / "include/ext.h").touch()
    (machine.sources / "twice.cpp").write_text("#include <ext.h>\n")
    shutil.copy(machine.sources / "twice.cpp", work / "src")
    wrote(work, compiled=f"{machine.folder}/include/ext.h")
    plan = machine.draw(cxx_flags=f"-I{machine.folder}/include")

    assert refused(machine, work, plan, by_content=True).found == f"{machine.folder}/include/ext.h"
    monkeypatch.setattr(sys, "prefix", str(machine.folder))
    check_read(plan, toolchain(machine), work, by_content=True)


def test_so_are_archives_in_the_compiler_s_folders_but_not_its_own(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    usr, own = machine.folder / "usr", machine.folder / "gcc"
    monkeypatch.setattr(Cxx, "linker_folders", lambda _: (str(usr), str(own)))
    for place, name in ((usr, "libown.a"), (usr, "libc.a"), (usr, "libm.so"), (own, "libgcc.a"), (own, "libfs.a")):
        place.mkdir(exist_ok=True)
        (place / name).write_text(name)

    found = linked_files(machine.draw(link_flags=f"-L{usr} -lown -lc -lm -lfs"), toolchain(machine))

    assert [path for path, origin in found.origins.items() if origin == "flags"] == [str(usr / "libown.a")]


def test_a_thin_archive_is_refused_even_if_it_counts(machine: Machine, work: Path) -> None:
    library = machine.folder / "libthin.a"
    library.write_text("!<thin>\n")
    wrote(work, linked=str(library))

    error = refused(machine, work, machine.draw(link_flags=str(library)))

    assert str(library) in error.found
    assert any("without T" in remedy for remedy in error.remedies)
