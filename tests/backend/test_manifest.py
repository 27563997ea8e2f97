"""The manifest: read as it was written, or refused by name; and no byte of a library may differ from it."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from kernelwheel import manifest as manifests
from kernelwheel.errors import IncompatibleArtifactError
from kernelwheel.manifest import Library, Manifest, Requires

BYTES = bytes(range(256)) * 8
LIBRARY = Library("libtiny_cpu.so", hashlib.sha256(BYTES).hexdigest(), len(BYTES), "cpu")
MANIFEST = Manifest(
    package="tiny",
    version="1.2.3",
    fingerprint="f" * 64,
    sources="5" * 64,
    plan={"schema": 1, "cuda": None},
    built_with={"torch": "2.13.0+cpu", "cuda": {"enabled": False, "because": "a test"}},
    requires=Requires("2.10", "linux-x86_64", "glibc 2.34", "GLIBCXX_3.4.30", 13, "13.0", "13.2"),
    libraries=(LIBRARY, Library("libtiny_cuda.so", "a" * 64, 7, "cuda", ("9.0", "12.0f"), ("12.0f",))),
)


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A folder with one library, whole."""
    (tmp_path / LIBRARY.file).write_bytes(BYTES)
    return tmp_path


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifests.write(MANIFEST, tmp_path)

    assert manifests.read(tmp_path) == MANIFEST


def test_the_same_manifest_is_written_as_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    manifests.write(MANIFEST, tmp_path / "a")
    manifests.write(MANIFEST, tmp_path / "b")

    assert (tmp_path / "a/manifest.json").read_bytes() == (tmp_path / "b/manifest.json").read_bytes()


def test_a_folder_without_a_manifest_is_no_error_and_no_manifest(tmp_path: Path) -> None:
    assert manifests.read(tmp_path) is None


def test_the_libraries_are_told_apart_by_device() -> None:
    assert [lib.file for lib in MANIFEST.libraries_for("cpu")] == ["libtiny_cpu.so"]
    assert [lib.file for lib in MANIFEST.libraries_for("cuda")] == ["libtiny_cuda.so"]


def refusal_of(folder: Path, values: Any) -> IncompatibleArtifactError:
    """How a manifest with these JSON values is refused."""
    (folder / "manifest.json").write_text(values if isinstance(values, str) else json.dumps(values))
    with pytest.raises(IncompatibleArtifactError) as caught:
        manifests.read(folder)
    assert str(folder / "manifest.json") in str(caught.value)
    return caught.value


@pytest.mark.parametrize("schema", [0, 2, "1", None, [1]])
def test_a_manifest_of_another_schema_is_refused_with_both(tmp_path: Path, schema: object) -> None:
    error = refusal_of(tmp_path, {**MANIFEST.to_json(), "schema": schema})

    assert error.required == "schema 1"
    assert f"schema {schema!r}" in error.found


def test_a_manifest_of_another_schema_is_refused_whatever_else_it_holds(tmp_path: Path) -> None:
    assert refusal_of(tmp_path, {"schema": 2, "new": "shape"}).required == "schema 1"


@pytest.mark.parametrize("key", sorted(MANIFEST.to_json()))
def test_a_manifest_that_lacks_a_key_is_refused(tmp_path: Path, key: str) -> None:
    values = MANIFEST.to_json()
    del values[key]

    refusal_of(tmp_path, values)


@pytest.mark.parametrize("key", sorted(MANIFEST.to_json()["requires"]))
def test_a_manifest_that_lacks_a_requirement_is_refused(tmp_path: Path, key: str) -> None:
    values = MANIFEST.to_json()
    del values["requires"][key]

    refusal_of(tmp_path, values)


@pytest.mark.parametrize("key", ["file", "sha256", "size", "device", "sass", "ptx", "module"])
def test_a_manifest_that_lacks_a_fact_of_a_library_is_refused(tmp_path: Path, key: str) -> None:
    values = MANIFEST.to_json()
    del values["libraries"][0][key]

    refusal_of(tmp_path, values)


def test_a_manifest_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    refusal_of(tmp_path, {**MANIFEST.to_json(), "unknown": 1})


WRONG_TYPES: list[tuple[list[str | int], object]] = [
    (["package"], 3), (["version"], None), (["fingerprint"], 1), (["sources"], []), (["plan"], []), (["plan"], "x"),
    (["built_with"], "x"), (["built_with"], None), (["requires"], []), (["requires"], "x"),
    (["requires", "torch"], 2.10), (["requires", "torch"], "new"), (["requires", "torch"], "2.13.*.*"),
    (["requires", "python"], 312), (["libraries", 0, "module"], 1), (["requires", "platform"], None),
    (["requires", "libc"], 2.34), (["requires", "cuda"], "13"), (["requires", "driver_for_ptx"], 13.2),
    (["libraries"], {}), (["libraries"], "x"), (["libraries"], None), (["libraries", 0], "x"),
    (["libraries", 0, "file"], 3), (["libraries", 0, "sha256"], None), (["libraries", 0, "size"], "2048"),
    (["libraries", 0, "device"], "tpu"), (["libraries", 1, "sass"], "9.0"), (["libraries", 1, "sass"], [9.0]),
    (["libraries", 1, "ptx"], ["sm_90"]), (["libraries", 1, "ptx"], None),
]  # fmt: skip


@pytest.mark.parametrize(("place", "wrong"), WRONG_TYPES, ids=str)
def test_a_value_of_the_wrong_kind_is_refused(tmp_path: Path, place: list[str | int], wrong: object) -> None:
    values: Any = copy.deepcopy(MANIFEST.to_json())
    inner = values
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = wrong

    refusal_of(tmp_path, values)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "3", '"text"', "not json", "\ufeff{}", "{}"])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    refusal_of(tmp_path, text)


@given(length=st.integers(0, len(json.dumps(MANIFEST.to_json())) - 1))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_truncated_manifest_is_refused(tmp_path: Path, length: int) -> None:
    refusal_of(tmp_path, json.dumps(MANIFEST.to_json())[:length])


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(IncompatibleArtifactError, match=r"manifest\.json"):
        manifests.read(tmp_path)


def test_a_manifest_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()

    with pytest.raises(IncompatibleArtifactError, match=r"manifest\.json"):
        manifests.read(tmp_path)


@pytest.mark.parametrize(
    "name", ["../evil.so", "/lib/evil.so", "a/b.so", "..", ".", "", "..\\evil.so", "a\x00b.so"], ids=repr
)
def test_a_library_outside_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    values = MANIFEST.to_json()
    values["libraries"][0]["file"] = name

    assert repr(name) in refusal_of(tmp_path, values).found


# verify


def test_a_whole_library_is_let_through(artifact: Path) -> None:
    assert manifests.verify(artifact, LIBRARY) == artifact / LIBRARY.file


@given(position=st.integers(0, len(BYTES) - 1), bit=st.integers(0, 7))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_flipped_bit_of_a_library_is_found(artifact: Path, position: int, bit: int) -> None:
    changed = bytearray(BYTES)
    changed[position] ^= 1 << bit
    (artifact / LIBRARY.file).write_bytes(changed)

    with pytest.raises(IncompatibleArtifactError, match=LIBRARY.file) as caught:
        manifests.verify(artifact, LIBRARY)

    assert LIBRARY.sha256 in caught.value.found
    assert hashlib.sha256(changed).hexdigest() in caught.value.found


@pytest.mark.parametrize("length", [0, 1, len(BYTES) - 1])
def test_a_truncated_library_is_found(artifact: Path, length: int) -> None:
    (artifact / LIBRARY.file).write_bytes(BYTES[:length])

    with pytest.raises(IncompatibleArtifactError, match=f"{length} bytes"):
        manifests.verify(artifact, LIBRARY)


def test_a_library_with_bytes_at_its_end_is_found(artifact: Path) -> None:
    (artifact / LIBRARY.file).write_bytes(BYTES + b"\0")

    with pytest.raises(IncompatibleArtifactError, match="damaged"):
        manifests.verify(artifact, LIBRARY)


def test_a_missing_library_is_found(tmp_path: Path) -> None:
    with pytest.raises(IncompatibleArtifactError, match=LIBRARY.file) as caught:
        manifests.verify(tmp_path, LIBRARY)

    assert "reinstall" in caught.value.remedies[0]
