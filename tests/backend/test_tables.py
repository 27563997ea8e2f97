"""Packages that only say in pyproject.toml what is to be built: in wheels, sdists and editable installs, unchanged."""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest
from builds import TORCH, Wheel, build, contents, device_code, needs_cuda_torch, refused_build
from declared import CUDA_SOURCE, HEAD, LIGHT, MODULE, PIP, REPOSITORY, TABLE, make_package, make_user_index
from kernelwheel import __version__
from processes import Done, RunPython, run
from samples import bind_modules, rewrite_manifest
from standins import hide_packages

pytestmark = [pytest.mark.slow, pytest.mark.both]

BACKEND = REPOSITORY / "backend"
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
MINOR = ".".join(TORCH.version.split(".")[:2])
BUILD_TAG = f"{MINOR.split('.')[0]}{MINOR.split('.')[1]:0>2}torch"
TABLES = {"PYTHONPATH": str(BACKEND), "TORCH_CUDA_ARCH_LIST": "9.0"}
PART = "light/parts/part.py"  # in a folder without __init__.py (PEP 420)
ANSWER = "import light\nassert light.answer() == light._C.answer() == 42\n"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in an sdist, which all that follows is built from."""
    more = '\n[tool.setuptools]\ndynamic.dependencies.file = "needs.txt"\n'
    more += '\n[tool.kernelwheel]\ndependencies = ["idna >= 3"]\n'
    folder = tmp_path_factory.mktemp("light")
    files = {**LIGHT, PART: "\n", "needs.txt": "filelock\n"}
    project = make_package(folder / "project", files, pyproject=HEAD + more + TABLE)
    script = "import sys; from kernelwheel import hooks; print(hooks.build_sdist(sys.argv[1]))"
    run([sys.executable, "-c", script, folder], cwd=project, env={"PYTHONPATH": str(BACKEND)})
    (file,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(file, folder / "unpacked")
    return folder / "unpacked/light_weight-1.0"


@pytest.fixture(scope="module")
def light_wheel(sdist: Path, build_root: Path) -> Wheel:
    return build(sdist, build_root / "light", env=TABLES)


@pytest.fixture
def site(light_wheel: Wheel, tmp_path: Path) -> Path:
    """The wheel's files in a folder of their own, which a test may spoil."""
    return Path(shutil.copytree(light_wheel.unpacked, tmp_path / "site"))


def refused(project: Path, folder: Path, **options: Any) -> str:
    """The error of a build that must fail before anything is compiled."""
    said = refused_build(project, folder, env={**TABLES, **options})
    assert "compiling light" not in said
    return said


# The sdist, and the wheel that comes of it


@pytest.mark.once
def test_the_sdist_has_the_package_s_own_files(sdist: Path) -> None:
    names = {path.relative_to(sdist).as_posix() for path in sdist.rglob("*") if path.is_file()}
    about = (sdist / "PKG-INFO").read_text()

    own = {name for name in names if "egg-info" not in name} - {"PKG-INFO", "setup.cfg"}
    assert own == {*LIGHT, PART, "needs.txt"} - {"third_party/answers/README.md"}
    assert "\nDynamic: License-File\nDynamic: Requires-Dist\n" in about
    assert re.findall(r"^Requires-Dist: (.*)$", about, re.MULTILINE) == ["filelock", "idna>=3"]


@pytest.mark.once
def test_the_wheel_holds_the_package_the_runtime_and_what_a_compile_needs(light_wheel: Wheel) -> None:
    packed = contents(light_wheel.unpacked)
    files = {name for name, data in packed.items() if data is not None and "_kernelwheel/" not in name}

    assert files == {
        "light/__init__.py", PART, "light/_C.py", "light/_C.pyi",
        "light/_native/light._C.so", "light/_native/manifest.json", "light/_native/src/native/module.cpp",
        "light/_native/src/third_party/answers/answer.h",
        *(f"light_weight-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD", "top_level.txt")),
        "light_weight-1.0.dist-info/sboms/light_weight.cdx.json",
        "light_weight-1.0.dist-info/licenses/compiled-in/LICENSES.txt",
    }  # fmt: skip
    assert {"light/_kernelwheel/kernels.py", "light/_kernelwheel/lazy_module.py"} <= set(packed)


@pytest.mark.once
def test_its_name_its_metadata_and_its_manifest_say_what_it_is(light_wheel: Wheel) -> None:
    folder = light_wheel.unpacked / "light_weight-1.0.dist-info"
    metadata = HeaderParser().parsestr((folder / "METADATA").read_text())
    manifest = light_wheel.manifest
    (extension,) = manifest["plan"]["content"]["extensions"]
    (library,) = manifest["libraries"]

    assert light_wheel.file.name == f"light_weight-1.0-{BUILD_TAG}-{PYTHON}-{PYTHON}-manylinux_2_28_x86_64.whl"
    assert f"\nBuild: {BUILD_TAG}\n" in (folder / "WHEEL").read_text()
    assert metadata.get_all("Requires-Dist", []) == ["filelock", "idna>=3", f"torch=={MINOR}.*"]
    assert "Dynamic" not in metadata
    assert (extension["name"], extension["define"], extension["cuda"]) == ("light._C", ["ANSWER=42"], "none")
    assert (library["file"], library["module"], library["device"]) == ("light._C.so", "light._C", "cpu")
    assert manifest["built_with"]["kernelwheel"] == __version__
    assert manifest["plan"]["target"]["cuda"] is None


IMPORTED = """
import importlib, pickle, sys
import light._C
from light import _C
from light._C import answer
assert _C is light._C is sys.modules["light._C"] is importlib.import_module("light._C")
assert _C.__name__ == "light._C" == answer.__module__
assert _C.__file__.endswith("light/_native/light._C.so"), _C.__file__
assert "answer" in dir(_C) and pickle.loads(pickle.dumps(answer)) is answer
assert light.answer() == 42
assert sys.modules["light._kernelwheel.lazy_module"]
"""


@pytest.mark.once
def test_the_module_is_imported_as_it_always_was(light_wheel: Wheel, run_python: RunPython) -> None:
    done = run_python(IMPORTED, path=[light_wheel.unpacked])

    assert (done.stdout, done.stderr) == ("", "")


def bind_to(site: Path, **binding: str) -> None:
    rewrite_manifest(site / "light/_native", lambda values: bind_modules(values, **binding))


@pytest.fixture
def unfit(site: Path) -> Path:
    """Kernels for another torch, in a package that does not use its module while it is imported."""
    (site / "light/__init__.py").write_text("")
    bind_to(site, torch="2.1.0")
    return site


LAZY = "from light._kernelwheel.errors import KernelWheelError\nimport light._C\n"


@pytest.mark.once
def test_where_none_can_be_compiled_the_error_at_its_first_use_begins_with_why_it_does_not_fit(
    unfit: Path, tmp_path: Path, run_python: RunPython
) -> None:
    script = (
        LAZY
        + """
assert not hasattr(light._C, "__path__") and not hasattr(light._C, "__wrapped__")
try:
    light._C.answer
except KernelWheelError as error:
    print(error)
assert "light._C.so" not in open("/proc/self/maps").read()
"""
    )
    env = {**hide_packages(tmp_path / "hidden", "kernelwheel"), "PYTHONPATH": f"{tmp_path / 'hidden'}:{unfit}"}

    said = run_python(script, env=env).stdout

    found = f"torch: required torch == 2.1.*, found torch {TORCH.version}"
    assert said.startswith(f"light has no CPU kernels for this machine ({found}), and ")
    assert "and kernels cannot be compiled here: the compiler" in said
    assert "to fix:    pip install 'torch==2.1.*'" in said


@pytest.mark.once
def test_or_is_compiled_then_and_becomes_the_module(unfit: Path, run_python: RunPython) -> None:
    script = (
        LAZY
        + """
import sys
stood = light._C
assert stood.__file__.endswith("light/_C.py")
assert stood.answer() == 42
assert sys.modules["light._C"] is light._C is not stood and stood.answer is light._C.answer
print(light._C.__file__)
"""
    )
    first = run_python(script, path=[unfit])
    again = run_python("import light._C; print(light._C.__file__)", path=[unfit])

    assert "compiling" in first.stderr
    assert "/kernelwheel/light/1.0/" in first.stdout
    assert (again.stdout, again.stderr) == (first.stdout, "")


@pytest.mark.minutes
@pytest.mark.once
def test_a_command_needs_no_more_of_a_package_than_its_kernels(site: Path, tmp_path: Path) -> None:
    """A package may use its kernels when it is imported, as one that registers fake kernels does."""
    bind_to(site, torch="2.1.0")
    (site / "light/__init__.py").write_text("from . import _C\nassert _C.answer() == 42\n")
    env = {"PYTHONPATH": f"{site}{os.pathsep}{BACKEND}", "LIGHT_JIT": "never"}

    done = run([sys.executable, "-m", "light._kernelwheel", "cache", "path"], cwd=tmp_path, env=env)
    assert done.stdout.count("\n") == 1, done.stdout
    with_findings = run([sys.executable, "-m", "light._kernelwheel", "doctor"], cwd=tmp_path, env=env, check=False)

    assert (with_findings.returncode, with_findings.stdout.count("light 1.0:")) == (1, 1)
    assert "Traceback" not in with_findings.stderr


@pytest.mark.minutes
@pytest.mark.once
def test_an_extension_is_its_own_home_beside_a_folder_that_hides_the_project_s(
    build_root: Path, tmp_path: Path, run_python: RunPython
) -> None:
    """The project's own folder is a package, which is not installed."""
    text = HEAD.replace("light-weight", "light") + TABLE.replace("light._C", "_light")
    home = '\n[tool.setuptools]\npackages = []\n[tool.kernelwheel]\npackage = "_light"\n'
    project = make_package(
        tmp_path / "light", pyproject=text + home, module=MODULE.replace("PyInit__C", "PyInit__light")
    )
    shutil.move(project / "light/__init__.py", project / "__init__.py")
    (project / "__init__.py").write_text("import _light\nfrom _light import answer\n")
    wheel = build(project, build_root / "own-home", env=TABLES)

    script = "import light, _light\nassert light.answer() == _light.answer() == 42\nassert _light is light._light"
    run_python(script, path=[tmp_path, wheel.unpacked])
    doctor = run(
        [sys.executable, "-m", "_light._kernelwheel", "doctor"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(wheel.unpacked)},
        check=False,
    )

    assert "_light 1.0:" in doctor.stdout


# Editable


APART = """
[[tool.kernelwheel.extension]]
name = "light._apart"
kind = "operators"
sources = ["apart.cpp"]
apart = true
"""


@pytest.mark.minutes
@pytest.mark.once
def test_an_editable_install_is_compiled_at_first_use(tmp_path: Path, run_python: RunPython) -> None:
    project = make_package(tmp_path / "project", {**LIGHT, "apart.cpp": 'extern "C" int light_apart() { return 1; }\n'})
    with (project / "pyproject.toml").open("a") as table:
        table.write(APART)
    stale = project / f"light/_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    stale.write_text("left by setup.py develop")
    before = contents(project)
    (tmp_path / "made").mkdir()
    hook = "import sys; from kernelwheel import hooks; hooks.build_editable(sys.argv[1])"
    run_python(hook, tmp_path / "made", cwd=project, path=[BACKEND])
    (wheel,) = (tmp_path / "made").glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")

    def use(answer: int, more: str = "") -> Done:
        script = f"import site; site.addsitedir({str(tmp_path / 'site')!r}); import light\n{more}"
        return run_python(f"{script}assert light.answer() == {answer}\nprint(light._C.__file__)", path=[BACKEND])

    first, again = use(42), use(42)
    apart, unchanged = use(42, "import light._apart\n"), use(42, "import light._apart\n")
    source = project / "pyproject.toml"
    source.write_text(source.read_text().replace("=42", "=43"))
    edited = use(43)

    assert "compiling light 1.0" in first.stderr
    assert again.stderr == unchanged.stderr == ""
    assert "] CXX apart.cpp" in apart.stderr
    assert "module.cpp" not in apart.stderr
    assert apart.stdout == again.stdout
    assert "compiling light 1.0" in edited.stderr
    assert "apart.cpp" not in edited.stderr
    assert edited.stdout != again.stdout
    stale.unlink()
    made = {name for name in contents(project) if ".egg-info" not in name and not name.startswith("build")}
    assert made == before.keys() - {stale.relative_to(project).as_posix()}


# With pip, isolated


@pytest.fixture(scope="module")
def user_index(distribution: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_user_index(tmp_path_factory.mktemp("index"), distribution)


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """The Python of an environment that has what this one has, and what is installed into it."""
    run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], cwd=tmp_path)
    return tmp_path / "venv/bin/python"


def in_venv(python: Path, script: str, env: dict[str, str], **more: str) -> Done:
    paths = {**env, **more, "PYTHONPATH": sysconfig.get_path("purelib")}
    return run([python, "-c", script], cwd=python.parent, env=paths)


@pytest.mark.minutes
@pytest.mark.once
def test_pip_installs_it_with_a_local_version_that_names_the_torch(
    user_index: dict[str, str], venv: Path, build_root: Path, tmp_path: Path
) -> None:
    head = HEAD.replace('version = "1.0"\ndynamic = ["', 'dynamic = ["version", "')
    version = '\n[tool.setuptools.dynamic]\nversion = { attr = "light.__version__" }\n'
    project = make_package(tmp_path / "project", pyproject=head + TABLE + version)
    with (project / "light/__init__.py").open("a") as module:
        module.write("__version__ = '1.0'\n")
    env = {**user_index, "TMPDIR": str(build_root)}
    run([*PIP, "--python", venv, "install", "--no-deps", "-C", "torch-tag=local", project], cwd=tmp_path, env=env)

    script = ANSWER + "from importlib.metadata import version; print(version('light-weight'))"
    assert in_venv(venv, script, env).stdout == f"1.0+torch{MINOR}\n"


# What is refused


@pytest.mark.once
def test_a_native_file_that_no_plan_made_is_refused(tmp_path: Path) -> None:
    more = '\n[tool.setuptools.package-data]\nlight = ["*.bin", "*.so"]\n'
    project = make_package(tmp_path / "project", pyproject=HEAD + TABLE + more)
    shutil.copy(sys.executable, project / "light/tool.bin")
    (project / "light/old.so").write_text("")

    said = refused(project, tmp_path / "out")

    assert "light/tool.bin" in said
    assert "light/old.so" in said


@pytest.mark.once
def test_a_library_that_is_not_there_is_told_before_anything_is_compiled(tmp_path: Path) -> None:
    project = make_package(tmp_path / "project", pyproject=HEAD + TABLE + 'libraries = ["m", "not-there"]\n')

    said = refused_build(project, tmp_path / "out", env=TABLES)

    assert "the library not-there" in " ".join(said.split())
    assert not re.search(r"\[1/\d+\]", said)


@pytest.mark.minutes
@pytest.mark.once
@pytest.mark.parametrize(
    ("kind", "source", "says"),
    [
        ("module", "int x;\n", "no function PyInit_..."),
        ("torch-library", "#include <Python.h>\nvoid f() { Py_Initialize(); }\n", "Python.h"),
        ("torch-library", 'extern "C" void Py_Initialize(); void f() { Py_Initialize(); }\n', "Py_Initialize"),
    ],
)
def test_a_kind_that_the_sources_are_not_of_is_an_error(tmp_path: Path, kind: str, source: str, says: str) -> None:
    project = make_package(tmp_path / "project", pyproject=HEAD + TABLE + f'kind = "{kind}"\n', module=source)

    assert says in refused_build(project, tmp_path / "out", env=TABLES)


# CUDA


CUDA_TABLE = TABLE.replace("*.cpp", "*") + 'libraries = ["cublas"]\n'
FAMILY = """
[[tool.kernelwheel.extension]]
name = "light._hopper"
sources = ["native/*.cu"]
define = ["ANSWER=43"]
kind = "torch-library"
archs = "9.0a"
"""


# CUDA's runtime, and no kernel.
WITHOUT_KERNELS = """
[[tool.kernelwheel.extension]]
name = "light._late"
kind = "torch-library"
sources = ["info/*.cpp"]
define = ["LATE=7"]
libraries = ["cuda"]
by-path = true
cuda = "required"
"""
RELEASE = """#include <cuda_runtime.h>
#ifdef TORCH_API_INCLUDE_EXTENSION_H
#error "torch/torch.h would include Python.h"
#endif
#ifdef LATE
extern "C" int cuInit(unsigned);
extern "C" int light_late(bool start) { return start ? cuInit(0) : LATE; }
#endif
extern "C" int light_release() { int release = 0; return cudaRuntimeGetVersion(&release) ? -1 : release; }
"""


@pytest.fixture(scope="module")
def light_cuda_wheel(build_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """With kernels for all GPUs, and kernels for one family of them."""
    files = {**LIGHT, "native/add.cu": CUDA_SOURCE, "info/release.cpp": RELEASE}
    text = HEAD + CUDA_TABLE + FAMILY + WITHOUT_KERNELS
    project = make_package(tmp_path_factory.mktemp("light") / "cuda", files, pyproject=text)
    return build(project, build_root / "light-cuda", env={**TABLES, "TORCH_CUDA_ARCH_LIST": "8.0;9.0+PTX"})


@needs_cuda_torch
def test_a_library_has_kernels_for_its_own_architectures_or_none(light_cuda_wheel: Wheel) -> None:
    libraries = {each["file"]: each for each in light_cuda_wheel.manifest["libraries"]}

    assert {file: (each["sass"], each["ptx"]) for file, each in libraries.items()} == {
        "light._C.so": (["8.0", "9.0"], ["9.0"]),
        "light._hopper.so": (["9.0a"], []),
        "light._late.so": ([], []),
    }


@needs_cuda_torch
def test_torch_cuda_arch_list_is_what_is_compiled_and_all_of_it_compressed(light_cuda_wheel: Wheel) -> None:
    """By default nvcc compresses PTX alone."""
    archs = light_cuda_wheel.manifest["built_with"]["settings"]["archs"]
    assert archs == {"value": "8.0;9.0+PTX", "origin": "environment variable TORCH_CUDA_ARCH_LIST"}
    listing = device_code(light_cuda_wheel.native / "light._C.so")
    images = re.findall(r"^Fatbin (elf|ptx) code:\n=+\narch = sm_(\w+)\n((?:.+\n)+)", listing, re.MULTILINE)
    assert {(kind, arch) for kind, arch, _ in images} == {("elf", "80"), ("elf", "90"), ("ptx", "90")}
    assert [said for _, _, said in images if "\ncompressed\n" not in said] == []


BY_PATH = """
import ctypes, importlib.machinery, os, torch
(folder,) = importlib.util.find_spec("light").submodule_search_locations
spec = importlib.machinery.PathFinder().find_spec("_late", [folder])
torch.ops.load_library(spec.origin)
print(ctypes.CDLL(spec.origin).light_late(False))
"""


@needs_cuda_torch
def test_a_library_that_a_package_loads_by_its_path_lies_there(light_cuda_wheel: Wheel, run_python: RunPython) -> None:
    there, verified = light_cuda_wheel.unpacked / "light/_late.so", light_cuda_wheel.native / "light._late.so"

    assert there.read_bytes() == verified.read_bytes()
    assert not there.with_suffix(".py").exists()
    if not Path("/dev/nvidiactl").exists():  # libcuda.so.1 is the driver's
        assert "libcuda.so.1" in verified.read_bytes().decode("latin-1")
        return
    assert run_python(BY_PATH, path=[light_cuda_wheel.unpacked]).stdout == "7\n"
    listed = device_code(light_cuda_wheel.native / "light._hopper.so", "--dump-elf-symbols")
    assert re.findall(r"^arch = sm_(\w+)", listed, re.MULTILINE) == ["90a"]
    assert "libcublas.so" in (light_cuda_wheel.native / "light._C.so").read_bytes().decode("latin-1")
    assert light_cuda_wheel.manifest["requires"]["cuda"] == TORCH.cuda_major, "modules are bound to it"


@pytest.mark.minutes
@needs_cuda_torch
def test_without_a_gpu_it_is_imported_and_compiled_for_the_architectures_that_are_named(
    light_cuda_wheel: Wheel, tmp_path: Path, run_python: RunPython
) -> None:
    site = Path(shutil.copytree(light_cuda_wheel.unpacked, tmp_path / "site"))
    hidden = {"CUDA_VISIBLE_DEVICES": ""}
    run_python(ANSWER + "import light._hopper", path=[site], env=hidden)
    bind_to(site, torch="2.1.0")

    unnamed = run_python("import light", path=[site], env=hidden, check=False)
    named = run_python(ANSWER, path=[site], env={**hidden, "LIGHT_CUDA": "on", "TORCH_CUDA_ARCH_LIST": "8.0"})

    assert "LIGHT_CUDA=on" in unnamed.stderr
    assert "CUDA add.cu" in named.stderr or "add.cu" in named.stderr
    assert "(8.0)" in named.stderr


# The torch that it will meet
