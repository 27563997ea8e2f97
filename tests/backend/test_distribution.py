"""kernelwheel as a distribution: what its wheel holds and requires, and a package that requires it and torch alone."""

from __future__ import annotations

import os
import shutil
import sys
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import kernelwheel
import pytest
from builds import TORCH
from kernelwheel.build.package import read_toml
from offline import make_index
from packaging.requirements import Requirement
from processes import RunPython, run

REPOSITORY = Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
TWICE = "torch.ops.tiny.twice(torch.ones(2)).tolist() == [2.0, 2.0]"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kernelwheel's wheel, built by pip from a copy of backend/."""
    folder = tmp_path_factory.mktemp("distribution")
    shutil.copytree(REPOSITORY / "backend", folder / "backend", ignore=shutil.ignore_patterns("__pycache__"))
    run([*PIP, "wheel", "--no-build-isolation", "--no-deps", "-w", folder / "out", folder / "backend"], cwd=folder)
    (wheel,) = (folder / "out").glob("*.whl")
    return wheel


def metadata_of(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def test_its_wheel_is_pure_and_holds_every_module_and_the_recipe(distribution: Path) -> None:
    source = Path(kernelwheel.__path__[0])
    wanted = {path.relative_to(source.parent).as_posix() for kind in ("*.py", "*.cmake") for path in source.rglob(kind)}

    with ZipFile(distribution) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == wanted
    assert distribution.name == f"kernelwheel-{kernelwheel.VERSION}-py3-none-any.whl"


def test_it_brings_what_splat_s_own_build_requires(distribution: Path) -> None:
    """So that an adopter requires kernelwheel and torch alone."""
    declared = read_toml(REPOSITORY / "pyproject.toml")["build-system"]["requires"]
    needed = {str(Requirement(text)) for text in declared} - {"torch>=2.10"}
    toolkit = next(text for text in needed if text.startswith("cuda-toolkit"))

    required = {str(Requirement(text)) for text in metadata_of(distribution).get_all("Requires-Dist", [])}

    plain = {text for text in required if "extra ==" not in text}
    assert needed - {toolkit} <= plain
    (cuda,) = required - plain
    assert Requirement(cuda).extras == Requirement(toolkit).extras
    assert 'extra == "cuda"' in cuda


def test_a_package_requires_kernelwheel_and_torch_and_copies_nothing(
    distribution: Path, build_root: Path, tmp_path: Path, run_python: RunPython
) -> None:
    """Isolated: the front end installs kernelwheel, and the wheel carries the runtime without being told."""
    package = tmp_path / "tiny"
    shutil.copytree(REPOSITORY / "tests/packages/tiny", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "MANIFEST.in").write_text("graft native\n")
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["kernelwheel[cuda]", "torch>=2.10"]\nbuild-backend = "kernelwheel.hooks"\n'
        '[project]\nname = "tiny"\nversion = "1.2.3"\n'
        '[tool.kernelwheel]\npackage = "tiny"\nsources = "native"\ntorch-target = "2.10"\n'
        '[tool.setuptools]\npackages = ["tiny"]\n'
    )
    index = make_index(tmp_path / "index", REPOSITORY / "tests/packages/tiny", "rich")
    shutil.copy(distribution, index)
    env = {
        "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "TMPDIR": str(build_root),
        "XDG_CACHE_HOME": str(tmp_path / "cache"), "TORCH_CUDA_ARCH_LIST": "9.0",
    }  # fmt: skip

    run([*PIP, "wheel", "--no-deps", "--no-cache-dir", "-w", tmp_path / "out", package], cwd=tmp_path, env=env)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")

    script = f"import torch, tiny\nassert {TWICE}\nassert tiny.KERNELS.info()['verdict'] == []"
    run_python(script, path=[tmp_path / "site"])
    assert (tmp_path / "site/tiny/_kernelwheel/cmake/KernelWheel.cmake").is_file()
    libraries = {path.name for path in (tmp_path / "site/tiny/_native").glob("*.so")}
    assert libraries == {"libtiny_cpu.so", *(["libtiny_cuda.so"] if TORCH.cuda else [])}
