"""The pages name what is there."""

from __future__ import annotations

import re

from folders import REPOSITORY

# Folders of torch and of CUDA, of which pages name files too.
OTHERS = ("torch/", "crt/")


def test_files_that_the_pages_name_exist() -> None:
    folders = [path for path in REPOSITORY.iterdir() if path.is_dir() and not path.name.startswith(".")]
    every = [*REPOSITORY.glob("*"), *(path for folder in folders for path in folder.rglob("*"))]
    files = [path.relative_to(REPOSITORY).as_posix() for path in every]
    missing = []
    for page in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]:
        for name in re.findall(r"`([\w./-]+\.(?:py|h|cpp|cu|cuh|cmake|toml|md))`", page.read_text(encoding="utf-8")):
            if not name.startswith(OTHERS) and not any(f"/{file}".endswith(f"/{name}") for file in files):
                missing.append(f"{page.name}: {name}")

    assert missing == []
