"""The pages, and comments and docstrings, name what is there."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from folders import REPOSITORY

KINDS = r"\.(?:py|h|cpp|cu|cuh|cmake|toml|md)"
# Folders of torch, of CUDA, of Linux and of .spz's repository, of which files are named too.
OTHERS = ("torch/", "ATen/", "crt/", "cub/", "linux/", "extensions/")


def named() -> Iterator[tuple[str, str]]:
    """The files that are named, and where: in pages within backticks, elsewhere with their folders."""
    for page in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]:
        for name in re.findall(rf"`([\w./-]+{KINDS})`", page.read_text(encoding="utf-8")):
            yield page.name, name
    folders = [REPOSITORY / "backend", REPOSITORY / "splat"]
    for file in [REPOSITORY / "pyproject.toml", *(path for each in folders for path in sorted(each.rglob("*.*")))]:
        if file.suffix in (".py", ".toml"):
            for name in re.findall(rf"(?<![\w./<*-])[\w-]+(?:/[\w-]+)+{KINDS}\b", said_in(file)):
                yield file.relative_to(REPOSITORY).as_posix(), name


def said_in(file: Path) -> str:
    """The comments of a file, and of Python also the docstrings."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".toml":
        return "\n".join(re.findall(r"#.*", text))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(each.string for each in tokens if each.string.startswith(("#", '"""')))


def test_files_that_are_named_exist() -> None:
    folders = [path for path in REPOSITORY.iterdir() if path.is_dir() and not path.name.startswith(".")]
    every = [*REPOSITORY.glob("*"), *(path for folder in folders for path in folder.rglob("*"))]
    files = {f"/{path.relative_to(REPOSITORY).as_posix()}" for path in every}
    ends = {file[at.start() :] for file in files for at in re.finditer("/", file)}
    missing = [f"{where}: {name}" for where, name in named() if f"/{name}" not in ends and not name.startswith(OTHERS)]

    assert missing == []
