"""The first part of docs/packaging.md, done as it is written: its files, its commands, and what these print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from builds import uv
from declared import REPOSITORY
from kernelwheel.runtime.errors import INSTALL_COMPILER
from kernelwheel.version import __version__
from offline import Index, make_index, make_wheel, served
from processes import run

PACKAGING, USAGE, PUBLISH = (
    (REPOSITORY / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("packaging", "usage", "publish")
)
PAGE = PACKAGING.partition("\n## An existing extension\n")[0]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
# A file's path in bold where its paragraph begins, then a code block.
FILES = re.findall(r"^\*\*(example/\S+)\*\* (?:[^\n]+\n)+\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [text for kind, text in BLOCKS if kind == "sh"]
OUTPUTS = [text for kind, text in BLOCKS if kind == "text"]
# What stands between the output of two blocks of commands.
NEXT = "=== next ==="


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    """An index with all that a build wants, in which kernelwheel is somebody else's."""
    with served(make_index(tmp_path / "index", REPOSITORY / "tests/packages/tiny")) as index:
        yield index


@pytest.fixture
def user(tmp_path: Path, index: Index) -> dict[str, str | None]:
    """The environment of a user with torch, and a Python to install into."""
    run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=tmp_path)
    python = tmp_path / "venv/bin/python"
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    for package in (entry for path in sys.path if path.endswith("site-packages") for entry in Path(path).iterdir()):
        if (package.is_dir() or package.suffix == ".py") and not (site / package.name).exists():
            (site / package.name).symlink_to(package)
    pip = python.with_name("pip")
    pip.write_text(f"#!{python}\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n")
    pip.chmod(0o755)
    return {
        **index.environment, "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]]),
        "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_FIND_LINKS": None,
        "PIP_EXTRA_INDEX_URL": None, "PIP_NO_CACHE_DIR": "1", "UV_FIND_LINKS": None, "UV_NO_CONFIG": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "COLUMNS": "120",
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
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    (requires,) = re.findall(r"^requires = .*\n", dict(FILES)["example/pyproject.toml"], re.MULTILINE)

    assert f"    {COMMANDS[0]}".replace("splat/backend", "backend/") in text
    assert f"    {requires}" in text


def write_files(folder: Path) -> None:
    """A copy of backend/, and the files of the page, with the user's own path where the page says so."""
    shutil.copytree(REPOSITORY / "backend", folder / "splat/backend", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("/path/to/", f"{folder}/wheels/"))


@pytest.mark.minutes
@pytest.mark.slow
def test_the_other_front_ends_take_the_wheel_that_the_page_makes(
    user: dict[str, str | None], index: Index, tmp_path: Path
) -> None:
    """And so do commands with the wheel's path, as messages and pages have them."""
    write_files(tmp_path)
    (tmp_path / "dist").mkdir()
    make_wheel(tmp_path / "dist", "splat-kernels", __version__)
    uv_build, uv_install = (shlex.join(map(str, uv(*words))) for words in (("build",), ("pip", "install")))
    kernelwheel = f"wheels/kernelwheel-{__version__}-py3-none-any.whl"
    compiler = re.sub("<file of [^>]*>", kernelwheel, INSTALL_COMPILER.partition(";")[0]).removeprefix("pip install ")
    (cluster,) = re.findall(r'^pip install ("\$WHEEL".*)$', USAGE, re.MULTILINE)
    team = [
        words.replace("http://127.0.0.1:8000", "dist") for words in re.findall("pip install (--no-index .*)", PUBLISH)
    ]
    commands = [
        COMMANDS[0], f"{uv_build} --sdist ./example", "python -m build --sdist ./example",
        f'WHEEL=$(ls dist/*) KERNELWHEEL="{kernelwheel}"',
        *(f"{uv_install} --dry-run --target site {words}" for words in (compiler, cluster, *team)),
        *(f"pip install --dry-run --ignore-installed {words}" for words in (compiler, cluster, *team)),
    ]  # fmt: skip

    done = run(["bash", "-euc", "\n".join(commands)], cwd=tmp_path, env=user)

    said = done.stdout + done.stderr
    assert len(team) == 2
    assert said.count("softclip-0.1.0.tar.gz") >= 2
    assert (said.count(f"kernelwheel-{__version__} "), said.count(f" splat-kernels-{__version__}")) == (2, 3)
    assert (said.count(" + kernelwheel"), said.count(" + splat-kernels")) == (2, 3)
    assert index.asked_for_ours() == []
    assert {"simple/setuptools", "simple/cmake"} <= set(index.asked)


@pytest.mark.slow
def test_by_its_name_it_would_be_somebody_else_s(user: dict[str, str | None], index: Index, tmp_path: Path) -> None:
    """So that the index is the one that the tests here are about."""
    make_wheel(tmp_path, "kernelwheel", __version__)

    done = run(["pip", "install", "--dry-run", "--find-links", ".", "kernelwheel"], cwd=tmp_path, env=user)

    assert "Would install kernelwheel-99.0" in done.stdout
    assert index.asked_for_ours()


@pytest.mark.minutes
@pytest.mark.slow
def test_who_does_as_the_page_says_sees_what_it_shows(
    user: dict[str, str | None], index: Index, tmp_path: Path
) -> None:
    write_files(tmp_path)

    done = run(["bash", "-euc", f"\necho {NEXT!r}\n".join(COMMANDS)], cwd=tmp_path, env=user)

    for output, text in zip(done.stdout.split(f"{NEXT}\n"), OUTPUTS, strict=True):
        lines = iter(output.splitlines())
        for line in shown(text):
            assert any(re.fullmatch(line, seen.rstrip()) for seen in lines), f"{line}\n\nin this order in\n\n{output}"
    assert index.asked_for_ours() == []
