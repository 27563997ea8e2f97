"""What all tests share: their helpers on sys.path, a Python of their own, a checkout, the scenes."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).resolve().parent
REPOSITORY = TESTS.parent
# Test modules are imported by path (--import-mode=importlib), so what they import must be put on sys.path here.
sys.path[:0] = [str(REPOSITORY / "backend"), str(TESTS), str(TESTS / "backend")]

import processes  # noqa: E402

# A shell script's background commands ignore Ctrl-C, and so would everything that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a session makes once for several tests, before a test has its own store, leaves the user's alone too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own, empty store, and leaves the user's alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def run_python(tmp_path: Path) -> processes.RunPython:
    """Run a script in a fresh Python: `run_python(script, *arguments, path=[folders], env={...}, check=True)`."""
    return partial(processes.run_python, cwd=tmp_path)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make a checkout of the package tiny, or of another of tests/packages, with the backend in it, as a user has it;
    each call makes a new one.
    """

    def make(package: str = "tiny") -> Path:
        folder = tmp_path_factory.mktemp("checkout") / package
        ignore = shutil.ignore_patterns("__pycache__", ".*_cache", "*.egg-info")
        shutil.copytree(TESTS / "packages" / package, folder, ignore=ignore)
        shutil.copytree(REPOSITORY / "backend", folder / "backend", ignore=ignore)
        return folder

    return make


@pytest.fixture(scope="session")
def simt(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The CUDA kernels as a module that executes them on the CPU. With one build of torch: it makes no difference."""
    import torch

    if torch.version.cuda is not None:
        pytest.skip("kernels are executed on the CPU in the environment with a CPU build of torch")
    from simt.compile_simt import build  # needs pyelftools, which a machine with a GPU need not have

    return build(tmp_path_factory.mktemp("simt"))


@pytest.fixture(scope="session")
def splat_wheel() -> Path:
    """The wheel that ci/test built in isolation, and installed here."""
    path = os.environ.get("SPLAT_TEST_WHEEL")
    if not path:
        pytest.skip("SPLAT_TEST_WHEEL does not name the wheel that is installed; ci/test sets it")
    return Path(path)
