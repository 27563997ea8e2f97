"""`doctor`: what it finds in a broken environment, and whether it predicts the next call correctly."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from builds import TORCH, needs_cpu_torch, needs_cuda_torch
from kept import fill, kernels_of, relabel
from kernelwheel.cli import doctor
from kernelwheel.cli import installation as installations
from kernelwheel.cli.installation import Installation
from kernelwheel.compiler import tools
from kernelwheel.runtime import Kernels, compiler_process
from kernelwheel.runtime.errors import REINSTALL
from kernelwheel.runtime.manifest import Library
from kernelwheel.runtime.presentation import entry_text
from kernelwheel.runtime.store import Store
from patched_compiler import patched_compiler
from processes import RunPython
from samples import sample

MANIFEST = sample(Library("libtiny_cpu.so", "0" * 64, 1, "cpu"))

# The prediction compared with what a call really does, in a separate process


PREDICT = """
import json, os, sys
from pathlib import Path
from kernelwheel.cli import doctor
from kernelwheel.runtime.errors import KernelWheelError
from kernelwheel.runtime import Kernels, compiler_process
kernels = Kernels("tiny", "1.2.3", Path(sys.argv[1]))
(expected,) = [each for each in doctor.examine(kernels, os.environ, sys.path)["next"] if each["device"] == "cpu"]
calls = []
from kernelwheel.runtime import compiler_process
real = compiler_process.ask
compiler_process.ask = lambda *words: calls.append(1) or real(*words)
try:
    kernels.require("cpu")
    happened = "compile" if calls else "load"
except KernelWheelError as error:
    happened = "fail"
print(json.dumps([expected["outcome"], happened, expected["artifact"], kernels.info()["loaded"].get("cpu")]))
"""
Prepare = Callable[[Path, Path], Mapping[str, str]]


def empty(cache: Path, entry: Path) -> Mapping[str, str]:
    return {}


def with_entry(cache: Path, entry: Path) -> Mapping[str, str]:
    fill(Store(cache, "tiny", "1.2.3"), entry)
    return {}


def never(cache: Path, entry: Path) -> Mapping[str, str]:
    return {"TINY_JIT": "never"}


def never_with_entry(cache: Path, entry: Path) -> Mapping[str, str]:
    return {**with_entry(cache, entry), "TINY_JIT": "never"}


def no_compiler(cache: Path, entry: Path) -> Mapping[str, str]:
    return {"PATH": str(cache.parent)}


def bad_setting(cache: Path, entry: Path) -> Mapping[str, str]:
    return {"TINY_JIT": "sometimes"}


def unsafe(cache: Path, entry: Path) -> Mapping[str, str]:
    with_entry(cache, entry)
    (cache / "tiny" / "1.2.3").chmod(0o777)
    return {}


def damaged(cache: Path, entry: Path) -> Mapping[str, str]:
    with_entry(cache, entry)
    (cache / "tiny" / "1.2.3" / entry.name / "manifest.json").write_text("{}")
    return {}


@pytest.mark.once
@pytest.mark.parametrize(
    ("prepare", "outcome"),
    [
        (empty, "compile"),
        (with_entry, "load"),
        (never, "fail"),
        (never_with_entry, "load"),
        (no_compiler, "fail"),
        (bad_setting, "fail"),
        (unsafe, "fail"),
        (damaged, "compile"),
    ],
)
def test_a_call_does_what_was_prediction(
    tiny_checkout: Path, entry: Path, tmp_path: Path, run_with_torch: RunPython, prepare: Prepare, outcome: str
) -> None:
    cache = tmp_path / "cache"
    environ = {"TINY_CACHE_DIR": str(cache), **prepare(cache, entry)}
    backend = Path(doctor.__file__).parents[2]

    done = run_with_torch(PREDICT, tiny_checkout / "tiny" / "_native", path=[backend], env=environ)
    expected, happened, artifact, loaded = json.loads(done.stdout)

    assert (expected, happened) == (outcome, outcome)
    if outcome == "load":
        assert artifact == loaded == str(cache / "tiny" / "1.2.3" / entry.name)


# What breaks an environment


@dataclass
class Site:
    """An environment that contains the files of tiny and torch."""

    prefix: Path

    @property
    def packages(self) -> Path:
        return self.prefix / "lib" / "python3.12" / "site-packages"

    def add(self, name: str) -> Path:
        folder = self.packages / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        return folder


KERNELS = ("tiny/__init__.py", "tiny/_native/manifest.json")


def record(folder: Path, files: Sequence[str] = KERNELS) -> None:
    """The install record of a distribution."""
    name, _, version = folder.name.removesuffix(".dist-info").partition("-")
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in (f"{folder.name}/METADATA", *files)))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path / "env")
    site.add("torch")
    (site.add("tiny") / "_native").mkdir()
    record(site.packages / "tiny_kernels-1.2.3.dist-info")
    record(site.packages / "tiny_tools-9.dist-info", ["tiny_tools/__init__.py"])
    (site.packages / "tiny" / "_native" / "libtiny_cpu.so").touch()
    return site


def installation(site: Site, **changes: Any) -> Installation:
    usual = Installation(
        package="tiny",
        version="1.2.3",
        folder=site.packages / "tiny",
        manifest=MANIFEST,
        torch=site.packages / "torch",
        path=["/usr/lib/python312.zip", str(site.packages)],
        prefixes=(site.prefix, Path("/usr")),
    )
    return replace(usual, **changes)


def look(found: Installation, environ: Mapping[str, str] | None = None) -> list[str]:
    return [f"{each.what}: {each.found}; {each.remedy}" for each in installations.look(found, environ or {})]


def test_a_whole_environment_has_no_finding(site: Site) -> None:
    (site.packages / "torch" / "lib").mkdir()
    (site.packages / "torch" / "lib" / "libc10.so").touch()
    assert look(installation(site), {"LD_LIBRARY_PATH": f"{site.packages}/torch/lib:/usr/lib:", "PATH": "/bin"}) == []


@pytest.mark.parametrize("name", ["tiny/_native/src/twice.cpp", "tiny_kernels-1.2.3.dist-info/sboms/tiny.cdx.json"])
def test_files_that_are_no_longer_as_they_were_installed_are_found(site: Site, name: str) -> None:
    path = site.packages / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("as installed")
    digest = urlsafe_b64encode(hashlib.sha256(b"as installed").digest()).decode().rstrip("=")
    with (site.packages / "tiny_kernels-1.2.3.dist-info/RECORD").open("a") as rows:
        rows.write(f"{name},sha256={digest},12\n")
    assert look(installation(site)) == []

    path.write_text("now edited..")
    edited = look(installation(site))
    path.unlink()
    missing = look(installation(site))

    assert edited == [
        f"files were changed since they were installed: {name}: its sha256 does not match RECORD; {REINSTALL}"
    ]
    assert f"{name}: FileNotFoundError" in missing[0]


def test_a_damaged_install_record_is_found(site: Site) -> None:
    with (site.packages / "tiny_kernels-1.2.3.dist-info/RECORD").open("a") as rows:
        rows.write("tiny/_native/libtiny_cpu.so,crc=1,1\n")

    (said,) = look(installation(site))

    assert said.startswith("the install record is damaged: RECORD of tiny_kernels: the row ")


@pytest.mark.parametrize("package", ["tiny", "torch"])
def test_two_installs_are_found(site: Site, tmp_path: Path, package: str) -> None:
    other = Site(tmp_path / "other").add(package)
    path = [str(other.parent), str(site.packages), str(site.packages)]

    (said,) = look(installation(site, path=path))

    assert said.startswith(f"{package} is installed more than once")
    assert str(other) in said


def test_one_install_reached_by_two_names_is_one(site: Site, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(site.packages)

    assert look(installation(site, path=[str(tmp_path / "link"), str(site.packages)])) == []


def test_a_checkout_beside_an_install_is_two_installs(site: Site, tmp_path: Path) -> None:
    """An editable install is imported from the checkout, which may not be on sys.path."""
    (tmp_path / "checkout" / "tiny").mkdir(parents=True)

    (said,) = look(installation(site, folder=tmp_path / "checkout" / "tiny", manifest=None))

    assert str(site.packages / "tiny") in said


def test_kernels_of_another_version_are_found(site: Site) -> None:
    (said,) = look(installation(site, manifest=MANIFEST._replace(version="1.2.2")))

    assert "tiny 1.2.3 with kernels of version 1.2.2" in said
    assert REINSTALL in said


def test_libraries_that_were_left_behind_are_found(site: Site) -> None:
    (site.packages / "tiny" / "_native" / "libtiny_old.so").touch()

    (said,) = look(installation(site))

    assert "libtiny_old.so" in said
    assert "libtiny_cpu.so" not in said


@pytest.mark.parametrize("name", ["tiny_kernels-1.2.2.dist-info", "tiny-1.2.3rc1.dist-info"])
def test_install_records_of_another_version_are_found(site: Site, name: str) -> None:
    record(site.packages / name)

    (said,) = look(installation(site))

    assert name.split("-")[1].removesuffix(".dist") in said


@pytest.mark.parametrize("files", [["tiny/__init__.py"], ["tiny/__init__.py", "tiny/stars.py"]])
def test_another_distribution_with_files_of_the_package_is_found(site: Site, files: list[str]) -> None:
    record(site.packages / "tiny-0.9.dist-info", files)

    (said,) = look(installation(site))

    assert "tiny 0.9" in said
    assert "pip uninstall tiny" in said


def test_an_editable_install_has_the_kernels_of_its_checkout(site: Site) -> None:
    shutil.rmtree(site.packages / "tiny_kernels-1.2.3.dist-info")
    record(site.packages / "tiny_kernels-1.2.3.dist-info", ["_tiny_kernelwheel.pth", "_tiny_kernelwheel/__init__.py"])

    assert list(look(installation(site))) == []


def test_an_environment_reached_through_a_link_is_the_same(site: Site, tmp_path: Path) -> None:
    """The package is a checkout; torch is in the environment."""
    link = tmp_path / "link"
    link.symlink_to(site.prefix)
    checkout = tmp_path / "checkout" / "tiny"
    checkout.mkdir(parents=True)

    assert list(look(installation(site, folder=checkout, path=[], prefixes=(link, Path("/usr"))))) == []


def test_a_torch_of_another_environment_is_found(site: Site, tmp_path: Path) -> None:
    shutil.rmtree(site.packages / "torch")
    other = Site(tmp_path / "other").add("torch")

    (said,) = look(installation(site, torch=other))

    assert said.startswith("torch is from another environment")
    assert str(site.prefix) in said
    assert str(tmp_path / "other") in said


def test_a_torch_of_the_python_under_a_virtual_environment_is_as_it_was_meant(site: Site, tmp_path: Path) -> None:
    shutil.rmtree(site.packages / "torch")
    base = Site(tmp_path / "base")

    assert look(installation(site, torch=base.add("torch"), prefixes=(site.prefix, base.prefix))) == []


def test_an_editable_package_is_of_the_environment_of_its_python(site: Site, tmp_path: Path) -> None:
    shutil.rmtree(site.packages / "tiny")
    editable = {"folder": tmp_path / "checkout" / "tiny", "manifest": None}

    assert look(installation(site, **editable)) == []
    assert len(look(installation(site, **editable, prefixes=(tmp_path / "another", Path("/usr"))))) == 1


def test_torch_libraries_on_the_loader_s_path_are_found(site: Site, tmp_path: Path) -> None:
    (tmp_path / "libtorch").mkdir()
    (tmp_path / "libtorch" / "libc10.so").touch()

    (said,) = look(installation(site), {"LD_LIBRARY_PATH": f"/usr/lib:{tmp_path / 'libtorch'}"})

    assert f"{tmp_path / 'libtorch'}: libc10.so" in said


def test_the_variables_that_change_something_are_listed() -> None:
    environ = {
        "TINY_JIT": "never",
        "TINY_CUDA": "",
        "TORCH_CUDA_ARCH_LIST": "8.0",
        "CXX": "g++-13",
        "LD_PRELOAD": "/x.so",
        "SPLAT_JIT": "never",
        "HOME": "/root",
    }

    assert installations.variables("tiny", environ) == {
        "TORCH_CUDA_ARCH_LIST": "8.0",
        "CXX": "g++-13",
        "TINY_JIT": "never",
        "LD_PRELOAD": "/x.so",
    }


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
    assert "  CPU          compiles, then loads: no kernels are installed" in page
    assert page.endswith("No findings")
    assert page.count("\n") < 40
    for part in ("cmake", "ninja", "cxx", "torch"):
        assert os.sep in view["toolchain"][part] or part == "ninja", view["toolchain"]


def test_the_page_shows_the_store_with_every_entry_s_verdict(examine: Examine, entry: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", "tiny", "1.2.3")
    fill(store, entry)
    relabel(store._replace(version="1.2.2"), entry)

    view, page = examine()

    (shown,) = view["stores"]
    assert [(each["version"], each["fits"]) for each in shown["entries"]] == [
        ("1.2.2", False),
        ("1.2.3", TORCH.cuda is None),
    ]
    assert prediction(view, "cpu")["artifact"] == str(store.root / entry.name)
    assert f"The store {tmp_path / 'cache'}\n  1.2.2  " in page
    assert "does not fit: version" in page


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


def test_a_damaged_wheel_is_a_finding(examine: Examine, entry: Path, tmp_path: Path, tiny_checkout: Path) -> None:
    native = tmp_path / "site" / "tiny" / "_native"
    shutil.copytree(entry, native)
    data = bytearray((native / "libtiny_cpu.so").read_bytes())
    data[100] ^= 1
    (native / "libtiny_cpu.so").write_bytes(data)

    view, page = examine(Kernels("tiny", "1.2.3", native, {"TINY_CACHE_DIR": str(tmp_path / "cache")}))

    assert "the compiled kernels are damaged" in [finding["what"] for finding in view["findings"]]
    assert "libtiny_cpu.so" in page
    assert "pip install --force-reinstall" in page


def test_a_damaged_entry_is_a_finding_and_stays_for_verify(examine: Examine, entry: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", "tiny", "1.2.3")
    fill(store, entry)
    (store.root / entry.name / "libtiny_cpu.so").write_bytes(b"x")

    view, page = examine()

    assert [finding["what"] for finding in view["findings"]] == ["a damaged entry in the store"]
    assert "python -m tiny._kernelwheel cache verify" in page
    assert (store.root / entry.name).is_dir()


def test_the_page_shows_what_was_set_and_where(examine: Examine) -> None:
    view, page = examine(TINY_JIT="always", CXXFLAGS="-DA='x y' -g")

    assert view["settings"]["jit"] == {"value": "always", "origin": "environment variable TINY_JIT"}
    assert view["settings"]["archs"] == {"value": "", "origin": "default"}
    assert "cxx-flags = '-DA=x y' -g (environment variable CXXFLAGS)" in page
    assert "jit = always (environment variable TINY_JIT)" in page


def test_a_setting_that_cannot_be_read_does_not_hide_the_rest(examine: Examine) -> None:
    view, page = examine(TINY_JIT="sometimes")

    assert "option 'jit' cannot be 'sometimes'" in view["findings"][0]["what"]
    assert view["variables"]["TINY_JIT"] == "sometimes"
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


def test_cmake_that_is_missing_stands_in_the_way_of_a_compile(
    examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = "import scikit_build_core.program_search as found; found.best_program = lambda *_, **__: None"
    program = patched_compiler(tmp_path, patch)
    monkeypatch.setattr(compiler_process, "program", lambda: program)

    view, _ = examine()

    assert prediction(view, "cpu")["outcome"] == "fail"
    assert "cmake missing" in prediction(view, "cpu")["because"]
    assert tools.INSTALL_TOOLS in prediction(view, "cpu")["remedies"]


@needs_cpu_torch
def test_cuda_calls_that_cannot_be_here_are_no_finding(examine: Examine) -> None:
    view, page = examine()

    assert prediction(view, "cuda")["outcome"] == "fail"
    assert f"  CUDA         fails: torch {TORCH.version} has no CUDA" in page
    assert view["toolchain"]["candidates"] == []


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


def test_an_entry_of_another_schema_does_not_fit_and_is_no_finding(
    examine: Examine, entry: Path, tmp_path: Path
) -> None:
    store = Store(tmp_path / "cache", "tiny", "1.2.2")
    folder = relabel(store, entry)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "schema": 1}))

    view, page = examine()

    assert view["findings"] == []
    assert "does not fit: schema" in page


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (["cuda"], "fits CPU calls, not CUDA's: driver"),
        (["cpu", "cuda"], "does not fit: driver"),
    ],
)
def test_an_entry_that_a_cpu_call_loads_is_not_said_to_fit_nowhere(devices: Sequence[str], said: str) -> None:
    view = {
        "version": "1", "fingerprint": "0" * 64, "size": 1, "made": "2026-01-01T00:00:00+00:00", "damage": None,
        "unread": None, "kernels": None, "fits": False,
        "mismatches": [{"dimension": "driver", "device": device} for device in devices],
    }  # fmt: skip

    assert entry_text(view).endswith(f"  {said}")
