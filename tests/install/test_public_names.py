"""The names of the package: what it shows, what of gsplat it has not, and what the command does without."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import processes
import pytest
from folders import REPOSITORY
from processes import RunPython

import splat
from splat._missing_names import MISSING


def test_the_package_shows_its_public_names_alone() -> None:
    assert dir(splat) == sorted(splat.__all__)


def test_every_public_name_is_there(run_with_torch: RunPython) -> None:
    """Also if nothing was imported before, as in the command."""
    script = (
        "import sys; sys.argv = ['splat']\n"
        "from splat import *\nfrom splat import __all__\nprint(*(n for n in __all__ if n in globals()))"
    )
    assert run_with_torch(script).stdout.split() == splat.__all__
    assert [name for name in splat.__all__ if hasattr(splat, name)] == splat.__all__


@pytest.mark.skipif(importlib.util.find_spec("gsplat") is None, reason="gsplat is not here; ci/test installs it")
def test_every_name_of_gsplat_is_there_or_is_said_not_to_be() -> None:
    spec = importlib.util.find_spec("gsplat")
    assert spec is not None
    assert spec.origin is not None
    body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    imported = {alias.name for each in body if isinstance(each, ast.ImportFrom) for alias in each.names}

    assert imported - set(splat.__all__) == set(MISSING)


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_is_an_error_that_says_what_there_is_instead(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"^splat has no {name}, as gsplat has: .+"):
        getattr(splat, name)
    with pytest.raises(NotImplementedError, match=f"^splat has no {name}, as gsplat has: .+"):
        exec(f"from splat import {name}")


def test_programs_that_ask_whether_a_name_is_there_get_an_answer() -> None:
    assert not hasattr(splat, "PngCompression")
    with pytest.raises(ImportError, match="splat has no PngCompression"):
        from splat import PngCompression  # noqa: F401


def test_commands_in_these_errors_are_right() -> None:
    for words in re.findall(r"`splat ([^`]+)`", " ".join(MISSING.values())):
        command, *arguments = words.split()
        parser = argparse.ArgumentParser(exit_on_error=False)
        importlib.import_module(f"splat.commands.{command}_command").add_arguments(parser)
        if arguments:
            parser.parse_args(arguments)


def test_any_other_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'splat' has no attribute 'rasterisation'"):
        _ = splat.rasterisation  # type: ignore[attr-defined]


def test_modes_have_literal_types() -> None:
    hints = get_type_hints(inspect.unwrap(splat.rasterization))

    known, along_rays = Literal["RGB", "D", "ED", "RGB+D", "RGB+ED"], Literal["d", "Ed", "RGB-d", "RGB-Ed"]
    assert hints["render_mode"] == known | along_rays
    assert set(get_args(hints["rasterize_mode"])) == {"classic", "antialiased"}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["nonsense"], ["cache", "path"]], ids=" ".join)
def test_help_and_the_store_s_path_need_no_torch(run_python: RunPython, words: list[str]) -> None:
    script = """
import atexit, runpy, sys
atexit.register(lambda: print(f"torch: {'torch' in sys.modules}"))
runpy.run_module("splat", run_name="__main__", alter_sys=True)
"""
    program = f"import sys\nsys.argv = ['splat', *{words!r}]\n{script}"

    assert "torch: False" in run_python(program, check=False).stdout


@pytest.mark.slow
def test_a_checkout_that_is_not_installed_says_so_in_one_line() -> None:
    line = (
        f"splat: this is splat's source tree ({REPOSITORY / 'splat'}), not an installed splat: run from another "
        "folder, or install the checkout (pip install .)\n"
    )

    done = processes.run([sys.executable, "-m", "splat", "--version"], cwd=REPOSITORY, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (1, "", line)
