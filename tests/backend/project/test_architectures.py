"""CUDA architectures: how lists are parsed, which are the default, and which GPUs run which code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernelwheel.project import arch_choice
from kernelwheel.project.arch_choice import ArchList, from_code
from kernelwheel.runtime.errors import SettingsError
from kernelwheel.runtime.machine.host import Arch
from standins import GPU_CODES


def supported(release: str) -> list[Arch]:
    return [from_code(code) for code in GPU_CODES[release].split()]


def names(listed: tuple[Arch, ...]) -> list[str]:
    return [str(arch) for arch in listed]


@pytest.mark.parametrize(
    ("text", "sass", "ptx"),
    [
        ("7.5;8.0+PTX", "7.5 8.0", "8.0"), ("  8.0 ;  9.0+PTX ", "8.0 9.0", "9.0"), ("12.0f+PTX", "12.0f", "12.0f"),
        ("12.0;7.5;9.0", "7.5 9.0 12.0", ""), ("8.0;8.0+PTX;8.0", "8.0", "8.0"),
        ("Ampere;Hopper", "8.0 8.6 9.0", "8.6 9.0"), ("Ampere+Tegra", "8.7", ""),
    ],
)  # fmt: skip
def test_a_list_is_read_as_torch_reads_it(text: str, sass: str, ptx: str) -> None:
    read = arch_choice.parse(text, "a test")

    assert (names(read.sass), names(read.ptx)) == (sass.split(), ptx.split())


@pytest.mark.parametrize("bad", ["80", "sm_80", "8.0+ptx", "8.0b", "8.0a+PTX+PTX", "native", "8.00"])
def test_an_item_that_is_no_architecture_is_named_with_the_list_and_its_origin(bad: str) -> None:
    with pytest.raises(SettingsError) as caught:
        arch_choice.parse(f"7.5;{bad}", "environment variable TORCH_CUDA_ARCH_LIST")

    assert repr(bad) in caught.value.problem
    assert f"7.5;{bad}" in caught.value.found
    assert "TORCH_CUDA_ARCH_LIST" in caught.value.found


@pytest.mark.parametrize(("bad", "near"), [("Amper", "Ampere"), ("Hoper", "Hopper"), ("8..6", "8.6")])
def test_a_misspelled_item_names_its_nearest_neighbour(bad: str, near: str) -> None:
    with pytest.raises(SettingsError, match=f"did you mean {near}"):
        arch_choice.parse(bad, "a test")


@pytest.mark.parametrize("bad", ["all", "all-major", "native", "sm_90"])
def test_what_is_no_misspelling_is_not_taken_for_one(bad: str) -> None:
    with pytest.raises(SettingsError) as caught:
        arch_choice.parse(bad, "a test")

    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "  ", ";"])
def test_an_empty_list_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        arch_choice.parse(text, "a test")


ARCHES = st.builds(Arch, st.integers(5, 12), st.integers(0, 9), st.sampled_from(["", "a", "f"]))


@given(st.lists(ARCHES, min_size=1, unique=True), st.data())
def test_a_list_survives_being_written_and_read_again(sass: list[Arch], data: st.DataObject) -> None:
    ptx = data.draw(st.lists(st.sampled_from(sass), unique=True))
    wanted = ArchList(tuple(sorted(sass)), tuple(sorted(ptx)))

    assert arch_choice.parse(str(wanted), "a test") == wanted


@pytest.mark.parametrize(
    ("release", "expected"),
    [("11.8", "7.5;8.0;9.0+PTX"), ("12.8", "7.5;8.0;9.0;10.0;12.0+PTX"), ("13.2", "7.5;8.0;9.0;10.0;11.0;12.0+PTX")],
)
def test_the_default_list_is_one_architecture_per_generation_and_the_newest_ptx(release: str, expected: str) -> None:
    assert str(arch_choice.default(supported(release))) == expected


def test_the_default_list_does_not_depend_on_the_order_in_which_nvcc_lists_it() -> None:
    assert arch_choice.default(reversed(supported("13.0"))) == arch_choice.default(supported("13.0"))


def test_the_default_list_leaves_out_architectures_with_a_suffix() -> None:
    listed = [*supported("12.4"), Arch(9, 0, "a"), Arch(10, 0, "f")]

    assert arch_choice.default(listed) == arch_choice.default(supported("12.4"))


# Every GPU generation that the default list of a release is for, by compute capability. Tegra chips other than 11.0,
# a generation of its own, need a list that names them.
GPUS = {
    "12.8": [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)],
    "13.0": [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)],
}


@pytest.mark.parametrize(("release", "gpu"), [(release, gpu) for release, gpus in GPUS.items() for gpu in gpus])
def test_the_default_list_has_sass_for_every_gpu_of_its_generations(release: str, gpu: tuple[int, int]) -> None:
    assert any(arch.sass_runs_on(gpu) for arch in arch_choice.default(supported(release)).sass)


def test_the_default_list_serves_gpus_to_come_by_ptx() -> None:
    assert any(arch.ptx_runs_on((13, 0)) for arch in arch_choice.default(supported("13.0")).ptx)


def test_an_architecture_that_the_nvcc_does_not_list_is_refused_with_what_it_does_list() -> None:
    wanted = arch_choice.parse("7.0;8.0+PTX", "environment variable TORCH_CUDA_ARCH_LIST")

    with pytest.raises(SettingsError) as caught:
        arch_choice.check_supported(wanted, supported("13.0"), "13.0.88", "environment variable TORCH_CUDA_ARCH_LIST")

    assert "7.0" in caught.value.problem
    assert "8.0" not in caught.value.problem
    assert "13.0.88" in caught.value.problem
    assert "7.5 8.0 8.6" in caught.value.found
    assert 'TORCH_CUDA_ARCH_LIST="8.0+PTX"' in caught.value.remedies[0]


def test_without_any_that_is_left_the_remedy_is_the_default() -> None:
    with pytest.raises(SettingsError) as caught:
        arch_choice.check_supported(arch_choice.parse("7.0", "a test"), supported("13.0"), "13.0", "a test")

    assert caught.value.remedies[0].startswith("omit the list")


def test_a_refused_list_of_which_nothing_would_be_left_is_not_mended_by_an_empty_list() -> None:
    with pytest.raises(SettingsError) as caught:
        arch_choice.check_supported(arch_choice.parse("7.0", "a test"), supported("13.0"), "13.0.88", "a test")

    assert 'TORCH_CUDA_ARCH_LIST=""' not in str(caught.value)


@pytest.mark.parametrize("text", ["9.0a", "10.0f", "12.0a+PTX"])
def test_an_architecture_with_a_suffix_is_supported_where_its_base_is(text: str) -> None:
    arch_choice.check_supported(arch_choice.parse(text, "a test"), supported("13.0"), "13.0.88", "a test")


@pytest.mark.parametrize(
    ("arch", "gpu", "runs"),
    [
        ("8.0", (8, 9), True), ("8.6", (8, 0), False), ("8.9", (9, 0), False), ("10.0a", (10, 3), False),
        ("10.0f", (10, 3), True), ("10.3f", (10, 0), False), ("10.0f", (12, 0), False), ("8.0", (8, 7), False),
        ("8.6", (8, 7), False), ("8.7", (8, 9), False), ("8.7", (8, 7), True), ("10.0", (11, 0), False),
    ],
)  # fmt: skip
def test_sass_runs_on_its_generation_from_its_revision_on(arch: str, gpu: tuple[int, int], runs: bool) -> None:
    assert Arch.from_string(arch).sass_runs_on(gpu) is runs


@pytest.mark.parametrize(
    ("arch", "gpu", "runs"),
    [
        ("7.5", (12, 0), True), ("8.0", (7, 5), False), ("8.0", (8, 7), True), ("8.7", (9, 0), True),
        ("9.0a", (10, 0), False), ("9.0a", (8, 0), False), ("10.0f", (10, 3), True), ("10.0f", (12, 0), False),
    ],
)  # fmt: skip
def test_ptx_runs_on_every_later_gpu_unless_a_suffix_binds_it(arch: str, gpu: tuple[int, int], runs: bool) -> None:
    assert Arch.from_string(arch).ptx_runs_on(gpu) is runs


def test_gencode_asks_for_sass_of_each_and_ptx_of_those_marked() -> None:
    assert arch_choice.gencode(arch_choice.parse("7.5;9.0a;12.0f+PTX", "a test")) == [
        "-gencode=arch=compute_75,code=sm_75",
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_120f,code=sm_120f",
        "-gencode=arch=compute_120f,code=compute_120f",
    ]


@pytest.mark.parametrize("spelling", ["sm_90a", "compute_90a", "90a"])
def test_an_architecture_is_the_same_in_every_spelling_of_nvcc(spelling: str) -> None:
    assert from_code(spelling) == Arch.from_string("9.0a")


def test_architectures_of_two_digits_are_not_mistaken_for_older_ones() -> None:
    assert from_code("sm_120") == Arch(12, 0)
    assert Arch(9, 0) < Arch(12, 0)
