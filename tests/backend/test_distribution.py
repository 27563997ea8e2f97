"""kernelwheel as a distribution: what its wheel holds and requires."""

from __future__ import annotations

from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import kernelwheel
import pytest
from folders import REPOSITORY
from kernelwheel.project.package import read_toml
from packaging.requirements import Requirement

pytestmark = [pytest.mark.slow]


def test_its_wheel_is_pure_and_holds_every_module_and_the_recipe(distribution: Path) -> None:
    source = Path(kernelwheel.__path__[0])
    files = (path for path in source.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    wanted = {path.relative_to(source.parent).as_posix() for path in files}

    with ZipFile(distribution) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == wanted
    assert distribution.name == f"kernelwheel-{kernelwheel.__version__}-py3-none-any.whl"


def test_it_brings_what_splat_s_own_build_requires(distribution: Path) -> None:
    """So that an adopter requires kernelwheel and torch alone."""
    declared = read_toml(REPOSITORY / "pyproject.toml")["build-system"]["requires"]
    needed = {text for each in declared if not (text := str(Requirement(each))).startswith("torch<")}
    toolkit = next(text for text in needed if text.startswith("cuda-toolkit"))

    with ZipFile(distribution) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    required = {str(Requirement(text)) for text in metadata.get_all("Requires-Dist", [])}

    plain = {text for text in required if "extra ==" not in text}
    assert needed - {toolkit} <= plain
    (cuda,) = (text for text in required - plain if 'extra == "cuda"' in text)
    assert Requirement(cuda).extras == Requirement(toolkit).extras
    others = {Requirement(text).name for text in required - plain - {cuda}}
    assert others == {"cmake", "ninja", "cuda-toolkit"}
