"""Extensions declared in tables: what is read, which files are meant, and what is refused before anything compiles."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from declared import HEAD, LIGHT, TABLE, extension, make_package
from kernelwheel.compiler.cmake_inputs import MODULES, as_one, cmake_lists
from kernelwheel.compiler.plan import Plan
from kernelwheel.compiler.tools import CMAKE_VERSION
from kernelwheel.packing import module_files, setuptools_project
from kernelwheel.project.extension import KEYS, Extension, from_plan, read_extensions, to_json
from kernelwheel.project.package import PackageFacts, read_project, split_table
from kernelwheel.project.source_files import files_of, find_sources, source_digests
from kernelwheel.reference import keys_table
from kernelwheel.runtime.errors import BuildError, SettingsError
from packaging.specifiers import SpecifierSet
from scikit_build_core.cmake import CMake
from standins import Machine, make_machine, settings_with
from standins import plan_of as drawn

CUDA_FILES = {"native/one.cu": "1", "native/two.cu": "2"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_package(tmp_path / "project")


def refusal(table: Any) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        read_extensions(table)
    return caught.value


# The table


def test_a_name_and_sources_are_enough() -> None:
    made = extension()

    assert (made.kind, made.module, made.file("linux-x86_64")) == ("module", "_C", "light._C.so")
    assert made.define == made.cxx_flags == made.libraries == ()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("name", "", "identifiers"), ("name", "light.1", "identifiers"), ("name", "a b", "identifiers"),
        ("name", "light..C", "identifiers"), ("name", 3, "identifiers"), ("name", "λ", "identifiers"),
        ("kind", "modul", "did you mean 'module'"), ("cuda", "yes", "required, optional, only or none"),
        ("sources", [], "at least one pattern"), ("sources", "native/*.cpp", "a list of strings"),
        ("sources", ["/etc/*.cpp"], "leaves the project"), ("sources", ["../*.cpp"], "leaves the project"),
        ("include-dirs", ["../include"], "leaves the project"), ("include-dirs", ["/usr"], "leaves the project"),
        ("cuda-flags", ["-gencode=arch=compute_90,code=sm_90"], "TORCH_CUDA_ARCH_LIST"),
        ("cuda-flags", ["-arch", "sm_90"], "TORCH_CUDA_ARCH_LIST"), ("cuda-flags", ["-dlto"], "device-link = true"),
        ("file-flags", {"native/*.cu": ["-arch=sm_90"]}, "TORCH_CUDA_ARCH_LIST"),
        ("file-flags", {"native/*.cu": "-O2"}, "a list of strings"), ("file-flags", ["-O2"], "a table"),
        ("cxx-flags", ["-I/usr/include"], "include-dirs"),
        ("cxx-flags", ["--include-directory=x"], "include-dirs"), ("cxx-flags", ["-O2\n-g"], "not an option"),
        ("define", ["1X"], "not a macro"), ("define", [["A", "1"]], "a list of strings"),
        ("libraries", ["/usr/lib/libx.so"], "not the name of a library"), ("archs", "9.x", "not a CUDA architecture"),
        ("include_dirz", ["x"], "write include-dirs"), ("surces", [], "write sources"),
    ],
)  # fmt: skip
def test_what_a_table_cannot_say_is_refused(key: str, value: object, says: str) -> None:
    error = refusal([{"name": "light._C", "sources": ["native/*.cpp"], key: value}])

    assert says in str(error)
    assert key == "name" or key == "archs" or "light._C" in error.problem


def test_a_single_table_is_not_a_list_of_them() -> None:
    assert "[[tool.kernelwheel.extension]]" in refusal({"name": "light._C"}).required


def test_two_extensions_of_one_name_are_refused() -> None:
    assert "2 extensions" in refusal([{"name": "light._C", "sources": ["a.cpp"]}] * 2).found


def test_keys_may_be_written_with_underscores() -> None:
    assert read_extensions([{"name": "a.b", "sources": ["x.cpp"], "cxx_flags": ["-O2"]}])[0].cxx_flags == ("-O2",)


def test_every_key_is_read_and_on_the_page_of_settings() -> None:
    fields = {name.replace("_", "-") for name in asdict(extension())}

    assert {key.name for key in KEYS} == fields
    assert [key.name for key in KEYS if f"| `{key.name}` |" not in keys_table()] == []


@pytest.mark.parametrize(
    ("table", "left"),
    [
        ({"cuda-flags": ["-rdc=true", "-O2"]}, ("-O2",)), ({"cuda-flags": ["-dc"]}, ()), ({"device-link": True}, ()),
        ({"cuda-flags": ["--relocatable-device-code", "true"]}, ()), ({"file-flags": {"a.cu": ["-rdc=true"]}}, ()),
    ],
)  # fmt: skip
def test_a_flag_for_device_code_that_is_linked_is_the_key_for_it(table: dict[str, object], left: tuple[str]) -> None:
    made = extension(**table)

    assert (made.device_link, made.cuda_flags) == (True, left)
    assert not any(made.file_flags.values())
    assert not extension(**{"cuda-flags": ["-rdc=false"]}).device_link


# The package


def test_the_package_is_that_of_the_names() -> None:
    facts, options = split_table({"extension": [{"name": "light.sub._C", "sources": ["a.cpp"]}], "archs": "9.0"})

    assert (facts.import_name, facts.torch_target) == ("light", "2.10")
    assert options == {"archs": "9.0"}


def test_or_the_one_named_as_the_project() -> None:
    table = {"extension": [{"name": "light_cuda", "sources": ["a.cpp"]}]}

    assert split_table(table, "light-weight")[0].import_name == "light_weight"
    assert split_table({**table, "package": "light"}, "light-weight")[0].import_name == "light"


def test_where_nothing_says_which_package_it_is_that_is_an_error() -> None:
    tables = [{"name": name, "sources": ["a.cpp"]} for name in ("one._C", "two._C")]

    with pytest.raises(SettingsError, match="package is missing"):
        split_table({"extension": tables}, "light")


@pytest.mark.parametrize(("key", "value"), [("sources", "native"), ("abi", "torch")])
def test_tables_beside_a_cmakelists_are_refused(key: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        split_table({"package": "light", key: value, "extension": [{"name": "light._C", "sources": ["a.cpp"]}]})

    assert f"{key} = '{value}'" in caught.value.found
    assert "light._C" in caught.value.found


@pytest.mark.parametrize(
    ("kinds", "torch", "python"),
    [(["operators"], False, False), (["torch-library"], True, False), (["module", "operators"], True, True)],
)
def test_the_kinds_say_what_the_wheel_is_bound_to(kinds: list[str], torch: bool, python: bool) -> None:
    tables = [{"name": f"light.{kind[0]}", "kind": kind, "sources": ["a.cpp"]} for kind in kinds]

    facts = split_table({"extension": tables})[0]

    assert (facts.binds_torch, facts.binds_python) == (torch, python)


# The files


def located(project: Path) -> PackageFacts:
    return read_project(project)[0].located(project)


def test_patterns_become_files_and_headers_come_along(project: Path) -> None:
    (project / "native/detail").mkdir()
    (project / "native/detail/more.cuh").write_text("")
    (project / "third_party/answers/bare").write_text("")
    facts = located(project)

    assert facts.extensions[0].sources == ("native/module.cpp",)
    assert facts.files == (
        "native/detail/more.cuh", "native/module.cpp", "third_party/answers/answer.h", "third_party/answers/bare",
    )  # fmt: skip
    assert list(source_digests(project, facts.files)) == list(facts.files)


def test_of_the_project_s_own_folder_only_its_files_are_headers(tmp_path: Path) -> None:
    files = {"ext.cpp": "", "ext.h": "", "setup.py": "", "tests/other.h": "", "build/made.h": "", ".venv/x.h": ""}
    project = make_package(tmp_path, files)
    (found,) = find_sources([extension(sources=["ext.cpp"])], project)

    assert files_of([found], project) == ("ext.cpp", "ext.h")
    everything = replace(found, include_dirs=(".",))
    assert files_of([everything], project) == ("ext.cpp", "ext.h", "tests/other.h")


def test_what_is_excluded_is_neither_compiled_nor_shipped(tmp_path: Path) -> None:
    files = {"native/a.cpp": "", "native/test/b.cpp": "", "native/test/b.h": "", "native/c_test.cpp": ""}
    project = make_package(tmp_path, files)

    (found,) = find_sources([extension(sources=["native/**/*.cpp"], exclude=["native/test", "**/*_test.cpp"])], project)

    assert found.sources == ("native/a.cpp",)
    assert files_of([found], project) == ("native/a.cpp",)


@pytest.mark.parametrize(
    ("table", "required", "found"),
    [
        ({"sources": ["nativ/*.cpp"]}, "match nativ/*.cpp", "the nearest is native/module.cpp"),
        ({"sources": ["light/*"]}, "C++ or CUDA files", "light/_"),
        ({"include-dirs": ["third_party/answer"]}, "a folder", "none"),
        ({"include-dirs": ["third_party/eigen"]}, "with headers", "third_party/eigen is empty, as a git submodule"),
        ({"include-dirs": ["third_party/eigen/include"]}, "with headers", "third_party/eigen is empty, as a git"),
        ({"sources": ["third_party/eigen/src/*.cpp"]}, "C++ or CUDA files", "third_party/eigen is empty, as a git"),
        ({"exclude": ["native"]}, "not excluded", "none"),
        ({"file-flags": {"native/modul.cpp": ["-O2"]}}, "native/modul.cpp", "none of native/module.cpp"),
        ({"sources": ["native/*"], "cuda": "none"}, "no CUDA files", "native/one.cu"),
        ({"sources": ["native/*.cu"], "cuda": "optional"}, "without CUDA", "only CUDA files"),
    ],
)
def test_files_that_are_not_there_are_refused_with_the_nearest(
    tmp_path: Path, table: dict[str, Any], required: str, found: str
) -> None:
    project = make_package(tmp_path, {**LIGHT, **CUDA_FILES})
    (project / "third_party/eigen").mkdir()

    with pytest.raises(SettingsError) as caught:
        find_sources([extension(**table)], project)

    error = caught.value
    assert "light._C" in error.problem
    assert required in error.required
    assert found in error.found


@pytest.mark.parametrize(("table", "says"), [({"by-path": 1}, "1"), ({"by-path": True}, "by its name")])
def test_a_module_is_imported_by_its_name_alone(table: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError, match="by-path") as caught:
        extension(**table)

    assert says in caught.value.found


def test_cuda_is_required_with_cuda_files_and_otherwise_not(tmp_path: Path) -> None:
    project = make_package(tmp_path, {**LIGHT, **CUDA_FILES})

    assert find_sources([extension()], project)[0].cuda == "none"
    (both,) = find_sources([extension(sources=["native/*"])], project)
    assert (both.cuda, both.has_kernels) == ("required", True)


def test_without_cuda_its_files_are_left_out(tmp_path: Path) -> None:
    project = make_package(tmp_path, {**LIGHT, **CUDA_FILES, "native/cuda/extra.cpp": ""})
    table = {"sources": ["native/*"], "cuda-sources": ["native/cuda/*"], "cuda": "optional"}

    (found,) = find_sources([extension(**table)], project)

    assert found.compiled(cuda=False) == ("native/module.cpp",)
    assert found.compiled(cuda=True) == (
        "native/cuda/extra.cpp", "native/module.cpp", "native/one.cu", "native/two.cu",
    )  # fmt: skip


# Left out without CUDA


ONLY = TABLE.replace("_C", "_cuda").replace("*.cpp", "cuda/*") + 'cuda = "only"\n'


def test_files_of_cuda_alone_are_refused_where_a_build_without_has_the_extension_too(tmp_path: Path) -> None:
    project = make_package(tmp_path, {**LIGHT, **CUDA_FILES})
    table = {"sources": ["native/*.cu"]}

    assert find_sources([extension(**table, cuda="only")], project)[0].cuda == "only"
    with pytest.raises(SettingsError, match="only CUDA files") as caught:
        find_sources([extension(**table, cuda="optional")], project)
    assert 'or to "only"' in caught.value.remedies[0]


@pytest.mark.parametrize(
    ("kinds", "torch", "python"), [(["operators"], False, False), (["torch-library"], True, False), ([], False, False)]
)
def test_a_build_is_bound_to_what_it_makes(kinds: list[str], torch: bool, python: bool) -> None:
    made = tuple(extension(kind=kind) for kind in kinds)
    facts = PackageFacts("light", ".", "2.10", "stable", (*made, extension(name="light._cuda", cuda="only")))

    assert facts.of_build(cuda=True).binds_python
    assert (facts.of_build(cuda=False).binds_torch, facts.of_build(cuda=False).binds_python) == (torch, python)


# The Plan


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path / "machine")


def plan_of(machine: Machine, project: Path, **options: str) -> Any:
    facts = located(project)
    return machine.draw_for(facts, project, **options)


def with_extensions(plan: Plan, extensions: Iterable[Extension]) -> Plan:
    return replace(plan, content={**plan.content, "extensions": [*map(to_json, extensions)]})


def test_what_a_table_says_is_in_the_plan_and_comes_out_of_it_again(machine: Machine, project: Path) -> None:
    plan = plan_of(machine, project, cuda="off")

    (values,) = json.loads(json.dumps(plan.content))["extensions"]

    assert from_plan(values) == plan.extensions[0]
    assert values["define"] == ["ANSWER=42"]


@pytest.mark.parametrize(
    "line",
    ['cxx-flags = ["-O2"]', 'file-flags = { "native/*" = ["-O1"] }', 'cuda-define = ["A"]', 'kind = "operators"'],
)  # fmt: skip
def test_another_key_is_another_fingerprint(machine: Machine, project: Path, line: str) -> None:
    before = plan_of(machine, project, cuda="off").fingerprint
    with (project / "pyproject.toml").open("a") as file:
        file.write(line + "\n")

    assert plan_of(machine, project, cuda="off").fingerprint != before


def test_the_order_of_tables_and_patterns_is_not_in_the_plan(machine: Machine, tmp_path: Path) -> None:
    other = TABLE.replace("_C", "_D").replace("native/*.cpp", "native/*")
    one = make_package(tmp_path / "one", pyproject=HEAD + TABLE + other)
    two = make_package(tmp_path / "two", pyproject=HEAD + other + TABLE)

    assert plan_of(machine, one, cuda="off").fingerprint == plan_of(machine, two, cuda="off").fingerprint


def test_what_needs_cuda_is_refused_without(machine: Machine, tmp_path: Path) -> None:
    files = {**LIGHT, "native/one.cu": ""}
    project = make_package(tmp_path / "project", files, pyproject=HEAD + TABLE.replace("*.cpp", "*"))

    with pytest.raises(BuildError, match="cannot be built without CUDA") as caught:
        plan_of(machine, project, cuda="off")

    assert "light._C" in str(caught.value)


def test_what_exists_only_with_cuda_is_in_the_content_of_a_plan_without_and_not_built(
    machine: Machine, tmp_path: Path
) -> None:
    files = {**LIGHT, "native/cuda/one.cu": ""}
    project = make_package(tmp_path / "project", files, pyproject=HEAD + TABLE + ONLY)

    plan = plan_of(machine, project, cuda="off")

    assert [each["name"] for each in plan.content["extensions"]] == ["light._C", "light._cuda"]
    assert [each.name for each in plan.built] == ["light._C"]
    assert "native/cuda/one.cu" in plan.sources
    assert "light._cuda" not in cmake_lists(plan)


@pytest.mark.parametrize(("cuda", "linked"), [("optional", ["z"]), ("none", ["cublas", "cudart_static", "cuda", "z"])])
def test_a_build_without_cuda_is_not_linked_with_cuda_s_libraries(
    machine: Machine, project: Path, cuda: str, linked: list[str]
) -> None:
    libraries = ["cublas", "cudart_static", "cuda", "z"]
    extensions = find_sources([extension(libraries=libraries, cuda=cuda)], project)

    lists = cmake_lists(with_extensions(plan_of(machine, project, cuda="off"), extensions))

    assert extensions[0].linked(cuda=True) == tuple(libraries)
    named = " ".join(f"[==[{name}]==]" for name in linked)
    assert f"target_link_libraries(kernelwheel-light._C PRIVATE {named})" in lists


LINKED = HEAD + TABLE.replace("*.cpp", "*") + 'kind = "operators"\ndevice-link = true\nlibraries = ["nvshmem_device"]\n'


@pytest.mark.parametrize("line", ["", 'archs = "8.0;9.0+PTX"\n'])
def test_linked_device_code_is_machine_code_alone(machine: Machine, tmp_path: Path, line: str) -> None:
    project = make_package(tmp_path / "project", {**LIGHT, **CUDA_FILES}, pyproject=LINKED + line)

    plan = plan_of(machine, project, archs="8.0;9.0+PTX")

    lists = cmake_lists(plan)
    assert plan.targets("light._C.so") == (("8.0", "9.0"), ())
    assert "code=sm_90" in lists
    assert "code=compute_90" not in lists
    assert "kernelwheel_link_device_code(kernelwheel-light._C [==[nvshmem_device]==])" in lists


def test_device_code_that_cannot_be_linked_is_refused_before_the_compile(machine: Machine, tmp_path: Path) -> None:
    project = make_package(tmp_path / "project", {**LIGHT, **CUDA_FILES}, pyproject=LINKED)
    facts, chosen = located(project), settings_with({"CUDA_HOME": str(machine.toolkit), "CXX": str(machine.cxx)})
    tools = machine.toolchain(chosen)
    assert tools.cuda.nvcc
    by_clang = replace(tools, cuda=replace(tools.cuda, nvcc=replace(tools.cuda.nvcc, clang="19.1.7")))

    with pytest.raises(BuildError, match="cannot be built with clang"):
        drawn(facts, "1.0", project, chosen, by_clang)
    with pytest.raises(SettingsError, match="ask for device code that is linked") as caught:
        plan_of(machine, project, cuda_flags="-rdc=true -O2")
    assert "device-link = true" in caught.value.required


@pytest.mark.parametrize("bad", ["a;b", "a$<b", "a:b"])
def test_a_folder_whose_name_cmake_or_ninja_does_not_take_is_refused(tmp_path: Path, bad: str) -> None:
    project = make_package(tmp_path / "project", {**LIGHT, f"native/{bad}/two.cpp": ""})

    with pytest.raises(SettingsError, match="rename it"):
        find_sources([extension(sources=["native/**/*.cpp"])], project)


# What CMake, Ninja or a shell would read otherwise than the compiler gets it.
NASTY = [
    r'-DV="x\\ny"', "-DA=]==]", "-DB=]===]", "-DC=a;b", r"-DD=a\;b", r"-DE=a\\;b", "-DF=$<1:x>", "-DG=$ENV{HOME}${X}$X",
    "-DH=a>b<c", "-DI=it's", "-DJ= a  b ", "-DK=[a;b", "-DL=@HOME@", "-DM=`id`", "-DN=#%!*?", "-DO=a,b:,c", "-DP=é😀",
    '-DQ="', "-DR=$<$<CONFIG:Release>:y>", "-DS=(&|", "-DT=SHELL:x", "-DU=$", "-DW=\t", "-DX", "-DX", "-DY=LINKER:,x",
    "-DZ=\\", "-DZ=$<",
]  # fmt: skip


def test_cmake_gives_the_compiler_every_flag_as_it_is(machine: Machine, tmp_path: Path) -> None:
    """By the commands that Ninja would run, of a library with a name that CMake keeps for a target of its own."""
    files = {"native/one.cpp": "", "native/two.cpp": ""}
    project = make_package(tmp_path / "project", {**LIGHT, **files})
    made = extension(name="test", sources=[*files], cxx_flags=NASTY, link_flags=NASTY)
    made = replace(
        made, define=tuple(flag[2:] for flag in NASTY), file_flags={"native/one.cpp": tuple(NASTY)}, kind="operators"
    )
    plan = with_extensions(plan_of(machine, project, cuda="off"), find_sources([made], project))
    (project / "CMakeLists.txt").write_text(cmake_lists(plan))
    folder = tmp_path / "cmake"
    entries = {"KERNELWHEEL_TORCH": "torch", "KERNELWHEEL_TORCH_TARGET": "0", "KERNELWHEEL_OUTPUT": str(folder)}
    entries |= {"KERNELWHEEL_STABLE_STANDARD": "17", "KERNELWHEEL_CXX_FLAGS": as_one(NASTY)}
    entries |= {"CMAKE_MODULE_PATH": str(MODULES)}
    lines = [f'set({name} [===[{value}]===] CACHE STRING "")\n' for name, value in entries.items()]
    (tmp_path / "entries.cmake").write_text("".join(lines))  # as scikit-build-core writes them

    cmake = CMake.default_search(version=SpecifierSet(CMAKE_VERSION)).cmake_path
    run([cmake, "-C", tmp_path / "entries.cmake", "-GNinja", "-S", project, "-B", folder])
    *compiles, link = run(["ninja", "-C", folder, "-t", "commands"]).splitlines()

    commands = {command.rpartition(" ")[2]: words(command) for command in compiles}
    assert set(commands) == {str(project / name) for name in files}
    for file, given in commands.items():
        expected = [*NASTY, *NASTY, *NASTY, *(NASTY if "one" in file else ())]
        assert [word for word in given if word in expected] == expected
    linked = words(link.removeprefix(": && ").removesuffix(" && :"))
    assert [word for word in linked if word in NASTY] == NASTY
    # As in cpp_extension: before the libraries, and after the objects.
    assert linked.index(NASTY[0]) > max(index for index, word in enumerate(linked) if word.endswith(".o"))
    assert linked[-1] == "-ltorch_cpu"


def words(command: str) -> list[str]:
    """The words of a command, as a shell splits it."""
    return run(["sh", "-c", f"printf '%s\\0' {command}"]).split("\0")[:-1]


def run(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Names in the wheel


def test_the_module_stands_where_the_library_was() -> None:
    files = dict(module_files.module_files([extension()], "light", "light-weight"))

    assert list(files) == ["light/_C.py"]
    assert b'"light-weight"' in files["light/_C.py"]
    assert module_files.module_file("light_cuda", "light") == "light_cuda.py"
    assert module_files.module_file("light", "light") == "light/__init__.py"


@pytest.mark.parametrize(
    "member", ["light/_C.py", "light/_C/__init__.py", "light/_C.cpython-311-x86_64-linux-gnu.so", "light/_C.abi3.so"]
)
def test_a_name_that_is_taken_is_refused(member: str) -> None:
    with pytest.raises(SettingsError) as caught:
        module_files.refuse_clashes([extension()], "light", ["light/__init__.py", member])

    assert member in caught.value.found


def test_type_stubs_and_neighbours_are_no_clash() -> None:
    module_files.refuse_clashes([extension()], "light", ["light/__init__.py", "light/_C.pyi", "light/_Cache.py"])


# setuptools


@pytest.mark.parametrize(
    "script", ["from setuptools import setup\nsetup(ext_modules=[])\n", "setup(**{'ext_modules': []})\n"]
)
def test_a_setup_py_with_ext_modules_is_refused(tmp_path: Path, script: str) -> None:
    (tmp_path / "setup.py").write_text(script)

    with pytest.raises(SettingsError) as caught:
        setuptools_project.refuse_ext_modules(tmp_path, {})

    assert "setup.py" in caught.value.found
    assert "python -m kernelwheel adopt" in str(caught.value)


def test_so_are_those_of_pyproject_and_another_setup_py_is_not(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(name='light')\n")
    setuptools_project.refuse_ext_modules(tmp_path, {"setuptools": {"packages": ["light"]}})

    with pytest.raises(SettingsError, match="extensions of its own"):
        setuptools_project.refuse_ext_modules(tmp_path, {"setuptools": {"ext-modules": [{"name": "a"}]}})


@pytest.mark.parametrize(
    ("project", "found", "remedy"),
    [
        (None, "", ""),
        ({"dynamic": ["version", "dependencies"]}, "", ""),
        ({}, "neither dynamic nor dependencies", 'write dynamic = ["dependencies"] in [project]'),
        (
            {"dynamic": ["version"], "dependencies": ["a; b == 'c'"]}, 'dynamic = ["version"], dependencies = ["a',
            'write dynamic = ["version", "dependencies"] in [project], and move dependencies = ["a; b == \'c\'"] to '
            "[tool.kernelwheel]",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("table", "checked"),
    [
        ({}, True), ({"kind": "torch-library"}, True), ({"kind": "operators"}, False),
        ({"kind": "operators", "dependencies": ["a"]}, True),
    ],
)  # fmt: skip
def test_what_requires_a_torch_besides_says_so_in_pyproject(
    project: dict[str, Any] | None, found: str, remedy: str, table: dict[str, Any], checked: bool
) -> None:
    of_package = {"dependencies": table.get("dependencies", [])}
    one = {"name": "a._C", "sources": ["a.cpp"], "kind": table.get("kind", "module")}
    facts, _ = split_table({**of_package, "extension": [one]})
    if not (checked and found):
        setuptools_project.refuse_static_fields(project, facts)
        return

    with pytest.raises(SettingsError) as caught:
        setuptools_project.refuse_static_fields(project, facts)

    assert found in caught.value.found
    assert caught.value.remedies == (remedy,)


def test_a_version_that_a_wheel_adds_to_is_dynamic() -> None:
    facts, _ = split_table({"extension": [{"name": "a._C", "sources": ["a.cpp"]}]})
    static = {"version": "1.0", "dynamic": ["dependencies"]}
    setuptools_project.refuse_static_fields(static, facts)
    setuptools_project.refuse_static_fields({"dynamic": ["dependencies", "version"]}, facts, "+torch2.15")

    with pytest.raises(SettingsError, match="has all of its version, but with torch-tag = local") as caught:
        setuptools_project.refuse_static_fields(static, facts, "+torch2.15")

    assert caught.value.found == 'dynamic = ["dependencies"], version = "1.0" in [project]'
    assert caught.value.remedies[0].startswith('write dynamic = ["dependencies", "version"] in [project], and move')
