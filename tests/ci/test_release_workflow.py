"""The hosted workflow of a release: it publishes what one job built, or nothing.

Its scripts are run as the host runs them, in folders like those that its actions leave. test_workflows.py has what all
workflows keep to.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from folders import REPOSITORY
from ruamel.yaml import YAML  # check-jsonschema brings it

FILE = REPOSITORY / ".github" / "workflows" / "release.yml"
JOBS: dict[str, dict[str, Any]] = YAML(typ="safe").load(FILE)["jobs"]
# How the host runs a script whose shell is called bash.
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
FILES = {
    "kernelwheel-1.0-py3-none-any.whl": b"compiler",
    "kernelwheel-1.0.tar.gz": b"its sdist",
    "splat-1.0-py3-none-manylinux_2_28_aarch64.whl": b"wheel for Arm",
    "splat-1.0-py3-none-manylinux_2_28_x86_64.whl": b"wheel",
    "splat-1.0-py3-none-win_amd64.whl": b"wheel for Windows",
    "splat-1.0.tar.gz": b"sdist",
}
REPORTS = {"results.json": b"[]", "SHA256SUMS": b""}
DIGESTS = "\n".join(f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in FILES.items())


def scripts(job: str) -> list[str]:
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def script_with(job: str, word: str) -> str:
    (script,) = (script for script in scripts(job) if word in script)
    return script


def run(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **variables}
    return subprocess.run([*BASH, script], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=30)


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def published(folder: Path, files: Mapping[str, bytes] = FILES, digests: str = DIGESTS) -> tuple[int, str, list[str]]:
    """The exit status and the words of the step before the upload, and the names of what it would upload."""
    write(folder / "dist", files)
    done = run(script_with("publish", "sha256sum"), folder, DIGESTS=digests)
    return done.returncode, done.stderr, sorted(path.name for path in folder.glob("upload/*/*"))


def test_what_was_built_is_uploaded(tmp_path: Path) -> None:
    """From the folder that ci/wheels leaves, through the job's output, to the folder that is uploaded."""
    folder = write(tmp_path / "dist", FILES | REPORTS)
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in (FILES | REPORTS).items())
    (folder / "SHA256SUMS").write_text(sums)
    output = tmp_path / "output"

    done = run(script_with("build", "GITHUB_OUTPUT"), tmp_path, GITHUB_OUTPUT=str(output))

    assert done.returncode == 0, done.stderr
    name, _, rest = output.read_text().partition("<<")
    end, _, value = rest.partition("\n")
    assert name == "digests"
    assert value == f"{DIGESTS}\n{end}\n"
    (tmp_path / "publish").mkdir()
    assert published(tmp_path / "publish", digests=value.removesuffix(f"\n{end}\n")) == (0, "", sorted(FILES))


def test_kernelwheel_is_uploaded_first_and_splat_only_if_that_succeeded(tmp_path: Path) -> None:
    published(tmp_path)

    uploads = [step for step in JOBS["publish"]["steps"] if "pypi-publish" in step.get("uses", "")]
    folders = [tmp_path / step["with"]["packages-dir"] for step in uploads]
    assert [{path.name.partition("-")[0] for path in folder.iterdir()} for folder in folders] == [
        {"kernelwheel"}, {"splat"},
    ]  # fmt: skip
    assert JOBS["publish"]["steps"][-2:] == uploads  # and nothing goes on after a failure
    assert not any({"if", "continue-on-error"} & step.keys() for step in uploads)


def test_a_build_without_files_hands_on_nothing(tmp_path: Path) -> None:
    write(tmp_path / "dist", {"SHA256SUMS": f"{'0' * 64}  results.json\n".encode()})

    assert run(script_with("build", "GITHUB_OUTPUT"), tmp_path, GITHUB_OUTPUT=str(tmp_path / "out")).returncode != 0


@pytest.mark.parametrize("name", ["more-1.0-py3-none-any.whl", "results.json", ".hidden", "SHA256SUMS"])
def test_a_file_that_the_build_did_not_list_is_refused(name: str, tmp_path: Path) -> None:
    status, said, _ = published(tmp_path, {**FILES, name: b"more"})

    assert status != 0
    assert name in said


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_changed_is_refused_and_not_taken(name: str, tmp_path: Path) -> None:
    status, _, taken = published(tmp_path, {**FILES, name: b"another"})

    assert status != 0
    assert name not in taken


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_is_refused(name: str, tmp_path: Path) -> None:
    status, said, _ = published(tmp_path, {each: data for each, data in FILES.items() if each != name})

    assert status != 0
    assert name in said


EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    "line",
    [
        f"{EMPTY}  ../outside-1.0.tar.gz",
        f"{EMPTY}  a/../../outside-1.0.tar.gz",
        f"{EMPTY}  /dev/null",
        f"{EMPTY}  {{}}/outside-1.0.tar.gz",
        f"{EMPTY}  -outside-1.0.tar.gz",
        f"{EMPTY}  out side-1.0.tar.gz",
        f"{EMPTY}  öutside-1.0.tar.gz",
        f"{EMPTY}  outside.exe",
        f"{EMPTY} *outside-1.0.tar.gz",
        f"\\{EMPTY}  outside-1.0.tar.gz",
        f"{EMPTY[1:]}  outside-1.0.tar.gz",
        f"SHA256 (outside-1.0.tar.gz) = {EMPTY}",
        "",
    ],
)
def test_a_line_without_a_digest_and_a_plain_file_name_is_refused(line: str, tmp_path: Path) -> None:
    for name in ("outside-1.0.tar.gz", "-outside-1.0.tar.gz", "out side-1.0.tar.gz", "öutside-1.0.tar.gz"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "publish").mkdir()
    folder = tmp_path / "publish" / "dist"
    line = line.replace("{}", str(tmp_path))
    names = {line.rpartition("  ")[2].rpartition("*")[2]: b""} if "/" not in line and line else {}

    status, said, taken = published(folder.parent, {**FILES, **names}, f"{DIGESTS}\n{line}")

    assert status != 0
    assert taken == sorted(FILES)
    assert "required: a sha256" in said


def test_an_empty_list_publishes_nothing(tmp_path: Path) -> None:
    for number, files in enumerate([FILES, {}]):
        (tmp_path / str(number)).mkdir()
        status, _, taken = published(tmp_path / str(number), files, "")
        assert (status != 0, taken) == (True, [])


def test_a_link_is_refused(tmp_path: Path) -> None:
    name = "splat-1.0.tar.gz"
    write(tmp_path / "dist", {each: data for each, data in FILES.items() if each != name})
    (tmp_path / "elsewhere").write_bytes(FILES[name])
    (tmp_path / "dist" / name).symlink_to(tmp_path / "elsewhere")

    done = run(script_with("publish", "sha256sum"), tmp_path, DIGESTS=DIGESTS)

    assert done.returncode != 0
    assert name in done.stderr


@pytest.mark.parametrize("job", ["matrix", "windows", "rehearse", "gpu"])
def test_what_is_tried_is_what_was_built(job: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "dist", FILES)
    check = script_with(job, "sha256sum")
    assert scripts(job).index(check) < scripts(job).index(script_with(job, "ci/"))

    assert run(check, tmp_path, DIGESTS=DIGESTS).returncode == 0
    (folder / "splat-1.0-py3-none-manylinux_2_28_x86_64.whl").write_bytes(b"another")
    assert run(check, tmp_path, DIGESTS=DIGESTS).returncode != 0
