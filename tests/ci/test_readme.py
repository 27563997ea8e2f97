"""The README's Python runs, from top to bottom, where the README has put splat and kernelwheel."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from folders import REPOSITORY
from processes import RunPython

pytestmark = [pytest.mark.slow]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_its_examples_run_in_their_order(run_with_torch: RunPython, tmp_path: Path) -> None:
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?m)(?:^    .*\n)+", README)]
    code = "".join(block for block in blocks if block.startswith("import "))
    shown = "print(list(image.shape), bool(alphas.mean() > 0.01), module.twice(21))"

    done = run_with_torch(code + shown, env={"KERNELWHEEL_CACHE_DIR": str(tmp_path / "store")})

    assert done.stdout == "[1, 240, 320, 3] True 42\n"
