"""The interface of older system libraries: which symbols are bound to an older version, and which must not be."""

from __future__ import annotations

import os
import platform
import signal
from pathlib import Path

import pytest
from kernelwheel.compiler.binary_inspect import newest_symbol_versions
from kernelwheel.compiler.toolchain.cxx import Cxx, find_cxx
from kernelwheel.compiler.toolchain.glibc_compat import LINKED_IN, older_symbols, source_files
from kernelwheel.runtime.machine.platforms import numbers
from processes import run
from standins import make_cxx, make_program, settings_with

LIBC = """\
0000000000089380 T pthread_create@GLIBC_2.2.5
0000000000089380 T pthread_create@@GLIBC_2.34
0000000000089381 T pthread_cond_wait@GLIBC_2.2.5
0000000000089382 T pthread_cond_wait@@GLIBC_2.3.2
0000000000089383 T sem_open@GLIBC_2.2.5
0000000000089384 T sem_open@GLIBC_2.27
0000000000089385 T sem_open@@GLIBC_2.34
0000000000089386 T dlopen@GLIBC_2.2.5
0000000000089386 T dlopen@@GLIBC_2.34
0000000000089387 W shm_open@@GLIBC_2.34
0000000000089388 T memcpy@GLIBC_2.2.5
0000000000089389 i memcpy@@GLIBC_2.99
000000000008938a T pthread_new@GLIBC_2.28
000000000008938a T pthread_new@@GLIBC_2.40
000000000008938b B __libc_single_threaded@@GLIBC_2.32
"""
LIBM = """\
0000000000001000 i pow@@GLIBC_2.29
0000000000001001 T pow@GLIBC_2.2.5
0000000000001002 T totalorder@GLIBC_2.25
0000000000001003 T totalorder@@GLIBC_2.31
0000000000001004 T sin@@GLIBC_2.2.5
0000000000001005 T sqrtf@GLIBC_2.2.5
0000000000001006 T sqrtf@@GLIBC_2.43
0000000000001007 T fromfp@GLIBC_2.25
0000000000001008 T fromfp@@GLIBC_2.43
0000000000001009 T lgammaf@GLIBC_2.2.5
000000000000100a T lgammaf@GLIBC_2.23
000000000000100b T lgammaf@@GLIBC_2.43
"""


@pytest.fixture
def cxx(tmp_path: Path) -> Cxx:
    """A compiler whose nm lists the symbols above."""
    path = make_cxx(tmp_path / "c++")
    (tmp_path / "parts/libc.so.6").write_text(LIBC)
    (tmp_path / "parts/libm.so.6").write_text(LIBM)
    make_program(tmp_path / "parts/nm", 'eval "file=\\${$#}"; while IFS= read -r line; do echo "$line"; done < "$file"')
    return Cxx(path, "gcc", "12.2.0", "x86_64-linux-gnu")


def test_a_symbol_that_moved_is_bound_to_its_newest_version_that_is_old_enough(cxx: Cxx) -> None:
    symbols = older_symbols(cxx, "2.28")

    assert symbols == {
        "libpthread.so.0": {"pthread_create": "GLIBC_2.2.5", "sem_open": "GLIBC_2.27"},
        "libdl.so.2": {"dlopen": "GLIBC_2.2.5"},
        "libm.so.6": {"pow": "GLIBC_2.2.5", "sqrtf": "GLIBC_2.2.5", "lgammaf": "GLIBC_2.23"},
    }


@pytest.mark.parametrize(
    "symbol", ["pthread_cond_wait", "memcpy", "totalorder", "sin", "shm_open", "pthread_new", "fromfp"]
)
def test_a_symbol_that_may_have_changed_or_need_not_be_rebound_is_left_alone(cxx: Cxx, symbol: str) -> None:
    assert not any(symbol in symbols for symbols in older_symbols(cxx, "2.28").values())


def test_nothing_is_rebound_for_a_glibc_that_is_new_enough(cxx: Cxx) -> None:
    assert older_symbols(cxx, "2.43") == {}


def test_each_library_has_a_source_and_a_version_script(cxx: Cxx) -> None:
    files = source_files(cxx, "2.28")

    stubs = {
        f"stubs/{name}{end}" for name in ("libpthread.so.0", "libdl.so.2", "libm.so.6") for end in (".cpp", ".map")
    }
    assert files.keys() == stubs | {f"linked-in/{path.name}" for path in LINKED_IN.glob("*.cpp")}
    assert files["stubs/libpthread.so.0.map"] == (
        "GLIBC_2.2.5 { global: pthread_create; };\nGLIBC_2.27 { global: sem_open; };\n"
    )


def test_the_stub_of_libm_has_all_that_it_stands_in_front_of(cxx: Cxx) -> None:
    """A newer linker reads no second library of one name; so what is not rebound must be in the first."""
    script = source_files(cxx, "2.28")["stubs/libm.so.6.map"].splitlines()

    assert script == [
        "GLIBC_2.2.5 { global: pow; sin; sqrtf; };", "GLIBC_2.23 { global: lgammaf; };", "GLIBC_2.25 { };",
        "GLIBC_2.31 { global: totalorder; };", "GLIBC_2.43 { global: fromfp; };",
    ]  # fmt: skip


# What newer compilers call, which the libstdc++ and glibc of the oldest system do not have.
NEWER_CALLS = """
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <string>
extern "C" {
long __isoc23_strtol(const char*, char**, int);
int __isoc23_sscanf(const char*, const char*, ...);
[[noreturn]] void __cxa_call_terminate(void*) noexcept;
}
namespace std { void ios_base_library_init(); }
struct Thrown {
  static inline int alive = 0;
  Thrown() { alive++; }
  Thrown(const Thrown&) { alive++; }
  ~Thrown() { alive--; }
};
bool counts_exceptions() {
  {
    std::exception_ptr first = std::make_exception_ptr(Thrown()), second = first;
    first = nullptr;
    if (Thrown::alive != 1) return false;
    try {
      std::rethrow_exception(second);
    } catch (const Thrown&) {
    }
  }
  return Thrown::alive == 0;
}
bool waits() {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock<std::mutex> lock(mutex);
  bool ready = false;
  auto other = std::async(std::launch::async, [&] {
    std::lock_guard<std::mutex> held(mutex);
    ready = true;
    changed.notify_one();
  });
  changed.wait(lock, [&] { return ready; });
  return ready;
}
int main(int count, char**) {
  std::ios_base_library_init();
  int read = 0;
  if (count > 1) __cxa_call_terminate(nullptr);
  const bool same = __isoc23_strtol("17x", nullptr, 8) == 15 && __isoc23_sscanf("a 5", "a %d", &read) == 1 && read == 5;
  const auto numbers = std::make_unique<long[]>(static_cast<std::size_t>(read));
  return same && counts_exceptions() && waits() && std::to_string(numbers[0]).at(0) == '0' ? 0 : 1;
}
"""


@pytest.mark.slow
# Without optimization, what is inline elsewhere is a symbol, too; a compiler may have libstdc++ as an archive alone.
@pytest.mark.parametrize(
    "options", [["-O0"], pytest.param(["-O2", "-static-libstdc++"], marks=pytest.mark.minutes)], ids=" ".join
)
def test_what_newer_compilers_call_is_linked_in_where_the_libraries_have_none(
    tmp_path: Path, options: list[str]
) -> None:
    cxx = find_cxx(settings_with(), os.environ)
    (tmp_path / "main.cpp").write_text(NEWER_CALLS)

    run([cxx.path, "-std=c++17", "-O2", "-c", *LINKED_IN.glob("*.cpp")], cwd=tmp_path)
    run(["ar", "qc", "libolder.a", *tmp_path.glob("*.o")], cwd=tmp_path)
    linked_in = ["-pthread", "libolder.a", "-Wl,--exclude-libs,libolder.a"]
    run([cxx.path, "-std=c++17", *options, "-o", "main", "main.cpp", *linked_in], cwd=tmp_path)

    if "-static-libstdc++" not in options:
        libstdcxx, abi = newest_symbol_versions([tmp_path / "main"], "GLIBCXX_", "CXXABI_")
        assert numbers(libstdcxx) <= (3, 4, 25)
        assert numbers(abi) <= (1, 3, 11)
    assert run([tmp_path / "main"], cwd=tmp_path, check=False).returncode == 0
    assert run([tmp_path / "main", "terminate"], cwd=tmp_path, check=False).returncode == -signal.SIGABRT


@pytest.mark.slow
def test_a_source_may_name_a_version_of_a_mathematical_function(tmp_path: Path) -> None:
    """As torch_spline_conv does; powf's default of 2.27 is old enough, so it is not rebound."""
    cxx = find_cxx(settings_with(), os.environ)
    files = source_files(cxx, "2.28")
    if platform.machine() != "x86_64" or not any(name.startswith("stubs/libm.") for name in files):
        pytest.skip("the libm here has no powf@GLIBC_2.2.5, or nothing newer than 2.28")
    for name in ("stubs/libm.so.6.cpp", "stubs/libm.so.6.map"):
        (tmp_path / Path(name).name).write_text(files[name])
    (tmp_path / "a.cpp").write_text(
        '#include <cmath>\n__asm__(".symver powf,powf@GLIBC_2.2.5");\nfloat f(float x) { return powf(x, x); }\n'
        "double g(double x) { return std::pow(x, x); }\nfloat h(float x) { return fmodf(x, 3); }\n"
    )
    flags = ["-O1", "-fno-builtin", "-fPIC", "-shared"]
    stub = [f"-Wl,-soname,libm.so.6,--version-script={tmp_path / 'libm.so.6.map'}", tmp_path / "libm.so.6.cpp"]

    run([cxx.path, *flags, "-nostdlib", *stub, "-o", tmp_path / "libm.so.6"], cwd=tmp_path)
    run([cxx.path, *flags, tmp_path / "a.cpp", "-o", tmp_path / "a.so", tmp_path / "libm.so.6"], cwd=tmp_path)

    listed = run(["nm", "-D", "--with-symbol-versions", tmp_path / "a.so"], cwd=tmp_path).stdout
    assert "U powf@GLIBC_2.2.5" in listed
    assert "U pow@GLIBC_2.2.5" in listed


def test_a_libc_that_is_no_glibc_has_nothing_to_rebind(cxx: Cxx, tmp_path: Path) -> None:
    (tmp_path / "parts/libc.so.6").write_text("0000000000089380 T pthread_create\n")
    (tmp_path / "parts/libm.so.6").unlink()

    assert older_symbols(cxx, "2.28") == {}


def test_of_this_machine_only_functions_are_rebound_that_are_known_to_be_the_same() -> None:
    symbols = older_symbols(find_cxx(settings_with(), os.environ), "2.28")

    assert "totalorder" not in symbols.get("libm.so.6", {})
    assert symbols.keys() <= {"libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6"}
