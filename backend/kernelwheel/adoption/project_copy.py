"""Copies of a project, for a setup.py to run in: what it does to its folder stays in the copy.

A setup.py may ask git for its version, and read files above its folder, so the copy lies in a folder that looks like
the repository's: what is beside the project is linked there, and git's folder is copied without its objects.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

# Folders that are no part of a project; so is any with a `pyvenv.cfg`.
NO_PART = {"__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", "node_modules"}
# Files that are larger, such as weights, are linked.
LARGEST_COPIED = 64 << 20


class ProjectCopy(NamedTuple):
    """A copy of a project.

    Attributes:
        project: its folder in the copy.
        root: the folder of the copy that stands for `original`.
        original: the repository's folder; the project's own if it is in none.
    """

    project: Path
    root: Path
    original: Path

    def as_original(self, text: str) -> str:
        """A text, which may be JSON, with the original's path instead of the copy's."""
        for copy, original in ((str(self.root), str(self.original)), (_quoted(self.root), _quoted(self.original))):
            text = text.replace(copy, original)
        return text

    def state(self) -> dict[str, object]:
        """What is in the project's folder, to see later what was made there."""
        found: dict[str, object] = {}
        for folder, folders, names in os.walk(self.project):
            folders[:] = [name for name in folders if name not in NO_PART and not name.endswith((".egg-info", ".git"))]
            for name in (*names, *(each for each in folders if Path(folder, each).is_symlink())):
                path = Path(folder, name)
                status = path.lstat()
                inside = path.relative_to(self.project).as_posix()
                found[inside] = str(path.readlink()) if path.is_symlink() else (status.st_size, status.st_mtime_ns)
        return found

    def made(self, before: dict[str, object]) -> dict[str, str]:
        """What is new or has other contents since a state: files, and links with where they lead."""
        found = {}
        for name, what in self.state().items():
            original = self.original / self.project.relative_to(self.root) / name
            if before.get(name) == what:
                continue
            if isinstance(what, str):
                leads = self.as_original(what)
                if not original.is_symlink() or original.resolve() != (original.parent / leads).resolve():
                    found[name] = leads
            elif not _equal(self.project / name, original):
                found[name] = ""
        return found


def _equal(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return filecmp.cmp(one, other, shallow=False)
    return False


@contextmanager
def copied(project: Path) -> Iterator[ProjectCopy]:
    """A copy of a project for as long as the context lasts."""
    original = repository_of(project) or project
    with tempfile.TemporaryDirectory(prefix="kernelwheel-adopt-") as temporary:
        root = Path(temporary).resolve() / (original.name or "project")
        inside = project.relative_to(original)
        _link_beside(original, root, inside.parts)
        _copy_tree(project, root / inside, project)
        if (original / ".git").exists():
            _copy_git(original / ".git", root / ".git")
        yield ProjectCopy(root / inside, root, original)


def repository_of(project: Path) -> Path | None:
    """The folder of the git repository that a project is in."""
    return next((folder for folder in (project, *project.parents) if (folder / ".git").exists()), None)


def _link_beside(original: Path, root: Path, inside: tuple[str, ...]) -> None:
    """Link what is beside the project on the way to it."""
    root.mkdir(parents=True, exist_ok=True)
    if not inside:
        return
    for entry in original.iterdir():
        if entry.name not in (".git", inside[0]):
            (root / entry.name).symlink_to(entry)
    _link_beside(original / inside[0], root / inside[0], inside[1:])


def _copy_tree(folder: Path, target: Path, project: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        to = target / entry.name
        if entry.is_symlink():
            link = entry.readlink()
            leads = Path(os.path.normpath(folder / link))
            to.symlink_to(link if not link.is_absolute() and leads.is_relative_to(project) else leads)
        elif entry.is_dir():
            environment = (entry / "pyvenv.cfg").exists() or entry == Path(sys.prefix)
            if entry.name not in NO_PART and entry.name != ".git" and not environment:
                _copy_tree(entry, to, project)
        elif entry.is_file() and entry.name != ".git":
            if entry.stat().st_size > LARGEST_COPIED:
                to.symlink_to(entry)
            else:
                with suppress(PermissionError):  # then setup.py could not read it either
                    shutil.copy2(entry, to)


def _copy_git(git: Path, target: Path) -> None:
    """Copy a repository's folder of git without its objects, which are read where they are."""
    if git.is_file():  # of a worktree or a submodule: it names the folder
        place = git.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        target.write_text(f"gitdir: {os.path.normpath(git.parent / place)}\n", encoding="utf-8")
        return
    target.mkdir(parents=True)
    for entry in git.iterdir():
        if entry.name == "objects" and (git / "HEAD").exists():
            (target / "objects/info").mkdir(parents=True)
            (target / "objects/info/alternates").write_text(f"{entry.resolve()}\n", encoding="utf-8")
        elif entry.is_dir():
            if entry.name != "lfs":
                _copy_git(entry, target / entry.name)
        elif entry.is_file():
            shutil.copy2(entry, target / entry.name)


def _quoted(path: Path) -> str:
    return json.dumps(str(path))[1:-1]
