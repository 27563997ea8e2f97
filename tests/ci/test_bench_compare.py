"""ci/bench compare: what changed between two results, and results that cannot be compared."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from folders import REPOSITORY

BENCH = REPOSITORY / "ci" / "bench"

pytestmark = [pytest.mark.slow]


def results(file: Path, machine: str, seconds: str) -> Path:
    lines = [
        {"measured": {"machine": machine, "commit": "1a2b3c4"}},
        {"header": ["cold", "wall s", "CPU s"], "rows": [["splat", seconds, "38.0"], ["ratio", "0.070", "0.060"]]},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def compare(old: Path, new: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BENCH, "compare", old, new], capture_output=True, text=True, check=False)


def test_every_number_that_both_have_is_shown_with_its_ratio(tmp_path: Path) -> None:
    done = compare(results(tmp_path / "old", "a", "40.0"), results(tmp_path / "new", "a", "20.0"))

    assert done.returncode == 0, done.stderr
    assert "old: machine a, commit 1a2b3c4" in done.stdout
    assert "        40         20   0.50  splat: wall s" in done.stdout
    assert "        38         38   1.00  splat: CPU s" in done.stdout
    assert "two machines" not in done.stdout


def test_two_machines_are_said(tmp_path: Path) -> None:
    assert "two machines" in compare(results(tmp_path / "old", "a", "1"), results(tmp_path / "new", "b", "1")).stdout


@pytest.mark.parametrize("text", ["", "{}", "no JSON"])
def test_what_is_no_result_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text(text)

    done = compare(results(tmp_path / "old", "a", "1"), tmp_path / "other")

    assert done.returncode == 2
    assert done.stderr.startswith("required: two files that ci/bench wrote")
    assert "Traceback" not in done.stderr
