"""Three packages to the patterns of well-known extensions, adopted by pyproject.toml alone: nearest, blur and sums."""

from __future__ import annotations

import json
import re
import shutil
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest
from builds import TORCH, Wheel, build, cache_of, needs_cpu_torch, needs_cuda_torch, refused_build
from declared import PIP, REPOSITORY, make_user_index
from kernelwheel.cli.manifest_text import manifest_text
from kernelwheel.compiler.binary_inspect import library_at
from kernelwheel.runtime.artifact import manifest as manifests
from processes import RunPython, run

pytestmark = [pytest.mark.slow, pytest.mark.minutes]

TABLES = {"PYTHONPATH": str(REPOSITORY / "backend"), "TORCH_CUDA_ARCH_LIST": "9.0"}
TOOLKIT = next(TORCH.root.parent.glob("nvidia/cu[0-9]*"), None) if TORCH.cuda else None
POINTS = "torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [3.0, 0.0, 0.0]])"


def copy_of(package: str, folder: Path) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(REPOSITORY / "tests/packages" / package, folder / package, ignore=ignore))


@pytest.fixture(scope="module")
def nearest_wheel(build_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """pybind11, CUDA where there is one, and headers of a third party."""
    return build(copy_of("nearest", tmp_path_factory.mktemp("shape")), build_root / "nearest", env=TABLES)


@pytest.fixture(scope="module")
def blur_wheel(build_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """For CUDA alone, with options for one file and a library."""
    return build(copy_of("blur", tmp_path_factory.mktemp("shape")), build_root / "blur", env=TABLES)


# pybind11, CUDA, and headers outside of the folder of the sources


def test_the_module_works_and_its_header_of_a_third_party_is_in_the_wheel(
    nearest_wheel: Wheel, run_python: RunPython
) -> None:
    script = f"""
import torch, nearest
assert nearest.with_cuda is nearest._C.with_cuda is {TORCH.cuda is not None}
assert nearest.distances({POINTS}).tolist() == [1.0, 1.0, 4.0]
assert not torch.cuda.is_initialized()
"""
    done = run_python(script, path=[nearest_wheel.unpacked])

    assert (done.stdout, done.stderr) == ("", "")
    assert (nearest_wheel.native / "src/third_party/vectors/vectors/vec3.h").is_file()
    assert (nearest_wheel.unpacked / "nearest/_C.pyi").is_file()


@needs_cuda_torch
def test_an_isolated_build_of_it_is_the_same(
    nearest_wheel: Wheel, distribution: Path, build_root: Path, tmp_path: Path
) -> None:
    """From the objects of the other one: the Plan is the same, so nothing is compiled."""
    env = {
        **make_user_index(tmp_path, distribution), "TMPDIR": str(build_root),
        "XDG_CACHE_HOME": str(cache_of(build_root / "nearest")),
    }  # fmt: skip
    out, package = tmp_path / "out", copy_of("nearest", tmp_path)
    table = package / "pyproject.toml"
    table.write_text(table.read_text().replace(f"file:///path/to/{distribution.name}", distribution.as_uri()))
    run([*PIP, "wheel", "--no-deps", "--no-cache-dir", "-w", out, package], cwd=tmp_path, env=env)

    (wheel,) = out.glob("*.whl")
    # The torch of the index is a link to the installed one, without its licence.
    digests = [{info.filename: info.CRC for info in ZipFile(file).infolist()} for file in (nearest_wheel.file, wheel)]
    different = {name.rpartition("/")[2] for name, _ in set(digests[0].items()) ^ set(digests[1].items())}
    assert different <= {"LICENSES.txt", "RECORD"}


# The command lines of torch.utils.cpp_extension, and ours


# Run as `python -c SCRIPT CUDA_HOME NAME INCLUDE SOURCE...`; prints the commands, and runs none.
CPP_EXTENSION = """
import json
import sys
from setuptools import Distribution
from torch.utils import cpp_extension
home, name, include, *sources = sys.argv[1:]
commands = []
class Observed(cpp_extension.BuildExtension):
    def build_extensions(self):
        self.compiler.spawn = lambda command, **_: commands.append(list(map(str, command)))
        super().build_extensions()
cpp_extension.CUDA_HOME = home or None
kind = cpp_extension.CUDAExtension if home else cpp_extension.CppExtension
extension = kind(name, sources, include_dirs=[include], define_macros=[("WITH_CUDA", None)] if home else [])
distribution = Distribution({"name": "observed", "ext_modules": [extension]})
command = Observed(distribution, use_ninja=False)
command.build_temp = command.build_lib = "observed"
command.ensure_finalized()
command.run()
print(json.dumps(commands))
"""


def cpp_extension_commands(project: Path, ours: dict[str, list[str]]) -> dict[str, list[str]]:
    """Its command line for each file, and for the library, by suffix; with the compiler of ours."""
    sources = ["ext.cpp", *(["distances.cu"] if TOOLKIT else [])]
    words = [str(TOOLKIT or ""), "nearest._C", str(project / "third_party/vectors"), *sources]
    env = {"TORCH_CUDA_ARCH_LIST": "9.0", "CXX": ours[".cpp"][0]}
    commands = json.loads(
        run([sys.executable, "-c", CPP_EXTENSION, *words], cwd=project, env=env).stdout.splitlines()[-1]
    )
    return {Path(next((word for word in words if word in sources), "library.so")).suffix: words for words in commands}


def our_commands(folder: Path) -> dict[str, list[str]]:
    (file,) = cache_of(folder).glob("kernelwheel/nearest/.build/*/build/compile_commands.json")
    commands = json.loads(file.read_text())
    return {Path(each["file"]).suffix: each["command"].partition(" && ")[0].split() for each in commands}


def places() -> list[tuple[str, str]]:
    """What names a folder on a command line, by what it starts with."""
    return [
        (str(TORCH.root), "torch"), *((sysconfig.get_path(name), "python") for name in ("include", "platinclude")),
        *([(str(TOOLKIT), "cuda")] if TOOLKIT else []),
    ]  # fmt: skip


WITH_VALUE = ["-c", "-o", "-x", "-isystem", "--compiler-options", "-Xcompiler", "-ccbin", "-MF", "-MT", "-Xassembler"]


def meaning(words: list[str]) -> set[str]:
    """The options of a command line without input and output; folders by what they are."""
    # A newer torch puts a launcher that it finds on PATH before nvcc.
    said, waiting = set(), iter(words[2 if Path(words[0]).name in ("ccache", "sccache") else 1 :])
    for word in waiting:
        if word in WITH_VALUE:
            value = next(waiting)
            word = f"-I{value}" if word == "-isystem" else value if word in ("--compiler-options", "-Xcompiler") else ""
        word = word.strip("'").removeprefix("-Xcompiler=")
        if word.startswith("-I"):
            folder = re.sub(r"/headers/(cuda|python)\d+$", r"/\1", word.removeprefix("-I"))
            for start, name in places():
                folder = re.sub(rf"^{re.escape(start)}", name, folder)
            folder = re.sub(r"^.*/(torch/include.*|cuda|python|third_party/vectors)$", r"\1", folder)
            word = f"-I{folder.removesuffix('/include') if folder.startswith(('cuda', 'python')) else folder}"
        if word:
            said.add(word)
    return said


# What differs on purpose; docs/packaging.md says why.
OURS_ALONE = re.compile(
    r"@\.\./recipe/|-fno-canonical|-fno-gnu-unique|-isystem=|-forward-unknown|-ccbin=|--keep|--frandom-seed="
    r"|-X(cudafe|cicc|fatbin)=|-Xassembler,"
)
# setuptools passes on the options that this Python was built with, which differ between builds of Python.
PYTHON_S = {word for name in ("CFLAGS", "CPPFLAGS", "OPT") for word in str(sysconfig.get_config_var(name)).split()}
FOR_PYTHON_S = {"-O3", "-DNDEBUG", "-fwrapv", "-Wall"}
THEIRS_ALONE = PYTHON_S | {f"-I{sys.prefix}/include"}


@pytest.mark.parametrize("suffix", [".cpp", pytest.param(".cu", marks=needs_cuda_torch)])
def test_a_file_is_compiled_as_torch_s_cpp_extension_would(
    nearest_wheel: Wheel, build_root: Path, tmp_path: Path, suffix: str
) -> None:
    project = copy_of("nearest", tmp_path)

    commands = our_commands(build_root / "nearest")
    theirs = meaning(cpp_extension_commands(project, commands)[suffix])
    ours = meaning(commands[suffix])

    assert {"-DTORCH_EXTENSION_NAME=_C", "-fPIC", "-Ithird_party/vectors", "-Itorch/include"} <= theirs
    assert {word for word in ours - theirs if not OURS_ALONE.match(word)} - FOR_PYTHON_S == set()
    assert theirs - ours <= THEIRS_ALONE
    assert [word for word in ours if "visibility" in word] == []
    assert ("-DNDEBUG" in ours) == (suffix == ".cpp"), "assertions in device code are as there"
    assert ("-D__CUDA_NO_HALF_OPERATORS__" in ours) == (suffix == ".cu")


def test_it_is_linked_to_the_libraries_that_cpp_extension_would(
    nearest_wheel: Wheel, build_root: Path, tmp_path: Path
) -> None:
    words = cpp_extension_commands(copy_of("nearest", tmp_path), our_commands(build_root / "nearest"))[".so"]
    theirs = {f"lib{word.removeprefix('-l')}.so" for word in words if word.startswith("-l")} - {"libcudart.so"}

    assert theirs <= {*library_at(nearest_wheel.native / "nearest._C.so").needed}


# For CUDA alone


@needs_cpu_torch
def test_what_is_for_cuda_alone_is_one_clear_error_beside_a_cpu_torch(tmp_path: Path) -> None:
    said = refused_build(copy_of("blur", tmp_path), tmp_path / "out", env=TABLES)

    assert "blur cannot be built without CUDA" in said
    assert "compiling " not in said.replace("byte-compiling ", "")


@needs_cuda_torch
def test_a_library_beside_the_package_is_imported_without_a_gpu(blur_wheel: Wheel, run_python: RunPython) -> None:
    script = """
import torch, blur, blur_cuda
assert blur.blur_cuda is blur_cuda and blur_cuda.__name__ == "blur_cuda"
assert blur_cuda.runtime_version() >= 13000
assert blur_cuda.cublas_status(3) == "CUBLAS_STATUS_ALLOC_FAILED"
assert not torch.cuda.is_initialized()
"""
    run_python(script, path=[blur_wheel.unpacked])
    (names,) = blur_wheel.unpacked.glob("blur-*.dist-info/top_level.txt")
    assert names.read_text() == "blur\nblur_cuda\n"


@needs_cuda_torch
def test_options_for_one_file_are_for_that_file(blur_wheel: Wheel, build_root: Path) -> None:
    (file,) = cache_of(build_root / "blur").glob("kernelwheel/blur/.build/*/build/compile_commands.json")
    commands = {Path(each["file"]).name: each["command"] for each in json.loads(file.read_text())}

    assert [name for name, command in commands.items() if "-maxrregcount=32" in command] == ["vertical.cu"]
    assert {name for name, command in commands.items() if "--use_fast_math" in command} == {
        "vertical.cu",
        "horizontal.cu",
    }
    assert all(re.search(r"--frandom-seed=\w+", command) for name, command in commands.items() if name.endswith(".cu"))


# TORCH_LIBRARY without Python


@pytest.mark.once
@pytest.mark.once("operators without Python")
def test_operators_without_python_are_there_when_the_package_is_imported(
    build_root: Path, tmp_path: Path, run_python: RunPython
) -> None:
    wheel = build(copy_of("sums", tmp_path), build_root / "sums", env=TABLES)
    minor = "".join(f"{part:0>2}" for part in TORCH.version.split(".")[:2]).lstrip("0")

    assert wheel.file.name == f"sums-0.9-{minor}torch-py3-none-manylinux_2_28_x86_64.whl"
    assert wheel.manifest["requires"]["python"] is None
    script = "import torch, sums\nassert sums.running(torch.ones(3)).tolist() == [1.0, 2.0, 3.0]"
    assert run_python(script, path=[wheel.unpacked]).stderr == ""
    manifest = manifests.read(wheel.native)
    assert manifest is not None
    assert f"torch {'.'.join(TORCH.version.split('.')[:2])}.*, linux" in manifest_text(manifest)
