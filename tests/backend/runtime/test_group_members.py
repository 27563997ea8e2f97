"""Who may write to a folder because of its group, as far as the user database says: what cannot be told is refused."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from kernelwheel.runtime.errors import StoreError
from kernelwheel.runtime.machine.permissions import Guard, Trust

ME, OTHER, THIRD, GROUP = 54320, 65534, 65533, 54321


class Database(NamedTuple):
    """What a user database says: the members that the folder's group lists, and the primary group of listed users.

    `concealed` are users that it knows by name and number and lists nowhere, as SSSD does with `enumerate = false`.
    """

    members: Sequence[str]
    listed: Mapping[str, tuple[int, int]]
    concealed: Mapping[str, tuple[int, int]] = {}


NAMED = {"me": (ME, GROUP), "other": (OTHER, GROUP)}
OUTSIDE = {"me": (ME, 1), "other": (OTHER, 1), "third": (THIRD, 1)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that its group may write to, with a cache in it; all is ME's."""
    above = tmp_path / "above"
    (above / "cache").mkdir(parents=True)
    above.chmod(0o2775)
    runs, fstat = os.geteuid(), os.fstat

    def pretended(descriptor: int) -> os.stat_result:
        info = fstat(descriptor)
        group = GROUP if os.path.samestat(info, above.stat()) else info.st_gid
        return os.stat_result([*info[:4], ME if info.st_uid == runs else info.st_uid, group, *info[6:10]])

    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(os, "fstat", pretended)
    return above


def say(monkeypatch: pytest.MonkeyPatch, database: Database) -> None:
    def entry(name: str, user: tuple[int, int]) -> SimpleNamespace:
        return SimpleNamespace(pw_name=name, pw_uid=user[0], pw_gid=user[1])

    listed = [entry("root", (0, 0)), *(entry(name, user) for name, user in database.listed.items())]
    known = [*listed, *(entry(name, user) for name, user in database.concealed.items())]

    def find(key: str, value: object) -> SimpleNamespace:
        found = [each for each in known if getattr(each, key) == value]
        if not found:
            raise KeyError(value)
        return found[-1]

    monkeypatch.setattr(pwd, "getpwall", lambda: listed)
    monkeypatch.setattr(pwd, "getpwnam", lambda name: find("pw_name", name))
    monkeypatch.setattr(pwd, "getpwuid", lambda number: find("pw_uid", number))
    monkeypatch.setattr(grp, "getgrgid", lambda number: SimpleNamespace(gr_name="team", gr_gid=number,
                                                                        gr_mem=list(database.members)))  # fmt: skip


def check(folder: Path, trust: Trust) -> None:
    Guard(folder / "cache", trust, "a cache", "CACHE", "TRUST").check(folder / "cache")


@pytest.mark.parametrize(
    ("database", "trusted"),
    [
        (Database([], {"me": (ME, GROUP)}), []),  # a user's private group, as useradd makes it
        (Database(["me"], OUTSIDE), []),  # a group of one that an administrator has made
        (Database(["me", "other"], OUTSIDE), [OTHER]),  # a team's, all of it trusted
        (Database(["me"], {**OUTSIDE, "other": (OTHER, GROUP)}), [OTHER]),
    ],
)
def test_a_group_is_accepted_if_all_its_members_are_known_and_trusted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, database: Database, trusted: list[int]
) -> None:
    say(monkeypatch, database)

    check(folder, Trust(frozenset(trusted)))


def test_a_folder_that_everybody_can_write_to_is_refused_whatever_its_group(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, Database([], {"me": (ME, GROUP)}))
    folder.chmod(0o2777)

    with pytest.raises(StoreError, match="a cache is not safe"):
        check(folder, Trust())


@pytest.mark.parametrize(
    "database",
    [
        # SSSD with `enumerate = false`: nobody's primary group is told; with `ignore_group_members`, no member is.
        Database([], {}, {"me": (ME, GROUP), "other": (OTHER, GROUP)}),
        Database([], {"third": (THIRD, 1)}, {"me": (ME, GROUP), "other": (OTHER, GROUP)}),
        # without `ignore_group_members`, those members are told whose primary group is another one
        Database(["me"], {}, {"me": (ME, 1), "other": (OTHER, GROUP)}),
        # this user is not in the group, or is in it unknown to the database
        Database(["third"], OUTSIDE),
        Database([], {"third": (THIRD, GROUP)}),
        # a member whose number is not known
        Database(["me", "removed"], OUTSIDE),
    ],
)
def test_a_group_whose_members_cannot_be_told_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    say(monkeypatch, database)

    with pytest.raises(StoreError, match="a cache is not safe") as caught:
        check(folder, Trust(frozenset({THIRD})))

    assert f"group {GROUP}" in caught.value.found
    assert caught.value.remedies == (f"chmod go-w {folder}", "or set CACHE to another folder")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_group_that_the_folder_s_owner_is_not_listed_in_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(folder, OTHER, -1)
    say(monkeypatch, Database(["me"], OUTSIDE))

    with pytest.raises(StoreError, match="not safe"):
        check(folder, Trust(frozenset({OTHER})))


@pytest.mark.parametrize("database", [Database(["me", "other"], OUTSIDE), Database([], NAMED)])
def test_a_group_with_a_member_that_is_not_trusted_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    say(monkeypatch, database)

    with pytest.raises(StoreError, match="not safe"):
        check(folder, Trust())
