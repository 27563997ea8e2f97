"""The first part of docs/packaging.md, done as it is written: its files, its commands, and what these print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from builds import uv
from declared import REPOSITORY
from offline import as_simple_index, make_index
from processes import run

pytestmark = pytest.mark.once

PAGE = (REPOSITORY / "docs/packaging.md").read_text(encoding="utf-8").partition("\n## An existing extension\n")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
# A file's path in bold where its paragraph begins, then a code block.
FILES = re.findall(r"^\*\*(example/\S+)\*\* (?:[^\n]+\n)+\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [text for kind, text in BLOCKS if kind == "sh"]
OUTPUTS = [text for kind, text in BLOCKS if kind == "text"]
# What stands between the output of two blocks of commands.
NEXT = "=== next ==="


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with torch, a Python to install into, and an index that lacks kernelwheel."""
    run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    for package in (entry for path in sys.path if path.endswith("site-packages") for entry in Path(path).iterdir()):
        if (package.is_dir() or package.suffix == ".py") and not (site / package.name).exists():
            (site / package.name).symlink_to(package)
    pip = python.with_name("pip")
    pip.write_text(f"#!{python}\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n")
    pip.chmod(0o755)
    index = as_simple_index(make_index(tmp_path / "index", REPOSITORY / "tests/packages/tiny"))
    return {
        "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]]), "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_INDEX_URL": index.as_uri(), "PIP_FIND_LINKS": None,
        "XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "120",
    }  # fmt: skip


def shown(text: str) -> list[str]:
    """The lines of an output as the page shows it, as regular expressions: `…` is any text, a line of it any lines."""
    return [re.escape(line).replace("…", ".*") for line in text.splitlines() if line != "…"]


def test_the_page_has_three_files_and_shows_what_commands_print() -> None:
    names = [name.removeprefix("example/") for name, _ in FILES]
    assert names == ["softclip.cpp", "pyproject.toml", "softclip/__init__.py"]
    kinds = [kind for kind, _ in BLOCKS if kind not in ("cpp", "toml", "python")]
    assert kinds == ["sh", "text"] * (len(kinds) // 2)
    assert len(kinds) > 6


def test_the_readme_gets_kernelwheel_in_the_same_way() -> None:
    wheel, links = COMMANDS[0].replace("splat/backend", "backend/").splitlines()

    assert f"{wheel}\n" in (text := (REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert f"{links}\n" in text


@pytest.mark.minutes
@pytest.mark.slow
def test_isolated_builds_find_the_wheel_that_the_page_makes(user: dict[str, str | None], tmp_path: Path) -> None:
    """By the two lines that all pages have; the index has all that a build wants, but not kernelwheel."""
    shutil.copytree(REPOSITORY / "backend", tmp_path / "splat/backend", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    env = {
        **user, "UV_DEFAULT_INDEX": user["PIP_INDEX_URL"], "UV_CACHE_DIR": str(tmp_path / "uv"), "UV_FIND_LINKS": None,
        "UV_NO_CONFIG": "1",
    }  # fmt: skip
    words = shlex.join(str(word) for word in uv("build", "--sdist", "./example"))

    without = run(["bash", "-euc", words], cwd=tmp_path, env=env, check=False)
    done = run(["bash", "-euc", f"{COMMANDS[0]}\n{words}"], cwd=tmp_path, env=env)

    assert without.returncode != 0
    assert "kernelwheel" in without.stdout + without.stderr
    assert "softclip-0.1" in done.stdout + done.stderr


@pytest.mark.slow
def test_who_does_as_the_page_says_sees_what_it_shows(user: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "backend", tmp_path / "splat/backend", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    done = run(["bash", "-euc", f"\necho {NEXT!r}\n".join(COMMANDS)], cwd=tmp_path, env=user)

    for output, text in zip(done.stdout.split(f"{NEXT}\n"), OUTPUTS, strict=True):
        lines = iter(output.splitlines())
        for line in shown(text):
            assert any(re.fullmatch(line, seen.rstrip()) for seen in lines), f"{line}\n\nin this order in\n\n{output}"
