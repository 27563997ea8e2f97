"""The PEP 517 and PEP 660 hooks, called as a front end calls them: in the checkout, in a separate process."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile

import pytest
from builds import Wheel, contents
from packaging.requirements import Requirement
from processes import RunPython
from standins import make_program, make_torch

Checkout = Callable[[], Path]
HOOK = """
import sys
sys.path.insert(0, "backend")
sys.dont_write_bytecode = True
from kernelwheel import hooks
name, *arguments = sys.argv[1:]
result = getattr(hooks, name)(*arguments)
assert "torch" not in sys.modules
print("RESULT", result)
"""


def result_of(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.rpartition("RESULT ")[2].strip()


HOOKS = [
    "prepare_metadata_for_build_wheel", "prepare_metadata_for_build_editable", "get_requires_for_build_wheel",
    "get_requires_for_build_editable", "get_requires_for_build_sdist", "build_sdist", "build_editable",
]  # fmt: skip


@pytest.mark.parametrize("hook", ["get_requires_for_build_sdist", "build_wheel"])
def test_an_error_of_every_hook_is_its_message(
    checkout: Checkout, tmp_path: Path, run_python: RunPython, hook: str
) -> None:
    asked = HOOK.replace("(*arguments)", '(*arguments, config_settings={"cudda": "on"})')
    arguments = [] if hook.startswith("get_requires") else [str(tmp_path)]

    done = run_python(asked, hook, *arguments, cwd=checkout(), check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("kernelwheel.runtime.errors.SettingsError: unknown option 'cudda'")


def test_a_time_that_says_nothing_is_the_default(checkout: Checkout, tmp_path: Path, run_python: RunPython) -> None:
    run_python(HOOK, "build_editable", str(tmp_path), cwd=checkout(), env={"SOURCE_DATE_EPOCH": " "})

    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        assert {member.date_time[0] for member in archive.infolist()} == {1980}


EVERY_HOOK = """
import os, sys
sys.path.insert(0, "backend")
sys.dont_write_bytecode = True
from kernelwheel import hooks
from kernelwheel.runtime.errors import KernelWheelError
_, out, *names = sys.argv
for name in names:
    if child := os.fork():  # each in a process of its own, as front ends do
        assert os.waitpid(child, 0)[1] == 0, name
        continue
    try:
        getattr(hooks, name)(*([] if name.startswith("get_") else [out]), {CONFIG})
    except KernelWheelError:  # build_wheel: nothing compiles here, and setuptools is done by then
        assert name == "build_wheel"
    assert "torch" not in sys.modules
    sys.exit()
"""


SETUP = """
import json, os
from setuptools import setup
with open(os.environ["SEEN"], "a") as file:
    print(json.dumps({name: os.environ[name] for name in os.environ if name != "DIST_EXTRA_CONFIG"}), file=file)
setup(packages=["tiny"])
"""


@pytest.mark.parametrize(
    ("variable", "option", "read"),
    [
        pytest.param(None, {}, None, marks=pytest.mark.minutes),
        pytest.param(" ", {}, None, marks=pytest.mark.minutes),
        # No zip file can store it, and yet a version may have it.
        pytest.param("1", {}, "1", marks=pytest.mark.minutes),
        (None, {"source-date-epoch": "1600000000"}, "1600000000"),
    ],
)
def test_a_setup_script_reads_the_same_in_every_hook_and_the_caller_s_own_date(
    checkout: Checkout, tmp_path: Path, run_python: RunPython, variable: str | None, option: dict[str, str], read: str
) -> None:
    """Or a version with a date in it (setuptools-scm, of a modified checkout) is one in the metadata, another in the
    wheel's name. No hook but the build looks for torch or a compiler, or leaves anything in the checkout: importing
    torch fails here, and PATH has no programs.
    """
    folder, seen = checkout(), tmp_path / "seen"
    (folder / "setup.py").write_text(SETUP)
    make_torch(tmp_path / "site")
    (tmp_path / "torch-free").mkdir()
    before = contents(folder)
    hooks = ["prepare_metadata_for_build_wheel"] if option else HOOKS  # the two that make a name of it
    env = {"SEEN": str(seen), "SOURCE_DATE_EPOCH": variable, "CXX": "/none", "TINY_CUDA": "off"}
    env["PATH"] = str(tmp_path / "torch-free")

    script = EVERY_HOOK.replace("{CONFIG}", repr(option))
    run_python(script, str(tmp_path), *hooks, "build_wheel", cwd=folder, path=[tmp_path / "site"], env=env)

    environments = [json.loads(line) for line in seen.read_text().splitlines()]
    assert sorted(contents(folder)) == sorted(before)
    assert len(environments) > len(hooks)
    assert [each for each in environments if each != environments[0]] == []
    assert environments[0].get("SOURCE_DATE_EPOCH") == read


def test_the_wheel_s_metadata_is_what_was_prepared_and_its_licence_files_are_there(
    checkout: Checkout, tmp_path: Path, run_python: RunPython, cpu_wheel: Wheel
) -> None:
    """PEP 517, build_wheel; PEP 639, License-File: one name, because nobody knows the toolkit before the build."""
    done = run_python(HOOK, "prepare_metadata_for_build_wheel", str(tmp_path), cwd=checkout())
    prepared = (tmp_path / result_of(done) / "METADATA").read_text()
    (folder,) = cpu_wheel.unpacked.glob("*.dist-info")

    assert (folder / "METADATA").read_text() == prepared
    declared = HeaderParser().parsestr(prepared).get_all("License-File", [])
    assert declared == ["compiled-in/LICENSES.txt"]
    assert [name for name in declared if not (folder / "licenses" / name).is_file()] == []


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_what_the_table_requires_is_in_the_metadata_beside_what_setup_py_does(
    checkout: Checkout, tmp_path: Path, run_python: RunPython, kind: str
) -> None:
    folder = checkout()
    head = (folder / "pyproject.toml").read_text().replace("\ndependencies = [", '\ndynamic = ["dependencies"]\n#')
    (folder / "pyproject.toml").write_text(f'{head}dependencies = ["idna >= 3"]\n')
    more = "packages=['tiny'], install_requires=['filelock']"
    (folder / "setup.py").write_text(f"from setuptools import setup\nsetup({more})\n")

    done = run_python(HOOK, f"prepare_metadata_for_build_{kind}", str(tmp_path), cwd=folder)

    prepared = HeaderParser().parsestr((tmp_path / result_of(done) / "METADATA").read_text())
    assert prepared.get_all("Requires-Dist") == ["filelock", "idna>=3"]


@pytest.mark.parametrize(("cmake", "ninja", "asked"), [("4.1.0", None, {"ninja"}), ("3.16.0", "1.12.1", {"cmake"})])
def test_cmake_and_ninja_are_asked_for_where_there_are_none_that_are_new_enough(
    checkout: Checkout, tmp_path: Path, run_python: RunPython, cmake: str, ninja: str | None, asked: set[str]
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    capabilities = json.dumps({"version": {"string": cmake}})
    make_program(programs / "cmake", f"case \"$1\" in -E) echo '{capabilities}';; *) echo cmake version {cmake};; esac")
    if ninja:
        make_program(programs / "ninja", f"echo {ninja}")

    hidden = 'import sys\nsys.modules["cmake"] = sys.modules["ninja"] = None  # as if not installed from PyPI\n'
    done = run_python(hidden + HOOK, "get_requires_for_build_wheel", cwd=checkout(), env={"PATH": str(programs)})

    required = {Requirement(text).name for text in ast.literal_eval(result_of(done))}
    assert required & {"cmake", "ninja"} == asked
    assert "torch" not in required


def test_an_editable_install_does_not_take_options_that_it_would_forget(
    checkout: Checkout, tmp_path: Path, run_python: RunPython
) -> None:
    asked = HOOK.replace("(*arguments)", '(*arguments, config_settings={"cuda": "off", "cxx-flags": "-g"})')

    said = run_python(asked, "build_editable", str(tmp_path), cwd=checkout(), check=False).stderr

    assert "-C cuda, -C cxx-flags" in said
    assert "set TINY_CUDA, CXXFLAGS" in said
    assert list(tmp_path.glob("*.whl")) == []


def test_an_sdist_has_the_same_bytes_whatever_the_builder_s_umask_and_clock(
    checkout: Checkout, tmp_path: Path, run_python: RunPython
) -> None:
    made = []
    for name, (mode, clock, umask) in {"one": (0o644, 1e9, 0o022), "other": (0o640, 1.5e9 + 0.25, 0o077)}.items():
        folder = checkout()
        for path in folder.rglob("*"):
            path.chmod(mode | 0o111 if path.is_dir() or path.name == "setup.py" else mode)
            os.utime(path, (clock, clock))
        (tmp_path / name).mkdir()
        done = run_python(f"import os; os.umask({umask}){HOOK}", "build_sdist", str(tmp_path / name), cwd=folder)
        made.append(tmp_path / name / result_of(done))

    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as archive:
        members = archive.getmembers()
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}
    assert {member.mode for member in members if member.name.endswith(".cpp")} == {0o644}
