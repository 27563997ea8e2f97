"""The Python that modules for another platform are built for: what is read of it, and what is refused."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest
from kernelwheel.compiler.cross.target_python import DATA, MOST_BYTES, read_python
from kernelwheel.project import build_platforms
from kernelwheel.runtime.errors import BuildError
from kernelwheel.runtime.host import python_abi
from kernelwheel.runtime.platforms import platform_name
from standins import make_target_python

pytestmark = pytest.mark.once
AARCH64 = build_platforms.PLATFORMS["linux-aarch64"]


def refusal(root: Path) -> BuildError:
    with pytest.raises(BuildError) as caught:
        read_python(root, AARCH64)
    return caught.value


def test_its_abi_and_its_headers_are_read_from_files(tmp_path: Path) -> None:
    make_target_python(tmp_path)

    found = read_python(tmp_path, AARCH64)

    assert (found.abi, found.soabi) == ("cp312", "cpython-312-aarch64-linux-gnu")
    assert found.include == (tmp_path / "include/python3.12",)


@pytest.mark.skipif(
    len(list(Path(sys.base_prefix).glob(DATA))) != 1, reason="this Python is not the only one in its folder"
)
def test_of_a_real_one_it_reads_what_that_one_says() -> None:
    found = read_python(Path(sys.base_prefix), build_platforms.PLATFORMS[platform_name()])

    assert (found.abi, found.soabi) == (python_abi(), sysconfig.get_config_var("SOABI"))
    assert str(found.include[0]) == sysconfig.get_path("include", vars={"installed_base": sys.base_prefix})


def test_one_without_the_gil_has_an_abi_of_its_own(tmp_path: Path) -> None:
    make_target_python(tmp_path, version="3.13", flags="t")

    found = read_python(tmp_path, AARCH64)

    assert (found.abi, found.include) == ("cp313t", (tmp_path / "include/python3.13t",))


def test_debian_s_header_of_the_machine_is_reached_from_the_folder_above(tmp_path: Path) -> None:
    make_target_python(tmp_path, debian=True)

    assert read_python(tmp_path, AARCH64).include == (tmp_path / "include/python3.12", tmp_path / "include")

    (tmp_path / "include/aarch64-linux-gnu/python3.12/pyconfig.h").unlink()
    assert "not both in" in refusal(tmp_path).found


def test_this_machine_s_python_beside_it_and_a_second_name_of_it_do_no_harm(tmp_path: Path) -> None:
    data = make_target_python(tmp_path)
    make_target_python(tmp_path, machine="x86_64-pc-linux-gnu")
    data.with_name("_sysconfigdata__linux_aarch64-linux-gnu.py").symlink_to(data)

    assert read_python(tmp_path, AARCH64).abi == "cp312"


def test_a_folder_without_one_is_refused_with_what_is_there(tmp_path: Path) -> None:
    assert refusal(tmp_path).found == f"no {DATA}"

    data = make_target_python(tmp_path, machine="x86_64-pc-linux-gnu")

    caught = refusal(tmp_path)
    assert caught.found == f"{data}: Python 3.12 for x86_64-pc-linux-gnu"
    assert "-C target-python=DIR" in caught.remedies[1]


def test_one_of_musl_is_refused(tmp_path: Path) -> None:
    make_target_python(tmp_path, machine="aarch64-unknown-linux-musl")

    assert "for aarch64-unknown-linux-musl" in refusal(tmp_path).found


def test_two_are_refused(tmp_path: Path) -> None:
    make_target_python(tmp_path)
    make_target_python(tmp_path, version="3.11")

    assert refusal(tmp_path).found == "python3.11\npython3.12"


@pytest.mark.parametrize("lacking", ["Python.h", "pyconfig.h"])
def test_one_without_headers_is_refused_with_the_package_that_has_them(tmp_path: Path, lacking: str) -> None:
    make_target_python(tmp_path)
    (tmp_path / "include/python3.12" / lacking).unlink()

    caught = refusal(tmp_path)

    assert caught.required.startswith("Python.h and pyconfig.h of python3.12")
    assert "libpython3.12-dev" in caught.remedies[0]


@pytest.mark.parametrize(
    "text",
    [
        "build_time_vars = {" + "[" * 5000 + "]" * 5000 + ": 1}",
        "build_time_vars = {[]: 1}",
        "build_time_vars = {'VERSION': open('/etc/passwd').read()}",
        "build_time_vars = {'VERSION': '3.12/../../..', 'ABIFLAGS': '', 'HOST_GNU_TYPE': 'aarch64-linux-gnu'}",
        "\0",
        "#" * (MOST_BYTES + 1),
    ],
    ids=["deep", "unhashable", "a call", "no version", "no text", "large"],
)
def test_a_file_that_is_not_what_python_wrote_is_neither_run_nor_believed(tmp_path: Path, text: str) -> None:
    data = make_target_python(tmp_path)
    data.write_text(text, encoding="utf-8")

    assert refusal(tmp_path).found == f"{data}: cannot be read, or describes no Python 3"


def test_a_file_that_never_ends_is_not_opened(tmp_path: Path) -> None:
    data = make_target_python(tmp_path)
    data.unlink()
    os.mkfifo(data)

    assert "cannot be read" in refusal(tmp_path).found
