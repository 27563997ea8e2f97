"""Packages whose kernels are in parts: each part is found, compiled and loaded by itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from declared import extension
from editables import Editable, make_editable
from kernelwheel.project.package import PackageFacts, split_table
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.artifact.compatible import Wanted
from kernelwheel.runtime.artifact.content import Content, only, part_of, part_of_library
from kernelwheel.runtime.decision.decision import Request, decide
from kernelwheel.runtime.decision.snapshot import Snapshot, Sources
from kernelwheel.runtime.errors import SettingsError
from kernelwheel.runtime.settings import Settings
from kernelwheel.runtime.store.clearing import clear
from kernelwheel.runtime.store.store import Store
from kernelwheel.runtime.store.store_lock import making
from samples import CPU_LIBRARY, CUDA_MANIFEST, HOST

TABLE = '\n[tool.kernelwheel.parts]\nmain = ["one.cpp"]\ntwo = ["two*"]\n'
SOURCES = {
    "CMakeLists.txt": """cmake_minimum_required(VERSION 3.24)
project(tiny LANGUAGES CXX)
include(KernelWheel)
if("main" IN_LIST KERNELWHEEL_PARTS)
  kernelwheel_add_op_library(tiny_cpu SOURCES one.cpp)
endif()
if("two" IN_LIST KERNELWHEEL_PARTS)
  kernelwheel_add_op_library(tiny_cpu_two SOURCES two.cpp)
endif()
""",
    "one.cpp": '#include "both.h"\nextern "C" int tiny_one() { return BOTH; }\n',
    "two.cpp": '#include "both.h"\n#include "two.h"\nextern "C" int tiny_two() { return BOTH + TWO; }\n',
    "two.h": "#define TWO 2\n",
    "both.h": "#define BOTH 1\n",
}

# What is of which part


def content_of(facts: PackageFacts, **sources: str) -> Content:
    return facts.content("1.0", sources, {"cuda-flags": [], "cxx-flags": []})


def test_a_part_of_a_cmake_project_has_what_no_other_part_has() -> None:
    facts, _ = split_table(
        {"package": "tiny", "sources": "n", "torch-target": "2.10", "parts": {"two": ["two*"], "three": ["*3.cu"]}}
    )
    files = {"CMakeLists.txt": "0", "one.cpp": "1", "two.h": "2", "a3.cu": "3"}
    whole = content_of(facts, **files)

    assert whole["parts"] == {"main": [], "three": ["a3.cu"], "two": ["two.h"]}
    assert only(whole, "two")["sources"].keys() == {"CMakeLists.txt", "one.cpp", "two.h"}
    assert only(whole, "main")["sources"].keys() == {"CMakeLists.txt", "one.cpp"}
    assert only(whole, "") == whole
    assert only(only(whole, "two"), "two") == only(whole, "two")
    assert PackageFacts.from_content(only(whole, "two")).parts == {"two": ("two.h",)}
    assert [part_of_library(f"libx_{name}.so", whole) for name in ("cuda_two", "two_cuda", "3")] == [
        "two",
        "main",
        "main",
    ]


def test_extensions_that_are_apart_are_parts_of_their_own() -> None:
    one, two, three = (
        extension(name=f"p.{name}", sources=[f"{name}.cu"], cuda=need, apart=apart)
        for name, need, apart in (("one", "required", False), ("two", "required", True), ("three", "none", True))
    )
    parts = {"main": ("one.cu",), "p.two": ("two.cu",), "p.three": ("three.cu",)}
    facts = PackageFacts("p", ".", "2.10", extensions=(one, two, three), parts=parts)
    whole = content_of(facts, **{"one.cu": "1", "two.cu": "2", "three.cu": "3", "a.h": "4"})

    assert [part_of(name, whole) for name in ("p.one", "p.two")] == ["main", "p.two"]
    assert [each["name"] for each in only(whole, "main")["extensions"]] == ["p.one"]
    assert only(whole, "p.two")["sources"].keys() == {"two.cu", "a.h"}
    assert "cuda-flags" not in only(whole, "p.three")["options"]  # as in kernels of it that are compiled alone


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"a-b": ["x"]}, "parts is missing or malformed"),
        ("two", "parts is missing or malformed"),
        ({"two": "x"}, "parts is missing or malformed"),
        ({"two": ["none*"]}, r"parts.two names files that are not there"),
    ],
)
def test_parts_that_cannot_be_are_refused(parts: object, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        content_of(split_table({"package": "t", "sources": "n", "torch-target": "2.10", "parts": parts})[0], x="1")


# The decision

_CONTENT = {
    **CUDA_MANIFEST.content,
    "sources": {"CMakeLists.txt": "1", "one.cu": "2", "two.cu": "3"},
    "parts": {"main": ["one.cu"], "two": ["two.cu"]},
}
_CUDA = CUDA_MANIFEST.libraries[1]
_MANIFEST = CUDA_MANIFEST._replace(
    plan={**CUDA_MANIFEST.plan, "content": _CONTENT},
    libraries=(CPU_LIBRARY, _CUDA, _CUDA._replace(file="libtiny_cuda_two.so", sass=("12.0",), ptx=())),
)
STORE = Store(Path("/cache"), "tiny", "1.2.3")
WHEEL = Artifact(Path("/site/tiny/_native"), _MANIFEST)
TWO = Artifact(STORE.root / "two", _MANIFEST.only("two"), STORE.guard)
MAIN = Artifact(STORE.root / "main", _MANIFEST.only("main"), STORE.guard)


def at(*entries: Artifact, wheel: bool = True, capability: tuple[int, int] = (12, 0), **changed: str) -> Snapshot:
    settings = Settings.resolve("tiny", {}, {})
    content = {**_CONTENT, "sources": {**_CONTENT["sources"], **changed}}
    return Snapshot(
        "tiny", "1.2.3", WHEEL.folder, HOST._replace(capabilities=(capability,)), _MANIFEST if wheel else None, None,
        None, "auto", settings, Sources(content, Path("/src"), {}), Wanted("1.2.3", content), (STORE,), entries,
    )  # fmt: skip


def test_a_wheel_serves_each_of_its_parts_by_itself() -> None:
    two = decide(at(), Request("cuda", part="two"))

    assert two.artifact is not None
    assert [library.file for library in two.artifact.manifest.libraries] == ["libtiny_cuda_two.so"]
    assert decide(at(), Request("cuda", part="main")).outcome == "load"  # as PTX
    assert decide(at(capability=(9, 0)), Request("cuda", part="two")).outcome == "compile"
    assert decide(at(capability=(9, 0)), Request("cuda", part="main")).outcome == "load"


def test_an_entry_serves_its_own_part_alone_while_its_sources_are_the_same() -> None:
    def loads(part: str, **changed: str) -> Path | None:
        artifact = decide(at(MAIN, TWO, wheel=False, **changed), Request("cuda", part=part)).artifact
        return artifact and artifact.folder

    assert loads("two") == TWO.folder
    assert loads("main") == MAIN.folder
    assert loads("") is None  # all of it
    assert (loads("two", **{"one.cu": "9"}), loads("main", **{"one.cu": "9"})) == (TWO.folder, None)
    assert (loads("two", **{"CMakeLists.txt": "9"}), loads("main", **{"CMakeLists.txt": "9"})) == (None, None)


def test_a_part_that_is_not_declared_fails_before_anything_is_compiled() -> None:
    found = decide(at(), Request("cuda", part="three"))

    assert found.outcome == "fail"
    assert "no part three is declared: main, two" in found.because


# By a compiler


@pytest.fixture
def project(tmp_path: Path) -> Editable:
    (tmp_path / "project").mkdir()
    made = make_editable(tmp_path / "project", SOURCES)
    made.change("pyproject.toml", "\n[project]", f"{TABLE}\n[project]")
    return made


def require(*parts: str) -> str:
    calls = "".join(f'tiny.KERNELS.require("cpu", part="{part}")\n' for part in parts)
    return f'import tiny, json\n{calls}print(json.dumps(tiny.KERNELS.info()["loaded"]))'


@pytest.mark.slow
@pytest.mark.once
def test_a_call_compiles_its_part_alone_beside_another_and_they_are_cleared_together(project: Editable) -> None:
    two = project.store._replace(part="two")
    with making(two, print):
        first = project.python(require("main"))  # waits for nobody
        assert clear(project.store).skipped == ["version 1.2.3: in use by another process; try again when it is done"]
    assert "no main CPU kernels for this machine" in first.stderr
    assert project.compiled() == ["one.cpp"]

    loaded = json.loads(project.python(require("main", "two")).stdout)
    assert project.compiled() == ["one.cpp", "two.cpp"]
    assert loaded.keys() == {"cpu", "two cpu"}
    assert loaded["cpu"] == json.loads(first.stdout)["cpu"]
    assert [path.name for path in Path(loaded["two cpu"]).glob("*.so")] == ["libtiny_cpu_two.so"]
    places = [removed.parent for removed in clear(project.store).removed]
    assert places == [project.store.root] * 2 + [project.store.builds]


BUILD = """
import sys
import tiny
from kernelwheel.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.minutes
@pytest.mark.slow
@pytest.mark.once
def test_commands_make_and_show_each_part_or_those_that_are_named(project: Editable) -> None:
    script = f"import sys; sys.argv[1:] = WORDS\n{BUILD}"

    def run(*words: str) -> str:
        return project.python(script.replace("WORDS", repr([*words]))).stdout

    one = run("cache", "build", "tiny", "--cuda", "off", "--only", "two")
    both = run("cache", "build", "tiny", "--cuda", "off")
    shown = run("cache", "explain", "tiny", "--cuda", "off")
    listed = run("cache", "list", "tiny")

    assert one.startswith("compiled: two: CPU\n")
    assert both.splitlines()[::2] == ["compiled: main: CPU", "nothing to compile, a store has it: two: CPU"]
    assert project.compiled() == ["one.cpp", "two.cpp"]
    assert shown.startswith("main CPU kernels: in ")
    assert "\ntwo CPU kernels: in " in shown
    assert all(f"  {part}: CPU  fits" in listed for part in ("main", "two"))
    report = run("doctor", "tiny")
    for part in ("main", "two"):
        assert re.search(rf"^  CPU {part} +loads: the kernels in the store fit", report, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.once
def test_a_library_that_is_of_no_part_that_is_made_is_refused(project: Editable) -> None:
    project.change("native/CMakeLists.txt", "tiny_cpu_two", "tiny_cpu_tow")

    error = project.failure(require("two"))

    assert "the libraries are not those of the parts that are declared" in error
    assert "libtiny_cpu_tow.so of main" in error
