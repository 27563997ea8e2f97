"""Maintenance of a Store: what is kept, what is damaged, what is removed, and what always stays."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import contents
from kept import fill, relabel
from kernelwheel.runtime.machine.fork_safe_locks import exclusive
from kernelwheel.runtime.store.clearing import clear, size_of
from kernelwheel.runtime.store.store import Store
from kernelwheel.runtime.store.store_lock import DAY
from kernelwheel.store import pruning
from kernelwheel.store.inventory import take_inventory
from kernelwheel.store.verification import verify_entries
from samples import flip


@pytest.fixture
def store(tmp_path: Path, entry: Path) -> Store:
    """A store with one real entry of tiny 1.2.3."""
    store = Store(tmp_path / "cache", "tiny", "1.2.3")
    fill(store, entry)
    return store


def fingerprints(store: Store) -> list[tuple[str, str]]:
    return [(kept.version, kept.folder.name) for kept in take_inventory(store).entries]


# What is kept


def test_an_inventory_knows_every_entry_of_every_version(store: Store, entry: Path) -> None:
    old = fill(store._replace(version="1.2.2"), entry).folder

    kept = take_inventory(store).entries

    assert [(each.version, each.folder.name, each.damage) for each in kept] == [
        ("1.2.2", old.name, ""),
        ("1.2.3", entry.name, ""),
    ]
    assert kept[0].size == sum(path.stat().st_size for path in kept[0].folder.iterdir())
    assert abs(kept[0].made - time.time()) < 600


def test_another_package_is_none_of_our_business(store: Store, entry: Path) -> None:
    fill(store._replace(package="other", version="9"), entry)
    before = contents(store.folder / "other")

    verify_entries(store)
    for older_than in (None, 0):
        pruning.prune(store, older_than, time.time())
    cleaning = clear(store, all_versions=True)

    assert before
    assert contents(store.folder / "other") == before
    assert fingerprints(store) == []
    assert cleaning.skipped == []


def test_a_version_that_others_can_write_to_is_refused_and_the_rest_is_shown(store: Store, entry: Path) -> None:
    foreign = store._replace(version="1.2.2")
    fill(foreign, entry)
    foreign.root.chmod(0o777)

    seen = take_inventory(store)

    assert [kept.version for kept in seen.entries] == ["1.2.3"]
    assert str(foreign.root) in str(seen.refused[0])


def test_links_are_not_followed(store: Store, entry: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(store.root, outside / "1.2.2")
    before = contents(outside)
    (store.root.parent / "1.2.2").symlink_to(outside / "1.2.2")
    (store.root / ("a" * 64)).symlink_to(outside / "1.2.2" / entry.name)
    (store.root / ".quarantine").symlink_to(outside)

    cleaning = clear(store, all_versions=True)

    assert contents(outside) == before
    assert str(store.root.parent / "1.2.2") in cleaning.skipped[0]
    assert sorted(removed.name for removed in cleaning.removed) == sorted(["a" * 64, entry.name])
    assert fingerprints(store) == []


# What is damaged


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped byte in a library": lambda folder: flip(folder / "libtiny_cpu.so", 1000),
    "a library gone": lambda folder: (folder / "libtiny_cpu.so").unlink(),
    "a flipped byte in the manifest": lambda folder: flip(folder / "manifest.json", 30),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "the name of another fingerprint": lambda folder: folder.rename(folder.with_name("b" * 64)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_verify_puts_a_damaged_entry_into_quarantine_and_names_it(
    store: Store, entry: Path, damage: Callable[[Path], object]
) -> None:
    whole = relabel(store, entry, cxx_version="99.1")
    damage(store.root / entry.name)

    _, (found,) = verify_entries(store)

    assert found.damage
    assert found.moved is not None
    assert found.moved.parent == store.root / ".quarantine"
    assert found.moved.is_dir()
    assert fingerprints(store) == [("1.2.3", whole.name)]
    assert verify_entries(store)[1] == ()


def test_verify_leaves_a_read_only_store_as_it_is(store: Store, entry: Path) -> None:
    flip(store.root / entry.name / "libtiny_cpu.so", 1000)
    before = contents(store.folder)

    _, (found,) = verify_entries(store._replace(own=False))

    assert found.moved is None
    assert contents(store.folder) == before


# What is removed


def test_prune_removes_entries_quarantine_and_leftovers_and_says_what_it_freed(store: Store, entry: Path) -> None:
    foreign = store._replace(version="1.2.2")
    old = fill(foreign, entry).folder
    damaged = relabel(store, entry, cxx_version="99.1")
    flip(damaged / "libtiny_cpu.so", 5)
    verify_entries(store)
    left = store.root / ".work" / "dead"
    left.mkdir(parents=True)
    (left / "part.so").write_bytes(b"x" * 1000)
    size = size_of(old) + size_of(store.root / ".quarantine") + 1000
    damaged_ones = [*(store.root / ".quarantine").iterdir()]

    done, _ = pruning.prune(store, None, time.time())

    assert {old, left, *damaged_ones} == done.removed.keys()
    assert sum(done.removed.values()) == size
    assert done.skipped == []
    assert fingerprints(store) == [("1.2.3", entry.name)]
    assert list((store.root / ".quarantine").iterdir()) == []
    assert list((store.root / ".work").iterdir()) == []


def test_the_lock_file_stays_the_same_file(store: Store, entry: Path) -> None:
    foreign = store._replace(version="1.2.2")
    fill(foreign, entry)
    locks = [store.root / ".lock", foreign.root / ".lock"]
    for lock in locks:
        with exclusive(lock):
            pass
    before = [lock.stat().st_ino for lock in locks]

    pruning.prune(store, None, time.time())
    clear(store, all_versions=True)

    assert fingerprints(store) == []
    assert [lock.stat().st_ino for lock in locks] == before


def test_clear_removes_this_version_and_no_other_unless_told(store: Store, entry: Path) -> None:
    old = fill(store._replace(version="1.2.2"), entry).folder

    assert [removed.parent.name for removed in clear(store).removed] == ["1.2.3"]
    assert fingerprints(store) == [("1.2.2", old.name)]
    assert [removed.parent.name for removed in clear(store, all_versions=True).removed] == ["1.2.2"]
    assert fingerprints(store) == []


def test_what_a_store_does_not_make_stays(store: Store) -> None:
    (store.root / "notes.txt").write_text("mine")
    (store.root / "folder").mkdir()

    clear(store, all_versions=True)

    assert (store.root / "notes.txt").read_text() == "mine"
    assert (store.root / "folder").is_dir()


def test_what_cannot_be_removed_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "rename", rename)

    cleaning = clear(store)

    assert cleaning.removed == {}
    assert "Permission denied" in cleaning.skipped[0]


# Builds

BUILD = f"kernelwheel-{'a' * 32}"


def make_build(store: Store, name: str, days: float) -> Path:
    """A build folder that was last used this many days ago."""
    with store.guard.opened(store.builds, make=0o700):
        pass
    path = store.builds / name
    (path / "build").mkdir(parents=True)
    (path / "build" / "one.o").write_bytes(b"1234")
    (path / "reusable.json").touch()
    then = time.time() - days * DAY
    os.utime(path, (then, then))
    return path


@pytest.mark.parametrize("name", ["kernelwheel-abc", "mine", f"{BUILD}.old", BUILD.upper(), f"{BUILD}0", "x.lock"])
def test_a_folder_that_has_another_name_than_builds_have_is_nobody_s_to_remove(store: Store, name: str) -> None:
    path = make_build(store, name, 400)

    pruned, _ = pruning.prune(store, 0, time.time())

    assert path not in {**pruned.removed, **clear(store).removed}
    assert path.is_dir()


def test_builds_that_nobody_used_for_a_month_are_pruned(store: Store) -> None:
    old, young = make_build(store, BUILD, 31), make_build(store, BUILD.replace("a", "b"), 29)

    done, _ = pruning.prune(store, None, time.time())

    assert done.removed == {old: 4}
    assert [old.exists(), young.exists()] == [False, True]
    assert [*pruning.prune(store, 28 * DAY, time.time())[0].removed] == [young]


def test_clearing_removes_all_builds_but_one_that_is_in_use(store: Store) -> None:
    used, idle = make_build(store, BUILD, 0), make_build(store, BUILD.replace("a", "b"), 0)
    with exclusive(used.with_suffix(".lock")):
        cleaning = clear(store)

    assert [used.exists(), idle.exists()] == [True, False]
    assert str(store.builds) in cleaning.skipped[0]
    assert "build" not in {kept.version for kept in take_inventory(store).entries}
    clear(store)
    assert [path.suffix for path in store.builds.iterdir()] == [".lock", ".lock"]
