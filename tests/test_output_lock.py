"""Two fits never write the same files at once."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import photographs
import pytest
from fit_runs import run

from splat.commands import output_lock
from splat.commands.output_lock import locked

pytestmark = pytest.mark.once


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
