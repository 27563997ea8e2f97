"""Two fits never write the same files at once."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import photographs
import pytest
from fit_runs import run

from splat.commands import fit_command, output_lock
from splat.commands.output_lock import locked


@contextlib.contextmanager
def holder(path: Path) -> Iterator[int]:
    """Another process that holds the lock."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with locked(path):
                os.write(writing, b"!")
                signal.pause()
        finally:
            os._exit(1)
    try:
        assert os.read(reading, 1) == b"!"
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_a_lock_ends_with_its_process_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "scene"
    message = r"scene: files that no other command writes are required, found that process {} on \S+ writes them; wait"
    with (
        holder(path) as process,
        pytest.raises(OSError, match=message.format(process)),
        locked(path),
    ):
        raise AssertionError
    assert (tmp_path / ".scene.lock").exists()  # the process was killed
    with locked(path), locked(tmp_path / "another"):
        assert f"process {os.getpid()} on " in (tmp_path / ".scene.lock").read_text()
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_taken_for_a_lock(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    lock = tmp_path / ".scene.lock"
    for make in (lock.symlink_to, lock.hardlink_to):
        make(precious)
        with pytest.raises(OSError, match=r"\.scene\.lock"), locked(tmp_path / "scene"):
            raise AssertionError
        assert precious.read_text() == "precious"
        lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(FileExistsError, match=r"a lock is required here"), locked(tmp_path / "scene"):
        raise AssertionError


def test_a_lock_that_was_removed_meanwhile_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try_lock, tries = output_lock._try_lock, []

    def removing(descriptor: int, path: Path) -> None:
        try_lock(descriptor, path)
        tries.append(path)
        if len(tries) == 1:
            (tmp_path / ".scene.lock").unlink()

    monkeypatch.setattr(output_lock, "_try_lock", removing)
    with locked(tmp_path / "scene"):
        assert (tmp_path / ".scene.lock").exists()
    assert len(tries) == 2


@pytest.mark.parametrize("other", [["-o", "a.spz"], ["-o", "b.ply", "--checkpoint", "c.npz"]], ids=["scene", "state"])
def test_a_second_fit_to_the_same_files_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, other: list[str]
) -> None:
    folder = photographs.colmap_folder(tmp_path / "garden")
    monkeypatch.chdir(tmp_path)
    # As a first fit with `-o a.ply`, or with `--checkpoint c.npz`, whose state is there already.
    held = "a" if "a.spz" in other else "c.npz"
    (tmp_path / ("a.checkpoint.npz" if held == "a" else held)).touch()
    with holder(tmp_path / held) as process:
        assert run(folder, *other, "--steps", "2") == 1
    assert f"found that process {process} on " in capsys.readouterr().err
    assert run(folder, *other, "--steps", "2") == 1
    assert "this is the checkpoint of an unfinished fit" in capsys.readouterr().err
    assert not (tmp_path / f".{Path(other[1]).stem}.lock").exists()


def test_another_users_file_in_a_folder_open_to_all_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o1777)
    me, path = os.geteuid(), tmp_path / "scene"
    monkeypatch.setattr(output_lock.os, "geteuid", lambda: me + 1)  # so what is there is another's
    own = tmp_path / f".scene.{me + 1}.lock"
    for make in (lambda lock: lock.touch(), lambda lock: lock.symlink_to("/etc/passwd"), lambda lock: lock.mkdir()):
        lock = tmp_path / ".scene.lock"
        make(lock)
        with locked(path):
            assert own.exists()
        assert [each.name for each in tmp_path.iterdir()] == [".scene.lock"]
        lock.rmdir() if lock.is_dir() else lock.unlink()
    assert capsys.readouterr().err == ""
    (tmp_path / ".scene.lock").touch()
    own.touch()
    with locked(path):  # both are another's now
        pass
    assert "other users' files are where locks would be" in capsys.readouterr().err


def test_a_colleagues_lock_that_cannot_be_written_to_is_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o775)
    lock, opened = tmp_path / ".scene.lock", os.open
    lock.write_text("process 7 on another machine")

    def refusing(path: object, flags: int, *mode: int) -> int:
        if path == lock and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *mode)

    with holder(tmp_path / "scene") as process:
        monkeypatch.setattr(output_lock.os, "open", refusing)
        with pytest.raises(OSError, match=f"found that process {process} on"), locked(tmp_path / "scene"):
            raise AssertionError
    with locked(tmp_path / "scene"):
        assert lock.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_first_step_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    (tmp_path / "a.npz").touch()
    reading, writing = os.pipe()

    def waiting(*_: object) -> None:
        os.write(writing, b"!")
        while True:
            signal.pause()

    monkeypatch.setattr(fit_command, "read_pictures", waiting)
    child = os.fork()
    if child == 0:
        signal.signal(number, signal.SIG_DFL)  # nohup, for one, has children ignore SIGHUP
        try:
            run(tmp_path / "a.npz", "-o", tmp_path / "a.ply")
        finally:
            os._exit(1)
    assert os.read(reading, 1) == b"!"
    assert (tmp_path / ".a.lock").exists()
    os.kill(child, number)
    _, status = os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == number
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
