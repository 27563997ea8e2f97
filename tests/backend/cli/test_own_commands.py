"""`python -m <package>._kernelwheel` and `python -m kernelwheel`: what they print, exit statuses."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import warm_python
from builds import needs_cpu_torch
from editables import SMALL, Editable, make_editable
from folders import BACKEND
from kept import fill
from kernelwheel.runtime.errors import INSTALL_COMPILER, command
from kernelwheel.runtime.store.store import Store
from processes import Done, run
from standins import hide_packages
from wheel.wheelfile import WheelFile

pytestmark = [pytest.mark.slow, pytest.mark.once]

OWN = tuple(shlex.split(command("tiny"))[1:])
ANY = ("-m", "kernelwheel")
# As soon as kernelwheel's command is imported
SAY_AND_WAIT = """
import os, sys, time
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "kernelwheel.cli.cache_commands":
            print(os.getpid(), flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Finder)
"""


def call(user: Editable, *words: str | Path, **env: str) -> Done:
    """`python` with these arguments, where tiny and kernelwheel can be imported."""
    path = f"{user.checkout}:{BACKEND}"
    return warm_python.run(words, cwd=user.folder, env={**user.environment, "PYTHONPATH": path, **env}, check=False)


def succeed(user: Editable, *words: str | Path) -> str:
    done = call(user, *words)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def message(done: Done, status: int = 1) -> str:
    """What a command says that fails with one message."""
    assert (done.returncode, done.stdout) == (status, "")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def user(tmp_path: Path) -> Editable:
    """A user with a copy of the backend in the package, and an empty cache."""
    return make_editable(tmp_path / "user", SMALL)


@needs_cpu_torch  # the entry has CPU kernels alone
def test_the_commands_are_about_the_package(compiled: Editable) -> None:
    entries = json.loads(succeed(compiled, *OWN, "cache", "list", "--json"))["stores"][-1]["entries"]
    assert [entry["fits"] for entry in entries] == [True]

    for start, package in ((OWN, ()), (ANY, ("tiny",))):
        view = json.loads(call(compiled, *start, "doctor", *package, "--json").stdout)
        assert (view["package"], view["version"]) == ("tiny", "1.2.3")
        assert list(view["loaded"]) == (["cpu"] if start == OWN else [])  # the other one does not import the package
        assert ("stores" in view) == (start == ANY)  # what they hold is reported by kernelwheel
        assert [call["outcome"] for call in view["next"] if call["device"] == "cpu"] == ["load"]


@needs_cpu_torch  # the entry has CPU kernels alone
def test_doctor_prints_one_page_and_its_status_says_whether_something_needs_attention(compiled: Editable) -> None:
    good = call(compiled, *OWN, "doctor")
    bad = call(compiled, *OWN, "doctor", TINY_JIT="sometimes")

    assert "This machine has\n" in good.stdout
    assert (good.returncode, "\nNo findings\n" in good.stdout) == (0, True)
    assert (bad.returncode, "\nFindings\n" in bad.stdout) == (1, True)
    assert good.stdout.endswith("\n  python -m kernelwheel doctor tiny\n")
    assert good.stdout.count("\n") < 20


@pytest.mark.minutes
def test_what_doctor_advises_can_be_run(compiled: Editable) -> None:
    (entry,) = (path.parent for path in compiled.store.root.glob("*/manifest.json"))
    library = fill(Store(compiled.cache, "tiny", "1.2.2"), entry).folder / "libtiny_cpu.so"
    library.write_bytes(b"x")
    (longer,) = re.findall(r"\n  python (.*)", call(compiled, *OWN, "doctor").stdout)
    (advice,) = re.findall(r"to quarantine: python (.*)", call(compiled, *shlex.split(longer)).stdout)

    done = call(compiled, *shlex.split(advice))

    assert (done.returncode, done.stderr) == (1, "")
    assert "damaged: " in done.stdout
    assert not library.exists()


def test_without_kernelwheel_the_other_commands_say_how_to_install_it(compiled: Editable) -> None:
    words, hidden = [sys.executable, *OWN, "cache", "list"], hide_packages(compiled.folder / "hidden", "kernelwheel")
    env = {**compiled.environment, **hidden, "PYTHONPATH": f"{hidden['PYTHONPATH']}:{compiled.checkout}"}
    without = run(words, cwd=compiled.folder, env=env, check=False)
    page = run([*words[:-2], "doctor"], cwd=compiled.folder, env=env, check=False).stdout

    assert message(without).startswith("tiny: cache list is a command of kernelwheel, which is not installed\n")
    assert f"to fix:    {INSTALL_COMPILER}\n" in without.stderr
    assert page.endswith(f"\n  which needs kernelwheel: {INSTALL_COMPILER}\n")


def test_a_command_that_is_passed_on_is_interrupted_as_one_process(compiled: Editable, tmp_path: Path) -> None:
    """It has this process's number, so that whoever ends or watches this one has that one."""
    (tmp_path / "sitecustomize.py").write_text(SAY_AND_WAIT)
    environ = {**compiled.environment, "PYTHONPATH": f"{tmp_path}:{compiled.checkout}:{BACKEND}"}
    words = [sys.executable, *OWN, "cache", "list"]
    with subprocess.Popen(
        words, cwd=compiled.folder, env={**os.environ, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)

    assert (process.returncode, said) == (130, (b"", b"tiny: interrupted\n"))


def test_inspect_shows_a_wheel(user: Editable, entry: Path) -> None:
    with WheelFile(user.folder / "tiny-1.2.3-py3-none-any.whl", "w") as archive:
        for file in ("manifest.json", "libtiny_cpu.so"):
            archive.write(str(entry / file), f"tiny/_native/{file}")
    (user.folder / "tiny-1.2.3-py3-none-any.whl").rename(user.folder / "tiny.whl")

    done = call(user, *OWN, "inspect", "tiny.whl", "--json")

    view = json.loads(done.stdout)
    assert view["manifest"] == json.loads((entry / "manifest.json").read_text())
    assert (view["damage"], done.returncode) == ([], int(bool(view["verdict"])))


@pytest.mark.parametrize(
    "words",
    [OWN, (*OWN, "cache", "build", "--archs", "x"), (*ANY, "doctor"), (*ANY, "cache", "nonsense")],
    ids=" ".join,
)
def test_wrong_usage_has_exit_status_2(user: Editable, words: tuple[str, ...]) -> None:
    assert "usage: python -m " in message(call(user, *words), status=2)


def test_an_error_is_one_message(user: Editable) -> None:
    (user.folder / "x.whl").write_bytes(b"not a zip")

    for start, name in ((OWN, "tiny"), (ANY, "kernelwheel")):
        said = message(call(user, *start, "inspect", "x.whl"))
        assert said.startswith(f"{name}: x.whl does not contain compiled kernels\n  required: ")


@pytest.mark.parametrize("package", ["no_such_package", "json", ""])
def test_a_package_without_kernels_is_said(user: Editable, package: str) -> None:
    said = message(call(user, *ANY, "doctor", package))

    assert said.startswith(f"kernelwheel: the kernels of {package} are not known\n")


def test_output_that_cannot_be_written_is_one_line(user: Editable) -> None:
    words = shlex.join([sys.executable, *OWN, "cache", "path"])
    env = {**user.environment, "PYTHONUNBUFFERED": "1"}

    done = run(["sh", "-c", f"{words} > /dev/full"], cwd=user.folder, env=env, check=False)

    assert message(done) == "tiny: standard output cannot be written to: [Errno 28] No space left on device\n"


# A package that constructs no `Kernels` when it is imported


@pytest.fixture
def lazy(compiled: Editable, tmp_path: Path) -> Editable:
    """tiny, which does so at first use only."""
    checkout = tmp_path / "lazy"
    shutil.copytree(compiled.checkout, checkout, symlinks=True)
    (checkout / "tiny/__init__.py").write_text('"""Nothing yet."""\n')
    return Editable(checkout, compiled.folder)


def record(site: Path, distribution: str, version: str) -> None:
    """Record in a folder of packages that a distribution has installed a file of tiny's."""
    folder = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (folder / "RECORD").write_text("_tiny_kernelwheel.pth,,\n")


@needs_cpu_torch  # the entry has CPU kernels alone
def test_the_version_is_then_the_distribution_s(lazy: Editable) -> None:
    record(lazy.checkout, "tiny-kernels", "1.2.3")

    view = json.loads(succeed(lazy, *OWN, "cache", "list", "--json"))

    assert (view["package"], view["version"]) == ("tiny", "1.2.3")
    assert [entry["fits"] for entry in view["stores"][-1]["entries"]] == [True]


@pytest.mark.parametrize(
    ("distributions", "found"),
    [((), "no distribution that has tiny"), (("tiny", "tiny-kernels"), "tiny, tiny-kernels")],
)
def test_no_distribution_or_two_are_an_error(lazy: Editable, distributions: tuple[str, ...], found: str) -> None:
    for name in distributions:
        record(lazy.checkout, name, "1.2.3")

    said = message(call(lazy, *OWN, "cache", "list"))

    assert said.startswith("tiny: the kernels of tiny are not known\n")
    assert f"found:     {found}\n" in said
