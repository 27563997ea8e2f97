"""The folders of the checkout that tests look into."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BACKEND = REPOSITORY / "backend"  # what a script needs on its path to import kernelwheel
HELPERS = REPOSITORY / "tests" / "helpers"
PACKAGES = REPOSITORY / "tests" / "packages"
