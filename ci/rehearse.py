"""A release on an index of this machine, and what a user does with it; run by ci/rehearse.

The index is pypiserver on a loopback address. What is not ours it redirects to the machine's own index. Files come to
it as the release's workflow uploads them, by twine, with a password: what is there is run, and others use this machine.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from release import COMPILER, ROOT, Refused, edit, edits_for, find_commit, git, say, version_of

USER = "release"
# Of what is built here: no more than what a compile beside it shows.
ARCHITECTURES = "9.0+PTX"


class Index(NamedTuple):
    """An index of packages on this machine."""

    url: str
    password: str


def main(arguments: Sequence[str]) -> int:
    """Rehearse a release; the exit status."""
    try:
        with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
            rehearse(Path(folder), *map(Path, arguments))
    except Refused as error:
        print(error, file=sys.stderr)
        return 2
    say("rehearsed")
    return 0


def rehearse(work: Path, dist: Path | None = None) -> None:
    """Upload a release and the next one, and do what their users do."""
    clone = work / "clone"
    git("clone", "--quiet", str(ROOT), str(clone))
    version = version_of(clone, find_commit(clone, "HEAD")).partition("+")[0]
    following = re.sub(r"\d+$", lambda last: str(int(last[0]) + 1), version)
    first = files_of(dist) if dist else build(clone, version)
    if [path.name for path in first if not re.search(rf"-{re.escape(version)}[-.]", path.name)]:
        raise Refused(
            f"the files of {version}", ", ".join(path.name for path in first), "ci/wheels, of a commit with its tag"
        )
    second = build(clone, following)
    with index(work) as served:
        upload(served, first)
        as_user(served, "first", version)
        upload(served, second)
        as_user(served, "next", following, "--keep")


def build(clone: Path, version: str) -> list[Path]:
    """A release of a clone: the files of its newest commit, with another version if that is another."""
    edit(clone, [*edits_for(version), ("CHANGELOG.md", r"\A((?s:.*?)\n)## .+$", rf"\g<1>## {version}")])
    nobody = ("-c", "user.name=rehearsal", "-c", "user.email=rehearsal@localhost", "-c", "commit.gpgsign=false")
    git(
        *nobody, "commit", "--quiet", "--all", "--allow-empty", "--message", f"rehearsal of {version}", repository=clone
    )
    git("tag", "--force", f"v{version}", repository=clone)
    say(f"building {version}, as if it was tagged")
    env = {**os.environ, "TORCH_CUDA_ARCH_LIST": ARCHITECTURES}
    if subprocess.run([clone / "ci" / "wheels"], cwd=clone, env=env, check=False).returncode != 0:
        raise Refused("a release that can be built", "what ci/wheels says above", "mend it, and commit")
    return files_of(shutil.copytree(clone / "dist", clone.with_name(version)))


def files_of(dist: Path) -> list[Path]:
    """What a release uploads: the sdists and wheels."""
    return sorted(path for path in dist.iterdir() if path.name.endswith((".whl", ".tar.gz")))


@contextmanager
def index(work: Path) -> Iterator[Index]:
    """An empty index for as long as the context lasts."""
    folder, passwords, password = work / "index", work / "htpasswd", secrets.token_hex()
    folder.mkdir()
    digest = base64.b64encode(hashlib.sha1(password.encode()).digest()).decode()
    passwords.write_text(f"{USER}:{{SHA}}{digest}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ["--interface", "127.0.0.1", "--port", port, "--authenticate", "update", "--passwords", str(passwords)]
    if "PIP_INDEX_URL" in os.environ:
        options += ["--fallback-url", os.environ["PIP_INDEX_URL"]]
    with (
        (work / "index.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "pypiserver", "run", *options, folder], stdout=log, stderr=subprocess.STDOUT
        ) as server,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url, server, work / "index.log")
            yield Index(url, password)
        finally:
            server.terminate()


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Return once the server answers."""
    for _ in range(300):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"{url}/simple/", timeout=10).close()
            return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise Refused("an index on a loopback address", log.read_text(errors="replace")[-2000:], "see what pypiserver says")


def upload(served: Index, files: Sequence[Path], env: Mapping[str, str] = os.environ) -> None:
    """Upload a release as its workflow does: kernelwheel, and if that succeeded, splat.

    Raises:
        Refused: the index does not take a file; nothing behind it was uploaded.
    """
    credentials = {"TWINE_USERNAME": USER, "TWINE_PASSWORD": served.password, "TWINE_NON_INTERACTIVE": "1"}
    compiler = [path for path in files if path.name.startswith(f"{COMPILER}-")]
    for each in (compiler, [path for path in files if path not in compiler]):
        if not each:
            raise Refused(
                "sdists and wheels of both distributions", ", ".join(path.name for path in files), "ci/wheels"
            )
        command = [sys.executable, "-m", "twine", "upload", "--disable-progress-bar", "--repository-url", served.url]
        done = subprocess.run(
            [*command, *each], env={**env, **credentials}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            names, said = ", ".join(path.name for path in each), (done.stdout + done.stderr).strip()
            raise Refused(f"an index that takes {names}", said[-2000:], "a version is uploaded once: raise it")


def as_user(served: Index, part: str, version: str, *options: str) -> None:
    """Run a part of ci/rehearsal.sh by a user of a new Debian, to whom the index is the only one."""
    env = {**os.environ, "PIP_INDEX_URL": f"{served.url}/simple/"}
    command = [str(ROOT / "ci/fresh"), *options, f"ci/rehearsal.sh {part} {version}"]
    if subprocess.run(command, env=env, check=False).returncode != 0:
        raise Refused("a rehearsal that succeeds", f"the part {part} of ci/rehearsal.sh failed", "see what it says")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
