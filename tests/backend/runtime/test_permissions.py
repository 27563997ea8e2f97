"""Two users on one machine: one never uses what the other made, however they race."""

from __future__ import annotations

import ctypes
import grp
import os
import pwd
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import kernelwheel
import pytest
from kernelwheel.compiler.work_folder import locked_workdir
from kernelwheel.project.build_settings import BuildSettings
from kernelwheel.runtime.errors import KernelWheelError, StoreError
from kernelwheel.runtime.machine.permissions import NOBODY_ELSE, Guard, Trust
from kernelwheel.runtime.store.store import Store, stores
from standins import make_machine

VICTIM, ATTACKER = 65533, 65534
SHOTS = int(os.environ.get("SPLAT_TEST_SHOTS", "10"))

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="starts processes as two other users")]


def as_user(user: int, act: Callable[[], None], real: int | None = None, groups: Sequence[int] = ()) -> int:
    """Fork a child that acts as a user and exits with status 0 if it succeeds; returns its process id.

    With `real`, the program appears to have been started by that user, as a setuid program is. `groups` are those that
    the user is in besides the one of the same number.
    """
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setgroups(groups)
        os.setresgid(user, user, user)
        os.setresuid(user if real is None else real, user, user)
        act()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def succeeded(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder like /tmp: everyone may add to it, but remove only their own files."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def attack(cache: Path, plant: Callable[[Path], None]) -> None:
    """Keep putting something where the victim is about to make its folders, as early as possible."""
    while True:
        for place in (cache, cache / "tiny", cache / "tiny" / ".build"):
            with suppress(OSError):
                plant(place)


def plant_folder(place: Path) -> None:
    place.mkdir(mode=0o777)
    place.chmod(0o777)


def plant_link(place: Path) -> None:
    place.symlink_to("/var/tmp")  # a folder of root's: only the link is the attacker's


@pytest.mark.slow
@pytest.mark.parametrize("plant", [plant_folder, pytest.param(plant_link, marks=pytest.mark.minutes)])
def test_a_folder_that_another_user_makes_first_is_never_used(
    public: Path, tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    plan = make_machine(tmp_path / "machine").draw(cuda="off")
    own = Path(tempfile.mkdtemp(dir=public))
    os.chown(own, VICTIM, VICTIM)
    tempfile.tempdir = str(own)  # what the victim falls back to
    used = own / "used"

    def shoot(cache: Path) -> None:
        store = Store(cache, "tiny", "1.2.3")
        with locked_workdir(plan, store, NOBODY_ELSE, lambda line: None) as work:
            for folder in (work, *work.parents):
                info = folder.stat()
                others_write = info.st_mode & 0o022 and not info.st_mode & 0o1000
                assert info.st_uid in (VICTIM, 0), folder
                assert not others_write, folder
            if work.is_relative_to(cache):
                used.touch()

    def outcome(cache: Path) -> str:
        assert succeeded(as_user(VICTIM, lambda: shoot(cache)))
        kind = "used" if used.exists() else "fell back"
        used.unlink(missing_ok=True)
        return kind

    outcomes: Counter[str] = Counter()
    try:
        assert outcome(public / "mine") == "used"
        assert succeeded(as_user(ATTACKER, lambda: plant(public / "theirs")))
        assert outcome(public / "theirs") == "fell back"
        for shot in range(SHOTS):
            cache = public / f"cache{shot}"
            attacker = as_user(ATTACKER, lambda cache=cache: attack(cache, plant))  # type: ignore[misc]
            if shot % 2:
                time.sleep(0.002)  # each of the two is the first now and then
            try:
                outcomes[outcome(cache)] += 1
            finally:
                os.kill(attacker, signal.SIGKILL)
                os.waitpid(attacker, 0)
    finally:
        tempfile.tempdir = None
    print(f"{SHOTS} shots: {dict(outcomes)}")


def test_a_group_whose_members_the_user_database_does_not_list_is_not_a_private_one(public: Path) -> None:
    """Of a directory service's group, the system tells as much as it does of this one: it exists."""
    primary = {user.pw_gid for user in pwd.getpwall()}
    group = next(each.gr_gid for each in grp.getgrall() if not each.gr_mem and each.gr_gid not in primary)
    shared = public / "shared"
    shared.mkdir()
    (shared / "cache").mkdir()
    for path in (shared, shared / "cache"):
        os.chown(path, VICTIM, group)
    shared.chmod(0o2775)

    def replace() -> None:
        (shared / "cache").rename(shared / "moved")
        (shared / "cache").mkdir()

    def look() -> None:
        with pytest.raises(StoreError, match="is not safe") as caught:
            list(Store(shared / "cache", "tiny", "1.2.3").entries())
        assert f"group {group}" in caught.value.found
        assert caught.value.remedies[0] == f"chmod go-w {shared}"

    assert succeeded(as_user(VICTIM, look))
    assert succeeded(as_user(ATTACKER, replace, groups=[group]))
    assert succeeded(as_user(VICTIM, look))


def ask_for_a_cache() -> None:
    assert len(list(stores(BuildSettings.resolve("tiny", {}, {"TINY_CACHE_DIR": "/tmp/x"}), "tiny", "1.2.3"))) == 1


@pytest.mark.parametrize("set_ids", [os.setresuid, os.setresgid])
@pytest.mark.parametrize(
    ("real", "effective", "saved"),
    [
        (ATTACKER, VICTIM, VICTIM),  # as a setuid program starts
        (ATTACKER, ATTACKER, VICTIM),  # it has put its privileges aside
        (VICTIM, VICTIM, 0),  # root, for whom it may be anybody's
        (0, VICTIM, 0),
    ],
)
def test_a_program_that_can_take_privileges_back_uses_no_cache(
    set_ids: Callable[[int, int, int], None], real: int, effective: int, saved: int
) -> None:
    def run() -> None:
        set_ids(real, effective, saved)
        with pytest.raises(StoreError, match="another user's privileges"):
            ask_for_a_cache()

    assert succeeded(as_user(0, run))


@pytest.mark.parametrize("user", [0, VICTIM])
def test_a_program_with_one_user_s_rights_uses_a_cache(user: int) -> None:
    assert succeeded(as_user(user, ask_for_a_cache))


SAYS = """
import os
os.setresuid({0}, {0}, {0})
from kernelwheel.runtime.machine.permissions import has_other_privileges
print(has_other_privileges())
"""
ENVIRON = {"PYTHONPATH": str(Path(kernelwheel.__path__[0]).parent), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.slow
@pytest.mark.parametrize(("real", "said"), [(0, "False"), (VICTIM, "True")])
def test_a_program_that_started_with_other_privileges_uses_no_cache_however_it_puts_them_aside(
    real: int, said: str
) -> None:
    """The kernel remembers it (AT_SECURE), also of a program whose file has capabilities."""
    command = [sys.executable, "-c", SAYS.format(0)]

    done = subprocess.run(
        command, env=ENVIRON, preexec_fn=lambda: os.setresuid(real, 0, 0), text=True, capture_output=True, check=False
    )

    assert done.stdout == f"{said}\n", done.stderr


def test_where_other_users_have_no_number_of_their_own_nobody_s_number_is_nobody_s(public: Path) -> None:
    """In a user namespace, the files of all users outside it are shown as those of one, who may be this one too."""
    cache = public / "cache"
    cache.mkdir()
    os.chown(cache, VICTIM, VICTIM)
    new_user = 0x10000000  # CLONE_NEWUSER, unshare(2)

    def look() -> None:
        assert Guard(cache, NOBODY_ELSE, "the store", "CACHE", "TRUST").check(cache) is None
        if ctypes.CDLL(None, use_errno=True).unshare(new_user) != 0:
            os._exit(77)
        assert os.geteuid() == cache.stat().st_uid == Path("/").stat().st_uid, "root's files are this user's, too"
        with pytest.raises(StoreError, match="is not safe: /"):
            Guard(cache, NOBODY_ELSE, "the store", "CACHE", "TRUST").check(cache)
        trusted = Trust(frozenset({os.geteuid()}))
        with pytest.raises(StoreError, match="is not safe: /"):
            Guard(cache, trusted, "the store", "CACHE", "TRUST").check(cache)

    status = os.waitstatus_to_exitcode(os.waitpid(as_user(VICTIM, look), 0)[1])

    if status == 77:
        pytest.skip("user namespaces are forbidden here")
    assert status == 0


@pytest.mark.slow
def test_a_program_with_capabilities_of_its_own_uses_no_cache(public: Path) -> None:
    program = public / "python"
    shutil.copy(Path(sys.executable).resolve(), program)
    shutil.copytree(ENVIRON["PYTHONPATH"], public / "backend", ignore=shutil.ignore_patterns("__pycache__"))
    environ = {**ENVIRON, "PYTHONHOME": sys.base_prefix, "PYTHONPATH": str(public / "backend")}
    try:
        # capability.h, struct vfs_cap_data: version 2, effective; cap_dac_read_search, number 2, permitted.
        os.setxattr(program, "security.capability", struct.pack("<5I", 0x02000001, 1 << 2, 0, 0, 0))
        done = subprocess.run(
            [program, "-c", SAYS.format(VICTIM)],
            env=environ, user=VICTIM, group=VICTIM, extra_groups=[], cwd="/",
            text=True, capture_output=True, check=False,
        )  # fmt: skip
    except OSError as error:
        pytest.skip(f"no file can have capabilities here: {error}")

    assert done.stdout == "True\n", done.stderr


def test_links_to_the_cache_folder_are_followed_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "disk" / "caches" / "mine").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "scratch").symlink_to("../disk/./caches")
    (tmp_path / "home" / "cache").symlink_to(tmp_path / "home" / "scratch" / "mine")
    (tmp_path / "home" / "circle").symlink_to("circle")
    guard = Guard(tmp_path / "home" / "cache", NOBODY_ELSE, "a cache", "CACHE", "TRUST")

    with guard.opened(guard.folder) as descriptor:
        assert os.path.samestat(os.fstat(descriptor), (tmp_path / "disk/caches/mine").stat())
    with pytest.raises(OSError, match="symbolic links"):
        Guard(tmp_path / "home" / "circle", NOBODY_ELSE, "a cache", "CACHE", "TRUST").check(
            tmp_path / "home" / "circle"
        )
    os.chown(tmp_path / "home" / "scratch", ATTACKER, ATTACKER, follow_symlinks=False)
    with pytest.raises(StoreError, match="home/scratch"):
        guard.check(guard.folder)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "file").touch()
    guard = Guard(tmp_path / "cache", NOBODY_ELSE, "a cache", "CACHE", "TRUST")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("", "missing", "file", "file/below"):
        with suppress(KernelWheelError, OSError):
            guard.check(tmp_path / "cache" / name)
    (tmp_path / "cache").chmod(0o777)
    with suppress(KernelWheelError):
        guard.check(tmp_path / "cache")

    assert len(list(Path("/proc/self/fd").iterdir())) == before
