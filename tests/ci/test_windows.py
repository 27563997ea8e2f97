"""The wheel for Windows, run: it loads there, nothing takes its place, and it gives the same numbers as on Linux.

There is no Windows: CPython and torch's own wheel for it run under Wine. `ci/windows` brings them, by pip, into the
folder that SPLAT_TEST_WINDOWS names; ci/test does so where Wine is installed.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from builds import for_another_platform
from folders import HELPERS, REPOSITORY
from kernelwheel.compiler.binary_inspect import library_at
from PIL import Image
from processes import run
from programs import CLANG, CUDA_12

import splat
from splat.scene.formats import read_scene

FOLDER = os.environ.get("SPLAT_TEST_WINDOWS", "")
pytestmark = for_another_platform(FOLDER, "SPLAT_TEST_WINDOWS names no folder made by ci/windows, which needs Wine")
Found = dict[str, dict[str, Any]]


def windows_path(path: Path) -> str:
    """A path as Wine calls it."""
    return f"Z:{path}".replace("/", "\\")


def build_wheel(folder: Path) -> Path:
    """Build this checkout's wheel for Windows, with CUDA kernels where something compiles them."""
    options = {"platform": "windows-x86_64"}
    env = {"XDG_CACHE_HOME": str(folder / "cache"), "ZIG_GLOBAL_CACHE_DIR": os.environ["ZIG_GLOBAL_CACHE_DIR"]}
    if CLANG and CUDA_12:
        options |= {"cuda": "on", "drivers": "12.0", "archs": "8.0", "target-packages": f"{CUDA_12}/windows"}
        env["PYTHONPATH"] = CUDA_12
    words = [word for name, value in options.items() for word in ("-C", f"{name}={value}")]
    words += ["--no-build-isolation", "--no-deps", "-w", str(folder), str(REPOSITORY)]
    run([sys.executable, "-m", "pip", "wheel", *words], cwd=folder, env=env, limit=1500)
    (wheel,) = folder.glob("*-py3-none-win_amd64.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for Windows that SPLAT_TEST_WINDOWS_WHEEL names, or else this checkout's."""
    return Path(os.environ.get("SPLAT_TEST_WINDOWS_WHEEL") or build_wheel(tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def package(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, installed."""
    folder = tmp_path_factory.mktemp("windows")
    words = ["--platform=win_amd64", "--python-version=3.12", "--only-binary=:all:", "--no-deps", "--no-index"]
    target = folder / "installed"
    run([sys.executable, "-m", "pip", "install", *words, "--target", target, wheel], cwd=folder)
    return target


@pytest.fixture(scope="module")
def work(package: Path) -> Path:
    """The folder that the program under Wine works in, with a stand-in for torch_cuda.dll if a library needs one."""
    folder = package.with_name("work")
    folder.mkdir()
    if libraries := [*(package / "splat/_native").glob("splat_cuda*.dll")]:
        used = sorted({name for library in libraries for name in library_at(library).used()})
        names = [name for name in used if re.search("cuda.*stream|c10_cuda", name)]
        source = "".join(f"__declspec(dllexport) void {name}(void) {{}}\n" for name in names)
        (folder / "torch_cuda.c").write_text(f"int DllMainCRTStartup(void) {{ return 1; }}\n{source}", encoding="ascii")
        words = ["cc", "-target", "x86_64-windows-gnu", "-shared", "-nostdlib", "-o", "torch_cuda.dll", "torch_cuda.c"]
        run([sys.executable, "-m", "ziglang", *words], cwd=folder)
    return folder


@pytest.fixture(scope="module")
def on_windows(package: Path, work: Path) -> Found:
    """What each check of windows_program found."""
    machine = json.loads((Path(FOLDER) / "machine.json").read_text(encoding="utf-8"))
    words = map(windows_path, (HELPERS / "windows_program.py", work, Path(splat.__file__).parents[1]))
    env = {**machine["environment"], "PYTHONPATH": windows_path(package)}
    done = run(["timeout", "-k", "9", "900", *machine["python"], *words], cwd=work, env=env, limit=920)
    print(done.stderr)
    found: Found = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def of(found: Found, check: str) -> dict[str, Any]:
    """What one check found; fails with its traceback."""
    if "failed" in found[check]:
        pytest.fail(found[check]["failed"])
    return found[check]


def parts(error: str) -> dict[str, str]:
    """The parts of an error, by their labels."""
    first, *lines = error.splitlines()
    found, label = {"problem": first}, "problem"
    for line in lines:
        label = line[:12].strip(" :") or label
        found[label] = f"{found[label]}\n{line[13:]}" if label in found else line[13:]
    return found


def test_it_fits_and_is_loaded_at_import(on_windows: Found) -> None:
    loader = of(on_windows, "loader")

    assert loader["platform"] == loader["host"]["platform"] == "windows-x86_64"
    assert (loader["verdict"], loader["mismatches"], loader["damage"]) == ([], [], None)
    assert [*loader["loaded"]] == ["cpu"]
    assert loader["loaded"]["cpu"].endswith(r"installed\splat\_native")


def test_nothing_takes_the_place_of_a_library_that_is_loaded(on_windows: Found) -> None:
    exchanges = of(on_windows, "exchanges")

    assert {*exchanges} == {"write", "remove", "rename", "replace"}
    assert [way for way, error in exchanges.items() if not error.startswith("PermissionError: ")] == []


def test_a_library_that_is_not_the_wheel_s_own_is_not_loaded(on_windows: Found) -> None:
    refusals = of(on_windows, "refusals")

    for name in ("damaged", "missing"):
        assert refusals[name].startswith("IncompatibleArtifactError: the compiled kernels are damaged\n"), name
    busy = parts(refusals["busy"])
    assert busy["problem"] == "UnreadableArtifactError: the compiled kernels cannot be read"
    assert busy["to fix"] == "close the program that has it open for writing, and try again"


def test_what_would_have_to_be_compiled_says_that_nothing_is_and_what_to_do(on_windows: Found) -> None:
    refusals = of(on_windows, "refusals")

    for name, wanted, there in (
        ("foreign", "linux-x86_64 (platform)", "windows-x86_64"),
        ("always", "jit is always (environment variable SPLAT_JIT)", "the wheel's kernels"),
    ):
        error = parts(refusals[name])
        assert error["problem"] == "IncompatibleArtifactError: splat has no CPU kernels for this machine"
        assert wanted in error["required"]
        *versions, found, last = error["found"].splitlines()  # of a release without a tag, which names its commit
        assert (found, last) == (there, "windows-x86_64, on which no kernels are compiled")
        assert all(line.startswith("kernels of version ") for line in versions)
        assert error["to fix"].splitlines()[-1] == "use Linux, for example in WSL"


def test_errors_of_operators_are_caught_and_optional_arguments_freed_a_thousand_times(on_windows: Found) -> None:
    caught = of(on_windows, "caught_errors")

    assert len(caught["said"]) == 1
    assert "degree" in caught["said"][0]
    assert caught["sums"] == 1


def test_it_draws_and_differentiates_as_on_linux_to_the_last_bit(on_windows: Found, tmp_path: Path) -> None:
    sets = ["baseline", "avx2", "avx512"]
    done = run([sys.executable, HELPERS / "drawn_digests.py", *sets], cwd=tmp_path)

    here = json.loads(done.stdout.strip().splitlines()[-1])["digests"]

    assert "baseline" in here
    assert of(on_windows, "draw") == here


def test_the_cuda_library_registers_the_same_operators_as_on_linux(
    on_windows: Found, package: Path, tmp_path: Path
) -> None:
    """Beside a stand-in for the library of torch for CUDA, with NVIDIA's own CUDA runtime linked in; no kernel runs."""
    if not (package / "splat/_native/splat_cuda.dll").is_file():
        pytest.skip("no CUDA kernels in the wheel: no clang-19, or SPLAT_TEST_CUDA12 names no folder with CUDA 12.9")
    script = """if True:
        import sys, torch
        for library in sys.argv[1:]:
            torch.ops.load_library(library)
        names = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
        print(*sorted(name for name in names if name.startswith("splat::")))"""
    libraries = (Path(splat.__file__).parent / "_native").glob("libsplat_cuda*.so")

    here = run([sys.executable, "-c", script, *libraries], cwd=tmp_path).stdout.split()

    assert len(here) > 5
    assert of(on_windows, "cuda")["registered"] == here


def test_commands_work_in_a_folder_that_the_output_s_encoding_cannot_name(on_windows: Found, work: Path) -> None:
    commands = of(on_windows, "commands")

    files = commands.pop("files")
    statuses = {name: status for name, (status, _) in commands.items()}
    assert statuses == {**dict.fromkeys(commands, 0), "cache": 1}
    assert all(said.count(r"work\\u0416 ü\scene") == 1 for name, (_, said) in commands.items() if name[0] == ".")
    assert {"frames/00000.png", "frames/00001.png", "scene.cameras.json", "scene.html"} < {*files}
    cache = parts(commands["cache"][1])
    assert cache["problem"] == "splat: kernels cannot be built on windows-x86_64, nor kept in a cache"
    assert "WSL" in cache["to fix"]
    assert "fits this machine" in commands["doctor"][1]
    folder = work / "Ж ü"
    scenes = [read_scene(folder / f"scene{ending}") for ending in (".ply", ".spz", ".sog", ".splat", ".compressed.ply")]
    assert {len(scene) for scene in scenes} == {len(scenes[0])}


def test_render_draws_the_same_picture_as_on_linux(on_windows: Found, work: Path, tmp_path: Path) -> None:
    of(on_windows, "commands")
    run([sys.executable, "-P", "-m", "splat", "render", "-o", "knot.png", "--size", "64x48"], cwd=tmp_path)

    here, there = (np.asarray(Image.open(folder / "knot.png")) for folder in (tmp_path, work / "Ж ü"))

    assert here.std() > 0
    assert np.array_equal(here, there)


def test_photographs_with_the_line_ends_of_windows_are_fitted(on_windows: Found) -> None:
    status, said = of(on_windows, "photograph_folder")["fit"]

    assert (status, said.split(",")[0]) == (0, "300 Gaussians from 8 pictures of 40x30")


def test_files_that_a_command_writes_are_locked(on_windows: Found) -> None:
    locks = of(on_windows, "locks")

    assert f"found that process {locks['process']} on " in locks["second"]
    assert locks["left"] == []


def test_no_name_in_a_file_leads_to_a_drive_or_another_machine(on_windows: Found) -> None:
    names = of(on_windows, "names")

    assert len(names) == 21
    assert [name for name, found in names.items() if not found.startswith(("SceneError: ", "none"))] == []


def test_the_viewer_serves_its_page_and_sees_that_a_port_is_in_use(on_windows: Found) -> None:
    viewer = of(on_windows, "viewer")

    assert viewer["used"].startswith("ViewError: a free port is required, found ")
    assert "<!doctype html>" in viewer["page"].lower()


@pytest.mark.parametrize(
    ("name", "other", "failed"),
    [
        (b"", b"", ""),
        (b"torch_cpu.dll", b"torch_xpu.dll", "imports, in place of auditwheel"),
        (b"aoti_torch_check\0", b"aoti_torch_chess\0", "imports, in place of torch-abi-audit"),
        (b"torch_call_dispatcher\0", b"other_call_dispatcher\0", "imports, in place of torch-abi-audit"),
    ],
)
def test_a_release_is_refused_if_its_libraries_import_what_they_must_not(
    release: ModuleType, wheel: Path, tmp_path: Path, name: bytes, other: bytes, failed: str
) -> None:
    changed = tmp_path / wheel.name
    with ZipFile(wheel) as archive, ZipFile(changed, "w") as copy:
        for each in archive.namelist():
            copy.writestr(each, archive.read(each).replace(name, other) if name else archive.read(each))

    checks = release.check_windows(changed)

    assert [check.name for check in checks if not check.passed] == ([failed] if failed else [])
