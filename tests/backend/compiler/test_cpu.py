"""The CPU in a Plan: every spelling of a flag ends as the same features, and none is in a wheel without a word.

That a Host without them is refused is in runtime/test_compatible.py, what a whole build does in test_wheel_cpu.py.
"""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from declared import extension
from kernelwheel.compiler import cpu as cpus
from kernelwheel.compiler.cmake_inputs import as_one, cache_entries, cmake_lists
from kernelwheel.compiler.compile_job import OF_RUN_TIME
from kernelwheel.compiler.cpu import check_commands, draw_cpu
from kernelwheel.compiler.machine_flags import CpuPlan, features_of, machine_options, words
from kernelwheel.compiler.plan import Plan
from kernelwheel.compiler.toolchain.cuda import CudaDecision
from kernelwheel.compiler.toolchain.cxx import Cxx, inspect_cxx
from kernelwheel.compiler.toolchain.launchers import Launchers
from kernelwheel.compiler.toolchain.toolchain import Toolchain
from kernelwheel.content import make_content
from kernelwheel.project.extension import Extension, read_extensions, to_json
from kernelwheel.project.package import PackageFacts, split_table
from kernelwheel.runtime.errors import BuildError, SettingsError
from kernelwheel.runtime.machine.platforms import cpu_features
from programs import find_optional
from standins import make_program, settings_with

pytestmark = [
    pytest.mark.every_program,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are those of x86-64"),
]

V3 = {"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "lahf_lm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma",
      "abm", "movbe"}  # fmt: skip
V2 = {"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "lahf_lm"}
AVX2 = {"pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "avx", "avx2"}
SOURCES = {"native/light.cpp": "0" * 64, "native/fast.cpp": "1" * 64}


def compiler(name: str = "g++") -> Cxx:
    found = inspect_cxx(find_optional(name) or pytest.skip(f"no {name}"))
    assert isinstance(found, Cxx)
    return found


def declare(**table: Any) -> Extension:
    """An extension of two files, looked up."""
    return replace(extension(**table), sources=tuple(sorted(SOURCES)))


def toolchain(here: bool = False, cxx: Cxx | None = None, **options: str) -> Toolchain:
    """What compiles; `here`: for this machine alone, at run time."""
    chosen = settings_with(**options)
    if here:
        chosen = chosen.changed("platform", "native", OF_RUN_TIME)
    decision = CudaDecision(None, "cuda is off", ())
    torch: Any = None
    return Toolchain(torch, cxx or compiler(), decision, None, Launchers(), chosen)


def planned(
    tools: Toolchain,
    *extensions: Extension,
    options: Mapping[str, Sequence[str]] | None = None,
    dispatched: Sequence[str] = (),
    platform: str = "linux-x86_64",
) -> Plan:
    """A Plan with the part about the CPU."""
    about: dict[str, Any] = {"glibc": "2.28", **(options or {})}
    content = make_content("light", "1.0", SOURCES, "stable", "2.10", map(to_json, extensions), about, dispatched)
    plan = Plan(content, {}, None, None, platform)
    return replace(plan, cpu=draw_cpu(plan, tools))


# What flags stand for


@pytest.mark.parametrize(
    "flags",
    [
        ["-march=x86-64-v3"], ["-O3", "--machine-arch=x86-64-v3"], ["-Wp,-march=x86-64-v3"], ["-march=x86-64-v3 -O3"],
        ["-Xpreprocessor", "-march=x86-64-v3"], ["-march=x86-64-v2", "-march=x86-64-v3", "-mtune=haswell"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["g++", "clang++-19"])
def test_every_spelling_is_what_the_compiler_makes_of_it(flags: list[str], name: str) -> None:
    assert features_of(compiler(name), machine_options(flags)) == V3


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["-Xcompiler", "-mavx2"], ["-mavx2"]), (["-Xcompiler=-O3,-mavx2,-mfma"], ["-mavx2", "-mfma"]),
        (["--compiler-options", "-fPIC -mavx2"], ["-mavx2"]), (["--compiler-options=-mavx2"], ["-mavx2"]),
        (["-maxrregcount=64", "-m64"], []), (["--maxrregcount", "64"], []),
        (["-forward-unknown-to-host-compiler", "-maxrregcount=64", "-mavx2"], ["-mavx2"]),
    ],
)  # fmt: skip
def test_of_the_flags_for_nvcc_those_for_the_host_count(flags: list[str], found: list[str]) -> None:
    assert machine_options(flags, "native/kernels.cu") == tuple(found)


@pytest.mark.parametrize(
    "flags",
    [["-O3", "-fPIC"], ["-DFLAGS=-mavx2"], ["-Wl,-mavx2", "-Wa,-march=haswell"], ["-I", "x-mavx2"], ["-mllvm", "-x"]],
)
def test_what_is_not_about_the_cpu_is_not_asked_about(flags: list[str]) -> None:
    assert machine_options(flags) == ()


@pytest.mark.parametrize("flags", [["-mtune=haswell"], ["-mcmodel=medium", "-mno-red-zone"], ["-mno-avx"], ["-mshstk"]])
def test_what_needs_nothing_of_a_cpu_is_no_feature(flags: list[str]) -> None:
    assert features_of(compiler(), machine_options(flags)) == frozenset()


def test_an_option_of_clang_for_its_front_end_counts() -> None:
    flags = ["-Xclang", "-target-feature", "-Xclang", "+avx2"]
    assert features_of(compiler("clang++-19"), machine_options(flags)) >= {"avx2"}


def test_features_of_arm_are_asked_of_the_compiler_for_arm() -> None:
    arm = compiler("aarch64-linux-gnu-g++")
    assert features_of(arm, ["-march=armv8.2-a"]) == {"atomics", "crc32", "asimdrdm"}
    assert features_of(arm, ["-mcpu=neoverse-n1"]) == {"atomics", "crc32", "asimdrdm", "asimddp", "fphp", "asimdhp"}
    assert {"sve", "bf16", "i8mm"} <= features_of(arm, ["-mcpu=neoverse-v1"])


def test_this_cpu_has_what_its_compiler_would_use() -> None:
    assert features_of(compiler(), ["-march=native"]) <= cpu_features()


def test_a_cpu_that_the_compiler_does_not_know_is_an_error_that_names_it() -> None:
    with pytest.raises(BuildError, match="does not say which CPU") as caught:
        planned(toolchain(cpu="x86-64-v9"), declare())
    assert "-march=x86-64-v9" in caught.value.required
    assert "x86-64-v9" in caught.value.found


def test_a_script_that_calls_the_compiler_for_a_later_cpu_needs_that_cpu(tmp_path: Path) -> None:
    program = make_program(tmp_path / "c++", f'exec {find_optional("g++")} "$@" -march=x86-64-v4')

    assert planned(toolchain(cxx=replace(compiler(), path=program)), declare()).cpu.features.keys() > AVX2 - {"popcnt"}


def test_a_compiler_whose_own_default_is_a_later_cpu_needs_that_cpu(tmp_path: Path) -> None:
    """Such as that of Red Hat 9, where no flag says so."""
    program = make_program(tmp_path / "c++", f'exec {find_optional("g++")} -march=x86-64-v2 "$@"')
    later = replace(compiler(), path=program)

    plan = planned(toolchain(cxx=later), declare(**{"cxx-flags": ["-mavx"]}))
    commands(tmp_path, ("a.cpp", "-O3"))

    assert plan.target["cpu"] == {**dict.fromkeys(sorted(V2), "cpu"), "avx": "flags"}
    check_commands(planned(toolchain(cxx=later)), toolchain(cxx=later), tmp_path)
    assert planned(toolchain(cxx=later, cpu="x86-64"), declare()).cpu.features == {}


# The Plan


@pytest.mark.parametrize(
    "table",
    [
        {"cxx-flags": ["-mavx2"]}, {"cxx-flags": ["-O2", "-mavx2", "-mno-fma"]},
        {"file-flags": {"native/fast.cpp": ["-mavx2"]}},
    ],
)  # fmt: skip
def test_what_flags_name_is_in_the_target(table: dict[str, Any]) -> None:
    plan = planned(toolchain(), declare(**table))

    assert plan.target["cpu"] == dict.fromkeys(sorted(AVX2), "flags")
    assert "for a CPU with avx, avx2, " in plan.kernels


def test_flags_of_the_environment_count_for_tables_and_for_a_cmakelists() -> None:
    for extensions in ((declare(),), ()):
        plan = planned(toolchain(), *extensions, options={"cxx-flags": ["-mavx2"]})
        assert plan.target["cpu"].keys() == AVX2


def test_a_plan_for_every_cpu_says_nothing_of_it() -> None:
    plan = planned(toolchain(), declare(**{"cxx-flags": ["-O3"]}))

    assert plan.target["cpu"] == {}
    assert plan.cpu == CpuPlan()


def test_files_that_the_package_dispatches_are_no_requirement() -> None:
    table = {"file-flags": {"native/fast.cpp": ["-mavx2"]}}

    assert not planned(toolchain(), declare(**table), dispatched=("native/fast*.cpp",)).target["cpu"]
    assert planned(toolchain(), declare(**table), dispatched=("native/light.cpp",)).target["cpu"]


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"cxx-flags": ["-O3", "-march=native"]}, "-march=native in cxx-flags of light._C"),
        ({"cxx-flags": ["-mtune=native"]}, "-mtune=native in cxx-flags of light._C"),
        ({"cxx-flags": ["-mcpu=native"]}, "-mcpu=native in cxx-flags of light._C"),
        ({"link-flags": ["-march=native"]}, "-march=native in link-flags of light._C"),
        ({"file-flags": {"native/fast.cpp": ["-march=native"]}}, "-march=native in file-flags of light._C"),
    ],
)
def test_a_wheel_for_the_builders_own_cpu_is_refused_with_the_way_out(table: dict[str, Any], where: str) -> None:
    for dispatched in ((), ("native/*.cpp",)):
        with pytest.raises(SettingsError, match="a wheel is for others") as caught:
            planned(toolchain(), declare(**table), dispatched=dispatched)

        assert caught.value.found == where
        assert 'cpu = "x86-64-v3"' in caught.value.remedies[0]
        assert "TINY_CPU=x86-64-v3" in caught.value.remedies[0]


def test_native_by_the_environment_or_by_the_option_is_refused_too() -> None:
    with pytest.raises(SettingsError, match="a wheel is for others"):
        planned(toolchain(), declare(), options={"cxx-flags": ["-march=native"]})
    with pytest.raises(SettingsError, match="a wheel is for others") as caught:
        planned(toolchain(cpu="native"), declare())
    assert caught.value.found == "cpu is native (-C cpu)"


def test_native_stands_for_the_cpu_that_is_named() -> None:
    table = {"cxx-flags": ["-march=native", "-mtune=native"], "cuda-flags": ["-Xcompiler=-O3,-march=native"]}

    plan = planned(toolchain(cpu="armv8.2-a x86-64-v3"), declare(**table), options={"cxx-flags": ["-mcpu=native"]})

    assert plan.target["cpu"] == dict.fromkeys(sorted(V3), "cpu")
    assert plan.cpu.native == ""
    assert "native" not in cmake_lists(plan).replace("native/", "")
    assert as_one(["-march=x86-64-v3", "-mtune=generic"]) in cmake_lists(plan)
    assert as_one(["-Xcompiler=-O3,-march=x86-64-v3"]) in cmake_lists(plan)


def test_the_cpu_is_told_to_the_compiler_of_every_file(tmp_path: Path) -> None:
    tools = toolchain(cpu="x86-64-v3")
    plan = planned(tools, declare())

    entries = cache_entries(tmp_path, plan, replace(tools, torch=_Torch(tmp_path)))  # type: ignore[arg-type]

    assert entries["KERNELWHEEL_CXX_FLAGS"] == 'SHELL:"-march=x86-64-v3"'


class _Torch:
    """As much of a torch as the entries ask for."""

    def __init__(self, root: Path) -> None:
        self.root = root


def test_a_cpu_for_another_platform_is_not_meant() -> None:
    assert planned(toolchain(cpu="armv8.2-a"), declare()).cpu == CpuPlan()


def test_here_native_is_this_cpu_and_what_the_compiler_makes_of_it_is_in_the_plan() -> None:
    table = {"cxx-flags": ["-march=native"]}

    plan = planned(toolchain(here=True), declare(**table))

    features = plan.target["cpu"]
    assert features.keys() == features_of(compiler(), ["-march=native"])
    assert set(features.values()) <= {"cpu"}
    assert plan.cpu.native
    assert "-march=native" in cmake_lists(plan)
    tuned = planned(toolchain(here=True), declare(**{"cxx-flags": ["-mtune=native"]}))
    assert not tuned.target["cpu"]
    assert tuned.cpu.native not in ("", plan.cpu.native)


def test_here_a_cpu_that_this_machine_is_not_becomes_the_one_that_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    few = frozenset({"pni", "sse4_1"})
    monkeypatch.setattr(cpus, "cpu_features", lambda: few)

    plan = planned(toolchain(here=True, cpu="x86-64-v3"), declare(**{"cxx-flags": ["-march=native"]}))

    assert plan.cpu.name == "native"
    assert set(plan.target["cpu"]) <= few
    assert planned(toolchain(cpu="x86-64-v3"), declare()).cpu.name == "x86-64-v3"


def test_here_a_cpu_that_this_machine_has_is_that_of_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "cpu_features", lambda: frozenset(V3))

    here, wheel = (planned(toolchain(here=each, cpu="x86-64-v3"), declare()) for each in (True, False))

    assert here.fingerprint == wheel.fingerprint


def test_a_library_for_windows_that_needs_more_is_refused() -> None:
    with pytest.raises(BuildError, match="not every machine with windows-x86_64"):
        planned(toolchain(), declare(**{"cxx-flags": ["-mavx2"]}), platform="windows-x86_64")


# What was compiled


def commands(work: Path, *given: tuple[str, str]) -> None:
    """What CMake says that it compiled: pairs of a file and its flags."""
    (work / "build").mkdir(parents=True)
    values = [
        {
            "directory": str(work / "build"),
            "command": f"/usr/bin/c++ {flags} -o x.o -c {shlex.quote(str(work / 'src' / file))}",
            "file": str(work / "src" / file),
        }
        for file, flags in given
    ]
    (work / "build" / cpus.COMMANDS).write_text(json.dumps(values))


def test_flags_that_a_cmakelists_sets_by_itself_are_an_error_that_names_the_files(tmp_path: Path) -> None:
    tools = toolchain()
    commands(tmp_path, ("a.cpp", "-O3"), ("cpu/b.cpp", "-mavx2 -Wall"), ("c.cu", "-m64 -Xcompiler=-fPIC,-march=native"))

    with pytest.raises(BuildError, match="more of a CPU than its Plan says") as caught:
        check_commands(planned(tools), tools, tmp_path)

    assert caught.value.required == "files for every CPU of linux-x86_64"
    assert caught.value.found == (
        "cpu/b.cpp: avx, avx2, pni, popcnt, sse4_1, sse4_2, ssse3 (-mavx2)\n"
        "c.cu: the CPU of this machine (-march=native)"
    )
    assert 'dispatched = ["FILE"]' in caught.value.remedies[1]


def test_a_cmakelists_that_hides_what_it_compiles_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="is not known") as caught:
        check_commands(planned(toolchain()), toolchain(), tmp_path)
    assert caught.value.remedies == ("leave CMAKE_EXPORT_COMPILE_COMMANDS as it is",)


def test_what_the_plan_says_or_the_package_dispatches_may_be_compiled(tmp_path: Path) -> None:
    tools = toolchain(cpu="x86-64-v3")
    commands(
        tmp_path, ("a.cpp", "-march=x86-64-v3"), ("b.cu", "-Xcompiler=-mavx2"),
        ("cpu/avx512_lanes.cpp", "-march=x86-64-v3 -mavx512f"),
    )  # fmt: skip

    check_commands(planned(tools, dispatched=("cpu/avx512*.cpp",)), tools, tmp_path)
    with pytest.raises(BuildError, match="more of a CPU") as caught:
        check_commands(planned(tools), tools, tmp_path)

    assert caught.value.found.startswith("cpu/avx512_lanes.cpp: avx512f (")


def test_a_file_of_further_options_hides_nothing(tmp_path: Path) -> None:
    tools = toolchain()
    commands(tmp_path, ("a.cpp", "@more.rsp"), ("b.cu", "--options-file host.rsp"), ("c.cpp", "@none.rsp"))
    (tmp_path / "build" / "more.rsp").write_text('-O3 "-mavx2"\n')
    (tmp_path / "build" / "host.rsp").write_text("-Xcompiler -march=native")

    with pytest.raises(BuildError) as caught:
        check_commands(planned(tools), tools, tmp_path)

    assert [line.partition(":")[0] for line in caught.value.found.splitlines()] == ["a.cpp", "b.cu"]
    assert words("g++ -optf=x @more.rsp", tmp_path / "build") == ("g++", "-optf=x", "-O3", "-mavx2")


@pytest.mark.parametrize("key", ["cpu", "dispatched"])
def test_a_key_that_is_for_the_whole_package_says_where_it_belongs(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_extensions([{"name": "light._C", "sources": ["a.cpp"], key: "x"}])
    assert caught.value.remedies == ("move it to [tool.kernelwheel]: it is for all extensions",)


def test_what_is_dispatched_is_in_the_content_and_must_be_there() -> None:
    table = {"package": "light", "sources": "csrc", "torch-target": "2.10", "abi": "stable"}
    facts, _ = split_table({**table, "dispatched": ["native/f*.cpp"]})

    content = facts.content("1.0", SOURCES, {})

    assert content["dispatched"] == ["native/f*.cpp"]
    assert PackageFacts.from_content(content).dispatched == ("native/f*.cpp",)
    assert split_table(table)[0].content("1.0", SOURCES, {})["dispatched"] == []
    with pytest.raises(SettingsError, match="not there"):
        facts.content("1.0", {"native/light.cpp": "0" * 64}, {})
    with pytest.raises(SettingsError, match="malformed"):
        split_table({**table, "dispatched": "native/fast.cpp"})
