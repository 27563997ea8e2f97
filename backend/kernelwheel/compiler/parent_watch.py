"""The process that asked for a compile: whether it is still there, and the end of everything once it is not."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Caller:
    """The process that asked; it holds the other end of standard input."""

    process: int  # its id
    environ: Mapping[str, str] = field(default_factory=dict)  # its environment, in which compilers are looked for
    streams: tuple[int, ...] = (0,)  # descriptors that can be read once it has gone

    def is_gone(self) -> bool:
        """Whether it has died or given up, which closes standard input.

        The process id is watched as well, because a forked child of the caller may have inherited the other end of
        standard input and keep it open.
        """
        return bool(select.select(self.streams, [], [], 0)[0]) or os.getppid() != self.process

    def end_session(self) -> None:
        """Kill every other process of this program's session, so that no compiler goes on writing."""
        if not Path("/proc/self/stat").exists():  # then they cannot be listed, but Ninja tells its children of this one
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
        while (others := session_members()) != []:
            for process in others or ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.01)


def session_members() -> list[int] | None:
    """The other live processes of this session; empty without /proc, None if too many files are open.

    The session, not the process group: Ninja gives each compiler a group of its own.
    """
    members = []
    try:
        for folder in Path("/proc").iterdir():
            if not folder.name.isdecimal():
                continue
            with contextlib.suppress(FileNotFoundError, PermissionError, ProcessLookupError):  # ended, or not ours
                # proc(5): the name in parentheses is followed by state, parent, process group and session.
                status = (folder / "stat").read_text(encoding="utf-8", errors="replace")
                state, _, _, session = status.rpartition(")")[2].split()[:4]
                if int(session) == os.getsid(0) and state != "Z" and int(folder.name) != os.getpid():
                    members.append(int(folder.name))
    except OSError as error:
        return None if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM) else []
    return members
