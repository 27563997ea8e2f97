"""The names that `python -m kernelwheel` takes, and its commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwheel.__main__ import main
from kernelwheel.compiler.toolchain.compiler_environment import without_effect


@pytest.mark.parametrize("command", ["clear", "list", "verify", "path", "prune", "explain"])
def test_a_name_that_load_was_given_follows_that_of_kernelwheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    build = tmp_path / "cache/kernelwheel/kernelwheel.my_kernels/.build" / f"kernelwheel-{'0' * 32}"
    build.mkdir(parents=True)

    assert main(["cache", command, "kernelwheel.my_kernels"]) == 0
    assert "not known" not in capsys.readouterr().err
    assert build.exists() == (command != "clear")


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    listed = [line.split(None, 1) for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
    assert [words[0] for words in listed if len(words) == 2] == ["doctor", "inspect", "cache", "adopt"]


def test_a_variable_that_no_compiler_sees_is_told_with_what_to_set_instead() -> None:
    environ = {"NVCC_APPEND_FLAGS": "-lineinfo", "CPPFLAGS": " ", "CXX": "g++", "CPATH": "/x"}
    environ |= {"NVCC_PREPEND_FLAGS": "-ccbin /usr/bin/g++"}  # as conda's package of nvcc does
    variables = {"cuda-flags": "CUDAFLAGS", "cxx-flags": "CXXFLAGS", "cxx": "CXX"}

    assert list(without_effect(environ, variables.__getitem__)) == [
        "CPATH has no effect here; CXXFLAGS has, or the option cxx-flags",
        "NVCC_APPEND_FLAGS has no effect here; CUDAFLAGS has, or the option cuda-flags",
        "NVCC_PREPEND_FLAGS has no effect here; CXX has, or the option cxx",
    ]
