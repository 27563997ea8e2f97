"""The Store: complete entries or none, damage detected before anything is loaded, and nobody else's code."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from editables import Editable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernelwheel.runtime.artifact.artifact import Artifact, Damaged
from kernelwheel.runtime.errors import OtherSchemaError, StoreError
from kernelwheel.runtime.machine.permissions import Trust
from kernelwheel.runtime.store import store_lock
from kernelwheel.runtime.store.store import Store
from kernelwheel.runtime.store.store_lock import making, prepare
from kernelwheel.store import manifest_file
from kernelwheel.store.publishing import intact_entry, publish

many = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
FILES = ["libtiny_cpu.so", "manifest.json"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def only(store: Store) -> Artifact:
    """The only entry of a store, every byte of it verified."""
    (entry,) = store.entries()
    assert intact_entry(store, entry.manifest.fingerprint) == entry
    return entry


def is_found_whole(store: Store, fingerprint: str) -> bool:
    """Whether an entry is found; if it was damaged, it must be the only thing in quarantine afterwards."""
    found = intact_entry(store, fingerprint)
    if found is None:
        assert not (store.root / fingerprint).exists()
        assert len(list((store.root / ".quarantine").iterdir())) == 1
    return found is not None


# Damage


@many
@given(st.data())
def test_any_flipped_byte_of_any_file_and_any_other_length_is_found(compiled: Editable, data: st.DataObject) -> None:
    entry = only(compiled.store)
    path = entry.folder / data.draw(st.sampled_from(FILES))
    whole = path.read_bytes()
    position = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytes([whole[position] ^ data.draw(st.integers(1, 255))]) + whole[position + 1 :]
    longer = whole + data.draw(st.binary(min_size=1))
    path.write_bytes(data.draw(st.sampled_from([whole[:position], whole[:position] + flipped, longer])))

    assert not is_found_whole(compiled.store, entry.folder.name)
    restore(compiled, path.name, whole)


def restore(editable: Editable, name: str, data: bytes) -> None:
    """Move the entry back from quarantine, with one file restored."""
    root = editable.store.root
    (quarantined,) = (root / ".quarantine").iterdir()
    (quarantined / name).write_bytes(data)
    quarantined.rename(root / quarantined.name.partition(".")[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"file": "libtiny_cpu.so"', '"file": "../../../elsewhere.so"'),
        ('"package": "tiny"', '"package": "other"'),
        ('"fingerprint": "', '"fingerprint": "0'),
    ],
)
def test_a_manifest_that_points_elsewhere_or_is_another_s_is_damage(compiled: Editable, old: str, new: str) -> None:
    entry = only(compiled.store)
    library = (entry.folder / "libtiny_cpu.so").read_bytes()
    (compiled.folder / "elsewhere.so").write_bytes(library)
    path = entry.folder / "manifest.json"
    text = path.read_text()
    assert old in text
    path.write_bytes(manifest_file.signed(json.loads(text.replace(old, new))))

    (damaged,) = compiled.store.entries()
    assert isinstance(damaged, Damaged)
    assert "damaged" in damaged.error.problem
    assert not is_found_whole(compiled.store, entry.folder.name)


def test_a_read_only_store_says_what_is_wrong_with_an_entry_and_how_to_do_without(compiled: Editable) -> None:
    entry = only(compiled.store)
    path = entry.folder / "manifest.json"
    path.write_bytes(manifest_file.signed({**json.loads(path.read_text()), "schema": 0}))

    with pytest.raises(OtherSchemaError) as caught:
        list(compiled.store._replace(own=False).entries())
    assert caught.value.found == f"schema 0 in {path}"
    assert caught.value.remedies[0] == f"remove {entry.folder}"


def test_a_damaged_entry_does_not_hide_another(compiled: Editable) -> None:
    entry = only(compiled.store)
    damaged = compiled.store.root / ("0" * 64)
    shutil.copytree(entry.folder, damaged)

    first, second = compiled.store.entries()
    assert (first.folder, type(first), second) == (damaged, Damaged, entry)


def test_two_who_find_the_same_damage_both_go_on(compiled: Editable) -> None:
    folder = only(compiled.store).folder
    compiled.store.quarantine(folder)
    compiled.store.quarantine(folder)

    assert len(list((compiled.store.root / ".quarantine").iterdir())) == 1


def test_what_is_no_entry_is_left_alone(compiled: Editable) -> None:
    entry = only(compiled.store)
    for name in ("notes", "abc", ".hidden"):
        (compiled.store.root / name).mkdir()
    (compiled.store.root / "file").touch()

    assert list(compiled.store.entries()) == [entry]


# Somebody else's code


def entry_folder(store: Store) -> Path:
    return next(path for path in store.root.iterdir() if len(path.name) == 64)


def library(store: Store) -> Path:
    return entry_folder(store) / "libtiny_cpu.so"


PLACES: dict[str, Callable[[Store], Path]] = {
    "cache folder": lambda store: store.folder,
    "package": lambda store: store.folder / "tiny",
    "version": lambda store: store.root,
    "entry": entry_folder,
    "library": library,
    "manifest": lambda store: entry_folder(store) / "manifest.json",
}
everywhere = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
both_kinds = pytest.mark.parametrize("own", [True, False], ids=["own", "only read"])


def refusal(store: Store) -> str:
    """The error of a Store that refuses to be read, the same for every way of reading it."""
    fingerprint = entry_folder(store).name
    with pytest.raises(StoreError) as of_entry:
        intact_entry(store, fingerprint)
    with pytest.raises(StoreError) as of_entries:
        [artifact.verify() for artifact in store.entries()]
    assert str(of_entry.value) == str(of_entries.value)
    return str(of_entry.value)


@everywhere
@both_kinds
@pytest.mark.parametrize("bit", [0o020, 0o002])
def test_what_others_can_write_to_is_refused(
    compiled: Editable, place: Callable[[Store], Path], own: bool, bit: int
) -> None:
    store = Store(compiled.cache, "tiny", "1.2.3", own=own)
    path = place(store)
    path.chmod(path.stat().st_mode | bit)

    said = refusal(store)

    assert str(path) in said
    assert f"chmod go-w {path}" in said


@both_kinds
@pytest.mark.parametrize("name", [name for name in PLACES if name != "cache folder"])
def test_a_planted_link_is_refused(compiled: Editable, name: str, own: bool) -> None:
    store = Store(compiled.cache, "tiny", "1.2.3", own=own)
    path = PLACES[name](store)
    path.rename(compiled.folder / "elsewhere")
    path.symlink_to(compiled.folder / "elsewhere")

    assert f"remove {path}" in refusal(store)


@needs_root
@everywhere
def test_what_belongs_to_another_user_is_refused(compiled: Editable, place: Callable[[Store], Path]) -> None:
    path = place(compiled.store)
    os.chown(path, 65534, 65534)

    said = refusal(compiled.store)

    assert str(path) in said
    assert "owner 65534" in said


@needs_root
@both_kinds
def test_another_user_s_store_is_used_where_that_user_is_named_and_only_there(compiled: Editable, own: bool) -> None:
    for path in [compiled.cache, *compiled.cache.rglob("*")]:
        os.chown(path, 65534, 65534)
    store = Store(compiled.cache, "tiny", "1.2.3", own=own)

    assert "TINY_TRUSTED_OWNERS=65534" in refusal(store)
    assert "TINY_TRUSTED_OWNERS=65534" in refusal(store._replace(trust=Trust(frozenset({65533}))))
    only(store._replace(trust=Trust(frozenset({65534}))))
    only(store._replace(trust=Trust(everyone=True)))


@needs_root
@both_kinds
@pytest.mark.parametrize("owner", [0, 65534])
def test_a_store_below_a_folder_that_others_can_change_is_refused(compiled: Editable, own: bool, owner: int) -> None:
    above = compiled.cache.parent
    os.chown(above, owner, 65534)
    above.chmod(0o755 if owner else 0o775)  # its owner can change it, or a group that others are in

    assert str(above) in refusal(Store(compiled.cache, "tiny", "1.2.3", own=own))


@needs_root
def test_a_folder_that_a_list_of_users_may_write_to_is_refused(compiled: Editable) -> None:
    above = compiled.cache.parent
    # acl(5), as setfacl -m u:65534:rwx makes it: version 2; tag, permissions and user of each.
    entries = [(0x01, 7, -1), (0x02, 7, 65534), (0x04, 5, -1), (0x10, 7, -1), (0x20, 5, -1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(above, "system.posix_acl_access", acl)
    except OSError:
        pytest.skip("this file system has no access control lists")

    assert str(above) in refusal(compiled.store)


def test_the_cache_folder_may_be_this_user_s_link(compiled: Editable) -> None:
    compiled.cache.rename(compiled.folder / "scratch")
    compiled.cache.symlink_to(compiled.folder / "scratch")

    only(compiled.store)


@needs_root
def test_a_cache_folder_that_is_another_user_s_link_is_refused(compiled: Editable) -> None:
    compiled.cache.rename(compiled.folder / "scratch")
    compiled.cache.symlink_to(compiled.folder / "scratch")
    os.chown(compiled.cache, 65534, 65534, follow_symlinks=False)

    assert str(compiled.cache) in refusal(compiled.store)


def test_the_cache_folder_may_be_a_sticky_one_as_tmp_is(compiled: Editable) -> None:
    compiled.cache.chmod(0o1777)

    only(compiled.store)


@needs_root
@both_kinds
def test_what_another_user_put_into_a_sticky_folder_is_refused(compiled: Editable, own: bool) -> None:
    compiled.cache.chmod(0o1777)
    os.chown(compiled.cache / "tiny", 65534, 65534)

    assert str(compiled.cache / "tiny") in refusal(Store(compiled.cache, "tiny", "1.2.3", own=own))


@pytest.mark.parametrize("name", ["tiny", "tiny/1.2.3", "tiny/1.2.3/.work"])
def test_nothing_is_made_behind_a_planted_link(tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store = Store(tmp_path / "cache", "tiny", "1.2.3")
    (store.folder / name).parent.mkdir(parents=True)
    (store.folder / name).symlink_to(elsewhere)

    with pytest.raises(StoreError, match="not safe"), making(store, print):
        pass
    assert list(elsewhere.iterdir()) == []


# Making


@pytest.fixture
def whole(compiled: Editable) -> Callable[[Path], None]:
    """Fills a private folder as a compile does."""
    folder = only(compiled.store).folder

    def make(private: Path) -> None:
        for name in ("libtiny_cpu.so", "manifest.json"):
            shutil.copy(folder / name, private)

    return make


@pytest.fixture
def fresh(tmp_path: Path) -> Store:
    """A Store that does not exist yet."""
    return Store(tmp_path / "fresh" / "cache", "tiny", "1.2.3")


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_what_is_made_is_safe_whatever_the_umask(
    compiled: Editable, fresh: Store, whole: Callable[[Path], None], umask: int
) -> None:
    fingerprint = only(compiled.store).folder.name
    before = os.umask(umask)
    try:
        with making(fresh, print):
            publish(fresh, fingerprint, whole)
    finally:
        os.umask(before)

    assert fresh.folder.parent.stat().st_mode & 0o022 == 0
    private = {".lock": 0o600, ".work": 0o700}
    for path in [fresh.folder, *fresh.folder.rglob("*")]:
        expected = private.get(path.name, 0o755 if path.is_dir() else 0o644)
        assert path.name == ".maker" or path.stat().st_mode & 0o7777 == expected, path
    only(fresh)


def test_nobody_sees_an_entry_that_is_not_finished(
    compiled: Editable, fresh: Store, whole: Callable[[Path], None]
) -> None:
    modes = []

    def make(private: Path) -> None:
        whole(private)
        modes.append(private.stat().st_mode & 0o7777)
        (private / "libtiny_cpu.so").chmod(0o666)

    before = os.umask(0o000)
    try:
        with making(fresh, print):
            made = publish(fresh, only(compiled.store).folder.name, make)
    finally:
        os.umask(before)

    assert modes == [0o700]
    assert {path.stat().st_mode & 0o7777 for path in made.folder.iterdir()} == {0o644}


def test_a_make_that_fails_leaves_nothing(compiled: Editable, fresh: Store, whole: Callable[[Path], None]) -> None:
    def fail(private: Path) -> None:
        whole(private)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), making(fresh, print):
        publish(fresh, only(compiled.store).folder.name, fail)

    assert list(fresh.entries()) == []
    assert list((fresh.root / ".work").iterdir()) == []


def test_what_is_there_is_not_made_again(compiled: Editable) -> None:
    entry = only(compiled.store)
    with making(compiled.store, print):
        assert publish(compiled.store, entry.folder.name, lambda _: pytest.fail("made")) == entry


@pytest.mark.parametrize("name", ["../x", "", "abc", "0" * 63, "0" * 63 + "/"])
def test_an_entry_is_only_made_under_a_fingerprint(fresh: Store, name: str) -> None:
    with making(fresh, print), pytest.raises(ValueError, match="fingerprint"):
        publish(fresh, name, lambda _: None)


def test_leftovers_of_this_machine_go_and_those_of_others_have_a_day(fresh: Store) -> None:
    prepare(fresh)
    names = {
        "dead": f"0.1{store_lock.mark(fresh)}",
        "theirs": "0.2@another",
        "old": "0.3@another",
        "removed": "removed.1",
    }
    for name in names.values():
        (fresh.root / ".work" / name).mkdir()
    old = time.time() - 2 * store_lock.DAY
    os.utime(fresh.root / ".work" / names["old"], (old, old))

    with making(fresh, print):
        left = [path.name for path in (fresh.root / ".work").iterdir()]

    assert left == [names["theirs"]]


def test_a_clock_that_was_set_forward_takes_no_grace_away(fresh: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(fresh)
    theirs = fresh.root / ".work" / "0.2@another"
    theirs.mkdir()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 10 * store_lock.DAY)

    with making(fresh, print):
        assert theirs.is_dir()


def test_without_locks_nobody_removes_what_another_may_be_making(fresh: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    prepare(fresh)
    theirs = fresh.root / ".work" / f"0.1{store_lock.mark(fresh)}"
    theirs.mkdir()

    with making(fresh, lambda maker: pytest.fail("waited")):
        assert theirs.is_dir()
