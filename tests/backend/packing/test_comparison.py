"""The comparison of two wheels: what differs is named, by member, section and symbol."""

from __future__ import annotations

import itertools
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile, ZipInfo

import kernelwheel
import pytest
from kernelwheel.__main__ import main
from kernelwheel.core.errors import IncompatibleArtifactError
from kernelwheel.packing.comparison import compare
from samples import elf

pytestmark = pytest.mark.once


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


def make_library(folder: Path, number: int) -> bytes:
    """A small library with a function `other`, which gives the number."""
    folder.mkdir()
    (folder / "a.cpp").write_text(
        f'extern "C" int same() {{ return 7; }}\nextern "C" int other() {{ return {number}; }}\n'
    )
    subprocess.run(["c++", "-shared", "-fPIC", "-nostdlib", "-o", folder / "liba.so", folder / "a.cpp"], check=True)
    return (folder / "liba.so").read_bytes()


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
    wheels = [
        make_wheel(tmp_path / f"{number}" / "tiny.whl", {"tiny/liba.so": make_library(tmp_path / f"{number}", number)})
        for number in (1, 2)
    ]

    found = differences(*wheels)

    assert any(
        line.startswith("tiny/liba.so: .text: differs from byte") and line.endswith(", in other") for line in found
    )


def test_what_is_no_zip_is_refused(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "no.whl").write_bytes(b"not a zip")

    with pytest.raises(IncompatibleArtifactError, match="cannot be compared"):
        compare(wheel, tmp_path / "no.whl")


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (b"A = 1\n", b"A = 1\r\n", ["a.py: line 1: the first that differs", "a.py: -A = 1", "a.py: +A = 1\\r"]),
        (b"", b"\n", ["a.py: line 2: the first that differs", "a.py: +"]),
        (b"A\n" * 9, b"A\n" * 8, ["a.py: line 9: the first that differs", "a.py: -A"]),
        (b"\xc3\xbc", b"\xc3\xb6", ["a.py: line 1: the first that differs", "a.py: -ü", "a.py: +ö"]),
        (b"\n" * 300000 + b"a", b"\n" * 300000 + b"b",
         ["a.py: line 300001: the first that differs", "a.py: -a", "a.py: +b"]),
        (b"\n" * 3000000 + b"a", b"\n" * 3000000 + b"b", ["a.py: byte 3000000: 3000001 bytes, 3000001 bytes"]),
        (b"a" * 3000000 + b"a", b"a" * 3000000 + b"b", ["a.py: byte 3000000: 3000001 bytes, 3000001 bytes"]),
    ],
)  # fmt: skip
def test_the_first_differing_line_of_a_text_is_named(tmp_path: Path, one: bytes, other: bytes, said: list[str]) -> None:
    wheels = [make_wheel(tmp_path / n / "tiny.whl", {"a.py": text}) for n, text in (("1", one), ("2", other))]

    assert [line for line in differences(*wheels) if not line.startswith("a.py: zip")] == said


def test_members_of_one_name_are_compared_one_by_one(tmp_path: Path) -> None:
    wheels = []
    for number in ("1", "2"):
        wheel = make_wheel(tmp_path / number / "tiny.whl", {"a": number.encode()})
        with ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(ZipInfo("a"), b"same")
        wheels.append(wheel)

    assert "a: -1" in differences(*wheels)


# Wheels that are made to harm

CONFINED = """
import re, resource, sys
from pathlib import Path
from kernelwheel.packing import comparison
from kernelwheel.core.errors import IncompatibleArtifactError

def kilobytes(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

limit = (kilobytes("VmSize") << 10) + (100 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = kilobytes("VmRSS")
try:
    comparison.main(sys.argv[1:])
except IncompatibleArtifactError as error:
    print(error)
print("MB:", (kilobytes("VmHWM") - before) >> 10)
"""
MB = 1 << 20


def confined(one: Path, other: Path) -> tuple[list[str], int]:
    """What `compare` prints in a process with little memory, and how many MB it used."""
    done = subprocess.run(
        [sys.executable, "-c", CONFINED, one, other],
        env={"PYTHONPATH": str(Path(kernelwheel.__path__[0]).parent)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said, _, peak = done.stdout.rpartition("MB: ")
    return said.splitlines(), int(peak)


def bomb(path: Path, blocks: Iterable[bytes]) -> Path:
    """A wheel with one member of many bytes."""
    path.parent.mkdir(exist_ok=True)
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=1) as archive, archive.open("a", "w") as member:
        member.writelines(blocks)
    return path


def zeros(size: int, last: bytes) -> Iterable[bytes]:
    return itertools.chain(itertools.repeat(bytes(MB), size), [last])


BITS, NAMES, SYMBOLS, HASHES = 1, 3, 2, 5  # types of sections
HOSTILE: dict[str, Callable[[bytes], Iterable[bytes]]] = {
    "zeros": lambda last: zeros(120, last),
    "lines": lambda last: itertools.chain(itertools.repeat(b"a\n" * (MB // 2), 120), [last]),
    "another line each": lambda last: ["\n".join(random.Random(last).choices("abcdefghij", k=500000)).encode()],
    "library": lambda last: [elf((BITS, 120 * MB, 0), more=last), *zeros(120, last)],
    "library with one long name": lambda last: [elf(*[(BITS, 0, 0)] * 10000, names=b"a" * (30 * MB), more=last)],
    "library with long hash tables": lambda last: [
        elf((SYMBOLS, 0, 0), (HASHES, 9, 1), more=struct.pack("<II", 1 << 31, 1 << 31) + last),
        *zeros(64, b""),
    ],
    "library with many symbols": lambda last: [elf((SYMBOLS, 3 * MB, 0), more=last), *zeros(4, b"")],
    "library with overlapping sections": lambda last: [elf(*[(BITS, 60 * MB, 0)] * 10000, more=last), *zeros(64, b"")],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_wheels_that_unpack_to_much_are_compared_in_little_memory(tmp_path: Path, kind: str) -> None:
    one, other = (bomb(tmp_path / n / "tiny.whl", HOSTILE[kind](n.encode())) for n in ("1", "2"))
    assert max(one.stat().st_size, other.stat().st_size) < 3 * MB

    said, peak = confined(one, other)

    assert any(line.startswith("a: ") and "zip" not in line for line in said), said
    assert peak < 60
    print(kind, peak, said)


def test_members_that_share_their_bytes_are_not_unpacked(tmp_path: Path) -> None:
    wheels = []
    for number in ("1", "2"):
        wheel = bomb(tmp_path / number / "tiny.whl", [bytes(MB), number.encode()])
        with ZipFile(wheel, "a") as archive:
            (info,) = archive.infolist()
            for again in range(2000):
                copied = ZipInfo(f"b{again}")
                for name in ("header_offset", "compress_size", "file_size", "CRC", "compress_type"):
                    setattr(copied, name, getattr(info, name))
                archive.filelist.append(copied)
            archive._didModify = True  # type: ignore[attr-defined]
        wheels.append(wheel)

    with pytest.raises(IncompatibleArtifactError, match="its members overlap"):
        compare(*wheels)


def test_a_member_that_cannot_be_unpacked_is_named(tmp_path: Path) -> None:
    one = make_wheel(tmp_path / "1" / "tiny.whl", {"a": b"1" * 99, "b": b"1"})
    other = make_wheel(tmp_path / "2" / "tiny.whl", {"b": b"2"})
    with ZipFile(other, "a", ZIP_LZMA) as archive:  # it says itself how much memory it takes
        archive.writestr("a", b"1" * 98)
    damaged = make_wheel(tmp_path / "3" / "tiny.whl", {"a": b"1" * 99, "b": b"1"})
    data = bytearray(damaged.read_bytes())
    data[data.index(b"a") + 3] ^= 0xFF
    damaged.write_bytes(data)

    assert any(line.startswith("a: cannot be unpacked: 'a' is encrypted, or") for line in differences(one, other))
    assert "b: +2" in differences(one, other)
    assert any(line.startswith("a: cannot be unpacked: ") for line in differences(one, damaged))
