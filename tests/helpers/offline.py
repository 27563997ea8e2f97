"""An index of packages made from what this environment has, so that isolated builds are real and fetch nothing.

An isolated build of tiny asks for torch and nvcc: about 1 GB. What isolation does to a build can be seen without that:
the build requirements are packed again from the installed files, and torch is a wheel that leads to the installed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from threading import Thread
from urllib.parse import unquote
from zipfile import ZIP_STORED

from builds import TORCH
from folders import REPOSITORY
from kernelwheel.project.package import read_toml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from wheel.wheelfile import WheelFile

# Not from the files here: torch and nvcc are large, and reached through a link.
LINKED = {"torch", "cuda-toolkit"}


def make_index(folder: Path, project: Path, *more: str) -> Path:
    """A folder of wheels, for `--no-index --find-links`, with all that builds of `project` and of kernelwheel ask for,
    and more.

    torch has this environment's version; with it comes pip's CUDA toolkit beside it, where there is one.
    """
    requires = read_toml(project / "pyproject.toml")["build-system"]["requires"]
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    compiler = read_toml(REPOSITORY / "backend" / "pyproject.toml")["build-system"]["requires"]
    for name in installed([*requires, *compiler, *more, "cmake", "ninja"]):
        repack(distribution(name), wheels)
    beside = folder / "beside"  # as in site-packages: torch, and what is found from its place
    beside.mkdir()
    for name in ("torch", "nvidia", "triton"):
        if (TORCH.root.parent / name).is_dir():
            (beside / name).symlink_to(TORCH.root.parent / name)
    make_wheel(wheels, "torch", TORCH.version, files={"torch-linked.pth": f"{beside}\n"})
    extras = {extra for text in requires for extra in Requirement(text).extras}
    provides = "".join(f"Provides-Extra: {extra}\n" for extra in sorted(extras))
    make_wheel(wheels, "cuda-toolkit", f"{TORCH.cuda or '13.0'}.2", metadata=provides)
    return wheels


def installed(requires: list[str]) -> set[str]:
    """The distributions here that requirements ask for, and what those ask for."""
    found: set[str] = set()
    waiting = list(requires)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        if name in found | LINKED or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            waiting += distribution(name).requires or []
        except PackageNotFoundError:
            if name in ("cmake", "ninja"):  # this machine has its own, or a build would ask for it and say so
                continue
            raise
        found.add(name)
    return found


def make_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, str | Path] | None = None, metadata: str = ""
) -> Path:
    """A pure wheel of a few files, given as text or as what has their bytes."""
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    with WheelFile(path, "w") as archive:
        for member, text in (files or {}).items():
            archive.writestr(member, text if isinstance(text, str) else text.read_bytes())
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{stem}.dist-info/METADATA", head + metadata)
        archive.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    return path


def as_simple_index(wheels: Path) -> Path:
    """The same wheels as a tree of pages (PyPA, simple repository API), for a front end that asks for an index."""
    for file in wheels.glob("*.whl"):
        page = wheels / "simple" / canonicalize_name(file.name.partition("-")[0]) / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        with page.open("a", encoding="utf-8") as lines:
            lines.write(f'<a href="{file.as_uri()}">{file.name}</a>\n')
    return wheels / "simple"


class Index(ThreadingHTTPServer):
    """An index on this machine's loopback address, of a folder of wheels; it notes what it is asked for.

    Whoever asks for one of our own two distributions by name gets release 99.0 of somebody else's.
    """

    daemon_threads = True

    def __init__(self, wheels: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.wheels = wheels
        self.asked: list[str] = []
        for name in OURS:
            files = {f"{name.replace('-', '_')}/hooks.py": "raise SystemExit('a stranger runs')\n"}
            make_wheel(wheels, name, "99.0", files, "Provides-Extra: cuda\nProvides-Extra: jit\n")

    @property
    def environment(self) -> dict[str, str]:
        """What makes it the index of pip and uv."""
        url = f"http://127.0.0.1:{self.server_port}/simple"
        return {"PIP_INDEX_URL": url, "UV_DEFAULT_INDEX": url, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}

    def asked_for_ours(self) -> list[str]:
        """What it was asked for that has one of our own names."""
        return [path for path in self.asked if any(name in path.lower().replace("_", "-") for name in OURS)]


OURS = ("kernelwheel", "splat-kernels")


class _Answer(BaseHTTPRequestHandler):
    """Pages of the simple repository API (PyPA), and wheels."""

    server: Index

    def do_GET(self) -> None:
        path = unquote(self.path).strip("/")
        self.server.asked.append(path)
        wheels = [file.name for file in self.server.wheels.glob("*.whl")]
        if path in wheels:
            return self._send("application/octet-stream", (self.server.wheels / path).read_bytes())
        name = path.removeprefix("simple/")
        links = [
            f'<a href="/{file}">{file}</a>' for file in wheels if canonicalize_name(file.partition("-")[0]) == name
        ]
        return self._send("text/html", "\n".join(links).encode()) if links else self.send_error(404)

    do_HEAD = do_GET

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            with suppress(ConnectionError):  # who asks may be content with a part
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def served(wheels: Path) -> Iterator[Index]:
    """An index of the wheels, as long as this lasts."""
    with Index(wheels) as index:
        Thread(target=index.serve_forever, daemon=True).start()
        yield index
        index.shutdown()


def repack(installed: Distribution, folder: Path) -> None:
    """The wheel that an installed distribution came from, stored without compression."""
    stem = f"{re.sub(r'[-.]+', '_', installed.metadata['Name'])}-{installed.version}"
    tags = re.findall(r"^Tag: (\S+)$", installed.read_text("WHEEL") or "", re.MULTILINE)
    pythons, abis, platforms = (
        ".".join(dict.fromkeys(parts)) for parts in zip(*(tag.split("-") for tag in tags), strict=True)
    )
    with WheelFile(folder / f"{stem}-{pythons}-{abis}-{platforms}.whl", "w", ZIP_STORED) as archive:
        for member, path in members(installed, stem):
            archive.write(str(path), member)


def members(installed: Distribution, stem: str) -> Iterator[tuple[str, Path]]:
    """The files of a distribution by their names in its wheel; not what an installer made."""
    made = {script.name for script in installed.entry_points if script.group == "console_scripts"}
    for file in installed.files or []:
        path = Path(str(installed.locate_file(file)))
        if file.parts[0] == "..":
            if path.name not in made and path.parent.name == "bin":
                yield f"{stem}.data/scripts/{path.name}", path
        elif file.parts[0].endswith(".dist-info"):
            if path.name not in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
                yield "/".join((f"{stem}.dist-info", *file.parts[1:])), path
        elif path.suffix != ".pyc" and path.is_file():
            yield file.as_posix(), path
