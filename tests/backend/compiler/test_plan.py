"""The Plan: equal inputs give the same fingerprint everywhere; anything that affects the bytes changes it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from folders import BACKEND, HELPERS
from kernelwheel.compiler import cmake_inputs
from kernelwheel.compiler.plan import Plan
from kernelwheel.project.build_platforms import PLATFORMS
from kernelwheel.project.build_settings import REGISTRY
from kernelwheel.project.package import PackageFacts
from kernelwheel.runtime.errors import BuildError, SettingsError
from kernelwheel.runtime.machine.platforms import platform_name
from kernelwheel.runtime.settings import Option
from processes import RunPython
from standins import SOURCES, TWICE, Machine, make_cxx, make_machine, make_toolkit, make_torch, plan_of, settings_with

DRAW = """
import sys
from pathlib import Path
from standins import Machine
print(Machine(Path(sys.argv[1])).draw().fingerprint)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_machine(tmp_path / "machine")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """The Plan of such a machine, wherever it is."""
    return make_machine(tmp_path_factory.mktemp("drawn") / "machine").draw()


# One fingerprint

NOISE = {f"NOISE_{i}": str(i) for i in range(9)}


def test_the_hash_seed_the_folder_and_the_order_of_variables_do_not_matter(
    machine: Machine, run_python: RunPython
) -> None:
    """In another process."""
    path, env = [HELPERS, BACKEND], {"PYTHONHASHSEED": "1", **dict(reversed(NOISE.items()))}

    drawn = run_python(DRAW, machine.folder, path=path, env=env, cwd=Path("/")).stdout.strip()

    assert drawn == machine.draw().fingerprint


def test_where_checkout_torch_toolkit_and_compiler_lie_does_not_matter(machine: Machine, tmp_path: Path) -> None:
    """Nor does the order in which files were made."""
    elsewhere = make_machine(tmp_path / "quite" / "another place", tuple(reversed(SOURCES)))

    assert elsewhere.draw() == machine.draw()
    assert elsewhere.draw().fingerprint == machine.draw().fingerprint
    assert str(machine.folder) not in json.dumps(machine.draw().to_json())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"jobs": "1"}, {"jobs": "7"}),
        ({"archs": "9.0 8.0 8.0"}, {"archs": "8.0;9.0"}),
        ({"archs": "7.5;8.0;9.0;10.0;11.0;12.0+PTX"}, {}),
    ],
    ids=str,
)
def test_how_many_jobs_run_and_how_architectures_are_written_does_not_matter(
    machine: Machine, one: dict[str, str], other: dict[str, str]
) -> None:
    assert machine.draw(**one).fingerprint == machine.draw(**other).fingerprint


def write(machine: Machine, path: str, text: str = "another") -> None:
    (machine.folder / path).parent.mkdir(parents=True, exist_ok=True)
    (machine.folder / path).write_text(text)


def replace_torch(machine: Machine) -> None:
    """By one with the same headers. The stable ABI target stands for torch: with one torch, a library works with all
    that are not older.
    """
    machine.torch.rename(machine.folder / "old torch")
    make_torch(machine.site, "2.15.0+cu990", "99.0")


def touch_all(machine: Machine) -> None:
    for path in [*machine.sources.rglob("*"), *machine.toolkit.rglob("*")]:
        os.utime(path, (1, 1))


JUNK = ("notes.txt", "twice.cpp~", ".twice.cpp.swp", "twice.o", "__pycache__/x.pyc", "README.md", ".DS_Store")
SAME: dict[str, Callable[[Machine], object]] = {
    "the times of files": touch_all,
    "other files": lambda m: [write(m, f"checkout/native/{name}") for name in JUNK],
    "a dangling lock link of an editor": lambda m: (m.sources / ".#twice.cpp").symlink_to("somebody@host.1234"),
    "a header of torch that no source reaches": partial(write, path="site/torch/include/torch/extension.h"),
    "another torch with the same headers": replace_torch,
}


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in SAME.items()])
def test_what_reaches_no_compiler_does_not_matter(
    machine: Machine, drawn: Plan, change: Callable[[Machine], object]
) -> None:
    change(machine)

    assert machine.draw().fingerprint == drawn.fingerprint


def test_an_nvcc_that_was_not_used_does_not_matter(machine: Machine) -> None:
    before = machine.draw(cuda="off")
    (machine.toolkit / "bin/ptxas").write_text("another")

    assert machine.draw(cuda="off").fingerprint == before.fingerprint
    assert before.to_json()["target"]["cuda"] is None


# Another fingerprint


@pytest.mark.parametrize("source", ["a.hh", "a.tpp", "third_party/Eigen/Core", "config.h.in", "linked/a.h"])
def test_files_that_may_reach_a_compiler_matter(machine: Machine, drawn: Plan, tmp_path: Path, source: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "around").symlink_to(machine.sources)
    (machine.sources / "linked").symlink_to(tmp_path / "elsewhere")
    (machine.sources / source).parent.mkdir(parents=True, exist_ok=True)
    (machine.sources / source).write_text("text")
    after = machine.draw()

    assert {*after.sources} - {*drawn.sources} == {source}
    assert after.fingerprint != drawn.fingerprint


CHANGES: dict[str, Callable[[Machine], object]] = {
    "a byte of a source": lambda m: write(m, "checkout/native/twice.cpp", TWICE.replace("int twice", "int twicf")),
    "a byte of CMakeLists.txt": lambda m: write(m, "checkout/native/CMakeLists.txt", "project(tinz)\n"),
    "a removed header": lambda m: (m.sources / "math/twice.cuh").unlink(),
    "a renamed source": lambda m: (m.sources / "twice.cpp").rename(m.sources / "twise.cpp"),
    "a header of torch that is compiled in": lambda m: write(m, "site/torch/include/torch/csrc/stable/library.h"),
    "a header of the system that is compiled in": lambda m: write(m, "bin/c++ headers/vector"),
    "the C++ compiler's own program, a script": lambda m: m.cxx.open("a").write("#\n"),
    "the C++ compiler behind its driver": lambda m: write(m, "bin/parts/cc1plus"),
    "the assembler": lambda m: write(m, "bin/parts/as"),
    "the linker": lambda m: write(m, "bin/parts/ld"),
    "what the linker adds": lambda m: write(m, "bin/parts/crti.o"),
    "the C++ compiler's version": lambda m: make_cxx(m.cxx, "12.3.0"),
    "the C++ compiler's target": lambda m: make_cxx(m.cxx, target="aarch64-linux-gnu"),
    "the C++ compiler's kind": lambda m: make_cxx(m.cxx, kind="clang"),
    "nvcc's version": lambda m: make_toolkit(m.toolkit, "99.0.2"),
    "nvcc's bytes": lambda m: (m.toolkit / "bin/nvcc").open("a").write("#\n"),
    "ptxas": lambda m: write(m, "toolkit/bin/ptxas"),
    "cicc": lambda m: write(m, "toolkit/nvvm/bin/cicc"),
    "libdevice": lambda m: write(m, "toolkit/nvvm/libdevice/libdevice.10.bc"),
    "crt": lambda m: write(m, "toolkit/include/crt/host_config.h"),
    "cudart's headers": lambda m: write(m, "toolkit/include/cuda_runtime.h"),
    "cudart's library": lambda m: write(m, "toolkit/lib64/libcudart_static.a"),
    "CCCL": lambda m: write(m, "toolkit/include/cccl/cub/cub.cuh"),
    "CCCL in the layout of CUDA 12": lambda m: write(m, "toolkit/include/cub/cub.cuh"),
}


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CHANGES.items()])
def test_what_can_change_the_binary_changes_the_fingerprint(
    machine: Machine, drawn: Plan, change: Callable[[Machine], object]
) -> None:
    change(machine)

    assert machine.draw().fingerprint != drawn.fingerprint


def test_every_setting_that_can_change_the_binary_gives_a_fingerprint_of_its_own(machine: Machine, drawn: Plan) -> None:
    options = [{"archs": archs} for archs in ("8.0", "8.0;9.0", "9.0", "9.0+PTX", "9.0a")]
    options += [{"version": "1.2.4"}, {"torch_target": "2.11"}]

    fingerprints = {drawn.fingerprint, *(machine.draw(**each).fingerprint for each in options)}

    assert len(fingerprints) == 1 + len(options)


# Two values for each option. If it names a tool, the second is the same tool in another folder.
PAIRS: dict[str, Callable[[Machine], tuple[str, str]]] = {
    "cuda": lambda _: ("on", "off"),
    "archs": lambda _: ("8.0", "9.0"),
    "nvcc": lambda m: (f"{m.toolkit}/bin/nvcc", f"{make_toolkit(m.folder / 'again')}/bin/nvcc"),
    "cuda-home": lambda m: (str(m.toolkit), str(make_toolkit(m.folder / "again"))),
    "cxx": lambda m: (str(m.cxx), str(make_cxx(m.folder / "again/c++"))),
    "compiler-launcher": lambda _: ("ccache", "sccache"),
    "cxx-standard": lambda _: ("raised", "as-written"),
    "cxx-flags": lambda _: ("-DA", "-DB"),
    "cuda-flags": lambda _: ("-DA", "-DB"),
    "link-flags": lambda _: ("-s", "-g"),
    "glibc": lambda _: ("2.28", "2.31"),
    "cpu": lambda _: ("", "x86-64-v3"),
    "platform": lambda _: ("native", next(name for name in PLATFORMS if name != platform_name())),
    "target-packages": lambda _: ("/a", "/b"),
    "jobs": lambda _: ("1", "2"),
    "source-date-epoch": lambda _: ("1500000000", "1600000000"),
    "jit": lambda _: ("never", "always"),
    "cache-dir": lambda _: ("/a", "/b"),
    "cache-path": lambda _: ("/a", "/b"),
    "trusted-owners": lambda _: ("", "1000"),
    "torch-tag": lambda _: ("local", "none"),
    "manylinux": lambda _: ("required", "auto"),
    "drivers": lambda _: ("12.0", "13.0"),
}


@pytest.mark.parametrize("option", [pytest.param(option, id=option.name) for option in REGISTRY])
def test_an_option_changes_the_fingerprint_where_the_registry_says_that_it_decides_the_binary(
    machine: Machine, option: Option
) -> None:
    one, other = (machine.draw(**{option.name: value}) for value in PAIRS[option.name](machine))

    assert (one.fingerprint != other.fingerprint) == (option.decides in ("content", "target"))
    without = option.name == "cuda"  # without CUDA kernels, options for them are no part of the content
    assert (one.content != other.content) == (option.decides == "content" or without)


# The Plan's form


def test_the_fingerprint_is_the_sha256_of_the_canonical_json_of_its_parts(machine: Machine) -> None:
    plan = machine.draw(cxx_flags="-DNAME=Ä")

    def sha256(value: object) -> str:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    values = plan.to_json()
    parts = {name: sha256(values[name]) for name in ("content", "tools", "target")}
    assert plan.digests == parts
    assert plan.fingerprint == sha256({"schema": 1, **parts})


# What cannot be planned


@pytest.mark.parametrize(("archs", "named"), [("7.0", r"7\.0"), ("Amper", "Amper")])
def test_architectures_that_the_nvcc_does_not_know_or_nobody_does_are_refused(
    machine: Machine, archs: str, named: str
) -> None:
    with pytest.raises(SettingsError, match=named):
        machine.draw(archs=archs)


@pytest.mark.parametrize(
    "flags", ["-O2 -gencode arch=compute_80,code=sm_80", "--generate-code=arch=compute_80", "-code sm_80"]
)
def test_architectures_in_the_options_for_nvcc_are_refused(machine: Machine, flags: str) -> None:
    with pytest.raises(SettingsError, match="archs") as caught:
        machine.draw(cuda_flags=flags)

    assert "-C cuda_flags" in caught.value.found


@pytest.mark.parametrize(
    "flags", ["-O2 -ccbin /usr/bin/g++-12", "-ccbin=/usr/bin/g++-12", "--compiler-bindir /usr/bin/g++-12"]
)
def test_a_compiler_in_the_options_for_nvcc_is_refused(machine: Machine, flags: str) -> None:
    """It would be another than `doctor` and the manifest say."""
    with pytest.raises(SettingsError, match="name a C\\+\\+ compiler") as caught:
        machine.draw(cuda_flags=flags)

    assert caught.value.found == "-ccbin /usr/bin/g++-12 in -C cuda_flags"
    assert "CXX=/usr/bin/g++-12" in caught.value.remedies[0]


@pytest.mark.parametrize("flags", ["-archive=x", "-Xptxas -O2", "--ptxas-options=-arch", "-code-x"])
def test_other_options_for_nvcc_are_not_taken_for_architectures(machine: Machine, flags: str) -> None:
    assert machine.draw(cuda_flags=flags).cuda is not None


def test_options_for_nvcc_do_not_matter_without_cuda_kernels(machine: Machine) -> None:
    plan = plan_of(
        PackageFacts("tiny", "native", "2.10"), "1.2.3", machine.sources,
        settings_with({"CUDAFLAGS": "-arch=native"}, cuda="off"),
        machine.toolchain(settings_with({"CXX": str(machine.cxx)}, cuda="off")),
    )  # fmt: skip

    assert plan.fingerprint == machine.draw(cuda="off").fingerprint


def test_a_torch_older_than_the_abi_s_target_is_refused(machine: Machine) -> None:
    with pytest.raises(BuildError, match=r"torch >= 2\.12") as caught:
        machine.draw(torch_target="2.12")

    assert caught.value.found == "torch 2.11.0+cu990"


def test_sources_without_a_cmakelists_are_refused(machine: Machine) -> None:
    (machine.sources / "CMakeLists.txt").unlink()

    with pytest.raises(SettingsError, match=r"CMakeLists\.txt"):
        machine.draw()


unchanged = dict(vars(cmake_inputs))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cache_entries", lambda *given: {**unchanged["cache_entries"](*given), "CMAKE_CXX_STANDARD": 23}),
        ("generated_sources", lambda *_: {"src/more.cpp": "int more;"}),
        ("recipe_files", lambda *given: {**unchanged["recipe_files"](*given), "recipe/paths.rsp": "-g"}),
        ("without_links", lambda work: ""),
        ("SETTLED", {"LC_ALL": "C"}),
        ("PASSED_ON", ("PATH", "CPATH")),
        ("GENERATOR", "-GUnix Makefiles"),
        ("BUILD_TYPE", "Debug"),
        ("file_sha256", lambda path: "0" * 64),
    ],
)
def test_whatever_cmake_and_the_compilers_are_told_is_in_the_fingerprint(
    machine: Machine, drawn: Plan, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(cmake_inputs, name, value)

    after = machine.draw()

    assert after.digests["tools"] != drawn.digests["tools"]
    assert after.fingerprint != drawn.fingerprint
