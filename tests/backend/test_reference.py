"""docs/settings.md matches the registry of options."""

from __future__ import annotations

from pathlib import Path

import kernelwheel
from kernelwheel import reference
from kernelwheel.project.build_settings import REGISTRY
from kernelwheel.project.extension import KEYS
from processes import RunPython

BACKEND = Path(kernelwheel.__path__[0]).parent
PAGE = BACKEND.parent / "docs" / "settings.md"
REMADE = "PYTHONPATH=backend python -m kernelwheel.reference splat > docs/settings.md"


def test_the_page_in_docs_is_what_the_registry_gives() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference.settings_page("splat"), f"regenerate it: {REMADE}"


def test_the_page_says_how_it_is_made_again(run_python: RunPython) -> None:
    script = (
        "import runpy, sys\nsys.argv[1:] = ['splat']\nrunpy.run_module('kernelwheel.reference', run_name='__main__')"
    )

    assert REMADE in PAGE.read_text(encoding="utf-8")
    assert run_python(script, path=[BACKEND]).stdout == PAGE.read_text(encoding="utf-8")


def test_every_option_has_a_line_with_its_variable_default_and_what_it_takes() -> None:
    lines = reference.settings_page("my-kernels").splitlines()

    for option in REGISTRY:
        (line,) = (line for line in lines if line.startswith(f"| `{option.name}` | `"))
        assert line.split(" | ")[1] == f"`{option.variable('my-kernels')}`"
        assert all(word in line for word in (option.help, option.takes, option.default))
    rows = [line for line in lines if line.startswith("| `")]
    assert len(rows) == len(REGISTRY) + len(KEYS)


def test_a_package_s_own_variables_have_its_name() -> None:
    assert "`MY_KERNELS_CACHE_DIR`" in reference.settings_page("my-kernels")
    assert "SPLAT_" not in reference.settings_page("my-kernels")
