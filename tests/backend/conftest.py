"""The wheels that several tests look at, each built once in a session."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from builds import TORCH, TWO_ARCHS, Wheel, build, pip_wheel
from declared import make_distribution
from editables import REQUIRE, SMALL, Editable, make_editable, make_user
from folders import HELPERS
from kept import compile_entry

Checkout = Callable[[], Path]


@pytest.fixture(scope="session")
def build_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one folder below which all builds of a session work: a part of the paths that compilers see."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="session")
def wheel(checkout: Checkout, build_root: Path) -> Wheel:
    """A wheel as `pip wheel` makes it, for two architectures if torch has CUDA; splat's own is for the default ones."""
    env = {"TORCH_CUDA_ARCH_LIST": TWO_ARCHS} if TORCH.cuda else {}
    return build(checkout(), build_root / "default", how=pip_wheel, env=env)


@pytest.fixture(scope="session")
def cpu_wheel(request: pytest.FixtureRequest, checkout: Checkout, build_root: Path) -> Wheel:
    """A wheel without CUDA kernels: the one above where torch has no CUDA, else one on purpose."""
    if TORCH.cuda is None:
        return cast("Wheel", request.getfixturevalue("wheel"))
    return build(checkout(), build_root / "cpu", env={"TINY_CUDA": "off"})


@pytest.fixture(scope="session")
def classic_wheel(checkout: Callable[..., Path], build_root: Path) -> Wheel:
    """A wheel of the package classic, a module that is compiled against all of torch, for one architecture and without
    optimization, which takes long.

    The linker is asked for what conda-forge asks for, too: to name only libraries of which it sees a use.
    """
    env = {"TORCH_CUDA_ARCH_LIST": "9.0", "CXXFLAGS": "-O0", "LDFLAGS": "-Wl,--as-needed"}
    return build(checkout("classic"), build_root / "classic", env=env)


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kernelwheel's own wheel, which adopters require."""
    return make_distribution(tmp_path_factory.mktemp("distribution"))


@pytest.fixture(scope="session")
def tiny_checkout(checkout: Checkout) -> Path:
    """A checkout of tiny that no test changes."""
    return checkout()


@pytest.fixture(scope="session")
def entry(tiny_checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a real entry: tiny's CPU kernels, compiled once in a session. To copy from."""
    return compile_entry(tiny_checkout, tmp_path_factory.mktemp("entry") / "cache")


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Editable:
    """A checkout of small sources whose kernels are in its user's cache; `compiled` is a copy that tests may spoil."""
    editable = make_editable(tmp_path_factory.mktemp("compiled"), SMALL)
    editable.python(REQUIRE)
    return editable


@pytest.fixture
def compiled(compiled_once: Editable, tmp_path: Path) -> Editable:
    """The same checkout for a user of its own, with a copy of the cache."""
    user = make_user(compiled_once.checkout, tmp_path / "user")
    shutil.copytree(compiled_once.cache, user.cache)
    return user


@pytest.fixture
def small(tmp_path: Path) -> Editable:
    """A checkout of small sources that were never compiled."""
    (tmp_path / "small").mkdir()
    return make_editable(tmp_path / "small", SMALL)


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library to preload so that calls fail; fault_shim.c says how."""
    library = tmp_path_factory.mktemp("shim") / "fault_shim.so"
    source = HELPERS / "fault_shim.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", source, "-o", library, "-ldl"], check=True)
    return library
