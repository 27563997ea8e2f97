"""`doctor`: what it finds in a broken environment, and its page on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from builds import TORCH, needs_cuda_torch
from kept import fill, kernels_of, relabel
from kernelwheel.cli import doctor
from kernelwheel.cli import installation as installations
from kernelwheel.cli.entry_text import entry_text
from kernelwheel.runtime import Kernels
from kernelwheel.runtime.decision.snapshot import InstalledPackage
from kernelwheel.runtime.errors import REINSTALL
from kernelwheel.runtime.store.store import Store

# What breaks an environment

KERNELS = ("tiny/__init__.py", "tiny/_native/manifest.json")


def add(packages: Path, name: str) -> Path:
    """A package in a folder of packages."""
    folder = packages / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    return folder


def record(packages: Path, distribution: str, files: Sequence[str] = KERNELS) -> Path:
    """The install record of a distribution, `NAME-VERSION`."""
    folder = packages / f"{distribution}.dist-info"
    folder.mkdir()
    name, _, version = distribution.partition("-")
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in (f"{folder.name}/METADATA", *files)))
    return folder / "RECORD"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of packages with tiny and torch."""
    packages = tmp_path / "env"
    add(packages, "torch")
    (add(packages, "tiny") / "_native").mkdir()
    (packages / "tiny/_native/libtiny_cpu.so").touch()
    record(packages, "tiny_kernels-1.2.3")
    record(packages, "tiny_tools-9", ["tiny_tools/__init__.py"])
    return packages


def look(packages: Path, folder: Path | None = None, path: Sequence[str] = ()) -> list[str]:
    package = InstalledPackage("tiny", "1.2.3", (folder or packages / "tiny") / "_native", {})
    found = installations.look(package, packages / "torch", path or ["/usr/lib/python312.zip", str(packages)])
    return [f"{each.what}: {each.found}; {each.remedy}" for each in found]


def test_a_whole_environment_has_no_finding(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(packages)

    assert look(packages) == []
    assert look(packages, path=[str(tmp_path / "link"), str(packages)]) == []


def test_an_editable_install_has_the_kernels_of_its_checkout(packages: Path) -> None:
    shutil.rmtree(packages / "tiny_kernels-1.2.3.dist-info")
    record(packages, "tiny_kernels-1.2.3", ["_tiny_kernelwheel.pth", "_tiny_kernelwheel/__init__.py"])

    assert look(packages) == []


def test_files_that_are_no_longer_as_they_were_installed_are_found(packages: Path) -> None:
    name = "tiny/_native/src/twice.cpp"
    path = packages / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("as installed")
    digest = urlsafe_b64encode(hashlib.sha256(b"as installed").digest()).decode().rstrip("=")
    with (packages / "tiny_kernels-1.2.3.dist-info/RECORD").open("a") as rows:
        rows.write(f"{name},sha256={digest},12\n")
    assert look(packages) == []

    path.write_text("now edited..")
    edited = look(packages)
    path.unlink()
    missing = look(packages)

    assert edited == [
        f"files were changed since they were installed: {name}: its sha256 does not match RECORD; {REINSTALL}"
    ]
    assert f"{name}: FileNotFoundError" in missing[0]


def test_two_installs_are_found(packages: Path, tmp_path: Path) -> None:
    other = add(tmp_path / "other", "torch")

    (found,) = look(packages, path=[str(other.parent), str(packages), str(packages)])

    assert found.startswith("torch is installed more than once")
    assert str(other) in found


def test_a_checkout_beside_an_install_is_two_installs(packages: Path, tmp_path: Path) -> None:
    """An editable install is imported from the checkout, which may not be on sys.path."""
    (tmp_path / "checkout/tiny").mkdir(parents=True)

    (found,) = look(packages, folder=tmp_path / "checkout/tiny")

    assert str(packages / "tiny") in found


def damaged_record(packages: Path) -> None:
    with (packages / "tiny_kernels-1.2.3.dist-info/RECORD").open("a") as rows:
        rows.write("tiny/_native/libtiny_cpu.so,crc=1,1\n")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda packages: record(packages, "tiny_kernels-1.2.2"), ["install records of 1.2.2, 1.2.3"]),
        (
            lambda packages: record(packages, "tiny-0.9", ["tiny/__init__.py", "tiny/stars.py"]),
            ["another distribution has files of tiny: tiny 0.9", "pip uninstall tiny"],
        ),
        (damaged_record, ["the install record is damaged: RECORD of tiny_kernels: the row "]),
    ],
)
def test_a_broken_environment_is_a_finding(packages: Path, spoil: Callable[[Path], object], says: list[str]) -> None:
    spoil(packages)
    (found,) = look(packages)

    assert [words for words in says if words not in found] == []


# The page, on this machine


@pytest.fixture
def examine(tiny_checkout: Path, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], str]]:
    """The values and page of `doctor` for an editable tiny on this machine, with extra environment variables."""

    def ask(kernels: Kernels | None = None, **environ: str) -> tuple[dict[str, Any], str]:
        kernels = kernels or kernels_of(tiny_checkout, tmp_path / "cache", **environ)
        view = doctor.examine(kernels, {**os.environ, **environ}, sys.path)
        return json.loads(json.dumps(view)), doctor.page(view, kernels)

    return ask


Examine = Callable[..., tuple[dict[str, Any], str]]


def prediction(view: Mapping[str, Any], device: str) -> dict[str, Any]:
    (found,) = [each for each in view["next"] if each["device"] == device]
    return dict(found)


def test_an_editable_install_on_a_machine_that_compiles_has_nothing_to_mend(examine: Examine) -> None:
    view, page = examine()

    assert view["findings"] == []
    assert prediction(view, "cpu")["outcome"] == "compile"
    assert f"torch     {TORCH.version}" in page
    assert "  CPU   compiles, then loads: no kernels are installed" in page
    assert page.endswith("No findings")
    assert page.count("\n") < 40
    if not TORCH.cuda:
        assert prediction(view, "cuda")["outcome"] == "fail"
        assert f"  CUDA  fails: torch {TORCH.version} has no CUDA" in page
        assert view["toolchain"]["candidates"] == []
    for part in ("cmake", "ninja", "cxx", "torch"):
        assert os.sep in view["toolchain"][part] or part == "ninja", view["toolchain"]


def test_the_page_shows_the_store_with_every_entry_s_verdict(examine: Examine, entry: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", "tiny", "1.2.3")
    fill(store, entry)
    relabel(store._replace(version="1.2.2"), entry)
    other = relabel(store._replace(version="1.2.1"), entry) / "manifest.json"
    other.write_text(json.dumps({**json.loads(other.read_text()), "schema": 2}))

    view, page = examine()

    assert view["findings"] == []
    (shown,) = view["stores"]
    assert [(each["version"], each["fits"]) for each in shown["entries"]] == [
        ("1.2.1", False),
        ("1.2.2", False),
        ("1.2.3", TORCH.cuda is None),
    ]
    assert prediction(view, "cpu")["artifact"] == str(store.root / entry.name)
    assert f"The store {tmp_path / 'cache'}\n  1.2.1  " in page
    assert "does not fit: version" in page
    assert "does not fit: schema" in page


def test_a_machine_without_a_compiler_is_a_finding_until_something_fits(
    examine: Examine, entry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    before, page = examine()
    fill(Store(tmp_path / "cache", "tiny", "1.2.3"), entry)
    after, _ = examine()

    assert prediction(before, "cpu")["outcome"] == "fail"
    assert [finding["what"] for finding in before["findings"]] == ["CPU calls fail"]
    assert "no C++ compiler" in before["findings"][0]["found"]
    assert "apt-get install g++" in page
    assert after["findings"] == []


def test_a_damaged_entry_is_a_finding_and_stays_for_verify(examine: Examine, entry: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", "tiny", "1.2.3")
    fill(store, entry)
    (store.root / entry.name / "libtiny_cpu.so").write_bytes(b"x")

    view, page = examine()

    assert [finding["what"] for finding in view["findings"]] == ["a damaged entry in the store"]
    assert "python -m tiny._kernelwheel cache verify" in page
    assert (store.root / entry.name).is_dir()


def test_the_page_shows_what_was_set_and_where(examine: Examine) -> None:
    environ = {"LD_PRELOAD": "/x.so", "NVCC_PREPEND_FLAGS": "-ccbin /usr/bin/g++"}
    view, page = examine(TINY_JIT="always", CXXFLAGS="-DA='x y' -g", **environ)

    assert view["variables"]["LD_PRELOAD"] == "/x.so"
    assert "  LD_PRELOAD " in page
    # and what compilers do not see of it, as a build says
    assert "NVCC_PREPEND_FLAGS has no effect here; CXX has, or the option cxx" in page

    assert view["settings"]["jit"] == {"value": "always", "origin": "environment variable TINY_JIT"}
    assert view["settings"]["archs"] == {"value": "", "origin": "default"}
    assert "cxx-flags = '-DA=x y' -g (environment variable CXXFLAGS)" in page
    assert "jit = always (environment variable TINY_JIT)" in page


def test_a_setting_that_cannot_be_read_does_not_hide_the_rest(examine: Examine) -> None:
    view, page = examine(TINY_JIT="sometimes")

    assert "option 'jit' cannot be 'sometimes'" in view["findings"][0]["what"]
    assert TORCH.version in page
    assert prediction(view, "cpu")["outcome"] == "fail"


def test_folders_that_others_can_change_are_findings_before_anything_is_in_them(
    examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("shared", "tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    view, page = examine(TINY_CACHE_DIR=str(tmp_path / "shared" / "cache"), TINY_CACHE_PATH=str(tmp_path / "none"))

    assert [finding["what"] for finding in view["findings"][:2]] == [
        f"the store of compiled kernels is not safe: {tmp_path / 'shared'}",
        f"the temporary folder is not safe: {tmp_path / 'tmp'}",
    ]
    assert f"chmod go-w {tmp_path / 'tmp'}" in page
    (tmp_path / "tmp").chmod(0o1777)  # as /tmp is
    assert "temporary folder" not in examine()[1]


@needs_cuda_torch
def test_every_nvcc_that_was_looked_at_is_named_with_its_outcome(examine: Examine, tmp_path: Path) -> None:
    view, page = examine(CUDA_HOME=str(tmp_path))

    candidates = view["toolchain"]["candidates"]
    assert candidates[0] == {
        "origin": "environment variable CUDA_HOME",
        "place": str(tmp_path / "bin" / "nvcc"),
        "outcome": "not found",
        "usable": False,
        "taken": False,
    }
    assert len(candidates) > 3
    assert [each["usable"] for each in candidates if each["taken"]] == [True]
    assert f"nvcc   environment variable CUDA_HOME: {tmp_path}/bin/nvcc: not found" in page


@pytest.mark.parametrize(
    ("devices", "said"), [(["cuda"], "fits CPU calls, not CUDA's: driver"), (["cpu", "cuda"], "does not fit: driver")]
)
def test_an_entry_that_a_cpu_call_loads_is_not_said_to_fit_nowhere(devices: Sequence[str], said: str) -> None:
    view = {
        "version": "1", "fingerprint": "0" * 64, "size": 1, "made": "2026-01-01T00:00:00+00:00", "damage": None,
        "unread": None, "kernels": None, "fits": False,
        "mismatches": [{"dimension": "driver", "device": device} for device in devices],
    }  # fmt: skip

    assert entry_text(view).endswith(f"  {said}")
