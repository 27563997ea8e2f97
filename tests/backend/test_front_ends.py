"""Every way in: pip, uv and build, with isolation and without, from a folder, an sdist and a git repository.

Each is the real program. Whichever is used, the Plan is the same, and so are its fingerprint and the libraries. The
checkouts here lie in a folder whose name has spaces and letters outside of ASCII.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from builds import NATIVE, TORCH, Wheel, build, contents, uv
from declared import make_package
from editables import SMALL
from folders import REPOSITORY
from kernelwheel.project.source_files import source_digests
from offline import as_simple_index, make_index, make_wheel
from processes import Done, RunPython, run
from standins import make_torch

Checkout = Callable[[], Path]
# One architecture: it decides the Plan where torch has CUDA, and nothing elsewhere.
ARCHS = {"TORCH_CUDA_ARCH_LIST": "9.0"}
PIP = (sys.executable, "-m", "pip")
BUILD = (sys.executable, "-m", "build")
# Every kind of requirement is there, but not in the versions that pyproject.toml names on every machine.
UNCHECKED = "--skip-dependency-check"


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that serves what a build of tiny asks for."""
    return make_index(tmp_path_factory.mktemp("index"), REPOSITORY / "tests/packages/tiny")


@pytest.fixture(scope="session")
def reference(checkout: Checkout, build_root: Path, shared_cache: Path) -> Wheel:
    """What all front ends must make; from a folder with an ordinary name."""
    return build(checkout(), build_root / "front-end", env={**ARCHS, "XDG_CACHE_HOME": str(shared_cache)})


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's cache, the same for all front ends."""
    return tmp_path_factory.mktemp("cache")


@dataclass(frozen=True)
class Way:
    """What a front end works on.

    Attributes:
        checkout: the folder of tiny.
        out: an empty folder for what is made.
        env: the user's environment.
    """

    checkout: Path
    out: Path
    env: dict[str, str]

    def run(self, *command: str | Path, check: bool = True) -> Done:
        """Run a front end beside the checkout."""
        return run(command, cwd=self.out, env=self.env, check=check)

    @property
    def git_url(self) -> str:
        """A git repository with the checkout in it."""
        if not shutil.which("git"):
            pytest.skip("there is no git here")
        repository = self.out / "a git repository"
        shutil.copytree(self.checkout, repository)
        author = ("-c", "user.name=tiny", "-c", "user.email=tiny@example.org")
        for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "tiny"]):
            self.run("git", "-C", repository, *words)
        return f"git+{repository.as_uri()}"


@pytest.fixture
def way(checkout: Checkout, build_root: Path, shared_cache: Path, index: Path, tmp_path: Path) -> Way:
    """A checkout in a folder with an unusual name, and a user who has no package index but ours."""
    folder = tmp_path / "ein Ordner mit Überlänge 漢字"
    shutil.copytree(checkout(), folder / "tiny package")
    (folder / "out").mkdir()
    env = {
        **ARCHS,
        "TMPDIR": str(build_root),
        "XDG_CACHE_HOME": str(shared_cache),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_NO_CACHE_DIR": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(index),
        "UV_NO_PYTHON_DOWNLOADS": "1",
    }
    return Way(folder / "tiny package", folder / "out", env)


NOT_ISOLATED = ("--no-build-isolation", "--no-deps")
OUT, SITE, CHECKOUT, GIT = "{out}", "{out}/site", "{checkout}", "{git}"
WAYS: dict[str, tuple[str, ...]] = {
    "pip install": (*PIP, "install", *NOT_ISOLATED, "--target", SITE, CHECKOUT),
    "build, sdist and wheel, isolated": (*BUILD, "--outdir", OUT, CHECKOUT),
    "uv pip install, from git, isolated": ("uv", "pip", "install", "--no-deps", "--target", SITE, GIT),
    "uv build, sdist and wheel, isolated": ("uv", "build", "--out-dir", OUT, CHECKOUT),
}


def native_of(out: Path) -> Path:
    """The folder of the kernels in what a front end made: an installed package, or else a wheel."""
    for file in out.glob("*.whl"):
        with ZipFile(file) as archive:
            archive.extractall(out / "site")
    return out / "site" / NATIVE


def made(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What is the same whichever front end made it: the libraries, and the manifest but for the version of CMake."""
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    del manifest["digest"]
    for name in ("cmake", "ninja"):  # isolation may find others than this environment
        del manifest["built_with"][name]
    return manifest, {path.name: path.read_bytes() for path in folder.glob("*.so")}


@pytest.mark.minutes
@pytest.mark.parametrize("front_end", WAYS)
def test_every_front_end_makes_the_same_and_leaves_the_checkout_as_it_was(
    way: Way, reference: Wheel, front_end: str
) -> None:
    before = contents(way.checkout)

    words = WAYS[front_end]
    places = {"out": way.out, "checkout": way.checkout, "git": way.git_url if GIT in words else ""}
    command = [word.format(**places) for word in words]
    way.run(*(uv(*command[1:]) if command[0] == "uv" else command))

    assert contents(way.checkout) == before
    assert made(native_of(way.out)) == made(reference.native)


@pytest.mark.minutes
def test_a_temporary_folder_with_an_unusual_name_is_no_hindrance(way: Way, tmp_path: Path) -> None:
    """nvcc, the compilers, CMake and Ninja get paths with spaces and letters outside of ASCII."""
    temporary = tmp_path / "temporär (2) & more 漢字"
    temporary.mkdir()
    way.env.update(TMPDIR=str(temporary), XDG_CACHE_HOME=str(tmp_path / "empty"))

    way.run(*BUILD, "--wheel", "--no-isolation", UNCHECKED, "--outdir", way.out, way.checkout)

    manifest, libraries = made(native_of(way.out))
    assert sorted(libraries) == ["libtiny_cpu.so", *(["libtiny_cuda.so"] if TORCH.cuda else [])]
    assert manifest["plan"]["target"]["cuda"] is None or manifest["plan"]["target"]["cuda"]["sass"] == ["9.0"]


# uv: the torch of a project is the torch that its packages are built with

(MATCHED,) = re.findall(
    r"^```toml\n(\[tool.uv\]\n.*?)^```$", (REPOSITORY / "docs/packaging.md").read_text(), re.MULTILINE | re.DOTALL
)
# torch as far as a module without its headers is compiled, linked and loaded with it.
TORCH_FILES = {
    "torch/__init__.py": """import ctypes, pathlib
from . import version
__version__ = version.__version__
for file in (pathlib.Path(__file__).parent / "lib").iterdir():
    ctypes.CDLL(str(file))
""",
    "torch/utils/cpp_extension.py": "'-std=c++20'\ncpp_flag = cpp_flag_prefix + 'c++17'\n",
    "torch/include/ATen/ATen.h": "#if !defined(_MSC_VER) && __cplusplus < 201703L\n#error\n#endif\n",
}


def make_torch_wheel(wheels: Path, version: str, folder: Path) -> None:
    """A wheel of a stand-in for torch, made in a folder."""
    root = make_torch(folder, version)
    for library in ("torch", "torch_cpu", "torch_python", "c10"):
        file = f"lib{library}.so"
        run(["gcc", "-shared", f"-Wl,-soname,{file}", "-o", root / "lib" / file, "-x", "c", os.devnull], cwd=folder)
    for name, text in TORCH_FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    make_wheel(wheels, "torch", version, {path.relative_to(folder).as_posix(): path for path in root.rglob("*.*")})


@dataclass(frozen=True)
class UvProjects:
    """Projects that depend on the package light, by uv, with one cache and one index.

    Attributes:
        folder: of all of it; the package is in its folder `light`.
        env: the user's environment.
        index: the address of the index.
    """

    folder: Path
    env: dict[str, str]
    index: str

    def sync(self, name: str, torch: str, *, matched: bool) -> str:
        """Have uv sync a project with this torch: what its Python prints then, or what uv says as it fails."""
        project = self.folder / name
        project.mkdir(exist_ok=True)
        more = MATCHED.replace("nearest-points", "light-weight").replace("0.3.0", "1.0")
        text = f"""{more if matched else ""}
[project]
name = "project"
version = "1.0"
requires-python = "=={sys.version_info.major}.{sys.version_info.minor}.*"
dependencies = ["light-weight", "torch=={torch}"]

[tool.uv.sources]
light-weight = {{ path = "{self.folder / "light"}" }}

[[tool.uv.index]]
name = "here"
url = "{self.index}"
default = true
"""
        (project / "pyproject.toml").write_text(text)
        done = run(uv("sync", "--no-editable", "--project", project), cwd=project, env=self.env, check=False)
        if done.returncode:
            return done.stderr
        script = "import light, torch; print(light.answer(), torch.__version__)"
        return run([project / ".venv/bin/python", "-c", script], cwd=project, env=self.env).stdout


@pytest.mark.slow
@pytest.mark.minutes
def test_two_projects_with_uv_each_get_a_wheel_for_their_torch(index: Path, distribution: Path, tmp_path: Path) -> None:
    """Or they are refused: no wheel is ever installed beside a torch that it was not built for."""
    wheels = Path(shutil.copytree(index, tmp_path / "links", ignore=shutil.ignore_patterns("torch-2*", "simple")))
    shutil.copy(distribution, wheels)
    for version in ("2.11.0", "2.13.0"):
        make_torch_wheel(wheels, version, tmp_path / version)
    make_package(tmp_path / "light")
    env = {
        "XDG_CACHE_HOME": str(tmp_path / "cache"), "UV_CACHE_DIR": str(tmp_path / "uv"), "UV_OFFLINE": "1",
        "UV_NO_PYTHON_DOWNLOADS": "1",
    }  # fmt: skip
    projects = UvProjects(tmp_path, env, str(as_simple_index(wheels)))

    newest = projects.sync("one", "2.13.0", matched=False)
    refused = projects.sync("other", "2.11.0", matched=False)
    earlier = projects.sync("other", "2.11.0", matched=True)
    later = projects.sync("other", "2.13.0", matched=True)
    again = projects.sync("other", "2.11.0", matched=False)

    assert [newest, earlier, later] == ["42 2.13.0\n", "42 2.11.0\n", "42 2.13.0\n"]
    for said in (refused, again):
        assert "light-weight==1.0 depends on torch==2.13.*" in " ".join(said.split())


# Editable installs


VISIBLE = 'extern "C" __attribute__((visibility("default")))'


def make_small(checkout: Path) -> None:
    """Put sources into a checkout that compile in no time."""
    for path in (checkout / "native").iterdir():
        path.unlink()
    for name, text in SMALL.items():
        (checkout / "native" / name).write_text(text.replace('extern "C"', VISIBLE))


@pytest.mark.minutes
@pytest.mark.parametrize("installer", ["pip, strict", "uv, lenient"])
def test_an_editable_install_compiles_what_is_in_the_checkout(
    way: Way, tmp_path: Path, shared_cache: Path, installer: str
) -> None:
    make_small(way.checkout)
    run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    way.env.update(PYTHONPATH=sysconfig.get_path("purelib"), XDG_CACHE_HOME=str(tmp_path / "own"))
    options = ("--no-deps", "--no-build-isolation", "--editable", way.checkout)
    if installer.startswith("pip"):
        strict = ("-C", "editable_mode=strict", "--ignore-installed")
        way.run(*PIP, "--python", python, "install", *options, *strict)
    else:
        way.run(*uv("pip", "install", *options)[:-1], python)
    script = 'import tiny, ctypes; tiny.KERNELS.require("cpu"); folder = tiny.KERNELS.info()["loaded"]["cpu"]\n'
    script += 'print(ctypes.CDLL(f"{folder}/libtiny_cpu.so").tiny_one())'

    assert way.run(python, "-c", script).stdout == "1\n"
    where = way.run(python, "-c", "import tiny; print(tiny._kernelwheel.__file__)").stdout.strip()
    assert Path(where).is_relative_to(way.checkout), "the backend in the checkout goes on being used as it is edited"
    (way.checkout / "native/one.h").write_text("#define ONE 7\n")
    assert way.run(python, "-c", script).stdout == "7\n"


# A checkout that may not be written to, and a user who is nobody


def as_another() -> tuple[str, ...]:
    """The beginning of a command that runs as a user who is not root, and whose files are those of the caller."""
    if os.geteuid() != 0:
        return ()
    command = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("user namespaces are not permitted here")
    return command


def test_a_user_who_is_not_root_builds_in_a_read_only_checkout(way: Way) -> None:
    make_small(way.checkout)
    way.env["TINY_CUDA"] = "off"
    run(["chmod", "-R", "a-w", way.checkout], cwd=way.out)
    attempt = way.run(*as_another(), "touch", way.checkout / "new", check=False)
    assert "Permission denied" in attempt.stderr
    before = contents(way.checkout)

    way.run(*as_another(), *PIP, "wheel", "--no-build-isolation", "--no-deps", "-w", way.out, way.checkout)

    assert contents(way.checkout) == before
    assert made(native_of(way.out))[1].keys() == {"libtiny_cpu.so"}


# What a front end may count on before anything is built


def test_the_sdist_of_splat_holds_all_that_a_build_needs(tmp_path: Path, run_python: RunPython) -> None:
    copied = tmp_path / "splat"
    copied.mkdir()
    for name in ("backend", "csrc", "splat"):
        skipped = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
        shutil.copytree(REPOSITORY / name, copied / name, ignore=skipped)
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, copied)
    needed = {name: data for name, data in contents(copied).items() if data is not None}

    script = 'import sys; sys.path.insert(0, "backend"); from kernelwheel import hooks; hooks.build_sdist(sys.argv[1])'
    run_python(script, tmp_path / "sdist", cwd=copied, env={"PYTHONDONTWRITEBYTECODE": "1"})

    (file,) = (tmp_path / "sdist").glob("*.tar.gz")
    shutil.unpack_archive(file, tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    shipped = contents(unpacked)
    assert {name: shipped.get(name) for name in needed} == needed
    assert source_digests(unpacked / "csrc") == source_digests(REPOSITORY / "csrc")
