"""`splat doctor`, and what kernelwheel's `inspect` says of splat's wheel; their exit status."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from command_runs import run
from kernelwheel.__main__ import main

pytestmark = pytest.mark.both


def test_doctor_is_one_page_about_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "doctor")
    assert status == 0
    assert f"torch     {torch.__version__}" in out
    assert "verdict: fits this machine" in out
    assert out.count("\n") < 50


def test_doctor_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "doctor", "--json")
    view = json.loads(out)
    assert status == 0
    assert view["host"]["torch"] == torch.__version__
    assert view["verdict"] == []
    assert {call["device"] for call in view["next"]} == {"cpu", "cuda"}
    assert view["manifest"]["package"] == "splat"


def test_inspect_says_what_a_wheel_holds(capsys: pytest.CaptureFixture[str], splat_wheel: Path) -> None:
    assert main(["inspect", str(splat_wheel)]) == 0
    out = capsys.readouterr().out
    assert splat_wheel.name in out
    assert "SASS 7.5 8.0 9.0 10.0 11.0 12.0; PTX 12.0" in out
    assert "verdict: fits this machine" in out


def test_inspect_json_is_the_wheel_s_own_manifest(capsys: pytest.CaptureFixture[str], splat_wheel: Path) -> None:
    status = main(["inspect", str(splat_wheel), "--json"])
    view = json.loads(capsys.readouterr().out)
    with ZipFile(splat_wheel) as archive:
        assert view["manifest"] == json.loads(archive.read("splat/_native/manifest.json"))
    assert (status, view["damage"], view["verdict"]) == (0, [], [])


def test_inspect_finds_a_library_that_was_changed(
    capsys: pytest.CaptureFixture[str],
    splat_wheel: Path,
    tmp_path: Path,
) -> None:
    changed = tmp_path / splat_wheel.name
    with ZipFile(splat_wheel) as archive, ZipFile(changed, "w") as target:
        for name in archive.namelist():
            data = archive.read(name)
            target.writestr(name, data[:-1] + bytes([data[-1] ^ 1]) if name.endswith("libsplat_cpu.so") else data)
    assert main(["inspect", str(changed)]) == 1
    assert "damaged: libsplat_cpu.so: its sha256 does not match the manifest" in capsys.readouterr().out


def test_inspect_of_a_file_that_is_no_wheel_is_a_finding(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"not a zip")
    assert main(["inspect", str(tmp_path / "x.whl")]) == 1
    err = capsys.readouterr().err
    assert "x.whl does not contain compiled kernels" in err
    assert "to fix" in err


def test_inspect_of_a_wheel_without_kernels_is_a_finding(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    with ZipFile(tmp_path / "pure.whl", "w") as archive:
        archive.writestr("splat/__init__.py", "")
    assert main(["inspect", str(tmp_path / "pure.whl")]) == 1
    assert "0 files */_native/manifest.json" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["nonsense"], [], ["doctor", "--x"]])
def test_wrong_usage_has_exit_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert "usage:" in err
