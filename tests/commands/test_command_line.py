"""The command line as a process: broken pipes, full disks, Ctrl-C and too little memory end in one line, or none."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import processes
import pytest
import warm_python
from ply_files import XYZ, columns, header, ply

from splat import cli
from splat.scene.ply import read_ply

pytestmark = pytest.mark.slow

Done = subprocess.CompletedProcess[str]

SMALL_FIT = ["fit", "-o", "fit.ply", "--steps", "2", "--gaussians", "9", "--device", "cpu", "picture.npz"]
# What follows is decided in one place, so that each way of printing is enough: argparse's, JSON, progress, and text,
# which is unbuffered here: the first word fails and not the last flush.
WAYS_OF_PRINTING = [(["--version"], False), (["doctor", "--json"], False), (SMALL_FIT, False), (["doctor"], True)]


@pytest.mark.parametrize("said", [{}, {"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "9"}])
def test_threads_that_wait_give_up_their_core_unless_the_user_says_otherwise(
    said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in cli.WAITING:
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(SystemExit):
        cli.main(["info", "--help"])

    assert {name: os.environ[name] for name in cli.WAITING if name in os.environ} == (
        said or {"OMP_WAIT_POLICY": "passive"}
    )


@pytest.fixture
def prepared(tmp_path: Path) -> None:
    """What a fit reads."""
    views = {"images": np.full((1, 8, 8, 3), 200, np.uint8), "viewmats": np.eye(4)[None], "Ks": np.eye(3)[None]}
    np.savez(tmp_path / "picture.npz", **views)


def splat(words: Sequence[str], cwd: Path, unbuffered: bool = False, **streams: Any) -> Done:
    environ = {"PYTHONUNBUFFERED": "1" if unbuffered else None}
    return warm_python.run(["-m", "splat", *words], cwd=cwd, env=environ, check=False, **streams)


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(("words", "unbuffered"), WAYS_OF_PRINTING, ids=str)
def test_a_broken_pipe_ends_it_without_a_word(tmp_path: Path, words: list[str], unbuffered: bool) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = splat(words, tmp_path, unbuffered, stdout=writer)
    finally:
        os.close(writer)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize(("words", "unbuffered"), WAYS_OF_PRINTING, ids=str)
def test_output_that_cannot_be_written_is_one_line(tmp_path: Path, words: list[str], unbuffered: bool) -> None:
    with Path("/dev/full").open("w") as full:
        done = splat(words, tmp_path, unbuffered, stdout=full)
    assert done.returncode == 1
    assert done.stderr == "splat: standard output cannot be written to: [Errno 28] No space left on device\n"


def test_output_that_is_closed_is_one_line(tmp_path: Path) -> None:
    script = f'"{sys.executable}" -m splat --version >&-'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "splat: standard output cannot be written to: it is closed\n")


def test_errors_that_cannot_be_written_leave_the_status(tmp_path: Path) -> None:
    missing = ["render", "none.ply", "-o", "out.png"]
    with Path("/dev/full").open("w") as full:
        assert splat(missing, tmp_path, stderr=full).returncode == 1
        assert splat(["cache", "path"], tmp_path, stdout=full, stderr=full).returncode == 1
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert splat(missing, tmp_path, stderr=writer).returncode == 141
        assert splat(["doctor"], tmp_path, stdout=writer, stderr=writer).returncode == 141
    finally:
        os.close(writer)


# Too little memory

LIMITED = """
import contextlib, os, resource, sys
import torch
from splat import cli
torch.set_num_threads(1)
# What every process needs once: the kernels, and what libraries set aside for themselves.
with contextlib.redirect_stdout(sys.stderr):
    assert cli.main(["render", "-o", "warm.png", "--size", "8x8", "--device", "cpu"]) == 0
os.unlink("warm.png")
print("begin", file=sys.stderr, flush=True)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + int(float(sys.argv[1]) * 2**20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(cli.main(sys.argv[2:]))
"""


def limited(tmp_path: Path, megabytes: float, *words: str) -> Done:
    """A command that may have so many more megabytes than a process that has only begun."""
    done = warm_python.run_python(LIMITED, str(megabytes), *words, cwd=tmp_path, check=False)
    done.stderr = done.stderr.split("begin\n", 1)[1]
    return done


def test_pictures_too_large_for_the_memory(tmp_path: Path) -> None:
    done = limited(tmp_path, 1000, "render", "-o", "out.png", "--size", "16384x16384", "--device", "cpu")
    assert done.returncode == 1
    assert re.fullmatch(
        r"splat: rendering 14409 Gaussians at 16384x16384 needs more memory than there is \(5\.00 GiB in one "
        r"allocation\); choose a smaller --size, or a scene of fewer Gaussians\n",
        done.stderr,
    )
    assert list(tmp_path.iterdir()) == []


def test_scenes_too_large_for_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.ply"
    count = 2**28
    with path.open("wb") as file:
        file.write(header(f"element vertex {count}\n{XYZ}"))
        file.truncate(file.tell() + 12 * count)  # of zeros that take no space
    for words in (["render", "-o", "out.png"], ["view", "--port", "0"]):
        done = limited(tmp_path, 1000, *words, str(path))
        assert done.returncode == 1
        assert done.stderr == (
            f"splat: reading {path} needs more memory than there is (6.00 GiB in one allocation); choose a scene of "
            "fewer Gaussians\n"
        )


def test_splat_files_too_large_for_the_memory(tmp_path: Path) -> None:
    with (tmp_path / "large.splat").open("wb") as file:
        file.truncate(32 * 2**27)  # of zeros that take no space
    done = limited(tmp_path, 1000, "convert", "large.splat", "out.ply")
    assert done.returncode == 1
    assert done.stderr == (
        "splat: reading large.splat needs more memory than there is (4.00 GiB in one allocation); choose a scene of "
        "fewer Gaussians\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["large.splat"]


def test_fits_too_large_for_the_memory(tmp_path: Path) -> None:
    done = limited(tmp_path, 1000, "fit", "-o", "out.ply", "--gaussians", "2000000000", "--device", "cpu")
    assert done.returncode == 1
    assert re.fullmatch(
        r"splat: reading the pictures needs more memory than there is \(7\.45 GiB in one allocation\); choose fewer "
        r"--gaussians, or smaller or fewer pictures\n",
        done.stderr,
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("megabytes", [60, *(pytest.param(each, marks=pytest.mark.minutes) for each in (10, 150))])
def test_wherever_memory_ends_there_is_no_traceback(tmp_path: Path, megabytes: int) -> None:
    (tmp_path / "scene.ply").write_bytes(ply(columns(20_000)))
    render = ["render", "scene.ply", "-o", "out.png", "--size", "1500x1000"]
    fit = ["fit", "-o", "out.ply", "--steps", "2"]
    export = ["export", "scene.ply", "-o", "out.html"]
    for words in ([*render, "--device", "cpu"], [*fit, "--device", "cpu"], ["convert", "scene.ply", "out.spz"], export):
        done = limited(tmp_path, megabytes, *words)
        if done.returncode == 0:
            continue
        assert done.returncode == 1
        # Where an operator gets no memory, torch prints C++ stack traces before.
        last = done.stderr.splitlines()[-1]
        assert re.fullmatch(r"splat: \w+ .* needs more memory than there is.*; .*", last), done.stderr
        assert "Traceback" not in done.stderr
        assert {path.name for path in tmp_path.iterdir()} <= {"scene.ply", "out.ply", "out.spz", "out.html"}


UNIMPORTED = """
import resource, sys
from splat.commands.memory import NotEnoughMemory, enough_memory
if sys.argv[1] == "limited":
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + 60 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    with enough_memory(lambda: "this", "choose less"):
        raise ImportError("cannot import name 'SOME' from 'torch.some'")
except (NotEnoughMemory, ImportError) as error:
    print(error)
"""


def test_a_module_that_memory_ended_in_may_lack_a_name(tmp_path: Path) -> None:
    limited, whole = (warm_python.run_python(UNIMPORTED, word, cwd=tmp_path).stdout for word in ("limited", ""))
    assert limited == "this needs more memory than there is; choose less\n"
    assert whole == "cannot import name 'SOME' from 'torch.some'\n"


# Ctrl-C

INTERRUPTING = """
import os, signal, sys
from splat import cli
from splat.scene import ply_writer
from splat.fit import training
from splat.scene.file_output import replacing
at, again = int(sys.argv[1]), sys.argv[2]
step, steps = training.Trainer.step, []

def interrupted_step(self, numbers):
    if at in numbers:
        os.kill(os.getpid(), signal.SIGINT)
    return step(self, numbers)

class Interrupted:
    def __init__(self, file):
        self.file = file

    def write(self, data):
        self.file.write(data[: len(data) // 2])
        if again == "while it writes":
            os.kill(os.getpid(), signal.SIGINT)
        self.file.write(data[len(data) // 2 :])

import contextlib

@contextlib.contextmanager
def interrupted_replacing(path):
    with replacing(path) as file:
        yield Interrupted(file)

training.Trainer.step = interrupted_step
ply_writer.replacing = interrupted_replacing
sys.exit(cli.main(sys.argv[3:]))
"""


def interrupted_fit(tmp_path: Path, at: int, again: str = "") -> Done:
    words = ["fit", "-o", "out.ply", "--steps", "50", "--gaussians", "90", "--device", "cpu"]
    return warm_python.run_python(INTERRUPTING, str(at), again, *words, cwd=tmp_path, check=False)


@pytest.mark.minutes
@pytest.mark.parametrize("at", [1, 50])
def test_an_interrupted_fit_keeps_what_it_has(tmp_path: Path, at: int) -> None:
    done = interrupted_fit(tmp_path, at)
    assert done.returncode == 130
    found = re.fullmatch(
        r"splat: interrupted after (\d+) of 50 steps; the scene as fitted so far, (\d+) Gaussians, is in out\.ply\n",
        done.stderr,
    )
    assert found, done.stderr
    assert int(found[1]) == at
    assert done.stdout == ""
    assert len(read_ply(tmp_path / "out.ply")) == int(found[2])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.cameras.json", "out.ply"]


def test_a_second_interrupt_leaves_no_half_file(tmp_path: Path) -> None:
    (tmp_path / "out.ply").write_bytes(b"what was there")
    done = interrupted_fit(tmp_path, 20, "while it writes")
    assert (done.returncode, done.stderr) == (130, "splat: interrupted\n")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out.ply": b"what was there"}


def interrupt_once_it_says(words: Sequence[str], text: bytes, cwd: Path) -> tuple[int, str]:
    """The exit status and all that it said, of a command in a terminal of its own that gets Ctrl-C after `text`."""
    terminal, inside = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "splat", *words],
        cwd=cwd,
        env=processes.clean_environment({"TERM": "xterm"}),
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    said = bytearray()

    def read() -> None:
        try:
            while data := os.read(terminal, 4096):
                said.extend(data)
        except OSError:  # it has ended
            pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        end = time.monotonic() + 120
        while text not in said and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        status = process.wait(120)
    finally:
        process.kill()
        reader.join()
        os.close(terminal)
    return status, said.decode(errors="replace")


def test_ctrl_c_in_a_terminal(tmp_path: Path) -> None:
    words = ["fit", "-o", "out.ply", "--steps", "1000000", "--gaussians", "90", "--device", "cpu"]
    status, said = interrupt_once_it_says(words, b"loss 0.", tmp_path)
    assert status == 130
    assert "Traceback" not in said
    assert re.search(r"interrupted after \d+ of 1000000 steps", " ".join(said.split()))
    assert len(read_ply(tmp_path / "out.ply")) > 0


@pytest.mark.minutes
def test_ctrl_c_in_a_terminal_while_a_video_is_made(tmp_path: Path) -> None:
    pytest.importorskip("av")
    words = ["render", "--path", "orbit", "--seconds", "600", "--size", "64x48", "-o", "out.mp4"]
    status, said = interrupt_once_it_says(words, b"frames", tmp_path)
    assert status == 130
    assert re.search(r"splat: interrupted after \d+ of 18000 frames; nothing was written\r\n$", said), said
    assert re.search(r"render.*/18000", said), said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["render", "-o", "out.png"], ["doctor"], ["cache", "path"], SMALL_FIT], ids=" ".join)
def test_other_commands_end_without_a_word_of_python_s(tmp_path: Path, words: list[str]) -> None:
    # At the first thing that the command does.
    script = """
import os, signal, sys
from importlib import import_module
from splat import cli
if sys.argv[1] in cli.OF_KERNELS:
    module, name = import_module("splat._kernelwheel.__main__"), "find_kernels"
else:
    module, name = import_module(f"splat.commands.{sys.argv[1]}_command"), "run"
run = getattr(module, name)
def interrupted(args):
    os.kill(os.getpid(), signal.SIGINT)
    return run(args)
setattr(module, name, interrupted)
sys.exit(cli.main(sys.argv[1:]))
"""
    done = warm_python.run_python(script, *words, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "splat: interrupted\n")
    assert list(tmp_path.iterdir()) == []
