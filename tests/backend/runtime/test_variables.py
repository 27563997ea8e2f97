"""Folders joined for a variable such as PYTHONPATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernelwheel.runtime.errors import SettingsError
from kernelwheel.runtime.variables import search_path


@pytest.mark.parametrize(
    ("then", "joined"), [("", "/a:/b"), ("/usr/bin::/bin", "/a:/b:/usr/bin::/bin"), (os.defpath, f"/a:/b:{os.defpath}")]
)
def test_folders_come_before_what_was_there_and_an_empty_value_is_no_folder(then: str, joined: str) -> None:
    assert search_path(Path("/a"), "/b", then=then) == joined


@pytest.mark.parametrize("folder", ["/srv/a:/tmp/b", "/srv/a;/tmp/b", ":", "/a:", ""])
def test_a_folder_that_would_be_two_is_refused_and_so_is_the_current_one(folder: str) -> None:
    with pytest.raises(SettingsError) as caught:
        search_path("/usr/lib", folder)

    assert caught.value.found == (folder or "a folder without a name")
