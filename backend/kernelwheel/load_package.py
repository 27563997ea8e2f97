"""What a call of `load` describes: an extension in a package of its own, which is installed nowhere."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .flag_words import with_headers
from .load_flags import Call, sort_flags
from .load_sources import INLINE, Tree, gather
from .runtime.compatible import Mismatch
from .runtime.files import json_sha256
from .runtime.settings import Origin, Settings
from .runtime.snapshot import InstalledPackage
from .runtime.sources import Sources
from .source_language import CUDA_SUFFIX, SOURCES
from .version import LOADED, OLDEST_TORCH

# What makes a module of sources that only register operators, but include Python's headers.
_EMPTY_MODULE = """#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME"};
PyMODINIT_FUNC PyInit_NAME() { return PyModule_Create(&definition); }
"""


class Described(InstalledPackage):
    """The package that a call stands for: one extension, and its files, which are written where they are compiled.

    Attributes:
        extension: the fields of project/extension.py's Extension, as JSON values, as in a content.
    """

    def __init__(self, call: Call, texts: Mapping[str, bytes]) -> None:
        """Raises a SettingsError if the arguments are not right."""
        environ = {**os.environ, "VERBOSE": "1"} if call.verbose else os.environ  # as CMake reads it
        super().__init__(f"kernelwheel.{call.name}", LOADED, Path(INLINE), environ)
        settings = Settings.resolve(self.package, {}, self.environ)
        self.tree, self.extension = _extension(call, texts)
        if self.extension["archs"]:
            settings = settings.changed("archs", self.extension["archs"], Origin("extra_cuda_cflags"))
        if call.build_directory:
            folder = str(Path(call.build_directory).absolute())
            settings = settings.changed("cache-dir", folder, Origin("build_directory"))
        about = {"package": self.package, "version": LOADED, "abi": "stable", "torch_target": OLDEST_TORCH}
        content = {**about, "sources": _digests(self.tree), "extensions": [self.extension], "options": {}}
        self.settings, self.source = settings, Sources(content, Path(INLINE), {})

    @property
    def cuda(self) -> bool:
        """Whether it is compiled with CUDA."""
        return bool(self.extension["cuda"] == "required")

    def _read(self) -> None:
        """There is no wheel."""

    def no_artifact(self) -> Mismatch:
        """What stands for the wheel's mismatches."""
        remedy = "set KERNELWHEEL_JIT to auto, or compile it before: kernelwheel.prepare"
        return Mismatch("artifact", "an entry with this content", "no store has this content", remedy)

    def read_sources_again(self) -> None:
        """Write the files where the compiler takes them from, and say why; called once the store is locked."""
        # imported only if needed, to keep a warm start fast
        from .cli.loaded import changes, last_entries
        from .runtime.progress import printer
        from .runtime.store_lock import mark

        assert self.source
        for last in last_entries(self)[-1:]:
            wanted = self.wanted.content or last.manifest.content
            printer(self.package)(f"since the last compile: {changes(last.manifest.content, wanted)}")
        self.remove_sources()
        folder = Path(tempfile.mkdtemp(prefix="sources-", suffix=mark(), dir=self.own_store().root / ".work"))
        self.source = self.source._replace(folder=folder)
        for name, text in self.tree.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)

    def remove_sources(self) -> None:
        """Remove these files."""
        if self.source and self.source.folder != Path(INLINE):
            shutil.rmtree(self.source.folder, ignore_errors=True)


def _extension(call: Call, texts: Mapping[str, bytes]) -> tuple[Tree, dict[str, Any]]:
    """What is compiled."""
    cuda_files = [path for path in texts if path.endswith(CUDA_SUFFIX)]
    cuda = bool(cuda_files) if call.with_cuda is None else call.with_cuda
    if cuda_files and not cuda:
        raise call.refusal("with_cuda", "True or None, with CUDA files", f"False, with {', '.join(cuda_files)}")
    flags = sort_flags(call, cuda)
    tree = gather(texts, flags, cuda)
    kind = "module" if call.wants_module else "operators" if call.abi == "stable" else "torch-library"
    if kind == "torch-library" and any(map(_is_of_python, tree.headers)):
        kind = "module"

    def copied(_: str, path: str, __: bool) -> str | None:
        return f"{SOURCES}/{name}" if (name := tree.names.get(path, "")) else None if name is None else path

    cxx, for_nvcc = with_headers(flags.cxx, copied), with_headers(flags.cuda, copied)
    unique = call.name
    if call.unique_namespace:
        decides = [_digests(tree), tree.include_dirs, cxx, for_nvcc, flags.link, flags.archs]
        unique += f"_{json_sha256(decides)[:12]}"
    if kind == "module" and not call.wants_module and not any(map(_has_module, tree.files.values())):
        made = {"empty_module.cpp": _EMPTY_MODULE.replace("NAME", unique).encode()}
        tree = tree._replace(files={**tree.files, **made}, sources=[*tree.sources, *made])
    return tree, {
        "name": unique,
        "kind": kind,
        "cuda": "required" if cuda else "none",
        "sources": tree.sources,
        "cuda_sources": [],
        "include_dirs": tree.include_dirs,
        "define": [],
        "cuda_define": [],
        "cxx_flags": cxx,
        "cuda_flags": for_nvcc,
        "file_flags": {},
        "link_flags": flags.link,
        "libraries": flags.libraries,
        "archs": flags.archs,
        "exclude": [],
        "by_path": False,
    }


def _digests(tree: Tree) -> dict[str, str]:
    return {name: hashlib.sha256(text).hexdigest() for name, text in tree.files.items()}


def _is_of_python(header: str) -> bool:
    """Whether a header needs Python's own, and so a library for one Python."""
    if header.startswith("torch/csrc/"):
        return "python" in header
    return header in ("Python.h", "torch/extension.h", "torch/python.h") or header.startswith("pybind11/")


def _has_module(text: bytes) -> bool:
    return any(each in text for each in (b"PYBIND11_MODULE", b"PyMODINIT_FUNC", b"PyInit_"))
