"""A real entry of tiny, compiled once in a session, and copies of it in stores."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from kernelwheel.runtime import Kernels
from kernelwheel.runtime.artifact import manifest as manifests
from kernelwheel.runtime.artifact.artifact import Artifact
from kernelwheel.runtime.decision.carry_out import find
from kernelwheel.runtime.store.store import Store
from kernelwheel.runtime.store.store_lock import making
from kernelwheel.store import build_ahead, publishing
from samples import Values, rewrite_manifest


def compile_entry(checkout: Path, cache: Path) -> Path:
    """The folder of the entry that tiny's CPU kernels get in a cache, compiled now."""
    return build_cpu(kernels_of(checkout, cache)).folder


def build_cpu(kernels: Kernels) -> Artifact:
    """What `cache build` finds or makes of CPU kernels."""
    request = build_ahead.build_request(kernels.installed, False, "")
    return build_ahead.build(kernels.installed, kernels.host, request, "")[0]


def find_cpu(kernels: Kernels) -> Artifact | None:
    """What `cache build` would find of CPU kernels."""
    request = build_ahead.build_request(kernels.installed, False, "")
    return find(kernels.installed, kernels.host, request, Artifact.verify).artifact


def kernels_of(checkout: Path, cache: Path, **environ: str) -> Kernels:
    """tiny's kernels, as in an editable install of a checkout."""
    return Kernels("tiny", "1.2.3", checkout / "tiny" / "_native", {"TINY_CACHE_DIR": str(cache), **environ})


def fill(store: Store, entry: Path) -> Artifact:
    """Put a copy of an entry into a store, for the store's own package and version, as a maker does."""
    return publish(store, entry, lambda values: None)


def publish(store: Store, entry: Path, change: Callable[[Values], object]) -> Artifact:
    """The same, with its manifest changed."""

    def change_all(values: Values) -> None:
        values["plan"]["content"].update(package=store.package, version=store.version)
        change(values)

    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch)
        values = rewrite_manifest(entry, change_all, made)
        for library in values["libraries"]:
            shutil.copy(entry / library["file"], made)

        def make(folder: Path) -> None:
            for path in made.iterdir():
                shutil.copy(path, folder)

        with making(store, lambda maker: None):
            return publishing.publish(store, values["fingerprint"], make)


def relabel(store: Store, entry: Path, *, cxx_version: str | None = None, days: float = 0.0) -> Path:
    """Put a copy of an entry into a store as another version or another compiler makes it, so many days ago."""

    def change(values: Values) -> None:
        if cxx_version:
            values["plan"]["tools"]["cxx"]["version"] = cxx_version

    made = publish(store, entry, change).folder
    then = (made / manifests.FILE).stat().st_mtime - days * 86400
    os.utime(made / manifests.FILE, (then, then))
    return made
