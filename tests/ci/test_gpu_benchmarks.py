"""The benchmarks of ci/gpu on a CPU, and what they make of times and counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpu_forms
import gpu_kernels
import gpu_rates
import gpu_scenes
import gpu_times
import pytest
import torch
from gpu_kernels import Count, Kernel
from gpu_rates import Rates
from gpu_rows import Rows, read_rows

import splat

pytestmark = [pytest.mark.slow]
SCENE = "tiny"


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {SCENE: lambda: gpu_scenes.synthetic(200, 40, 30, "cpu")}
    for module in (gpu_times, gpu_kernels):
        monkeypatch.setattr(module, "scenes", lambda device: made)


def test_every_form_and_direction_is_a_row(tmp_path: Path) -> None:
    gpu_times.main("cpu", 1, Rows(tmp_path / "rows"))

    rows = read_rows(tmp_path / "rows")
    assert [(row["form"], row["direction"]) for row in rows] == [
        (form, direction) for form in gpu_scenes.FORMS for direction in gpu_times.DIRECTIONS
    ]
    assert all(float(row["splat: ms"]) > 0 and float(row["splat: CPU"]) >= 0 for row in rows)
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate"), gpu_times.OUT_OF_MEMORY),
        (RuntimeError("an illegal memory access was encountered"), gpu_times.FAILED),
    ],
)
def test_a_package_that_fails_is_said_and_the_other_is_measured(error: RuntimeError, word: str) -> None:
    def fail(**arguments: object) -> Any:
        raise error

    rivals: dict[str, gpu_scenes.Rasterization] = {"splat": splat.rasterization, "gsplat": fail}
    scene = gpu_scenes.synthetic(50, 20, 20, "cpu")
    found = gpu_times.measure(rivals, lambda rasterization: gpu_scenes.render(rasterization, scene), 2, "cpu")
    row = gpu_times.cells(found)

    assert row["gsplat: ms"] == word
    assert float(row["splat: ms"]) > 0
    assert row["gsplat / splat"] == "-"


def test_both_packages_have_medians_and_a_ratio() -> None:
    ours, theirs = ([gpu_times.Took(k * ms, 2, 3, 4) for ms in (9.0, 1.0, 2.0)] for k in (1, 3))

    row = gpu_times.cells({"splat": ours, "gsplat": theirs})

    assert (row["splat: ms"], row["gsplat: ms"], row["gsplat / splat"]) == ("2.000", "6.000", "3.00")


def test_every_form_runs_once(tmp_path: Path) -> None:
    gpu_forms.main("cpu", Rows(tmp_path / "rows"))

    forms = [row["form"] for row in read_rows(tmp_path / "rows")]
    assert len(forms) == len(set(forms)) == 12


def test_rates_are_kept_for_the_floors(tmp_path: Path) -> None:
    assert gpu_rates.read_rates(tmp_path / "rates") is None

    gpu_rates.main("cpu", Rows(tmp_path / "rates"))
    measured = gpu_rates.read_rates(tmp_path / "rates")
    assert measured is not None
    assert measured.copy > 0

    Rows(tmp_path / "gpu").add(gpu_rates.row("H100", 3e12, 132, 1.755e9, "2.1"))
    assert gpu_rates.read_rates(tmp_path / "gpu") == Rates(3e12, 132 * 4 * 1.755e9)


def test_a_profile_becomes_a_table_of_kernels_beside_their_floors() -> None:
    labels = {"scene": "garden, 1920x1080", "direction": "backward", "package": "splat"}
    kernels = [
        Kernel("void splat::kernels::differentiate<3, false>(float*)", 5, 5 * 700.0),
        Kernel("void splat::kernels::project_backward<false>(float*)", 5, 5 * 20.0),
        Kernel("void splat::kernels::project_backward<false>(double*)", 5, 5 * 30.0),
        Kernel("Memset (Device)", 10, 5 * 1.0),
    ]
    counts = [
        Count("garden", "splat", "differentiate", bytes=300, instructions=3_500_000),
        Count("garden", "splat", "project_backward<false>", bytes=100_000, direction="backward"),
        Count("garden", "splat", "project_backward<false>", bytes=7_000_000, direction="forward"),
        Count("garden", "gsplat", "differentiate", bytes=7_000_000),
        Count("garden, 960x540", "splat", "differentiate", bytes=7_000_000),
    ]

    rows = gpu_kernels.rows_of(kernels, 5, labels, Rates(copy=1e10, issue=1e10), counts)

    assert [row | labels == row for row in rows] == [True] * 4
    shown = [(row["kernel"], row["launches"], row["us"], row["floor, us"], row["time / floor"]) for row in rows]
    assert shown == [
        ("differentiate<3, false>", "1", "700.0", "350.0", "2.00"),
        ("project_backward<false>", "2", "50.0", "10.0", "5.00"),
        ("Memset (Device)", "2", "1.0", "-", "-"),
        ("all", "5", "751.0", "360.0", "2.09"),
    ]
    for rates, known in ((None, counts), (Rates(1e10, 1e10), [])):
        assert {row["floor, us"] for row in gpu_kernels.rows_of(kernels, 5, labels, rates, known)} == {"-"}


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_profiles_say_that_floors_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_kernels.main("cpu", Rows(tmp_path / "rows"), None, []) == 0

    assert "without floors: no rates and no counts" in capsys.readouterr().out
    rows = read_rows(tmp_path / "rows")
    assert {(row["direction"], row["kernel"]) for row in rows} >= {
        ("forward", "rasterize"),
        ("forward", "all"),
        ("backward", "rasterize_backward"),
        ("backward", "all"),
    }


def test_counts_are_read_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    named = {"scene": "garden", "direction": "forward", "package": "splat", "kernel": "project", "bytes": 5}
    file.write_text(json.dumps([named]))

    assert gpu_kernels.read_counts(file) == [Count(**named)]  # type: ignore[arg-type]
    assert gpu_kernels.read_counts(tmp_path / "none") == []
    for wrong in ('[{"scene": "garden"}]', "[", '{"scene": 1}'):
        file.write_text(wrong)
        with pytest.raises(SystemExit, match="required: a JSON list"):
            gpu_kernels.read_counts(file)
