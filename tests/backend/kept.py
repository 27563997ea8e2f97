"""A real entry of tiny, compiled once in a session, and copies of it in stores."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from kernelwheel import manifest as manifests
from kernelwheel import serving
from kernelwheel.digests import json_sha256
from kernelwheel.runtime import Kernels
from kernelwheel.store import Entry, Store


def compile_entry(checkout: Path, cache: Path) -> Path:
    """The folder of the entry that tiny's CPU kernels get in a cache, compiled now."""
    kernels = kernels_of(checkout, cache)
    return serving.build(kernels, cuda=False, archs="", say=lambda line: None).folder


def kernels_of(checkout: Path, cache: Path, **environ: str) -> Kernels:
    """tiny's kernels, as in an editable install of a checkout."""
    return Kernels("tiny", "1.2.3", checkout / "tiny" / "_native", {"TINY_CACHE_DIR": str(cache), **environ})


def fill(store: Store, entry: Path) -> Entry:
    """Put a copy of an entry into a store, for the store's own package and version, as a maker does."""
    manifest = manifests.read(entry)
    assert manifest is not None
    values = json.loads((entry / manifests.FILE).read_text())
    values.update(package=store.package, version=store.version)

    def make(folder: Path) -> None:
        for library in manifest.libraries:
            shutil.copy(entry / library.file, folder)
        (folder / manifests.FILE).write_text(json.dumps(values))

    with store.making(lambda maker: None):
        return store.publish(entry.name, make)


def relabel(
    store: Store, entry: Path, *, cxx_version: str | None = None, fingerprint: str | None = None, days: float = 0.0
) -> Path:
    """Put a copy of an entry into a store as another version or another compiler makes it, so many days ago."""
    values = json.loads((entry / manifests.FILE).read_text())
    values["version"] = values["plan"]["version"] = store.version
    values["plan"]["cxx"]["version"] = cxx_version or values["plan"]["cxx"]["version"]
    values["fingerprint"] = fingerprint or json_sha256(values["plan"])
    manifest = manifests.read(entry)
    assert manifest is not None

    def make(folder: Path) -> None:
        for library in manifest.libraries:
            shutil.copy(entry / library.file, folder)
        (folder / manifests.FILE).write_text(json.dumps(values))

    with store.making(lambda maker: None):
        made = store.publish(values["fingerprint"], make).folder
    age(made, days)
    return made


def age(entry: Path, days: float) -> None:
    """Make an entry look as if it had been made so many days ago."""
    file = entry / manifests.FILE
    then = file.stat().st_mtime - days * 86400
    os.utime(file, (then, then))
