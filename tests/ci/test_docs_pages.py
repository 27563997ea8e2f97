"""What ci/docs has in the site besides docs/, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_check import faults, public_names
from docs_tables import cmake_functions, manifest_fields
from folders import BACKEND, REPOSITORY
from kernelwheel.store.manifest_fields import PARTS
from samples import sample

CMAKE = (BACKEND / "kernelwheel/cmake/KernelWheel.cmake").read_text(encoding="utf-8")
# What needs no more words than its name, besides names that are any.
OF_ITSELF = {
    "plan.schema", "digests.content", "digests.tools", "digests.target", "built_with.kernelwheel", "built_with.cxx",
    "built_with.nvcc", "built_with.cccl", "built_with.ninja", "built_with.cuda.enabled", "built_with.cuda.because",
    "built_with.settings.*.value", "built_with.settings.*.origin",
}  # fmt: skip


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="b.html#there">', None), ('<a href="#here" id="here">', None), ('<a href="https://a.example">', None),
        ('<a href="c.html">', "a.html: c.html leads nowhere"), ('<img src="b.png">', "a.html: b.png leads nowhere"),
        ('<a href="b.html#gone">', "a.html: b.html#gone leads nowhere"),
        ('<a href="#gone">', "a.html: #gone leads nowhere"),
        ('<script src="https://a.example/x.js">', "a.html: fetches https://a.example/x.js"),
        ('<link href="//a.example/x.css">', "a.html: fetches //a.example/x.css"),
    ],
)  # fmt: skip
def test_a_link_that_leads_nowhere_and_what_is_fetched_are_faults(tmp_path: Path, page: str, fault: str | None) -> None:
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text('<p id="there">')

    assert faults(tmp_path, ["there"]) == ([fault] if fault else [])


def test_a_public_name_that_the_site_lacks_is_a_fault(tmp_path: Path) -> None:
    names = [*public_names(REPOSITORY)]
    (tmp_path / "a.html").write_text("".join(f'<p id="{name}">' for name in names if name != "splat.adam"))

    assert {"splat.rasterization", "kernelwheel.load", "kernelwheel.runtime.BuildError"} <= {*names}
    assert faults(tmp_path, names) == ["splat.adam is not in the reference"]


def test_cmake_s_functions_are_all_there_with_what_is_an_error() -> None:
    page = cmake_functions(CMAKE)
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    variables = sections.pop("Variables")

    assert set(sections) == set(
        re.findall(r"^function\((kernelwheel_add_\w+_(?:library|module)) ", CMAKE, re.MULTILINE)
    )
    assert all(f"{name}(<name> [CUDA] SOURCES" in text and "error" in text for name, text in sections.items())
    head = CMAKE.partition("include_guard")[0]
    assert set(re.findall(r"`(KERNELWHEEL_\w+)`", variables)) == set(re.findall(r"KERNELWHEEL_\w+", head))


def test_every_field_of_the_manifest_is_there_with_its_meaning() -> None:
    rows = {
        name: (value, meaning)
        for name, value, meaning in re.findall(r"^\| `(.*?)` \| (.*) \| (.*) \|$", manifest_fields(), re.MULTILINE)
    }
    values = sample().to_json()

    assert {*values, "digest"} == {name for name in rows if "." not in name}
    assert {f"requires.{name}" for name in values["requires"]} <= {*rows}
    assert {f"plan.{part}.{name}" for part in PARTS for name in values["plan"][part]} <= {*rows}
    assert {f"libraries.{name}" for name in values["libraries"][0]} <= {*rows}
    assert rows["requires.libc"][1].startswith("`glibc 2.34`")
    assert {name for name, (_, meaning) in rows.items() if not (meaning or name.endswith("*"))} == OF_ITSELF
