"""What a compile at first use must survive: many at once, sudden death, full disks, filesystems without locks.

Real processes and real compilers; each test has a store, a temporary folder and a compiler of its own. Nothing here
depends on what torch was built for, so one environment is enough.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from builds import remove_work
from editables import REQUIRE, SMALL, Editable, make_editable
from kernelwheel.runtime.store.store_lock import making
from kernelwheel.store.publishing import intact_entry
from patched_compiler import patched_compiler
from processes import Done, after_mounting, clean_environment, processes_of, run

pytestmark = [pytest.mark.slow]


def start(editable: Editable, script: str, *arguments: str | Path, **env: str) -> subprocess.Popen[str]:
    """A process that can import tiny and is not waited for."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=editable.folder,
        env=clean_environment({**editable.environment, **env}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """What a process prints, which must succeed."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def assert_tidy(editable: Editable) -> None:
    """One whole entry in the store, and nothing left of those who made it or died making it."""
    (entry,) = editable.store.entries()
    assert intact_entry(editable.store, entry.manifest.fingerprint) == entry
    root = editable.store.root
    assert {path.name for path in root.iterdir()} == {".lock", ".maker", ".work", entry.folder.name}
    assert list((root / ".work").iterdir()) == []
    (work,) = (path for path in editable.builds.iterdir() if path.suffix != ".lock")
    assert {path.name for path in work.iterdir()} == {"src", "build", "older", "build.log", "reusable.json"}


# Many at once


AT_ONCE = """
import hashlib, os, sys, threading, time
from pathlib import Path
import tiny
go = Path(sys.argv[1])
for ready in map(Path, sys.argv[2:]):
    if os.fork() == 0:
        break
else:
    sys.exit(any([os.wait()[1] for _ in sys.argv[2:]]))
ready.touch()
while not go.exists():
    time.sleep(0.005)
failures = []
def use():
    try:
        tiny.KERNELS.require("cpu")
    except Exception as error:
        failures.append(error)
threads = [threading.Thread(target=use) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failures, failures
folder = Path(tiny.KERNELS.info()["loaded"]["cpu"])
line = f"{folder} {hashlib.sha256((folder / 'libtiny_cpu.so').read_bytes()).hexdigest()}\\n"
os.write(1, line.encode())  # in one piece: all children write to one pipe
"""


def test_processes_and_threads_at_once_make_one_compile_and_get_one_artifact(small: Editable) -> None:
    """Children of a process that has imported torch; what each got: the folder and the library's digest."""
    go = small.folder / "go"
    ready = [small.folder / f"ready{i}" for i in range(4)]
    running = start(small, AT_ONCE, go, *ready)
    while not all(path.exists() for path in ready):
        assert running.poll() is None
        time.sleep(0.05)
    go.touch()
    out, err = running.communicate(timeout=300)
    got = out.splitlines()

    assert running.returncode == 0, err
    assert "waiting for " in err
    assert small.compiled() == ["one.cpp", "two.cpp"]
    assert len(got) == len(ready)
    assert len(set(got)) == 1
    assert_tidy(small)


@pytest.mark.minutes
@pytest.mark.parametrize("ending", ["killed", "at the end"])
def test_nobody_waits_for_a_child_that_was_forked_while_a_thread_compiled(small: Editable, ending: str) -> None:
    script = """
import os, sys, threading, time, tiny
from pathlib import Path
thread = threading.Thread(target=tiny.KERNELS.require, args=("cpu",))
thread.start()
while "/src/one.cpp" not in (Path("calls").read_text() if Path("calls").exists() else ""):
    time.sleep(0.001)
child = os.fork()
if child == 0:
    os.close(1)
    os.close(2)
    time.sleep(600)
    os._exit(0)
Path("child").write_text(str(child))
if sys.argv[1] == "killed":
    os.kill(os.getpid(), 9)
thread.join()
"""
    begin = time.monotonic()
    if ending == "killed":
        (small.folder / "slow").touch()
    try:
        start(small, script, ending).communicate(timeout=200)
        (small.folder / "slow").unlink(missing_ok=True)
        if ending == "at the end":
            small.change("native/one.h", "1", "7")  # so that there is something to make
        small.python(REQUIRE)
        taken = time.monotonic() - begin
    finally:
        os.kill(int((small.folder / "child").read_text()), signal.SIGKILL)

    assert taken < 300


# Sudden death


# In the compiler: kill somebody before or after a function is called, or as it is called for the nth time.
DIE_AT = """
import os, signal, time
from pathlib import Path
from kernelwheel.compiler import build_or_reuse, cmake_build, compile, work_folder
from kernelwheel.store import publishing
who, _, where = os.environ.get("DIE_AT", "").partition(" ")
def die():
    os.kill(os.getppid() if who == "caller" else os.getpid(), signal.SIGKILL)
if where:
    module, name, when = where.split()
    modules = (build_or_reuse, compile, publishing, work_folder)
    owners = {"Path": Path, **{each.__name__.rpartition(".")[2]: each for each in modules}}
    owner = owners.get(module) or getattr(compile, module)
    real = getattr(owner, name)
    calls = []
    def replacement(*arguments, **options):
        calls.append(arguments)
        if when == "after":
            real(*arguments, **options)
        if when in ("before", "after") or len(calls) == int(when):
            die()
        return real(*arguments, **options)
    setattr(owner, name, replacement)
"""
ZYGOTE = """
import os, signal, sys, time
from pathlib import Path
import tiny
from tiny._kernelwheel import compiler_process
compiler_process.program = lambda: Path(sys.argv[1])
kernels = tiny.KERNELS
for line in sys.stdin:
    word, _, argument = line.strip().partition(" ")
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if word == "die_at":
            os.environ["DIE_AT"] = argument
        try:
            kernels.require("cpu")
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    if word == "die_when":
        while not list(Path().glob(argument)):
            time.sleep(0.0002)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, time.monotonic() - begin, flush=True)
"""


class Zygote:
    """A process that has imported tiny and forks children, each of which asks for kernels for the first time."""

    def __init__(self, editable: Editable) -> None:
        self.editable = editable
        self.errors = (editable.folder / "errors").open("w+")
        program = patched_compiler(editable.folder, DIE_AT)
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", ZYGOTE, program],
            cwd=editable.folder,
            env=clean_environment(editable.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def call(self, order: str) -> tuple[int, float]:
        """The exit status of a child and how long it lived."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        status, seconds = self.process.stdout.readline().split()
        return int(status), float(seconds)

    def said(self) -> str:
        """The errors of all children."""
        return (self.editable.folder / "errors").read_text()

    def close(self) -> None:
        self.process.communicate("", timeout=60)
        self.errors.close()

    def make(self) -> bytes:
        """The library of the sources as they are now, which a child compiles; its entry is removed again."""
        assert self.call("live")[0] == 0, self.said()
        (entry,) = self.editable.store.entries()
        library = (entry.folder / "libtiny_cpu.so").read_bytes()
        shutil.rmtree(entry.folder)
        return library

    def survive(self, order: str, right: bytes) -> None:
        """Let a child die as ordered; the next one finds nothing half and leaves one whole entry, and nothing else."""
        status, _ = self.call(order)
        if order.startswith("die_at compiler"):
            assert status == 1, order
            assert "the compiler of the kernels ended without an answer" in self.said(), order
        else:
            assert status == -signal.SIGKILL, order
        for entry in self.editable.store.entries():
            assert intact_entry(self.editable.store, entry.manifest.fingerprint) == entry, order
        status, seconds = self.call("live")
        assert status == 0, (order, self.said())
        assert seconds < 120, order
        # The zygote is alone: what the dead one had started ends too, if only after it has made the entry.
        deadline = time.monotonic() + 30
        while len(processes_of(self.editable.folder)) > 1:
            assert time.monotonic() < deadline, (order, processes_of(self.editable.folder))
            time.sleep(0.01)
        assert_tidy(self.editable)
        (entry,) = self.editable.store.entries()
        assert (entry.folder / "libtiny_cpu.so").read_bytes() == right, order
        shutil.rmtree(entry.folder)


@pytest.fixture
def zygote(small: Editable) -> Iterator[Zygote]:
    """A zygote for small sources."""
    made = Zygote(small)
    yield made
    made.close()


WORK = "cache/tiny/.build/kernelwheel-*/"
FROM_NOTHING = [
    f"die_when {WORK}out/*.so",
    "die_at compiler compile _read_back before",
    f"die_when {WORK}build/CMakeFiles/*/*.o",
    "die_at compiler cmake_build _drive before",
    f"die_when {WORK}build/CMakeFiles",
]
# While what an earlier compile left is used again, which is shorter then; and after a build.
AFTER_AN_EDIT = [
    "work_folder _copy_sources before",
    "work_folder _copy_sources after",
    "compile mark_reusable before",
    "compile remove_temporary before",
    "shutil copy2 after",
    "manifest_file to_bytes before",
    "publishing _fsync 3",
    "Path rename before",
    "Path rename after",
    "build_or_reuse clean_builds before",
]


@pytest.mark.minutes
def test_a_kill_at_every_step_leaves_nothing_half_and_nobody_waiting(zygote: Zygote) -> None:
    right = zygote.make()
    for order in FROM_NOTHING:
        remove_work(zygote.editable.builds)
        zygote.survive(order, right)


@pytest.mark.minutes
def test_a_kill_at_every_step_of_a_compile_after_an_edit_leaves_nothing_half(zygote: Zygote) -> None:
    small, states, right = zygote.editable, ["ONE 1", "ONE 2"], {}

    def edit() -> None:
        small.change("native/one.h", *states)
        states.reverse()

    for _ in range(2):
        remove_work(small.builds)
        right[states[0]] = zygote.make()
        edit()
    for step in AFTER_AN_EDIT:
        for who in ("caller", "compiler"):
            edit()
            zygote.survive(f"die_at {who} {step}", right[states[0]])


def start_compilers(small: Editable) -> subprocess.Popen[str]:
    """A call whose two compilers are running, and go on until `slow` is removed."""
    (small.folder / "slow").touch()
    (small.folder / "calls").unlink(missing_ok=True)
    asking = start(small, REQUIRE)
    while small.compiled() != ["one.cpp", "two.cpp"]:
        assert asking.poll() is None
        time.sleep(0.01)
    return asking


def assert_all_end(small: Editable) -> None:
    deadline = time.monotonic() + 30
    while processes_of(small.folder):
        assert time.monotonic() < deadline, processes_of(small.folder)
        time.sleep(0.01)


def driver_of(small: Editable) -> int:
    """The compiler's process that other processes were started by."""
    return min(process for process, words in processes_of(small.folder) if "compiler/__main__.py" in words)


def assert_compiled_afterwards(small: Editable) -> None:
    assert_all_end(small)
    (small.folder / "slow").unlink()
    small.python(REQUIRE)
    assert_tidy(small)


def test_compilers_die_with_their_caller_whom_others_may_wait_for(small: Editable) -> None:
    """These are told who it is, since when, and where its log is."""
    asking = start_compilers(small)
    (log,) = small.builds.glob("kernelwheel-*/build.log")

    def end(maker: str) -> None:
        raise RuntimeError(maker)

    with pytest.raises(RuntimeError) as told, making(small.store, end):
        pass
    driver = driver_of(small)
    asking.kill()
    asking.communicate(timeout=60)

    assert re.fullmatch(rf"process {driver} on .+, since \d\d:\d\d:\d\d, log {re.escape(str(log))}", str(told.value))
    assert_compiled_afterwards(small)


@pytest.mark.minutes
def test_compilers_die_with_the_driver_alone(small: Editable) -> None:
    """As that is killed for lack of memory; who asked it lives on."""
    asking = start_compilers(small)
    os.kill(driver_of(small), signal.SIGKILL)
    _, said = asking.communicate(timeout=60)

    assert asking.returncode == 1
    assert "BuildError" in said
    assert "signal 9" in said
    assert_compiled_afterwards(small)


# Disks and filesystems


def in_namespace(editable: Editable, mount: str, *, check: bool = False) -> Done:
    """Ask for kernels where `mount` was run before, a shell command that only this process sees the effect of."""
    editable.cache.mkdir(exist_ok=True)
    prefix = after_mounting(f"cd {editable.folder}; {mount}")
    return run([*prefix, sys.executable, "-c", REQUIRE], cwd=editable.folder, env=editable.environment, check=check)


@pytest.mark.minutes
def test_a_full_disk_is_said(small: Editable) -> None:
    small.builds.mkdir(parents=True)
    mounts = (f"mount -t tmpfs -o size=160k,mode=700 none {folder}" for folder in (small.builds, small.temporary))
    done = in_namespace(small, "; ".join(mounts))

    assert f"because {small.builds}" in done.stderr
    assert "BuildError" in done.stderr
    assert "free some space" in done.stderr
    assert list(small.store.entries()) == []
    assert list((small.store.root / ".work").iterdir()) == []
    small.python(REQUIRE)
    assert_tidy(small)


def test_an_entry_on_a_disk_that_is_read_only_is_found(compiled: Editable) -> None:
    done = in_namespace(compiled, "mount --bind cache cache; mount -o remount,ro,bind cache", check=True)

    assert str(compiled.store.root) in done.stdout
    assert compiled.compiled() == []


AS_NOBODY = """
import os, sys
import tiny
from tiny._kernelwheel import compiler_process, progress
from tiny._kernelwheel.store import store_lock
from tiny._kernelwheel.errors import KernelWheelError
os.setgid(65534)
os.setuid(65534)
try:
    tiny.KERNELS.require("cpu")
except KernelWheelError as error:
    print(type(error).__name__, error)
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


@pytest.fixture
def public() -> Iterator[Editable]:
    """A checkout that other users can reach, unlike what is in pytest's folder."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield make_editable(Path(name), SMALL)


@needs_root
@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        (0o700, "UnreadableStoreError the store of compiled kernels cannot be read"),
        (0o755, "StoreError compiled kernels cannot be stored"),
    ],
)
def test_a_store_that_this_user_may_not_use_is_said(public: Editable, mode: int, problem: str) -> None:
    public.cache.mkdir(mode=mode)
    said = public.python(AS_NOBODY).stdout

    assert said.startswith(problem)
    assert str(public.cache) in said
    assert "TINY_CACHE_DIR" in said


PREDICT_AS_NOBODY = AS_NOBODY.replace(
    "os.setgid",
    """from kernelwheel.cli import doctor
from kernelwheel.__main__ import _kernels
kernels = _kernels("tiny")
assert kernels.installed.source
os.setgid""",
).replace(
    "try:",
    """view = doctor.examine(kernels, os.environ, sys.path)
print(*(each["outcome"] for each in view["next"]), sep="\\n")
print([found["found"] for found in view["findings"] if found["what"] == "CPU calls fail"])
try:""",
)


@needs_root
def test_doctor_says_that_what_is_compiled_could_not_be_stored(public: Editable) -> None:
    """As in a container that runs as any number, without a home."""
    public.cache.mkdir()
    there = {"TINY_CACHE_DIR": None, "XDG_CACHE_HOME": None, "HOME": "/"}

    *outcomes, found, said = public.python(PREDICT_AS_NOBODY, **there).stdout.splitlines()[:4]

    assert outcomes == ["fail"] * 2
    assert "compiling would fail: compiled kernels cannot be stored" in found
    assert said == "StoreError compiled kernels cannot be stored"


def test_without_a_home_nothing_is_kept_in_the_current_folder(small: Editable) -> None:
    script = f"""
import pwd
def getpwuid(uid): raise KeyError(uid)
pwd.getpwuid = getpwuid
{REQUIRE}
"""
    said = small.failure(script, TINY_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME="relative")

    assert said.startswith("errors.StoreError")
    assert "XDG_CACHE_HOME" in said
    assert sorted(path.name for path in small.folder.iterdir()) == ["c++", "checkout", "tmp"]


def foreign_lock(path: Path) -> None:
    path.with_suffix(".lock").touch()
    os.chown(path.with_suffix(".lock"), 65534, 65534)


def link(path: Path) -> None:
    path.symlink_to(path.parent)


def open_folder(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


@pytest.mark.minutes
def test_where_the_work_folder_cannot_be_used_a_temporary_one_is(small: Editable) -> None:
    small.python(REQUIRE)
    (path,) = small.builds.glob("kernelwheel-*/")
    of_others = (foreign_lock,) if os.geteuid() == 0 else ()
    for harm in (*of_others, link, open_folder):
        shutil.rmtree(small.store.root)
        shutil.rmtree(small.builds)
        small.builds.mkdir(mode=0o700)
        harm(path)
        before = {left: left.lstat() for left in small.builds.iterdir()}
        done = small.python(REQUIRE)

        (entry,) = small.store.entries()
        assert intact_entry(small.store, entry.folder.name) == entry, harm
        assert f"because {path} cannot be used" in done.stderr, harm
        assert {left: left.lstat() for left in before} == before, harm
        assert {left.suffix for left in small.builds.iterdir() if left not in before} <= {".lock"}, harm
        assert list(small.temporary.iterdir()) == [], harm


# Locks that do not work: the stand-in says ENOLCK for files of the store, or everywhere


NO_LOCKS = """
import errno, fcntl, os, sys, time
from pathlib import Path
def flock(descriptor, operation):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
fcntl.flock = flock
"""


# In the compiler: both have a whole copy before the first is published.
PUBLISH_TOGETHER = """
from kernelwheel.store import publishing
real_fsync = publishing._fsync
def fsync(path):
    Path(f"done{os.getpid()}").touch()
    while len(list(Path(".").glob("done*"))) < 2:
        time.sleep(0.01)
    real_fsync(path)
publishing._fsync = fsync
"""
WITH_COMPILER = """
import sys
from pathlib import Path
from tiny._kernelwheel import compiler_process
compiler_process.program = lambda: Path(sys.argv[1])
"""


@pytest.mark.minutes
def test_without_locks_each_makes_its_own_and_the_loser_takes_the_published_one(small: Editable) -> None:
    script = """
import hashlib
import tiny
tiny.KERNELS.require("cpu")
folder = Path(tiny.KERNELS.info()["loaded"]["cpu"])
maps = Path("/proc/self/maps").read_text()
assert str(folder / "libtiny_cpu.so") in maps, maps
line = f"{folder} {hashlib.sha256((folder / 'libtiny_cpu.so').read_bytes()).hexdigest()}\\n"
os.write(1, line.encode())  # in one piece: all children write to one pipe
"""
    program = patched_compiler(small.folder, NO_LOCKS + PUBLISH_TOGETHER)
    both = [start(small, NO_LOCKS + WITH_COMPILER + script, program) for _ in range(2)]
    folders, digests = zip(*(finish(process).split() for process in both), strict=True)

    assert len(set(digests)) == 1
    (entry,) = small.store.entries()
    assert set(folders) == {str(entry.folder)}
    assert small.compiled() == ["one.cpp", "one.cpp", "two.cpp", "two.cpp"]
