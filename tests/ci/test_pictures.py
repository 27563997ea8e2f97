"""ci/pictures makes the pictures that the README shows, and they are small."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import browser
import numpy as np
import processes
import pytest
from folders import REPOSITORY
from PIL import Image

SCRIPT = REPOSITORY / "ci" / "pictures.py"
MOST_BYTES = 150_000


def test_the_pages_show_pictures_that_are_there_and_all_of_them() -> None:
    shown = set()
    for page in [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]:
        for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            path = (page.parent / link).resolve()
            assert path.is_file(), f"{page.name}: {link}"
            shown.add(path)
    assert shown == set((REPOSITORY / "docs" / "pictures").iterdir())
    assert all(path.stat().st_size <= MOST_BYTES for path in shown)


@pytest.mark.minutes
@pytest.mark.slow
@pytest.mark.every_program
@pytest.mark.parametrize("name", ["demo.jpg", "viewer.jpg", "doctor.svg"])
def test_they_are_made_anew(tmp_path: Path, name: str) -> None:
    pytest.importorskip("viser", reason="pip install 'viser>=1.1,<1.2'")
    if name == "viewer.jpg" and browser.find_browser() is None:
        pytest.skip("no browser here; Debian: apt-get install chromium")
    words = ["--steps", "3", "--only", name.partition(".")[0]]
    processes.run([sys.executable, SCRIPT, tmp_path / "made", *words], cwd=tmp_path)

    (made,) = (tmp_path / "made").iterdir()
    assert made.name == name
    assert made.stat().st_size <= MOST_BYTES
    before = REPOSITORY / "docs" / "pictures" / name
    if made.suffix == ".jpg":
        with Image.open(made) as image, Image.open(before) as old:
            assert image.size == old.size
            assert np.asarray(image).std() > 10, "something is on it"
    else:
        text = made.read_text(encoding="utf-8")
        assert "verdict:" in text
        assert str(tmp_path) not in text + before.read_text(encoding="utf-8")
        assert not re.search(r"url\((?!#)|@font-face|<image", text), "it loads nothing"
