"""A Python that is forked finds what a fresh one does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import processes
import pytest
import warm_python

pytestmark = [pytest.mark.slow]

LOOK = """
import atexit, json, os, signal, sys
if "out" in sys.argv:
    atexit.register(print, "at the end")
    print(json.dumps({
        "argv": sys.argv, "cwd": os.getcwd(), "path": sys.path, "main": __name__, "executable": sys.executable,
        "environ": dict(os.environ), "streams": [sys.stdin.read(), sys.stdout.encoding, sys.stdout.errors,
        sys.stdout.line_buffering, sys.stdout.write_through, sys.stderr.errors, sys.stderr.isatty()],
        "signals": [str(signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)],
        "files": sorted(set(os.listdir("/proc/self/fd")) & set("012")),
        "bytecode": sys.dont_write_bytecode, "lines": len(open(__file__).readlines()) if "__file__" in dir() else 0,
    }), flush=True)
"""


def found(done: processes.Done) -> tuple[dict[str, object], str, str]:
    first, _, rest = done.stdout.partition("\n")
    return json.loads(first), rest, done.stderr


@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1", "HOME": "/nowhere", "PYTHONDONTWRITEBYTECODE": None}])
def test_a_script_finds_the_same(tmp_path: Path, env: dict[str, str | None]) -> None:
    words = ("out", "two words", "ä")
    fresh, warm = (
        kind.run_python(LOOK, *words, cwd=tmp_path, path=[Path("/first"), tmp_path], env=env)
        for kind in (processes, warm_python)
    )

    assert found(warm) == found(fresh)


@pytest.mark.parametrize("first", [[], ["-P"]])
def test_a_module_finds_the_same(tmp_path: Path, first: list[str]) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "looking.py").write_text(LOOK)
    command = [*first, "-m", "looking", "out"]
    env = {"PYTHONPATH": str(folder)}

    fresh = processes.run([sys.executable, *command], cwd=folder, env=env)

    assert found(warm_python.run(command, cwd=folder, env=env)) == found(fresh)


def test_a_file_finds_the_same(tmp_path: Path) -> None:
    file = tmp_path / "looking.py"
    file.write_text(LOOK)
    fresh = processes.run([sys.executable, file, "out"], cwd=tmp_path.parent)

    assert found(warm_python.run([file, "out"], cwd=tmp_path.parent)) == found(fresh)


@pytest.mark.parametrize(
    "script",
    [
        "import sys; sys.exit('a word')",
        "print(1 / 0)",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import os; os._exit(7)",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
        "a b",
        "import sys; sys.stdout.write('x' * 200_000); sys.stderr.write('y' * 200_000)",
    ],
)
def test_it_ends_in_the_same_way(tmp_path: Path, script: str) -> None:
    fresh, warm = (kind.run_python(script, cwd=tmp_path, check=False) for kind in (processes, warm_python))

    assert (warm.returncode, warm.stdout) == (fresh.returncode, fresh.stdout)
    # Python quotes no line of a script that it has from its command line; later ones do.
    assert [line for line in warm.stderr.splitlines() if not line.startswith("    ")] == [
        line for line in fresh.stderr.splitlines() if not line.startswith("    ")
    ]


def test_streams_that_are_given_are_used(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with Path("/dev/full").open("w") as full:
        done = warm_python.run(["-c", "print('x')"], cwd=tmp_path, check=False, stdout=full)
        fresh = subprocess.run(
            [sys.executable, "-c", "print('x')"],
            env=processes.clean_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        broken = warm_python.run(["-c", "print('x')"], cwd=tmp_path, check=False, stdout=writer)
    os.close(writer)

    assert (done.returncode, done.stderr) == (fresh.returncode, fresh.stderr) == (120, done.stderr)
    assert "No space left" in done.stderr
    assert "BrokenPipeError" in broken.stderr


def test_a_script_that_hangs_is_killed_and_the_next_one_runs(tmp_path: Path) -> None:
    done = warm_python.run(["-c", "import time; time.sleep(60)"], cwd=tmp_path, check=False, limit=0.5)

    assert done.returncode == -signal.SIGKILL
    assert warm_python.run_python("print('here')", cwd=tmp_path).stdout == "here\n"


def test_what_is_read_at_the_start_is_that_of_the_test(tmp_path: Path) -> None:
    """Of the threads, of a library that is loaded before others, and of what Python itself reads."""
    (tmp_path / "two.c").write_text("int two(void) { return 2; }")
    subprocess.run(["cc", "-shared", "-fPIC", "two.c", "-o", "two.so"], cwd=tmp_path, check=True)
    python = "import sys; print(sys.warnoptions, hash('a'))"
    script = "import ctypes, torch; print(torch.get_num_threads(), ctypes.CDLL(None).two())"
    env = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONHASHSEED": "7"}
    env["LD_PRELOAD"] = str(tmp_path / "two.so")
    fresh, warm = (kind.run_python(python, cwd=tmp_path, env=env) for kind in (processes, warm_python))

    assert warm.stdout == fresh.stdout
    assert warm_python.run_python(script, cwd=tmp_path, env=env).stdout == "1 2\n"
    assert warm_python.run_python(python, cwd=tmp_path).stdout != fresh.stdout


WAIT_FOR_EIGHT = """
import os, sys, time
from pathlib import Path
Path(sys.argv[1], f"{sys.argv[2]}.txt").touch()
while len(list(Path(sys.argv[1]).glob("*.txt"))) < 8:
    time.sleep(0.01)
print(os.getcwd())
sys.exit(int(sys.argv[2]))
"""


def test_scripts_that_run_at_once_do_not_meet(tmp_path: Path) -> None:
    def run(number: int) -> processes.Done:
        folder = tmp_path / str(number)
        folder.mkdir()
        return warm_python.run_python(WAIT_FOR_EIGHT, tmp_path, str(number), cwd=folder, check=False)

    warm_python.run_python("", cwd=tmp_path)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(run, range(8)))

    assert [each.returncode for each in done] == list(range(8))
    assert [each.stdout for each in done] == [f"{tmp_path}/{number}\n" for number in range(8)]
