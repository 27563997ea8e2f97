"""The names that `python -m kernelwheel` takes: of packages, of distributions, of what `kernelwheel.load` compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwheel.__main__ import main
from kernelwheel.cli.installation import package_of
from kernelwheel.compiler.toolchain.compiler_environment import without_effect

RECORDS = {
    "SAM_2-1.0": ["sam2/__init__.py,,", "sam2/_native/src/_native/manifest.json.txt,,", "sam2/_native/manifest.json,,"],
    "acme.ops-2.0": ["acme/ops/_native/manifest.json,sha256=x,9"],
    "edited-1.0": ["_edited_finder.py,,", "_edited__part_kernelwheel.pth,sha256=x,9"],
    "other-1.0": ["other/__init__.py,,", "other.pth,,", "_kernelwheel.pth,,"],
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with four distributions, and a cache of its own."""
    for folder, lines in RECORDS.items():
        about = tmp_path / "site" / f"{folder}.dist-info"
        about.mkdir(parents=True)
        name, _, version = folder.replace("_", "-").rpartition("-")
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (about / "RECORD").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("SAM-2", "sam2"), ("sam_2", "sam2"), ("Sam.2", "sam2"), ("acme-ops", "acme.ops"), ("edited", "edited.part"),
        ("other", None), ("nowhere", None), ("", None),
    ],
)  # fmt: skip
def test_a_distribution_is_known_by_any_spelling(site: Path, name: str, package: str | None) -> None:
    assert package_of(name) == package


@pytest.mark.parametrize("command", ["clear", "list", "verify", "path", "prune", "explain"])
def test_a_name_that_load_was_given_is_known_as_long_as_the_cache_has_a_folder_for_it(
    site: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    build = site / "cache/kernelwheel/kernelwheel.my_kernels/.build" / f"kernelwheel-{'0' * 32}"
    build.mkdir(parents=True)

    assert main(["cache", command, "my_kernels"]) == 0
    assert "not known" not in capsys.readouterr().err
    assert build.exists() == (command != "clear")


def test_one_that_nothing_knows_is_an_error_that_names_both_kinds(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", "clear", "nowhere"]) == 1

    said = capsys.readouterr().err
    assert said.startswith("kernelwheel: the kernels of nowhere are not known\n")
    assert "or, of what kernelwheel.load compiles, write kernelwheel.nowhere" in said


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
