"""The comparison of two wheels: what differs is named, by member, section and symbol."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest
from kernelwheel.__main__ import main
from kernelwheel.core.errors import IncompatibleArtifactError
from kernelwheel.packing.comparison import compare


def make_wheel(
    path: Path, members: Mapping[str, bytes], time: tuple[int, int, int, int, int, int] = (1980, 1, 1, 0, 0, 0)
) -> Path:
    path.parent.mkdir(exist_ok=True)
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(ZipInfo(name, time), data)
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "one" / "tiny.whl", {"tiny/a.py": b"A = 1\nB = 2\n", "tiny/data": b"\xff\x00\x01"})


def differences(one: Path, other: Path) -> list[str]:
    return [str(difference) for difference in compare(one, other)]


def test_equal_wheels_are_said_to_be_equal(wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = make_wheel(tmp_path / "two" / "tiny.whl", {"tiny/a.py": b"A = 1\nB = 2\n", "tiny/data": b"\xff\x00\x01"})

    assert main(["compare", str(wheel), str(again)]) == 0
    assert capsys.readouterr().out == "equal, byte for byte: tiny.whl\n"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"tiny/a.py": b"A = 1\nB = 3\n", "tiny/data": b"\xff\x00\x01"}, "tiny/a.py: +B = 3"),
        ({"tiny/a.py": b"A = 1\nB = 2\n", "tiny/data": b"\xff\x00\x02"}, "tiny/data: byte 2: 3 bytes, 3 bytes"),
        ({"tiny/a.py": b"A = 1\nB = 2\n"}, "tiny/data: only in the first"),
        ({"tiny/a.py": b"A = 1\nB = 2\n", "tiny/data": b"\xff\x00\x01", "new": b""}, "new: only in the second"),
        ({"tiny/data": b"\xff\x00\x01", "tiny/a.py": b"A = 1\nB = 2\n"}, "zip: the members are in another order"),
    ],
)
def test_what_differs_is_named(
    wheel: Path, tmp_path: Path, members: dict[str, bytes], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_wheel(tmp_path / "two" / "tiny.whl", members)

    assert said in differences(wheel, other)
    assert main(["compare", str(wheel), str(other)]) == 1
    assert said in capsys.readouterr().out.splitlines()


def test_another_time_in_the_zip_is_named(wheel: Path, tmp_path: Path) -> None:
    members = {"tiny/a.py": b"A = 1\nB = 2\n", "tiny/data": b"\xff\x00\x01"}
    other = make_wheel(tmp_path / "two" / "other.whl", members, (2020, 1, 1, 0, 0, 0))

    found = differences(wheel, other)

    assert found[0] == "file name: tiny.whl, other.whl"
    assert "tiny/a.py: zip date_time: (1980, 1, 1, 0, 0, 0), (2020, 1, 1, 0, 0, 0)" in found


def test_of_a_library_the_section_and_the_symbol_are_named(tmp_path: Path) -> None:
    wheels = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.cpp").write_text(
            f'extern "C" int same() {{ return 7; }}\nextern "C" int other() {{ return {number}; }}\n'
        )
        subprocess.run(["c++", "-shared", "-fPIC", "-nostdlib", "-o", folder / "liba.so", folder / "a.cpp"], check=True)
        wheels.append(make_wheel(folder / "tiny.whl", {"tiny/liba.so": (folder / "liba.so").read_bytes()}))

    found = differences(*wheels)

    assert any(
        line.startswith("tiny/liba.so: .text: differs from byte") and line.endswith(", in other") for line in found
    )


def test_what_is_no_zip_is_refused(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "no.whl").write_bytes(b"not a zip")

    with pytest.raises(IncompatibleArtifactError, match="cannot be compared"):
        compare(wheel, tmp_path / "no.whl")
