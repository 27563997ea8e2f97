"""kernelwheel as a build requires it: by a file or a commit, as its name may be anybody's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kernelwheel import requirements
from kernelwheel.version import __version__
from packaging.requirements import Requirement

WHEEL = f"file:///home/me/wheels/kernelwheel-{__version__}-py3-none-any.whl"
COMMIT = {"vcs": "git", "commit_id": "1a2b3c"}
PLACE = f"file:///path/to/kernelwheel-{__version__}-py3-none-any.whl"


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        ({"url": WHEEL, "archive_info": {}}, WHEEL),
        (
            {"url": "https://example.org/splat", "vcs_info": COMMIT, "subdirectory": "backend"},
            "git+https://example.org/splat@1a2b3c#subdirectory=backend",
        ),
        ({"url": "file:///home/me/splat/backend", "dir_info": {}}, PLACE),
        ({"url": "file:///home/me/splat/backend", "dir_info": {"editable": True}}, PLACE),
        (None, PLACE),  # from an index, which need not be the one that a reader has
    ],
)
def test_it_is_what_it_was_installed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, url: str
) -> None:
    info = tmp_path / f"kernelwheel-{__version__}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kernelwheel\nVersion: {__version__}\n")
    if origin:
        (info / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.setattr(requirements, "__file__", str(tmp_path / "kernelwheel/requirements.py"))

    for extra in ("cuda", ""):
        required = Requirement(requirements.own_reference(extra))
        assert (required.name, required.extras, required.url) == ("kernelwheel", {extra} - {""}, url)


def test_a_checkout_is_no_installation() -> None:
    assert requirements.own_reference("cuda") == f"kernelwheel[cuda] @ {PLACE}"
