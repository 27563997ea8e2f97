"""Distributions that share a namespace package (PEP 420): each has a home of its own below it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from builds import Wheel, build, contents
from declared import HEAD, LIGHT, REPOSITORY, TABLE, make_package
from kernelwheel.project.package import read_project
from kernelwheel.runtime.errors import SettingsError
from processes import Done, run

BACKEND = REPOSITORY / "backend"
ANSWERS = {"ops": 1, "mesh": 2}
EDITABLE = "import sys\nfrom kernelwheel import hooks\nhooks.build_editable(sys.argv[1])"


def make_distribution(folder: Path, part: str, more: str = "") -> Path:
    """A project with the package `acme.<part>`, and nothing that says that `acme` is a namespace."""
    text = (HEAD + more + TABLE).replace("light-weight", f"acme-{part}").replace("light._C", f"acme.{part}._C")
    files = {name.replace("light/", f"acme/{part}/"): content for name, content in LIGHT.items()}
    files[f"acme/{part}/__init__.py"] = "from ._C import answer\n"
    return make_package(folder, files, pyproject=text.replace("42", str(ANSWERS[part])))


@pytest.fixture(scope="module")
def wheels(build_root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Wheel]:
    """One that leaves its home to be found, and one that names it."""
    folder = tmp_path_factory.mktemp("acme")
    named = '\n[tool.kernelwheel]\npackage = "acme.mesh"\n'
    projects = {part: make_distribution(folder / part, part, named if part == "mesh" else "") for part in ANSWERS}
    return {
        part: build(project, build_root / f"acme-{part}", env={"PYTHONPATH": str(BACKEND)})
        for part, project in projects.items()
    }


@pytest.fixture
def site(wheels: dict[str, Wheel], tmp_path: Path) -> Path:
    for wheel in wheels.values():
        shutil.copytree(wheel.unpacked, tmp_path / "site", dirs_exist_ok=True)
    return tmp_path / "site"


BOTH = "import acme.ops, acme.mesh\nprint(acme.ops.answer(), acme.mesh.answer())"


def python(*words: str | Path, site: Path, env: dict[str, str] | None = None, **options: Any) -> Done:
    own = {"PYTHONPATH": str(site), "PYTHONSAFEPATH": "1", **(env or {})}
    return run([sys.executable, *words], cwd=site, env=own, **options)


@pytest.mark.minutes
@pytest.mark.slow
def test_both_are_installed_side_by_side(wheels: dict[str, Wheel], site: Path) -> None:
    ops, mesh = (set(contents(wheel.unpacked)) - {"acme"} for wheel in wheels.values())

    assert {name for name in ops & mesh if not name.startswith("acme/")} == set()
    assert python("-c", BOTH, site=site).stdout == "1 2\n"


@pytest.mark.minutes
@pytest.mark.slow
def test_each_has_its_own_commands(site: Path) -> None:
    """Also where its import constructs no `Kernels`: two distributions have files of `acme`."""
    (site / "acme/ops/__init__.py").write_text("")
    done = python("-m", "acme.ops._kernelwheel", "doctor", site=site, check=False)

    assert f"acme.ops 1.0: {site}/acme/ops/_native" in done.stdout.replace("\n", " ")
    assert "findings" in done.stdout
    assert "another distribution" not in done.stdout
    assert "more than once" not in done.stdout


@pytest.mark.minutes
@pytest.mark.slow
def test_each_has_its_own_store_which_an_exported_file_gets_into(site: Path, tmp_path: Path) -> None:
    """A compile at run time, as where the wheel does not fit."""
    env = {"ACME_OPS_CACHE_DIR": str(tmp_path / "cache"), "ACME_OPS_JIT": "always", "ACME_MESH_JIT": "never"}
    said = python("-c", BOTH, site=site, env=env)
    assert (said.stdout, "compiling acme.ops 1.0" in said.stderr) == ("1 2\n", True)

    file = tmp_path / "kernels.zip"
    commands = ("-m", "acme.ops._kernelwheel", "cache")
    python(*commands, "export", file, site=site, env=env)
    env["ACME_OPS_CACHE_DIR"] = str(tmp_path / "other")
    python(*commands, "import", file, site=site, env=env)

    (entry,) = (tmp_path / "other/acme.ops/1.0").glob("[0-9a-f]*/manifest.json")
    assert json.loads(entry.read_text())["package"] == "acme.ops"


@pytest.mark.minutes
@pytest.mark.slow
def test_an_editable_install_of_one_goes_beside_the_other(wheels: dict[str, Wheel], tmp_path: Path) -> None:
    checkout = make_distribution(tmp_path / "checkout", "ops")
    packed = tmp_path / "packed"
    packed.mkdir()
    run([sys.executable, "-c", EDITABLE, packed], cwd=checkout, env={"PYTHONPATH": str(BACKEND)})
    site = Path(shutil.copytree(wheels["mesh"].unpacked, tmp_path / "site"))
    (wheel,) = packed.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(site)

    script = f"import site\nsite.addsitedir({str(site)!r})\n{BOTH}\nprint(acme.ops._kernelwheel.__file__)"
    said = run([sys.executable, "-c", script], cwd=tmp_path, env={"ACME_OPS_CACHE_DIR": str(tmp_path / "cache")})

    assert said.stdout == f"1 2\n{site}/_acme__ops_kernelwheel/__init__.py\n"


# Which package is the home


@pytest.mark.parametrize(
    ("files", "names", "home"),
    [
        (["src/acme/ops/__init__.py"], ["acme.ops._C", "acme.ops.sub._D", "_top"], "acme.ops"),
        (["acme/__init__.py", "acme/ops/__init__.py"], ["acme.ops._C"], "acme"),
        (["acme/ops/code.py"], ["acme.ops._C"], "acme.ops"),
        (["lib/ops/__init__.py"], ["acme.ops._C"], "acme"),
    ],
)
def test_the_home_is_the_outermost_package_that_no_other_distribution_has_files_of(
    tmp_path: Path, files: list[str], names: list[str], home: str
) -> None:
    assert read_project(make_project(tmp_path, files, names))[0].import_name == home


def test_where_the_extensions_have_none_in_common_it_has_to_be_named(tmp_path: Path) -> None:
    project = make_project(tmp_path, ["acme/ops/__init__.py", "acme/mesh/__init__.py"], ["acme.ops._C", "acme.mesh._C"])

    with pytest.raises(SettingsError) as caught:
        read_project(project)

    assert "such as acme.ops" in caught.value.required
    assert "acme.ops._C, acme.mesh._C" in caught.value.found
    assert caught.value.remedies == ("set package in [tool.kernelwheel] of pyproject.toml",)


def test_a_namespace_package_is_refused_as_a_home(tmp_path: Path) -> None:
    """Two distributions that both said so would overwrite each other's kernels."""
    named = '\n[tool.kernelwheel]\npackage = "acme"\n'

    with pytest.raises(SettingsError, match="namespace package") as caught:
        read_project(make_distribution(tmp_path, "ops", named))

    assert "such as acme.ops" in caught.value.required


@pytest.mark.parametrize("name", ["acme..ops", "../acme", "acme.2"])
def test_a_home_is_a_dotted_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.kernelwheel]\npackage = "{name}"\nsources = "csrc"\n')

    with pytest.raises(SettingsError, match="package is missing or malformed"):
        read_project(tmp_path)


def make_project(folder: Path, files: list[str], names: list[str]) -> Path:
    tables = "".join(f'[[tool.kernelwheel.extension]]\nname = "{name}"\nsources = ["a.cpp"]\n' for name in names)
    return make_package(folder, {**dict.fromkeys(files, ""), "pyproject.toml": HEAD + tables})
