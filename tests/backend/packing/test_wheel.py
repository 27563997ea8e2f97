"""The platform wheel: its tag, members and RECORD, and no trace of the builder."""

from __future__ import annotations

from email.parser import HeaderParser
from pathlib import Path
from zipfile import ZipFile, ZipInfo

import pytest
from kernelwheel.packing import tags, wheel
from kernelwheel.project.build_settings import OLDEST_ZIP_TIME
from kernelwheel.project.source_files import file_sha256
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.errors import BuildError
from kernelwheel.store import manifest_file
from samples import BYTES, LIBRARY, sample
from standins import SOURCES, make_machine
from wheel.wheelfile import WheelFile

PLATFORM = "manylinux_2_28_x86_64"
EPOCH_1980 = (1980, 1, 1, 0, 0, 0)


@pytest.fixture
def pure(tmp_path: Path) -> Path:
    """A pure wheel as built by setuptools: one module, with timestamps from the builder's clock."""
    path = tmp_path / "tiny-1.2.3-py3-none-any.whl"
    with WheelFile(path, "w") as archive:
        archive.writestr("tiny/__init__.py", "ANSWER = 42\n")
        program = ZipInfo("tiny/program.sh")
        program.external_attr = 0o100750 << 16  # by whatever umask
        archive.writestr(program, "exit\n")
        archive.writestr("tiny-1.2.3.dist-info/METADATA", "Metadata-Version: 2.4\nName: tiny\nVersion: 1.2.3\n\n")
        archive.writestr(
            "tiny-1.2.3.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: setuptools (80.0)\nRoot-Is-Purelib: true\nTag: py3-none-any\n\n",
        )
    return path


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Artifact, Path]:
    """An Artifact, and the folder of its sources."""
    sources = make_machine(tmp_path / "machine").sources
    (sources / "notes.txt").write_text("not for the wheel")
    folder = tmp_path / "artifact"
    folder.mkdir()
    (folder / LIBRARY.file).write_bytes(BYTES)
    manifest = sample(LIBRARY, sources={name: file_sha256(sources / name) for name in SOURCES})
    (folder / "manifest.json").write_bytes(manifest_file.to_bytes(manifest))
    (folder / "notes").write_text("what else is in its folder")
    return Artifact(folder, manifest), sources


@pytest.fixture
def made(pure: Path, parts: tuple[Artifact, Path], tmp_path: Path) -> Path:
    """The platform wheel."""
    artifact, sources = parts
    (tmp_path / "out").mkdir()
    contents = wheel.Contents(artifact, sources, OLDEST_ZIP_TIME, PLATFORM)
    return tmp_path / "out" / wheel.add_artifact(pure, tmp_path / "out", contents)


@pytest.mark.parametrize(("abi", "tag"), [(None, "py3-none"), ("cp312", "cp312-cp312"), ("cp313t", "cp313-cp313t")])
def test_a_wheel_is_tagged_for_the_python_that_its_modules_are_bound_to(abi: str | None, tag: str) -> None:
    assert tags.python_tag(abi) == tag


def test_its_name_and_its_wheel_file_have_the_one_tag_and_it_is_not_pure(made: Path) -> None:
    assert made.name == f"tiny-1.2.3-py3-none-{PLATFORM}.whl"
    with ZipFile(made) as archive:
        facts = HeaderParser().parsestr(archive.read("tiny-1.2.3.dist-info/WHEEL").decode())

    assert facts.get_all("Tag") == [f"py3-none-{PLATFORM}"]
    assert facts.get_all("Root-Is-Purelib") == ["false"]
    assert facts["Wheel-Version"] == "1.0"


def test_it_holds_the_pure_wheel_the_artifact_and_the_plan_s_sources_and_nothing_else(made: Path) -> None:
    with ZipFile(made) as archive:
        names = archive.namelist()

    assert len(set(names)) == len(names)
    assert {name for name in names if not name.startswith("tiny/_kernelwheel/")} == {
        "tiny/__init__.py", "tiny/program.sh",
        "tiny-1.2.3.dist-info/METADATA", "tiny-1.2.3.dist-info/WHEEL", "tiny-1.2.3.dist-info/RECORD",
        "tiny-1.2.3.dist-info/sboms/tiny.cdx.json", "tiny-1.2.3.dist-info/licenses/compiled-in/LICENSES.txt",
        "tiny/_native/manifest.json", f"tiny/_native/{LIBRARY.file}",
        *(f"tiny/_native/src/{name}" for name in SOURCES),
    }  # fmt: skip


@pytest.mark.parametrize("packed", [{}, {"tiny/_kernelwheel/__init__.py": b"# old\n"}], ids=["nothing", "an old copy"])
def test_the_loader_is_in_it_whole(
    pure: Path, parts: tuple[Artifact, Path], tmp_path: Path, packed: dict[str, bytes]
) -> None:
    """Whatever of it setuptools has packed: nothing, or a part of a copy that is another version."""
    with WheelFile(pure) as before:
        members = {name: before.read(name) for name in before.namelist() if not name.endswith("RECORD")}
    with WheelFile(pure, "w") as archive:
        for name, data in {**members, **packed}.items():
            archive.writestr(name, data)
    contents = wheel.Contents(*parts, OLDEST_ZIP_TIME, PLATFORM)

    made = tmp_path / wheel.add_artifact(pure, tmp_path, contents)

    here = Path(wheel.__file__).parent.parent / "runtime"
    wanted = {path.relative_to(here).as_posix() for path in here.rglob("*.py")}
    with ZipFile(made) as archive:
        names = [name for name in archive.namelist() if name.startswith("tiny/_kernelwheel/")]
        assert all(archive.read(name) == (here / name.split("/", 2)[2]).read_bytes() for name in names)
    assert sorted(names) == sorted(f"tiny/_kernelwheel/{name}" for name in wanted)


def test_what_the_disk_has_changed_is_refused_and_no_wheel_is_left(
    pure: Path, parts: tuple[Artifact, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(self: WheelFile) -> None:
        written = self.fp and self.mode == "w" and self.getinfo(f"tiny/_native/{LIBRARY.file}")
        real(self)
        if written:
            data = bytearray(Path(self.filename).read_bytes())
            data[written.header_offset + 30 + len(written.filename)] ^= 0xFF  # behind the header and the name
            Path(self.filename).write_bytes(data)

    real = WheelFile.close
    monkeypatch.setattr(WheelFile, "close", spoil)

    with pytest.raises(BuildError, match="does not hold what was written") as caught:
        wheel.add_artifact(pure, tmp_path, wheel.Contents(*parts, OLDEST_ZIP_TIME, PLATFORM))

    assert LIBRARY.file in caught.value.found
    assert [path for path in tmp_path.glob("*.whl") if "none-linux" in path.name] == []


def test_libraries_and_what_its_owner_may_execute_are_executable_and_other_members_are_not(made: Path) -> None:
    with ZipFile(made) as archive:
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}

    del modes["tiny-1.2.3.dist-info/RECORD"]  # WheelFile's own
    assert {name for name in modes if modes[name] == 0o755} == {f"tiny/_native/{LIBRARY.file}", "tiny/program.sh"}
    assert {*modes.values()} == {0o755, 0o644}


def times(path: Path) -> dict[str, tuple[int, ...]]:
    with ZipFile(path) as archive:
        return {info.filename: info.date_time for info in archive.infolist()}


def test_no_member_has_a_time_of_the_builder_s_clock(made: Path) -> None:
    assert {name: time for name, time in times(made).items() if time != EPOCH_1980} == {}


def test_source_date_epoch_is_the_time_of_every_member(
    pure: Path, parts: tuple[Artifact, Path], tmp_path: Path
) -> None:
    (tmp_path / "dated").mkdir()
    name = wheel.add_artifact(pure, tmp_path / "dated", wheel.Contents(*parts, 1600000000, PLATFORM))

    assert set(times(tmp_path / "dated" / name).values()) == {(2020, 9, 13, 12, 26, 40)}
