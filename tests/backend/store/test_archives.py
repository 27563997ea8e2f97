"""Malicious files: `cache import` and `inspect` say what is wrong with them and use little memory."""

from __future__ import annotations

import hashlib
import io
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile

import pytest
from editables import Editable
from folders import BACKEND
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernelwheel.cli.inspection import view_wheel
from kernelwheel.runtime.artifact import manifest as manifests
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.artifact.manifest import Manifest
from kernelwheel.runtime.errors import IncompatibleArtifactError
from kernelwheel.runtime.store.store import Store
from kernelwheel.store import archive, transfer
from kernelwheel.store.publishing import intact_entry
from samples import Values, rewrite_manifest

ROOM = 200  # MB, for Python and what an import needs beyond
LIBRARY = "libtiny_cpu.so"
NATIVE = "tiny/_native"
many = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def entry(compiled: Editable) -> Artifact:
    """An entry that was actually compiled."""
    (entry,) = compiled.store.entries()
    return entry


@pytest.fixture
def exported(entry: Artifact, tmp_path: Path) -> bytes:
    """The same entry as an exported file."""
    transfer.export(entry, tmp_path / "exported")
    return (tmp_path / "exported").read_bytes()


# In little memory

# Imports a file in a process that may take little memory, and says how that ended and what it took.
CONFINED = """
import re, resource, sys
from pathlib import Path
from kernelwheel.store import transfer
from kernelwheel.runtime.errors import IncompatibleArtifactError
from kernelwheel.runtime.store.store import Store

def kilobytes(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

limit = (kilobytes("VmSize") << 10) + (int(sys.argv[3]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = kilobytes("VmRSS")
try:
    entry = transfer.import_file(Path(sys.argv[1]), Store(Path(sys.argv[2]), "tiny", "1.2.3"), print)
except IncompatibleArtifactError as error:
    print(error)
print("MB:", (kilobytes("VmHWM") - before) >> 10)
"""


def confined(source: Path, cache: Path) -> tuple[str, int]:
    """What an import prints in a process with little memory, and how many MB it used."""
    done = subprocess.run(
        [sys.executable, "-c", CONFINED, source, cache, str(ROOM)],
        env={"PYTHONPATH": str(BACKEND)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said, _, peak = done.stdout.rpartition("MB: ")
    return said, int(peak)


def claiming(entry: Artifact, size: int) -> bytes:
    """The entry's manifest with another library size, signed."""

    def change(values: Values) -> None:
        values["libraries"][0].update(size=size)

    folder = entry.folder.parent / "claiming"
    folder.mkdir()
    rewrite_manifest(entry.folder, change, folder)
    return (folder / manifests.FILE).read_bytes()


def text_of(entry: Artifact) -> bytes:
    return (entry.folder / manifests.FILE).read_bytes()


def bytes_of(entry: Artifact) -> bytes:
    return (entry.folder / LIBRARY).read_bytes()


def wheel(entry: Artifact, method: int, text: bytes | None = None, library: bytes | None = None) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w") as target:
        target.writestr(
            f"{NATIVE}/{manifests.FILE}", text_of(entry) if text is None else text, min(method, ZIP_DEFLATED)
        )
        target.writestr(f"{NATIVE}/{LIBRARY}", bytes_of(entry) if library is None else library, method)
    return file.getvalue()


def bomb(entry: Artifact, method: int, size_mb: int) -> bytes:
    """A wheel that states the true size of its library of zeros."""
    return wheel(entry, method, claiming(entry, size_mb << 20), bytes(size_mb << 20))


def tar_archive(entry: Artifact) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as target:
        for path in (entry.folder / manifests.FILE, entry.folder / LIBRARY):
            target.add(path, f"{NATIVE}/{path.name}")
    return file.getvalue()


def manifest_that_says_it_is_small(entry: Artifact) -> bytes:
    """Both headers state a size of 1000, but the data unpacks to 300 MB."""
    whole = bytearray(wheel(entry, ZIP_DEFLATED, bytes(300 << 20)))
    directory = struct.unpack_from("<L", whole, len(whole) - 6)[0]
    struct.pack_into("<L", whole, 22, 1000)
    struct.pack_into("<L", whole, directory + 24, 1000)
    return bytes(whole)


def huge_directory(entry: Artifact) -> bytes:
    """A million members that do not exist."""
    whole = wheel(entry, ZIP_STORED)
    end = bytearray(whole[-22:])
    _, directory, start = struct.unpack_from("<HLL", end, 10)
    member = bytearray(whole[start : start + 46]) + b"x"
    struct.pack_into("<HHH", member, 28, 1, 0, 0)
    more = bytes(member) * 1_000_000
    struct.pack_into("<LL", end, 12, directory + len(more), start)
    return whole[:-22] + more + bytes(end)


def directory_of_64_bits(entry: Artifact) -> bytes:
    """The zip64 record states six gigabytes."""
    whole = wheel(entry, ZIP_STORED)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2, 2, 6 << 30, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(whole) - 22, 1)
    return whole[:-22] + record + locator + whole[-22:]


def largest_directory(entry: Artifact) -> bytes:
    """As many members as the limit allows."""
    whole = wheel(entry, ZIP_STORED)
    _, directory, start = struct.unpack_from("<HLL", whole, len(whole) - 12)
    member = bytearray(whole[start : start + 46]) + b"x"
    struct.pack_into("<LLHHH", member, 20, 0, 0, 1, 0, 0)
    more = bytes(member) * ((archive.LARGEST_DIRECTORY - directory) // 47)
    end = bytearray(whole[-22:])
    struct.pack_into("<LL", end, 12, directory + len(more), start)
    return bytes(whole[: start + directory] + more + end)


def encrypted(entry: Artifact) -> bytes:
    whole = bytearray(wheel(entry, ZIP_STORED))
    directory = struct.unpack_from("<L", whole, len(whole) - 6)[0]
    whole[6] |= 1
    whole[directory + 8] |= 1
    return bytes(whole)


def name_that_is_no_text(entry: Artifact) -> bytes:
    whole = bytearray(wheel(entry, ZIP_STORED).replace(b"tiny/_native/lib", b"t\xffny/_native/lib"))
    for at in (i for i in range(len(whole)) if bytes(whole[i : i + 4]) in (b"PK\x01\x02", b"PK\x03\x04")):
        flags = at + (8 if whole[at + 2] == 1 else 6)
        whole[flags + 1] |= 0x08
    return bytes(whole)


def place_of_64_bits(entry: Artifact) -> bytes:
    """According to a zip64 field, the manifest's data begins at an impossible offset."""
    whole = wheel(entry, ZIP_STORED)
    _, directory, start = struct.unpack_from("<HLL", whole, len(whole) - 12)
    member = bytearray(whole[start : start + 46])
    (length,) = struct.unpack_from("<H", member, 28)
    struct.pack_into("<H", member, 30, 12)
    struct.pack_into("<L", member, 42, 0xFFFFFFFF)
    more = struct.pack("<HHQ", 1, 8, 2**63 + 5)
    end = bytearray(whole[-22:])
    struct.pack_into("<L", end, 12, directory + 12)
    name, rest = whole[start + 46 : start + 46 + length], whole[start + 46 + length : -22]
    return whole[:start] + bytes(member) + name + more + rest + bytes(end)


def library_twice(entry: Artifact) -> bytes:
    file = io.BytesIO(wheel(entry, ZIP_STORED))
    with pytest.warns(UserWarning, match="Duplicate name"), ZipFile(file, "a") as target:
        target.writestr(f"{NATIVE}/{LIBRARY}", bytes_of(entry))
    return file.getvalue()


def manifest_twice(entry: Artifact) -> bytes:
    file = io.BytesIO(wheel(entry, ZIP_STORED))
    with ZipFile(file, "a") as target:
        target.writestr(f"tiny/more/_native/{manifests.FILE}", text_of(entry))
    return file.getvalue()


def with_a_comment(entry: Artifact) -> bytes:
    file = io.BytesIO(wheel(entry, ZIP_STORED))
    with ZipFile(file, "a") as target:
        target.comment = b"PK\x05\x06" + bytes(60_000)
    return file.getvalue()


Make = Callable[[Artifact], bytes]
# What would be large in memory
BOMBS: dict[str, Make] = {
    "a deflated library": lambda entry: bomb(entry, ZIP_DEFLATED, 90),
    "an lzma library": lambda entry: bomb(entry, ZIP_LZMA, 90),
    "more than its manifest says": lambda entry: wheel(entry, ZIP_DEFLATED, library=bytes(300 << 20)),
    "a manifest that says it is small": manifest_that_says_it_is_small,
    "a huge directory": huge_directory,
    "a directory of 64 bits": directory_of_64_bits,
}
HOSTILE: dict[str, Make] = {
    "a tar archive": tar_archive,
    "encrypted": encrypted,
    "a name that is no text": name_that_is_no_text,
    "a manifest that is no text": lambda entry: wheel(entry, ZIP_STORED, text_of(entry).replace(b"glibc", b"gl\xffbc")),
    "a library twice": library_twice,
    "a manifest twice": manifest_twice,
    "another package's folder": lambda entry: wheel(entry, ZIP_STORED).replace(b"tiny/_native/", b"tony/_native/"),
    "with a comment": with_a_comment,
    "a place of 64 bits": place_of_64_bits,
}


def assert_refused(said: str, source: Path, store: Store) -> None:
    """An import said this; it left nothing, and `inspect` refuses the file too, or shows its damage."""
    assert "  required: " in said
    assert "  to fix: " in said
    assert len(said) < 2000
    assert list(store.entries()) == []
    assert not (store.root / ".work").exists() or list((store.root / ".work").iterdir()) == []
    try:
        view = view_wheel(source)
    except IncompatibleArtifactError:
        return
    assert [line for line in view.damage if "RECORD" not in line] != [], "none of these files has one"


@pytest.mark.parametrize("make", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_in_little_memory(
    entry: Artifact, tmp_path: Path, make: Make, record_property: Callable[[str, object], None]
) -> None:
    source, store = tmp_path / "hostile", Store(tmp_path / "other", "tiny", "1.2.3")
    source.write_bytes(make(entry))

    said, peak = confined(source, store.folder)

    record_property("peak_mb", peak)
    assert peak < 40
    assert_refused(said, source, store)


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused(entry: Artifact, tmp_path: Path, make: Make) -> None:
    source, store = tmp_path / "hostile", Store(tmp_path / "other", "tiny", "1.2.3")
    source.write_bytes(make(entry))

    with pytest.raises(IncompatibleArtifactError) as caught:
        transfer.import_file(source, store, print)

    assert_refused(str(caught.value), source, store)


def test_a_directory_as_large_as_is_read_takes_no_more_than_is_said(entry: Artifact, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(largest_directory(entry))

    said, peak = confined(tmp_path / "large", tmp_path / "other")

    assert said == ""
    assert peak < 100


# Any change


@pytest.fixture(scope="module")
def whole_files(compiled_once: Editable, tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, list[bytes]]:
    """An entry's manifest, and the files that contain the entry: one exported, and a wheel."""
    (entry,) = compiled_once.store.entries()
    file = tmp_path_factory.mktemp("whole") / "exported"
    transfer.export(entry, file)
    return entry.manifest, [file.read_bytes(), wheel(entry, ZIP_DEFLATED)]


def structure(whole: bytes) -> list[int]:
    """The positions of offsets and sizes: in headers, the central directory, the beginning and the end."""
    starts = [0, len(whole) - 64, *(i for i in range(len(whole)) if whole.startswith(b"PK", i))]
    return sorted({i for start in starts for i in range(start, min(len(whole), start + 270))})


@st.composite
def changes(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with bytes changed, removed, duplicated or cut off, most often where its structure is."""
    changed = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.sampled_from(structure(whole)) | st.integers(0, len(whole) - 1))
        match draw(st.sampled_from(["flip", "set", "number", "out", "twice", "end"])):
            case "flip":
                changed[at : at + 1] = bytes([whole[at] ^ draw(st.integers(1, 255))])
            case "set":
                changed[at : at + 1] = draw(st.sampled_from([b"\0", b"\xff", b"7", b"0", b" ", b"x", b"\x80"]))
            case "number":
                changed[at : at + 4] = struct.pack("<L", draw(st.sampled_from([0, 1, 2**31, 2**32 - 1, 0xFFFF, 46])))
            case "out":
                del changed[at : at + draw(st.sampled_from([1, 22, 46, 512]))]
            case "twice":
                changed[at:at] = changed[at : at + draw(st.sampled_from([1, 22, 46, 512]))]
            case "end":
                del changed[at:]
    return bytes(changed)


@many
@given(data=st.data())
def test_a_changed_file_is_refused_or_still_the_same_kernels(
    whole_files: tuple[Manifest, list[bytes]], tmp_path: Path, data: st.DataObject
) -> None:
    manifest, wholes = whole_files
    source, cache = tmp_path / "changed", tmp_path / hashlib.sha256(str(data).encode()).hexdigest()[:8]
    source.write_bytes(data.draw(changes(data.draw(st.sampled_from(wholes)))))
    store = Store(cache, "tiny", "1.2.3")
    said = ""
    try:
        made = transfer.import_file(source, store, print)
    except IncompatibleArtifactError as error:
        said = str(error)
    else:
        assert made.manifest == manifest
        assert intact_entry(store, manifest.fingerprint) == made
        store.quarantine(made.folder)
    assert list(store.entries()) == []
    assert len(said) < 2000
    with suppress(IncompatibleArtifactError), archive.opened(source) as packed:
        assert packed.manifest == manifest


@pytest.mark.slow
@many
@given(data=st.binary(max_size=1500), start=st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(18)]))
def test_of_any_bytes_only_the_documented_error_comes(tmp_path: Path, data: bytes, start: bytes) -> None:
    for text in (start + data, data + start, start + data + b"PK\x05\x06" + bytes(18)):
        (tmp_path / "file").write_bytes(text)
        with pytest.raises(IncompatibleArtifactError), archive.opened(tmp_path / "file"):
            pass
