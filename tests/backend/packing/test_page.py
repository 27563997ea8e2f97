"""The page of a wheel: what it says, when it may be green, and that nothing in a wheel can write HTML of its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from kernelwheel.__main__ import main
from kernelwheel.packing.page import Page, page_html, read_matrix, read_results
from kernelwheel.runtime.errors import IncompatibleArtifactError
from samples import CUDA_LIBRARY, sample

pytestmark = pytest.mark.once

WHEEL = "tiny-1.2.3-py3-none-manylinux_2_28_x86_64.whl"
PASSED = {"name": "twine check", "passed": True, "said": "PASSED"}
FAILED = {"name": "reproducible", "passed": False, "said": "libtiny.so: .text differs"}
GREEN = {"python": "3.12.1", "torch": "2.11.0", "cuda": "13.0", "outcome": "passed", "said": ""}
SBOM = {
    "components": [
        {"name": "cccl", "version": "3.1", "licenses": [{"expression": "Apache-2.0"}], "hashes": [{"content": "ab"}]}
    ]
}


@pytest.fixture
def page() -> Page:
    return Page(WHEEL, sample(CUDA_LIBRARY), [], [("tiny/a.py", 10, 20)], SBOM, [PASSED], [GREEN])


class Reader(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def test_the_page_shows_what_somebody_signs_off(page: Page) -> None:
    text = Reader(page_html(page)).text

    for shown in (
        WHEEL, "manylinux_2_28_x86_64: linked for glibc 2.28", "libtiny_cuda.so", "9.0 12.0f", "for CUDA 13.0 or later",
        "twine check", "3.12.1", "2.11.0", "cccl", "Apache-2.0", "tiny/a.py", page.manifest.fingerprint,
    ):  # fmt: skip
        assert shown in text, shown


def test_the_page_loads_nothing_and_fits_a_phone_by_day_and_by_night(page: Page) -> None:
    text = page_html(page)
    reader = Reader(text)

    assert not reader.elements & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert reader.attributes <= {"lang", "charset", "name", "content", "class"}
    assert not re.search(r"url\(|@import|https?:", text)
    assert '<meta name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize(
    ("change", "mark", "said"),
    [
        ({}, "good", "All 1 checks and 1 environments passed."),
        ({"damage": ["RECORD: two rows"]}, "bad", "Damaged: RECORD: two rows."),
        ({"checks": [PASSED, FAILED]}, "bad", "Failed: reproducible."),
        ({"matrix": [GREEN, {**GREEN, "outcome": "failed"}]}, "bad", "Failed: Python 3.12.1 with torch 2.11.0."),
        ({"matrix": [GREEN, {**GREEN, "outcome": "not offered"}]}, "open", "Not run: Python 3.12.1 with torch 2.11.0."),
        ({"matrix": []}, "open", "All checks passed. Not run: the matrix."),
        ({"checks": []}, "open", "No results of checks were given."),
    ],
)
def test_a_page_is_green_only_if_everything_was_run_and_passed(
    page: Page, change: dict[str, Any], mark: str, said: str
) -> None:
    changed = replace(page, **change)

    assert changed.status[0] == mark
    assert changed.status[1].endswith(said)
    assert f'<p class="status {mark}">' in page_html(changed)


def test_nothing_in_a_wheel_can_write_html(page: Page) -> None:
    attack = '<script>alert(1)</script>"><img src=x onerror=y>'
    row = {"python": attack, "torch": attack, "cuda": attack, "outcome": attack, "said": attack}
    component = {"name": attack, "version": attack, "licenses": [{"license": attack}], "hashes": [{"content": attack}]}
    hostile = replace(
        page, wheel=attack, damage=[attack], members=[(attack, 1, 2)], matrix=[row],
        sbom={"components": [component, 7, {"licenses": 1}]},
        checks=[{"name": attack, "passed": False, "said": attack}],
    )  # fmt: skip

    reader = Reader(page_html(hostile))

    assert not reader.elements & {"script", "img"}
    assert reader.text.count("alert(1)") >= 10


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"name": "a"}]', '[{"name": "a", "passed": "yes", "said": ""}]'])
def test_results_of_another_kind_are_refused(text: str) -> None:
    with pytest.raises(IncompatibleArtifactError, match=r"results\.json cannot be shown"):
        read_results(text, "results.json")


@pytest.mark.parametrize("text", ["", "[]", '{"rows": [1]}', '{"rows": [{"python": "3.12"}]}'])
def test_a_matrix_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(IncompatibleArtifactError, match=r"matrix\.json cannot be shown"):
        read_matrix(text, "matrix.json", "a" * 64)


def test_a_matrix_of_another_wheel_is_refused() -> None:
    text = json.dumps({"wheel": WHEEL, "sha256": "b" * 64, "rows": [GREEN]})

    assert read_matrix(text, "matrix.json", "b" * 64) == [GREEN]
    with pytest.raises(IncompatibleArtifactError, match=r"matrix\.json is about another wheel"):
        read_matrix(text, "matrix.json", "a" * 64)


def test_a_command_writes_the_page_of_any_wheel(
    cpu_wheel: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["page", str(cpu_wheel.file), "-o", str(tmp_path / "page.html")]) == 0

    text = Reader((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert cpu_wheel.file.name in text
    assert "libstdc++" in text
    assert "No results of checks were given." in text

    assert main(["page", str(cpu_wheel.file), "-o", str(tmp_path / "no" / "page.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err
