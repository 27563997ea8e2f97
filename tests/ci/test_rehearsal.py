"""A release on an index of this machine: what is uploaded, in which order, and what pip finds there by our names.

ci/rehearse does the same with a new Debian, where it installs, compiles and updates; it takes an hour.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from folders import REPOSITORY
from offline import make_wheel

pytestmark = [pytest.mark.slow]


@pytest.fixture
def served(rehearse: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """An index, behind which there is no other."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    with rehearse.index(tmp_path) as index:
        yield index


@pytest.fixture(scope="module")
def release_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """kernelwheel as a release has it, and a wheel in place of splat's."""
    folder = tmp_path_factory.mktemp("release")
    copy = folder / "backend"
    shutil.copytree(REPOSITORY / "backend", copy, ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", copy]
    subprocess.run(build, check=True, capture_output=True)
    make_wheel(folder / "dist", "splat-kernels", "0.1.0")
    return sorted((folder / "dist").iterdir())


def download(served: object, name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    url = f"{served.url}/simple/"  # type: ignore[attr-defined]
    options = ["--no-deps", "--no-cache-dir", "--retries", "0", "--only-binary", ":all:", "--dest", folder]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = [sys.executable, "-m", "pip", "--isolated", "download", "--index-url", url, *options, name]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_both_distributions_are_found_by_their_names(
    rehearse: ModuleType, served: object, release_files: list[Path], tmp_path: Path
) -> None:
    rehearse.upload(served, release_files)

    for name in ("kernelwheel", "splat-kernels"):
        done = download(served, f"{name}==0.1.0", tmp_path / "got")
        assert done.returncode == 0, done.stderr
    wheels = {path.name: path for path in release_files if path.suffix == ".whl"}
    got = {path.name: path for path in (tmp_path / "got").iterdir()}
    assert {name: digest(path) for name, path in got.items()} == {name: digest(path) for name, path in wheels.items()}


def test_splat_is_not_uploaded_after_a_kernelwheel_that_the_index_refuses(
    rehearse: ModuleType, served: object, release_files: list[Path], tmp_path: Path
) -> None:
    compiler = [path for path in release_files if path.name.startswith("kernelwheel")]
    with pytest.raises(rehearse.Refused, match="sdists and wheels of both distributions"):
        rehearse.upload(served, compiler)  # kernelwheel is there now, and splat is not

    with pytest.raises(rehearse.Refused, match=r"takes kernelwheel-0\.1\.0.*\n(?s:.*)a version is uploaded once"):
        rehearse.upload(served, release_files)

    done = download(served, "splat-kernels", tmp_path / "got")
    assert done.returncode != 0
    assert "No matching distribution found for splat-kernels" in done.stderr


def test_nobody_else_uploads_to_it(rehearse: ModuleType, served: object, release_files: list[Path]) -> None:
    with pytest.raises(rehearse.Refused, match=r"403|401|Forbidden|Unauthorized"):
        rehearse.upload(served._replace(password="a guess"), release_files)  # type: ignore[attr-defined]


@pytest.mark.parametrize("url", ["https://index.invalid/simple/", ""])
def test_what_a_user_does_is_done_with_no_other_index(url: str) -> None:
    command = [REPOSITORY / "ci" / "rehearsal.sh", "first", "0.1.0"]

    done = subprocess.run(
        command, env={**os.environ, "PIP_INDEX_URL": url}, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "required: the index of ci/rehearse; found: another; to fix: ci/rehearse\n"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
