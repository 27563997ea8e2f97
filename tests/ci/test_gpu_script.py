"""ci/gpu without a GPU: what must not be found out in the first minutes on a machine that has one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from folders import REPOSITORY
from gpu import Step, run_step


def gpu(*arguments: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHON": sys.executable, **env}
    return subprocess.run([REPOSITORY / "ci" / "gpu", *arguments], env=env, capture_output=True, text=True, check=False)


def run(tmp_path: Path, script: str, seconds: int = 60) -> str:
    return run_step(Step("some", "a step", seconds), ["sh", "-c", script], os.environ, tmp_path, tmp_path)


def test_a_step_passes_fails_or_is_skipped_and_its_output_is_kept(tmp_path: Path) -> None:
    assert run(tmp_path, "echo one; echo two >&2").startswith("passed (")
    assert (tmp_path / "some.txt").read_text() == "one\ntwo\n"
    (tmp_path / "some.jsonl").write_text('{"scene": "of another wheel"}')
    assert run(tmp_path, "exit 3").startswith("failed, exit status 3 (")
    assert not (tmp_path / "some.jsonl").exists()
    assert run(tmp_path, "echo; echo 'skipped: no ncu'; exit 77") == "skipped no ncu"


@pytest.mark.slow
def test_a_step_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    begin = time.monotonic()

    state = run(tmp_path, "sleep 60 & echo $! >child; wait", seconds=1)

    assert state.startswith("stopped (")
    assert time.monotonic() - begin < 30
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "cmdline")
    while child.exists() and child.read_bytes():  # a zombie has none
        assert time.monotonic() - begin < 30
        time.sleep(0.05)


@pytest.mark.minutes
def test_a_dry_run_does_all_steps_and_leaves_files(splat_wheel: Path, tmp_path: Path) -> None:
    arguments = ("--dry-run", "--out", tmp_path, splat_wheel, "--")

    done = gpu("--steps", "doctor,peer,tests,times,memcheck", *arguments, "--no-such-option")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "kernels by nvcc" in done.stdout
    said = [line.split()[:2] for line in done.stdout.splitlines()[-5:]]
    assert said == [
        ["doctor", "passed"], ["peer", "skipped"], ["tests", "failed,"], ["times", "passed"], ["memcheck", "skipped"],
    ]  # fmt: skip
    assert "no-such-option" in (tmp_path / "tests.txt").read_text()
    measured, *tables = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert measured["measured"]["wheel"] == splat_wheel.name
    assert [len(table["rows"]) for table in tables] == [8]

    done = gpu("--steps", "tests", *arguments, "--collect-only")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_cuda.py::" in done.stdout


@pytest.mark.slow
def test_without_a_gpu_it_says_so_at_once(tmp_path: Path) -> None:
    (tmp_path / "any.whl").touch()

    done = gpu(tmp_path / "any.whl")

    assert done.returncode == 2
    assert "required: a GPU" in done.stderr
    assert "--dry-run" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--dry-run"], ["--steps", "tset", __file__]])
def test_wrong_usage(arguments: list[str]) -> None:
    done = gpu(*arguments)

    assert done.returncode == 2
    assert "usage: ci/gpu" in done.stderr
