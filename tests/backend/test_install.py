"""Installed wheels: a silent import, kernels that work, and no library loaded that the manifest does not vouch for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builds import TORCH, Wheel, needs_cpu_torch, needs_cuda_torch
from processes import RunPython, run
from samples import flip, rewrite_manifest

TWICE = "torch.ops.tiny.twice(torch.arange(4.0)).tolist() == [0.0, 2.0, 4.0, 6.0]"


@pytest.fixture
def site(wheel: Wheel, tmp_path: Path) -> Path:
    """The wheel's files in a folder of their own, which a test may spoil."""
    return Path(shutil.copytree(wheel.unpacked, tmp_path / "site"))


# Import


@pytest.mark.once
@pytest.mark.quick
def test_importing_says_nothing_and_loads_the_cpu_kernels(wheel: Wheel, tmp_path: Path, run_python: RunPython) -> None:
    """It neither initialises CUDA nor loads kernels for it nor starts a program."""
    script = f"""
import sys
import torch
started = []
sys.addaudithook(lambda event, _: started.append(event) if event in ("subprocess.Popen", "os.system") else None)
import tiny
assert not torch.cuda.is_initialized()
assert started == [], started
assert "libtiny_cuda" not in open("/proc/self/maps").read()
assert {TWICE}
"""
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", tmp_path / "site"]
    run([*pip, wheel.file], cwd=tmp_path)

    done = run_python(script, path=[tmp_path / "site"])

    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.once
def test_the_kernels_work_in_a_child_of_fork_also_of_one_while_another_thread_loads(
    site: Path, run_with_torch: RunPython
) -> None:
    script = f"""
import os, threading, torch, tiny
held, done = threading.Event(), threading.Event()
def hold():
    with tiny.KERNELS.lock:
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    import signal
    signal.alarm(20)
    tiny.KERNELS._loaded.clear()
    tiny.KERNELS.require("cpu")
    os._exit(0 if {TWICE} else 1)
done.set()
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    run_with_torch(script, path=[site])


@pytest.mark.once
def test_the_installed_files_may_be_read_only(site: Path, run_with_torch: RunPython) -> None:
    run(["chmod", "-R", "a-w", site], cwd=site)

    run_with_torch(f"import tiny, torch; assert {TWICE}", path=[site])


# Kernels that may not be loaded: said at the first call that needs them, before any dlopen


REFUSED = """
import tiny
from tiny._kernelwheel.errors import IncompatibleArtifactError
for _ in range(2):  # at each call
    try:
        tiny.KERNELS.require("cpu")
    except IncompatibleArtifactError as error:
        print(error)
    else:
        raise SystemExit("required without an error")
assert "libtiny" not in open("/proc/self/maps").read()
"""


@pytest.fixture
def refusal(run_with_torch: RunPython) -> Callable[..., str]:
    """What an installed package says when its kernels are required, which must not be loaded by then."""

    def ask(site: Path, **env: str) -> str:
        done = run_with_torch(REFUSED, path=[site], env=env)
        assert done.stderr == ""
        return done.stdout

    return ask


def edit(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return lambda native: rewrite_manifest(native, change)


def for_another_platform(values: dict[str, Any]) -> None:
    values["requires"]["platform"] = values["plan"]["target"]["platform"] = "plan9-mips"


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped byte": (lambda native: flip(native / "libtiny_cpu.so"), "damaged"),
    "another platform": (edit(for_another_platform), "plan9-mips"),
}


@pytest.mark.once
@pytest.mark.parametrize(("change", "says"), CHANGES.values(), ids=CHANGES)
def test_kernels_that_are_not_the_wheel_s_or_not_for_this_machine_are_refused(
    site: Path, refusal: Callable[..., str], change: Callable[[Path], object], says: str
) -> None:
    change(site / "tiny/_native")

    assert says in refusal(site, TINY_JIT="never")


# CUDA kernels


REQUIRE_CUDA = """
import sys, torch, tiny
from tiny._kernelwheel.errors import IncompatibleArtifactError
assert not torch.cuda.is_initialized()
assert "libtiny_cuda" not in open("/proc/self/maps").read()
if len(sys.argv) > 1 and torch.cuda.is_available():
    raise SystemExit(77)
try:
    tiny.KERNELS.require("cuda", 0)
except IncompatibleArtifactError as error:
    print(error)
else:
    raise SystemExit("required without an error")
assert "libtiny_cuda" not in open("/proc/self/maps").read()
"""


@needs_cpu_torch
def test_cuda_kernels_beside_a_cpu_torch_are_refused(wheel: Wheel, run_with_torch: RunPython) -> None:
    said = run_with_torch(REQUIRE_CUDA, path=[wheel.unpacked]).stdout

    assert TORCH.version in said


@needs_cuda_torch
def test_cuda_kernels_without_a_gpu_are_an_error_that_says_so(wheel: Wheel, run_with_torch: RunPython) -> None:
    done = run_with_torch(REQUIRE_CUDA, "only without a GPU", path=[wheel.unpacked], check=False)
    if done.returncode == 77:
        pytest.skip("this machine has a GPU")

    assert done.returncode == 0, done.stderr
    assert "GPU" in done.stdout


GPU = """
import torch, tiny
if not torch.cuda.is_available():
    raise SystemExit(77)
assert not torch.cuda.is_initialized()
"""


@needs_cuda_torch
def test_the_cuda_kernels_work_on_a_gpu(wheel: Wheel, run_with_torch: RunPython) -> None:
    script = (
        GPU
        + """
tiny.KERNELS.require("cuda", 0)
assert torch.ops.tiny.twice(torch.arange(4.0, device="cuda")).tolist() == [0.0, 2.0, 4.0, 6.0]
"""
    )
    done = run_with_torch(script, path=[wheel.unpacked], check=False)
    if done.returncode == 77:
        pytest.skip("this machine has no GPU")

    assert done.returncode == 0, done.stderr
