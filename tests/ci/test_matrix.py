"""ci/matrix: which pairs it tries, what it makes of their outcomes, and that nothing untried looks good."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from zipfile import ZipFile

import matrix
import matrix_arm
import matrix_environment
import pytest
from matrix_environment import Workplace, pythons_at_hand, try_pair
from matrix_rows import Pair, Row, compare, ends, newest_patches, pairs_of

HOST_PLATFORM = platform.python_version()
GOOD = Row("3.10.13", "2.10.0", "12.8", "passed", image="a", gradients={"means": "b", "quats": "c"})


# The pairs


def test_the_newest_patch_of_each_minor_release_is_tried_and_cpu_builds_apart() -> None:
    versions = ["2.14.1", "2.14.0", "2.13.0+cpu", "2.13.0", "2.13.0+rocm7.0", "2.10.0", "2.9.1", "2.15.0rc1"]

    assert newest_patches(versions) == {
        ((2, 10), False): "2.10.0",
        ((2, 13), False): "2.13.0",
        ((2, 13), True): "2.13.0+cpu",
        ((2, 14), False): "2.14.1",
    }


def test_a_pair_that_no_index_has_is_there_and_says_so() -> None:
    pairs = pairs_of({"3.10.13": ["2.10.0"], "3.9.18": [], "3.11.7": ["2.10.0", "2.15.0", "2.13.0+cpu"]})

    assert pairs == [
        Pair("3.9.18", "2.10", offered=False),
        Pair("3.10.13", "2.10.0"),
        Pair("3.11.7", "2.10.0"),
        Pair("3.9.18", "2.13+cpu", offered=False),
        Pair("3.10.13", "2.13+cpu", offered=False),
        Pair("3.11.7", "2.13.0+cpu"),
        Pair("3.9.18", "2.15", offered=False),
        Pair("3.10.13", "2.15", offered=False),
        Pair("3.11.7", "2.15.0"),
    ]


def test_the_ends_are_the_oldest_and_the_newest_with_what_comes_next() -> None:
    pairs = pairs_of(
        {"3.10.13": ["2.10.0", "2.11.0"], "3.9.1": ["2.10.0"], "3.13.0": ["2.10.0", "2.15.0+cpu", "2.15.0"]}
    )

    oldest, newest = ends(pairs)

    assert oldest[0] == Pair("3.9.1", "2.10.0")
    assert newest == [Pair("3.13.0", torch) for torch in ("2.15.0+cpu", "2.15.0")] + [
        Pair("3.13.0", "2.11", offered=False),
        Pair("3.13.0", "2.10.0"),
    ]


# The rows


def test_rows_that_agree_are_left_alone() -> None:
    rows = [GOOD, GOOD._replace(torch="2.11.0", seconds=7), Row("3.9.1", "2.10", None, "not offered")]

    assert compare(rows) == rows
    assert matrix.judge(compare(rows)) == 0


def test_a_row_that_differs_fails_and_names_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    odd = GOOD._replace(torch="2.11.0", gradients={"means": "b", "quats": "other"})
    rows = [odd, GOOD, GOOD._replace(python="3.11.7")]

    assert matrix.judge(compare(rows)) == 1

    said = "differs from Python 3.10.13 with torch 2.10.0: the gradient of quats"
    assert f"Python 3.10.13, torch 2.11.0: {said}" in capsys.readouterr().out
    assert compare(rows) == [odd._replace(outcome="failed", said=said), *rows[1:]]


@pytest.mark.parametrize("missing", [{"image": "other"}, {"gradients": {"means": "b"}}, {"gradients": {}}])
def test_of_two_rows_that_differ_the_second_fails(missing: dict[str, object]) -> None:
    assert [row.outcome for row in compare([GOOD, GOOD._replace(**missing)])] == ["passed", "failed"]


@pytest.mark.parametrize("outcome", ["failed", "no room"])
def test_one_row_that_was_not_tried_is_not_good(outcome: str) -> None:
    assert matrix.judge([GOOD, Row("3.11.7", "2.10.0", None, outcome)]) == 1


@pytest.mark.parametrize("rows", [[], [Row("3.11.7", "2.10.0", None, "not offered")]])
def test_nothing_tried_is_not_good(rows: list[Row]) -> None:
    assert matrix.judge(rows) == 1


# Going on


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A place for environments, which need no room: what is installed into them here is a few kilobytes."""
    for module, name in ((matrix_environment, "ROOM"), (matrix_environment, "ROOM_CPU"), (matrix_arm, "ROOM")):
        monkeypatch.setattr(module, name, 0)
    wheel = tmp_path / "splat_kernels-1-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    return Workplace(tmp_path, wheel)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[Pair]:
    """Pairs that were tried, of two Pythons and two releases of torch, of which one excludes itself."""
    found: list[Pair] = []

    def try_pair(pair: Pair, python: Path, place: Workplace) -> Row:
        found.append(pair)
        outcome = "not offered" if pair.torch == "2.15.0" else "passed"
        return GOOD._replace(python=pair.python, torch=pair.torch, outcome=outcome)

    monkeypatch.setattr(matrix, "try_pair", try_pair)
    monkeypatch.setattr(matrix, "pythons_at_hand", lambda environ: {"3.10.13": Path("a"), "3.13.0": Path("b")})
    monkeypatch.setattr(matrix, "offered_torches", lambda python: ["2.10.0", "2.14.1", "2.15.0"])
    return found


def run_main(place: Workplace, *arguments: str) -> int:
    out = place.folder / "results.json"
    return matrix.main(["--folder", str(place.folder), "--wheel", str(place.wheel), "--out", str(out), *arguments])


def results_of(place: Workplace) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((place.folder / "results.json").read_text())["rows"]
    return found


def test_what_passed_is_not_tried_again(place: Workplace, tried: list[Pair]) -> None:
    assert run_main(place) == 0
    assert len(tried) == len(results_of(place)) == 6
    tried.clear()

    assert run_main(place) == 0
    assert [pair.torch for pair in tried] == ["2.15.0", "2.15.0"]
    assert len(results_of(place)) == 6


def test_the_short_form_takes_the_newest_that_pip_installs_and_keeps_the_other_rows(
    place: Workplace, tried: list[Pair]
) -> None:
    assert run_main(place, "--short") == 0
    assert tried == [Pair("3.10.13", "2.10.0"), Pair("3.13.0", "2.15.0"), Pair("3.13.0", "2.14.1")]

    run_main(place)
    run_main(place, "--short")
    assert len(results_of(place)) == 6


def test_a_difference_is_in_the_results_too(
    place: Workplace, tried: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = matrix.try_pair

    def differing(pair: Pair, python: Path, place: Workplace) -> Row:
        row: Row = whole(pair, python, place)
        return row._replace(image="other") if pair == Pair("3.13.0", "2.14.1") else row

    monkeypatch.setattr(matrix, "try_pair", differing)
    assert run_main(place) == 1
    failed = [row for row in results_of(place) if row["outcome"] == "failed"]
    assert [(row["python"], row["torch"]) for row in failed] == [("3.13.0", "2.14.1")]
    assert str(failed[0]["said"]).endswith("the picture")


@pytest.mark.parametrize("form", [[], ["--short"]])
def test_no_torch_anywhere_is_not_good(
    place: Workplace, tried: list[Pair], monkeypatch: pytest.MonkeyPatch, form: list[str]
) -> None:
    monkeypatch.setattr(matrix, "offered_torches", lambda python: [])

    assert run_main(place, *form) == 1
    assert tried == []


# Environments


def test_an_environment_is_made_only_where_there_is_room(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_environment, "ROOM", 10**9)
    monkeypatch.setattr(matrix_environment, "install", lambda *arguments: pytest.fail("installed"))

    row = try_pair(Pair(HOST_PLATFORM, "2.10.0"), Path(sys.executable), place)

    assert row.outcome == "no room"
    assert row.said.startswith("required: 1000000000 GB of disk; found: ")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which alone pip looks for wheels."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    settings = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return folder


def make_wheel(folder: Path, name: str, version: str, code: str, requires: str = "") -> Path:
    """A wheel of one module."""
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", code)
        requirement = f"Requires-Dist: {requires}\n" if requires else ""
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requirement}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def make_torch(folder: Path, version: str, requires: str = "") -> None:
    code = f"class version: cuda = '13.0'\n__version__ = '{version}'\n"
    make_wheel(folder, "torch", version, code, requires)


@pytest.mark.slow
def test_what_a_constraint_excludes_is_not_offered(
    index: Path, place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_torch(index, "2.10.0")
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("torch<2.10\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))

    row = try_pair(Pair(HOST_PLATFORM, "2.10.0"), Path(sys.executable), place)

    assert (row.outcome, row.said) == ("not offered", "excluded by a constraint of pip: torch<2.10")


@pytest.mark.slow
def test_what_does_not_work_in_an_environment_is_a_failed_row(index: Path, place: Workplace) -> None:
    make_torch(index, "2.10.0")
    code = "def build_info(): return {'damage': None, 'verdict': ['too old']}"
    wheel = make_wheel(place.folder, "splat", "1", code)

    row = try_pair(Pair(HOST_PLATFORM, "2.10.0"), Path(sys.executable), Workplace(place.folder, wheel))

    assert row.outcome == "failed"
    assert row.said.startswith("AssertionError: ['too old']")
    assert "verdict" not in row.steps
    assert not (place.folder / "environment").exists()


@pytest.mark.slow
def test_a_python_that_does_not_run_is_not_at_hand(tmp_path: Path) -> None:
    def write(path: str, script: str) -> None:
        program = tmp_path / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    write("bin/python3.10", "echo 3.10.99; exit 127")  # a shim without its Python
    write("bin/python3.11", "echo 3.11.2")
    write("bin/python3.12", "echo 3.12.4")
    write("bin/python3.13", "")  # without the GIL
    write("bin/pyenv", f"echo '{tmp_path}/root'")
    write("root/versions/2.7.18/bin/python3", "echo 2.7.18")
    write("root/versions/3.10.13/bin/python3", "echo 3.10.13")
    write("root/versions/3.11.7/bin/python3", "echo 3.11.7")
    write("root/versions/3.12.1/bin/python3", "echo 3.12.1")

    found = pythons_at_hand({"PATH": str(tmp_path / "bin")})

    versions = tmp_path / "root" / "versions"
    assert found == {
        "3.10.13": versions / "3.10.13/bin/python3",
        "3.11.7": versions / "3.11.7/bin/python3",
        "3.12.4": tmp_path / "bin" / "python3.12",
    }
