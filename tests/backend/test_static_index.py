"""The static index: pip and uv install from a folder that a web server serves, and check what they get."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import pytest
from builds import Wheel, uv
from kernelwheel.__main__ import main
from kernelwheel.core.errors import BuildError
from kernelwheel.packing.static_index import write_index

pytestmark = pytest.mark.once


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(cpu_wheel: Wheel, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """The folder of an index with the wheel, and its address."""
    assert main(["index", str(cpu_wheel.file), "--out", str(tmp_path / "index")]) == 0
    handler = partial(Quiet, directory=str(tmp_path / "index"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield tmp_path / "index", f"http://127.0.0.1:{server.server_address[1]}/simple/"
        server.shutdown()
        thread.join()


PIP = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-cache-dir", "--target"]


def installed_by(words: list[str | Path], index: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder.parent), "PIP_CONFIG_FILE": "/dev/null", "UV_NO_CACHE": "1"}
    command = [*words, folder, "--index-url", index, "tiny==1.2.3"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=folder.parent)


@pytest.mark.parametrize("program", ["pip", "uv"])
def test_pip_and_uv_install_from_it(served: tuple[Path, str], program: str, tmp_path: Path) -> None:
    words = PIP if program == "pip" else [*uv("pip", "install", "--no-deps"), "--target"]

    done = installed_by([*words], served[1], tmp_path / "site")

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "tiny" / "_native" / "manifest.json").is_file()


@pytest.mark.parametrize("program", ["pip", "uv"])
def test_a_wheel_that_was_changed_on_the_server_is_not_installed(
    served: tuple[Path, str], program: str, tmp_path: Path
) -> None:
    (file,) = (served[0] / "simple" / "tiny").glob("*.whl")
    with ZipFile(file, "a") as archive:
        archive.writestr("tiny/more.py", "")
    words = PIP if program == "pip" else [*uv("pip", "install", "--no-deps"), "--target"]

    done = installed_by([*words], served[1], tmp_path / "site")

    assert done.returncode != 0
    assert "hash" in (done.stdout + done.stderr).lower()


def test_a_file_of_the_same_name_with_other_contents_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    wheel.write_bytes(b"one")
    assert write_index([wheel], tmp_path / "index") == ["tiny"]
    assert write_index([wheel], tmp_path / "index") == ["tiny"]
    wheel.write_bytes(b"two")

    with pytest.raises(BuildError, match="would be replaced"):
        write_index([wheel], tmp_path / "index")


def test_a_file_that_is_no_wheel_and_no_sdist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")

    with pytest.raises(BuildError, match=r"notes\.txt cannot be put into an index"):
        write_index([tmp_path / "notes.txt"], tmp_path / "index")


def test_names_are_normalized_and_every_link_has_a_digest(tmp_path: Path) -> None:
    wheel = tmp_path / "Splat_Kernels-1.0+g1-py3-none-any.whl"
    wheel.write_bytes(b"")

    assert write_index([wheel], tmp_path / "index") == ["splat-kernels"]
    page = (tmp_path / "index" / "simple" / "splat-kernels" / "index.html").read_text()
    assert 'href="Splat_Kernels-1.0%2Bg1-py3-none-any.whl#sha256=e3b0c442' in page


@pytest.mark.parametrize("name", ["javascript:alert(1)", "vbscript:x", "a&b", "ü", "..", "a b", "\x1b[2J"])
def test_a_file_whose_project_has_no_name_of_one_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}-1.0.tar.gz"
    file.touch()

    with pytest.raises(BuildError, match="cannot be put into an index"):
        write_index([file], tmp_path / "index")

    assert not (tmp_path / "index").exists()


def test_every_link_leads_to_the_index_itself(tmp_path: Path) -> None:
    for name in ("javascript:alert(1)", '"><script>', "a%2e%2e"):
        (tmp_path / "index" / "simple" / name).mkdir(parents=True)
        (tmp_path / "index" / "simple" / name / "javascript:alert(2)").touch()
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    wheel.touch()

    write_index([wheel], tmp_path / "index")

    pages = list((tmp_path / "index").rglob("index.html"))
    links = [link for page in pages for link in re.findall(r"<a href=([^>]*)>", page.read_text())]
    assert len(pages) == 5
    assert len(links) == 8
    assert [link for link in links if not re.fullmatch(r'"[\w%.-]+(/|#sha256=[0-9a-f]{64})"', link)] == []
