"""`python -m kernelwheel adopt` on setup.py files that are written as those of well-known extensions are."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from folders import BACKEND
from kernelwheel.adoption.extension_tables import AdoptionNotes, ExtensionTable, merge, own_home, translate, with_globs
from kernelwheel.adoption.project_tables import home_package
from kernelwheel.adoption.pyproject_text import add_tables, toml_text
from kernelwheel.adoption.setup_flags import Places, arch_list, sort_flags
from kernelwheel.adoption.setup_runs import ObservedExtension
from kernelwheel.runtime.errors import SettingsError
from processes import Done, run
from setup_projects import BUILD_SYSTEM, COMMAND, IMPORTS, MODULE, REMOVE, adopt, lay_out, notes_of, parsed_toml

pytestmark = pytest.mark.once

# Each a project's files; where a source is named alone, it is empty.
KNN = {
    "setup.py": IMPORTS
    + """
cxx_compiler_flags = []
if os.name == "nt":
    cxx_compiler_flags.append("/wd4624")
setup(
    name="simple_knn",
    ext_modules=[
        CUDAExtension(
            name="simple_knn._C",
            sources=["spatial.cu", "simple_knn.cu", "ext.cpp"],
            extra_compile_args={"nvcc": [], "cxx": cxx_compiler_flags},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
""",
    "ext.cpp": MODULE, "spatial.cu": "", "simple_knn.cu": "",
}  # fmt: skip
RASTERIZER = {
    "setup.py": IMPORTS
    + """
here = os.path.dirname(os.path.abspath(__file__))
setup(
    name="diff-gaussian-rasterization",
    version="0.1",
    packages=["diff_gaussian_rasterization"],
    install_requires=["torch", "numpy>=1.26"],
    ext_modules=[
        CUDAExtension(
            name="diff_gaussian_rasterization._C",
            sources=["cuda_rasterizer/forward.cu", os.path.join(here, "rasterize_points.cu"), "ext.cpp"],
            include_dirs=[os.path.join(here, "cuda_rasterizer")],
            define_macros=[("CHANNELS", "3"), ("FAST", None)],
            libraries=["cublas"],
            extra_compile_args={
                "nvcc": ["-I" + os.path.join(here, "third_party/glm/"), "-gencode", "arch=compute_80,code=sm_80",
                         "-gencode=arch=compute_90,code=[sm_90,compute_90]", "--use_fast_math",
                         f"-I{torch.utils.cpp_extension.CUDA_HOME}/include/cub"],
                "cxx": ["-O2", "-std=c++17"],
            },
        )
    ],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
""",
    "ext.cpp": MODULE, "rasterize_points.cu": "", "cuda_rasterizer/forward.cu": "",
    "third_party/glm/glm.hpp": "", "diff_gaussian_rasterization/__init__.py": "",
}  # fmt: skip
SSIM = {
    "setup.py": IMPORTS
    + """
import shutil, subprocess
flags = ["-O3", "--use_fast_math"]
try:
    major, minor = torch.cuda.get_device_capability()
    flags.append(f"-arch=sm_{major}{minor}")
except RuntimeError:
    flags += [f"-gencode=arch={arch}" for arch in torch.cuda.get_arch_list() or ["compute_75,code=sm_75"]]
for ask in ("nvidia-smi -L", ["nvidia-smi", "-L"]):
    try:
        flags.append("-DGPU=" + subprocess.check_output(ask, shell=isinstance(ask, str), text=True))
    except (OSError, subprocess.CalledProcessError):
        pass
assert torch.cuda.device_count() == 0 and shutil.which("nvidia-smi") is None and os.system("nvidia-smi") != 0
if torch.utils.cpp_extension.CUDA_HOME:
    said = subprocess.check_output([torch.utils.cpp_extension.CUDA_HOME + "/bin/nvcc", "--version"], text=True)
    assert f"release {torch.version.cuda}," in said and shutil.which("nvcc")
else:
    assert shutil.which("nvcc") is None and torch.version.cuda is None
setup(
    name="fused-ssim-train",
    version="1.0",
    packages=find_packages(),
    ext_modules=[
        CUDAExtension("fused_ssim_cuda", ["ssim.cu", "ext.cpp"], extra_compile_args={"cxx": ["-O3"], "nvcc": flags})
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
    flags = {"cxx": ["-O3", "-DON_GPU=1"], "nvcc": ["-O3", "-DON_GPU=1", "-DCUDA_HAS_FP16=1"]}
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
GPU_ONLY = {
    "setup.py": IMPORTS
    + """
from setuptools import Extension
assert "nope" not in os.environ.get("CUDA_HOME", "") + str(torch.utils.cpp_extension.CUDA_HOME)
class Mine(BuildExtension):
    pass
print("a line on standard output")
common = dict(sources=["ext.cpp"], include_dirs=["/elsewhere/include"], library_dirs=["/elsewhere/lib"])
modules = [Extension("pair.plain", ["plain.c"]), CppExtension("pair.cpu", **common)]
if torch.cuda.is_available():
    modules.append(CUDAExtension("pair.cuda", ["made.cu"], extra_compile_args=["-arch=native", "-ccbin", "/opt/g++"]))
setup(name="pair", version="3", packages=["pair"], ext_modules=modules, cmdclass={"build_ext": Mine},
      author="Somebody", entry_points={"console_scripts": ["pair = pair:main"]})
""",
    "ext.cpp": "STABLE_TORCH_LIBRARY(pair, m) {}", "plain.c": "", "pair/__init__.py": "",
    "pyproject.toml": '[build-system]\nrequires = ["setuptools>=61", "torch==2.4.0", "scikit-learn"]\n',
}  # fmt: skip


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Done, Path]]:
    """What adopt prints for one of the projects above, once in a run, on a machine with a driver and a toolkit."""
    done: dict[str, tuple[Done, Path]] = {}
    programs = lay_out(
        tmp_path_factory.mktemp("programs"), dict.fromkeys(("nvidia-smi", "nvcc"), "#!/bin/sh\necho 9.0\n")
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    machine = {
        "PYTHONDONTWRITEBYTECODE": None,
        "CUDA_HOME": "/nope",
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }

    def once(name: str) -> tuple[Done, Path]:
        if name not in done:
            project = lay_out(tmp_path_factory.mktemp(name), globals()[name])
            done[name] = adopt(project, **machine), project
        return done[name]

    return once


Adopted = Callable[[str], tuple[Done, Path]]
slow = pytest.mark.slow


@slow
def test_a_package_of_one_module_is_translated_whole(adopted: Adopted) -> None:
    done, _ = adopted("KNN")

    assert parsed_toml(done.stdout) == {
        "build-system": BUILD_SYSTEM,
        "project": {"name": "simple_knn", "version": "0.0.0"},
        "tool": {
            "setuptools": {"packages": []},
            "kernelwheel": {
                "extension": [
                    {
                        "name": "simple_knn._C",
                        "kind": "module",
                        "sources": ["spatial.cu", "simple_knn.cu", "ext.cpp"],
                        "cuda": "required",
                    }
                ]
            },
        },
    }
    assert notes_of(done) == ["note: setup() was given no version, so it stays 0.0.0", REMOVE]
    assert done.returncode == 0


@slow
def test_folders_flags_and_architectures_are_sorted(adopted: Adopted) -> None:
    done, _ = adopted("RASTERIZER")

    assert parsed_toml(done.stdout) == {
        "build-system": BUILD_SYSTEM,
        "project": {
            "name": "diff-gaussian-rasterization",
            "version": "0.1",
            "dependencies": ["torch", "numpy>=1.26"],
        },
        "tool": {
            "setuptools": {"packages": ["diff_gaussian_rasterization"]},
            "kernelwheel": {
                "archs": "8.0;9.0+PTX",
                "extension": [
                    {
                        "name": "diff_gaussian_rasterization._C",
                        "kind": "module",
                        "sources": ["cuda_rasterizer/forward.cu", "rasterize_points.cu", "ext.cpp"],
                        "include-dirs": ["cuda_rasterizer", "third_party/glm"],
                        "define": ["CHANNELS=3", "FAST"],
                        "cxx-flags": ["-O2"],
                        "cuda-flags": ["--use_fast_math"],
                        "libraries": ["cublas"],
                        "cuda": "required",
                    }
                ],
            },
        },
    }
    assert notes_of(done) == [
        "note: diff_gaussian_rasterization._C: the flag -std=c++17 is left out: torch's headers say which C++ they "
        "need",
        "note: flags that choose architectures became archs = '8.0;9.0+PTX'; TORCH_CUDA_ARCH_LIST wins",
        REMOVE,
    ]
    assert done.returncode == 0


@slow
def test_a_question_about_the_gpu_is_answered_alike_everywhere(adopted: Adopted) -> None:
    done, _ = adopted("SSIM")

    assert parsed_toml(done.stdout)["tool"] == {
        "setuptools": {"packages": ["fused_ssim"]},
        "kernelwheel": {
            "package": "fused_ssim",
            "extension": [
                {
                    "name": "fused_ssim_cuda",
                    "kind": "module",
                    "sources": ["ssim.cu", "ext.cpp"],
                    "cxx-flags": ["-O3"],
                    "cuda-flags": ["-O3", "--use_fast_math"],
                    "cuda": "required",
                }
            ],
        },
    }
    assert notes_of(done) == [
        "note: setup.py takes the GPU's own architecture, and '7.5' without one: that is left out, and kernelwheel's "
        "default list has more",
        "note: setup.py asked nvidia-smi; it was not there",
        "note: setup.py asked for the GPU's compute capability; kernelwheel takes architectures from "
        "TORCH_CUDA_ARCH_LIST or a default list",
        REMOVE,
    ]
    assert done.returncode == 0


@slow
def test_what_is_built_with_cuda_and_without_is_one_extension(adopted: Adopted) -> None:
    done, _ = adopted("EITHER")

    assert parsed_toml(done.stdout)["tool"]["kernelwheel"] == {
        "extension": [
            {
                "name": "either._C",
                "kind": "torch-library",
                "sources": ["csrc/points.cpp", "csrc/points.cu"],
                "cuda-sources": ["csrc/launch.cpp"],
                "include-dirs": ["csrc"],
                "define": ["LAYERS=4"],
                "cuda-define": ["WITH_CUDA", "ON_GPU=1"],
                "cxx-flags": ["-O3"],
                "cuda-flags": ["-O3", "-DCUDA_HAS_FP16=1"],
                "cuda": "optional",
            }
        ]
    }
    assert notes_of(done) == [REMOVE]
    assert done.returncode == 0


@slow
def test_what_cannot_be_translated_is_said_with_its_reason(adopted: Adopted) -> None:
    done, _ = adopted("GPU_ONLY")

    assert parsed_toml(done.stdout)["tool"]["kernelwheel"] == {
        "extension": [
            {"name": "pair.cpu", "kind": "operators", "sources": ["ext.cpp"], "cuda": "none"},
            {"name": "pair.cuda", "kind": "module", "sources": ["made.cu"], "cuda": "required"},
        ]
    }
    assert "/" not in done.stdout, "no path of this machine"
    assert parsed_toml(done.stdout)["project"] == {
        "name": "pair", "version": "3", "authors": [{"name": "Somebody"}], "scripts": {"pair": "pair:main"},
    }  # fmt: skip
    assert notes_of(done) == [
        "not translated: pair.plain: made by Extension, not by a function of torch",
        "not translated: pair.cpu: the library folder /elsewhere/lib, which no key takes",
        "not translated: pair.cpu: the include folder /elsewhere/include is outside of the project; copy it into the "
        "project",
        "not translated: pair.cuda: the source made.cu does not exist; if setup.py makes it, keep a copy",
        "not translated: pair.cuda: the flag '-ccbin /opt/g++' names a place on this machine",
        "not translated: pair.cuda: the flag -arch=native, which no list of architectures can say",
        "not translated: setup.py has its own build_ext: Mine; what it does is not carried over",
        "not translated: kernelwheel refuses these tables: the extension pair.cuda cannot be built: sources: C++ or "
        "CUDA files (.cpp, .cc, .cxx, .c++, .cu) that match made.cu; found none; the nearest is ext.cpp",
        "note: pair.cuda: no source has PYBIND11_MODULE or TORCH_LIBRARY; assumed to be a module",
        'note: pair.cuda: without CUDA, setup.py leaves it out; cuda = "required" fails there',
        "note: [build-system] requires no longer has torch==2.4.0, but torch>=2.10",
        "note: setup.py compiles CUDA code only where torch sees a GPU; it was told that there is one",
        "note: [build-system] requires no longer has scikit-learn: add what the build needs",
        'note: then remove setup.py, or from it lines 14 (ext_modules=modules, cmdclass={"build_ex): its ext_modules '
        "would be compiled a second time",
    ]
    assert done.returncode == 1


@slow
@pytest.mark.parametrize("name", ["KNN", "RASTERIZER", "SSIM", "EITHER", "GPU_ONLY"])
def test_a_package_takes_few_lines_and_reading_it_changes_nothing(adopted: Adopted, name: str) -> None:
    done, project = adopted(name)

    without, _, kernelwheel = done.stdout.partition("[tool.kernelwheel]\n")
    tables = kernelwheel or without.partition("[[tool.kernelwheel.extension]]\n")[2]
    lines = [line for line in tables.splitlines() if line and not line.startswith("[")]
    assert 3 <= len(lines) <= 12
    files = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert files == set(globals()[name])


@slow
def test_write_adds_the_tables_and_keeps_the_rest(tmp_path: Path) -> None:
    project = lay_out(tmp_path / "either", EITHER)
    text = (
        '# ours\n[build-system] # old\nrequires = ["setuptools", "torch"]\n\n# about us\n[project]\nname = "either"\n'
        'dynamic = ["version"]\n\n[tool.ruff]\nline-length = 99 # wide\n'
    )
    (project / "pyproject.toml").write_text(text)

    done = adopt(project, "--write")

    written = (project / "pyproject.toml").read_text()
    kept = '\n# about us\n[project]\nname = "either"\ndynamic = []\nversion = "2.0"\n'
    kept += "\n[tool.ruff]\nline-length = 99 # wide\n"
    build = toml_text({"build-system": BUILD_SYSTEM}).replace("]\n", "] # old\n", 1)
    assert written.startswith("# ours\n" + build + kept)
    assert parsed_toml(written)["tool"]["kernelwheel"]["extension"][0]["cuda"] == "optional"
    assert done.stdout == ""
    assert "setup.py is now setup.py.old" in done.stderr
    assert done.returncode == 0
    assert {path.name for path in project.iterdir()} == {"pyproject.toml", "setup.py.old", "wheel.py", "csrc", "either"}


@slow
@pytest.mark.once
@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("import sys\nprint('needs nvcc 99')\nsys.exit(3)", ["it called sys.exit(3)", "needs nvcc 99"]),
        ("raise ValueError('no such thing')", ["it raised ValueError", "ValueError: no such thing"]),
        ("x = 1", ["it never called setup()"]),
        ("import os\nos._exit(7)", ["its process ended with status 7"]),
        (
            "import torch\ntorch.cuda.get_device_capability()",
            ["RuntimeError: no GPU", "it had asked for the GPU", "TORCH_CUDA_ARCH_LIST=9.0"],
        ),
        (
            "import urllib.request\nurllib.request.urlopen('http://example.invalid/a.zip')",
            ["it had tried to download from http://example.invalid/a.zip", "download by hand"],
        ),
        ("from setuptools import setup\nsetup(name='x', version='1')", ["no ext_modules"]),
    ],
    ids=["exit", "raise", "no setup", "no word", "gpu", "download", "no extension"],
)
def test_a_setup_script_that_cannot_be_read_is_quoted(tmp_path: Path, script: str, found: list[str]) -> None:
    project = lay_out(tmp_path / "project", {"setup.py": script})

    done = adopt(project)

    assert done.stdout == ""
    assert done.stderr.startswith("error: setup.py ")
    assert "  required: " in done.stderr
    assert "  to fix:  " in done.stderr
    assert [text for text in found if text not in done.stderr] == []
    assert done.returncode == 1


@slow
@pytest.mark.once
def test_it_needs_a_setup_script_torch_and_tomlkit(tmp_path: Path) -> None:
    nothing, nowhere = adopt(tmp_path), adopt(tmp_path / "nowhere")
    bare = adopt(lay_out(tmp_path / "project", {"setup.py": ""}), python=("-S",))

    assert f"no setup.py in {tmp_path}\n" in nothing.stderr
    assert f"no folder {tmp_path / 'nowhere'}\n" in nowhere.stderr
    assert (nothing.returncode, nowhere.returncode) == (2, 2)
    assert "required:  torch, setuptools, tomlkit\n" in bare.stderr
    assert re.search("to fix: +pip install torch (setuptools )?tomlkit\n", bare.stderr)
    assert bare.returncode == 1
    assert "This RUNS setup.py" in adopt(tmp_path, "--help").stdout


@pytest.mark.parametrize("page", ["README.md", "backend/README.md", "docs/packaging.md"])
def test_each_page_that_introduces_the_command_says_that_it_runs_the_setup_script(page: str) -> None:
    _, command, after = (BACKEND.parent / page).read_text(encoding="utf-8").partition("python -m kernelwheel adopt")

    assert command
    assert re.search(r"\bruns (an existing|the) setup\.py", after[:100])


@slow
@pytest.mark.once
def test_a_setup_script_that_waits_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it started; the real limit is only shortened."""
    script = "import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\nprint(child.pid)\ntime.sleep(600)"
    project = lay_out(tmp_path / "project", {"setup.py": script})
    command = COMMAND.replace("sys.exit", "import kernelwheel.adoption.setup_runs as r; r.SECONDS = 6; sys.exit")

    done = run(
        [sys.executable, "-c", command, project],
        cwd=tmp_path,
        env={"PYTHONPATH": str(BACKEND)},
        check=False,
    )

    assert "it was still running after 6 seconds" in done.stderr
    pid = done.stderr.partition("seconds\n")[2].split()[0]
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or ") Z " in state.read_text()


@slow
@pytest.mark.once
def test_an_extension_that_only_cuda_has_is_named_and_metadata_is_kept(tmp_path: Path) -> None:
    script = """
assert not [name for name in ("CC", "NVCC_FLAGS", "CUDACXX") if name in os.environ]
suffixes = ["cuda", "cpu"] if os.getenv("FORCE_CUDA") == "1" else ["cpu", "stub"]
modules = [
    (CUDAExtension if suffix == "cuda" else CppExtension)(f"both._{suffix}", ["ext.cpp"]) for suffix in suffixes
]
setup(name="both", version="1", packages=["both"], package_dir={"": "src"}, package_data={"": ["*.json"]},
      python_requires=">=3.10", install_requires="numpy\\nscipy", description="Both", ext_modules=modules,
      extras_require={"test": ["pytest>=8"], ":os_name=='nt'": ["pywin32"]}, zip_safe=False)
"""
    project = lay_out(tmp_path / "both", {"setup.py": IMPORTS + script, "ext.cpp": MODULE, "src/both/__init__.py": ""})

    done = adopt(project, CC="/usr/bin/gcc", NVCC_FLAGS="-ccbin=/usr/bin/gcc", CUDACXX="/usr/bin/nvcc")

    tables = parsed_toml(done.stdout)
    assert tables["project"] == {
        "name": "both", "version": "1", "description": "Both", "requires-python": ">=3.10",
        "dependencies": ["numpy", "scipy", "pywin32; os_name=='nt'"],
        "optional-dependencies": {"test": ["pytest>=8"]},
    }  # fmt: skip
    assert tables["tool"]["setuptools"] == {
        "packages": ["both"], "package-dir": {"": "src"}, "package-data": {"*": ["*.json"]},
    }  # fmt: skip
    cuda = {extension["name"]: extension["cuda"] for extension in tables["tool"]["kernelwheel"]["extension"]}
    assert cuda == {"both._cuda": "required", "both._cpu": "none"}
    assert notes_of(done) == [
        "not translated: both._stub: an extension that is built only without CUDA",
        'note: both._cuda: without CUDA, setup.py leaves it out; cuda = "required" fails there',
        "note: then remove setup.py, or from it lines 11 (ext_modules=modules,): its ext_modules would be compiled a "
        "second time",
    ]


PLACES = Places(Path("/p"), ("/env/torch", "/scratch/cuda"), ("/usr/include",))


@pytest.mark.parametrize(
    ("flags", "kept", "field", "values"),
    [
        (["-I", "a", "-Ib/", "-isystem", "/p/c", "-O2"], ["-O2"], "include_dirs", ["a", "b/", "/p/c"]),
        (["-lfoo", "-l", "bar", "-s"], ["-s"], "libraries", ["foo", "bar"]),
        (["-lineinfo", "-lto", "-lcuda", "-linear"], ["-lineinfo", "-lto"], "libraries", ["cuda", "inear"]),
        (["-std=c++20", "--std=c++14", "-std", "gnu++17", "-std=c++03"], ["-std=c++20"], "old_standards",
         ["--std=c++14", "-std gnu++17", "-std=c++03"]),
        (["-L/x", "-Wl,-O1"], ["-Wl,-O1"], "link_dirs", ["/x"]),
        (["-Wl,-rpath,/env/torch/lib", "-Wl,-rpath,$ORIGIN/../lib"], ["-Wl,-rpath,$ORIGIN/../lib"], "left_out", []),
        (["-Wl,-rpath,/x/lib", "-DROOT=/p/a", "-include", "/p/x.h"], [], "left_out",
         ["-Wl,-rpath,/x/lib", "-DROOT=/p/a", "-include /p/x.h"]),
        (["-D", "A=1", "-DB", "-Xcompiler", "-fPIC"], ["-DA=1", "-DB", "-Xcompiler", "-fPIC"], "left_out", []),
        (["-march=native", "-code=sm_80", "-gencode arch=a,code=b"], ["-march=native"], "archs",
         ["-code=sm_80", "-gencode arch=a,code=b"]),
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
        ([], ""),
        (["-gencode arch=compute_90a,code=sm_90a", "-gencode=arch=compute_75,code=sm_75"], "7.5;9.0a"),
        (["-gencode", "x"], None),
        (["--generate-code=arch=compute_80,code=[sm_80,compute_80]"], "8.0+PTX"),
        (["-gencode=arch=compute_80,code=compute_80", "-gencode=arch=compute_80,code=sm_80"], "8.0+PTX"),
        (['-gencode=arch=compute_120,code=\\"sm_120,compute_120\\"'], "12.0+PTX"),
        (["-arch=sm_86"], "8.6+PTX"),
        (["--gpu-architecture sm_86"], "8.6+PTX"),
        (["-gencode=arch=compute_70,code=sm_75"], None),
        (["-gencode=arch=compute_80,code=lto_80"], None),
        (["-arch=native"], None),
        (["-code=sm_80"], None),
    ],
)
def test_architectures_are_read_from_the_flags_or_refused(flags: list[str], archs: str | None) -> None:
    if archs is not None:
        assert arch_list(flags) == archs
        return
    with pytest.raises(ValueError, match=flags[0].partition("=")[0].replace("-", r"\-")):
        arch_list(flags)


def extension(**fields: Any) -> ObservedExtension:
    return ObservedExtension("p._C", "CUDAExtension", {"sources": ["a.cu"], **fields}, ())


def translated(project: Path, **fields: Any) -> tuple[ExtensionTable, AdoptionNotes]:
    notes = AdoptionNotes()
    table, _ = translate(extension(**fields), Places(project, *PLACES[1:]), notes)
    return table, notes


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"sources": ["a.pyx"]}, "a.pyx is neither"),
        ({"extra_compile_args": {"nvcc_dlink": ["-dlink"]}}, "nvcc_dlink"),
        ({"extra_objects": ["a.o"]}, "extra_objects"),
        ({"include_dirs": ["../glm"]}, "../glm is outside"),
        ({"undef_macros": ["NDEBUG"]}, "undef_macros"),
        ({"include_dirs": [None, "."]}, "include_dirs has None in place of what setup.py did not find"),
        ({"extra_compile_args": [None, "-O2"]}, "extra_compile_args has None"),
        ({"include_dirs": ["third_party/eigen-3.4.0"]}, "third_party/eigen-3.4.0 is not there"),
    ],
)
def test_what_has_no_key_is_told(tmp_path: Path, fields: dict[str, Any], word: str) -> None:
    lay_out(tmp_path, {"a.cu": MODULE, "a.pyx": ""})

    _, notes = translated(tmp_path, **fields)

    assert len(notes.untranslated) == 1
    assert word in notes.untranslated[0]


def test_folders_that_a_build_searches_anyway_are_dropped(tmp_path: Path) -> None:
    lay_out(tmp_path, {"a.cu": MODULE})
    ours = ["/env/torch/include", "/scratch/cuda/include", "/usr/local/cuda-12.8/include", "/usr/include"]

    table, notes = translated(
        tmp_path, include_dirs=[*ours, "/env/lib/pybind11/include", "."], library_dirs=["/env/torch/lib"]
    )

    assert table.include_dirs == ["."]
    assert notes == AdoptionNotes()
    assert translated(tmp_path, include_dirs=["/usr/include/eigen3"])[1].untranslated != []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (MODULE, "module"),
        ("TORCH_LIBRARY(x, m) {}\nPyMODINIT_FUNC PyInit__C(void);", "module"),
        ("TORCH_LIBRARY_FRAGMENT(x, m) {}\n// PYBIND11_MODULE(x, m)", "torch-library"),
        (
            "TORCH_LIBRARY(x, m) {}\n#ifdef _WIN32\n#ifdef A\nPyMODINIT_FUNC PyInit__C(void);\n#endif\n#endif",
            "torch-library",
        ),
        ("TORCH_LIBRARY(x, m) {}\n#ifndef _WIN32\nPyMODINIT_FUNC PyInit__C(void);\n#endif", "module"),
        ("TORCH_LIBRARY(x, m) {}\n#if !defined(_MSC_VER)\n#else\nint PyInit__C(void);\n#endif", "torch-library"),
        ("TORCH_LIBRARY(x, m) {}\n#if A\nint a;\n# elif defined _WIN32\nint PyInit__C(void);\n#endif", "torch-library"),
        ("TORCH_LIBRARY(x, m) {}\n#if defined(_WIN32) || A\nint PyInit__C(void);\n#endif", "module"),
        ('static auto registry = torch::RegisterOperators().op("x::a", &a);', "torch-library"),
        ("STABLE_TORCH_LIBRARY_IMPL(x, CUDA, m) {}", "operators"),
        ("STABLE_TORCH_LIBRARY(x, m) {}\nTORCH_LIBRARY_IMPL(x, CUDA, m) {}", "torch-library"),
        ("/* TORCH_LIBRARY(x, m) */ STABLE_TORCH_LIBRARY(x, m) {}", "operators"),
    ],
)
def test_the_kind_is_what_the_sources_register(tmp_path: Path, text: str, kind: str) -> None:
    table, notes = translated(lay_out(tmp_path, {"a.cu": text}))

    assert table.kind == kind
    assert notes == AdoptionNotes()


def test_a_macro_that_brings_in_python_is_left_out_of_a_library_without_python(tmp_path: Path) -> None:
    text = "#ifdef WITH_PYTHON\n#include <Python.h>\n#endif\n#ifdef WITH_CUDA\n#endif\nTORCH_LIBRARY(x, m) {}"
    macros = {"define_macros": [["WITH_PYTHON", None], ["WITH_CUDA", None]]}

    table, notes = translated(lay_out(tmp_path / "a", {"a.cu": text}), **macros)
    module, _ = translated(lay_out(tmp_path / "b", {"a.cu": text + MODULE}), **macros)

    assert (table.kind, table.define) == ("torch-library", ["WITH_CUDA"])
    assert len(notes.remarks) == 1
    assert "WITH_PYTHON" in notes.remarks[0]
    assert module.define == ["WITH_PYTHON", "WITH_CUDA"]


@pytest.mark.parametrize(
    ("header", "advice"), [("Python.h", "delete that line"), ("torch/extension.h", "write torch/torch.h")]
)
def test_a_header_of_python_in_a_library_without_python_is_named(tmp_path: Path, header: str, advice: str) -> None:
    text = '#ifdef _WIN32\n#include <pybind11/stl.h>\n#endif\n#include "h/a.h"\nTORCH_LIBRARY(x, m) {}'
    headers = {"include/h/a.h": '#pragma once\n#include "b.h"\n', "include/h/b.h": f"#include <{header}>\n"}
    places = {"include_dirs": ["include"]}

    _, notes = translated(lay_out(tmp_path / "a", {"a.cu": text, **headers}), **places)
    _, of_module = translated(lay_out(tmp_path / "b", {"a.cu": text + MODULE, **headers}), **places)

    assert len(notes.untranslated) == 1
    assert f"include/h/b.h includes {header}" in notes.untranslated[0]
    assert advice in notes.untranslated[0]
    assert of_module == AdoptionNotes()


@pytest.mark.parametrize(
    ("files", "names", "home"),
    [
        ({"__init__.py": "", "freq.py": ""}, ["_freq"], "_freq"), ({"freq/__init__.py": ""}, ["_freq"], None),
        ({"src/freq/a.py": ""}, ["_freq"], None), ({}, ["freq"], None), ({}, ["freq._C"], None),
    ],
)  # fmt: skip
def test_a_home_that_nothing_installs_is_the_extension_itself(
    tmp_path: Path, files: dict[str, str], names: list[str], home: str | None
) -> None:
    table, _ = translated(lay_out(tmp_path, {"a.cu": MODULE, **files}))

    assert own_home([dataclasses.replace(table, name=name) for name in names], tmp_path, "freq") == home


@pytest.mark.parametrize(
    ("project", "packages", "home"),
    [("b", ["a", "b"], None), ("c", ["a", "a.sub"], "a"), ("c", ["a", "b"], None), ("c", [], None)],
)
def test_of_several_packages_none_is_taken_for_the_home_by_chance(
    project: str, packages: list[str], home: str | None
) -> None:
    """Importing it would run whatever is in its `__init__.py`, which need not work."""
    assert home_package(["_top_level"], project, packages, AdoptionNotes()) == home


@pytest.mark.parametrize(("source", "by_path"), [("TORCH_LIBRARY(x, m) {}", True), (MODULE, False)])
def test_a_library_that_the_package_loads_by_its_path_is_to_lie_there(
    tmp_path: Path, source: str, by_path: bool
) -> None:
    table, _ = translated(lay_out(tmp_path, {"a.cu": source, "p/sub/a.py": "torch.ops.load_library(spec.origin)\n"}))

    assert table.keys().get("by-path", False) is by_path


def test_an_old_standard_is_left_to_torch_and_the_limited_api_is_told(tmp_path: Path) -> None:
    project = lay_out(tmp_path, {"a.cu": MODULE})

    table, notes = translated(project, extra_compile_args=["-std=c++14", "-O3"], py_limited_api=True)

    assert (table.cxx_flags, table.cuda_flags) == (["-O3"], ["-O3"])
    assert [note for note in notes.remarks if "-std=c++14" in note]
    assert notes.untranslated == []
    assert [note for note in notes.remarks if "py_limited_api" in note and "the Python that it is built by" in note]


def test_what_only_one_of_two_builds_has_is_told(tmp_path: Path) -> None:
    lay_out(tmp_path, {"a.cu": MODULE, "b.cpp": "", "stub.cpp": ""})
    with_cuda, _ = translated(
        tmp_path, sources=["a.cu", "b.cpp"], libraries=["cublas"], extra_compile_args={"cxx": ["-fopenmp"]}
    )
    without, _ = translated(tmp_path, sources=["b.cpp", "stub.cpp"], define_macros=[["NO_CUDA", None]])
    notes = AdoptionNotes()

    table = merge(with_cuda, without, notes)

    assert table.keys() == {**with_cuda.keys(), "cuda": "optional"}
    assert notes.untranslated == [
        "p._C: the source stub.cpp, which only a build without CUDA has",
        "p._C: the definition NO_CUDA, which only a build without CUDA has",
        "p._C: the flag -fopenmp is for builds with CUDA only; here it is for all",
        "p._C: the library cublas is for builds with CUDA only; here it is for all",
    ]


KERNELS, PLAIN = [f"csrc/{n}/k.cu" for n in range(7)], [f"csrc/cpu/{n}.cpp" for n in range(7)]


@pytest.mark.parametrize(
    ("others", "sources"),
    [
        (["csrc/notes.md"], ["csrc/cpu/*.cpp", "csrc/**/*.cu", "ext.cpp"]),
        (["csrc/old/old.cu"], ["csrc/cpu/*.cpp", *KERNELS, "ext.cpp"]),
        (["csrc/cpu/old.cpp"], ["csrc/**/*.cu", *PLAIN, "ext.cpp"]),
    ],
)
def test_a_glob_stands_for_many_sources_only_if_it_finds_no_other_file(
    tmp_path: Path, others: list[str], sources: list[str]
) -> None:
    listed = [*KERNELS, *PLAIN, "ext.cpp"]
    lay_out(tmp_path, dict.fromkeys([*listed, *others], MODULE))

    table, _ = translated(tmp_path, sources=listed)

    assert table.sources == listed
    assert with_globs(table, tmp_path).sources == sources


NEW = {"build-system": BUILD_SYSTEM, "tool": {"kernelwheel": {"archs": "9.0"}}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "{build}\n{rest}"),
        ('[project]\nname = "x"', '{build}\n[project]\nname = "x"\n\n{rest}'),
        ("[project]\r\nname = 'x'\r\n", "{build}\r\n[project]\r\nname = 'x'\r\n\r\n{rest}"),
        ("[build-system]\nrequires = [\n  'a',\n  'b',\n]\n", "{build}\n{rest}"),
        ("# a\n\n[build-system]\nrequires = []\n# b\n[x]\ny = 1\n", "# a\n\n{build}# b\n[x]\ny = 1\n\n{rest}"),
        ("[build-system]\nz = 1\n\n\n# a\n\n# b\n[[x]]", "{build}\n\n# a\n\n# b\n[[x]]\n\n{rest}"),
        ("[build-system.x]\ny = 1\n", "{build}\n{rest}"),
        ("[build-system]\nrequires = []\n[tool.x]\n[y]\n", "{build}[tool.x]\n[y]\n\n{rest}"),
        ("[x]\ny = 1\n[build-system]\nrequires = []", "[x]\ny = 1\n{build}\n{rest}"),
        ("[build-system]\n[x]\ny = 1", "{build}[x]\ny = 1\n\n{rest}"),
        ("[build-system]\r\nrequires = []\r\n\r\n[x]\r\n", "{build}\r\n[x]\r\n\r\n{rest}"),
        ("[build-system]\nrequires = []\n # a", "{build} # a\n\n{rest}"),
        ("[build-system]", "{build}\n{rest}"),
    ],
)
def test_tables_are_added_to_the_text(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(before.encode())
    path.chmod(0o640)
    newline = "\r\n" if "\r\n" in before else "\n"
    build, rest = (toml_text({name: NEW[name]}).replace("\n", newline) for name in NEW)

    add_tables(path, NEW)

    assert path.read_bytes().decode() == after.format(build=build, rest=rest)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["pyproject.toml"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[tool.kernelwheel]\n", "there is one"),
        ("build-system = { requires = [] }\n", "another way of writing"),
        ("build-system.requires = []\nbuild-system.y = 1\n[x]\n", "another way of writing"),
        ("[build-system]\nrequires = []\n[x]\n[build-system.y]\n", "another way of writing"),
        ("[tool]\nkernelwheel.archs = '9.0'\n", "there is one"),
        ("tool = { x = 1 }\n", "another way of writing"),
        ('x = """\n[build-system]\n"""\n', "another way of writing"),
        ("x = [\n", "a valid TOML file"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_left_alone(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(text)

    with pytest.raises(SettingsError, match=word):
        add_tables(path, NEW)

    assert path.read_text() == text
    assert [entry.name for entry in tmp_path.iterdir()] == ["pyproject.toml"]


def test_values_are_written_as_they_are_read() -> None:
    values: dict[str, Any] = {
        "a": ["x" * 40, 'quote " and \\', "tab\t, é, \x7f"] * 3,
        "b c": {"": ["*"]},
        "d": "-DX='1'",
        "e": [],
    }
    values["f"] = {"g h": ["y" * 60, "z" * 60]}

    text = toml_text({"tool": {"x": values}})

    assert parsed_toml(text) == {"tool": {"x": values}}
    assert max(map(len, text.splitlines())) <= 100
