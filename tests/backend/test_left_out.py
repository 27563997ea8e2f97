"""Extensions that exist only with CUDA, `cuda = "only"`, in a build without: wheels and editable installs."""

from __future__ import annotations

import re
import shutil
import sys
from email.parser import HeaderParser
from pathlib import Path

import pytest
from builds import Wheel, build
from declared import CUDA_SOURCE, HEAD, LIGHT, make_package
from folders import BACKEND
from kernelwheel.cli.manifest_text import manifest_text
from kernelwheel.runtime.artifact import manifest as manifests
from processes import RunPython, run

pytestmark = [pytest.mark.slow, pytest.mark.once]

TABLES = {"PYTHONPATH": str(BACKEND), "LIGHT_CUDA": "off"}
CUDA_ONLY = """
[[tool.kernelwheel.extension]]
name = "light._C"
sources = ["native/light.cu"]
define = ["ANSWER=42"]
cuda = "only"

[[tool.kernelwheel.extension]]
name = "light._operators"
kind = "operators"
sources = ["native/light.cu"]
cuda = "only"

[[tool.kernelwheel.extension]]
name = "light._late"
kind = "torch-library"
by-path = true
sources = ["native/light.cu"]
cuda = "only"
"""
WITHOUT = """
import importlib
for name in ("_C", "_operators"):
    try:
        importlib.import_module(f"light.{name}")
    except ImportError as error:
        assert "light._kernelwheel" in type(error).__module__
        print(error)
"""


def make_project(folder: Path) -> Path:
    files = {**LIGHT, "native/light.cu": CUDA_SOURCE}
    return make_package(folder, files, pyproject=HEAD + CUDA_ONLY, __init__="", module=None)


@pytest.fixture(scope="module")
def cuda_only_wheel(build_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """A package whose extensions are all left out, as this is a build without CUDA."""
    project = make_project(tmp_path_factory.mktemp("only") / "project")
    return build(project, build_root / "only", env=TABLES)


def test_a_package_whose_extensions_are_all_left_out_is_a_wheel_for_every_torch(cuda_only_wheel: Wheel) -> None:
    folder = cuda_only_wheel.unpacked / "light_weight-1.0.dist-info"
    required = HeaderParser().parsestr((folder / "METADATA").read_text()).get_all("Requires-Dist", [])

    assert cuda_only_wheel.file.name == "light_weight-1.0-py3-none-manylinux_2_28_x86_64.whl"
    assert [text for text in required if "torch" in text] == []
    assert cuda_only_wheel.manifest["libraries"] == []
    assert sorted(path.name for path in cuda_only_wheel.native.iterdir()) == ["manifest.json", "src"]
    assert {path.name for path in (cuda_only_wheel.unpacked / "light").glob("_*.*")} == {
        "__init__.py", "_C.py", "_C.pyi", "_operators.py",
    }, "a package that looks for a library by its path finds none"  # fmt: skip
    assert (cuda_only_wheel.native / "src/native/light.cu").is_file()


def test_the_manifest_says_why_there_are_no_cuda_kernels_and_which_settings_made_it(cuda_only_wheel: Wheel) -> None:
    built_with = cuda_only_wheel.manifest["built_with"]

    assert cuda_only_wheel.manifest["plan"]["target"]["cuda"] is None
    assert cuda_only_wheel.manifest["requires"]["driver"] is None
    assert not built_with["cuda"]["enabled"]
    assert re.search(r"off.*LIGHT_CUDA", built_with["cuda"]["because"])
    assert built_with["settings"] == {
        "cuda": {"value": "off", "origin": "environment variable LIGHT_CUDA"},
        "cxx": {"value": None, "origin": "default"},
        "cxx-flags": {"value": [], "origin": "default"},
        "link-flags": {"value": [], "origin": "default"},
        "glibc": {"value": "2.28", "origin": "default"},
        "cpu": {"value": [], "origin": "default"},
        "cxx-standard": {"value": "raised", "origin": "default"},
    }
    manifest = manifests.read(cuda_only_wheel.native)
    assert manifest is not None
    assert re.search(r"\n  settings +cuda = off \(environment variable LIGHT_CUDA\)\n", manifest_text(manifest))


def test_importing_what_was_left_out_is_one_error_that_says_so(cuda_only_wheel: Wheel, run_python: RunPython) -> None:
    done = run_python(WITHOUT, path=[cuda_only_wheel.unpacked], env={"LIGHT_CUDA": "off"})

    said = done.stdout.splitlines()
    assert said[::5] == [f"light.{name} is not there: only builds with CUDA have it" for name in ("_C", "_operators")]
    assert [line.split(":")[0].strip() for line in said[1:5]] == ["required", "found", "to fix", "to fix"]
    assert "_native: built without CUDA, because cuda is off (environment variable LIGHT_CUDA)" in done.stdout
    assert done.stderr == ""


@pytest.mark.minutes
def test_the_commands_know_what_was_left_out(cuda_only_wheel: Wheel, tmp_path: Path) -> None:
    env = {"PYTHONPATH": f"{cuda_only_wheel.unpacked}:{BACKEND}", "XDG_CACHE_HOME": str(tmp_path), "LIGHT_CUDA": "off"}
    doctor = run([sys.executable, "-m", "light._kernelwheel", "doctor"], cwd=tmp_path, env=env)
    inspect = [sys.executable, "-m", "kernelwheel", "inspect", cuda_only_wheel.file]
    inspected = run(inspect, cwd=tmp_path, env=env, check=False)  # beside a torch with CUDA this wheel does not fit

    assert "CPU, without light._C, light._late, light._operators" in doctor.stdout
    assert "light._C, light._late, light._operators: only builds with CUDA" in inspected.stdout


def test_an_editable_install_without_a_gpu_says_the_same_and_compiles_nothing(
    tmp_path: Path, run_python: RunPython
) -> None:
    project = make_project(tmp_path / "project")
    tables = project / "pyproject.toml"
    tables.write_text(tables.read_text().replace("by-path = true", ""))  # which no editable install has
    (tmp_path / "made").mkdir()
    hook = "import sys; from kernelwheel import hooks; hooks.build_editable(sys.argv[1])"
    run_python(hook, str(tmp_path / "made"), cwd=project, path=[BACKEND])
    (wheel,) = (tmp_path / "made").glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")

    script = f"import site; site.addsitedir({str(tmp_path / 'site')!r}); import light\n" + WITHOUT
    done = run_python(script, path=[BACKEND], env={"LIGHT_CUDA": "off", "XDG_CACHE_HOME": str(tmp_path)})

    assert done.stdout.startswith("light._C is not there: only builds with CUDA have it\n")
    assert "cuda is off (environment variable LIGHT_CUDA)" in done.stdout
    assert "compiling" not in done.stderr
