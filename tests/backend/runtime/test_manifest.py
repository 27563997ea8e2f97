"""The manifest: read back exactly as written, or refused with the reason; every byte of a library must match it.

A changed one is refused by whoever reads it, a forged one by whoever is given a file: nobody else can write the others.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from kernelwheel.cli.manifest_text import manifest_text
from kernelwheel.runtime import Kernels
from kernelwheel.runtime.artifact import manifest as manifests
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.artifact.compatible import Wanted, check
from kernelwheel.runtime.artifact.manifest import Library
from kernelwheel.runtime.errors import BuildError, IncompatibleArtifactError
from kernelwheel.runtime.machine.host import Host
from kernelwheel.store import manifest_fields, manifest_file
from kernelwheel.store.manifest_fields import PARTS
from samples import BYTES, CPU_LIBRARY, CUDA_LIBRARY, LIBRARY, Values, follow_plan, sample
from standins import make_machine

MANIFEST = sample(LIBRARY, CUDA_LIBRARY)


def of_modules(torch: str, required: str) -> manifests.Manifest:
    made = sample(LIBRARY._replace(file="_C.so", module="_C"), binding={"python": "cp312", "torch": torch})
    return made._replace(requires=made.requires._replace(python="cp312", torch=required))


MODULES = of_modules("2.13.0+cpu", "2.13.*")
BETWEEN = "2.15.0.dev20261101+cu130"
TEXT = manifest_file.to_bytes(MANIFEST)
many = hypothesis_settings(max_examples=75, deadline=None, suppress_health_check=list(HealthCheck))
Place = tuple[str | int, ...]


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A folder with one intact library."""
    (tmp_path / LIBRARY.file).write_bytes(BYTES)
    return tmp_path


@pytest.mark.parametrize(
    "manifest",
    [MANIFEST, MODULES, of_modules(BETWEEN, BETWEEN), sample(LIBRARY)],
    ids=["CUDA", "modules", "modules for a nightly", "CPU"],
)
def test_a_manifest_is_read_as_it_was_written(tmp_path: Path, manifest: manifests.Manifest) -> None:
    (tmp_path / manifests.FILE).write_bytes(manifest_file.to_bytes(manifest))

    assert manifests.read(tmp_path) == manifest
    written = json.loads((tmp_path / "manifest.json").read_text())
    assert written == {**manifest.to_json(), "digest": written["digest"]}
    assert (tmp_path / "manifest.json").read_bytes() == manifest_file.to_bytes(manifest), "the same bytes each time"


def test_a_folder_without_a_manifest_is_no_error_and_no_manifest(tmp_path: Path) -> None:
    assert manifests.read(tmp_path) is None


def test_the_schema_has_every_field_of_a_plan(tmp_path: Path) -> None:
    """Whoever adds a field to the Plan adds it to the manifest's schema."""
    plan = make_machine(tmp_path).draw().to_json()
    schema: Any = manifest_fields._PLAN
    assert plan.keys() == schema.keys()
    for part in PARTS:
        assert plan[part].keys() == schema[part].keys()
    assert plan["target"]["cuda"].keys() == schema["target"]["cuda"][0].keys()


# The digest


@given(position=st.integers(0, len(TEXT) - 1), change=st.integers(1, 255))
@many
def test_any_flipped_byte_of_a_manifest_is_found(position: int, change: int) -> None:
    with pytest.raises(IncompatibleArtifactError):
        manifests.from_bytes(TEXT[:position] + bytes([TEXT[position] ^ change]) + TEXT[position + 1 :], "a test")


# What is refused


def forgery(values: Values) -> str:
    """What is wrong with a manifest that was written with these JSON values, maybe by somebody else."""
    with pytest.raises(IncompatibleArtifactError) as caught:
        manifest_file.from_stranger(manifest_file.signed(values), "a test")
    assert caught.value.problem == "the compiled kernels are damaged"
    assert caught.value.found.startswith("a test: ")
    assert len(str(caught.value)) < 1000
    return caught.value.found


def refusal_of(folder: Path, text: bytes) -> IncompatibleArtifactError:
    """The error for a manifest with these bytes, raised when it is read, not at import."""
    (folder / "manifest.json").write_bytes(text)
    kernels = Kernels("tiny", "1.2.3", folder, {})
    kernels.load_if_usable()
    with pytest.raises(IncompatibleArtifactError) as required:
        kernels.require("cpu")
    with pytest.raises(IncompatibleArtifactError) as caught:
        manifests.read(folder, "tiny")
    assert str(caught.value) == str(required.value)
    assert str(folder / "manifest.json") in str(caught.value)
    assert len(str(caught.value)) < 1000
    return caught.value


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """The places of all values inside a JSON value, itself first."""
    yield place
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield from places(inner, (*place, name))


def at(values: Any, place: Place) -> Any:
    for name in place:
        values = values[name]
    return values


def changed(place: Place, value: object) -> Values:
    """The manifest with one value changed as a forger would: with the resulting fingerprint and digests."""
    values = copy.deepcopy(MANIFEST.to_json())
    at(values, place[:-1])[place[-1]] = value
    if place[0] == "plan" and isinstance(at(values, ("plan",)), dict):
        with suppress(KeyError, TypeError):  # it follows from nothing
            follow_plan(values)
    return values


@pytest.mark.parametrize("schema", [0, "4", None, 2])
def test_a_manifest_of_another_schema_is_refused_with_both(tmp_path: Path, schema: object) -> None:
    error = refusal_of(tmp_path, manifest_file.signed({**MANIFEST.to_json(), "schema": schema}))

    assert error.required == "schema 1"
    assert f"schema {schema!r}" in error.found


def test_a_manifest_of_another_schema_is_refused_whatever_else_it_holds(tmp_path: Path) -> None:
    assert refusal_of(tmp_path, b'{"schema": 2, "new": "shape"}').required == "schema 1"


OBJECTS = [place for place in places(MANIFEST.to_json()) if isinstance(at(MANIFEST.to_json(), place), dict)]
FREE = [
    ("plan", "content", "sources"), ("plan", "content", "options"), ("plan", "tools", "recipe"),
    ("plan", "tools", "toolkit"), ("built_with", "settings"),
]  # fmt: skip
FIELDS = [(*place, name) for place in OBJECTS if place not in FREE for name in at(MANIFEST.to_json(), place)]


@pytest.mark.parametrize("place", FIELDS, ids=str)
def test_a_manifest_that_lacks_a_field_is_refused(place: Place) -> None:
    values = copy.deepcopy(MANIFEST.to_json())
    del at(values, place[:-1])[place[-1]]

    forgery(values)


def test_a_manifest_without_a_digest_is_refused(tmp_path: Path) -> None:
    assert "no digest" in refusal_of(tmp_path, json.dumps(MANIFEST.to_json()).encode()).found


@pytest.mark.parametrize("place", [place for place in OBJECTS if place not in FREE], ids=str)
def test_a_manifest_with_an_unknown_key_is_refused(place: Place) -> None:
    values = copy.deepcopy(MANIFEST.to_json())
    at(values, place)["unknown"] = 1

    assert "unknown" in forgery(values)


WRONG: dict[str, list[object]] = {
    "package": [3, None, "", "a b", "../x", "x" * 101],
    "version": [None, "", "..", "1/2", "new", 1, "1." + "9" * 5000],
    "fingerprint": [1, "f" * 63, "F" * 64, "g" * 64, "f" * 32 + " " + "f" * 31],
    "plan.schema": ["1", None, -1, 1.0, 2],
    "plan.content.sources": [[], {"CMakeLists.txt": 1}, {"CMakeLists.txt": "1" * 63}, {"x\u001b[2J": "1" * 64}],
    "plan.tools.cxx.version": [12, None, "x" * 5000],
    "plan.content.options.cxx-flags": [2, None, [1], ["\ud800"], ["-O2"] * 1001],
    "plan.target.cuda": [[], {}, "13", True],
    "plan.target.cuda.sass": ["9.0", [9.0], ["sm_90"], [None]],
    "plan.tools.toolkit": [[], {}, {"version": 13}, {"version": "new"}, {"version": "13.0", "nvcc": 1}],
    "plan.content.torch_target": [2.10, "new", "2", None],
    "plan.content.extensions": [{}, None, [1], [{}], [{"name": "a"}]],
    "built_with.settings": [[], {"cuda": "auto"}, {"cuda": {"value": {}, "origin": "x"}}, {"a b": {}}],
    "requires.torch": [2.10, "new", "2.13.*.*", "2." + "1" * 5000],
    "requires.platform": [None, "", "linux x"],
    "requires.libc": [2.34, "2.34", "glibc", "glibc " + "2." * 50 + "1", "glibc 2." + "1" * 5000],
    "requires.driver": ["new", 13, "", "13.x", "13"],
    "libraries": [{}, "x", None, [], ["x"], [None]],
    "libraries.0.file": [3, "", "../evil.so", "/lib/evil.so", "a/b.so", "..", ".", "..\\evil.so", "a\0b.so",
                         "manifest.json", "x" * 101, "ä.so"],
    "libraries.0.size": ["2048", 0, -1, 8 << 30, True],
    "libraries.0.device": ["tpu", None, ["cpu"]],
    "libraries.0.module": [1, "a..b", "", "a b"],
    "libraries.1.sass": ["9.0", [9.0], None, ["9.0", "90"], ["9.00"], [".0"], ["9." + "0" * 5000]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "wrong"),
    [(place, wrong) for place in WRONG for wrong in WRONG[place]],
    ids=lambda value: repr(value)[:40],
)
def test_a_value_of_the_wrong_kind_is_refused(place: str, wrong: object) -> None:
    names = tuple(int(name) if name.isdecimal() else name for name in place.split("."))

    assert "digest does not" not in forgery(changed(names, wrong))


# One value that does not go with the others.
CONTRADICTIONS: dict[str, tuple[Place, object]] = {
    "no CUDA in the Plan": (("plan", "target", "cuda"), None),
    "no toolkit in the Plan": (("plan", "tools", "toolkit"), None),
    "CUDA kernels marked CPU": (("libraries", 1, "device"), "cpu"),
    "no CUDA library": (("libraries",), [CPU_LIBRARY._asdict()]),
    "no libraries": (("libraries",), []),
    "one name twice": (("libraries", 1, "file"), LIBRARY.file),
    "no driver": (("requires", "driver"), None),
    "a module without a binding": (("libraries", 0, "module"), "_C"),
    "a binding without modules": (("plan", "target", "binding"), {"python": "cp312", "torch": "2.13.0"}),
    "a Python without a binding": (("requires", "python"), "cp312"),
    "another torch": (("requires", "torch"), "2.11"),
    "another platform": (("requires", "platform"), "linux-aarch64"),
}


@pytest.mark.parametrize(("place", "value"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_manifest_that_contradicts_itself_is_refused(place: Place, value: object) -> None:
    values = changed(place, value)
    follow_plan(values)

    assert "digest" not in forgery(values)


@pytest.mark.parametrize(
    ("bound", "cuda", "libraries", "why"),
    [
        (False, 13, (CPU_LIBRARY, CUDA_LIBRARY), ""),
        (False, 13, (CPU_LIBRARY,), "requires.cuda does not match its libraries"),
        (True, 13, (CPU_LIBRARY, CUDA_LIBRARY), ""),
        (True, None, (CPU_LIBRARY, CUDA_LIBRARY), "its Plan has a binding, but requires.cuda is none"),
    ],
)
def test_the_cuda_major_of_torch_is_required_where_it_binds(
    bound: bool, cuda: int | None, libraries: tuple[Library, ...], why: str
) -> None:
    values = sample(*libraries).to_json()
    values["requires"]["cuda"] = cuda
    if bound:
        values["plan"]["target"]["binding"] = {"python": None, "torch": "2.13.0+cu132"}
        values["requires"]["torch"] = "2.13.*"
        follow_plan(values)

    if why:
        assert why in forgery(values)
    else:
        assert manifest_file.from_stranger(manifest_file.signed(values), "a test").requires.cuda == cuda


@pytest.mark.parametrize(("torch", "required"), [("2.13.0", "2.14.*"), ("2.13.0", "2.13.0"), (BETWEEN, "2.15.*")])
def test_modules_require_the_torch_that_they_were_compiled_for(torch: str, required: str) -> None:
    assert "requires.torch" in forgery(of_modules(torch, required).to_json())


@pytest.mark.parametrize("name", ["package", "version", "sources", "fingerprint"])
def test_a_manifest_that_is_not_its_plan_s_is_refused(name: str) -> None:
    other = sample(package="tiny", version="1.2.4", sources={"CMakeLists.txt": "9" * 64}).to_json()
    other["package"] = "other"
    values = {**MANIFEST.to_json(), name: other[name]}

    assert name in forgery(values)


def test_another_package_s_manifest_is_refused(tmp_path: Path) -> None:
    text = manifest_file.to_bytes(sample(package="other"))

    assert "manifest of other, not of tiny" in refusal_of(tmp_path, text).found


EARLIER = copy.deepcopy(MANIFEST.to_json())
del EARLIER["plan"]["content"]["devices"]


@pytest.mark.parametrize("values", [EARLIER, {**MANIFEST.to_json(), "libraries": None}, {"schema": 1, "plan": []}])
def test_a_manifest_of_another_shape_is_refused(tmp_path: Path, values: Values) -> None:
    """As one of a build before a field was added, in a checkout that was compiled from then."""
    refusal_of(tmp_path, manifest_file.signed(values))


@pytest.mark.parametrize("file", ["../evil.so", "/lib/evil.so", "a/b.so", 3])
def test_a_library_outside_the_manifest_s_folder_is_refused(tmp_path: Path, file: object) -> None:
    refusal_of(tmp_path, manifest_file.signed(changed(("libraries", 0, "file"), file)))


@pytest.mark.parametrize("text", [b"", b"{", b"null", b"[]", b"\xef\xbb\xbf{}", b"{}", b"\xff\xfe\x00"])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: bytes) -> None:
    refusal_of(tmp_path, text)


def in_its_plan(text: bytes) -> bytes:
    return TEXT.replace(b'"schema": 1', b'"schema": ' + text, 1)


HEAVY: dict[str, bytes] = {
    "nested objects": in_its_plan(b'{"a":' * 100_000),
    "lists, less than are refused unseen": in_its_plan(b"[" * 900 + b"]" * 900),
    "a number of many digits": in_its_plan(b"1" * 1_000_000),
    "a fraction": in_its_plan(b"1.0"),
    "NaN": in_its_plan(b"NaN"),
    "a duplicate key": in_its_plan(b'1, "schema": 1'),
    "a digest of no length": TEXT.replace(json.loads(TEXT)["digest"].encode(), b"").ljust(4_000_000),
    "a long name": in_its_plan(b'"' + b"x" * 3_000_000 + b'"'),
    "many lists": in_its_plan(b"[" + b"[]," * 1_000_000 + b"[]]"),
    "text beyond ASCII": in_its_plan("Ä".encode()),
}


@pytest.mark.parametrize("text", HEAVY.values(), ids=HEAVY)
def test_a_manifest_that_would_take_long_or_much_is_refused(tmp_path: Path, text: bytes) -> None:
    refusal_of(tmp_path, text)
    tracemalloc.start()
    try:
        with pytest.raises(IncompatibleArtifactError):
            manifest_file.from_stranger(text, "a test")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 5 * manifests.LARGEST


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").symlink_to("/dev/zero")

    with pytest.raises(IncompatibleArtifactError):
        manifests.read(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "manifest.json")

    with pytest.raises(IncompatibleArtifactError):
        manifests.read(tmp_path)


def test_a_manifest_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()

    with pytest.raises(IncompatibleArtifactError, match=r"manifest\.json"):
        manifests.read(tmp_path)


def test_a_build_cannot_write_what_no_import_would_read() -> None:
    with pytest.raises(BuildError, match="sources"):
        manifest_file.to_bytes(sample(sources={"a\nb\0": "1" * 64}))


def test_a_manifest_that_says_a_thing_twice_is_refused() -> None:
    digest = json.loads(TEXT)["digest"].encode()
    twice = TEXT.replace(digest, manifests.ZEROS.encode()).replace(b'"version"', b'"version": "1", "version"', 1)
    forged = twice.replace(manifests.ZEROS.encode(), hashlib.sha256(twice).hexdigest().encode())

    with pytest.raises(IncompatibleArtifactError, match="duplicate key"):
        manifest_file.from_stranger(forged, "a test")


# Whatever is read, does no harm later

MACHINES = [
    Host("linux-x86_64", "glibc 2.36", "GLIBCXX_3.4.30", "2.11.0+cu130", "13.0", "cp312", (13, 2), ((9, 0), (12, 0))),
    Host("linux-x86_64", "", "", "2.13.0+cpu", None, "cp312"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**20) | st.text(max_size=8) | st.floats()
    | st.sampled_from(["", "1" * 5000, "9.0", "13.0", "x" * 200, "\ud800", "a\nb", "0" * 64, "..", 0, 13, [], {}]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@st.composite
def mutants(draw: st.DrawFn) -> bytes:
    """Manifests with up to three values changed, removed, added or repeated, then signed as if they were intact."""
    values = copy.deepcopy(draw(st.sampled_from([MANIFEST, MODULES])).to_json())
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(list(places(values))[1:]))
        inside, name = at(values, place[:-1]), place[-1]
        change = draw(st.sampled_from(["set", "other", "delete", "add"]))
        if change == "set":
            inside[name] = draw(JSON)
        elif change == "other":
            inside[name] = copy.deepcopy(at(values, draw(st.sampled_from(list(places(values))[1:]))))
        elif change == "delete":
            del inside[name]
        elif isinstance(inside, list):
            inside.append(draw(JSON))
        else:
            inside[draw(st.text(max_size=8))] = draw(JSON)
    if draw(st.booleans()):
        with suppress(KeyError, TypeError, AttributeError):
            follow_plan(values)
    return manifest_file.signed(values)


@given(text=mutants())
@many
def test_what_is_read_of_a_changed_manifest_can_be_used(text: bytes) -> None:
    try:
        manifest = manifest_file.from_stranger(text, "a test")
    except IncompatibleArtifactError:
        return
    for machine in MACHINES:
        check(manifest, machine)
    check(manifest, MACHINES[0], Wanted("1.2.3", MANIFEST.content))
    manifest_text(manifest).encode()
    assert manifests.from_bytes(manifest_file.to_bytes(manifest), "a test") == manifest


# verify


def test_a_whole_library_is_let_through(artifact: Path) -> None:
    with os.fdopen(Artifact(artifact, MANIFEST).open_library(LIBRARY), "rb") as stream:
        assert stream.read() == BYTES


@given(position=st.integers(0, len(BYTES) - 1), bit=st.integers(0, 7))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_flipped_bit_of_a_library_is_found(artifact: Path, position: int, bit: int) -> None:
    changed = bytearray(BYTES)
    changed[position] ^= 1 << bit
    (artifact / LIBRARY.file).write_bytes(changed)

    with pytest.raises(IncompatibleArtifactError, match=LIBRARY.file) as caught:
        Artifact(artifact, MANIFEST).open_library(LIBRARY)

    assert LIBRARY.sha256 in caught.value.found
    assert hashlib.sha256(changed).hexdigest() in caught.value.found


@pytest.mark.parametrize("data", [b"", BYTES[:-1], BYTES + b"\0"], ids=len)
def test_a_library_of_another_length_is_found(artifact: Path, data: bytes) -> None:
    (artifact / LIBRARY.file).write_bytes(data)

    with pytest.raises(IncompatibleArtifactError, match=f"{len(data)} bytes"):
        Artifact(artifact, MANIFEST).open_library(LIBRARY)


def test_a_missing_library_is_found(tmp_path: Path) -> None:
    with pytest.raises(IncompatibleArtifactError, match=LIBRARY.file) as caught:
        Artifact(tmp_path, MANIFEST).open_library(LIBRARY)

    assert "reinstall" in caught.value.remedies[0]
