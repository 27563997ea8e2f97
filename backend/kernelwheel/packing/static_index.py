"""A package index for a team: a folder of files that any web server can serve (PEP 503; "Simple repository API").

`python -m kernelwheel index WHEELS... --out FOLDER` copies wheels and sdists there and writes the pages, with digests.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

from ..core.digests import file_sha256
from ..core.errors import BuildError

PAGE = (
    '<!doctype html>\n<html><head><meta charset="utf-8"><meta name="pypi:repository-version" content="1.0">'
    "<title>{title}</title></head>\n<body>\n{links}\n</body></html>\n"
)
_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"  # PEP 508, "Names", as normalized


def main(arguments: Sequence[str]) -> int:
    """Write the index and say how to install from it."""
    parser = argparse.ArgumentParser(
        prog="python -m kernelwheel index", description="Make a folder that a web server can serve as a package index."
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="wheels and sdists")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="made, or added to")
    args = parser.parse_args(arguments)
    names = write_index(args.files, args.out)
    print(f"{args.out}: {', '.join(names)}; serve it, and install with")
    print(f"  pip install --index-url https://SERVER/simple/ {names[0]}")
    return 0


def write_index(files: Sequence[Path], folder: Path) -> list[str]:
    """Add files to an index, and write its pages anew.

    Returns:
        The names of the projects in it.

    Raises:
        BuildError: a file has no name of a wheel or an sdist, or the index has another file of that name.
    """
    projects = {file: _project_of(file) for file in files}
    for file, project in projects.items():
        target = folder / "simple" / project / file.name
        if target.exists() and file_sha256(target) != file_sha256(file):
            raise BuildError(
                "a file in the index would be replaced by another of the same name",
                required="a name for each content: who has installed it, or has its digest, trusts that it stays",
                found=f"{file.name} with another sha256 in {target.parent}",
                remedies=["build it with another version"],
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    simple = folder / "simple"
    names = sorted(path.name for path in simple.iterdir() if path.is_dir())
    for name in names:
        made = sorted(path for path in (simple / name).iterdir() if path.name != "index.html")
        _write(simple / name, {path.name: f"{quote(path.name)}#sha256={file_sha256(path)}" for path in made})
    _write(simple, {name: f"{quote(name)}/" for name in names})
    return names


def _project_of(file: Path) -> str:
    """The normalized name of a file's project (PEP 503, "Normalized Names")."""
    try:
        parsed = parse_wheel_filename(file.name) if file.suffix == ".whl" else parse_sdist_filename(file.name)
        name = canonicalize_name(parsed[0])
        if not re.fullmatch(_NAME, name):  # of an sdist, any text is parsed as one
            raise InvalidSdistFilename(f"{name!a} is no name of a project")
    except (InvalidWheelFilename, InvalidSdistFilename) as error:
        raise BuildError(
            f"{file.name} cannot be put into an index",
            required="a file name of a wheel or of an sdist",
            found=str(error),
            remedies=["name the files that a build has made: dist/*.whl dist/*.tar.gz"],
        ) from error
    return name


def _write(folder: Path, links: Mapping[str, str]) -> None:
    lines = [f'<a href="{escape(target)}">{escape(name)}</a><br>' for name, target in links.items()]
    text = PAGE.format(title=escape(folder.name), links="\n".join(lines))
    (folder / "index.html").write_text(text, encoding="utf-8")
