"""One identity: an option that is added to the registry, and nowhere else, tells kernels with one value from others."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
from editables import REQUIRE, SMALL, make_editable
from folders import BACKEND, HELPERS
from processes import RunPython

OPTION = """    cxx_std: Option[str] = Option(
        str.strip, takes="a release of C++", default="17", decides="content", help="The standard of C++."
    )
"""
PURE = """
import sys
from pathlib import Path
from kernelwheel.compiler.work_folder import work_name
from kernelwheel.runtime.machine import host
from kernelwheel.runtime.artifact.compatible import Wanted, check
from kernelwheel.reference import options_table
from kernelwheel.store.content_changes import differences
from kernelwheel.cli.manifest_text import settings_text
from kernelwheel.compiler.taken_libraries import NOTHING, find_taken
from samples import sample
from standins import make_machine, settings_with, toolchain_of_files

machine = make_machine(Path(sys.argv[1]))
was, now = machine.draw().to_json(), machine.draw(cxx_std="20").to_json()
assert {part for part in was if was[part] != now[part]} == {"content"}
assert machine.draw().fingerprint != machine.draw(cxx_std="20").fingerprint
assert work_name(was) != work_name(now), "the folder that it is compiled in"

manifest = sample(platform=was["target"]["platform"], options=was["content"]["options"])
manifest = manifest._replace(requires=manifest.requires._replace(platform=was["target"]["platform"]))
wanted = Wanted("1.2.3", {**manifest.content, "options": now["content"]["options"]})
found = [m for m in check(manifest, host.probe(), wanted) if m.dimension == "options"]
assert ["17" in m.found and "20" in m.required for m in found] == [True], "finding"

tools = toolchain_of_files(Path(sys.argv[1]), nvcc="13.2.86")
assert all(find_taken(manifest, manifest.content, tools))
assert find_taken(manifest, wanted.content, tools) == NOTHING, "taking a wheel's libraries"

assert differences(was, now) == {"content.options.cxx-std": "17 -> 20"}, "cache explain"
assert "cxx-std = 20 (-C cxx_std)" in settings_text(settings_with(cxx_std="20").record("9.0")), "inspect"
assert "| `cxx-std` | `TINY_CXX_STD` |" in options_table("tiny"), "docs/settings.md"
"""


@pytest.fixture
def backend(tmp_path: Path) -> Path:
    """A copy of the backend with one option more in the registry, and no other line changed."""
    copied = shutil.copytree(BACKEND, tmp_path / "backend", ignore=shutil.ignore_patterns("__pycache__"))
    registry = copied / "kernelwheel/runtime/settings.py"
    before = "    trusted_owners: Option"
    registry.write_text(registry.read_text().replace(before, f"{OPTION}\n{before}"))
    return copied


def test_everything_that_asks_which_kernels_these_are_notices(
    backend: Path, tmp_path: Path, run_with_torch: RunPython
) -> None:
    run_with_torch(PURE, tmp_path / "machine", path=[backend, HELPERS])


@pytest.mark.minutes
@pytest.mark.slow
def test_a_checkout_does_not_load_kernels_that_were_compiled_with_another_value(backend: Path, tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    editable = make_editable(tmp_path / "user", SMALL)
    runtime = editable.checkout / "tiny" / "_kernelwheel"
    runtime.unlink()
    runtime.symlink_to(backend / "kernelwheel" / "runtime")

    path = os.pathsep.join(map(str, (backend, editable.checkout)))  # where it finds what compiles
    python = partial(editable.python, REQUIRE, PYTHONPATH=path)

    first = python().stdout
    again = python(TINY_CXX_STD="17", TINY_GLIBC="2.28")
    others = [python(**change).stdout for change in ({"TINY_CXX_STD": "20"}, {"TINY_GLIBC": "2.31"})]

    assert (again.stdout, again.stderr) == (first, "")
    assert len({first, *others}) == 3
