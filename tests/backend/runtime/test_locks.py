"""The lock between processes: who holds it, and that dead processes never do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from folders import BACKEND
from kernelwheel.runtime.machine.fork_safe_locks import exclusive

HOLD = """
import subprocess, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from kernelwheel.runtime.machine.fork_safe_locks import exclusive
with exclusive(Path(sys.argv[2])) as lock:
    if len(sys.argv) > 3:
        subprocess.Popen(["sleep", sys.argv[3]], pass_fds=(lock,), stdout=subprocess.DEVNULL)
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def holder(path: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until it is killed."""
    command = [sys.executable, "-c", HOLD, str(BACKEND), str(path), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def seconds_until_held(path: Path) -> float:
    begin = time.monotonic()
    with exclusive(path):
        return time.monotonic() - begin


@pytest.mark.slow
def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as process:
        process.kill()
        process.wait()

        assert seconds_until_held(path) < 0.5


@pytest.mark.slow
def test_a_program_that_was_given_the_lock_holds_it_after_its_caller_s_death(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path, "1.5") as process:
        process.kill()
        process.wait()

        assert seconds_until_held(path) > 1.0


def test_two_threads_never_hold_it_at_once(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def use() -> None:
        for _ in range(5):
            with exclusive(tmp_path / "lock"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.002)
                inside.pop()

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1] * 20


def test_a_child_of_fork_that_lives_on_does_not_hold_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with exclusive(path):
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
    try:
        assert seconds_until_held(path) < 0.5
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_child_of_fork_may_leave_the_block_and_take_the_lock_itself(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with exclusive(path):
        child = os.fork()
    if child == 0:
        os._exit(0 if seconds_until_held(path) < 5 else 1)

    assert os.waitpid(child, 0)[1] == 0


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic link"), exclusive(tmp_path / "lock"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="makes another user's file")
def test_another_user_s_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").touch(0o666)
    os.chown(tmp_path / "lock", 65534, 65534)

    with pytest.raises(PermissionError, match="another user's"), exclusive(tmp_path / "lock"):
        pass


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with exclusive(tmp_path / "lock"):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "lock")
    with pytest.raises(OSError, match="link"), exclusive(tmp_path / "link"):
        pass

    assert len(list(Path("/proc/self/fd").iterdir())) == before
