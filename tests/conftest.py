"""What all tests share: a Python of their own, a checkout, the scenes."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import cast

import no_torch
import not_tried
import processes
import programs
import pytest
import warm_python
from folders import PACKAGES, REPOSITORY

# What differs with the build of torch.
BUILT_FOR_TORCH = {"wheel"}
# What a session makes once for several modules, without CUDA: one run has all of these modules.
KEPT = {"compiled_once", "entry", "cpu_wheel", "classic_wheel"}
# Of what runs once, the longest is claimed first, so that neither run is left with a long one at the end.
LONGEST = {"test_survival.py", "test_command_line.py", "test_front_ends.py"}
SIMT = {"simt_wheel", "simt_ptx"}  # what executes kernels
# Tests that use one of these fixtures build something or run a program. Builds shared by many tests do not count.
SLOW = {"run_python", "run_with_torch", "build_root", "small", "compiled_once", "older_ptx", "splat_wheel", *SIMT}
# Programs that build, or that import torch. Compilers that are asked for their version take no time.
LONG = ("python", "pytest", "pip", "uv")

WITHOUT_TORCH = no_torch.put_stand_in()
_links = tempfile.TemporaryDirectory(prefix="programs-")
PATH = os.environ["PATH"] = programs.make_path(Path(_links.name))

# A shell script's background commands ignore Ctrl-C, and so would everything that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


COMPILERS = ("compiler/__main__.py", "patched_compiler.py")
# The programs that this process has started.
started: list[str] = []


def _note_program(event: str, arguments: tuple[object, ...]) -> None:
    if event == "subprocess.Popen":
        program, words, *_ = arguments
        compiler = isinstance(words, list) and any(str(word).endswith(COMPILERS) for word in words)
        started.append("kernelwheel's compiler" if compiler else str(program))


sys.addaudithook(_note_program)


def pytest_configure(config: pytest.Config) -> None:
    """Say at the end what was not tried here."""
    config.pluginmanager.register(not_tried.Outcomes())


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures. Those that the other run may claim come last, which balances the two runs."""
    with_kept = {item.path for item in items if KEPT & set(getattr(item, "fixturenames", ()))}
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if fixtures & SIMT:
            item.add_marker(pytest.mark.simt)
            item.add_marker(pytest.mark.once("simt"))  # where it is compiled
        elif item.path in with_kept and once_group(item):
            item.add_marker(pytest.mark.once("kept"), append=False)
        if fixtures & SLOW or ("checkout" in fixtures and "tiny_checkout" not in fixtures):
            item.add_marker(pytest.mark.slow)
        needs_torch = (
            item.get_closest_marker("slow") or item.get_closest_marker("needs_torch") or "checkout" in fixtures
        )
        if WITHOUT_TORCH and needs_torch:
            item.add_marker(pytest.mark.skip(reason="there is no torch here"))
    groups = (
        ("kept", *LONGEST) if with_kept and not _has_cuda() else LONGEST
    )  # kernels for the CPU, where torch has none
    items.sort(key=lambda item: ((group := once_group(item)) is not None, group not in groups, group == "kept"))


def _has_cuda() -> bool:
    from builds import TORCH  # not at the top: the tests of a GPU have no build tools

    return TORCH.cuda is not None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Deselect what the other run has claimed."""
    group = once_group(item)
    if not group or take(group):
        return None
    item.config.hook.pytest_deselected(items=[item])
    item.session._setupstate.teardown_exact(nextitem)  # pytest's own, which ends what the next test does not share
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set PATH; skip what takes minutes, or needs another build of torch."""
    if item.get_closest_marker("minutes") and not os.environ.get("SPLAT_TEST_SLOW"):
        pytest.skip("takes minutes: set SPLAT_TEST_SLOW=1")  # first, so that all environments give the same reason
    every = item.get_closest_marker("every_program") is not None
    os.environ["PATH"] = os.pathsep.join((PATH, programs.MACHINE)) if every else PATH
    needs = item.get_closest_marker("needs_torch")
    if needs:
        from builds import TORCH  # not at the top: the tests of a GPU have no build tools

        if needs.args[0] == ("cpu" if TORCH.cuda else "cuda"):
            pytest.skip(f"torch {TORCH.version} of this environment has {'' if TORCH.cuda else 'no '}CUDA")


def once_group(item: pytest.Item) -> str | None:
    """The group that is claimed with a test, by default its module; None if each run is to have it."""
    fixtures, call = set(getattr(item, "fixturenames", ())), getattr(item, "callspec", None)
    if item.get_closest_marker("needs_torch") or (call and call.params.get("device") == "cuda"):
        return None
    once = item.get_closest_marker("once")
    if once is None and (item.get_closest_marker("both") or BUILT_FOR_TORCH & fixtures):
        return None
    return str(once.args[0]) if once and once.args else item.nodeid.partition("::")[0].rpartition("/")[2]


@cache
def take(group: str) -> bool:
    """Whether this run is the first to claim a group; parallel runs share the folder SPLAT_TEST_ONCE."""
    folder = os.environ.get("SPLAT_TEST_ONCE")
    if not folder:
        return True
    try:
        Path(folder, group).mkdir()
    except FileExistsError:
        return False
    return True


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


@pytest.fixture(autouse=True)
def starts_nothing_long(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test without the mark slow builds nothing, `ci/test quick` relies on it. It starts no Python either, but for
    that of the compiler, which says in a moment what it would do.
    """
    slow = request.node.get_closest_marker("slow")
    for asking in [module for name, module in sys.modules.items() if name.endswith(".compiler_process")]:
        if not slow:
            monkeypatch.setattr(asking, "send", partial(_only_preview, asking.send))
    before = len(started)
    yield
    if not slow:
        long = [program for program in started[before:] if Path(program).name.startswith(LONG)]
        assert long == [], "mark this test slow"


def _only_preview(run: Callable[..., object], message: dict[str, object], *rest: object) -> object:
    assert "make" not in message, "mark this test slow"
    return run(message, *rest)


@pytest.fixture
def deterministic() -> Iterator[None]:
    """Sums in a fixed order, on a GPU too."""
    import torch  # not at the top: most tests need none

    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """For small pictures, as `fit` does it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def run_python(tmp_path: Path) -> processes.RunPython:
    """Run a script in a fresh Python: `run_python(script, *arguments, path=[folders], env={...}, check=True)`."""
    return partial(processes.run_python, cwd=tmp_path)


@pytest.fixture
def run_with_torch(tmp_path: Path) -> processes.RunPython:
    """The same in a Python that has imported torch already, for what comes after that."""
    return partial(warm_python.run_python, cwd=tmp_path)


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make a checkout of the package tiny, or of another of tests/packages, with the backend in it, as a user has it;
    each call makes a new one.
    """

    def make(package: str = "tiny") -> Path:
        folder = tmp_path_factory.mktemp("checkout") / package
        ignore = shutil.ignore_patterns("__pycache__", ".*_cache", "*.egg-info")
        shutil.copytree(PACKAGES / package, folder, ignore=ignore)
        shutil.copytree(REPOSITORY / "backend", folder / "backend", ignore=ignore)
        return folder

    return make


@pytest.fixture(scope="session")
def cuobjdump() -> str:
    """What reads the PTX in a library; empty: nothing here does."""
    return os.environ.get("SPLAT_TEST_CUOBJDUMP") or programs.find_optional("cuobjdump") or ""


@pytest.fixture(scope="session")
def older_ptx(cuobjdump: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The PTX that a compile at run time makes for 9.0 and for the oldest architecture, 7.5."""
    if not cuobjdump:
        pytest.skip("nothing here reads PTX")
    from simt.compile_simt import ptx_of

    folder = tmp_path_factory.mktemp("older")
    environ = {"SPLAT_CACHE_DIR": str(folder)}
    words = ["cache", "build", "--cuda", "on", "--archs", "7.5+PTX;9.0+PTX", "--json"]
    made = processes.run([sys.executable, "-P", "-m", "splat", *words], cwd=folder, env=environ).stdout
    found: dict[str, str] = {}
    for part in json.loads(made)["parts"]:
        for arch, text in ptx_of(Path(part["folder"]), cuobjdump).items():
            found[arch] = found.get(arch, "") + text
    return found


@pytest.fixture(scope="session")
def simt_wheel(cuobjdump: str, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The CUDA kernels as a module that executes the PTX in the CUDA library of the installed wheel, or of another."""
    spec = importlib.util.find_spec("splat")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "_native"
    if not cuobjdump or not any(folder.glob("libsplat_cuda*.so")):
        pytest.skip("nothing here has the kernels' PTX, or reads it")
    from simt.compile_simt import PTX, build, newest_ptx  # needs pyelftools, which a machine with a GPU need not have

    return build(tmp_path_factory.mktemp("simt-ptx"), PTX, newest_ptx(folder, cuobjdump))


@pytest.fixture(scope="session")
def simt_older(older_ptx: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The same with the PTX for 9.0, which is that for all architectures before 10.0 (test_ptx.py)."""
    from simt.compile_simt import PTX, build

    return build(tmp_path_factory.mktemp("simt-older"), f"{PTX}_older", older_ptx["9.0"])


@pytest.fixture(
    scope="session",
    params=["simt_wheel", pytest.param("simt_older", marks=[pytest.mark.needs_torch("cuda"), pytest.mark.minutes])],
)
def simt_ptx(request: pytest.FixtureRequest) -> ModuleType:
    """The wheel's PTX; and, where there is nvcc and time, that for older architectures."""
    return cast("ModuleType", request.getfixturevalue(request.param))


@pytest.fixture(scope="session")
def splat_wheel() -> Path:
    """The wheel that ci/test built in isolation, and installed here."""
    path = os.environ.get("SPLAT_TEST_WHEEL")
    if not path:
        pytest.skip("SPLAT_TEST_WHEEL does not name the wheel that is installed; ci/test sets it")
    return Path(path)


def _ci_program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # NamedTuple looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def release() -> ModuleType:
    """ci/release.py as a module."""
    return _ci_program("release")


@pytest.fixture(scope="session")
def rehearse(release: ModuleType) -> ModuleType:
    """ci/rehearse.py as a module, which imports the other."""
    return _ci_program("rehearse")
