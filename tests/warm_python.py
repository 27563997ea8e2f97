"""Scripts in a Python that has imported torch already, which takes 1.5 s of a core: for tests of what comes after that.

One process for each run of the tests imports torch and forks a child for each script. A child has the arguments, the
environment, the folder, the streams and the sys.path of a fresh Python. What it cannot have is what Python and torch
take from the environment as they start: a test that sets that, or looks at an import, needs `processes.run_python`.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

Done = subprocess.CompletedProcess[str]
# Read before a script can be, so that they would make no difference.
TOO_LATE = ("GOMP_", "KMP_", "LD_", "MALLOC_", "MKL_", "OMP_", "OPENBLAS_", "PYTORCH_", "TORCH_SHOW_")
TOO_LATE_NAMES = {"LC_ALL", "PYTHONHASHSEED", "PYTHONHOME", "PYTHONIOENCODING", "PYTHONSAFEPATH", "PYTHONWARNINGS"}


def come_too_late(names: Iterable[str]) -> list[str]:
    """Those of the variables that make no difference after Python has started and torch is imported."""
    return [name for name in names if name.startswith(TOO_LATE) or name in TOO_LATE_NAMES]


def run_python(
    script: str,
    *arguments: str | Path,
    cwd: Path,
    path: Sequence[Path] = (),
    env: Mapping[str, str | None] | None = None,
    check: bool = True,
) -> Done:
    """`processes.run_python` with torch imported."""
    environ = {"PYTHONPATH": os.pathsep.join(map(str, path)), **(env or {})}
    return run(["-c", script, *arguments], cwd=cwd, env=environ, check=check)


def run(
    words: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str | None] | None = None,
    check: bool = True,
    limit: float = 600,
    stdout: int | IO[str] | None = None,
    stderr: int | IO[str] | None = None,
) -> Done:
    """Run `python WORDS`, that is `-c SCRIPT ...` or `-m MODULE ...`, as `processes.run` would; -P may come first.

    A stream that is not given is captured.
    """
    from processes import clean_environment  # not at the top: the server has no use for it

    late = come_too_late(env or {})
    assert not late, f"{late} would make no difference: use processes.run_python"
    command = [str(word) for word in words]
    order = {"words": command, "cwd": str(cwd), "environ": clean_environment(env)}
    out, err = _Capture(stdout), _Capture(stderr)
    with Path(os.devnull).open() as nothing:
        status = _server().run(order, nothing.fileno(), out, err, limit)
    done = Done(command, status, out.text(), err.text())
    if check:
        assert status == 0, f"exit status {status}\n{done.stdout}\n{done.stderr}"
    return done


class _Capture:
    """Where a stream goes: to what is given, or into a pipe, all of which is read meanwhile."""

    def __init__(self, given: int | IO[str] | None) -> None:
        self.data = bytearray()
        self.thread = threading.Thread(target=self._read, daemon=True)
        if given is None:
            self.reader, self.writer = os.pipe()
            self.thread.start()
        else:
            self.writer = os.dup(given if isinstance(given, int) else given.fileno())

    def _read(self) -> None:
        with os.fdopen(self.reader, "rb", buffering=0) as reader:
            while data := reader.read(2**16):
                self.data += data

    def text(self) -> str:
        if self.thread.ident is not None:
            self.thread.join()
        return self.data.decode(errors="replace")


class _Server:
    """The process that has imported torch; it runs one script at a time."""

    def __init__(self) -> None:
        from processes import clean_environment

        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self.lock = threading.Lock()
        atexit.register(self.socket.close)  # it ends at that

    def run(self, order: object, nothing: int, out: _Capture, err: _Capture, limit: float) -> int:
        assert self.lock.acquire(blocking=False), "it runs one script at a time"
        try:
            text = json.dumps(order).encode()
            streams = array.array("i", [nothing, out.writer, err.writer])
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)
            self.socket.sendmsg([len(text).to_bytes(8, "little")], [rights])
            self.socket.sendall(text)
            for each in (out, err):
                os.close(each.writer)
            child = self._number()
            late = threading.Timer(limit, os.kill, (child, signal.SIGKILL))
            late.start()
            try:
                return self._number()
            finally:
                late.cancel()
        finally:
            self.lock.release()

    def _number(self) -> int:
        data = self.socket.recv(8, socket.MSG_WAITALL)
        assert data, "the Python that has imported torch has ended"
        return int.from_bytes(data, "little", signed=True)


@cache
def _server() -> _Server:
    return _Server()


# The server, and its children.


def _serve(orders: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Answer orders until there are none; in a child, return its order and streams."""
    while True:
        head, rights, _, _ = orders.recvmsg(8, socket.CMSG_SPACE(3 * 4))
        if not head:
            os._exit(0)
        streams = list(array.array("i", rights[0][2]))
        order = json.loads(orders.recv(int.from_bytes(head, "little"), socket.MSG_WAITALL))
        child = os.fork()
        if child == 0:
            orders.close()
            return order, streams
        for stream in streams:
            os.close(stream)
        orders.sendall(child.to_bytes(8, "little", signed=True))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        orders.sendall(status.to_bytes(8, "little", signed=True))


def _begin(order: dict[str, Any], streams: Sequence[int], base: Sequence[str]) -> list[str]:
    """Make this process what a Python is when it has just begun; returns its words."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environ"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.stdin, sys.stdout, sys.stderr = _stream(0, sys.stdin), _stream(1, sys.stdout), _stream(2, sys.stderr)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, f"__{name}__", getattr(sys, name))
    words = list(order["words"])
    if words[0] == "-P":
        folder = []
        words.pop(0)
    else:
        folder = [str(Path.cwd()) if words[0] == "-m" else ""]
    given = os.environ.get("PYTHONPATH", "")
    sys.path[:] = [*folder, *(given.split(os.pathsep) if given else []), *base]
    sys.modules["__main__"] = types.ModuleType("__main__")
    importlib.invalidate_caches()
    return words


def _stream(number: int, server_s: Any) -> io.TextIOWrapper:
    """One of the standard streams, as Python makes them as it starts."""
    raw = io.FileIO(number, "rb" if number == 0 else "wb", closefd=False)
    raw.name = server_s.name
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED")) and number != 0
    buffer: Any = io.BufferedReader(raw) if number == 0 else raw if unbuffered else io.BufferedWriter(raw)
    lines = not unbuffered and (number == 2 or raw.isatty())
    stream = io.TextIOWrapper(buffer, server_s.encoding, server_s.errors, None, lines, unbuffered)
    stream.mode = "r" if number == 0 else "w"  # type: ignore[misc]
    return stream


def _main() -> None:
    base = sys.path[1:]
    import torch  # noqa: F401

    gc.collect()
    gc.freeze()  # so that children look through nothing that they only share
    order, streams = _serve(socket.socket(fileno=int(sys.argv[1])))
    how, what, *arguments = _begin(order, streams, base)
    sys.argv = [how, *arguments]
    ending = _Ending()
    try:
        if how == "-c":
            exec(compile(what, "<string>", "exec"), sys.modules["__main__"].__dict__)
        else:
            runpy._run_module_as_main(what)  # type: ignore[attr-defined]
    except SystemExit as error:
        ending.status = 0 if error.code is None else error.code if isinstance(error.code, int) else 1
        raise


class _Ending:
    """Ends the process after all that a script has registered for its end, if that cannot fail: for Python, to take all
    of torch apart takes half a second.
    """

    def __init__(self) -> None:
        self.status: int | None = 0
        sys.excepthook = self._report
        atexit.register(self._end)

    def _report(self, kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        self.status = 1 if isinstance(error, Exception) else None  # an interrupt ends by its signal
        sys.__excepthook__(kind, error.with_traceback(_later(trace)), None)

    def _end(self) -> None:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # Python says so
        if self.status is not None:
            os._exit(self.status & 0xFF)


def _later(trace: types.TracebackType | None) -> types.TracebackType | None:
    """What follows the frames of this file."""
    while trace and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


if __name__ == "__main__":
    _main()
