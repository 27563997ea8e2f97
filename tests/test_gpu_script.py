"""ci/gpu without a GPU: what must not be found out in the first minutes on a machine that has one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = ["test_cuda", "test_rasterization", "test_gradients", "test_gradients_projection"]
STEPS = ["doctor", *FILES, "memcheck", "benchmark"]

pytestmark = pytest.mark.once


def gpu(*arguments: str | Path, steps: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHON": sys.executable, "SPLAT_GPU_STEPS": steps}
    return subprocess.run([ROOT / "ci" / "gpu", *arguments], env=env, capture_output=True, text=True, check=False)


def test_a_dry_run_goes_through_every_step_and_goes_on_where_it_was(splat_wheel: Path, tmp_path: Path) -> None:
    arguments = ("--dry-run", "--out", tmp_path / "out", splat_wheel, "--", "--collect-only")
    first = gpu(*arguments)

    assert first.returncode == 0, first.stdout + first.stderr
    assert "a dry run, on the CPU" in first.stdout
    assert sorted(path.stem for path in (tmp_path / "out").glob("*.passed")) == sorted(STEPS)
    rows = [json.loads(line) for line in (tmp_path / "out" / "benchmark.jsonl").read_text().splitlines()]
    assert [row[:2] for row in rows] == [["10000, 320x180", "forward"], ["10000, 320x180", "forward + backward"]]
    assert "test_cuda.py" in (tmp_path / "out" / "test_cuda.txt").read_text()

    (tmp_path / "out" / "benchmark.passed").unlink()
    again = gpu(*arguments)

    assert again.returncode == 0, again.stdout + again.stderr
    assert [step for step in STEPS if f"== {step}: passed before" in again.stdout] == STEPS[:-1]
    assert rows == [json.loads(line) for line in (tmp_path / "out" / "benchmark.jsonl").read_text().splitlines()]
    assert rows[1][2] in again.stdout  # printed, not measured again


def test_a_step_that_fails_is_named_and_the_others_are_run(splat_wheel: Path, tmp_path: Path) -> None:
    arguments = ("--dry-run", "--out", tmp_path / "out", splat_wheel, "--", "--no-such-option")
    done = gpu(*arguments, steps="doctor test_cuda memcheck")

    assert done.returncode == 1
    assert "== failed: test_cuda; the output" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").glob("*.passed")) == ["doctor.passed", "memcheck.passed"]


@pytest.mark.slow
def test_without_a_gpu_it_says_so_at_once(tmp_path: Path) -> None:
    (tmp_path / "any.whl").touch()

    done = gpu(tmp_path / "any.whl")

    assert done.returncode == 1
    assert "required: a GPU" in done.stderr
    assert "--dry-run" in done.stderr


def test_no_wheel_is_wrong_usage(tmp_path: Path) -> None:
    done = gpu("--dry-run")

    assert done.returncode == 2
    assert "usage: ci/gpu" in done.stderr
