"""A toolkit that a distribution has spread over the system's folders is one like any other, put together of links."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from folders import BACKEND
from kernelwheel.compiler.toolchain.nvcc import NvccCandidate
from kernelwheel.compiler.toolchain.toolkit import Nvcc
from kernelwheel.compiler.toolchain.toolkit_identity import toolkit_identity
from processes import RunPython
from standins import inspect_beside, make_distro_toolkit, make_program, make_toolkit


def inspect(nvcc: Path, path: Path | None = None) -> NvccCandidate:
    """The nvcc, with a folder on PATH before the system's."""
    environ = {"PATH": os.pathsep.join([*([str(path)] if path else []), os.environ["PATH"]])}
    return inspect_beside("12.8", nvcc, environ)


@pytest.fixture
def nvcc(tmp_path: Path) -> Path:
    return make_distro_toolkit(tmp_path / "usr")


def found(nvcc: Path, path: Path | None = None) -> Nvcc:
    whole = inspect(nvcc, path).nvcc
    assert whole is not None
    return whole


def test_it_is_usable_and_has_every_part_and_of_the_system_s_headers_its_own_alone(nvcc: Path) -> None:
    whole = found(nvcc)

    assert whole.version == "12.4.131"
    assert whole.cudart is not None
    for name in ("bin/nvcc", "bin/ptxas", "bin/fatbinary", "bin/cuobjdump", "nvvm/bin/cicc", "bin/cicc"):
        assert os.access(whole.root / name, os.X_OK), name
    assert (whole.root / "nvvm/libdevice/libdevice.10.bc").is_file()
    assert [(whole.include / name).is_file() for name in ("cuda_runtime.h", "crt/host_config.h")] == [True, True]
    assert not (whole.include / "stdlib.h").exists()


def test_it_is_identified_by_the_content_of_its_own_parts_whatever_is_on_path(nvcc: Path, tmp_path: Path) -> None:
    other = make_toolkit(tmp_path / "other", "13.0.88")
    make_program(other / "bin/ptxas", "echo another")

    before = toolkit_identity(found(nvcc, other / "bin"))
    make_program(nvcc.with_name("ptxas"), "echo ptxas of another version")
    changed = toolkit_identity(found(nvcc, other / "bin"))

    assert toolkit_identity(found(nvcc)) == changed
    assert {part for part in before if before[part] != changed[part]} == {"nvcc"}


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("lib/x86_64-linux-gnu/libcudart_static.a", "lacks libcudart_static.a (of cudart)"),
        ("lib/nvidia-cuda-toolkit/bin/cicc", "lacks cicc (of nvvm)"),
        ("include/nv/target", "lacks nv/target (of cccl)"),
    ],
)
def test_what_it_lacks_is_named(nvcc: Path, part: str, said: str) -> None:
    (nvcc.parents[1] / part).unlink()

    candidate = inspect(nvcc)

    assert candidate.nvcc is None
    assert candidate.outcome.endswith(said)


def test_nothing_is_put_together_where_others_could_replace_it(
    nvcc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    assert "the temporary folder is not safe" in inspect(nvcc).outcome
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_links_are_gone_when_the_process_ends(nvcc: Path, tmp_path: Path, run_python: RunPython) -> None:
    script = """
import os, sys
from pathlib import Path
from kernelwheel.compiler.toolchain.nvcc import NvccSearch, inspect_nvcc
from kernelwheel.compiler.toolchain.torch_files import Torch
from kernelwheel.project.build_settings import BuildSettings
torch, settings = Torch(Path("/nowhere/torch"), "2.13.0", "12.8", None), BuildSettings.resolve("tiny", {}, {})
found = inspect_nvcc("PATH", sys.argv[1], NvccSearch(settings, torch, os.environ)).nvcc
assert os.listdir(found.root), found
print(found.root)
"""
    folder = Path(run_python(script, nvcc, path=[BACKEND]).stdout.strip())

    assert folder.name.startswith("kernelwheel-toolkit-")
    assert not folder.exists()


def test_an_nvcc_below_a_folder_with_a_colon_is_passed_over(tmp_path: Path) -> None:
    """It joins its own folders with PATH: those of somebody else would have its cicc, or the host's compiler."""
    odd = tmp_path / "a:b"
    for nvcc in (make_distro_toolkit(odd / "usr"), make_toolkit(odd / "cuda", "12.4.131") / "bin/nvcc"):
        (link := tmp_path / f"{nvcc.parents[1].name}-nvcc").symlink_to(nvcc)

        for place in (nvcc, link):
            candidate = inspect(place)
            assert candidate.nvcc is None
            assert candidate.outcome == f"in a folder with a colon in its name, which nvcc takes for two: {nvcc}"


def test_no_toolkit_is_put_together_in_a_temporary_folder_with_a_colon(
    nvcc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a:b").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a:b"))

    candidate = inspect(nvcc)

    assert candidate.nvcc is None
    assert (
        f"cannot be put together (folders cannot be handed on to other programs: {tmp_path}/a:b)" in candidate.outcome
    )
