"""The conversation with the compiler: whatever it does, the program that asks gets an answer or an error."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from kernelwheel.compiler import tools
from kernelwheel.runtime import compiler_process
from kernelwheel.runtime.errors import BuildError, SettingsError
from processes import run
from standins import make_program

pytestmark = [pytest.mark.slow]

QUESTION: dict[str, Any] = {"dry-run": {"requests": [], "machine": None}}


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Send a message to a program that stands for the compiler; returns the answer and what was said."""

    def run(program: str, message: Any = "hello") -> tuple[Any, list[str]]:
        (tmp_path / "program.py").write_text(f"import json, os, sys, time\n{program}\n")
        monkeypatch.setattr(compiler_process, "program", lambda: tmp_path / "program.py")
        said: list[str] = []
        return compiler_process.send({"message": message}, said.append, {}), said

    return run


def test_its_progress_is_said_and_its_answer_returned(ask: Any) -> None:
    program = """
print(json.dumps({"say": "begun"}))
print("a warning of some library")
print(json.dumps({"answer": json.loads(sys.stdin.readline())["message"]}))
"""
    assert ask(program, ["Ä", 1]) == (["Ä", 1], ["begun"])


def test_its_error_is_raised_as_what_it_is(ask: Any) -> None:
    error = SettingsError("not so", required="this", found="that", remedies=["do it"])

    with pytest.raises(SettingsError) as caught:
        ask(f"print({json.dumps({'error': error.to_json()})!r})")

    assert str(caught.value) == str(error)


@pytest.mark.parametrize(
    ("ending", "said"), [("sys.exit(3)", "exit status 3"), ("os.kill(os.getpid(), 9)", "signal 9")]
)
def test_an_end_without_an_answer_is_an_error_with_its_last_words(ask: Any, ending: str, said: str) -> None:
    with pytest.raises(BuildError, match="ended without an answer") as caught:
        ask(f"print('line', end='', flush=True)\nprint(' of its own', flush=True)\n{ending}")

    assert caught.value.found == f"{said}\nline of its own"
    assert "MAX_JOBS=1" in caught.value.remedies[0]


def test_an_end_before_it_has_read_its_message_is_the_same_error(ask: Any) -> None:
    """The message is longer than a pipe holds."""
    with pytest.raises(BuildError, match="ended without an answer") as caught:
        ask("print('too early', flush=True); os._exit(1)", "x" * (1 << 20))

    assert caught.value.found == "exit status 1\ntoo early"


@pytest.mark.parametrize("executable", [None, "/nowhere/python3"])
def test_without_a_python_to_run_it_is_an_error(
    ask: Any, monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    """As in a program that embeds Python."""
    monkeypatch.setattr(sys, "executable", executable)

    with pytest.raises(BuildError, match="cannot be started") as caught:
        ask("")

    assert "sys.executable" in caught.value.required + caught.value.found


def test_a_frozen_program_is_not_run_as_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyInstaller's `sys.executable` is the program itself, which would ask for the same and wait for itself."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)

    with pytest.raises(BuildError, match="this program is frozen"):
        compiler_process.send(QUESTION, print, {})


def test_a_folder_of_modules_with_a_colon_in_its_name_is_not_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second would be relative: whoever owns the current folder would have their code run."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "platform.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [f"{tmp_path}/nowhere:elsewhere", *sys.path])

    assert compiler_process.send(QUESTION, print, {}) == {"plans": [], "toolchain": None}
    assert not (tmp_path / "ran").exists()


def test_the_options_of_the_python_that_asks_are_passed_on(tmp_path: Path) -> None:
    """A Python that is to take nothing from its environment starts a compiler that does not either; with -S, that one
    finds packages only in the folders that it is told.
    """
    (tmp_path / "sitecustomize.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    backend = str(Path(compiler_process.__file__).parents[2])
    script = f"import sys; sys.path.insert(0, {backend!r})\n"
    script += "from kernelwheel.runtime import compiler_process\n"
    script += f"print(compiler_process.send({QUESTION!r}, print, {{}}))\n"

    for options, ran in ((["-I"], False), (["-E"], False), (["-S"], False), ([], True)):
        command = [sys.executable, *options, "-c", script]
        done = run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
        assert done.stdout == "{'plans': [], 'toolchain': None}\n"
        assert (tmp_path / "ran").exists() is ran


def test_a_cmake_that_fails_is_said_with_what_it_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_program(tmp_path / "cmake", "echo 'SRE module mismatch'; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("scikit_build_core.program_search.best_program", lambda *_, **__: None)

    assert tools.find_tools()["cmake"] == f"missing: >=3.24 ({tmp_path}/cmake --version: SRE module mismatch)"
