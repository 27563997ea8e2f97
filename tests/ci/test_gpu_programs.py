"""What ci/gpu starts, as far as no GPU is needed: the sanitizers, ncu, the table of kernels, the folder it is given."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import gpu_counters
import gpu_pack
import gpu_sanitizer
import pytest
from gpu_names import short_name
from gpu_pack import Refused
from gpu_rows import SKIPPED, Rows, read_rows


def program(file: Path, script: str) -> str:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


# Rows


def test_a_row_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    Rows(file).add({"scene": "garden", "splat: ms": "1"}, {"scene": "other", "splat: ms": "1"})
    file.write_text(file.read_text()[:-5])

    assert [row["scene"] for row in read_rows(file)] == ["garden"]


# compute-sanitizer

FORMS = ["sh", "-c", "echo dense", "forms"]
SMALL = ["sh", "-c", "echo 2.0"]
WORKS = 'echo "========= COMPUTE-SANITIZER"; "$@"; echo "========= ERROR SUMMARY: 0 errors"'
FINDS = """case "$*" in *forms*) "$@"; echo "========= Invalid __global__ read of size 4 bytes"; exit 9;; esac; "$@" """
FAILS = 'echo "========= COMPUTE-SANITIZER"; echo "========= Error: Device not supported"; exit 1'


def sanitize(tmp_path: Path, script: str) -> int:
    """With a compute-sanitizer of our own."""
    return gpu_sanitizer.check([program(tmp_path / "sanitizer", script)], FORMS, SMALL)


def test_a_finding_is_a_failure(tmp_path: Path) -> None:
    assert sanitize(tmp_path, WORKS) == 0
    assert sanitize(tmp_path, FINDS) == 1


def test_a_sanitizer_that_works_with_no_program_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sanitize(tmp_path, FAILS) == SKIPPED
    assert capsys.readouterr().out.splitlines()[-1] == (
        "skipped: compute-sanitizer does not work here: Error: Device not supported"
    )


def test_a_program_that_fails_on_its_own_is_a_failure(tmp_path: Path) -> None:
    tool = program(tmp_path / "sanitizer", '"$@"')

    assert gpu_sanitizer.check([tool], ["sh", "-c", "exit 1"], SMALL) == 1


# ncu

CSV = """==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","1","void splat::kernels::rasterize<3>(float const*, int)","gpu__time_duration.sum","ns","512,000"
"0","1","void splat::kernels::rasterize<3>(float const*, int)","smsp__inst_executed.sum","inst","241,000,000"
"1","1","void gsplat::rasterize_to_pixels_3dgs_fwd_kernel<3u, float>(int)","gpu__time_duration.sum","ns","720,000"
"1","1","void gsplat::rasterize_to_pixels_3dgs_fwd_kernel<3u, float>(int)","lts__t_sectors_op_red.sum","sector","n/a"
==PROF== Disconnected"""


def test_what_ncu_prints_is_a_row_for_each_kernel() -> None:
    ours, theirs = gpu_counters.parse(CSV)

    assert (ours["kernel"], ours["us"], ours["M instructions"]) == ("rasterize<3>", "512", "241")
    assert theirs["kernel"] == "rasterize_to_pixels_3dgs_fwd_kernel<3u, float>"
    assert (theirs["us"], theirs["M instructions"], theirs["M sectors of atomics"]) == ("720", "-", "-")
    assert list(ours) == list(theirs)


def test_metrics_that_a_gpu_does_not_know_are_left_out(tmp_path: Path) -> None:
    script = f"""case "$*" in *dram*) echo "==ERROR== Failed to find metric dram__bytes.sum" >&2; exit 1;; esac
cat <<'END'
{CSV}
END"""
    text = gpu_counters.count(program(tmp_path / "ncu", script), ["true"], list(gpu_counters.METRICS))

    assert len(gpu_counters.parse(text)) == 2


def test_an_ncu_that_may_not_count_says_why() -> None:
    words = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access performance counters."

    assert gpu_counters.parse(words) == []
    assert gpu_counters.why_nothing(words).startswith("ERR_NVGPUCTRPERM")


# Names


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void splat::kernels::rasterize<3>(float const*, int)", "rasterize<3>"),
        ("splat::kernels::count_tiles(splat::IntersectInputs, int*)", "count_tiles"),
        ("void (anonymous namespace)::differentiate<4, true>(int)", "differentiate<4, true>"),
        ("void at::native::elementwise_kernel<4, at::native::add(int)::{lambda(int)#1}>(int)", "elementwise_kernel"),
        (
            "void cub::CUB_300_SM_900::detail::radix_sort::DeviceRadixSortOnesweepKernel<P, 1>(int)",
            "DeviceRadixSortOnesweepKernel",
        ),
        ("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH (Device -> Pinned)"),
    ],
)
def test_kernels_have_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


# The folder for the other machine


def scenes(folder: Path) -> Path:
    folder.mkdir()
    for name in gpu_pack.SCENES:
        (folder / name).write_bytes(b"scene")
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip brings one wheel."""
    monkeypatch.setattr(gpu_pack, "download", lambda folder, version: (folder / "numpy-2-x.whl").write_bytes(b"numpy"))


@pytest.mark.usefixtures("offline")
def test_a_packed_folder_has_wheels_scenes_and_counts_and_is_packed_anew(tmp_path: Path) -> None:
    wheel, counts, folder = tmp_path / "splat_kernels-1.whl", tmp_path / "c.json", tmp_path / "pack"
    wheel.write_bytes(b"wheel")
    counts.write_text("[]")
    for given in (counts, None):
        wheel = folder / wheel.name if given is None else wheel  # from the folder itself
        gpu_pack.make(folder, [wheel], "3.12", [scenes(tmp_path / f"scenes of {given and given.name}")], given)
        found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        packed = ["numpy-2-x.whl", "scenes/bulba.ply", "scenes/test_garden.npz", "splat_kernels-1.whl"]
        assert found == [*(["counts.json"] if given else []), *packed]


@pytest.mark.usefixtures("offline")
def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "thesis.tex").touch()

    with pytest.raises(Refused, match=r"found: .* with thesis\.tex"):
        gpu_pack.make(tmp_path / "pack", [], "3.12", [scenes(tmp_path / "scenes")], None)

    assert (tmp_path / "pack" / "thesis.tex").exists()


def test_without_scenes_nothing_is_packed(tmp_path: Path) -> None:
    (scenes(tmp_path / "scenes") / "bulba.ply").unlink()

    with pytest.raises(
        Refused, match=r"required: test_garden.npz and bulba.ply; found: no bulba.ply in .*SPLAT_TEST_SCENES"
    ):
        gpu_pack.make(tmp_path / "pack", [], "3.12", [tmp_path / "scenes"], None)

    assert not (tmp_path / "pack").exists()


def test_a_folder_that_is_too_large_to_carry_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "large.whl").write_bytes(b"0" * 2000)

    gpu_pack.check_size(tmp_path, 2001)
    with pytest.raises(Refused, match=r"most of it large\.whl"):
        gpu_pack.check_size(tmp_path, 2000)


@pytest.mark.usefixtures("offline")
def test_what_is_too_large_is_not_packed(tmp_path: Path) -> None:
    wheel = tmp_path / "splat_kernels-1.whl"
    wheel.touch()
    os.truncate(wheel, gpu_pack.LIMIT)  # no blocks

    with pytest.raises(Refused, match=r"required: less than 48 MiB"):
        gpu_pack.make(tmp_path / "pack", [wheel], "3.12", [scenes(tmp_path / "scenes")], None)

    assert not (tmp_path / "pack").exists()


def test_only_what_a_machine_lacks_is_installed() -> None:
    names = ["splat_kernels-0.1.0-py3.whl", "numpy-2.5-cp312.whl", "markdown_it_py-4-py3.whl", "gsplat-1.5.3-py3.whl"]
    wheels = [Path(name) for name in names]

    assert gpu_pack.wheels_to_install(wheels, {"numpy", "markdown_it"}) == [wheels[0], wheels[3]]
    assert gpu_pack.wheels_to_install(wheels, set()) == wheels
