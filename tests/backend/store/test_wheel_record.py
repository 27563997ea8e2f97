"""What `inspect` and `doctor` notice of a file that is not what RECORD says."""

from __future__ import annotations

import copy
import csv
import hashlib
import io
import stat
import struct
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest
from kernelwheel.cli.inspection import view_wheel
from kernelwheel.runtime.artifact import manifest as manifests
from kernelwheel.runtime.errors import IncompatibleArtifactError
from kernelwheel.store import archive, wheel_record
from samples import Values, rewrite_manifest
from wheel.wheelfile import WheelFile

INFO = "tiny-1.2.3.dist-info"
RECORD = f"{INFO}/RECORD"
SBOM = f"{INFO}/sboms/tiny.cdx.json"
MANIFEST = f"tiny/_native/{manifests.FILE}"
LIBRARY = "tiny/_native/libtiny_cpu.so"
Members = dict[str, bytes]
Change = Callable[[Members], object]


@pytest.fixture(scope="module")
def whole(entry: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of real kernels and of other files, with its RECORD."""
    path = tmp_path_factory.mktemp("whole") / "tiny-1.2.3-py3-none-any.whl"
    with WheelFile(path, "w", ZIP_DEFLATED) as target:
        for name in (MANIFEST, LIBRARY):
            target.write(str(entry / Path(name).name), name)
        target.writestr(SBOM, '{"bomFormat": "CycloneDX"}')
        target.writestr("tiny/a, b.py", "")
    return path


def changed(whole: Path, folder: Path, change: Change) -> Path:
    """The wheel after a change to its members, packed again."""
    with ZipFile(whole) as source:
        members = {name: source.read(name) for name in source.namelist()}
    change(members)
    path = folder / whole.name
    with ZipFile(path, "w") as target:
        for name, data in members.items():
            target.writestr(name, data)
    return path


def add(whole: Path, folder: Path, name: str, mode: int = 0, system: int = 3, extra: bytes = b"") -> Path:
    """The wheel with one more member, and a line in RECORD for it, as a hostile build would pack it."""
    data, info = b"data", ZipInfo("x")
    info.filename = info.orig_filename = name  # ZipInfo cuts and changes names
    info.create_system, info.external_attr, info.extra = system, mode << 16, extra
    digest = urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\n").writerow([name.partition("\0")[0], f"sha256={digest}", len(data)])
    path = changed(whole, folder, lambda members: members.update({RECORD: members[RECORD] + line.getvalue().encode()}))
    with ZipFile(path, "a") as target:
        target.writestr(info, data)
    return path


def edit(name: str, old: bytes, new: bytes) -> Change:
    def change(members: Members) -> None:
        assert members[name].count(old) >= 1
        members[name] = members[name].replace(old, new, 1)

    return change


def write(name: str, data: bytes) -> Change:
    return lambda members: members.update({name: data})


def take(name: str) -> Change:
    return lambda members: members.pop(name)


def test_a_whole_wheel_has_no_damage(whole: Path) -> None:
    assert view_wheel(whole).damage == []


DAMAGE: dict[str, tuple[Change, str]] = {
    "an edited library": (edit(LIBRARY, b"\x7fELF", b"\x7fELG"), f"{LIBRARY}: its sha256 does not match RECORD"),
    "an edited bill of materials": (edit(SBOM, b"Cyclone", b"cyclone"), f"{SBOM}: its sha256 does not match RECORD"),
    "a file that is missing": (take(SBOM), f"{SBOM}: it is in RECORD, but not in the wheel"),
    "a file that was added": (write("tiny/new.py", b""), "tiny/new.py: RECORD has no digest of it"),
    "no RECORD": (take(RECORD), "it contains 0 RECORDs"),
    "another RECORD": (write("x.dist-info/RECORD", b""), "it contains 2 RECORDs"),
    "a RECORD that is cut off": (edit(RECORD, b",", b"\n"), "RECORD: the row "),
    "a RECORD that is no text": (write(RECORD, b"\xff\n"), "RECORD: 'utf-8' codec"),
    "a RECORD with two rows of a file": (edit(RECORD, b"tiny/", b"tiny/x,,\ntiny/x,,\ntiny/"), "RECORD: two rows of "),
    "a RECORD with a weak digest": (edit(RECORD, b"sha256=", b"md5="), "RECORD: the row "),
    "a RECORD with a file that is not there": (edit(RECORD, b"tiny/", b"no.py,,\ntiny/"), "no.py: it is in RECORD"),
    "a RECORD without a digest": (write(RECORD, f"{MANIFEST},,\n".encode()), f"{MANIFEST}: RECORD has no digest"),
}


@pytest.mark.parametrize(("change", "said"), DAMAGE.values(), ids=DAMAGE)
def test_inspect_notices(whole: Path, tmp_path: Path, change: Change, said: str) -> None:
    damage = view_wheel(changed(whole, tmp_path, change)).damage

    assert [line for line in damage if said in line] != [], damage


def test_inspect_notices_a_manifest_that_was_edited_and_given_its_digest(
    whole: Path, entry: Path, tmp_path: Path
) -> None:
    def without_libc(values: Values) -> None:
        values["requires"]["libc"] = ""

    rewrite_manifest(entry, without_libc, tmp_path)
    path = changed(whole, tmp_path, write(MANIFEST, (tmp_path / manifests.FILE).read_bytes()))

    assert any(f"{MANIFEST}: " in line and "RECORD" in line for line in view_wheel(path).damage)


def test_a_file_with_damage_everywhere_is_told_in_a_few_lines(whole: Path, tmp_path: Path) -> None:
    def more(members: Members) -> None:
        members.update({f"tiny/{number}.py": b"" for number in range(1000)})

    damage = view_wheel(changed(whole, tmp_path, more)).damage

    assert len(damage) == archive.MOST_DAMAGE + 1
    assert damage[-1] == "and more"


def test_members_that_overlap_are_not_read(whole: Path, tmp_path: Path) -> None:
    """Many names of the same bytes: a small file that would take for ever to read."""
    path = tmp_path / whole.name
    with ZipFile(whole) as source, ZipFile(path, "w", ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
        for number in range(50):
            again = copy.copy(target.getinfo(LIBRARY))
            again.filename = f"tiny/{number}.so"
            target.filelist.append(again)

    with pytest.raises(IncompatibleArtifactError, match="whose members overlap"):
        view_wheel(path)


def test_a_record_that_is_too_large_is_not_read(whole: Path, tmp_path: Path) -> None:
    def large(members: Members) -> None:
        members[RECORD] += bytes(wheel_record.LARGEST_RECORD)

    (damage,) = view_wheel(changed(whole, tmp_path, large)).damage

    assert f"the limit is {wheel_record.LARGEST_RECORD}" in damage


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "tiny/../../x", "/tmp/x", "//host/x", "..\\x", "tiny\\x", "C:/x", "c:x", "tiny//x", "tiny/./x"),
        *("tiny/\x1b[2Jx", "tiny/x\0y", "tiny/\u202egnp.x"),
    ],
)
def test_a_member_that_is_unpacked_elsewhere_is_damage(whole: Path, tmp_path: Path, name: str) -> None:
    found = view_wheel(add(whole, tmp_path, name))

    says = "its name begins with a drive" if ":" in name else "its name is not the plain path of a file"
    assert [says in line for line in found.damage] == [True]
    assert all(line.isprintable() for line in found.damage)


@pytest.mark.parametrize(
    ("kind", "says"),
    [(stat.S_IFLNK, "it is a link"), (stat.S_IFIFO, "it is neither a file nor a folder"), (stat.S_IFCHR, "neither")],
)
def test_a_member_that_is_no_file_is_damage(whole: Path, tmp_path: Path, kind: int, says: str) -> None:
    (found,) = view_wheel(add(whole, tmp_path, "tiny/x", kind | 0o777)).damage

    assert found.startswith("tiny/x: ")
    assert says in found


@pytest.mark.parametrize("second", [b"../x", b"tiny/x"])
def test_a_member_with_a_second_name_is_damage(whole: Path, tmp_path: Path, second: bytes) -> None:
    """zipfile takes it since Python 3.12, and others do not."""
    field = struct.pack("<BI", 1, zlib.crc32(b"tiny/y")) + second  # Info-ZIP Unicode Path
    extra = struct.pack("<HH", 0x9999, 2) + b"ab" + struct.pack("<HH", 0x7075, len(field)) + field

    found = view_wheel(add(whole, tmp_path, "tiny/y", extra=extra)).damage

    assert any("second name (Unicode Path)" in line for line in found)


def test_a_member_that_is_there_twice_is_damage(whole: Path, tmp_path: Path) -> None:
    path = add(whole, tmp_path, "tiny/x")
    with ZipFile(path, "a") as target, pytest.warns(UserWarning, match="Duplicate"):
        target.writestr("tiny/x", "other")

    assert view_wheel(path).damage == ["it contains a file twice"]


@pytest.mark.parametrize(("name", "mode", "system"), [("tiny/ü.py", 0o100644, 3), ("tiny/x", 0o120777, 0)])
def test_other_members_are_none(whole: Path, tmp_path: Path, name: str, mode: int, system: int) -> None:
    assert view_wheel(add(whole, tmp_path, name, mode, system)).damage == []
