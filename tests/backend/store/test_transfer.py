"""Artifacts as files: an export from one Store can be imported into another, and tampered files are refused."""

from __future__ import annotations

import hashlib
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest
from builds import Wheel
from editables import Editable, make_editable
from kernelwheel.cli.inspection import view_wheel
from kernelwheel.project.build_platforms import PLATFORMS
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.errors import IncompatibleArtifactError, StoreError
from kernelwheel.runtime.machine import host as hosts
from kernelwheel.runtime.machine.platforms import platform_name
from kernelwheel.runtime.store.store import Store
from kernelwheel.store import transfer
from samples import Values, rewrite_manifest

Members = dict[str, bytes]


@pytest.fixture
def entry(compiled: Editable) -> Artifact:
    """An entry that was actually compiled."""
    (entry,) = compiled.store.entries()
    return entry


@pytest.fixture
def exported(entry: Artifact, tmp_path: Path) -> Path:
    """The same entry as a file."""
    transfer.export(entry, tmp_path / "kernels")
    return tmp_path / "kernels"


@pytest.fixture
def other(tmp_path: Path) -> Store:
    """The Store of another machine."""
    return Store(tmp_path / "other", "tiny", "1.2.3")


def contents(folder: Path) -> Members:
    """The files of a folder, the manifest first as in an exported file."""
    paths = sorted(folder.iterdir(), key=lambda path: (path.name != "manifest.json", path.name))
    return {path.name: path.read_bytes() for path in paths}


def repack(
    entry: Artifact, folder: Path, library: bytes, change: Callable[[Values], object] = lambda values: None
) -> Path:
    """A forged export: with another library, and a signed manifest that matches it."""
    (folder / "forged").mkdir()
    (folder / "forged" / "libtiny_cpu.so").write_bytes(library)

    def change_all(values: Values) -> None:
        values["libraries"][0].update(sha256=hashlib.sha256(library).hexdigest(), size=len(library))
        change(values)

    rewrite_manifest(entry.folder, change_all, folder / "forged")
    write(folder / "repacked", contents(folder / "forged"))
    return folder / "repacked"


def write(target: Path, members: Members) -> None:
    with ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(transfer._member(f"tiny/_native/{name}"), data)


def refusal(source: Path, store: Store) -> str:
    """The error of an import that must fail and leave nothing in the Store or beside it."""
    before = sorted(path for path in source.parent.rglob("*") if not path.is_relative_to(store.folder))
    with pytest.raises(IncompatibleArtifactError) as caught:
        transfer.import_file(source, store, print)
    assert list(store.entries()) == []
    assert sorted(path for path in source.parent.rglob("*") if not path.is_relative_to(store.folder)) == before
    return str(caught.value)


def test_it_arrives_byte_for_byte_and_goes_out_again_the_same(
    entry: Artifact, exported: Path, other: Store, tmp_path: Path
) -> None:
    made = transfer.import_file(exported, other, print)
    transfer.export(made, tmp_path / "again")

    assert contents(made.folder) == contents(entry.folder)
    assert (tmp_path / "again").read_bytes() == exported.read_bytes()


def test_an_exported_file_can_be_given_to_others(entry: Artifact, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        transfer.export(entry, tmp_path / "kernels")
    finally:
        os.umask(before)

    assert (tmp_path / "kernels").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("name", [".", "/", "folder", "pipe"])
def test_what_is_no_file_is_not_replaced(
    entry: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As /dev/stdout is, for root."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    os.mkfifo("pipe")
    before = {each.name: each.lstat().st_mode for each in tmp_path.iterdir()}

    with pytest.raises(StoreError, match="the name of a new file"):
        transfer.export(entry, Path(name))

    assert {each.name: each.lstat().st_mode for each in tmp_path.iterdir()} == before


def test_a_damaged_entry_is_not_exported(entry: Artifact, tmp_path: Path) -> None:
    (entry.folder / "libtiny_cpu.so").write_bytes(b"")
    before = sorted(tmp_path.iterdir())

    with pytest.raises(IncompatibleArtifactError, match="damaged"):
        transfer.export(entry, tmp_path / "kernels")

    assert sorted(tmp_path.iterdir()) == before


def test_a_wheel_is_imported_and_runs(cpu_wheel: Wheel, tmp_path: Path) -> None:
    editable = make_editable(tmp_path)
    made = transfer.import_file(cpu_wheel.file, editable.store, print)
    script = """
import tiny, torch
assert torch.ops.tiny.twice(torch.arange(4.0)).tolist() == [0.0, 2.0, 4.0, 6.0]
print(tiny.KERNELS.info()["loaded"]["cpu"])
"""

    assert editable.python(script).stdout == f"{made.folder}\n"
    assert made.manifest.fingerprint == cpu_wheel.manifest["fingerprint"]


# Refused


NAMES = ["../libtiny_cpu.so", None]


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_whose_library_is_elsewhere_or_missing_is_refused(
    entry: Artifact, other: Store, tmp_path: Path, name: str | None
) -> None:
    members = contents(entry.folder)
    library = members.pop("libtiny_cpu.so")
    write(tmp_path / "kernels", members if name is None else {**members, name: library})

    assert "the file contains it 0 times" in refusal(tmp_path / "kernels", other)


NO_LIBRARY: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda library: library[:40],
    "of 32 bits": lambda library: library[:4] + b"\x01" + library[5:],
    "of another machine": lambda library: library[:18] + bytes([183 if library[18] == 62 else 62]) + library[19:],
}


@pytest.mark.parametrize("change", NO_LIBRARY.values(), ids=NO_LIBRARY)
def test_what_is_no_library_for_the_platform_of_its_manifest_is_refused(
    entry: Artifact, other: Store, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    """Even with a valid manifest: it would break a Python import later."""
    source = repack(entry, tmp_path, change((entry.folder / "libtiny_cpu.so").read_bytes()))

    assert f"not a shared library for {entry.manifest.requires.platform}" in refusal(source, other)


@pytest.mark.parametrize("platform", sorted({"plan9-mips", *PLATFORMS} - {platform_name()}))
def test_kernels_for_another_platform_are_refused_by_an_import_in_one_line(
    entry: Artifact, other: Store, tmp_path: Path, platform: str
) -> None:
    def elsewhere(values: Values) -> None:
        values["plan"]["target"]["platform"] = values["requires"]["platform"] = platform

    source = repack(entry, tmp_path, (entry.folder / "libtiny_cpu.so").read_bytes(), elsewhere)

    said = refusal(source, other)

    assert said.splitlines()[0] == f"the kernels are for {platform}, not for {platform_name()}"
    assert not other.folder.exists()


def test_a_file_that_holds_more_than_the_limit_is_refused_before_it_is_unpacked(
    entry: Artifact, other: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = repack(entry, tmp_path, (entry.folder / "libtiny_cpu.so").read_bytes().ljust(3_000_000, b"\0"))
    with monkeypatch.context() as less:
        less.setattr(transfer, "MOST_BYTES", 2_000_000)

        with pytest.raises(IncompatibleArtifactError, match="too large for one file") as caught:
            transfer.import_file(source, other, print)

        assert (caught.value.required, caught.value.found) == (
            "at most 2 MB of libraries", f"3 MB of libraries in {source}",
        )  # fmt: skip
        assert not other.folder.exists()
    made = transfer.import_file(source, other, print)
    assert made.manifest.libraries[0].size == 3_000_000
    monkeypatch.setattr(transfer, "MOST_BYTES", 2_000_000)
    with pytest.raises(IncompatibleArtifactError, match="too large for one file"):
        transfer.export(made, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_large_library_goes_out_and_in_without_being_in_memory(entry: Artifact, other: Store, tmp_path: Path) -> None:
    large = (entry.folder / "libtiny_cpu.so").read_bytes().ljust(60_000_000, b"\0")
    source = repack(entry, tmp_path, large)
    del large
    hosts.probe()  # imports torch
    peaks = {}
    acts: dict[str, Callable[[], object]] = {
        "import": lambda: transfer.import_file(source, other, print),
        "export": lambda: transfer.export(next(other.entries()), tmp_path / "again"),
        "inspect": lambda: view_wheel(source),
    }
    for name, act in acts.items():
        tracemalloc.start()
        act()
        peaks[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert (tmp_path / "again").read_bytes() == source.read_bytes()
    assert max(peaks.values()) < 10_000_000, peaks


def test_inspect_shows_an_exported_file_as_well(entry: Artifact, exported: Path) -> None:
    view = view_wheel(exported)

    assert (view.manifest, view.damage) == (entry.manifest, [])


def test_kernels_of_another_version_are_refused_with_both_versions(exported: Path, other: Store) -> None:
    said = refusal(exported, other._replace(version="1.2.4"))

    assert "tiny 1.2.4" in said
    assert "tiny 1.2.3" in said
