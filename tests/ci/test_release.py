"""What ci/wheels builds: which commit, which version it stands for, and what makes a release fail."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from folders import REPOSITORY
from kernelwheel.project.package import read_toml
from kernelwheel.version import __version__
from packaging.requirements import Requirement

COMPILER_FILES = ("backend/kernelwheel/runtime/errors.py", "backend/kernelwheel/version.py")
CHANGES = "# Changelog\n\n## {}\n\n- Something.\n"


class Repository:
    """A git repository with the files that say a version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "splat").mkdir()
        (folder / "backend" / "kernelwheel").mkdir(parents=True)
        self.git("init", "--quiet")
        self.commit("0.2.0", "Unreleased")

    def git(self, *words: str) -> str:
        name = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false")
        done = subprocess.run(["git", "-C", self.folder, *name, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, version: str, top: str, compiler: str = "") -> str:
        (self.folder / "splat" / "_version.py").write_text(f'"""The version."""\n\nVERSION = "{version}"\n')
        text = f'"""The same."""\n\n__version__ = "{compiler or version}"\n'
        (self.folder / "backend" / "kernelwheel" / "version.py").write_text(text)
        (self.folder / "CHANGELOG.md").write_text(CHANGES.format(top))
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", "a change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_commit_without_a_tag_has_a_version_that_names_it(release: ModuleType, repository: Repository) -> None:
    commit = repository.git("rev-parse", "HEAD")

    assert release.version_of(repository.folder, commit) == f"0.2.0+g{commit[:9]}"


def test_a_commit_with_its_tag_has_the_version_that_is_written_in_it(
    release: ModuleType, repository: Repository
) -> None:
    commit = repository.commit("0.3.0", "0.3.0 - 2026-11-22")
    repository.git("tag", "v0.3.0")
    repository.git("tag", "something-else")

    assert release.version_of(repository.folder, commit) == "0.3.0"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files of a checkout that a release changes."""
    for name in ("pyproject.toml", "MANIFEST.in", "splat/_version.py", *COMPILER_FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, tmp_path / name)
    return tmp_path


def test_a_release_takes_kernelwheel_of_its_own_minor_release_by_its_name(release: ModuleType, checkout: Path) -> None:
    release.write_version(checkout, "0.1.0")

    tables = read_toml(checkout / "pyproject.toml")
    (build, torch), (jit,) = tables["build-system"]["requires"], tables["project"]["optional-dependencies"]["jit"]
    facts = runpy.run_path(str(checkout / COMPILER_FILES[0]))
    assert "backend-path" not in tables["build-system"]
    assert (Requirement(build).extras, Requirement(jit).extras, torch) == ({"cuda"}, {"jit"}, "torch>=2.10,<3")
    for asked in map(Requirement, (build, jit)):
        assert asked.name == "kernelwheel"
        assert [asked.specifier.contains(each) for each in ("0.0.9", __version__, "0.2.0")] == [False, True, False]
    assert facts["INSTALL_COMPILER"] == f"pip install '{jit}'"
    assert "backend" not in (checkout / "MANIFEST.in").read_text()


def test_what_is_no_release_names_kernelwheel_to_no_index(release: ModuleType, checkout: Path) -> None:
    release.write_version(checkout, "0.1.0+g123456789")

    for name in ("pyproject.toml", "MANIFEST.in", COMPILER_FILES[0]):
        assert (checkout / name).read_bytes() == (REPOSITORY / name).read_bytes()
    assert runpy.run_path(str(checkout / COMPILER_FILES[1]))["__version__"] == "0.1.0+g123456789"
    assert runpy.run_path(str(checkout / "splat/_version.py"))["VERSION"] == "0.1.0+g123456789"


def test_kernelwheel_comes_with_the_licence_of_the_whole() -> None:
    assert (REPOSITORY / "backend" / "LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()


def test_a_checkout_that_a_release_cannot_change_is_refused(release: ModuleType, checkout: Path) -> None:
    (checkout / "MANIFEST.in").write_text("graft backend\n")

    with pytest.raises(release.Refused, match=r"once in MANIFEST\.in\nfound:     0 times"):
        release.write_version(checkout, "0.1.0")


def test_a_tag_for_another_version_is_refused(release: ModuleType, repository: Repository) -> None:
    repository.git("tag", "v0.3.0")

    with pytest.raises(release.Refused, match=r"required:  the tag v0\.2\.0.*\nfound:     v0\.3\.0\n"):
        release.version_of(repository.folder, "HEAD")


@pytest.mark.parametrize("top", ["Unreleased", "0.2.0"])
def test_a_release_that_the_changelog_does_not_begin_with_is_refused(
    release: ModuleType, repository: Repository, top: str
) -> None:
    repository.commit("0.3.0", top)
    repository.git("tag", "v0.3.0")

    with pytest.raises(release.Refused, match=rf"whose first section is ## 0\.3\.0\nfound:     ## {top}\n"):
        release.version_of(repository.folder, "HEAD")


def test_two_versions_are_refused(release: ModuleType, repository: Repository) -> None:
    repository.commit("0.3.0", "0.3.0", compiler="0.2.9")

    found = r"splat/_version\.py: 0\.3\.0, backend/kernelwheel/version\.py: 0\.2\.9"
    with pytest.raises(release.Refused, match=rf"one version in .*\nfound:     {found}\n"):
        release.version_of(repository.folder, "HEAD")


def test_what_is_not_committed_is_refused_unless_a_commit_is_named(release: ModuleType, repository: Repository) -> None:
    head = repository.git("rev-parse", "HEAD")
    assert release.find_commit(repository.folder, None) == head
    (repository.folder / "new.cu").write_text("")

    with pytest.raises(release.Refused, match=r"new\.cu"):
        release.find_commit(repository.folder, None)
    assert release.find_commit(repository.folder, "HEAD") == head


def test_a_commit_that_does_not_exist_is_refused(release: ModuleType, repository: Repository) -> None:
    with pytest.raises(release.Refused, match="nothing that is called v9"):
        release.find_commit(repository.folder, "v9")


@pytest.mark.slow
def test_two_builds_that_differ_fail_and_say_where(release: ModuleType, tmp_path: Path) -> None:
    files = [tmp_path / "dist" / "tiny.whl", tmp_path / "again" / "tiny.whl"]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_text(f"wheel {number}")

    same = release.check_equal(files[:1], files[:1], "the same way")
    other = release.check_equal(files[:1], files[1:], "another way")

    assert same.passed
    assert "equal, byte for byte: tiny.whl" in same.said
    assert not other.passed
    assert "diffoscope dist/tiny.whl dist-again/tiny.whl" in other.said
    assert (tmp_path / "dist-again" / "tiny.whl").read_text() == "wheel 1"


def test_a_build_that_is_missing_a_file_fails(release: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "tiny.tar.gz"
    file.write_bytes(b"")

    assert not release.check_equal([file], [], "another way").passed


# As auditwheel 6.8 says it of a library that is linked to libtorch: wrapped, and with its own tag before.
SHOWN = """
tiny-1-py3-none-{tag}.whl is consistent with the following platform tag: "linux_x86_64".

This constrains the platform tag to "manylinux_2_27_x86_64". In order
to achieve a more compatible tag, you would need to recompile a new
"""


@pytest.mark.parametrize(
    ("tag", "earned"),
    [
        ("manylinux_2_28_x86_64", True),
        ("manylinux_2_27_x86_64", True),
        ("manylinux_2_17_x86_64", False),
        ("manylinux_2_28_aarch64", False),
        ("linux_x86_64", False),
    ],
)
def test_a_wheel_whose_tag_auditwheel_does_not_read_in_it_fails(release: ModuleType, tag: str, earned: bool) -> None:
    wheel, said = f"tiny-1-py3-none-{tag}.whl", SHOWN.format(tag=tag)

    assert release.check_tag(wheel, release.Check("auditwheel show", True, said)).passed is earned
    assert not release.check_tag(wheel, release.Check("auditwheel show", True, "nothing of the kind")).passed
    assert not release.check_tag(wheel, release.Check("auditwheel show", False, said)).passed


@pytest.mark.parametrize(
    ("nvcc", "wanted"),
    [
        ("13.0.88", {f"nvidia-cuda-{part}==13.0.*" for part in ("runtime", "crt", "cccl", "nvcc")}),
        (
            "clang 19.1.7 with CUDA 12.9.86",
            {f"nvidia-cuda-{part}-cu12==12.9.*" for part in ("runtime", "cccl", "nvcc")},
        ),
    ],
)
@pytest.mark.parametrize(
    ("platform", "tag"), [("linux-aarch64", "manylinux_2_17_aarch64"), ("windows-x86_64", "win_amd64")]
)
def test_the_toolkit_s_parts_for_another_platform_fit_what_built_the_first_wheel(
    release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    nvcc: str, wanted: set[str], platform: str, tag: str,
) -> None:  # fmt: skip
    called: list[str] = []

    def run(command: list[object], **_: object) -> subprocess.CompletedProcess[str]:
        called.extend(map(str, command))
        return subprocess.CompletedProcess(called, 0, "", "")

    monkeypatch.setattr(release.subprocess, "run", run)

    release.fetch_packages(tmp_path / "parts", platform, nvcc, tmp_path)

    assert {word for word in called if word.startswith("nvidia-")} == wanted
    assert called[called.index("--platform") + 1] == tag
    assert called[called.index("--constraint") + 1] == str(tmp_path / "ci/locks/build.txt")


@pytest.mark.slow
def test_the_report_has_no_colours_and_no_path_of_the_builder(release: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()

    check = release.run(tmp_path, "a check", sys.executable, "-c", r"import os; print('\x1b[32mfound', *os.listdir())")

    assert check == ("a check", True, "found pyproject.toml")
