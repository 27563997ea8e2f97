"""What commands print of somebody else's files: nothing that a terminal obeys, and no line that a name has made."""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn
from zipfile import ZipFile, ZipInfo

import pytest
from kept import fill, kernels_of
from kernelwheel.__main__ import main
from kernelwheel.cli import cache_commands, doctor
from kernelwheel.runtime import Kernels, progress
from kernelwheel.runtime.commands.exit_status import finish
from kernelwheel.runtime.errors import BuildError, printable
from kernelwheel.runtime.store.store import Store

# Sets a terminal's title and clears it, goes back in the line, turns what follows around; and lines of its own.
LINE = "a forged line"
HOSTILE = f"a\x1b]0;b\x07\x1b[2J\x9b2J\x7f\r\u202egnp\u2066\u2028c\n{LINE}\n"
OWN = HOSTILE.replace("\n", "")  # a folder that the user has named


def assert_harmless(said: str) -> None:
    assert said
    lines = said.split("\n")
    assert [line for line in lines if not line.replace("\t", "").isprintable()] == []
    assert [line for line in lines if line == LINE] == []
    assert "\\x1b]0;b\\x07" in said, "the name is there"


Captured = pytest.CaptureFixture[str]


def wheel(path: Path, *members: tuple[str, bytes]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with ZipFile(path, "w") as archive:
        for name, data in members:
            archive.writestr(ZipInfo(name), data)
    return path


@pytest.fixture
def native(entry: Path, tmp_path: Path) -> Path:
    """The folder of tiny's Artifact, as installed."""
    return Path(shutil.copytree(entry, tmp_path / "site" / "tiny" / "_native"))


def test_inspect(native: Path, tmp_path: Path, capsys: Captured) -> None:
    files = [(f"tiny/_native/{path.name}", path.read_bytes()) for path in sorted(native.iterdir())]
    path = wheel(tmp_path / f"{HOSTILE}.whl", *files, (HOSTILE, b""), ("d.dist-info/RECORD", HOSTILE.encode()))

    assert main(["inspect", str(path)]) == 1

    assert_harmless(capsys.readouterr().out)


def run_cache(kernels: Kernels, *words: str) -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="cache_command", required=True)
    for name, each in cache_commands.COMMANDS.items():
        each.declare(commands.add_parser(name))
    args = parser.parse_args(words)
    return finish("tiny", lambda: cache_commands.COMMANDS[args.cache_command].run(args, kernels))


def test_cache_import_of_a_wheel(tiny_checkout: Path, tmp_path: Path, capsys: Captured) -> None:
    path = wheel(tmp_path / "w.whl", (f"{HOSTILE}/_native/manifest.json", b"{}"))

    assert run_cache(kernels_of(tiny_checkout, tmp_path / "cache"), "import", str(path)) == 1

    said = capsys.readouterr().err
    assert [line for line in said.split("\n") if not line.isprintable() or line == LINE] == []


@pytest.mark.parametrize("words", [["list"], ["explain"], ["verify"], ["prune", "--older-than", "0"]])
def test_a_cache_in_a_folder_of_such_a_name(
    tiny_checkout: Path, entry: Path, tmp_path: Path, words: list[str], capsys: Captured
) -> None:
    cache = tmp_path / OWN
    stored = fill(Store(cache, "tiny", "1.2.3"), entry)
    library = stored.folder / "libtiny_cpu.so"
    library.write_bytes(library.read_bytes()[:-1])
    (cache / "tiny" / HOSTILE).mkdir()
    (cache / "tiny" / ".build" / HOSTILE).mkdir(parents=True)

    run_cache(kernels_of(tiny_checkout, cache), *words)

    said = "".join(capsys.readouterr())
    assert [line for line in said.split("\n") if not line.isprintable() or line == LINE] == []


def test_doctor(native: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    second = tmp_path / HOSTILE / "tiny/__init__.py"  # installed twice, which is a finding
    second.parent.mkdir(parents=True)
    second.touch()
    monkeypatch.setenv("LD_PRELOAD", HOSTILE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(native.parents[1]), str(tmp_path / HOSTILE)])
    kernels = Kernels("tiny", "1.2.3", native, {"TINY_CACHE_DIR": str(tmp_path / OWN)})

    assert finish("tiny", lambda: doctor.run(argparse.Namespace(json=False), kernels)) == 1

    assert_harmless(capsys.readouterr().out)


def raise_error() -> NoReturn:
    raise BuildError(f"{HOSTILE} failed", required=HOSTILE, found=HOSTILE, remedies=[HOSTILE])


def raise_system_error() -> NoReturn:
    raise FileNotFoundError(2, "No such file", HOSTILE)


@pytest.mark.parametrize("act", [raise_error, raise_system_error])
def test_errors(act: Callable[[], NoReturn], capsys: Captured) -> None:
    assert finish("tiny", act) == 1

    assert_harmless(capsys.readouterr().err)


@pytest.mark.slow
def test_an_error_that_nobody_catches() -> None:
    script = (
        "import sys; from kernelwheel.runtime.errors import BuildError; text = sys.argv[1]\n"
        "raise BuildError(text + ' failed', required=text, found=text, remedies=[text])"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", script, HOSTILE], capture_output=True, env=environ, check=False)

    assert_harmless(done.stderr.decode())


def test_progress(capsys: Captured) -> None:
    progress.printer("tiny")(f"waiting for {HOSTILE}")

    said = capsys.readouterr().err
    assert [line for line in said.split("\n") if not line.isprintable() or line == LINE] == []


@pytest.mark.parametrize(
    ("text", "kept", "shown"),
    [
        ("Größe 10 €", "", "Größe 10 €"), ("a\tb\nc", "\n\t", "a\tb\nc"), ("a\tb\nc", "", "a\\tb\\nc"),
        ("\x1b[31m\x9b\x7f\x00", "", "\\x1b[31m\\x9b\\x7f\\x00"),
        ("\u202e\u2066\u200f\u2028\ufeff", "", "\\u202e\\u2066\\u200f\\u2028\\ufeff"), ("\udc80", "", "\\udc80"),
    ],
)  # fmt: skip
def test_what_does_not_print_is_escaped(text: str, kept: str, shown: str) -> None:
    assert printable(text, kept) == shown


def test_what_an_output_s_encoding_lacks_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python gives a file or a pipe the encoding of the system's language, on Windows one of 256 characters."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "cp1252", newline=""))

    assert finish("tiny", lambda: print("Größe → 10 €") or 0) == 0

    assert sys.stdout.buffer.getvalue() == "Größe \\u2192 10 €\n".encode("cp1252")


@pytest.mark.parametrize("words", [("adopt", OWN), ("inspect", OWN), (OWN,)])
def test_wrong_usage(words: tuple[str, ...], capsys: Captured) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)

    assert_harmless(capsys.readouterr().err)
