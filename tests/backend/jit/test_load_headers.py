"""Which headers a call of `kernelwheel.load` compiles with: those that gcc takes. Only its preprocessor runs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from kernelwheel.jit.package import Description, described
from kernelwheel.jit.sources import read_sources
from kernelwheel.runtime.errors import SettingsError
from loadable import called, write

# Three folders with headers of the same names, and one of their own.
FOLDERS = {
    f"{folder}/{name}": f'#define FOUND "{folder}/{name}"\n'
    for folder in "abc"
    for name in ("h.h", "string.h", "torch.h")
} | {f"{folder}/only_{folder}.h": f'"{folder}"\n' for folder in "abc"}


def preprocessed(command: Sequence[str | Path], cwd: Path) -> str:
    done = subprocess.run(["g++", "-E", "-P", *command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def describe(source: Path, flags: Sequence[str] = (), folders: Sequence[Path] = ()) -> Description:
    call = called(extra_cflags=flags, extra_include_paths=folders)
    return described(call, read_sources(call, source))


def compare(tmp_path: Path, source: Path, flags: Sequence[str] = (), folders: Sequence[Path] = ()) -> Description:
    """Preprocess a source where it is, and its copy as the compiler gets it; both must be the same."""
    package = describe(source, flags, folders)
    for name, text in package.tree.files.items():
        path = tmp_path / "work/src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    (tmp_path / "work/build").mkdir()

    here = preprocessed([*(f"-I{each}" for each in folders), *flags, source], tmp_path)

    copies = [f"-I../src/{each}" for each in package.extension["include_dirs"]]
    (copy,) = package.extension["sources"]
    assert preprocessed([*copies, *package.extension["cxx_flags"], f"../src/{copy}"], tmp_path / "work/build") == here
    assert str(tmp_path) not in str(package.content)  # which says nothing about where the files are
    return package


@pytest.mark.parametrize(
    "flags",
    [
        "-isystem {a} -I{b}", "-I{b} -isystem {a}", "-isystem{a} -I {b} -iquote {c}", "-iquote{a} -I{b}",
        "-idirafter {a} -isystem {b}", "-idirafter {a}", "-I{a} -isystem {a} -I{b}", "-I{b} -I{a} -I{b}",
        "--include-directory={a} -I{b}", "--include-directory {b} -I{a}", "--include-directory-after={a} -I{b}",
        "-Wp,-isystem,{a} -I{b}", "-Wp,-I{b} -I{a}", "-Xpreprocessor -iquote -Xpreprocessor {a} -I{b}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("include", ["#include <h.h>\n#include <string.h>\nFOUND", '#include "h.h"\nFOUND'])
def test_the_header_is_the_one_that_gcc_takes(tmp_path: Path, flags: str, include: str) -> None:
    folder = write(tmp_path, {**FOLDERS, "p/csrc/x.cpp": f"{include}\n", "first/x.h": ""})
    options = [flag.format(**{name: folder / name for name in "abc"}) for flag in flags.split()]

    compare(tmp_path, folder / "p/csrc/x.cpp", options, [folder / "first"])


def test_a_folder_of_the_caller_with_headers_called_as_torch_s_and_python_s_is_searched(tmp_path: Path) -> None:
    own = {"own/Python.h": "1\n", "own/torch.h": "2\n", "own/torch/extension.h": "3\n", "own/cuda_runtime.h": "4\n"}
    includes = "".join(f"#include <{name.removeprefix('own/')}>\n" for name in own)
    write(tmp_path, {**own, "x.cpp": includes})

    package = compare(tmp_path, tmp_path / "x.cpp", [], [tmp_path / "own"])

    assert len(package.tree.files) == 5


def test_torch_s_own_folders_are_not_copied(tmp_path: Path) -> None:
    import torch

    include = Path(torch.__file__).parent / "include"
    source = write(tmp_path, {"x.cpp": "#include <torch/extension.h>\n"}) / "x.cpp"

    package = describe(source, [f"-I{include}", "-isystem", str(include), "-DA"], [include])

    assert sorted(package.tree.files) == ["x.cpp"]
    assert package.extension["include_dirs"] == []
    assert package.extension["cxx_flags"] == ["-DA"]


LINKED: Mapping[str, str] = {
    "p/src/x.cpp": '#include "sub/../y.h"\n#include <gone/../z.h>\n#include "plain/../w.h"\n',
    "elsewhere/deep/unused.h": "",
    "elsewhere/y.h": '#include "beside_y.h"\n1\n',
    "elsewhere/beside_y.h": "2\n",
    "p/src/w.h": "3\n",
    "p/src/plain/unused.h": "",
    "include/gone/unused.h": "",
    "include/z.h": "4\n",
}


def test_a_header_behind_a_link_is_found_where_gcc_finds_it(tmp_path: Path) -> None:
    folder = write(tmp_path, LINKED)
    (folder / "p/src/sub").symlink_to(folder / "elsewhere/deep")
    (folder / "p/inc").symlink_to(folder / "include/gone")

    package = compare(tmp_path, folder / "p/src/x.cpp", [], [folder / "p/inc/.."])

    assert set(package.tree.files.values()) >= {LINKED["elsewhere/y.h"].encode(), b"2\n", b"3\n", b"4\n"}


def test_two_headers_that_only_a_link_tells_apart_are_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path, {**LINKED, "p/src/y.h": "5\n", "p/src/x.cpp": '#include "sub/../y.h"\n#include "y.h"\n'})
    (folder / "p/src/sub").symlink_to(folder / "elsewhere/deep")

    with pytest.raises(SettingsError, match="does not leave a link"):
        describe(folder / "p/src/x.cpp")


def test_a_header_of_another_root_is_found_by_where_it_is_relative_to_what_includes_it(tmp_path: Path) -> None:
    files = {
        "p/csrc/x.cpp": '#include "../../q/include/a.h"\n#include <b.h>\n',
        "q/include/a.h": "1\n",
        "q/include/b.h": "2\n",
    }
    folder = write(tmp_path, files)

    compare(tmp_path, folder / "p/csrc/x.cpp", [], [folder / "q/include"])


def test_a_header_that_a_flag_includes_is_a_copy(tmp_path: Path) -> None:
    folder = write(tmp_path, {**FOLDERS, "before.h": '#include "next.h"\n', "next.h": "1\n", "p/x.cpp": "FOUND\n"})

    flags = ["-include", f"{folder}/before.h", "-include", "h.h", f"-imacros{folder}/next.h", f"-I{folder}/b"]
    package = compare(tmp_path, folder / "p/x.cpp", flags)

    assert package.extension["cxx_flags"][1].startswith("../src/")


@pytest.mark.parametrize("bad", ["a;b", "a\nb", "a$<b", "a\\b", "a:b", "a|b"])
def test_a_folder_whose_name_cmake_or_ninja_does_not_take_is_one_error(tmp_path: Path, bad: str) -> None:
    folder = write(tmp_path / f"above;{tmp_path.name}", {f"{bad}/x.cpp": "", "y.cpp": ""})
    call = called()

    with pytest.raises(SettingsError, match="rename it"):
        described(call, read_sources(call, [folder / bad / "x.cpp", folder / "y.cpp"]))
    described(call, read_sources(call, folder / bad / "x.cpp"))
