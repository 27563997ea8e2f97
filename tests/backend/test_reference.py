"""docs/settings.md matches the registries of options and keys."""

from __future__ import annotations

from pathlib import Path

import kernelwheel
from kernelwheel.project.build_settings import REGISTRY
from kernelwheel.reference import keys_table, options_table
from processes import RunPython

BACKEND = Path(kernelwheel.__path__[0]).parent
PAGE = BACKEND.parent / "docs" / "settings.md"
RENEW = "PYTHONPATH=backend python -m kernelwheel.reference splat docs/settings.md"


def test_the_page_in_docs_has_what_the_registries_give() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert options_table("splat") in text, f"renew it: {RENEW}"
    assert keys_table() in text
    several = next(line for line in text.splitlines() if line.startswith("These options take several values"))
    assert [
        option.name for option in REGISTRY if (f"`{option.name}`" in several) != (option.separator is not None)
    ] == []
    off = text.partition("- With `cuda` off,")[2].partition("\n  Their")[0]
    assert [option.name for option in REGISTRY if (f"`{option.name}`" in off) != option.cuda_only] == []


def test_the_page_says_how_its_tables_are_renewed(tmp_path: Path, run_python: RunPython) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (tmp_path / "page").write_text(page.replace("Extra options", "Old options"), encoding="utf-8")
    script = "import runpy, sys; runpy.run_module('kernelwheel.reference', run_name='__main__')"

    run_python(script, "splat", str(tmp_path / "page"), path=[BACKEND])

    assert (tmp_path / "page").read_text(encoding="utf-8") == page
    assert RENEW in page


def test_a_package_s_own_variables_have_its_name() -> None:
    assert "`MY_KERNELS_CACHE_DIR`" in options_table("my-kernels")
    assert "SPLAT_" not in options_table("my-kernels")
