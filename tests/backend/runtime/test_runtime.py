"""Which Artifact is used and what is rejected, as far as no compiler is needed to decide."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from editables import SMALL, make_editable
from folders import BACKEND
from kept import build_cpu, fill, find_cpu, kernels_of
from kernelwheel.cli import doctor
from kernelwheel.runtime import Kernels
from kernelwheel.runtime import kernels as runtime
from kernelwheel.runtime.artifact import manifest as manifests
from kernelwheel.runtime.artifact.manifest import Library, Manifest
from kernelwheel.runtime.errors import IncompatibleArtifactError, SettingsError
from kernelwheel.runtime.progress import printer
from kernelwheel.runtime.record import remembered
from kernelwheel.runtime.store.store import Store
from processes import RunPython
from samples import rewrite_manifest, with_cuda

pytestmark = pytest.mark.once


@pytest.fixture
def wheel(entry: Path, tmp_path: Path) -> Path:
    """The folder of a wheel's Artifact as installed, with CPU kernels."""
    native = tmp_path / "site" / "tiny" / "_native"
    shutil.copytree(entry, native)
    return native


@pytest.fixture
def store(entry: Path, tmp_path: Path) -> Store:
    """A store with the same kernels."""
    store = Store(tmp_path / "store", "tiny", "1.2.3")
    fill(store, entry)
    return store


def installed(native: Path, store: Store, **environ: str) -> Kernels:
    return Kernels("tiny", "1.2.3", native, {"TINY_CACHE_DIR": str(store.folder), **environ})


def test_a_wheel_takes_entries_of_its_own_sources_alone(wheel: Path, store: Store) -> None:
    same = find_cpu(installed(wheel, store, TINY_JIT="always"))
    rewrite_manifest(wheel, lambda values: values["plan"]["content"]["sources"].update({"new.cpp": "0" * 64}))

    assert same is not None
    assert same.folder.parent == store.root
    with pytest.raises(IncompatibleArtifactError, match="no sources are installed to compile from"):
        find_cpu(installed(wheel, store, TINY_JIT="always"))


# GPUs of two generations


def cuda_kernels(entry: Path, folder: Path, *sass: str) -> Manifest:
    """The Artifact of an entry with an additional CUDA library, which is never loaded."""
    shutil.copytree(entry, folder, dirs_exist_ok=True)
    (folder / "libtiny_cuda.so").write_bytes(b"code")
    library = Library("libtiny_cuda.so", hashlib.sha256(b"code").hexdigest(), 4, "cuda", sass)
    rewrite_manifest(folder, lambda values: with_cuda(values, library, sass=sass))
    made = manifests.read(folder)
    assert made is not None
    return made


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[Kernels], list[Path]]:
    """Make a GPU of 8.0 and one of 12.0 visible to kernels; returns the folders that CUDA kernels are loaded from."""

    def see(kernels: Kernels) -> list[Path]:
        loaded: list[Path] = []
        gpus = ((8, 0), (12, 0))
        kernels.host = kernels.host._replace(cuda="13.0", driver=(13, 0), capabilities=gpus)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: gpus[index])
        monkeypatch.setattr(
            runtime, "load_operators", lambda found, name: loaded.append(found.folder) if name == "cuda" else None
        )
        return loaded

    return see


def test_a_gpu_that_the_loaded_kernels_do_not_serve_is_refused(
    entry: Path, tmp_path: Path, store: Store, two_gpus: Callable[[Kernels], list[Path]]
) -> None:
    native = tmp_path / "site" / "tiny" / "_native"
    cuda_kernels(entry, native, "8.0")
    kernels = installed(native, store)
    loaded = two_gpus(kernels)

    kernels.require("cuda", 0)
    for _ in range(2):
        with pytest.raises(IncompatibleArtifactError) as caught:
            kernels.require("cuda", 1)
    kernels.require("cuda", 0)

    assert loaded == [native]
    assert "12.0" in caught.value.required
    assert f"{native} is in use" in caught.value.found
    assert "cache build" in caught.value.remedies[0]


# files that cannot be read at the moment


def test_doctor_predicts_the_damage_that_a_call_meets(
    entry: Path, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = tmp_path / "site" / "tiny" / "_native"
    cuda_kernels(entry, native, "9.0")
    (native / "libtiny_cuda.so").write_bytes(b"cude")
    kernels = installed(native, store)
    seen = kernels.host._replace(cuda="13.0", driver=(13, 0), capabilities=((9, 0),))
    monkeypatch.setattr(runtime.hosts, "with_gpus", lambda host: seen)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))

    cpu, cuda = doctor.examine(kernels, {}, sys.path)["next"]

    assert (cpu["outcome"], cuda["outcome"]) == ("load", "fail")
    assert "libtiny_cuda.so" in cuda["because"]
    with pytest.raises(IncompatibleArtifactError, match="damaged"):
        kernels.require("cuda", 0)


# options


def test_a_compile_from_a_wheel_has_the_options_of_the_package(wheel: Path, store: Store) -> None:
    table = "[tool.kernelwheel]"
    said = {
        "cxx-flags": {"value": ["-DA=x y", "-DB"], "origin": table},
        "link-flags": {"value": ["-s"], "origin": "environment variable LDFLAGS"},
        "archs": {"value": "8.0", "origin": table},
        "cxx": {"value": None, "origin": table},
    }
    rewrite_manifest(wheel, lambda values: values["built_with"].update(settings=said))
    (wheel / "src").mkdir()
    (wheel / "src" / "CMakeLists.txt").touch()

    settings = installed(wheel, store).installed.settings

    assert settings.cxx_flags == ("-DA=x y", "-DB")
    assert str(settings.origin("cxx-flags")) == table
    assert (settings.link_flags, settings.archs) == ((), ""), "those were that builder's"


def test_an_editable_install_takes_no_kernels_that_were_made_with_other_options(
    entry: Path, tiny_checkout: Path, store: Store
) -> None:
    def serves(**environ: str) -> bool:
        return find_cpu(kernels_of(tiny_checkout, store.folder, **environ)) is not None

    assert serves()
    assert not serves(CXXFLAGS="-O0")
    assert not serves(LDFLAGS="-Wl,--build-id")
    assert serves(CUDAFLAGS="-lineinfo"), "they reach no CPU kernels"


@pytest.mark.slow
def test_sources_that_were_edited_after_the_first_look_are_compiled_as_they_are(tmp_path: Path) -> None:
    editable = make_editable(tmp_path, SMALL)
    kernels = kernels_of(editable.checkout, editable.cache)
    assert find_cpu(kernels) is None
    before = kernels.installed.wanted.content["sources"]

    editable.change("native/one.h", "1", "11")
    found = build_cpu(kernels)

    assert found.manifest.content["sources"] == kernels.installed.wanted.content["sources"] != before
    kernels.installed.in_use = True  # as if they were loaded
    editable.change("native/one.h", "11", "12")
    with pytest.raises(IncompatibleArtifactError, match="restart the program"):
        kernels.installed.read_sources_again()


@pytest.mark.parametrize("text", ["[tool", 'x = "\\xff"'], ids=["half a line", "no UTF-8"])
def test_a_checkout_whose_project_cannot_be_read_is_imported_and_says_so(tmp_path: Path, text: str) -> None:
    editable = make_editable(tmp_path, SMALL)
    (editable.checkout / "pyproject.toml").write_bytes(text.encode().replace(b"\\xff", b"\xff"))
    kernels = kernels_of(editable.checkout, editable.cache)

    kernels.load_if_usable()

    with pytest.raises(SettingsError, match=r"pyproject\.toml cannot be read"):
        kernels.require("cpu")
    assert "pyproject.toml cannot be read" in str(doctor.examine(kernels, os.environ, sys.path)["findings"])


# what it imports


def test_what_a_user_s_process_imports_is_torch_and_the_standard_library() -> None:
    runtime = BACKEND / "kernelwheel" / "runtime"
    trees = {path: [*ast.walk(ast.parse(path.read_text()))] for path in runtime.rglob("*.py")}
    nodes = [node for tree in trees.values() for node in tree]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}

    tops = {name.partition(".")[0] for name in names}
    assert tops - sys.stdlib_module_names <= {"torch", "typing_extensions"}, "torch has the last"
    for path, tree in trees.items():
        within = len(path.relative_to(runtime).parts)
        assert [node.lineno for node in tree if isinstance(node, ast.ImportFrom) and node.level > within] == []
    assert len(trees) > 5


# odd processes


CLOSED = """
import os, sys
from kernelwheel.runtime.progress import print_line, printer
if sys.argv[1] == "closed":
    sys.stderr = None
else:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 2)
printer("tiny")("[1/2] CXX one.cpp")
print_line("done", to_stdout=True)
"""


@pytest.mark.parametrize("how", ["closed", "its reader is gone"])
def test_a_compile_goes_on_where_nobody_reads_what_it_says(run_python: RunPython, how: str) -> None:
    assert run_python(CLOSED, how, path=[BACKEND]).stdout == "done\n"


def test_a_line_of_progress_is_written_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two, another thread's line would come."""
    written: list[str] = []
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=written.append, flush=lambda: None))

    printer("tiny")("[1/2] CXX one.cpp")

    assert list(filter(None, written)) == ["tiny: [1/2] CXX one.cpp\n"]


class Slow:
    """Something with a remembered value that blocks until it is released."""

    started, end = threading.Event(), threading.Event()

    @remembered
    def value(self) -> int:
        """A number."""
        if threading.current_thread() is not threading.main_thread():
            self.started.set()
            self.end.wait()
        return 7


def test_a_fork_waits_for_no_thread_that_it_does_not_have() -> None:
    slow = Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    slow.started.wait()
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(10)
        os._exit(slow.value)
    _, status = os.waitpid(child, 0)
    slow.end.set()
    thread.join()

    assert os.waitstatus_to_exitcode(status) == 7
    assert "value" in vars(slow)
