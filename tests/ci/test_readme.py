"""The README's Python runs, where the README has put splat and kernelwheel."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from folders import REPOSITORY
from processes import RunPython

pytestmark = [pytest.mark.slow]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def examples(word: str) -> str:
    """The Python of the page with a word, from the first line to the last."""
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?m)(?:^    .*\n)+", README)]
    return "".join(block for block in blocks if block.startswith("import ") and word in block)


def test_its_picture_is_drawn(run_with_torch: RunPython) -> None:
    done = run_with_torch(examples("splat") + "print(list(image.shape), bool(alphas.mean() > 0.01))")

    assert done.stdout == "[1, 240, 320, 3] True\n"


@pytest.mark.minutes
def test_its_module_is_compiled(run_with_torch: RunPython, tmp_path: Path) -> None:
    env = {"KERNELWHEEL_CACHE_DIR": str(tmp_path / "store")}

    assert run_with_torch(examples("kernelwheel") + "print(module.twice(21))", env=env).stdout == "42\n"
