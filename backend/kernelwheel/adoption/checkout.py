"""What a maintainer has to know of the checkout: what is missing, what setup.py makes, and what becomes of it."""

from __future__ import annotations

import ast
import configparser
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .extension_tables import AdoptionNotes
from .project_copy import repository_of
from .setup_runs import Observation

_ABOUT_EXTENSIONS = ("ext_modules", "cmdclass")
_MOST_NAMED = 6


def report_submodules(project: Path, seen: Observation, notes: AdoptionNotes) -> None:
    """Tell which of git's submodules are not there: an error if an extension's files or folders are in them."""
    root = repository_of(project) or project
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string((root / ".gitmodules").read_text(encoding="utf-8").replace("\t", ""))
    except (OSError, ValueError, configparser.Error):
        return
    wanted = [
        Path(os.path.normpath(project / place))
        for extension in seen.extensions
        for place in (
            *extension.listed("sources"),
            *extension.listed("include_dirs"),
            *_included(extension.compile_flags),
        )
    ]
    unused = []
    for section in parser.sections():
        place = parser.get(section, "path", fallback="")
        folder = root / place
        if not place or (folder.is_dir() and any(folder.iterdir())):
            continue
        if any(path.is_relative_to(folder) for path in wanted):
            notes.untranslated.append(
                f"the git submodule {place} is not there: git submodule update --init {place}, and run adopt again"
            )
        else:
            unused.append(place)
    if unused:
        notes.remarks.append(f"git submodules that are not there, and that no extension names: {', '.join(unused)}")


def _included(flags: Sequence[str]) -> Iterator[str]:
    """The folders of headers among the flags."""
    for flag in flags:
        if flag.startswith("-I") and len(flag) > 2:
            yield flag[2:].strip()


def report_made(project: Path, seen: Observation, notes: AdoptionNotes) -> set[str]:
    """Tell which files setup.py makes; returns those of its wheel that the checkout lacks for that reason."""
    places = {**{"": ""}, **(seen.values.get("package_dir") or {})}
    lost: set[str] = set()
    for made, leads in seen.made.items():
        names = [made]
        for package, place in places.items():
            prefix = f"{os.path.normpath(place)}/" if place and place != "." else ""
            if made.startswith(prefix):
                names.append(f"{package.replace('.', '/')}/{made.removeprefix(prefix)}".lstrip("/"))
        packed = {
            file for file in seen.wheel.get("files", {}) if any(f"{file}/".startswith(f"{name}/") for name in names)
        }
        lost |= packed
        if packed and leads:
            target = os.path.relpath(leads, (project / made).parent)
            count = f", with {len(packed)} files of its wheel"
            notes.untranslated.append(f"setup.py makes the link {made}{count}: keep it, ln -s {target} {made}")
        elif packed:
            notes.untranslated.append(f"setup.py makes {made}, which is in its wheel: keep that file in the checkout")
        else:
            notes.remarks.append(f"setup.py makes {made}, which is not in its wheel")
    return lost


def report_outside(project: Path, seen: Observation, notes: AdoptionNotes) -> None:
    """Tell what to do about sources that are not below the folder of setup.py."""
    sources = [os.path.normpath(project / source) for each in seen.extensions for source in each.listed("sources")]
    outside = [source for source in dict.fromkeys(sources) if not Path(source).is_relative_to(project)]
    if not outside:
        return
    shared = Path(os.path.commonpath([project, *outside]))
    inside = project.relative_to(shared).as_posix()
    notes.untranslated.append(
        f"sources outside of the folder of setup.py, which no sdist has: {len(outside)}; build from a folder above, "
        f"{os.path.relpath(shared, project)}: put pyproject.toml there, begin its paths with {inside}/, those of the "
        f'sources without ../, and set package-dir = {{ "" = "{inside}" }} in [tool.setuptools]'
    )


def lines_about_extensions(script: Path) -> list[str]:
    """The lines of a setup.py that setuptools must not see any more, as `12` or `12-30`, with how they begin."""
    text = script.read_text(encoding="utf-8", errors="replace")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    found: dict[int, int] = {}
    column: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg in _ABOUT_EXTENSIONS:
                    found[keyword.lineno] = max(found.get(keyword.lineno, 0), keyword.end_lineno or 0)
                    column.setdefault(keyword.lineno, keyword.col_offset)
    for node in ast.walk(tree):
        simple = isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Delete))
        if isinstance(node, ast.stmt) and simple and not _is_within(node, found) and _names_extensions(node):
            found[node.lineno] = node.end_lineno or node.lineno
    lines = text.splitlines()
    return [
        f"{first}{f'-{last}' if last > first else ''} ({lines[first - 1][column.get(first, 0) :].strip()[:40]})"
        for first, last in sorted(found.items())
    ]


def _is_within(node: ast.stmt, found: Mapping[int, int]) -> bool:
    """Whether a statement is that call of setup(), of which only arguments go."""
    return any(node.lineno <= first and last <= (node.end_lineno or 0) for first, last in found.items())


def _names_extensions(node: ast.stmt) -> bool:
    return any(
        getattr(inner, field, None) == "ext_modules" for inner in ast.walk(node) for field in ("id", "attr", "value")
    )


def what_to_delete(script: Path) -> str:
    """What to do with a setup.py that still does other things, or did."""
    found = lines_about_extensions(script)
    named = f"lines {', '.join(found)}" if found else "what it has about ext_modules"
    return f"then remove setup.py, or from it {named}: its ext_modules would be compiled a second time"


def remove_script(script: Path, environ: Mapping[str, str]) -> str:
    """Remove a setup.py of which nothing is left to say; returns how it can be had back."""
    if _in_git(script, environ):
        script.unlink()
        return "setup.py is removed: all of it is in pyproject.toml, and git has it"
    script.rename(script.with_name("setup.py.old"))
    return "setup.py is now setup.py.old: all of it is in pyproject.toml, and nothing uses it any more"


def edit_script(script: Path, text: bytes, environ: Mapping[str, str]) -> str:
    """Give a setup.py another text; returns what became of it."""
    before = "git has it as it was"
    if not _in_git(script, environ):
        shutil.copy2(script, script.with_name("setup.py.old"))
        before = "setup.py.old is as it was"
    script.write_bytes(text)
    return (
        "setup.py stays for what else it does, without its extensions and what only these used; the wheel is the same, "
        f"and {before}"
    )


def _in_git(script: Path, environ: Mapping[str, str]) -> bool:
    """Whether git has a file just as it is."""
    command = ["git", "-C", str(script.parent)]
    tracked = _succeeds([*command, "ls-files", "--error-unmatch", script.name], environ)
    return tracked and _succeeds([*command, "diff", "--quiet", "HEAD", "--", script.name], environ)


def _succeeds(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return done.returncode == 0
    except OSError:
        return False  # no git


def shortened(differences: Sequence[str]) -> list[str]:
    """The first of many differences, and how many more there are."""
    more = len(differences) - _MOST_NAMED
    return [*differences[:_MOST_NAMED], *([f"{more} more differences: adopt --check has them all"] if more > 0 else [])]
