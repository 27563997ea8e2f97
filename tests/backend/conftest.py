"""The wheels that several tests look at, each built once in a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from builds import Wheel, build

Checkout = Callable[[], Path]
TWO_ARCHS = "8.0;9.0+PTX"


@pytest.fixture(scope="session")
def build_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one folder below which all builds of a session work: a part of the paths that compilers see."""
    return tmp_path_factory.mktemp("build")


@pytest.fixture(scope="session")
def wheel(checkout: Checkout, build_root: Path) -> Wheel:
    """A wheel as `pip wheel` makes it where nobody sets anything."""
    return build(checkout(), build_root / "default")


@pytest.fixture(scope="session")
def cpu_wheel(checkout: Checkout, build_root: Path) -> Wheel:
    """A wheel without CUDA kernels, on purpose."""
    return build(checkout(), build_root / "cpu", env={"TINY_CUDA": "off"})


@pytest.fixture(scope="session")
def two_archs_wheel(checkout: Checkout, build_root: Path) -> Wheel:
    """A wheel for the architectures of TWO_ARCHS; needs a torch with CUDA."""
    return build(checkout(), build_root / "two", env={"TORCH_CUDA_ARCH_LIST": TWO_ARCHS})
