"""ci/gpu without a GPU: what must not be found out in the first minutes on a machine that has one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.once


def gpu(*arguments: str | Path, steps: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHON": sys.executable, "SPLAT_GPU_STEPS": steps, **env}
    return subprocess.run([ROOT / "ci" / "gpu", *arguments], env=env, capture_output=True, text=True, check=False)


def test_a_dry_run_says_what_may_take_how_long_and_leaves_one_file(splat_wheel: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("--dry-run", "--minutes", "9", "--state", tmp_path / "state", "--out", out, splat_wheel, "--")

    first = gpu(*arguments, "--no-such-option", steps="doctor tests")

    assert first.returncode == 1, first.stdout + first.stderr
    assert "tests        150 s  the tests of CUDA" in first.stdout
    assert f"comes back: {out}/gpu-results.tar.gz, one file below 16 MiB" in first.stdout
    assert "kernels by nvcc" in first.stdout
    assert "\nfailed: tests\n" in first.stdout

    # The same command goes on; what failed is tried again, after the others.
    done = gpu(*arguments, "--collect-only", steps="doctor peer tests times memcheck")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "command 1 of 9 minutes, at the slowest: doctor, peer, tests, times" in done.stdout
    began = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("== ")]
    assert began == ["peer:", "times:", "memcheck:", "tests:"]
    assert [path.name for path in out.iterdir()] == ["gpu-results.tar.gz"]
    found = members(out / "gpu-results.tar.gz")
    states = {name: outcome["state"] for name, outcome in json.loads(found["steps.json"])["outcomes"].items()}
    ran = dict.fromkeys(["doctor", "tests", "times"], "passed")
    assert states == ran | dict.fromkeys(["peer", "memcheck"], "skipped")
    assert "test_cuda.py::" in found["tests.txt"]
    assert len(found["times.jsonl"].splitlines()) == 8
    measured, *tables = map(json.loads, found["results.jsonl"].splitlines())
    assert measured["measured"]["wheel"] == splat_wheel.name
    assert [len(table["rows"]) for table in tables] == [8]


def members(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        return {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]


@pytest.mark.slow
def test_without_a_gpu_it_says_so_at_once(tmp_path: Path) -> None:
    (tmp_path / "any.whl").touch()

    done = gpu(tmp_path / "any.whl")

    assert done.returncode == 2
    assert "required: a GPU" in done.stderr
    assert "--dry-run" in done.stderr


@pytest.mark.slow
def test_without_scenes_nothing_is_packed(tmp_path: Path) -> None:
    (tmp_path / "any.whl").touch()
    script = f"import sys; sys.argv[1:] = {['--pack', str(tmp_path / 'pack'), str(tmp_path / 'any.whl')]!r}"
    script += (
        f"; sys.path.insert(0, {str(ROOT / 'ci')!r}); import gpu, pathlib; gpu.ROOT = pathlib.Path({str(tmp_path)!r})"
    )
    env = os.environ | {"SPLAT_TEST_SCENES": str(tmp_path)}
    program = [sys.executable, "-c", script + "; sys.exit(gpu.main(sys.argv[1:]))"]

    done = subprocess.run(program, env=env, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "required: test_garden.npz and bulba.ply" in done.stderr
    assert not (tmp_path / "pack").exists()


@pytest.mark.slow
def test_no_wheel_is_wrong_usage() -> None:
    done = gpu("--dry-run")

    assert done.returncode == 2
    assert "usage: ci/gpu" in done.stderr
