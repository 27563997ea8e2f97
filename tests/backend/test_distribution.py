"""kernelwheel as a distribution: what its wheel holds and requires, and a package that requires it and torch alone."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import kernelwheel
import pytest
from builds import TORCH
from declared import PIP, make_user_index
from editables import REQUIRE, SMALL
from folders import REPOSITORY
from kernelwheel.project.package import read_toml
from packaging.requirements import Requirement
from processes import RunPython, run

TWICE = "torch.ops.tiny.twice(torch.ones(2)).tolist() == [2.0, 2.0]"

pytestmark = [pytest.mark.slow, pytest.mark.once]


def metadata_of(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def test_its_wheel_is_pure_and_holds_every_module_and_the_recipe(distribution: Path) -> None:
    source = Path(kernelwheel.__path__[0])
    kinds = ("*.py", "*.cmake", "*.h", "*.cpp")
    wanted = {path.relative_to(source.parent).as_posix() for kind in kinds for path in source.rglob(kind)}

    with ZipFile(distribution) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == wanted
    assert distribution.name == f"kernelwheel-{kernelwheel.VERSION}-py3-none-any.whl"


def test_it_brings_what_splat_s_own_build_requires(distribution: Path) -> None:
    """So that an adopter requires kernelwheel and torch alone."""
    declared = read_toml(REPOSITORY / "pyproject.toml")["build-system"]["requires"]
    needed = {text for each in declared if not (text := str(Requirement(each))).startswith("torch<")}
    toolkit = next(text for text in needed if text.startswith("cuda-toolkit"))

    required = {str(Requirement(text)) for text in metadata_of(distribution).get_all("Requires-Dist", [])}

    plain = {text for text in required if "extra ==" not in text}
    assert needed - {toolkit} <= plain
    (cuda,) = (text for text in required - plain if 'extra == "cuda"' in text)
    assert Requirement(cuda).extras == Requirement(toolkit).extras
    others = {Requirement(text).name for text in required - plain - {cuda}}
    assert others == {"cmake", "ninja", "cuda-toolkit"}


@dataclass(frozen=True)
class Adopter:
    """A package that requires kernelwheel and torch and has no copy of it, and a user who has only our index."""

    package: Path
    env: dict[str, str]


@pytest.fixture
def adopter(distribution: Path, build_root: Path, tmp_path: Path) -> Adopter:
    package = tmp_path / "project"
    shutil.copytree(REPOSITORY / "tests/packages/tiny", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "MANIFEST.in").write_text("graft native\n")
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["kernelwheel[cuda]", "torch>=2.10"]\nbuild-backend = "kernelwheel.hooks"\n'
        '[project]\nname = "tiny"\nversion = "1.2.3"\n'
        '[tool.kernelwheel]\npackage = "tiny"\nsources = "native"\ntorch-target = "2.10"\n'
        '[tool.setuptools]\npackages = ["tiny"]\n'
    )
    return Adopter(package, {**make_user_index(tmp_path, distribution), "TMPDIR": str(build_root)})


def test_the_wheel_carries_the_runtime_without_being_told(
    adopter: Adopter, tmp_path: Path, run_python: RunPython
) -> None:
    command = [*PIP, "wheel", "--no-deps", "--no-cache-dir", "-w", tmp_path / "out", adopter.package]
    run(command, cwd=tmp_path, env=adopter.env)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")

    script = f"import torch, tiny\nassert {TWICE}\nassert tiny.KERNELS.info()['verdict'] == []"
    run_python(script, path=[tmp_path / "site"])
    assert (tmp_path / "site/tiny/_kernelwheel/kernels.py").is_file()
    libraries = {path.name for path in (tmp_path / "site/tiny/_native").glob("*.so")}
    assert libraries == {"libtiny_cpu.so", *(["libtiny_cuda.so"] if TORCH.cuda else [])}


@pytest.mark.once
def test_an_editable_install_has_the_runtime_too(adopter: Adopter, tmp_path: Path) -> None:
    """Isolated, so that the backend that made it is gone when it is imported; what compiles is installed."""
    for path in (adopter.package / "native").iterdir():
        path.unlink()
    for name, text in SMALL.items():
        (adopter.package / "native" / name).write_text(text)
    run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    run(
        [*PIP, "--python", python, "install", "--no-deps", "--editable", adopter.package], cwd=tmp_path, env=adopter.env
    )
    path = os.pathsep.join([sysconfig.get_path("purelib"), str(REPOSITORY / "backend")])
    env = {**adopter.env, "PYTHONPATH": path}

    done = run([python, "-c", "import tiny\n" + REQUIRE], cwd=tmp_path, env=env)

    assert str(tmp_path / "cache") in done.stdout
    where = run([python, "-c", "import tiny; print(tiny._kernelwheel.__file__)"], cwd=tmp_path, env=env).stdout
    assert Path(where.strip()).is_relative_to(tmp_path / "venv")
