"""A Decision is carried out with what is in real stores, and predicted without changing them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.artifact.manifest import FILE
from kernelwheel.runtime.decision.carry_out import find, predict
from kernelwheel.runtime.decision.decision import Request
from kernelwheel.runtime.decision.snapshot import InstalledPackage, Sources
from kernelwheel.runtime.errors import IncompatibleArtifactError, KernelWheelError, UnreadableArtifactError
from kernelwheel.runtime.store.store import Store
from kernelwheel.store import manifest_file
from samples import CPU_LIBRARY, CUDA_LIBRARY, HOST, sample

REQUEST = Request("cuda")
MANIFEST = sample(CPU_LIBRARY, CUDA_LIBRARY)
OPTIONS = {"CXXFLAGS": "'-DA=x y'", "CUDAFLAGS": "-lineinfo"}  # those of the manifest


def write(folder: Path) -> Path:
    """A folder with the manifest of kernels that fit."""
    folder.mkdir(parents=True, mode=0o700)
    (folder / FILE).write_bytes(manifest_file.signed(MANIFEST.to_json()))
    return folder


def make(folder: Path, own: bool = True) -> tuple[InstalledPackage, Path]:
    """A package without a wheel, and the entry that a store has for it."""
    cache = folder / "cache"
    cache.mkdir(mode=0o700)
    where = {"TINY_CACHE_DIR": str(cache if own else folder / "other"), "TINY_CACHE_PATH": "" if own else str(cache)}
    package = InstalledPackage("tiny", "1.2.3", folder / "none", {**where, **OPTIONS})
    package.source = Sources(MANIFEST.content, folder, {})
    return package, write(Store(cache, "tiny", "1.2.3").root / MANIFEST.fingerprint)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("fault", [IncompatibleArtifactError, UnreadableArtifactError])
def test_what_comes_of_an_entry_whose_files_are_wrong(fault: type[KernelWheelError], own: bool, tmp_path: Path) -> None:
    package, entry = make(tmp_path, own)

    def refuse(artifact: Artifact) -> None:
        raise fault("trouble", required="none", found="some", remedies=["fix it"])

    expected = predict(package.read(HOST), REQUEST, refuse)
    assert entry.exists()
    if own and fault is IncompatibleArtifactError:
        assert expected.outcome == find(package, HOST, REQUEST, refuse).outcome == "compile"
        assert not entry.exists(), "it is in quarantine"
    else:
        assert expected.outcome == "fail"
        with pytest.raises(fault, match="some"):
            find(package, HOST, REQUEST, refuse)
        assert entry.exists()


@pytest.mark.parametrize("own", [True, False])
def test_what_comes_of_an_entry_whose_manifest_is_damaged(own: bool, tmp_path: Path) -> None:
    package, entry = make(tmp_path, own)
    (entry / FILE).write_text("{")

    expected = predict(package.read(HOST), REQUEST, Artifact.verify)
    assert entry.exists()
    if own:
        assert find(package, HOST, REQUEST, Artifact.verify).outcome == expected.outcome == "compile"
        assert not entry.exists(), "it is in quarantine"
    else:
        with pytest.raises(IncompatibleArtifactError, match="TINY_CACHE_PATH") as caught:
            find(package, HOST, REQUEST, Artifact.verify)
        assert expected.error
        assert str(caught.value) == str(expected.error)


def test_an_entry_is_not_used_where_nothing_says_of_what_it_must_be(tmp_path: Path) -> None:
    """As in a copy of a package's Python files, beside the store of an installed one."""
    package, _ = make(tmp_path)
    package.source = None

    with pytest.raises(IncompatibleArtifactError, match="no sources are installed"):
        find(package, HOST, REQUEST, lambda _: None)


def test_a_wheel_that_fits_is_used_without_a_look_at_settings_and_stores(tmp_path: Path) -> None:
    package = InstalledPackage("tiny", "1.2.3", write(tmp_path / "_native"), {"TINY_CUDDA": "on"})

    assert find(package, HOST, REQUEST, lambda _: None).outcome == "load"
    elsewhere = HOST._replace(capabilities=((8, 0),))
    assert "and unknown environment variable" in predict(package.read(elsewhere), REQUEST, lambda _: None).because
