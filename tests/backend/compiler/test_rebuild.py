"""The second build: from a store it runs no compiler at all; after an edit, those alone whose files were edited."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from builds import NATIVE, TORCH, TWO_ARCHS, Wheel, build, cache_of, contents, needs_cuda_torch, remove_work
from editables import SMALL, Editable, make_editable, make_user
from kernelwheel.compiler.cmake_inputs import configuration_rests_on
from kernelwheel.compiler.compile import compile_plan
from kernelwheel.compiler.find_toolchain import find_toolchain
from kernelwheel.compiler.toolchain.torch_files import Torch, read_torch
from kernelwheel.compiler.work_folder import prepare_workdir, work_path
from kernelwheel.project.package import PackageFacts
from kernelwheel.project.source_files import file_sha256
from kernelwheel.runtime.errors import BuildError
from processes import run
from programs import find_optional
from standins import PRESENT, make_machine, planned, settings_with

pytestmark = [pytest.mark.slow]

Checkout = Callable[[], Path]


# From the store


def build_as(user: Editable, folder: Path, out: Path, *, kept: bool = False, **env: str | None) -> Wheel:
    """A wheel of a checkout, built by a user."""
    environment = {**user.environment, "TINY_CUDA": "off", "PYTHONPATH": None, **env}
    return build(folder, out, env=environment, kept=kept)


@dataclass(frozen=True)
class Built:
    """A user who built a wheel of a checkout, with a compiler that counts."""

    user: Editable
    checkout: Path
    wheel: Wheel


@pytest.fixture(scope="module")
def built(checkout: Checkout, compiled_once: Editable, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A wheel of small sources, whose kernels were in its user's store, since a first use."""
    folder = tmp_path_factory.mktemp("built")
    user = make_user(folder / "site", folder / "user")
    shutil.copytree(compiled_once.cache, user.cache)
    made = checkout()
    shutil.rmtree(made / "native")
    (made / "native").mkdir()
    for name, text in SMALL.items():
        (made / "native" / name).write_text(text)
    return Built(user, made, build_as(user, made, user.folder / "wheel"))


def test_a_second_build_in_another_folder_runs_no_compiler_and_gives_the_same_file(
    built: Built, tmp_path: Path
) -> None:
    shutil.copytree(built.checkout, tmp_path / "elsewhere")
    before = (built.user.folder / "calls").read_text()
    second = build_as(built.user, tmp_path / "elsewhere", tmp_path / "out", PATH=f"{tmp_path}:{os.environ['PATH']}")

    (entry,) = built.user.store.entries()
    assert "nothing to compile: reusing" in built.wheel.output
    assert f"nothing to compile: reusing {entry.folder}" in second.output
    calls = (built.user.folder / "calls").read_text().removeprefix(before)
    words = calls.replace("-E -x c++ /dev/null", "").split()  # where it looks for headers, and what it predefines
    assert {word for word in words if not word.startswith("-")} == set()  # it was only asked what it is
    assert second.file.read_bytes() == built.wheel.file.read_bytes()


def other_python() -> str:
    """A Python of another version that runs here."""
    for minor in (10, 11, 12, 13):
        program = find_optional(f"python3.{minor}")
        if program and minor != sys.version_info.minor:
            done = subprocess.run([program, "-c", "import ssl, zlib"], capture_output=True, check=False)
            if done.returncode == 0:
                return program
    pytest.skip("there is no other Python on PATH")


@pytest.mark.minutes
def test_another_python_reuses_what_this_one_compiled(built: Built, tmp_path: Path) -> None:
    # The packages of this environment serve it: those that the build uses are of Python alone.
    env = {**built.user.environment, "TINY_CUDA": "off", "PYTHONPATH": sysconfig.get_path("purelib")}
    second = build(built.checkout, tmp_path / "out", python=other_python(), env=env, kept=True)

    assert "nothing to compile: reusing" in second.output
    assert second.file.read_bytes() == built.wheel.file.read_bytes()


def a_file(user: Editable, folder: Path) -> dict[str, str]:
    (folder / "file").touch()
    return {"TINY_CACHE_DIR": str(folder / "file")}


def unsafe(user: Editable, folder: Path) -> dict[str, str]:
    shutil.copytree(user.cache, folder / "unsafe")
    (folder / "unsafe" / "tiny").chmod(0o777)
    return {"TINY_CACHE_DIR": str(folder / "unsafe")}


@pytest.mark.parametrize(
    ("state", "because"), [pytest.param(a_file, "Not a directory", marks=pytest.mark.minutes), (unsafe, "is not safe")]
)
def test_a_build_goes_on_without_a_store_that_cannot_be_used_and_says_so_in_a_line(
    built: Built, tmp_path: Path, state: Callable[[Editable, Path], dict[str, str]], because: str
) -> None:
    again = build_as(built.user, built.checkout, tmp_path / "out", kept=True, **state(built.user, tmp_path))

    (line,) = (line for line in again.output.splitlines() if "will not be cached for other builds" in line)
    assert because in line
    assert again.file.read_bytes() == built.wheel.file.read_bytes()


def test_read_only_stores_serve_a_build_and_a_damaged_one_is_passed_over_with_a_word(
    built: Built, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(built.user.cache, damaged)
    (library,) = (damaged / "tiny" / "1.2.3").rglob("*.so")
    library.write_bytes(library.read_bytes()[:-1] + b"?")
    before = contents(damaged), contents(built.user.cache)
    again = build_as(
        built.user,
        built.checkout,
        tmp_path / "out",
        TINY_CACHE_PATH=os.pathsep.join(map(str, [tmp_path / "nowhere", damaged, built.user.cache])),
        TINY_CACHE_DIR=str(tmp_path / "own"),
    )

    assert f"skipping {damaged}: the compiled kernels are damaged" in again.output
    assert f"reusing {built.user.cache}" in again.output
    assert not (tmp_path / "own").exists()
    assert (contents(damaged), contents(built.user.cache)) == before
    assert again.file.read_bytes() == built.wheel.file.read_bytes()


# After an edit


class Project:
    """Small sources, compiled in this process without a store, and a count of what was compiled."""

    def __init__(self, folder: Path, sources: Path | None = None) -> None:
        texts = {path.name: path.read_text() for path in sources.iterdir()} if sources else SMALL
        self.editable = make_editable(folder, texts)
        self.native = self.editable.checkout / "native"
        self.torch: Torch | None = None
        self.counted: Counter[str] = Counter()

    def compile(self, say: Callable[[str], None] = lambda line: None) -> tuple[list[str], bytes]:
        """The files that were compiled now, and the library."""
        chosen = settings_with(cuda="off", jobs="2", cxx=self.editable.environment["CXX"])
        tools = find_toolchain(chosen, os.environ)
        tools = replace(tools, torch=self.torch or tools.torch)
        made = planned(PackageFacts("tiny", "native", "2.10"), "1.2.3", self.native, chosen, tools)
        self.plan = made.plan
        out = Path(tempfile.mkdtemp(dir=self.editable.folder))
        try:
            compile_plan(made, self.native, out, self.editable.store, PRESENT, say)
        finally:
            before, self.counted = self.counted, Counter(self.editable.compiled())
        return sorted((self.counted - before).elements()), (out / "libtiny_cpu.so").read_bytes()

    def compile_afresh(self) -> bytes:
        """The library, where nothing was compiled before."""
        remove_work(self.editable.builds)
        files, library = self.compile()
        assert len(files) == len(list(self.native.rglob("*.cpp")))
        return library

    @property
    def work(self) -> Path:
        return work_path(self.editable.store, self.plan)

    def change(self, file: str, old: str, new: str) -> None:
        self.editable.change(f"native/{file}", old, new)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that was compiled once."""
    made = Project(tmp_path / "project")
    assert made.compile()[0] == ["one.cpp", "two.cpp"]
    return made


def cut_off(path: Path) -> None:
    """As after a power failure: the size came to the disk, the bytes did not, and the date is as it was."""
    info = path.stat()
    path.write_bytes(bytes(info.st_size))
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def test_only_what_depends_on_an_edit_is_compiled_and_the_bytes_are_those_of_a_build_from_nothing(
    tmp_path: Path,
) -> None:
    """Also of a new header, which hides another one; and of an object that is not whole, nothing is used again."""
    project = Project(tmp_path / "project")
    (project.native / "sub").mkdir()
    (project.native / "one.cpp").rename(project.native / "sub/one.cpp")
    project.change("CMakeLists.txt", "one.cpp", "sub/one.cpp")
    assert project.compile()[0] == ["one.cpp", "two.cpp"]
    project.change("one.h", "ONE 1", "ONE 11")
    first, edited = project.compile()
    (project.native / "sub/one.h").write_text("#define ONE 1111\n")
    second, library = project.compile()

    assert first == ["one.cpp"]
    assert "one.cpp" in second
    assert edited != library
    (object_file,) = project.work.rglob("one.cpp.o")
    cut_off(object_file)
    assert project.compile() == (["one.cpp", "two.cpp"], library)


@pytest.mark.minutes
@pytest.mark.parametrize("name", ["of Jürgen=(1)+#", pytest.param("x" * 200, marks=pytest.mark.minutes)])
def test_the_path_makes_no_difference(project: Project, tmp_path: Path, name: str) -> None:
    project.change("one.cpp", "#include", "#include <torch/headeronly/macros/Export.h>\n#include")
    project.change("one.cpp", "{ return ONE; }", "{ return ONE + sizeof(__FILE__); }")
    _, library = project.compile()
    (tmp_path / name).mkdir()
    project = Project(tmp_path / name / "project", project.native)
    assert project.compile() == (["one.cpp", "two.cpp"], library)

    project.change("two.cpp", "return 2", "return 22")

    assert project.compile()[0] == ["two.cpp"]
    assert project.compile()[0] == []


@pytest.mark.minutes
def test_an_edit_counts_whatever_its_date_and_the_clock_say(project: Project) -> None:
    project.change("two.cpp", "return 2", "return 22")
    os.utime(project.native / "two.cpp", (1_000_000_000, 1_000_000_000))
    files, _ = project.compile()
    project.change("two.cpp", "return 22", "return 222")
    for path in (project.work / "build").rglob("*"):
        os.utime(path, (time.time() + 3600, time.time() + 3600))  # made before the clock was set back
    _, library = project.compile()

    assert files == ["two.cpp"]
    assert library == project.compile_afresh()


@pytest.mark.minutes
def test_an_edit_of_cmakelists_counts(project: Project) -> None:
    (project.native / "CMakeLists.txt").write_text(
        SMALL["CMakeLists.txt"].replace("include(", "option(MORE more ON)\ninclude(")
        + "if(MORE)\n  set_source_files_properties(two.cpp PROPERTIES COMPILE_OPTIONS -DMORE)\nendif()\n"
    )
    project.change("two.cpp", "return 2;", "\n#ifdef MORE\nreturn 3;\n#endif\nreturn 2;")
    _, more = project.compile()
    project.change("CMakeLists.txt", "more ON", "more OFF")
    files, library = project.compile()

    assert files == ["two.cpp"]
    assert more != library == project.compile_afresh()


def test_cmake_forgets_its_answers_after_an_edit_of_any_source(tmp_path: Path) -> None:
    """As to `check_cxx_source_compiles`, whose text may include a header of the package."""
    machine = make_machine(tmp_path)
    tools = machine.toolchain(settings_with(cuda="off", cxx=str(machine.cxx)))
    before = configuration_rests_on(machine.draw(cuda="off"), tools)
    assert configuration_rests_on(machine.draw(cuda="off"), tools) == before
    (machine.sources / "math/twice.cuh").write_text("#define TWICE\n")

    assert configuration_rests_on(machine.draw(cuda="off"), tools) != before


def torch_in(site: Path, version: str = TORCH.version) -> Torch:
    """A torch elsewhere, whose files are new: as much of it as small sources need."""
    root = site / "torch"
    header = "include/torch/csrc/stable/library.h"
    (root / header).parent.mkdir(parents=True)
    (root / header).write_text("// any\n")
    (root / "lib").symlink_to(TORCH.root / "lib")
    (root / "version.py").write_text(f"__version__ = {version!r}\n")
    return read_torch(root)


@pytest.mark.minutes
def test_a_torch_with_the_same_headers_keeps_the_objects_and_one_with_others_does_not(
    project: Project, tmp_path: Path
) -> None:
    project.change("one.cpp", '#include "one.h"', '#include "one.h"\n#include <torch/csrc/stable/library.h>')
    project.torch = torch_in(tmp_path / "first")
    project.compile()
    shutil.rmtree(tmp_path / "first")
    info = project.work / "build" / ".skbuild-info.json"  # scikit-build-core would begin anew in another place
    info.write_text(json.dumps({**json.loads(info.read_text()), "skbuild_path": str(tmp_path / "first")}))
    record = project.work / "reusable.json"
    values = json.loads(record.read_text())
    values["files"][info.name] = file_sha256(info)
    record.write_text(json.dumps(values, sort_keys=True))
    project.torch = torch_in(tmp_path / "second")
    project.change("two.cpp", "return 2", "return 22")
    moved, library = project.compile()
    project.torch = torch_in(tmp_path / "third", "2.99.0")
    newer, _ = project.compile()
    (project.torch.root / "include/torch/csrc/stable/library.h").write_text("// another\n")
    changed, _ = project.compile()

    assert (moved, newer, changed) == (["two.cpp"], [], ["one.cpp", "two.cpp"])
    assert library == project.compile_afresh()


@pytest.mark.minutes
@pytest.mark.parametrize("harm", ["half a record", "a file too many"])
def test_nothing_is_used_again_that_may_not_be_whole(project: Project, harm: str) -> None:
    record = project.work / "reusable.json"
    if harm == "half a record":
        record.write_text(record.read_text()[:-9])
    else:
        (project.work / "build" / "left").touch()

    assert project.compile()[0] == ["one.cpp", "two.cpp"]
    assert not (project.work / "build" / "left").exists()


@pytest.mark.minutes
def test_the_folder_of_a_compile_is_its_user_s_alone_whatever_the_umask(project: Project) -> None:
    shutil.rmtree(project.editable.builds)
    before = os.umask(0o000)
    try:
        project.compile()
    finally:
        os.umask(before)

    assert [path.stat().st_mode & 0o777 for path in (project.editable.builds, project.work)] == [0o700, 0o700]


@pytest.mark.minutes
def test_nothing_is_marked_whole_while_compilers_work_in_it(project: Project) -> None:
    marked = []
    project.change("two.cpp", "return 2", "return 22")
    project.compile(lambda line: marked.append((project.work / "reusable.json").exists()))

    assert marked
    assert not any(marked)
    assert (project.work / "reusable.json").exists()


@pytest.mark.minutes
def test_after_a_compile_error_only_the_file_with_the_error_is_compiled_again(project: Project) -> None:
    for name in ("one.cpp", "two.cpp"):
        project.change(name, "return ", "return 5 + ")
    project.change("two.cpp", "return", "return nonsense +")
    with pytest.raises(BuildError, match="nonsense"):
        project.compile()
    log = (project.work / "build.log").read_text()
    project.change("two.cpp", "return nonsense +", "return")
    files, library = project.compile()

    assert "nonsense" in log
    assert files == ["two.cpp"]
    assert library == project.compile_afresh()


def test_sources_that_are_edited_while_they_are_built_are_an_error(tmp_path: Path) -> None:
    machine = make_machine(tmp_path / "machine")
    plan = machine.draw(cuda="off")
    (machine.sources / "twice.cpp").write_text("int edited;\n")
    (tmp_path / "work").mkdir()
    tools = machine.toolchain(settings_with(cuda="off", cxx=str(machine.cxx)))

    with pytest.raises(BuildError, match="edited during the build"):
        prepare_workdir(tmp_path / "work", plan, tools, machine.sources, {})


@pytest.mark.minutes
@needs_cuda_torch
def test_an_edited_cu_file_is_compiled_alone_and_gives_the_bytes_of_a_build_from_nothing(
    wheel: Wheel, checkout: Checkout, build_root: Path, tmp_path: Path
) -> None:
    folder = checkout()
    edited = (folder / "native/twice.cu").read_text().replace("256", "128")
    original = (folder / "native/twice.cu").read_text()
    env = {"TORCH_CUDA_ARCH_LIST": TWO_ARCHS}
    (folder / "native/twice.cu").write_text(edited)
    other = build(folder, build_root / "edited", env=env)
    (folder / "native/twice.cu").write_text(original)
    cache = {"XDG_CACHE_HOME": str(cache_of(build_root / "edited"))}
    again = build(folder, build_root / "edited back", env={**env, **cache}, kept=True)

    assert "CXX twice.cpp" in other.output
    assert "CXX twice.cpp" not in again.output
    assert "CUDA twice.cu" in again.output
    assert other.libraries["libtiny_cuda.so"] != again.libraries["libtiny_cuda.so"]
    assert again.libraries == wheel.libraries
    (work,) = cache_of(build_root / "edited").glob("kernelwheel/tiny/.build/kernelwheel-*/")
    deps = run(["ninja", "-t", "deps"], cwd=work / "build").stdout
    assert f"{work}/src/twice.h" in deps
    assert f"{work}/torch" not in deps
    assert f"{work}/cuda" not in deps
    assert (again.unpacked / NATIVE / "src/twice.cu").read_text() == original
