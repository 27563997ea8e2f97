"""The audit against torch's stable ABI: a library that needs more of torch than its target has is not packed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import build, needs_cpu_torch, refused_build

Checkout = Callable[[], Path]
# Declared by hand, as a header of torch would do it; at:: is not part of the stable ABI, the other is new in 2.12.
UNSTABLE = "namespace at { int get_num_threads(); }\nint threads() { return at::get_num_threads(); }\n"
NEWER = 'extern "C" int torch_tag_core();\nint tag() { return torch_tag_core(); }\n'

pytestmark = [
    pytest.mark.skipif(sys.version_info < (3, 11), reason="torch-abi-audit needs Python 3.11"),
    needs_cpu_torch,  # new enough to have the newer symbol
]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "wheel"


def with_code(checkout: Checkout, text: str) -> Path:
    folder = checkout()
    (folder / "native/twice.cpp").write_text(text)
    return folder


@pytest.mark.minutes
def test_an_operator_library_that_uses_torch_s_own_c_plus_plus_is_refused(checkout: Checkout, out: Path) -> None:
    said = refused_build(with_code(checkout, UNSTABLE), out)

    assert "libtiny_cpu.so: at::get_num_threads() is not part of it" in said
    assert "use torch/csrc/stable" in said


@pytest.mark.minutes
def test_an_operator_library_that_uses_a_symbol_newer_than_its_target_is_refused(checkout: Checkout, out: Path) -> None:
    folder = with_code(checkout, NEWER)

    assert "torch_tag_core is new in torch 2.12.0" in refused_build(folder, out)

    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace('torch-target = "2.10"', 'torch-target = "2.12"'))
    built = build(folder, out.with_name("newer"))
    assert "stable ABI: nothing beyond that of torch 2.12 is used by libtiny_cpu.so" in built.output
