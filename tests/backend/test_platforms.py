"""What systems differ in is known to one class, and to the modules that exceptions.toml lists for a port."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from exceptions import BACKEND, MODULES, TABLE, exceptions
from kernelwheel.compiler import program
from kernelwheel.core import platforms
from kernelwheel.core.errors import BuildError
from kernelwheel.core.platforms import HERE, PLATFORMS, library_file
from kernelwheel.loader import obtain
from processes import RunPython

pytestmark = pytest.mark.once

REPOSITORY = Path(__file__).resolve().parents[2]
PLACE = "core/platforms.py"

# What the code of a module may know of a system, and by what it is seen: texts, imports, names.
TEXTS = {
    "names of libraries": re.compile(r"\.\(?(so|dylib|dll|pyd)\b|\blib\w+\.a\b"),
    "versions of libc": re.compile(r"GLIBC|^glibc $"),
    "options for the linker": re.compile(r"-Wl,|LINKER:|^-rpath"),
    "the loader's variables": re.compile(r"\bLD_(LIBRARY_PATH|PRELOAD)\b"),
    "folders": re.compile(r"^/(usr|opt|etc|tmp|var|home)\b"),
    "processes": re.compile(r"^/?(proc|sys/fs)\b"),
    "files of libraries": re.compile(r"\x7fELF"),
}
IMPORTS = {
    "auditwheel": "tags",
    "elftools": "files of libraries",
    "fcntl": "locks",
    "grp": "users",
    "platformdirs": "folders",
    "pwd": "users",
    "resource": "processes",
}
NAMES = {
    "folders by descriptor": {"O_PATH", "O_DIRECTORY", "O_NOFOLLOW", "fchmod", "dir_fd"},
    "locks": {"flock", "lockf"},
    "modes": {"S_IWGRP", "S_IWOTH", "S_ISVTX"},
    "processes": {"fork", "killpg", "getsid", "setsid", "register_at_fork", "sched_getaffinity", "pass_fds",
                  "start_new_session"},
    "tags": {"get_platform"},
    "users": {"getuid", "geteuid", "getgid", "getegid", "getresuid", "getgroups", "listxattr", "getxattr"},
    "versions of libc": {"confstr", "libc_ver", "RTLD_NOLOAD"},
}  # fmt: skip


def known_in(text: str) -> set[str]:
    """What a module's code knows of a system, in the words above. Its docstrings may say anything."""
    tree = ast.parse(text)
    said = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return {kind for node in ast.walk(tree) if id(node) not in said for kind in _known(node)}


def _known(node: ast.AST) -> Iterator[str]:
    for name in _names(node):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and name.partition(".")[0] in IMPORTS:
            yield IMPORTS[name.partition(".")[0]]
        yield from (kind for kind, known in NAMES.items() if name in known)
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
        value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        yield from (kind for kind, pattern in TEXTS.items() if pattern.search(value))
    elif _is_prefix(node):
        yield "names of libraries"


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return [module, *(alias.name for alias in names)]
        case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
            return [name]
    return []


def _is_prefix(node: ast.AST) -> bool:
    """Whether `lib` is put before a name, as in f"lib{name}", or taken off."""
    match node:
        case ast.JoinedStr(values=values):
            before = [one.value for one in values[:-1] if isinstance(one, ast.Constant)]
            return any(re.search(r"(^|/)lib$", str(value)) for value in before)
        case ast.Call(func=ast.Attribute(attr="removeprefix" | "startswith"), args=[ast.Constant(value="lib")]):
            return True
    return False


@pytest.mark.parametrize("module", [name for name in MODULES if name != PLACE])
def test_a_module_knows_of_the_system_only_what_the_table_says(module: str) -> None:
    assert known_in(MODULES[module].read_text(encoding="utf-8")) == set(exceptions(module, "system"))


def test_the_one_place_knows_most() -> None:
    known = known_in(MODULES[PLACE].read_text(encoding="utf-8"))

    assert known >= {"names of libraries", "versions of libc", "options for the linker", "locks", "users", "modes"}


def test_the_table_names_modules_that_are_there_and_gives_reasons() -> None:
    assert set(TABLE) <= set(MODULES)
    assert all(reason for kinds in TABLE.values() for said in kinds.values() for reason in said.values())
    assert {kind for kinds in TABLE.values() for kind in kinds} == {"system", "environment"}


def test_the_recipe_has_no_option_for_the_linker_but_for_the_stubs_of_libraries() -> None:
    text = (BACKEND / "cmake" / "KernelWheel.cmake").read_text(encoding="utf-8")
    kept = re.sub(r"(?ms)^if\((KERNELWHEEL_OLDER|KERNELWHEEL_TORCH_STUBS)\)$.*?^endif\(\)$", "", text)
    kept = re.sub(r'(?ms)^ +if\(failed AND library STREQUAL "cuda"\)$.*?^ +endif\(\)$', "", kept)  # the driver's
    code = "\n".join(line.partition("#")[0] for line in kept.splitlines())

    assert "-Wl,-soname" in text
    assert re.findall(r"LINKER:\S*|-Wl,\S*|\.so\b|\bpthread\b", code) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("file = f'{name}.so'", "names of libraries"),
        ("file = 'libcuda.so.1'", "names of libraries"),
        ("pattern = '*.so*'", "names of libraries"),
        ("pattern = r'\\.(so|pyd)$'", "names of libraries"),
        ("file = 'lib/libcudart_static.a'", "names of libraries"),
        ("file = f'lib{name}{suffix}'", "names of libraries"),
        ("stem = file.removeprefix('lib')", "names of libraries"),
        ("option = 'LINKER:--no-undefined'", "options for the linker"),
        ("option = f'-Wl,-soname,{name}'", "options for the linker"),
        ("import os\nos.confstr('CS_GNU_LIBC_VERSION')", "versions of libc"),
        ("from platform import libc_ver", "versions of libc"),
        ("def f():\n import fcntl", "locks"),
        ("from fcntl import flock", "locks"),
        ("import os\nos.geteuid()", "users"),
        ("from os import geteuid", "users"),
        ("import pwd", "users"),
        ("import stat\nstat.S_IWOTH", "modes"),
        ("import os\nos.open('x', 0, dir_fd=3)", "folders by descriptor"),
        ("place = '/usr/local/cuda'", "folders"),
        ("place = f'/proc/{number}'", "processes"),
        ("import subprocess\nsubprocess.run([], start_new_session=True)", "processes"),
        ("from auditwheel.policy import Policy", "tags"),
        ("head[:4] == b'\\x7fELF'", "files of libraries"),
        ("environ.get('LD_LIBRARY_PATH')", "the loader's variables"),
    ],
)
def test_every_kind_of_knowledge_is_seen(text: str, kind: str) -> None:
    assert kind in known_in(text)


@pytest.mark.parametrize(
    "text",
    ['"""Loads libx.so under /usr."""', "folder = f'{root}/lib'", "def f():\n '''locks by flock(2)'''", "a = 'so'"],
)
def test_what_is_no_such_knowledge_is_let_be(text: str) -> None:
    assert known_in(text) == set()


def test_an_extension_s_library_has_the_suffix_of_its_platform() -> None:
    found = {platform: library_file(platform, "light._C") for platform in [*PLATFORMS, "plan9-mips"]}

    assert set(found.values()) == {"light._C.so"}


@pytest.mark.parametrize(
    ("file", "stem"),
    [("libcublas.so.13", "cublas"), ("libcudart_static.a", "cudart_static"), ("cublas", "cublas"), ("m", "m")],
)
def test_a_library_is_linked_to_by_its_stem(file: str, stem: str) -> None:
    assert HERE.stem(file) == stem
    assert HERE.stem(HERE.shared(stem)) == HERE.stem(HERE.static(stem)) == stem


# Every hook, in one process, as if on another system that lacks what only Linux has.
HOOKS = """
import sys
missing = "fcntl", "grp", "pwd", "resource", "setuptools", "auditwheel"
sys.modules.update(dict.fromkeys(missing))
sys.platform = "darwin"
from kernelwheel import hooks
from kernelwheel.core.errors import BuildError
made = "build_wheel", "build_editable", "build_sdist"
for name in [name for name in vars(hooks) if name in made or name.startswith(("prepare_", "get_requires_"))]:
    try:
        getattr(hooks, name)(*["out"] * (not name.startswith("get_")))
    except BuildError as error:
        print(name, "|", str(error).splitlines()[0], "|", error.required, "|", error.found)
"""


def test_every_hook_refuses_another_system_first_and_says_what_there_is(run_python: RunPython, tmp_path: Path) -> None:
    done = run_python(HOOKS, path=[REPOSITORY / "backend"])

    rows = [line.split(" | ") for line in done.stdout.splitlines()]
    assert {row[0] for row in rows} == {
        "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable",
        "get_requires_for_build_sdist", "get_requires_for_build_wheel", "prepare_metadata_for_build_editable",
        "prepare_metadata_for_build_wheel",
    }  # fmt: skip
    for _, first, required, found in rows:
        assert (first, required) == (f"kernels cannot be built on {found}", f"one of {', '.join(PLATFORMS)}")
        assert found.startswith("darwin-")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("build", [lambda: obtain.have_compiled(*[None] * 5), lambda: program.answer_to({}, None)])
def test_a_compile_at_run_time_refuses_another_system_before_it_touches_anything(
    monkeypatch: pytest.MonkeyPatch, build: Callable[..., object]
) -> None:
    monkeypatch.setattr(platforms, "platform_name", lambda: "win32-AMD64")

    with pytest.raises(BuildError, match="kernels cannot be built on win32-AMD64") as caught:
        build()

    assert caught.value.required == f"one of {', '.join(PLATFORMS)}"
