"""Builders that cannot build: each says what is wrong, and leaves the checkout and the user's store as they were."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from builds import TORCH, Wheel, build, call_hook, contents, needs_cuda_torch
from editables import build_compiler
from folders import REPOSITORY
from kernelwheel import requirements
from kernelwheel.compiler.toolchain.cuda import decide_cuda
from kernelwheel.compiler.toolchain.cxx import find_cxx
from kernelwheel.compiler.toolchain.nvcc import NvccSearch
from kernelwheel.project.package import read_toml
from kernelwheel.runtime.store.store import Store
from kernelwheel.store.inventory import find_damage, take_inventory
from packaging.requirements import Requirement
from processes import Done, after_mounting, clean_environment, processes_of, run
from standins import hide_packages, make_cxx, make_program, settings_with

Checkout = Callable[[], Path]


@dataclass
class Builder:
    """A machine to build on.

    Attributes:
        folder: all that belongs to it.
        checkout: of tiny.
        env: its environment; CPU kernels alone are built unless a test asks for more.
    """

    folder: Path
    checkout: Path
    env: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.temporary.mkdir()
        self.before = contents(self.checkout)
        own = {"TMPDIR": str(self.temporary), "XDG_CACHE_HOME": str(self.folder / "cache"), "TINY_CUDA": "off"}
        self.env = {**own, **self.env}

    @property
    def temporary(self) -> Path:
        """Its temporary folder."""
        return self.folder / "tmp"

    @property
    def builds(self) -> Path:
        """Where it compiles."""
        return Store(self.folder / "cache" / "kernelwheel", "tiny", "1.2.3").builds

    def attempt(self) -> Done:
        """A build, which may fail."""
        return call_hook(self.checkout, self.folder / "out", env=self.env)

    def refusal(self) -> str:
        """The error of the backend's that ends a build, from its first word to its last remedy."""
        done = self.attempt()
        said = done.stdout + done.stderr
        assert done.returncode == 1, said
        assert "Traceback" not in said
        self.assert_unharmed()
        (error,) = re.findall(r"kernelwheel\.runtime\.errors\.(\w+: .*?\n(?:  .*\n)+)", said)
        return str(error)

    def assert_unharmed(self, entries: int = 0) -> None:
        """The checkout is as it was, there is no wheel, and no entry in the store but whole ones, so many."""
        assert contents(self.checkout) == self.before
        assert list((self.folder / "out").glob("*")) == []
        kept = take_inventory(Store(self.folder / "cache" / "kernelwheel", "tiny", "1.2.3")).entries
        assert [find_damage(entry) for entry in kept] == [""] * entries
        assert len(list((self.folder / "cache").rglob("manifest.json"))) == entries


@pytest.fixture
def builder(checkout: Checkout, tmp_path: Path) -> Builder:
    """A builder on which nothing is wrong yet."""
    return Builder(tmp_path, checkout())


# What builds need of Python packages, where the build is not isolated


@pytest.fixture
def hide(builder: Builder, tmp_path: Path) -> Callable[[str], None]:
    """Let no Python of the builder find these packages, by their import names."""

    def hide(names: str) -> None:
        builder.env.update(hide_packages(tmp_path / "hiding", names))

    return hide


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "names"), [("cyclonedx", "cyclonedx-python-lib"), ("packaging wheel", "packaging wheel")]
)
def test_a_build_package_that_is_missing_is_said_with_the_command_that_installs_it(
    builder: Builder, hide: Callable[[str], None], hidden: str, names: str
) -> None:
    hide(hidden)

    said = builder.refusal()

    assert said.startswith("BuildError: the build requirements are not complete\n")
    assert [name in names.split() for name in re.findall(r"(\S+) is not installed in /", said)] == [True] * len(
        names.split()
    )
    assert f"to fix:    {requirements.install(names.split())}\n" in said
    assert "--no-build-isolation" in said


HOOK = """
import sys
sys.path.insert(0, "backend")
from kernelwheel import hooks
getattr(hooks, sys.argv[1])(*sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["get_requires_for_build_sdist", "build_editable"])
def test_every_hook_says_so_and_its_module_needs_the_standard_library_alone(
    builder: Builder, hide: Callable[[str], None], hook: str
) -> None:
    hide(" ".join(module for module, _ in requirements.TO_BUILD))
    arguments = [] if hook.startswith("get_requires") else [builder.folder]

    # -S: no site-packages, and so no sitecustomize: nothing but the standard library
    for options in ([], ["-S"]):
        command = [sys.executable, *options, "-c", HOOK, hook, *arguments]
        done = run(command, cwd=builder.checkout, env=builder.env, check=False)

        assert done.returncode == 1
        assert done.stderr.startswith(
            "kernelwheel.runtime.errors.BuildError: the build requirements are not complete\n"
        )
        for _, name in requirements.TO_BUILD:
            assert f"{name} is not installed in " in done.stderr


def test_the_list_of_what_builds_need_is_what_the_distribution_requires() -> None:
    declared = read_toml(REPOSITORY / "backend/pyproject.toml")["project"]["dependencies"]
    here = [Requirement(text) for text in declared]

    needed = {need.name for need in here if need.marker is None or need.marker.evaluate()}

    assert {name for _, name in requirements.TO_BUILD} == needed
    for need in here:
        assert requirements.RELEASES.get(need.name, "") in str(need.specifier)


def test_a_module_of_ours_that_is_missing_is_no_requirement() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), requirements.imports_checked_later():
        importlib.import_module("kernelwheel.no_such_module")


# The C++ compiler


def test_a_cxx_that_is_no_compiler_is_said_and_no_other_is_taken(builder: Builder) -> None:
    """`true --version` names the Free Software Foundation, as gcc does."""
    builder.env["CXX"] = "true"

    said = builder.refusal()

    assert said.startswith("BuildError: no C++ compiler\n")
    assert "as set by environment variable CXX" in said
    assert re.search(r"found: +(/\S+/)?true: neither gcc nor clang", said)


def test_a_compiler_that_can_compile_nothing_is_said(builder: Builder, tmp_path: Path) -> None:
    builder.env["CXX"] = str(make_cxx(tmp_path / "c++"))

    said = builder.refusal()

    assert "tiny 1.2.3 did not compile" in said
    assert "CMake Error" in said
    assert f'"{tmp_path}/c++"' in said


@pytest.mark.minutes
@pytest.mark.slow
def test_a_symbol_that_two_packages_would_share_is_refused_and_not_made_by_default(builder: Builder) -> None:
    source = builder.checkout / "native" / "twice.cpp"
    shared = 'template <class T> struct __attribute__((visibility("default"))) Shared { static inline T value; };\n'
    source.write_text(f"{shared}int* shared() {{ return &Shared<int>::value; }}\n{source.read_text()}")
    builder.before = contents(builder.checkout)
    if find_cxx(settings_with(), os.environ).kind != "gcc":
        pytest.skip("gcc alone has unique symbols")

    builder.env["CXXFLAGS"] = "-fgnu-unique"
    said = builder.refusal()

    assert "symbols that a process has only once" in said
    assert "libtiny_cpu.so: _ZN6SharedIiE5valueE" in said
    builder.env["CXXFLAGS"] = ""
    assert builder.attempt().returncode == 0


@pytest.mark.minutes
@pytest.mark.slow
def test_a_compiler_that_has_libstdcxx_as_an_archive_alone_shares_none_of_it(builder: Builder, tmp_path: Path) -> None:
    """Its locales are such symbols, too."""
    cxx = find_cxx(settings_with(), os.environ)
    if cxx.kind != "gcc":
        pytest.skip("gcc alone has unique symbols")
    builder.env["CXX"] = str(make_program(tmp_path / "g++", f'exec "{cxx.path}" -static-libstdc++ "$@"'))
    source = builder.checkout / "native" / "twice.cpp"
    text = "std::string text(int x) { std::ostringstream out; out << x; return out.str(); }"
    source.write_text(f"#include <sstream>\n{text}\n{source.read_text()}")
    builder.before = contents(builder.checkout)

    done = builder.attempt()

    assert done.returncode == 0, done.stderr


# nvcc


@pytest.mark.minutes
@needs_cuda_torch
def test_an_nvcc_that_crashes_on_one_architecture_is_said_with_file_and_log(builder: Builder, tmp_path: Path) -> None:
    nvcc = decide_cuda(NvccSearch(settings_with(), TORCH, os.environ)).nvcc
    assert nvcc is not None
    toolkit = tmp_path / "toolkit"
    shutil.copytree(nvcc.root / "bin", toolkit / "bin")
    for path in nvcc.root.iterdir():
        if path.name != "bin":
            (toolkit / path.name).symlink_to(path)
    real = (toolkit / "bin/ptxas").rename(toolkit / "bin/real-ptxas")
    make_program(toolkit / "bin/ptxas", f'case "$*" in *sm_90*) kill -SEGV $$;; esac\nexec {real} "$@"')
    builder.env.update(TINY_CUDA="on", CUDA_HOME=str(toolkit), TORCH_CUDA_ARCH_LIST="8.0;9.0;12.0")

    said = builder.refusal()

    assert "tiny 1.2.3 did not compile" in said
    assert re.search(r"found: +twice\.cu\n", said)
    (log,) = re.findall(r"read the whole log: (\S+)", said)
    assert "compute_90" in Path(log).read_text()


# torch


@pytest.mark.minutes
def test_a_torch_that_cannot_be_imported_but_whose_files_are_fine_is_built_with(
    builder: Builder, cpu_wheel: Wheel, tmp_path: Path
) -> None:
    root = tmp_path / "site/torch"
    root.mkdir(parents=True)
    for name in ("include", "lib", "version.py"):
        (root / name).symlink_to(TORCH.root / name)
    (root / "__init__.py").write_text("raise ImportError('libcudnn.so.9: cannot open shared object file')")
    builder.env["PYTHONPATH"] = str(tmp_path / "site")

    built = build(builder.checkout, builder.folder / "out", env=builder.env)

    assert built.manifest["fingerprint"] == cpu_wheel.manifest["fingerprint"]
    assert contents(builder.checkout) == builder.before


# A full disk


@pytest.mark.minutes
def test_a_disk_that_is_too_full_for_the_wheel_is_said_and_no_half_a_wheel_is_left(builder: Builder) -> None:
    out = builder.folder / "out"
    out.mkdir()
    options = ["--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", str(out)]
    command = [sys.executable, "-m", "build", *options]
    script = f'"$@" || {{ status=$?; echo left:; ls -A "{out}"; exit $status; }}'
    prefix = (*after_mounting(f'mount -t tmpfs -o size=40k,mode=700 none "{out}"'), "sh", "-c", script, "sh")

    done = run([*prefix, *command, builder.checkout], cwd=builder.folder, env=builder.env, check=False)

    assert done.returncode == 1, done.stdout
    assert "BuildError: the wheel cannot be written" in done.stderr
    assert "No space left on device" in done.stderr
    assert str(out) in done.stderr
    assert done.stdout.rstrip().endswith("\nleft:")
    builder.assert_unharmed(entries=1)  # what was compiled is there for the next try


# Two at once, and one that is interrupted


@pytest.mark.minutes
def test_two_builds_at_once_in_one_checkout_make_the_same_wheel(builder: Builder) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
    both = [
        subprocess.Popen(
            [*command, "-w", str(builder.folder / name), str(builder.checkout)],
            env=clean_environment({**builder.env, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("one", "other")
    ]
    for process in both:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said

    (one,), (other,) = ((builder.folder / name).iterdir() for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    assert contents(builder.checkout) == builder.before


@pytest.fixture
def slow(builder: Builder) -> Iterator[Path]:
    """A file: while it is there, the builder's compiler takes very long over the package's sources."""
    file = builder.folder / "slow"
    file.touch()
    wrapper = make_program(
        builder.folder / "c++",
        f'case "$*" in *"-c "*/src/*) touch {builder.folder}/begun; test -e {file} && sleep 100;; esac\n'
        f'exec {build_compiler()} "$@"',
    )
    builder.env["CXX"] = str(wrapper)
    yield file
    file.unlink(missing_ok=True)


@pytest.mark.minutes
def test_a_build_that_is_interrupted_leaves_no_compiler_behind_and_can_be_started_again(
    builder: Builder, slow: Path, cpu_wheel: Wheel
) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-cache-dir", "-v"]
    building = subprocess.Popen(
        [*command, "-w", str(builder.folder / "out"), str(builder.checkout)],
        env=clean_environment(builder.env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a process group of its own, as a shell gives each command
    )
    while not (builder.folder / "begun").exists():
        assert building.poll() is None
        time.sleep(0.02)
    assert len(processes_of(builder.folder)) > 2

    os.killpg(building.pid, signal.SIGINT)
    said, _ = building.communicate(timeout=60)

    assert building.returncode != 0
    assert "Operation cancelled by user" in said
    deadline = time.monotonic() + 30
    while processes_of(builder.folder):
        assert time.monotonic() < deadline, processes_of(builder.folder)
        time.sleep(0.02)
    builder.assert_unharmed()
    assert list(builder.temporary.iterdir()) == []
    slow.unlink()
    again = build(builder.checkout, builder.folder / "out", env=builder.env)
    assert again.libraries == cpu_wheel.libraries


# What a user sees


@pytest.mark.minutes
def test_pip_shows_a_failed_build_in_a_few_lines_of_which_the_error_is_the_last(builder: Builder) -> None:
    source = builder.checkout / "native/twice.cpp"
    source.write_text("int broken() { return undeclared_name; }\n" + source.read_text())
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--target"]

    done = run([*command, builder.folder / "site", builder.checkout], cwd=builder.folder, env=builder.env, check=False)

    assert done.returncode == 1
    shown = done.stderr.partition("lines of output]\n")[2].partition("[end of output]")[0].splitlines()
    assert 5 < len(shown) < 25
    (begin,) = (number for number, line in enumerate(shown) if "BuildError: tiny 1.2.3 did not compile" in line)
    error = shown[begin:]
    assert [line.split(":")[0].strip() for line in error[1:] if re.match(r" {8}\S", line)] == [
        "required", "found", "to fix",
    ]  # fmt: skip
    assert any("twice.cpp:1:" in line and "undeclared_name" in line for line in error)
    assert "read the whole log: " in error[-2] + error[-1]


@pytest.mark.parametrize("when", ["before an error of ours", "after it"])
def test_an_error_that_is_not_the_backend_s_keeps_its_traceback(builder: Builder, when: str) -> None:
    script = """
import sys
sys.path.insert(0, "backend")
from kernelwheel.runtime import errors
from kernelwheel import hooks
try:
    hooks.build_wheel(sys.argv[1])
except errors.KernelWheelError as error:
    raise RuntimeError("something else") from error
"""
    builder.env["CXX"] = "c++-99"
    if when == "before an error of ours":
        del builder.env["CXX"]
        project = builder.checkout / "pyproject.toml"
        project.write_text(re.sub(r'(?m)^version = ".*"', "version = 7", project.read_text()))

    done = run([sys.executable, "-c", script, builder.folder], cwd=builder.checkout, env=builder.env, check=False)

    assert "\nTraceback (most recent call last):\n" in f"\n{done.stderr}"
    assert ("project.version" if when == "before an error of ours" else "RuntimeError: something else") in done.stderr
