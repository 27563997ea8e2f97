"""What was verified is what is loaded, whatever happens to the library's folder in between."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from kernelwheel.runtime import loading
from kernelwheel.runtime.artifact import manifest as manifests
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.artifact.manifest import Library, Manifest
from kernelwheel.runtime.errors import IncompatibleArtifactError, KernelWheelError, UnreadableArtifactError
from kernelwheel.runtime.machine import platforms
from kernelwheel.runtime.store.store import Store
from samples import BUILT_WITH, PLAN, REQUIRES

SHOTS = int(os.environ.get("SPLAT_TEST_SHOTS", "30"))
SOURCE = """
#include <stdlib.h>
__attribute__((constructor)) static void mark(void) { setenv("LOADED_BYTES", NAME, 1); }
#ifdef MODULE
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "one", 0, 0, 0, 0, 0, 0, 0};
PyMODINIT_FUNC PyInit_one(void) { return PyModuleDef_Init(&definition); }
#endif
"""
OPERATORS, MODULE = "libtiny_cpu.so", "one.so"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `right` and `foreign`, each with two libraries that leave the folder's name in the environment."""
    folder = tmp_path_factory.mktemp("libraries")
    (folder / "one.c").write_text(SOURCE)
    for name in ("right", "foreign"):
        (folder / name).mkdir()
        for file, more in ((OPERATORS, []), (MODULE, ["-DMODULE", f"-I{sysconfig.get_path('include')}"])):
            words = ["cc", "-shared", "-fPIC", f'-DNAME="{name}"', *more, str(folder / "one.c")]
            subprocess.run([*words, "-o", folder / name / file], check=True)
    return folder


def described(file: Path, module: str | None) -> Library:
    data = file.read_bytes()
    return Library(file.name, hashlib.sha256(data).hexdigest(), len(data), "cpu", module=module)


@pytest.fixture(params=["wheel", "store"])
def artifact(request: pytest.FixtureRequest, tmp_path: Path, libraries: Path) -> Artifact:
    """The `right` libraries in a wheel's folder or a store, with the `foreign` ones in a folder beside it."""
    store = Store(tmp_path / "cache", "tiny", "1.2.3") if request.param == "store" else None
    folder = store.root / ("f" * 64) if store else tmp_path / "tiny" / "_native"
    shutil.copytree(libraries / "right", folder)
    shutil.copytree(libraries / "foreign", folder.with_name("foreign"))
    found = (described(folder / OPERATORS, None), described(folder / MODULE, "one"))
    manifest = Manifest("tiny", "1.2.3", "f" * 64, "5" * 64, PLAN, {}, BUILT_WITH, REQUIRES, found)
    return Artifact(folder, manifest, store.guard if store else None)


def swap_folders(folder: Path) -> None:
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.with_name("foreign").rename(folder)
    aside.rename(folder.with_name("foreign"))


def swap_files(folder: Path) -> None:
    for path in folder.with_name("foreign").iterdir():
        path.replace(folder / path.name)


def load(artifact: Artifact) -> None:
    loading.load_operators(artifact, "cpu")


def import_one(artifact: Artifact) -> None:
    loading.load_module("tiny", "one", artifact)


def load_extension(artifact: Artifact) -> None:
    """The library of operators, as an extension's."""
    plan = {
        **PLAN,
        "content": {**PLAN["content"], "extensions": [{"name": "libtiny_cpu", "cuda": "none", "archs": []}]},
    }
    loading.load_module("tiny", "libtiny_cpu", artifact._replace(manifest=artifact.manifest._replace(plan=plan)))


def import_extension(artifact: Artifact) -> None:
    plan = {**PLAN, "content": {**PLAN["content"], "extensions": [{"name": "one", "cuda": "none", "archs": []}]}}
    loading.load_module("tiny", "one", artifact._replace(manifest=artifact.manifest._replace(plan=plan)))


every_way = pytest.mark.parametrize("use", [load, import_one, load_extension, import_extension])


def descriptors() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def in_child(act: Callable[[], object]) -> Any:
    """What a forked child finds, as JSON values: a library cannot be loaded twice in one process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writing, "w", encoding="utf-8") as said:
            try:
                json.dump(act(), said)
            except BaseException:
                traceback.print_exc()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as said:
        text = said.read()
    os.waitpid(child, 0)
    assert text, "the child failed"
    return json.loads(text)


def loaded() -> str:
    """The name that the last library to be loaded has left."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    return (getenv(b"LOADED_BYTES") or b"").decode()


@every_way
@pytest.mark.parametrize("swap", [swap_folders, swap_files])
def test_libraries_that_are_swapped_after_they_were_verified_are_not_loaded(
    artifact: Artifact, use: Callable[[Artifact], None], swap: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = manifests.stream_sha256

    def digest_and_swap(stream: Any) -> str:
        found = digest(stream)
        swap(artifact.folder)
        return found

    monkeypatch.setattr(manifests, "stream_sha256", digest_and_swap)

    def act() -> str:
        use(artifact)
        return loaded()

    assert in_child(act) == "right"
    for file in (OPERATORS, MODULE):
        assert hashlib.sha256((artifact.folder / file).read_bytes()).hexdigest() not in [
            library.sha256 for library in artifact.manifest.libraries
        ], "they were swapped"


@pytest.mark.parametrize("artifact", ["store"], indirect=True)
def test_libraries_that_are_swapped_all_the_time_are_loaded_as_verified_or_not_at_all(artifact: Artifact) -> None:
    swapping = os.fork()
    if not swapping:
        while True:
            with suppress(OSError):
                swap_folders(artifact.folder)

    def act() -> str:
        try:
            load(artifact)
        except (KernelWheelError, OSError):
            return "refused"
        return loaded()

    try:
        outcomes = [in_child(act) for _ in range(SHOTS // 2)]
    finally:
        os.kill(swapping, signal.SIGKILL)
        os.waitpid(swapping, 0)

    print({outcome: outcomes.count(outcome) for outcome in outcomes})
    assert {*outcomes} <= {"right", "refused"}


# Names: the file is named by all that name libraries


@every_way
def test_a_loaded_library_has_the_name_of_its_file(artifact: Artifact, use: Callable[[Artifact], None]) -> None:
    def act() -> list[str]:
        use(artifact)
        mapped = [line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines()]
        return [name for name in dict.fromkeys(mapped) if name.startswith(str(artifact.folder))]

    file = MODULE if use in (import_one, import_extension) else OPERATORS
    assert in_child(act) == [str(artifact.folder / file)]


@every_way
def test_what_the_loader_was_given_leads_debuggers_to_the_file(
    artifact: Artifact, use: Callable[[Artifact], None]
) -> None:
    """gdb opens the path that the loader knows, from its own process."""

    def act() -> list[str]:
        before = set(platforms._given)  # by the tests before this one
        use(artifact)
        other = [sys.executable, "-c", "import os, sys; print(os.path.realpath(sys.argv[1]))"]
        return [
            subprocess.run([*other, path], capture_output=True, text=True, check=True).stdout
            for path in platforms._given - before
        ]

    file = MODULE if use in (import_one, import_extension) else OPERATORS
    assert in_child(act) == [f"{artifact.folder / file}\n"]


def test_operators_are_in_torch_s_list_of_loaded_libraries(artifact: Artifact) -> None:
    def act() -> list[str]:
        load(artifact)
        return sorted(torch.ops.loaded_libraries)

    assert str(artifact.folder / OPERATORS) in in_child(act)


def test_a_module_names_its_file(artifact: Artifact) -> None:
    def act() -> list[Any]:
        module: Any = loading.load_module("tiny", "one", artifact)
        return [module.__file__, module.__spec__.origin, module.__loader__.path, repr(module), module.__name__]

    file = str(artifact.folder / MODULE)
    name = "tiny._native.one"
    assert in_child(act) == [file, file, file, f"<module {name!r} from {file!r}>", name]


@every_way
def test_an_error_of_the_loader_names_the_file(artifact: Artifact, use: Callable[[Artifact], None]) -> None:
    text = b"no library"
    for file in (OPERATORS, MODULE):
        (artifact.folder / file).write_bytes(text)
    libraries = [
        library._replace(sha256=hashlib.sha256(text).hexdigest(), size=len(text))
        for library in artifact.manifest.libraries
    ]
    broken = artifact._replace(manifest=artifact.manifest._replace(libraries=tuple(libraries)))
    before = len(descriptors())

    with pytest.raises(IncompatibleArtifactError, match="cannot be loaded") as caught:
        use(broken)

    file = MODULE if use in (import_one, import_extension) else OPERATORS
    assert f"{artifact.folder / file}: " in caught.value.found
    assert "/fd/" not in str(caught.value)
    assert len(descriptors()) == before


def test_an_entry_is_not_damaged_where_a_library_that_it_needs_is_missing(artifact: Artifact, tmp_path: Path) -> None:
    """As without the LD_LIBRARY_PATH of another process, for which it is right."""
    for words in (["-o", "libelse.so"], ["-o", OPERATORS, "-Wl,--no-as-needed", "-L.", "-lelse"]):
        subprocess.run(["gcc", "-shared", "-xc", os.devnull, "-xnone", *words], cwd=tmp_path, check=True)
    file = tmp_path / OPERATORS
    shutil.copy(file, artifact.folder)
    library = artifact.manifest.libraries[0]._replace(
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(), size=file.stat().st_size
    )
    lacking = artifact._replace(manifest=artifact.manifest._replace(libraries=(library,)))

    with pytest.raises(IncompatibleArtifactError, match="cannot be loaded") as caught:
        load(lacking)

    assert caught.value.found.startswith("libelse.so: ")
    assert (type(caught.value) is UnreadableArtifactError) == bool(artifact.guard)


# The loader takes two libraries of one name for one


def test_a_library_is_not_taken_for_another_whose_descriptor_was_closed(artifact: Artifact, libraries: Path) -> None:
    """A program may close descriptors that are not its own, as daemons do."""
    others = [described(libraries / "foreign" / OPERATORS, None)]
    other = Artifact(libraries / "foreign", artifact.manifest._replace(libraries=tuple(others)))

    def act() -> list[str]:
        names = []
        for each in (artifact, other):
            load(each)
            names.append(loaded())
            (path,) = (path for path in Path("/proc/self/fd").iterdir() if path.resolve() == each.folder / OPERATORS)
            os.close(int(path.name))
        return names

    assert in_child(act) == ["right", "foreign"]


def test_a_forked_child_loads_another_library(artifact: Artifact, libraries: Path) -> None:
    others = [described(libraries / "foreign" / OPERATORS, None)]
    other = Artifact(libraries / "foreign", artifact.manifest._replace(libraries=tuple(others)))

    def act() -> list[str]:
        load(artifact)
        return [loaded(), in_child(lambda: load(other) or loaded())]

    assert in_child(act) == ["right", "foreign"]


def test_the_descriptor_is_not_inherited_by_programs(artifact: Artifact) -> None:
    def act() -> bool:
        load(artifact)
        command = [sys.executable, "-c", "import os; print([os.readlink(f'/proc/self/fd/{n}') for n in range(3, 64) "
                   "if os.path.exists(f'/proc/self/fd/{n}')])"]  # fmt: skip
        return OPERATORS in subprocess.run(command, capture_output=True, text=True, check=True, close_fds=False).stdout

    assert in_child(act) is False
