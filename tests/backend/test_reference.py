"""What a package may set, as `python -m kernelwheel.reference` prints it, and the site has it."""

from __future__ import annotations

from pathlib import Path

import kernelwheel
from kernelwheel.project.build_settings import REGISTRY
from kernelwheel.project.extension import KEYS
from kernelwheel.project.package import FACTS
from kernelwheel.reference import options_table, tables
from processes import RunPython

BACKEND = Path(kernelwheel.__path__[0]).parent


def test_every_option_and_key_is_printed(run_python: RunPython) -> None:
    script = "import runpy; runpy.run_module('kernelwheel.reference', run_name='__main__')"

    printed = run_python(script, "splat", path=[BACKEND]).stdout

    assert all(table in printed for table in tables("splat").values())
    assert [each.name for each in (*REGISTRY, *FACTS, *KEYS) if f"\n| `{each.name}` | " not in printed] == []


def test_what_takes_several_values_or_is_for_cuda_kernels_alone_says_so() -> None:
    rows = dict(zip(REGISTRY, options_table("splat").splitlines()[2:], strict=True))

    assert [each.name for each in REGISTRY if (", or several |" in rows[each]) != (each.separator is not None)] == []
    assert [each.name for each in REGISTRY if ("For CUDA kernels only." in rows[each]) != each.cuda_only] == []


def test_a_package_s_own_variables_have_its_name() -> None:
    assert "`MY_KERNELS_CACHE_DIR`" in options_table("my-kernels")
    assert "SPLAT_" not in options_table("my-kernels")
