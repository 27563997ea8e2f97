"""What several modules of these tests fit."""

from __future__ import annotations

from pathlib import Path

import photographs
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen photographs with a COLMAP model."""
    return photographs.colmap_folder(tmp_path_factory.mktemp("photographs") / "garden", count=16)
