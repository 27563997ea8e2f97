"""What is compiled at first use, and when: the policy, the key, and the stores that are looked in."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import Wheel, contents, needs_cuda_torch
from editables import REQUIRE, Editable, make_user, one_gpu
from kept import relabel
from kernelwheel.cli.manifest_text import manifest_text
from patched_compiler import patched_compiler
from samples import rewrite_manifest

LOADED = 'print(tiny.KERNELS.info()["loaded"])'


@pytest.fixture
def installed(cpu_wheel: Wheel, tmp_path: Path) -> Editable:
    """A user of an installed wheel of CPU kernels, which has a copy of its files."""
    shutil.copytree(cpu_wheel.unpacked, tmp_path / "site")
    return make_user(tmp_path / "site", tmp_path / "user")


def native(installed: Editable) -> Path:
    return installed.checkout / "tiny" / "_native"


# When


def test_nothing_is_compiled_at_import_and_the_first_call_says_why_what_and_where(small: Editable) -> None:
    """One that fails quotes the compiler and keeps its log, and the next call may succeed."""
    small.change("native/one.cpp", "return ONE", "return std::bad_alloc")  # no word of a lack of memory
    imported = small.python(f"import tiny; {LOADED}")

    assert (imported.stdout, imported.stderr) == ("{}\n", "")
    assert not small.cache.exists()

    failed = small.failure(MAX_JOBS="2")
    assert "did not compile (exit status" in failed
    assert small.compiled().count("one.cpp") == 1
    (log,) = (Path(line.rpartition(" ")[2]) for line in failed.splitlines() if line.endswith("build.log"))
    assert "bad_alloc" in log.read_text()
    assert list((small.store.root / ".work").iterdir()) == []

    (small.folder / "calls").unlink()
    small.change("native/one.cpp", "return std::bad_alloc", "return ONE")
    done = small.python(REQUIRE)
    said = done.stderr.splitlines()
    assert "no CPU kernels for this machine" in said[0]
    assert "editable" in said[0]
    assert any("CXX one.cpp" in line for line in said)
    assert said[-1].endswith(done.stdout.strip())
    assert "one.cpp" in small.compiled()


def test_the_second_process_finds_it_at_import_and_says_nothing(compiled: Editable) -> None:
    done = compiled.python(f"import tiny; {LOADED}")

    assert str(compiled.store.root) in done.stdout
    assert done.stderr == ""
    assert compiled.compiled() == []


def test_an_upgrade_makes_its_own_entry_and_a_downgrade_finds_the_old_one_again(small: Editable) -> None:
    old = small.python(REQUIRE).stdout
    small.change("tiny/__init__.py", "1.2.3", "1.2.4")
    small.change("pyproject.toml", "1.2.3", "1.2.4")
    before = contents(small.store.root)
    upgraded = small.python(REQUIRE)
    small.change("tiny/__init__.py", "1.2.4", "1.2.3")

    assert str(small.cache / "tiny" / "1.2.4") in upgraded.stdout
    assert "tiny 1.2.4" in upgraded.stderr
    assert contents(small.store.root) == before
    assert small.python(REQUIRE).stdout == old
    assert small.compiled() == ["one.cpp", "two.cpp"]  # an upgrade that changes no source compiles none


# The setting


@pytest.mark.minutes
def test_always_compiles_the_wheel_s_own_sources_once_to_the_wheel_s_own_library(
    installed: Editable, cpu_wheel: Wheel
) -> None:
    done = installed.python(REQUIRE, TINY_JIT="always")
    again = installed.python(REQUIRE, TINY_JIT="always")

    assert str(installed.store.root) in done.stdout
    assert "jit is always (environment variable TINY_JIT)" in done.stderr
    assert again.stdout == done.stdout
    assert installed.compiled() == ["twice.cpp"]
    (entry,) = installed.store.entries()
    assert entry.manifest.content == cpu_wheel.manifest["plan"]["content"]  # by a script, which tools have
    assert (entry.folder / "libtiny_cpu.so").read_bytes() == cpu_wheel.libraries["libtiny_cpu.so"]


# What a compile does not cure


def refused_by_the_loader(folder: Path) -> None:
    """Let an Artifact have a library that is what its manifest says, and no library."""
    (folder / "libtiny_cpu.so").write_bytes(b"no library")
    library = {"sha256": hashlib.sha256(b"no library").hexdigest(), "size": 10}
    rewrite_manifest(folder, lambda values: values["libraries"][0].update(library))


def test_a_wheel_whose_library_the_loader_refuses_is_imported_and_says_so_at_use(installed: Editable) -> None:
    refused_by_the_loader(native(installed))

    assert installed.python(f"import tiny; {LOADED}").stdout == "{}\n"
    said = installed.failure()

    assert said.startswith("errors.IncompatibleArtifactError: the compiled kernels cannot be loaded")
    assert f"{native(installed)}/libtiny_cpu.so: file too short" in said
    assert "reinstall" in said
    assert installed.compiled() == []


# A damaged entry


def test_an_entry_that_the_loader_refuses_is_put_away_and_the_next_one_is_taken(compiled: Editable) -> None:
    (whole,) = compiled.store.entries()
    for number in itertools.count():
        first = relabel(compiled.store, whole.folder, cxx_version=f"99.{number}").name
        if first < whole.folder.name:  # so that it is looked at first
            break
        shutil.rmtree(compiled.store.root / first)
    refused_by_the_loader(compiled.store.root / first)

    done = compiled.python(REQUIRE)

    assert done.stdout == f"{whole.folder}\n"
    assert "libtiny_cpu.so: file too short" in done.stderr
    assert [path.name.partition(".")[0] for path in (compiled.store.root / ".quarantine").iterdir()] == [first]
    assert compiled.compiled() == []


LITTLE_MEMORY = """
import re, resource, sys, torch
size = int(re.search(r"VmSize:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (300 << 20), -1))
import tiny
from tiny._kernelwheel.errors import UnreadableArtifactError
try:
    tiny.KERNELS.require("cpu")
except UnreadableArtifactError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
tiny.KERNELS.require("cpu")
"""


@pytest.mark.minutes
def test_an_entry_that_the_loader_has_no_memory_for_now_stays(small: Editable) -> None:
    """The library wants a gigabyte of its own."""
    small.change("native/two.cpp", "{ return 2; }", "{ return 2; }\nchar room[1 << 30];")
    made = small.python(REQUIRE).stdout

    done = small.python(LITTLE_MEMORY)

    assert "cannot be loaded right now" in done.stdout
    assert "failed to map segment" in done.stdout
    assert small.python(REQUIRE).stdout == made
    assert small.compiled() == ["one.cpp", "two.cpp"]


# CPU kernels of a wheel go on, whatever the store is like


def unsafe(user: Editable) -> None:
    user.store.root.mkdir(parents=True)
    user.store.root.chmod(0o777)


def damaged(user: Editable) -> None:
    (user.store.root / ("0" * 64)).mkdir(parents=True)
    (user.store.root / ("0" * 64) / "manifest.json").write_text("{")


# What is done to the user's cache, and what the environment says, with {cache} and {folder}; those that a call refuses.
REFUSED: dict[str, tuple[Callable[[Editable], object] | None, dict[str, str]]] = {
    "a relative store": (None, {"TINY_CACHE_DIR": "cache"}),
    "an unsafe store": (unsafe, {}),
}
STATES = {
    **REFUSED,
    "a damaged store": (damaged, {}),
    "a damaged read-only store": (damaged, {"TINY_CACHE_PATH": "{cache}", "TINY_CACHE_DIR": "{folder}/own"}),
    "no home": (None, {"HOME": "", "TINY_CACHE_DIR": "", "XDG_CACHE_HOME": ""}),
}


def put_into(user: Editable, state: str) -> dict[str, str]:
    act, environ = STATES[state]
    if act:
        act(user)
    return {name: value.format(cache=user.cache, folder=user.folder) for name, value in environ.items()}


@pytest.mark.parametrize("state", STATES)
def test_cpu_kernels_of_a_wheel_go_on(installed: Editable, state: str) -> None:
    script = f"""
import tiny, torch
tiny.KERNELS.require("cpu")
assert torch.ops.tiny.twice(torch.arange(4.0)).tolist() == [0.0, 2.0, 4.0, 6.0]
{LOADED}
"""
    done = installed.python(script, **put_into(installed, state))

    assert str(native(installed)) in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("state", REFUSED)
def test_an_import_without_kernels_goes_on_and_the_call_says_what_is_wrong(small: Editable, state: str) -> None:
    env = put_into(small, state)

    assert small.python("import tiny", **env).stderr == ""
    said = small.failure(**env)
    assert "required:" in said
    assert "found:" in said
    assert "to fix:" in said


# Read-only stores


def snapshot(folder: Path) -> list[tuple[str, int, int, int]]:
    paths = [folder, *sorted(folder.rglob("*"))]
    return [(str(path), path.stat().st_mode, path.stat().st_mtime_ns, path.stat().st_ino) for path in paths]


def test_read_only_stores_are_looked_in_first_and_never_written_to(compiled: Editable) -> None:
    own = compiled.folder / "own"
    shutil.copytree(compiled.cache, own)
    before = snapshot(compiled.cache)
    done = compiled.python(
        REQUIRE,
        TINY_CACHE_DIR=str(own),
        TINY_CACHE_PATH=os.pathsep.join([str(compiled.folder / "nowhere"), str(compiled.cache)]),
    )

    assert str(compiled.cache) in done.stdout
    assert compiled.compiled() == []
    assert snapshot(compiled.cache) == before


def test_a_damaged_entry_of_a_read_only_store_is_an_error_that_names_it(compiled: Editable) -> None:
    (entry,) = compiled.store.entries()
    (entry.folder / "libtiny_cpu.so").write_bytes(b"")
    before = snapshot(compiled.cache)
    said = compiled.failure(TINY_CACHE_DIR=str(compiled.folder / "own"), TINY_CACHE_PATH=str(compiled.cache))

    assert "damaged" in said
    assert f"remove {entry.folder}" in said
    assert "TINY_CACHE_PATH" in said
    assert snapshot(compiled.cache) == before


# CUDA


GPU = f'{one_gpu(9, 0)}tiny.KERNELS.require("cuda", 0)\n'


@needs_cuda_torch
def test_a_cpu_wheel_beside_a_torch_with_cuda_compiles_cuda_kernels_for_the_gpu_that_is_there(
    installed: Editable,
) -> None:
    script = f"""{GPU}
loaded = tiny.KERNELS.info()["loaded"]
assert loaded["cpu"] != loaded["cuda"]
assert loaded["cuda"] + "/libtiny_cuda.so" in open("/proc/self/maps").read()
{LOADED}
"""
    done = installed.python(script)
    again = installed.python(script)

    (entry,) = installed.store.entries()
    (library,) = entry.manifest.libraries_for("cuda")
    assert library.sass == ("9.0",)
    assert str(entry.folder) in done.stdout
    assert str(native(installed)) in done.stdout
    assert "CUDA twice.cu" in done.stderr
    assert (again.stdout, again.stderr) == (done.stdout, "")
    # The wheel's library is loaded already, and not compiled again.
    assert "twice.cpp" not in done.stderr
    assert "with libtiny_cpu.so of the wheel" in done.stderr
    taken = native(installed) / "libtiny_cpu.so"
    assert (entry.folder / "libtiny_cpu.so").read_bytes() == taken.read_bytes()
    assert entry.manifest.plan["tools"]["taken"] == {"libtiny_cpu.so": hashlib.sha256(taken.read_bytes()).hexdigest()}
    assert re.search(r"^ *of the wheel +libtiny_cpu.so$", manifest_text(entry.manifest), re.MULTILINE)


@pytest.mark.minutes
@needs_cuda_torch
def test_a_wheel_s_library_is_compiled_again_with_other_flags(installed: Editable) -> None:
    done = installed.python(GPU, CXXFLAGS="-DOTHER")

    (entry,) = installed.store.entries()
    assert "CXX twice.cpp" in done.stderr
    assert entry.manifest.plan["tools"]["taken"] == {}


@pytest.mark.minutes
@needs_cuda_torch
def test_a_library_that_changes_while_it_is_taken_is_not_in_an_entry(installed: Editable) -> None:
    change = """
from kernelwheel.runtime.artifact.artifact import Artifact
opened = Artifact.open_library
def open_and_change(artifact, library):
    descriptor = opened(artifact, library)
    with (artifact.folder / library.file).open("ab") as stream:
        stream.write(b"x")
    return descriptor
Artifact.open_library = open_and_change
"""
    program = patched_compiler(installed.folder, change)
    script = f"""
from pathlib import Path
from tiny._kernelwheel import compiler_process
compiler_process.program = lambda: Path({str(program)!r})
"""
    said = installed.failure(GPU.replace("tiny.KERNELS", script + "tiny.KERNELS"))

    assert "it has changed meanwhile" in said
    assert list(installed.store.entries()) == []
