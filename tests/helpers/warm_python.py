"""Scripts in a Python that has imported torch already, which takes 1.5 s of a core: for tests of what comes after that.

A process imports torch and forks a child for each script; there is one for each value of what Python and torch take
from the environment as they start. A child has the arguments, the environment, the folder, the streams and the sys.path
of a fresh Python. A test that looks at the import of torch itself needs `processes.run_python`.
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
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import IO, Any

import processes
from processes import Done

# What Python, the loader, and libraries of torch's read as they start.
READ_AT_THE_START = ("GOMP_", "KMP_", "LC_", "LD_", "MALLOC_", "MKL_", "OMP_", "OPENBLAS_", "PYTHON", "PYTORCH_")
READ_LATER = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}


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
    """Run `python WORDS` as `processes.run` would: [-P] -c SCRIPT ..., -m MODULE ... or FILE ...

    A stream that is not given is captured.
    """
    command, environ = [str(word) for word in words], processes.clean_environment(env)
    order = {"words": command, "cwd": str(cwd), "environ": environ}
    out, err = _Capture(stdout), _Capture(stderr)
    with Path(os.devnull).open() as nothing:
        status = _server(_start_of(environ)).run(order, nothing.fileno(), out, err, limit)
    done = Done(command, status, out.text(), err.text())
    if check:
        assert status == 0, f"exit status {status}\n{done.stdout}\n{done.stderr}"
    return done


run_python = partial(processes.run_python, run_words=run)  # with torch imported


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
    """A process that has imported torch."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env=environ,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.socket.close)  # it ends at that

    def run(self, order: object, nothing: int, out: _Capture, err: _Capture, limit: float) -> int:
        """Run a script; its exit status. Threads may run several at once."""
        answers, theirs = socket.socketpair()
        with answers:
            with theirs:
                rights = array.array("i", [theirs.fileno(), nothing, out.writer, err.writer])
                self.socket.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            for each in (out, err):
                os.close(each.writer)
            text = json.dumps(order).encode()
            answers.sendall(len(text).to_bytes(8, "little", signed=True) + text)
            late = threading.Timer(limit, os.kill, (_number(answers), signal.SIGKILL))
            late.start()
            try:
                return _number(answers)
            finally:
                late.cancel()


def _number(connection: socket.socket) -> int:
    data = connection.recv(8, socket.MSG_WAITALL)
    assert len(data) == 8, "the Python that has imported torch has ended"
    return int.from_bytes(data, "little", signed=True)


def _start_of(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables that are read at the start."""
    read = (name for name in environ if name.startswith(READ_AT_THE_START) and name not in READ_LATER)
    return tuple((name, environ[name]) for name in sorted(read))


@cache
def _server(start: tuple[tuple[str, str], ...]) -> _Server:
    others = {name: value for name, value in os.environ.items() if not name.startswith(READ_AT_THE_START)}
    return _Server({**others, **dict(start)})


# The server, and its children.


def _serve(clients: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Answer clients until there are none; in the child for a script, return its order and streams.

    Each client has a process between, which waits for the child.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those between
    while True:
        word, rights, _, _ = clients.recvmsg(1, socket.CMSG_SPACE(4 * array.array("i").itemsize))
        if not word:
            os._exit(0)
        connection, *streams = array.array("i", rights[0][2])
        if os.fork() == 0:
            break
        for descriptor in (connection, *streams):
            os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    clients.close()
    with socket.socket(fileno=connection) as client:
        order = json.loads(client.recv(_number(client), socket.MSG_WAITALL))
        child = os.fork()
        if child != 0:
            client.sendall(child.to_bytes(8, "little", signed=True))
            for stream in streams:
                os.close(stream)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            client.sendall(status.to_bytes(8, "little", signed=True))
            os._exit(0)
    return order, streams


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
        firsts = {"-c": "", "-m": str(Path.cwd())}
        folder = [firsts[words[0]] if words[0] in firsts else str(Path(words[0]).resolve().parent)]
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
    words = _begin(order, streams, base)
    main = sys.modules["__main__"].__dict__
    ending = _Ending()
    try:
        if words[0] == "-m":
            sys.argv = ["-m", *words[2:]]
            runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
        elif words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            exec(compile(words[1], "<string>", "exec"), main)
        else:
            sys.argv, main["__file__"] = words, words[0]
            exec(compile(Path(words[0]).read_bytes(), words[0], "exec"), main)
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
    own = _later.__code__.co_filename  # Python 3.14 has no __file__ at the end any more
    while trace and trace.tb_frame.f_code.co_filename == own:
        trace = trace.tb_next
    return trace


if __name__ == "__main__":
    _main()
