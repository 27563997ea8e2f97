"""The interface of an older glibc and libstdc++, so that libraries linked here run on older systems.

A linker binds a symbol to the newest version that it finds. But glibc keeps the older ones, for programs that were
linked long ago (LSB core, "Symbol Versioning"), and stub libraries that export only those make the linker choose them.
What has no older version in libstdc++, and is small, is linked in statically, as the compilers of manylinux images do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from ...runtime.platforms import numbers
from .cxx import Cxx
from .programs import output_of

# A newer version may mean another signature (totalorder, 2.31), so only symbols are rebound that are known to be the
# same: those that moved into libc.so.6 up to 2.34, and mathematical functions that no longer call error handlers.
MOVED = {
    "libpthread.so.0": r"_{0,2}pthread_\w+|sem_\w+|mtx_\w+|cnd_\w+|thrd_\w+|tss_\w+|call_once",
    "libdl.so.2": r"dl\w+",
    "librt.so.1": r"aio_\w+|lio_\w+|_{0,2}mq_\w+|shm_\w+|timer_\w+",
}
LAST_MOVE = (2, 34)
MATHEMATICAL_LIBRARY = "libm.so.6"
MATHEMATICAL = (
    r"((exp|exp2|exp10|log|log2|pow|hypot|fmod|remainder)f?"
    r"|(acos|acosh|asin|atan2|atanh|cosh|j0|j1|jn|lgamma|log10|sinh|sqrt|tgamma|y0|y1|yn)f|lgammaf_r)"
)
# What is linked in if it is used, each a source file. Weak, as a compiler may have libstdc++ as an archive alone, which
# then has the same:
LINKED_IN = {
    # libstdc++ reads it to avoid atomic operations; 0: there may be other threads (glibc manual, "Single-Threaded").
    "single_threaded.cpp": 'extern "C" { extern char __libc_single_threaded; char __libc_single_threaded = 0; }\n',
    # Constructors that are functions of libstdc++ since gcc 9; before, they had an argument.
    "sstream.cpp": """#include <sstream>
#ifdef __GLIBCXX__
namespace std {
template basic_stringbuf<char>::basic_stringbuf();
template basic_istringstream<char>::basic_istringstream();
template basic_ostringstream<char>::basic_ostringstream();
template basic_stringstream<char>::basic_stringstream();
}
#endif
""",
    # Called since gcc 13 in place of the object in each file that includes <iostream>.
    "ios_base_init.cpp": """#include <ios>
#ifdef __GLIBCXX__
static std::ios_base::Init initialized;
namespace std { [[gnu::weak]] void ios_base_library_init() {} }
#endif
""",
    # Where an exception leaves a noexcept function, since gcc 14 (Itanium C++ ABI, "Terminating").
    "call_terminate.cpp": """#include <cxxabi.h>
#include <exception>
extern "C" [[gnu::weak]] void __cxa_call_terminate(void* exception) noexcept {
  if (exception) abi::__cxa_begin_catch(exception);
  std::terminate();
}
""",
    # Parts of std::string that are functions of libstdc++ since gcc 11 and 13.
    "string.cpp": """#include <string>
#ifdef __GLIBCXX__
namespace std {
#if _GLIBCXX_RELEASE >= 11
template void basic_string<char>::reserve();
#endif
#if _GLIBCXX_RELEASE >= 13
template void basic_string<char>::_M_replace_cold(char*, size_type, const char*, size_type, size_type);
#endif
}
#endif
""",
    # What the headers of glibc 2.38 make of strtol and its like, which then read 0b1 as well; before, they do not.
    "isoc23.cpp": """#include <cstdarg>
struct _IO_FILE;
extern "C" {
long c17_strtol(const char*, char**, int) __asm__("strtol");
unsigned long c17_strtoul(const char*, char**, int) __asm__("strtoul");
long long c17_strtoll(const char*, char**, int) __asm__("strtoll");
unsigned long long c17_strtoull(const char*, char**, int) __asm__("strtoull");
int c17_vsscanf(const char*, const char*, va_list) __asm__("__isoc99_vsscanf");
int c17_vfscanf(_IO_FILE*, const char*, va_list) __asm__("__isoc99_vfscanf");
long __isoc23_strtol(const char* text, char** end, int base) { return c17_strtol(text, end, base); }
unsigned long __isoc23_strtoul(const char* text, char** end, int base) { return c17_strtoul(text, end, base); }
long long __isoc23_strtoll(const char* text, char** end, int base) { return c17_strtoll(text, end, base); }
unsigned long long __isoc23_strtoull(const char* text, char** end, int base) { return c17_strtoull(text, end, base); }
int __isoc23_vsscanf(const char* text, const char* form, va_list values) { return c17_vsscanf(text, form, values); }
int __isoc23_vfscanf(_IO_FILE* file, const char* form, va_list values) { return c17_vfscanf(file, form, values); }
int __isoc23_sscanf(const char* text, const char* form, ...) {
  va_list values;
  va_start(values, form);
  const int count = c17_vsscanf(text, form, values);
  va_end(values);
  return count;
}
int __isoc23_fscanf(_IO_FILE* file, const char* form, ...) {
  va_list values;
  va_start(values, form);
  const int count = c17_vfscanf(file, form, values);
  va_end(values);
  return count;
}
}
""",
    # The counts of exception_ptr, functions of libstdc++ since gcc 11. They call none of its older ones, which may also
    # be in the library itself, made from these. In front of what was thrown, the header has been the same since gcc 4.5
    # (Itanium C++ ABI, "Exception Objects", and a count), or exceptions could not pass between old and new libraries.
    "exception_ptr.cpp": """#include <cxxabi.h>
#include <exception>
#if _GLIBCXX_RELEASE >= 11
namespace {
struct Header {
  alignas(16) int count;
  alignas(16) const void* type;
  void (*destroy)(void*);
  char others[96];
};
static_assert(sizeof(Header) == 128, "as on x86-64 and aarch64");
Header* header(void* thrown) { return static_cast<Header*>(thrown) - 1; }
}
namespace std::__exception_ptr {
[[gnu::weak]] void exception_ptr::_M_addref() noexcept {
  __atomic_add_fetch(&header(_M_exception_object)->count, 1, __ATOMIC_ACQ_REL);
}
[[gnu::weak]] void exception_ptr::_M_release() noexcept {
  Header* const found = header(_M_exception_object);
  if (__atomic_sub_fetch(&found->count, 1, __ATOMIC_ACQ_REL) != 0) return;
  if (found->destroy) found->destroy(_M_exception_object);
  abi::__cxa_free_exception(_M_exception_object);
  _M_exception_object = nullptr;
}
}
#endif
""",
    # std::condition_variable::wait, of which gcc 12 has a new version. The first members of the condition and of the
    # lock are what POSIX waits for; <condition_variable> would take longer to compile than most of these files.
    "condition_variable.cpp": """#include <pthread.h>
extern "C" [[gnu::weak]] void wait_for(pthread_cond_t*, pthread_mutex_t**)
    __asm__("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
void wait_for(pthread_cond_t* condition, pthread_mutex_t** lock) { pthread_cond_wait(condition, *lock); }
""",
    # Called by `new T[n]` since gcc 11.
    "array_length.cpp": """#include <new>
#ifdef __GLIBCXX__
namespace std { [[gnu::weak]] void __throw_bad_array_new_length() { throw bad_array_new_length(); } }
#endif
""",
}


def older_symbols(cxx: Cxx, oldest: str) -> dict[str, dict[str, str]]:
    """The symbols that would be bound to a glibc newer than `oldest`, and need not be.

    Args:
        cxx: the compiler whose linker and libraries are used.
        oldest: the glibc that libraries must run with, `2.28`.

    Returns:
        For each library of that glibc, such as `libpthread.so.0`: symbol -> the version to bind it to,
        `GLIBC_2.2.5`. Empty if the libc here is no glibc.
    """
    return _older(_listing(cxx, "libc.so.6"), _listing(cxx, MATHEMATICAL_LIBRARY), numbers(oldest))


def _older(libc: str, libm: str, oldest: tuple[int, ...]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for symbol, default, version in _rebound(libc, oldest):
        home = next((library for library, names in MOVED.items() if re.fullmatch(names, symbol)), None)
        if home and numbers(default) <= LAST_MOVE:
            found.setdefault(home, {})[symbol] = version
    for symbol, _, version in _rebound(libm, oldest):
        if re.fullmatch(MATHEMATICAL, symbol):
            found.setdefault(MATHEMATICAL_LIBRARY, {})[symbol] = version
    return found


def source_files(cxx: Cxx, oldest: str) -> dict[str, str]:
    """The source files, by name: `stubs/libdl.so.2.cpp` and its version script for each library, `linked-in/*.cpp`."""
    files = {f"linked-in/{name}": text for name, text in LINKED_IN.items()}
    libc, libm = _listing(cxx, "libc.so.6"), _listing(cxx, MATHEMATICAL_LIBRARY)
    for library, rebound in _older(libc, libm, numbers(oldest)).items():
        symbols, others = dict(rebound), []
        if library == MATHEMATICAL_LIBRARY:
            # The linker takes its stub for it, and reads no other library of that name: the stub has all that it has.
            for symbol, at, version in _versions_in(libm):
                if at == "@@":
                    symbols.setdefault(symbol, version)
            named = [(symbol, version) for symbol, at, version in _versions_in(libm) if at == "@"]
            others = [(symbol, version) for symbol, version in named if symbols.get(symbol) != version]
        files[f"stubs/{library}.cpp"] = stub_source(symbols) + _versioned_source(others)
        files[f"stubs/{library}.map"] = _version_script(symbols, [version for _, version in others])
    return files


def _versions_in(listing: str) -> list[tuple[str, str, str]]:
    """The symbols in a listing: name; `@@` for the version that a linker takes, `@` for one that a source must name."""
    return re.findall(r" [A-Za-z] ([\w.]+)(@@?)(GLIBC_[\d.]+)$", listing, re.MULTILINE)


def stub_source(symbols: Collection[str]) -> str:
    """Functions with these names for the linker; they are never called."""
    lines = (f'void s{n}() __asm__("{symbol}"); void s{n}() {{}}' for n, symbol in enumerate(sorted(symbols)))
    return "\n".join(['extern "C" {', *lines, "}", ""])


def _versioned_source(symbols: Collection[tuple[str, str]]) -> str:
    """Functions that are found by a symbol and its version alone (gas manual, ".symver")."""
    return "".join(
        f'extern "C" void v{n}() {{}}\n__asm__(".symver v{n}, {symbol}@{version}");\n'
        for n, (symbol, version) in enumerate(sorted(symbols))
    )


def _version_script(symbols: Mapping[str, str], others: Collection[str] = ()) -> str:
    """The script that gives each symbol its version (ld manual, "VERSION Command"), and has the other versions."""
    versions = sorted({*symbols.values(), *others})
    names = {version: sorted(name for name in symbols if symbols[name] == version) for version in versions}
    shared = {version: f" global: {'; '.join(names[version])}; " if names[version] else " " for version in versions}
    return "".join(f"{version} {{{shared[version]}}};\n" for version in versions)


def _listing(cxx: Cxx, library: str) -> str:
    """The symbols of a library that the compiler links to, with their versions, as nm prints them."""
    nm = cxx.answer("-print-prog-name=nm")
    path = cxx.answer(f"-print-file-name={library}")
    return output_of(nm, "-D", "--defined-only", "--with-symbol-versions", path, environ=cxx.environ)


def _rebound(listing: str, oldest: tuple[int, ...]) -> Iterator[tuple[str, str, str]]:
    """The symbols whose default version is too new: symbol, that version, and the newest version that is not."""
    versions: dict[str, list[str]] = {}
    defaults: dict[str, str] = {}
    found = _versions_in(listing)
    for symbol, at, version in found:
        versions.setdefault(symbol, []).append(version)
        if at == "@@":
            defaults[symbol] = version
    known = {version: numbers(version) for version in {version for _, _, version in found}}  # some forty
    for symbol, default in sorted(defaults.items()):
        older = [version for version in versions[symbol] if known[version] <= oldest]
        if known[default] > oldest and older:
            yield symbol, default, max(older, key=known.__getitem__)
