"""`cache`: what each subcommand prints, its JSON, its exit status, and what it does to the store."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from builds import TORCH, contents, needs_cpu_torch, needs_cuda_torch
from editables import SMALL, make_editable
from kept import fill, kernels_of, relabel
from kernelwheel.cli import cache_commands
from kernelwheel.project import arch_choice
from kernelwheel.runtime import Kernels
from kernelwheel.runtime.commands.exit_status import finish
from kernelwheel.runtime.store.store import Store
from kernelwheel.runtime.store.store_lock import making
from kernelwheel.store import content_changes
from samples import flip

Copy = Callable[[], Path]


@dataclass
class Cache:
    """The `cache` command of tiny on one cache folder."""

    checkout: Path
    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def store(self) -> Store:
        return Store(self.folder, "tiny", "1.2.3")

    def kernels(self, **environ: str) -> Kernels:
        return kernels_of(self.checkout, self.folder, **environ)

    def run(self, *words: object, **environ: str) -> tuple[int, str, str]:
        """Run it; returns the exit status, standard output and standard error."""
        parser = argparse.ArgumentParser(prog="tiny cache")
        commands = parser.add_subparsers(dest="cache_command", required=True)
        for name, each in cache_commands.COMMANDS.items():
            each.declare(commands.add_parser(name))
        self.capsys.readouterr()
        try:
            args = parser.parse_args([str(word) for word in words])
            command = cache_commands.COMMANDS[args.cache_command]
            status = finish("tiny", lambda: command.run(args, self.kernels(**environ)))
        except SystemExit as stop:
            status = int(stop.code or 0)
        out, err = self.capsys.readouterr()
        return status, out, err

    def json(self, *words: object, **environ: str) -> tuple[int, dict[str, Any]]:
        status, out, _ = self.run(*words, "--json", **environ)
        view: dict[str, Any] = json.loads(out)
        return status, view


@pytest.fixture
def cache(tiny_checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cache:
    """An empty cache."""
    return Cache(tiny_checkout, tmp_path / "cache", capsys)


@pytest.fixture
def filled(cache: Cache, entry: Path) -> Cache:
    """A cache with the real entry of tiny 1.2.3."""
    fill(cache.store, entry)
    return cache


def install(folder: Path, entry: Path, checkout: Path) -> Kernels:
    """tiny with a wheel's Artifact, as installed by pip: the entry's files and the sources."""
    native = folder / "site" / "tiny" / "_native"
    native.mkdir(parents=True)
    for name in ("manifest.json", "libtiny_cpu.so"):
        shutil.copy(entry / name, native)
    shutil.copytree(checkout / "native", native / "src")
    return Kernels("tiny", "1.2.3", native, {"TINY_CACHE_DIR": str(folder / "cache")})


# list and path


def test_an_empty_store_has_nothing_in_it(cache: Cache) -> None:
    status, out, _ = cache.run("list")

    assert status == 0
    assert out == f"{cache.folder}\n  nothing\n"
    assert not cache.folder.exists()


@needs_cpu_torch
def test_list_shows_what_fits_and_what_does_not_and_why(filled: Cache, entry: Path) -> None:
    foreign = fill(Store(filled.folder, "tiny", "1.2.2"), entry)
    relabel(filled.store, entry, cxx_version="99.1", days=3)
    three_days_ago = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 3 * 86400))

    status, out, _ = filled.run("list")
    folder, old, *now = out.splitlines()

    assert status == 0
    assert folder == str(filled.folder)
    made = time.strftime("%Y-%m-%d", time.gmtime())
    assert old.startswith(f"  1.2.2  {foreign.folder.name[:12]}  ")
    assert old.endswith(f"  {made}  CPU  does not fit: version")
    assert next(line for line in now if entry.name[:12] in line).endswith("CPU  fits")
    assert next(line for line in now if three_days_ago in line).endswith("fits")


def test_list_json_has_every_entry_of_every_store(filled: Cache, entry: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    fill(Store(shared, "tiny", "1.2.3"), entry)

    status, view = filled.json("list", TINY_CACHE_PATH=str(shared))

    assert status == 0
    assert [(store["folder"], store["own"]) for store in view["stores"]] == [
        (str(shared), False),
        (str(filled.folder), True),
    ]
    for store in view["stores"]:
        (shown,) = store["entries"]
        assert (shown["fingerprint"], shown["version"], shown["damage"]) == (entry.name, "1.2.3", None)
        assert shown["fits"] == (TORCH.cuda is None)
        assert [mismatch["dimension"] for mismatch in shown["mismatches"]] == ([] if TORCH.cuda is None else ["cuda"])


def test_path_is_the_folder_that_the_setting_names(cache: Cache) -> None:
    assert cache.run("path") == (0, f"{cache.folder}\n", "")
    assert cache.json("path") == (0, {"path": str(cache.folder), "version": str(cache.store.root)})


# build


@pytest.mark.slow
def test_build_compiles_what_is_missing_and_then_nothing(cache: Cache, tmp_path: Path) -> None:
    cache.checkout = make_editable(tmp_path, SMALL).checkout
    status, first = cache.json("build", "--cuda", "off")
    again, out, err = cache.run("build", "--cuda", "off")

    assert (status, again) == (0, 0)
    assert first["compiled"] is True
    assert Path(first["folder"]).parent == cache.store.root
    assert out == f"nothing to compile, a store has it: CPU\n{first['folder']}\n"
    assert err == ""


@pytest.mark.slow
@needs_cpu_torch
def test_build_of_cuda_kernels_beside_a_cpu_torch_says_why_not(cache: Cache) -> None:
    status, out, err = cache.run("build", "--cuda", "on")

    assert status == 1
    assert out == ""
    assert TORCH.version in err
    assert "to fix" in err


@pytest.mark.minutes
@pytest.mark.slow
@needs_cuda_torch
def test_build_makes_the_architectures_that_are_asked_for_and_knows_what_covers_them(cache: Cache) -> None:
    status, made = cache.json("build", "--archs", "8.0")
    assert status == 0
    assert made["compiled"] is True
    assert made["kernels"].endswith("SASS 8.0, PTX none")

    # A cubin runs on later minor revisions of its major (CUDA C++ Programming Guide, "Binary Compatibility").
    for covered in ("8.0", "8.6", "8.0;8.9"):
        status, view = cache.json("build", "--archs", covered)
        assert (status, view["compiled"], view["folder"]) == (0, False, made["folder"])

    status, view = cache.json("explain", "--archs", "9.0+PTX")
    assert status == 1
    assert view["differences"]["target.cuda.sass"] == "8.0 -> 9.0"
    assert view["differences"]["target.cuda.ptx"] == "none -> 9.0"
    (candidate,) = view["candidates"]
    assert [mismatch["dimension"] for mismatch in candidate["mismatches"]] == ["archs"]


COVERAGE = {
    "the same": ("8.0;9.0", "8.0;9.0+PTX", True),
    "a later revision": ("8.6", "8.0", True),
    "another generation": ("9.0", "8.0+PTX", False),
    "PTX of the same": ("9.0+PTX", "9.0+PTX", True),
    "PTX of an earlier": ("9.0+PTX", "8.0+PTX;9.0", True),
    "no PTX": ("9.0+PTX", "9.0", False),
    "no feature suffix": ("9.0a", "9.0", False),
    "one of two": ("8.0;12.0", "8.0", False),
}


@pytest.mark.parametrize(("wanted", "made", "covered"), COVERAGE.values(), ids=COVERAGE)
def test_what_covers_an_architecture_list(wanted: str, made: str, covered: bool) -> None:
    assert arch_choice.parse(wanted, "a test").covered_by(*arch_choice.parse(made, "a test")) is covered


# explain


def test_explain_of_an_empty_store_says_that_there_is_nothing(cache: Cache) -> None:
    status, out, _ = cache.run("explain", "--cuda", "off")

    assert status == 1
    assert out.startswith("CPU kernels: not found\n")
    assert "no entries of any version" in out


def test_explain_of_what_is_there_says_where(filled: Cache, entry: Path) -> None:
    status, out, _ = filled.run("explain", "--cuda", "off")

    assert status == 0
    assert out.startswith(f"CPU kernels: in {filled.store.root / entry.name}\n")


def test_explain_names_the_nearest_entry_and_what_differs(cache: Cache, entry: Path, checkout: Copy) -> None:
    """Of two entries, the one whose Plan differs less is nearer; changed sources are counted and named."""
    cache.checkout = checkout()
    fill(cache.store, entry)
    relabel(cache.store, entry, cxx_version="1.0")
    native = cache.checkout / "native"
    (native / "twice.h").write_text((native / "twice.h").read_text() + "// edited\n")
    (native / "new.h").write_text("// new\n")

    status, out, _ = cache.run("explain", "--cuda", "off")
    _, view = cache.json("explain", "--cuda", "off")

    assert status == 1
    assert view["nearest"] == str(cache.store.root / entry.name)
    assert view["differences"] == {"content.sources": "1 file changed: twice.h; 1 file added: new.h"}
    assert (
        f"nearest: {cache.store.root / entry.name}\n  content.sources: 1 file changed: twice.h; 1 file added: new.h\n"
        in out
    )
    assert out.count("  sources: required kernels built from sources") == 2


def test_explain_without_a_compiler_goes_by_mismatches_and_says_why(
    filled: Cache, entry: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.move(filled.store.root, filled.store.root.with_name("1.2.2"))
    monkeypatch.setenv("PATH", str(tmp_path))

    status, out, _ = filled.run("explain", "--cuda", "off")
    _, view = filled.json("explain", "--cuda", "off")

    assert status == 1
    assert "no C++ compiler" in view["no_plan"]
    assert (view["nearest"], view["differences"]) == (None, {})
    assert "nothing can be compiled here:\n  no C++ compiler" in out
    assert len(view["candidates"]) == 1


TOOLKIT = {"version": "13.0.88", "nvcc": "1" * 64, "cccl": "a" * 64}
HAD = {
    "version": "1.2.2",
    "sources": {"CMakeLists.txt": "0" * 64, "gone.cu": "1" * 64, "kept.cu": "2" * 64},
    "cxx": {"kind": "gcc", "version": "12.2.0"},
    "options": {"cxx-flags": []},
    "cuda": {"sass": ["8.0", "9.0"], "ptx": []},
    "toolkit": TOOLKIT,
}
CHANGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "the compiler": ({"cxx": {"kind": "gcc", "version": "13.1"}}, ["cxx.version: 12.2.0 -> 13.1"]),
    "many files": (
        {"sources": {**HAD["sources"], **{f"{n}.cu": "3" * 64 for n in range(7)}}},  # type: ignore[dict-item]
        ["sources: 7 files added: 0.cu, 1.cu, 2.cu, 3.cu, 4.cu, and 2 more"],
    ),
    "CCCL": (
        {"toolkit": {**TOOLKIT, "cccl": "b" * 64}},
        ["toolkit.cccl: aaaaaaaaaaaa -> bbbbbbbbbbbb"],
    ),
    "no CUDA": ({"cuda": None, "toolkit": None}, ["cuda: SASS 8.0 9.0 -> none", "toolkit: 13.0.88 -> none"]),
    "a field of a newer schema": ({"linker": "mold"}, ["linker: none -> mold"]),
}  # fmt: skip


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_two_plans_are_compared_field_by_field(change: dict[str, Any], said: list[str]) -> None:
    assert [f"{name}: {what}" for name, what in content_changes.differences(HAD, {**HAD, **change}).items()] == said


# verify, prune, clear


def test_verify_says_in_words_what_it_did(filled: Cache, entry: Path) -> None:
    flip(filled.store.root / entry.name / "libtiny_cpu.so")

    status, out, _ = filled.run("verify")

    assert status == 1
    assert out.startswith(f"0 of 1 entries are intact\ndamaged: {filled.store.root / entry.name}\n")
    assert f"  moved to {filled.store.root / '.quarantine'}" in out
    assert filled.json("verify") == (0, {"checked": 0, "damaged": [], "refused": []})


def test_prune_by_age_counts_days_in_all_versions(filled: Cache, entry: Path) -> None:
    old = relabel(filled.store, entry, cxx_version="99.1", days=10.5)
    fill(Store(filled.folder, "tiny", "1.2.2"), entry)

    assert filled.json("prune", "--older-than", "11")[1]["removed"] == []
    status, view = filled.json("prune", "--older-than", "10")
    assert status == 0
    assert [(removed["path"], removed["because"]) for removed in view["removed"]] == [(str(old), "made 10 days ago")]


def test_prune_without_options_removes_other_versions_alone(filled: Cache, entry: Path) -> None:
    old = fill(Store(filled.folder, "tiny", "1.2.2"), entry)
    relabel(filled.store, entry, cxx_version="99.1", days=1000)

    status, out, _ = filled.run("prune")

    assert status == 0
    assert out.splitlines()[0].startswith(f"{old.folder}  0.0")
    assert out.splitlines()[-1].startswith("freed 0.0")
    assert len(filled.json("list")[1]["stores"][0]["entries"]) == 2


def test_a_store_that_somebody_makes_an_entry_in_is_left_alone_and_that_is_a_finding(filled: Cache) -> None:
    with making(filled.store, print):
        status, out, _ = filled.run("clear")

    assert status == 1
    assert "left alone: version 1.2.3: in use by another process" in out
    assert filled.run("verify")[1] == "1 of 1 entries are intact\n"


# export and import


def test_what_is_exported_can_be_imported_and_is_the_same(
    filled: Cache, entry: Path, tmp_path: Path, tiny_checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kernels.tar"
    other = Cache(tiny_checkout, tmp_path / "other", capsys)

    status, exported = filled.json("export", file)
    assert (status, exported["fingerprint"], exported["size"]) == (0, entry.name, file.stat().st_size)
    status, imported = other.json("import", file)

    assert status == 0
    assert imported["folder"] == str(other.store.root / entry.name)
    assert contents(Path(imported["folder"])) == contents(filled.store.root / entry.name)
    assert other.json("build", "--cuda", "off")[1]["compiled"] is False


def test_the_wheel_s_artifact_is_exported_where_it_is_in_use(
    cache: Cache, entry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = install(tmp_path, entry, cache.checkout)
    file = tmp_path / "kernels.tar"
    with monkeypatch.context() as patch:
        patch.setattr(cache, "kernels", lambda: kernels)
        status, out, err = cache.run("export", file)
    assert (status, err) == (0, "")
    assert out.startswith(f"{file}: CPU, ")

    assert cache.json("import", file)[1]["fingerprint"] == entry.name


def test_an_entry_is_exported_by_the_start_of_its_fingerprint(filled: Cache, entry: Path, tmp_path: Path) -> None:
    other = relabel(filled.store, entry, cxx_version="99.1")
    file = tmp_path / "kernels.tar"

    assert filled.json("export", file, "--fingerprint", other.name[:12])[1]["fingerprint"] == other.name
    status, out, err = filled.run("export", file, "--fingerprint", "0123456789ab")

    assert (status, out) == (1, "")
    assert "nothing to export" in err
    assert other.name[:12] in err
    assert entry.name[:12] in err


def test_a_file_that_cannot_be_written_is_a_finding(filled: Cache, tmp_path: Path) -> None:
    status, out, err = filled.run("export", tmp_path / "no" / "such" / "folder.tar")

    assert (status, out) == (1, "")
    assert "cannot be written" in err


# Wrong usage, wrong settings


WRONG = {
    "no subcommand": [],
    "an architecture that is none": ["build", "--archs", "banana"],
    "an age below 0": ["prune", "--older-than", "-1"],
    "an age that is no number": ["prune", "--older-than", "nan"],
    "no fingerprint": ["export", "x.tar", "--fingerprint", "xyz"],
    "no file": ["import", "/no/such/file"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_wrong_usage_has_exit_status_2_and_does_nothing(filled: Cache, words: list[str]) -> None:
    before = contents(filled.folder)

    status, out, err = filled.run(*words)

    assert (status, out) == (2, "")
    assert "usage:" in err
    assert contents(filled.folder) == before


def test_a_setting_that_cannot_be_read_is_a_finding_that_names_it(cache: Cache) -> None:
    status, out, err = cache.run("list", TINY_JIT="sometimes")

    assert (status, out) == (1, "")
    assert "TINY_JIT" in err
