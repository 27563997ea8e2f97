"""`adopt --write`: what it takes out of setup.py files that do more than declare extensions, and what it leaves."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from folders import BACKEND
from kernelwheel.project.package import read_toml
from processes import run
from setup_projects import BUILD_SYSTEM, IMPORTS, MODULE, PLACE, adopt, lay_out

pytestmark = [pytest.mark.slow]

# Of the project and its version, it makes a file; its extensions come from a function. As OpenPCDet's.
MAKER = """
import os

from setuptools import find_packages, setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension


def make_cuda_ext(name, module, sources):
    return CUDAExtension(
        name="%s.%s" % (module, name), sources=[os.path.join(*module.split("."), source) for source in sources]
    )


def write_version(version, target):
    with open(target, "w") as file:
        print('__version__ = "%s"' % version, file=file)


if __name__ == "__main__":
    version = "0.6+none"
    write_version(version, "maker/version.py")

    setup(
        name="maker",
        version=version,
        packages=find_packages(),
        cmdclass={
            "build_ext": BuildExtension,
        },
        ext_modules=[
            make_cuda_ext("boxes_cuda", "maker.ops.boxes", ["src/boxes.cpp", "src/boxes_kernel.cu"]),
        ],
    )
"""
# It gives up without a GPU, in the function that makes its extension, and lists no packages. As DCNv4's.
ASKER = """
import glob
import os

import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, CppExtension, CUDAExtension

requirements = ["torch", "torchvision"]


def get_extensions():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "src")
    sources = glob.glob(os.path.join(here, "*.cpp"))
    extension, macros = CppExtension, []
    if torch.cuda.is_available() and CUDA_HOME is not None:
        extension = CUDAExtension
        sources += glob.glob(os.path.join(here, "cuda", "*.cu"))
        macros += [("WITH_CUDA", None)]
    else:
        raise NotImplementedError("Cuda is not available")
    return [extension("asker.ext", sources, include_dirs=[here], define_macros=macros)]


setup(
    name="asker", version="1.0.0",
    # install_requires=requirements,
    ext_modules=get_extensions(),
    cmdclass={"build_ext": torch.utils.cpp_extension.BuildExtension},
)
"""
METADATA = """
import sys
from pathlib import Path
from kernelwheel.hooks import prepare_metadata_for_build_editable
print((Path(sys.argv[1]) / prepare_metadata_for_build_editable(sys.argv[1]) / "METADATA").read_text())
"""


@pytest.mark.parametrize(
    ("name", "before", "version", "table"),
    [
        (
            "maker", MAKER, "0.6+none",
            {
                "name": "maker.ops.boxes.boxes_cuda",
                "sources": ["maker/ops/boxes/src/boxes.cpp", "maker/ops/boxes/src/boxes_kernel.cu"],
            },
        ),
        pytest.param(
            "asker", ASKER, "1.0.0",
            {
                "name": "asker.ext", "sources": ["src/ext.cpp", "src/cuda/ext.cu"], "include-dirs": ["src"],
                "define": ["WITH_CUDA"],
            },
            marks=pytest.mark.minutes,
        ),
    ],
)  # fmt: skip
def test_write_takes_the_extensions_out_and_leaves_the_rest(
    tmp_path: Path, name: str, before: str, version: str, table: dict[str, object]
) -> None:
    files = {file: MODULE for file in table["sources"]}  # type: ignore[attr-defined]
    packages = dict.fromkeys(("maker/__init__.py", "maker/ops/__init__.py", "maker/ops/boxes/__init__.py"), "")
    project = lay_out(tmp_path / name, {**files, **packages, "other/__init__.py": "", "setup.py": before})

    done = adopt(project, "--write")

    assert done.stdout == ""
    assert "not translated" not in done.stderr
    assert "note: setup.py fails without CUDA, so its extensions require CUDA: it raised " in done.stderr
    assert done.returncode == 0
    left = (project / "setup.py").read_text()
    assert {"ext_modules", "BuildExtension", "CUDAExtension"} & {*re.findall(r"\w+", left)} == set()
    assert (project / "setup.py.old").read_text() == before
    assert read_toml(project / "pyproject.toml") == {
        "build-system": BUILD_SYSTEM,
        "tool": {"kernelwheel": {"extension": [{**table, "kind": "module", "cuda": "required"}]}},
    }
    metadata = run(
        [sys.executable, "-c", METADATA, tmp_path], cwd=project, env={"PYTHONPATH": str(BACKEND)}
    ).stdout.splitlines()
    assert {f"Name: {name}", f"Version: {version}"} <= {*metadata}


@pytest.mark.minutes
def test_what_a_script_needs_of_pyproject_toml_and_of_other_packages_stays(tmp_path: Path) -> None:
    text = '# ours\n[build-system]\nrequires = ["setuptools", "torch", "numpy"]\n\n[project]\nname = "kept"\n'
    text += 'dynamic = ["version"]\ndependencies = [\n    "numpy", # ours\n]\n'
    script = "import numpy\nsetup(version='2', packages=['kept'], ext_modules=[CppExtension('_C', ['a.cpp'])])\n"
    project = lay_out(
        tmp_path / "kept",
        {"setup.py": IMPORTS + script, "pyproject.toml": text, "a.cpp": MODULE, "kept/__init__.py": ""},
    )

    done = adopt(project, "--write")

    written = (project / "pyproject.toml").read_text()
    assert written.startswith(
        f'# ours\n[build-system]\nrequires = ["{PLACE.replace("[cuda]", "")}", "torch>=2.10", "numpy"]\n'
    )
    assert written.partition("\n[project]\n")[2].partition("\n[[")[0] == (
        'name = "kept"\ndynamic = ["version", "dependencies"]\n\n'
        '[tool.kernelwheel]\ndependencies = ["numpy"]\npackage = "kept"\n'
    )
    left = IMPORTS.replace(", CppExtension", "") + "import numpy\nsetup(version='2', packages=['kept'])\n"
    assert (project / "setup.py").read_text() == left
    assert done.returncode == 0


@pytest.mark.minutes
def test_a_block_that_makes_extensions_and_asks_for_cuda_goes_whole(tmp_path: Path) -> None:
    block = "if 1:\n    assert torch.version.cuda\n    modules += [CUDAExtension('_C', ['a.cu'])]\n"
    script = f"{IMPORTS}modules = []\n{block}setup(name='block', ext_modules=modules, py_modules=[])\n"
    project = lay_out(tmp_path / "block", {"setup.py": script, "a.cu": MODULE})

    done = adopt(project, "--write")

    assert done.returncode == 0
    assert "note: what setup.py did besides where it made extensions, such as checks, is gone, too" in done.stderr
    assert (project / "setup.py").read_text().endswith("setup(name='block', py_modules=[])\n")
    assert "assert" not in (project / "setup.py").read_text()


@pytest.mark.minutes
@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("import mine\nsetup(ext_modules=modules, name=mine.NAME)", "ModuleNotFoundError: No module named 'mine'"),
        ("assert torch.cuda.is_available()\nsetup(ext_modules=modules, name='x')", "it raised AssertionError"),
        ("setup(name='x', version=str(len(dir())), ext_modules=modules)", "it gives setup() another version"),
        ("setup(**{'name': 'x', 'ext_modules': modules})", "ext_modules is used for something else as well"),
        (
            "import pkg_resources\nsetup(name=pkg_resources.safe_name('x'), ext_modules=modules)",
            "it raised ModuleNotFoundError: import of pkg_resources halted; None in sys.modules (line 4: import pkg_",
        ),
    ],
    ids=["own module", "gpu", "other value", "no argument", "pkg_resources"],
)  # fmt: skip
def test_a_script_that_would_not_work_any_more_is_left_as_it_is(tmp_path: Path, script: str, found: str) -> None:
    """kernelwheel's builds need no GPU, and setuptools lets them import nothing from the project's folder."""
    files = {
        "setup.py": f"{IMPORTS}modules = [CppExtension('x._C', ['a.cpp'])]\n{script}\n",
        "a.cpp": MODULE,
        "mine.py": "NAME = 'x'",
    }
    project = lay_out(tmp_path / "project", files)

    done = adopt(project, "--write")

    assert "kernelwheel: setup.py and pyproject.toml are left as they are" in done.stderr
    assert found in done.stderr
    assert "run adopt --write again" in done.stderr
    assert done.returncode == 1
    assert {path.name: path.read_text() for path in project.iterdir()} == files


# As pointnet2_ops, sam2, DeepEP and fused-bilagrid do: a list of architectures put into the environment, an extension
# that exists only with CUDA, a library that every build links, and a command of its own.
MANY = """
os.environ["TORCH_CUDA_ARCH_LIST"] = "8.0;9.0"
assert not {"NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CUDAFLAGS", "CXXFLAGS"} & {*os.environ}
class Mine(BuildExtension):
    def run(self):
        print("building")
        super().run()
flags = ["-std=c++17", "-O3"]
modules = [CppExtension("many._cpu", ["cpu.cpp"], extra_compile_args=flags)]
kind = CppExtension
if torch.cuda.is_available():
    modules.append(CUDAExtension("many._cuda", ["only.cu"]))
    kind, libraries = CUDAExtension, ["cudart_static", "cublas"]
else:
    libraries = []
modules.append(kind("many._C", ["both.cpp"], libraries=libraries))
setup(name="many", version="1", packages=["many"], ext_modules=modules,
      cmdclass={"build_ext": COMMAND.with_options(use_ninja=False)})
"""
FILES = {"cpu.cpp": MODULE, "only.cu": MODULE, "both.cpp": MODULE, "many/__init__.py": ""}


@pytest.mark.minutes
def test_what_exists_only_with_cuda_and_what_a_script_sets_is_in_the_tables(tmp_path: Path) -> None:
    text = '[build-system]\nrequires = ["setuptools<90", "torch>=2.12,<2.15"]\n'
    files = {**FILES, "pyproject.toml": text, "setup.py": IMPORTS + MANY.replace("COMMAND", "BuildExtension")}
    project = lay_out(tmp_path / "many", files)

    flags = dict.fromkeys(("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "CUDAFLAGS", "CXXFLAGS"), "-DOURS")
    done = adopt(project, "--write", TORCH_CUDA_ARCH_LIST="7.5", CUDAARCHS="75", **flags)

    assert "not translated" not in done.stderr
    assert done.returncode == 0
    written = read_toml(project / "pyproject.toml")
    assert written["build-system"]["requires"] == [PLACE, "torch>=2.10", "setuptools<90", "torch>=2.12,<2.15"]
    assert "archs" not in written["tool"]["kernelwheel"]
    cpu, cuda, both = written["tool"]["kernelwheel"]["extension"]
    assert (cpu["cuda"], cpu["cxx-flags"]) == ("none", ["-O3"])
    assert (cuda["name"], cuda["cuda"]) == ("many._cuda", "only")
    assert (both["cuda"], both["libraries"]) == ("optional", ["cublas"])
    for word in ("-std=c++17 is left out", "TORCH_CUDA_ARCH_LIST to '8.0;9.0': left out"):
        assert word in done.stderr
    assert "cmdclass" not in (project / "setup.py").read_text()


@pytest.mark.minutes
def test_a_command_of_its_own_with_options_is_told_and_nothing_is_written_that_a_build_refuses(tmp_path: Path) -> None:
    script = IMPORTS + MANY.replace("COMMAND", "Mine").replace("only.cu", "none.cu")
    files = {**FILES, "setup.py": script}
    project = lay_out(tmp_path / "many", files)

    done = adopt(project, "--write")

    assert "not translated: setup.py has its own build_ext, Mine: nothing calls it any more\n" in done.stderr
    assert "not translated: kernelwheel refuses these tables: " in done.stderr
    assert "note: nothing was written; without --write, adopt prints the tables\n" in done.stderr
    assert done.returncode == 1
    assert {path.relative_to(project).as_posix(): path.read_text() for path in project.rglob("*.*")} == files
