"""The compiler's conversation: one line of JSON in, progress out, and one answer.

    {"make": REQUEST}                                   an Artifact, in a store
    {"dry-run": {"requests": [REQUEST, …], "machine": REQUEST or null}}    what would be made, and with what
    {"describe": {"package": …, "version": …, "project": …}}    what the checkout of an editable install declares
    Each has "path", the folders in which the asking process looks for modules.
    -> {"say": LINE} …, then {"answer": …} or {"error": ERROR}

REQUEST is the loader's compiler_process.py's, ERROR its errors.py's. Standard input stays open: when it is closed, or
the process that asked is gone, everything ends. What a compile needs of Python packages is imported only after it has
been looked for, so that a lack of it is an error like any other.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from ..runtime.errors import KernelWheelError
from ..runtime.machine.platforms import require_supported
from .compile_job import read_job
from .parent_watch import Caller
from .tools import require_tools


def main(arguments: Sequence[str]) -> int:
    """Answer one message. Takes the process id of the program that asks, which starts this one in its own session."""
    if len(arguments) != 1 or not arguments[0].isdecimal() or os.getsid(0) != os.getpid():
        print("this program is started by a package, which asks it for compiled kernels", file=sys.stderr)
        return 2
    message = json.loads(sys.stdin.buffer.readline())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited: a program that ignores it has no status of its children
    sys.path[:] = message["path"]  # until here, modules of the standard library and of this program are enough
    try:
        _tell({"answer": answer_to(message, Caller(int(arguments[0]), os.environ))})
    except KernelWheelError as error:
        _tell({"error": error.to_json()})
    return 0


def answer_to(message: dict[str, Any], caller: Caller) -> dict[str, Any] | None:
    """The answer to a message, as plain JSON values; raises an error that is an answer too."""
    require_supported()
    if "dry-run" in message:
        from .dry_run import dry_run

        return dry_run(message["dry-run"], caller.environ)
    if "describe" in message:
        from ..project.package import describe

        return describe(**message["describe"])
    require_tools()
    from .build_or_reuse import build_or_reuse

    return build_or_reuse(read_job(message["make"], caller.environ), caller, lambda line: _tell({"say": line}))


def _tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)
