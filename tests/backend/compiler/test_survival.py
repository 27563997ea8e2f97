"""What a compile at first use must survive: many at once, sudden death, full disks, filesystems without locks.

Real processes and real compilers; each test has a store, a temporary folder and a compiler of its own. Nothing here
depends on what torch was built for, so one environment is enough.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from builds import remove_work
from editables import REQUIRE, SMALL, Editable, make_editable
from kernelwheel.store.publishing import intact_entry
from patched_compiler import patched_compiler
from processes import Done, clean_environment, run

pytestmark = [pytest.mark.once, pytest.mark.slow]

KILLS = int(os.environ.get("SPLAT_TEST_KILLS", "0"))
PROCESSES = 16


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


def processes_of(editable: Editable) -> list[tuple[int, str]]:
    """The live processes that work for a user, by their temporary folders: compilers and what starts them."""
    mark = f"\0TMPDIR={editable.folder}/".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in b"\0" + (process / "environ").read_bytes():
                found.append((int(process.name), (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
        except OSError:
            continue
    return found


def assert_tidy(editable: Editable) -> None:
    """One whole entry in the store, and nothing left of those who made it or died making it."""
    (entry,) = editable.store.entries()
    assert intact_entry(editable.store, entry.manifest.fingerprint) == entry
    root = editable.store.root
    assert {path.name for path in root.iterdir()} == {".lock", ".maker", ".work", entry.folder.name}
    assert list((root / ".work").iterdir()) == []
    (work,) = (path for path in editable.builds.iterdir() if path.suffix != ".lock")
    assert {path.name for path in work.iterdir()} == {"src", "build", "older", "build.log", "whole.json"}


# Many at once


AT_ONCE = """
import contextlib, hashlib, io, json, os, sys, time
from pathlib import Path
import tiny
from kernelwheel.__main__ import main
go, how = Path(sys.argv[1]), sys.argv[2]
for ready in map(Path, sys.argv[3:]):
    if os.fork() == 0:
        break
else:
    sys.exit(any([os.wait()[1] for _ in sys.argv[3:]]))
ready.touch()
while not go.exists():
    time.sleep(0.005)
if how == "first call":
    tiny.KERNELS.require("cpu")
    folder = Path(tiny.KERNELS.info()["loaded"]["cpu"])
else:
    with contextlib.redirect_stdout(io.StringIO()) as view:
        assert main(["cache", "build", "tiny", "--cuda", "off", "--json"]) == 0
    folder = Path(json.loads(view.getvalue())["folder"])
line = f"{folder} {hashlib.sha256((folder / 'libtiny_cpu.so').read_bytes()).hexdigest()}\\n"
os.write(1, line.encode())  # in one piece: all children write to one pipe
"""


def all_at_once(editable: Editable, how: str, count: int) -> list[str]:
    """Children of a process that has imported torch, which all ask for kernels at one moment; what each got: the folder
    and the library's digest.
    """
    go = editable.folder / "go"
    ready = [editable.folder / f"ready{i}" for i in range(count)]
    running = start(editable, AT_ONCE, go, how, *ready)
    while not all(path.exists() for path in ready):
        assert running.poll() is None
        time.sleep(0.05)
    go.touch()
    return finish(running).splitlines()


@pytest.fixture
def tiny(tmp_path: Path) -> Editable:
    """tiny's own sources, and another file."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    editable = make_editable(folder)
    editable.change("native/CMakeLists.txt", "SOURCES twice.cpp", "SOURCES twice.cpp more.cpp")
    (editable.checkout / "native" / "more.cpp").write_text('extern "C" int tiny_more() { return 3; }\n')
    return editable


@pytest.mark.parametrize("how", ["first call", "cache build"])
def test_16_processes_at_once_make_one_compile_and_get_one_artifact(tiny: Editable, how: str) -> None:
    got = all_at_once(tiny, how, PROCESSES)

    assert tiny.compiled() == ["more.cpp", "twice.cpp"]
    assert len(got) == PROCESSES
    assert len(set(got)) == 1
    assert_tidy(tiny)


def test_those_who_wait_are_told_for_whom_since_when_and_where_its_log_is(small: Editable) -> None:
    with making(small) as maker:
        waiting = start(small, REQUIRE)
        assert waiting.stderr is not None
        said = ""
        while "waiting for" not in said:
            line = waiting.stderr.readline()
            assert line, f"it did not wait: {said}"
            said += line
    finish(waiting)

    assert f"process {maker.pid}" in said
    assert "since" in said
    assert "/there/build.log" in said


@contextmanager
def making(editable: Editable) -> Iterator[subprocess.Popen[str]]:
    """A process that makes an entry, until it is killed."""
    script = """
import time
from tiny._kernelwheel.store import Store
from tiny._kernelwheel.store_lock import making, sign
from pathlib import Path
import sys
store = Store(Path(sys.argv[1]), "tiny", "1.2.3")
with making(store, print):
    sign(store, log="/there/build.log")
    print("making", flush=True)
    time.sleep(600)
"""
    process = start(editable, script, editable.cache)
    assert process.stdout is not None
    assert process.stdout.readline() == "making\n"
    yield process
    process.kill()
    process.communicate()


def test_threads_at_first_use_make_one_compile(small: Editable) -> None:
    script = """
import threading, tiny
failures = []
def use():
    try:
        tiny.KERNELS.require("cpu")
    except Exception as error:
        failures.append(error)
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failures, failures
"""
    small.python(script)

    assert small.compiled() == ["one.cpp", "two.cpp"]
    assert_tidy(small)


def test_ranks_that_see_different_gpus_make_one_compile(small: Editable) -> None:
    program = small.folder / "program.py"
    program.write_text("""
import os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
import torch.distributed as dist
import tiny
dist.init_process_group("gloo")
dist.barrier()
tiny.KERNELS.require("cpu")
found = [None] * dist.get_world_size()
dist.all_gather_object(found, str(tiny.KERNELS.info()["loaded"]["cpu"]))
assert len(found) == 4 and len(set(found)) == 1, found
dist.destroy_process_group()
""")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    run([sys.executable, *torchrun, program], cwd=small.folder, env=small.environment)

    assert small.compiled() == ["one.cpp", "two.cpp"]
    assert_tidy(small)


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
    time.sleep(60)
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
        start(small, script, ending).communicate(timeout=60)
        (small.folder / "slow").unlink(missing_ok=True)
        if ending == "at the end":
            small.change("native/one.h", "1", "7")  # so that there is something to make
        small.python(REQUIRE)
        taken = time.monotonic() - begin
    finally:
        os.kill(int((small.folder / "child").read_text()), signal.SIGKILL)

    assert taken < 50


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
    if word == "die_after":
        time.sleep(float(argument))
        os.kill(child, signal.SIGKILL)
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
            assert status == -signal.SIGKILL or order.startswith("die_after"), order
        for entry in self.editable.store.entries():
            assert intact_entry(self.editable.store, entry.manifest.fingerprint) == entry, order
        status, seconds = self.call("live")
        assert status == 0, (order, self.said())
        assert seconds < 20, order
        # The zygote is alone: what the dead one had started ends too, if only after it has made the entry.
        deadline = time.monotonic() + 5
        while len(processes_of(self.editable)) > 1:
            assert time.monotonic() < deadline, (order, processes_of(self.editable))
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
STEPS = [
    "cmake_build _drive before",
    "compile _read_back before",
]
FILES = [
    "build/configured.json",
    "build/CMakeFiles",  # in configure
    "build/build.ninja",  # after it
    "build/CMakeFiles/*/*.o",  # in the build
    "out/*.so",
]
# While what an earlier compile left is used again, after an edit; and after a build, which is the shorter then.
STEPS_AFTER_AN_EDIT = [
    "work_folder remove_temporary before",
    "work_folder _copy_sources before",
    "work_folder _copy_sources after",
    "compile mark_reusable before",
    "compile remove_temporary before",
    "compile _read_back after",
    "shutil copy2 before",
    "shutil copy2 after",
    "manifest_file write before",
    "manifest_file write after",
    "publishing _fsync 1",
    "publishing _fsync 3",
    "Path rename before",
    "Path rename after",
    "publishing _fsync 4",
    "build_or_reuse clean_builds before",
]


def orders(steps: list[str], files: list[str], who: str) -> list[str]:
    """Orders for a zygote: at each step the caller or the compiler dies, and as each file is there, the caller."""
    when = [f"die_when {WORK}{file}" for file in files] if who == "caller" else []
    return [*(f"die_at {who} {step}" for step in steps), *when]


@pytest.mark.parametrize("who", ["caller", "compiler"])
def test_a_kill_at_every_step_leaves_nothing_half_and_nobody_waiting(zygote: Zygote, who: str) -> None:
    right = zygote.make()
    for order in orders(STEPS, FILES, who):
        remove_work(zygote.editable.builds)
        zygote.survive(order, right)


@pytest.mark.parametrize("who", ["caller", "compiler"])
def test_a_kill_at_every_step_of_a_compile_after_an_edit_leaves_nothing_half(zygote: Zygote, who: str) -> None:
    """One of the two dies at each step; with SPLAT_TEST_SLOW, either."""
    edits = Edits(zygote)
    turn = STEPS_AFTER_AN_EDIT[who == "compiler" :: 2]
    steps = STEPS_AFTER_AN_EDIT if os.environ.get("SPLAT_TEST_SLOW") else turn
    for order in orders(steps, ["build/configured.json", "out/*.so"], who):
        zygote.survive(order, edits.make_one())


class Edits:
    """The same file edited back and forth, and the library that each state makes from nothing."""

    def __init__(self, zygote: Zygote) -> None:
        self.small = zygote.editable
        self.states = ["ONE 1", "ONE 2"]
        self.right = {}
        for _ in self.states:
            remove_work(self.small.builds)
            self.right[self.states[0]] = zygote.make()
            self.make_one()

    def make_one(self) -> bytes:
        """Edit the file; returns the library that it must make."""
        self.small.change("native/one.h", *self.states)
        self.states.reverse()
        return self.right.get(self.states[0], b"")


@pytest.mark.skipif(not KILLS, reason="the kills at every step are tried: set SPLAT_TEST_KILLS=100 for random moments")
def test_kills_at_random_moments_leave_nothing_half_and_nobody_waiting(zygote: Zygote) -> None:
    edits = Edits(zygote)
    remove_work(zygote.editable.builds)
    begin = time.monotonic()
    zygote.make()
    whole = time.monotonic() - begin
    moments = random.Random(KILLS)
    for kill in range(KILLS):
        if kill % 2:
            remove_work(zygote.editable.builds)
        zygote.survive(f"die_after {moments.uniform(0.0, whole):.4f}", edits.make_one())


def start_compilers(small: Editable) -> subprocess.Popen[str]:
    """A call whose two compilers are running, and go on until `slow` is removed."""
    (small.folder / "slow").touch()
    making = start(small, REQUIRE)
    while small.compiled() != ["one.cpp", "two.cpp"]:
        assert making.poll() is None
        time.sleep(0.01)
    return making


def assert_all_end_and_the_next_call_succeeds(small: Editable) -> None:
    deadline = time.monotonic() + 3
    while processes_of(small):
        assert time.monotonic() < deadline, processes_of(small)
        time.sleep(0.01)
    (small.folder / "slow").unlink()
    small.python(REQUIRE)
    assert_tidy(small)


def test_compilers_die_with_their_caller(small: Editable) -> None:
    making = start_compilers(small)
    making.kill()
    making.communicate(timeout=60)

    assert_all_end_and_the_next_call_succeeds(small)


def test_compilers_die_with_the_driver_alone(small: Editable) -> None:
    """As it is killed for lack of memory; who asked it lives on."""
    making = start_compilers(small)
    driver = min(process for process, words in processes_of(small) if "compiler/__main__.py" in words)
    os.kill(driver, signal.SIGKILL)
    _, said = making.communicate(timeout=60)

    assert making.returncode == 1
    assert "BuildError" in said
    assert "signal 9" in said
    assert_all_end_and_the_next_call_succeeds(small)


def test_the_compilers_die_with_their_caller_where_there_is_no_proc(small: Editable) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount")
    (small.folder / "slow").touch()
    calls = small.folder / "calls"
    command = ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs none /proc; exec "$@"', "sh"]
    process = subprocess.Popen(
        [*command, sys.executable, "-c", REQUIRE],
        cwd=small.folder,
        env=clean_environment(small.environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while "/src/one.cpp" not in (calls.read_text() if calls.exists() else ""):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()

    deadline = time.monotonic() + 20
    while (left := processes_of(small)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    (small.folder / "slow").unlink()
    small.python(REQUIRE)
    assert_tidy(small)


# Disks and filesystems


def in_namespace(editable: Editable, mount: str, *, check: bool = False) -> Done:
    """Ask for kernels where `mount` was run before, a shell command that only this process sees the effect of."""
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("this user may not mount")
    editable.cache.mkdir(exist_ok=True)
    command = ["unshare", "--mount", "sh", "-ec", f"{mount}; exec {sys.executable} -c '{REQUIRE}'"]
    return run(command, cwd=editable.folder, env=editable.environment, check=check)


def test_a_store_on_a_full_disk_is_said_and_works_when_there_is_room(small: Editable) -> None:
    done = in_namespace(small, "mount -t tmpfs -o size=12k none cache")

    assert "StoreError: compiled kernels cannot be stored" in done.stderr
    assert "No space left on device" in done.stderr
    assert f"writable folder with enough free space: {small.store.root}" in done.stderr
    assert "TINY_CACHE_DIR" in done.stderr
    small.python(REQUIRE)
    assert_tidy(small)


@pytest.mark.parametrize("size", ["4k", "160k"])
def test_a_full_disk_is_said(small: Editable, size: str) -> None:
    small.builds.mkdir(parents=True)
    mounts = (f"mount -t tmpfs -o size={size},mode=700 none {folder}" for folder in (small.builds, small.temporary))
    done = in_namespace(small, "; ".join(mounts))

    assert f"because {small.builds}" in done.stderr
    assert "BuildError" in done.stderr
    assert "free some space" in done.stderr
    assert list(small.store.entries()) == []
    assert list((small.store.root / ".work").iterdir()) == []
    small.python(REQUIRE)
    assert_tidy(small)


def test_a_store_on_a_disk_that_is_read_only_is_said(small: Editable) -> None:
    done = in_namespace(small, "mount --bind cache cache; mount -o remount,ro,bind cache")

    assert "StoreError: compiled kernels cannot be stored" in done.stderr
    assert "Read-only file system" in done.stderr
    assert "TINY_CACHE_DIR" in done.stderr


def test_an_entry_on_a_disk_that_is_read_only_is_found(compiled: Editable) -> None:
    done = in_namespace(compiled, "mount --bind cache cache; mount -o remount,ro,bind cache", check=True)

    assert str(compiled.store.root) in done.stdout
    assert compiled.compiled() == []


AS_NOBODY = """
import os, sys
import tiny
from tiny._kernelwheel import compile_into_store, progress, settings, sources
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


LIST_AS_NOBODY = """
import os, sys
import tiny
from tiny._kernelwheel import doctor, inventory
os.setgid(65534)
os.setuid(65534)
store = list(tiny.KERNELS.installed.stores())[-1]
(error,) = inventory.take_inventory(store).refused
print(error)
(damage,) = [f for f in doctor.examine(tiny.KERNELS)["findings"] if "store" in f["what"]]
print(damage["found"])
"""


@needs_root
def test_a_store_that_cannot_be_looked_into_is_a_finding(public: Editable) -> None:
    public.cache.mkdir(mode=0o700)

    said = public.python(LIST_AS_NOBODY).stdout

    assert said.count("PermissionError") == 2
    assert "give this user permission to read it" in said


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


PREDICT_AS_NOBODY = "from tiny._kernelwheel import doctor\n" + AS_NOBODY.replace(
    "try:",
    """view = doctor.examine(tiny.KERNELS)
print(*(each["outcome"] for each in view["next"]), sep="\\n")
print([found["found"] for found in view["findings"] if found["what"] == "CPU calls fail"])
try:""",
)


@needs_root
@pytest.mark.parametrize("home", [None, "/"])
def test_doctor_says_that_what_is_compiled_could_not_be_stored(public: Editable, home: str | None) -> None:
    """As in a container that runs as any number, without a home."""
    public.cache.mkdir()
    there = {} if home is None else {"TINY_CACHE_DIR": None, "XDG_CACHE_HOME": None, "HOME": home}

    *outcomes, found, said = public.python(PREDICT_AS_NOBODY, **there).stdout.splitlines()[:4]

    assert outcomes == ["fail"] * 2
    assert "compiling would fail: compiled kernels cannot be stored" in found
    assert said == "StoreError compiled kernels cannot be stored"


@needs_root
def test_a_home_that_this_user_may_not_use_is_said(public: Editable) -> None:
    home = public.folder / "home"
    home.mkdir(mode=0o700)
    said = public.python(AS_NOBODY, TINY_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME=str(home)).stdout

    assert said.startswith("UnreadableStoreError")
    assert str(home) in said
    assert "TINY_CACHE_DIR" in said


@pytest.mark.parametrize("home", [None, "relative"])
def test_without_a_home_nothing_is_kept_in_the_current_folder(small: Editable, home: str | None) -> None:
    script = f"""
import pwd
def getpwuid(uid): raise KeyError(uid)
pwd.getpwuid = getpwuid
{REQUIRE}
"""
    said = small.failure(script, TINY_CACHE_DIR=None, XDG_CACHE_HOME=None, HOME=home)

    assert said.startswith("errors.StoreError")
    assert "XDG_CACHE_HOME" in said
    assert sorted(path.name for path in small.folder.iterdir()) == ["c++", "checkout", "tmp"]


def foreign_folder(path: Path) -> None:
    path.mkdir()
    os.chown(path, 65534, 65534)


def foreign_lock(path: Path) -> None:
    path.with_suffix(".lock").touch()
    os.chown(path.with_suffix(".lock"), 65534, 65534)


def link(path: Path) -> None:
    path.symlink_to(path.parent)


def link_as_lock(path: Path) -> None:
    path.with_suffix(".lock").symlink_to("elsewhere")


def open_folder(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def test_where_the_work_folder_cannot_be_used_a_temporary_one_is(small: Editable) -> None:
    small.python(REQUIRE)
    (path,) = small.builds.glob("kernelwheel-*/")
    of_others = (foreign_folder, foreign_lock) if os.geteuid() == 0 else ()
    for harm in (*of_others, link, link_as_lock, open_folder):
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
real = fcntl.flock
def flock(descriptor, operation):
    if os.environ["NO_LOCKS_IN"] in os.readlink(f"/proc/self/fd/{descriptor}"):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    return real(descriptor, operation)
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


def without_locks(editable: Editable, place: str, script: str, patch: str = "") -> subprocess.Popen[str]:
    """A process that can import tiny, where files whose paths contain `place` cannot be locked."""
    program = patched_compiler(editable.folder, NO_LOCKS + patch)
    return start(editable, NO_LOCKS + WITH_COMPILER + script, program, NO_LOCKS_IN=place)


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
    both = [without_locks(small, "/", script, PUBLISH_TOGETHER) for _ in range(2)]
    folders, digests = zip(*(finish(process).split() for process in both), strict=True)

    assert len(set(digests)) == 1
    (entry,) = small.store.entries()
    assert set(folders) == {str(entry.folder)}
    assert small.compiled() == ["one.cpp", "one.cpp", "two.cpp", "two.cpp"]


def test_without_locks_in_the_store_alone_the_compile_is_made_once(small: Editable) -> None:
    both = [without_locks(small, str(small.cache), REQUIRE) for _ in range(2)]
    folders = {finish(process) for process in both}

    assert len(folders) == 1
    assert len(list(small.store.entries())) == 1
