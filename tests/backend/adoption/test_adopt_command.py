"""What `python -m kernelwheel adopt` prints for setup.py files, which are written as those of well-known packages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from folders import BACKEND
from kernelwheel.adoption.adopt import adopted_tables
from kernelwheel.adoption.build_requirements import BROUGHT, build_system
from kernelwheel.adoption.compile_args import Places, sort_flags
from kernelwheel.adoption.cuda_extension import AdoptionNotes, Table, merge, translate
from kernelwheel.adoption.pyproject_text import WIDTH, add_tables, toml_text
from kernelwheel.adoption.setup_child import raised
from kernelwheel.adoption.setup_runs import RecordedExtension, SetupRun, failure
from kernelwheel.project.arch_choice import from_flags
from kernelwheel.project.package import read_toml
from kernelwheel.requirements import own_reference
from kernelwheel.runtime.errors import SettingsError
from packaging.requirements import Requirement
from setup_projects import BUILD_SYSTEM, IMPORTS, MODULE, adopt, lay_out

slow = pytest.mark.slow

SSIM = {
    "setup.py": IMPORTS
    + """
import shutil, subprocess
major, minor = torch.cuda.get_device_capability()
properties = torch.cuda.get_device_properties(torch.cuda.current_device())
assert torch.cuda.device_count() == 1 and properties.major == major and torch.backends.cuda.is_built()
said = subprocess.check_output([torch.utils.cpp_extension.CUDA_HOME + "/bin/nvcc", "--version"], text=True)
assert f"release {torch.version.cuda}," in said and shutil.which("nvcc").startswith(os.environ["CUDA_HOME"])
setup(
    name="fused-ssim-train",
    packages=find_packages(),
    ext_modules=[
        CUDAExtension("fused_ssim_cuda", ["ssim.cu", "ext.cpp"], extra_compile_args={
            "cxx": ["-O3"], "nvcc": ["-O3", f"-arch=sm_{major}{minor}"]})
    ],
    cmdclass={"build_ext": BuildExtension},
)
""",
    "ext.cpp": MODULE, "ssim.cu": "", "fused_ssim/__init__.py": "",
}  # fmt: skip
EITHER = {
    "setup.py": IMPORTS
    + """
from wheel import FLAGS
kind, sources, macros, flags = CppExtension, ["csrc/points.cpp"], [("LAYERS", "4")], {"cxx": FLAGS}
if (torch.cuda.is_available() and torch.utils.cpp_extension.CUDA_HOME) or os.getenv("FORCE_CUDA", "0") == "1":
    kind = CUDAExtension
    sources += ["csrc/points.cu", "csrc/launch.cpp"]
    macros += [("WITH_CUDA", None)]
    flags = {"cxx": FLAGS, "nvcc": ["-O3", "-DCUDA_HAS_FP16=1"]}
else:
    assert torch.version.cuda is None and "CUDA_HOME" not in os.environ
print("a line on standard output")
setup(
    name="either",
    version="2.0",
    packages=["either"],
    ext_modules=[
        kind("either._C", sources, include_dirs=["csrc"], define_macros=macros, extra_compile_args=flags)
    ],
    cmdclass={"build_ext": BuildExtension},
)
""",
    "csrc/points.cpp": "TORCH_LIBRARY(either, m) {}", "csrc/points.cu": "", "csrc/launch.cpp": "",
    "either/__init__.py": "", "wheel.py": 'FLAGS = ["-O3"]',
}  # fmt: skip
LOSSES = {
    "setup.py": IMPORTS
    + """
from setuptools import Extension
class Mine(BuildExtension):
    def run(self):
        pass
common = dict(sources=["ext.cpp"], include_dirs=["/elsewhere/include"], library_dirs=["/elsewhere/lib"])
modules = [Extension("pair.plain", ["plain.c"]), CppExtension("pair.cpu", **common)]
if torch.cuda.is_available():
    modules.append(CUDAExtension("pair.cuda", ["made.cu"], extra_compile_args=["-arch=native", "-ccbin", "/opt/g++"]))
else:
    modules.append(CppExtension("pair.stub", ["ext.cpp"]))
setup(name="pair", version="3", packages=["pair"], ext_modules=modules, cmdclass={"build_ext": Mine})
setup()
""",
    "ext.cpp": "STABLE_TORCH_LIBRARY(pair, m) {}", "plain.c": "", "pair/__init__.py": "",
    "pyproject.toml": '[build-system]\nrequires = ["setuptools>=61", "torch==2.4.0", "scikit-learn"]\n',
}  # fmt: skip


def printed(folder: Path, files: dict[str, str], **env: str) -> tuple[dict[str, Any], list[str], int]:
    """The tables that adopt prints for a project, what it says beside, and its exit status; the project stays."""
    done = adopt(lay_out(folder / "project", files), **env)
    there = {path.relative_to(folder / "project").as_posix() for path in (folder / "project").rglob("*")}
    assert {name for name in there if (folder / "project" / name).is_file()} == {*files}
    (folder / "printed.toml").write_text(done.stdout)
    notes = [line for line in done.stderr.splitlines() if not line.startswith("note: setup.py ")]
    assert "note: setup.py was told that there are CUDA 1" in done.stderr
    assert "note: setup.py must not have ext_modules any more: --write takes them out\n" in done.stderr
    return read_toml(folder / "printed.toml"), notes, done.returncode


def test_what_ends_a_script_is_told_with_its_line_and_what_setuptools_no_longer_has() -> None:
    source = b"import os\n\nimport pkg_resources_of_old  # for the version\n"
    try:
        exec(compile(source, "/p/setup.py", "exec"))
    except ModuleNotFoundError as error:
        said = raised(error, "/p/setup.py", source)

    assert said == (
        "it raised ModuleNotFoundError: No module named 'pkg_resources_of_old' "
        "(line 3: import pkg_resources_of_old  # for the version)"
    )
    assert "since release 82" in failure(said, b"").remedies[0]
    exited = failure("it called sys.exit(1)", b"needs nvcc 99\n")
    assert exited.found == "it called sys.exit(1)\nneeds nvcc 99"
    assert "since release 82" not in exited.remedies[0]


@pytest.mark.minutes
@slow
def test_a_question_about_the_machine_is_answered_alike_everywhere(tmp_path: Path) -> None:
    """On a machine with another toolkit, too."""
    tables, notes, status = printed(tmp_path, SSIM, CUDA_HOME="/nope")

    assert tables["tool"]["kernelwheel"] == {
        "package": "fused_ssim",
        "extension": [
            {
                "name": "fused_ssim_cuda",
                "kind": "module",
                "sources": ["ssim.cu", "ext.cpp"],
                "cxx-flags": ["-O3"],
                "cuda-flags": ["-O3"],
                "cuda": "required",
            }
        ],
    }
    assert notes == [
        "note: flags that choose the GPU's own architecture are left out: kernelwheel compiles for "
        "TORCH_CUDA_ARCH_LIST or a default list"
    ]
    assert status == 0


@pytest.mark.minutes
@slow
def test_what_is_built_with_cuda_and_without_is_one_extension(tmp_path: Path) -> None:
    tables, notes, status = printed(tmp_path, EITHER)

    assert tables["tool"]["kernelwheel"]["extension"] == [
        {
            "name": "either._C",
            "kind": "torch-library",
            "sources": ["csrc/points.cpp", "csrc/points.cu"],
            "cuda-sources": ["csrc/launch.cpp"],
            "include-dirs": ["csrc"],
            "define": ["LAYERS=4"],
            "cuda-define": ["WITH_CUDA"],
            "cxx-flags": ["-O3"],
            "cuda-flags": ["-O3", "-DCUDA_HAS_FP16=1"],
            "cuda": "optional",
        }
    ]
    assert (notes, status) == ([], 0)


@slow
def test_what_cannot_be_translated_is_said_with_its_reason(tmp_path: Path) -> None:
    tables, notes, status = printed(tmp_path, LOSSES)

    assert tables == {
        "build-system": {**BUILD_SYSTEM, "requires": [*BUILD_SYSTEM["requires"], "scikit-learn"]},
        "tool": {
            "kernelwheel": {
                "extension": [
                    {"name": "pair.cpu", "kind": "operators", "sources": ["ext.cpp"], "cuda": "none"},
                    {"name": "pair.cuda", "kind": "module", "sources": ["made.cu"], "cuda": "only"},
                ]
            }
        },
    }
    assert notes == [
        "not translated: pair.plain: made by Extension, not by a function of torch",
        "not translated: pair.cpu: the library folder /elsewhere/lib, which no key takes",
        "not translated: pair.cpu: the include folder /elsewhere/include is outside of the project; copy it into the "
        "project",
        "not translated: pair.cuda: the flag '-ccbin /opt/g++' names a place on this machine",
        "not translated: pair.stub: an extension that is built only without CUDA",
        "not translated: the flag -arch=native, which no list of architectures can say",
        "not translated: kernelwheel refuses these tables: the extension pair.cuda cannot be built: sources: C++ or "
        "CUDA files (.cpp, .cc, .cxx, .c++, .cu) that match made.cu; found none; the nearest is ext.cpp",
        "not translated: setup.py has its own build_ext, Mine: nothing calls it any more",
        "not translated: setup() was called 2 times: only the first call was read",
        "note: pair.cuda: no source has PYBIND11_MODULE or TORCH_LIBRARY; assumed to be a module",
        "note: pair.cuda: a build without CUDA leaves it out, as setup.py does",
        "note: [build-system] requires no longer has torch==2.4.0, but torch>=2.10",
    ]
    assert status == 1


@pytest.mark.minutes
@slow
@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("import sys\nprint('needs nvcc 99')\nsys.exit(3)", ["it called sys.exit(3)", "needs nvcc 99"]),
        ("import os\nos._exit(7)", ["its process ended with status 7"]),
        ("from setuptools import setup\nsetup(name='x', version='1')", ["no ext_modules", "switches the ext"]),
    ],
    ids=["exit", "no word", "no extension"],
)
def test_a_setup_script_that_cannot_be_read_is_quoted(tmp_path: Path, script: str, found: list[str]) -> None:
    done = adopt(lay_out(tmp_path / "project", {"setup.py": script}))

    assert done.stdout == ""
    assert done.stderr.startswith("kernelwheel: setup.py ")
    assert "  required: " in done.stderr
    assert "  to fix:  " in done.stderr
    assert [text for text in found if text not in done.stderr] == []
    assert done.returncode == 1


@slow
def test_it_needs_a_setup_script_and_says_that_it_runs_it(tmp_path: Path) -> None:
    nothing, nowhere = adopt(tmp_path), adopt(tmp_path / "nowhere")

    assert f"no setup.py in {tmp_path}\n" in nothing.stderr
    assert f"no folder {tmp_path / 'nowhere'}\n" in nowhere.stderr
    assert (nothing.returncode, nowhere.returncode) == (2, 2)
    assert "This RUNS setup.py" in adopt(tmp_path, "--help").stdout


PLACES = Places(Path("/p"), ("/env/torch", "/scratch/cuda"), ("/usr/include",))


@pytest.mark.parametrize(
    ("flags", "kept", "field", "values"),
    [
        (["-I", "a", "-Ib/", "-isystem", "/p/c", "-O2"], ["-O2"], "include_dirs", ["a", "b/", "/p/c"]),
        (["-lfoo", "-l", "bar", "-s"], ["-s"], "libraries", ["foo", "bar"]),
        (["-lineinfo", "-lto", "-lcuda", "-linear"], ["-lineinfo", "-lto"], "libraries", ["cuda", "inear"]),
        (["-std=c++20", "--std=c++14", "-std", "gnu++17", "-std=c++03"], ["-std=c++20"], "old_standards",
         ["-std=c++14", "-std=gnu++17", "-std=c++03"]),
        (["-Xcompiler", "-fPIC,-std=c++14", "-Xcompiler=-std=c++1z", "-DA=-std=c++11", "-std=c++2a"],
         ["-Xcompiler", "-fPIC", "-DA=-std=c++11", "-std=c++2a"], "old_standards", ["-std=c++14", "-std=c++1z"]),
        (["-l:libnvshmem_host.so.3", "-l:libnvshmem_device.a", "-lz"], [], "libraries",
         ["nvshmem_host", "nvshmem_device", "z"]),
        (["-L/x", "-Wl,-O1"], ["-Wl,-O1"], "link_dirs", ["/x"]),
        (["-Wl,-rpath,/env/torch/lib", "-Wl,-rpath,$ORIGIN/../lib"], ["-Wl,-rpath,$ORIGIN/../lib"], "of_this_machine",
         []),
        (["-Wl,-rpath,/x/lib", "-DROOT=/p/a", "-include", "/p/x.h"], [], "of_this_machine",
         ["-Wl,-rpath,/x/lib", "-DROOT=/p/a", "-include /p/x.h"]),
        (["-ccbin", "g++-12", "-ccbin=g++", "-O2"], ["-O2"], "of_this_machine", ["-ccbin g++-12", "-ccbin=g++"]),
        (["-D", "A=1", "-DB", "-Xcompiler", "-fPIC"], ["-DA=1", "-DB", "-Xcompiler", "-fPIC"], "of_this_machine", []),
        (["-march=haswell", "-code=sm_80", "-gencode arch=a,code=b"], ["-march=haswell"], "archs",
         ["-code=sm_80", "-gencode arch=a,code=b"]),
        (["-march=native", "-O3", "-mtune=native", "-Xcompiler", "-march=native", "-Xcompiler=-mcpu=native"], ["-O3"],
         "of_this_cpu", ["-march=native", "-mtune=native", "-march=native", "-mcpu=native"]),
        (["-Xcompiler=-march=native,-O3", "-Xcompiler", "-O2,-mtune=native"],
         ["-Xcompiler=-O3", "-Xcompiler", "-O2"], "of_this_cpu", ["-march=native", "-mtune=native"]),
        (["-rdc=true", "-O2", "-dc", "--relocatable-device-code", "true"], ["-O2"], "device_link",
         ["-rdc=true", "-dc", "--relocatable-device-code"]),
    ],
)  # fmt: skip
def test_flags_are_sorted(flags: list[str], kept: list[str], field: str, values: list[str]) -> None:
    found = sort_flags(flags, PLACES)

    assert found.kept == kept
    assert getattr(found, field) == values
    assert sum(map(len, found)) == len(kept) + len(values)


@pytest.mark.parametrize(
    ("flags", "archs"),
    [
        ([], ""), (["-gencode arch=compute_90a,code=sm_90a", "-gencode=arch=compute_75,code=sm_75"], "7.5;9.0a"),
        (["-gencode", "x"], None),
        (["-gencode=arch=compute_80,code=compute_80", "-gencode=arch=compute_80,code=sm_80"], "8.0+PTX"),
        (['-gencode=arch=compute_120,code=\\"sm_120,compute_120\\"'], "12.0+PTX"),
        (["--gpu-architecture sm_86"], "8.6+PTX"), (["-gencode=arch=compute_70,code=sm_75"], None),
        (["-gencode=arch=compute_80,code=lto_80"], None), (["-arch=native"], None),
    ],
)  # fmt: skip
def test_architectures_are_read_from_the_flags_or_refused(flags: list[str], archs: str | None) -> None:
    if archs is not None:
        assert str(from_flags(flags)) == archs
        return
    with pytest.raises(ValueError, match=flags[0].partition("=")[0].replace("-", r"\-")):
        from_flags(flags)


def translated(project: Path, **fields: Any) -> tuple[Table, AdoptionNotes]:
    notes = AdoptionNotes()
    extension = RecordedExtension("p._C", "CUDAExtension", {"sources": ["a.cu"], **fields})
    return translate(extension, Places(project, *PLACES[1:]), notes)[0], notes


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"sources": ["a.pyx"]}, "a.pyx is neither"),
        ({"sources": ["../src/a.cu", "../src/b.cu", "a.cu"]}, "2 sources are outside of the folder of setup.py"),
        ({"extra_compile_args": {"nvcc_dlink": ["-dlink", "-Xnvlink=-v"]}}, "nvcc_dlink, which no key takes: -Xnv"),
        ({"extra_objects": ["a.o"]}, "extra_objects"),
        ({"include_dirs": ["../glm", "../glm"]}, "../glm is outside"),
        ({"include_dirs": [None, "."]}, "include_dirs has None in place of what setup.py did not find"),
    ],
)
def test_what_has_no_key_is_told(tmp_path: Path, fields: dict[str, Any], word: str) -> None:
    lay_out(tmp_path, {"a.cu": MODULE, "a.pyx": ""})

    _, notes = translated(tmp_path, **fields)

    (told,) = notes.untranslated
    assert word in told


@pytest.mark.parametrize(
    "flags", [{"nvcc": ["-rdc=true"]}, {"nvcc": ["-dc"]}, {"nvcc_dlink": ["-dlink", "-L/env/torch/lib", "-dlto"]}]
)
def test_device_code_that_is_linked_is_a_key(tmp_path: Path, flags: dict[str, list[str]]) -> None:
    lay_out(tmp_path, {"a.cu": MODULE})

    table, notes = translated(tmp_path, extra_compile_args=flags)
    of_libraries, _ = translated(tmp_path, extra_compile_args={"nvcc_dlink": ["-dlink", "-lnvshmem_device"]})

    assert (table["device-link"], table["cuda-flags"], notes.untranslated) == (True, [], [])
    assert of_libraries["libraries"] == ["nvshmem_device"]
    assert not translated(tmp_path)[0]["device-link"]


def test_what_is_for_the_builders_own_cpu_is_left_out_with_a_note(tmp_path: Path) -> None:
    lay_out(tmp_path, {"a.cu": MODULE})
    flags = {"cxx": ["-O3", "-march=native"], "nvcc": ["-Xcompiler", "-march=native"]}

    table, notes = translated(tmp_path, extra_compile_args=flags)

    assert (table["cxx-flags"], table["cuda-flags"]) == (["-O3"], [])
    assert notes.untranslated == []
    assert "p._C: -march=native is left out: that is the CPU of whoever builds" in notes.remarks[0]


def test_folders_that_a_build_searches_anyway_are_dropped(tmp_path: Path) -> None:
    lay_out(tmp_path, {"a.cu": MODULE})
    ours = ["/env/torch/include", "/scratch/cuda/include", "/usr/local/cuda-12.8/include", "/usr/include"]

    table, notes = translated(
        tmp_path, include_dirs=[*ours, "/env/lib/pybind11/include", "."], library_dirs=["/env/torch/lib"]
    )

    assert table["include-dirs"] == ["."]
    assert notes == AdoptionNotes()
    assert translated(tmp_path, include_dirs=["/usr/include/eigen3"])[1].untranslated != []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (MODULE, "module"),
        ("TORCH_LIBRARY_FRAGMENT(x, m) {}\n// PYBIND11_MODULE(x, m)", "torch-library"),
        ("TORCH_LIBRARY(x, m) {}\n#ifdef _WIN32\n#ifdef A\nint PyInit__C(void);\n#endif\n#endif", "torch-library"),
        ("TORCH_LIBRARY(x, m) {}\n#if defined(_WIN32)\n#else\nint PyInit__C(void);\n#endif", "module"),
        ("TORCH_LIBRARY(x, m) {}\n#if defined(_WIN32) || A\nint PyInit__C(void);\n#endif", "module"),
        ('static auto registry = torch::RegisterOperators().op("x::a", &a);', "torch-library"),
        ("STABLE_TORCH_LIBRARY_IMPL(x, CUDA, m) {}", "operators"),
        ("STABLE_TORCH_LIBRARY(x, m) {}\nTORCH_LIBRARY_IMPL(x, CUDA, m) {}", "torch-library"),
        ("/* TORCH_LIBRARY(x, m) */ STABLE_TORCH_LIBRARY(x, m) {}", "operators"),
    ],
)
def test_the_kind_is_what_the_sources_register(tmp_path: Path, text: str, kind: str) -> None:
    table, notes = translated(lay_out(tmp_path, {"a.cu": text}))

    assert table["kind"] == kind
    assert notes == AdoptionNotes()


def test_a_macro_that_brings_in_python_is_left_out_of_a_library_without_python(tmp_path: Path) -> None:
    text = "#ifdef WITH_PYTHON\n#include <Python.h>\n#endif\n#ifdef WITH_CUDA\n#endif\nTORCH_LIBRARY(x, m) {}"
    macros = {"define_macros": [["WITH_PYTHON", None], ["WITH_CUDA", None]]}

    table, notes = translated(lay_out(tmp_path / "a", {"a.cu": text}), **macros)
    module, _ = translated(lay_out(tmp_path / "b", {"a.cu": text + MODULE}), **macros)

    assert (table["kind"], table["define"]) == ("torch-library", ["WITH_CUDA"])
    (told,) = notes.remarks
    assert "WITH_PYTHON" in told
    assert module["define"] == ["WITH_PYTHON", "WITH_CUDA"]


@pytest.mark.parametrize(
    ("text", "macros", "told"),
    [
        ("#include <Python.h>", [], "Python.h"),
        ('#include "torch/extension.h"', [], "torch/extension.h"),
        ("#ifdef WITH_CUDA\n#include <pybind11/numpy.h>\n#endif", [["WITH_CUDA", None]], "pybind11/numpy.h"),
        ("#ifndef NO_PYTHON\n#include <torch/python.h>\n#endif", [], "torch/python.h"),
        ("#ifdef A\n#else\n#include <Python.h>\n#endif", [], "Python.h"),
        ("#ifdef WITH_PYTHON\n#include <Python.h>\n#endif", [["WITH_PYTHON", None]], None),
        ("#if defined(WITH_PYTHON)\n#include <Python.h>\n#endif", [], None),
        ("#ifdef _WIN32\n#include <Python.h>\n#endif", [], None),
        ("// #include <Python.h>\n#include <torch/all.h>", [], None),
    ],
)
def test_headers_of_python_in_a_library_without_python_are_told(
    tmp_path: Path, text: str, macros: list[list[str | None]], told: str | None
) -> None:
    _, notes = translated(lay_out(tmp_path, {"a.cu": f"{text}\nTORCH_LIBRARY(x, m) {{}}"}), define_macros=macros)

    assert len(notes.untranslated) == (told is not None)
    assert all(
        f"a source includes {told}, and a torch-library is compiled without Python" in each
        for each in notes.untranslated
    )


def test_a_standard_that_is_left_out_and_packages_of_pip_are_notes(tmp_path: Path) -> None:
    nccl = "/env/lib/python3.12/site-packages/nvidia/nccl"

    table, notes = translated(
        lay_out(tmp_path, {"a.cu": MODULE}), extra_compile_args={"cxx": ["-std=c++17"], "nvcc": ["-std=c++17", "-O3"]},
        include_dirs=[f"{nccl}/include"], library_dirs=[f"{nccl}/lib"], extra_link_args=["-l:libnccl.so.2"],
    )  # fmt: skip

    assert (table["cuda-flags"], table["include-dirs"], table["libraries"]) == (["-O3"], [], ["nccl"])
    assert notes.untranslated == []
    standard, package = sorted(notes.remarks)
    assert "-std=c++17 is left out" in standard
    assert re.search(r"nccl(-cu\d+)? need no folder, as a build finds them beside torch", package)


@pytest.mark.parametrize(("source", "by_path"), [("TORCH_LIBRARY(x, m) {}", True), (MODULE, False)])
def test_a_library_that_the_package_loads_by_its_path_is_to_lie_there(
    tmp_path: Path, source: str, by_path: bool
) -> None:
    table, _ = translated(lay_out(tmp_path, {"a.cu": source, "p/sub/a.py": "torch.ops.load_library(spec.origin)\n"}))

    assert table["by-path"] is by_path


def test_what_only_one_of_two_builds_has_is_told(tmp_path: Path) -> None:
    lay_out(tmp_path, {"a.cu": MODULE, "b.cpp": "", "stub.cpp": ""})
    with_cuda, _ = translated(
        tmp_path, sources=["a.cu", "b.cpp"], libraries=["cublas", "z"], extra_compile_args={"cxx": ["-fopenmp"]}
    )
    without, _ = translated(tmp_path, sources=["b.cpp", "stub.cpp"], define_macros=[["NO_CUDA", None]])
    notes = AdoptionNotes()

    assert merge(with_cuda, without, notes) == {**with_cuda, "cuda": "optional"}
    assert notes.untranslated == [
        "p._C: of sources, builds without CUDA alone have stub.cpp",
        "p._C: of define, builds without CUDA alone have NO_CUDA",
        "p._C: of cxx-flags, builds with CUDA alone have -fopenmp: here all builds do",
        "p._C: of libraries, builds with CUDA alone have z: here all builds do",
    ]


@pytest.mark.parametrize(
    ("extensions", "packages", "home"),
    [
        (["p._C", "p.sub._D"], ["other"], None), (["p._C", "q._C"], ["q"], "p"),
        (["_top"], ["a", "the_name"], "the_name"), (["_top"], ["a", "b"], "_top"), (["_top", "_other"], [], "_top"),
    ],
)  # fmt: skip
def test_of_several_packages_none_is_taken_for_the_home_by_chance(
    tmp_path: Path, extensions: list[str], packages: list[str], home: str | None
) -> None:
    lay_out(tmp_path, {"a.cpp": MODULE})
    recorded = tuple(RecordedExtension(name, "CppExtension", {"sources": ["a.cpp"]}) for name in extensions)
    seen = SetupRun(recorded, {}, {}, "the-name", packages, True, 1, "13.0", False, (), ())
    notes = AdoptionNotes()

    _, kernelwheel, _ = adopted_tables(tmp_path, seen, None, notes)

    assert kernelwheel.get("package") == home
    assert notes.untranslated == []


def adopted(
    folder: Path, flags: list[str], asked: bool = False, archs_set: str = ""
) -> tuple[dict[str, Any], AdoptionNotes]:
    """What becomes of one extension with flags for nvcc."""
    lay_out(folder, {"a.cu": MODULE})
    fields = {"sources": ["a.cu"], "extra_compile_args": {"nvcc": flags}}
    seen = SetupRun(
        (RecordedExtension("p._C", "CUDAExtension", fields),), {}, {}, "p", ["p"], True, 1, "13.0", asked, (), (),
        archs_set,
    )  # fmt: skip
    notes = AdoptionNotes()
    return adopted_tables(folder, seen, None, notes)[1], notes


FAMILY = ["-gencode", "arch=compute_90a,code=sm_90a"]


@pytest.mark.parametrize(
    ("flags", "asked", "archs_set", "package", "own", "said"),
    [
        ([], False, "8.0;9.0+PTX", None, None, "sets TORCH_CUDA_ARCH_LIST to '8.0;9.0+PTX': left out"),
        (["-arch=sm_80"], False, "9.0", "8.0+PTX", None, "flags that choose architectures became archs"),
        (FAMILY, False, "", None, "9.0a", "p._C: archs = '9.0a' is its own"),
        (FAMILY, True, "", None, "9.0a", "p._C: archs = '9.0a' is its own"),
        ([*FAMILY, "-arch=sm_80"], False, "", None, "8.0+PTX;9.0a", "p._C: archs = '8.0+PTX;9.0a' is its own"),
        (["-arch=sm_90"], True, "", None, None, "flags that choose the GPU's own architecture are left out"),
    ],
)  # fmt: skip
def test_architectures_belong_to_the_package_and_families_to_the_extension(
    tmp_path: Path, flags: list[str], asked: bool, archs_set: str, package: str | None,
    own: str | None, said: str,
) -> None:  # fmt: skip
    kernelwheel, notes = adopted(tmp_path, flags, asked, archs_set)

    assert kernelwheel.get("archs") == package
    assert kernelwheel["extension"][0].get("archs") == own
    assert len([each for each in [*notes.remarks, *notes.untranslated] if said in each]) == 1
    assert (notes.untranslated, notes.refused) == ([], [])


@pytest.mark.parametrize(
    ("asked", "kept", "said"),
    [
        ("torch", ["torch>=2.10"], ""), ("torch>=2.4", ["torch>=2.10"], ""),
        ("torch>=2.12,<2.14", ["torch>=2.10", "torch>=2.12,<2.14"], ""),
        ("torch==2.12.*", ["torch>=2.10", "torch==2.12.*"], ""),
        ("torch>2.1 ; python_version < '4'", ["torch>=2.10"], ""),
        ("torch==2.4.0", ["torch>=2.10"], "no longer has torch==2.4.0"),
        ("torch @ https://example.org/t.whl", ["torch>=2.10", "torch @ https://example.org/t.whl"], ""),
        ("setuptools", ["torch>=2.10"], ""), ("setuptools>=61", ["torch>=2.10"], ""), ("wheel", ["torch>=2.10"], ""),
        ("setuptools<90", ["torch>=2.10", "setuptools<90"], ""),
        ("setuptools==80.9.0", ["torch>=2.10", "setuptools==80.9.0"], ""),
        ("setuptools-scm[toml]>=8", ["torch>=2.10", "setuptools-scm[toml]>=8"], ""),
        ("ninja>=1.11", ["torch>=2.10", "ninja>=1.11"], ""), ("Ninja", ["torch>=2.10"], ""),
        ("numpy", ["torch>=2.10", "numpy"], ""),
    ],
)  # fmt: skip
def test_what_a_project_asks_of_its_build_requirements_stays(asked: str, kept: list[str], said: str) -> None:
    notes = AdoptionNotes()

    made = build_system(False, {"requires": [asked]}, notes)

    assert made == {"requires": [own_reference(), *kept], "build-backend": "kernelwheel.hooks"}
    told = [*notes.remarks, *notes.untranslated]
    assert len(told) == bool(said)
    assert all(said in each for each in told)


def test_what_kernelwheel_brings_is_in_the_releases_that_its_own_distribution_requires() -> None:
    ours = read_toml(BACKEND / "pyproject.toml")["project"]
    texts = [*ours["dependencies"], *(text for extra in ours["optional-dependencies"].values() for text in extra)]
    required = {each.name: str(each.specifier) for each in map(Requirement, texts)}

    assert {name: f">={BROUGHT[name]}" for name in BROUGHT if name in required} == {
        name: required[name].split(",")[-1] for name in BROUGHT if name in required
    }
    assert {"setuptools", "wheel", "packaging", "ninja"} <= required.keys()


KERNELS = {"archs": "9.0", "extension": [{"name": "p._C", "sources": ["a.cu"]}]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('[project]\nname = "x"', '{build}\n[project]\nname = "x"\n\n{rest}'),
        ("[project]\r\nname = 'x'\r\n", "{build}\r\n[project]\r\nname = 'x'\r\n\r\n{rest}"),
        ("# a\n\n[build-system] # old\nrequires = []\n# b\n[x]\ny = 1\n", "# a\n\n{build}# b\n[x]\ny = 1\n\n{rest}"),
        ("[build-system]\nz = 1\n\n\n# a\n\n# b\n[[x]]", "{build}\n\n# a\n\n# b\n[[x]]\n\n{rest}"),
        ("[build-system]\r\nrequires = []\r\n\r\n[x]\r\n", "{build}\r\n[x]\r\n\r\n{rest}"),
        ("[build-system]", "{build}\n{rest}"),
    ],
)
def test_tables_are_added_to_the_text(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(before.encode())
    path.chmod(0o640)
    newline = "\r\n" if "\r\n" in before else "\n"
    build, rest = (text.replace("\n", newline) for text in toml_text(BUILD_SYSTEM, KERNELS))

    add_tables(path, BUILD_SYSTEM, KERNELS)

    assert path.read_bytes().decode() == after.format(build=build, rest=rest)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["pyproject.toml"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('name = "x"\n[y]\n', '{dynamic}name = "x"\n[y]\n'),
        (
            'name = "x"\ndependencies = [\n  "a", # ]\n  "b",\n]\nversion = "1"\n',
            'name = "x"\n{dynamic}version = "1"\n',
        ),
        ("dependencies = ['a']\nname = 'x'\ndynamic = ['version'] # b\n# c\n", "{dynamic}name = 'x'\n# c\n"),
    ],
)
def test_what_a_wheel_adds_to_is_dynamic(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(f"[project]\n{before}")

    add_tables(path, BUILD_SYSTEM, KERNELS, ["version", "dependencies"])

    after = after.format(dynamic='dynamic = ["version", "dependencies"]\n')
    assert path.read_text().partition("[project]\n")[2].startswith(f"{after}\n[tool.kernelwheel]\n")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[tool.kernelwheel]\n", "there is one"),
        ("[tool]\nkernelwheel.archs = '9.0'\n", "there is one"),
        ("build-system.requires = []\nbuild-system.y = 1\n[x]\n", "another way of writing"),
        ("[build-system]\nrequires = []\n[x]\n[build-system.y]\n", "another way of writing"),
        ('x = """\n[build-system]\n"""\n', "another way of writing"),
        ("x = [\n", "a valid TOML file"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_left_alone(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(text)

    with pytest.raises(SettingsError, match=word):
        add_tables(path, BUILD_SYSTEM, KERNELS)

    assert path.read_text() == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["pyproject.toml"]


def test_values_are_written_as_they_are_read(tmp_path: Path) -> None:
    sources = ["x" * 40, 'quote " and \\', "tab\t, é, \x7f, \x00"] * 3
    extension = {"name": "a", "sources": sources, "define": ["X='1'"], "by-path": True}
    kernelwheel: dict[str, Any] = {"extension": [extension, {"name": "b", "sources": ["y" * WIDTH]}]}

    add_tables(tmp_path / "pyproject.toml", BUILD_SYSTEM, kernelwheel)

    assert read_toml(tmp_path / "pyproject.toml") == {
        "build-system": BUILD_SYSTEM,
        "tool": {"kernelwheel": kernelwheel},
    }
