"""What a call of `load` describes: an extension in a package of its own, which is installed nowhere."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from .load_flags import refusal, translate
from .load_sources import INLINE, Tree, gather
from .project.extension import CUDA_SUFFIX, Extension, Kind, to_json
from .project.package import OLDEST_TORCH, make_content
from .runtime.errors import printable
from .runtime.files import json_sha256
from .runtime.installed import InstalledPackage
from .runtime.progress import print_line
from .runtime.settings import Origin, Settings
from .runtime.sources import Sources

Abi = Literal["torch", "stable"]
VERSION = "0"  # of all these packages: they differ in their content
# Headers that need Python's own, and so a library for one Python.
_OF_PYTHON = re.compile(r"Python\.h|pybind11/.*|torch/(extension|python)\.h|torch/csrc/.*python.*")
_MODULE = re.compile(rb"\bPYBIND11_MODULE\b|\bPyMODINIT_FUNC\b|\bPyInit_")
# What makes a module of sources that only register operators, but include Python's headers.
_EMPTY_MODULE = """#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME"};
PyMODINIT_FUNC PyInit_NAME() { return PyModule_Create(&definition); }
"""


class Call(NamedTuple):
    """The arguments of a call that say what to do with its sources."""

    name: str
    cflags: tuple[str, ...]
    cuda_cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    include_paths: tuple[str, ...]
    build_directory: str | None
    verbose: bool
    with_cuda: bool | None
    is_python_module: bool
    abi: Abi
    unique_namespace: bool
    only_compile: bool


class Described(InstalledPackage):
    """The package that a call stands for: one extension, and its files, which are written where they are compiled."""

    def __init__(self, call: Call, texts: Mapping[str, bytes]) -> None:
        """Raises a SettingsError if the arguments are not right."""
        super().__init__(f"kernelwheel.{call.name}", VERSION, Path(INLINE), os.environ)
        self.tree, self.extension = _extension(call, texts)
        settings = Settings.resolve(self.package, {}, self.environ)
        if self.extension.archs:
            settings = settings.changed("archs", self.extension.archs, Origin("extra_cuda_cflags"))
        if call.build_directory:
            folder = str(Path(call.build_directory).absolute())
            settings = settings.changed("cache-dir", folder, Origin("build_directory"))
        sources = {name: hashlib.sha256(text).hexdigest() for name, text in self.tree.files.items()}
        content = make_content(self.package, VERSION, sources, "stable", OLDEST_TORCH, [to_json(self.extension)], {})
        vars(self).update(settings=settings, source=Sources(content, Path(INLINE), {}))

    def _read(self) -> None:
        """There is no wheel."""

    def read_sources_again(self) -> None:
        """Write the files where the compiler takes them from, and say why; called once the store is locked."""
        # imported only if needed, to keep a warm start fast
        from .cli.loaded import changes, last_entries
        from .runtime.store_lock import mark

        assert self.source
        for last in last_entries(self)[-1:]:
            changed = changes(last.manifest.content, self.source.content)
            print_line(f"{self.package}: since the last compile: {printable(changed)}")
        self.remove_sources()
        folder = Path(tempfile.mkdtemp(prefix="sources-", suffix=mark(), dir=self.own_store().root / ".work"))
        vars(self).update(source=self.source._replace(folder=folder))
        for name, text in self.tree.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text)

    def remove_sources(self) -> None:
        """Remove these files."""
        if self.source and self.source.folder != Path(INLINE):
            shutil.rmtree(self.source.folder, ignore_errors=True)


def _extension(call: Call, texts: Mapping[str, bytes]) -> tuple[Tree, Extension]:
    """What is compiled."""
    name = call.name
    if not (isinstance(name, str) and name.isidentifier() and name.isascii() and len(name) < 80):
        raise refusal(str(name), "name", "an identifier, of less than 80 letters, digits and _", repr(name))
    if call.abi not in ("torch", "stable"):
        raise refusal(name, "abi", "torch or stable", repr(call.abi))
    cuda_files = [path for path in texts if path.endswith(CUDA_SUFFIX)]
    cuda = bool(cuda_files) if call.with_cuda is None else call.with_cuda
    if cuda_files and not cuda:
        raise refusal(name, "with_cuda", "True or None, with CUDA files", f"False, with {', '.join(cuda_files)}")
    flags = translate(name, call.cflags, call.cuda_cflags, call.ldflags, call.include_paths, cuda)
    tree = gather(texts, flags.include_dirs, flags.directives, cuda)
    kind: Kind = "module" if call.is_python_module else "operators" if call.abi == "stable" else "torch-library"
    if kind == "torch-library" and any(map(_OF_PYTHON.fullmatch, tree.headers)):
        kind = "module"
    unique = name
    if call.unique_namespace:
        files = {each: hashlib.sha256(text).hexdigest() for each, text in tree.files.items()}
        unique = f"{name}_{json_sha256([files, flags])[:12]}"
    if kind == "module" and not call.is_python_module and not any(map(_MODULE.search, tree.files.values())):
        made = {"empty_module.cpp": _EMPTY_MODULE.replace("NAME", unique).encode()}
        tree = tree._replace(files={**tree.files, **made}, sources=(*tree.sources, *made))
    extension = Extension(
        name=unique,
        kind=kind,
        cuda="required" if cuda else "none",
        sources=tree.sources,
        cuda_sources=(),
        include_dirs=tree.include_dirs,
        define=(),
        cuda_define=(),
        cxx_flags=flags.cxx,
        cuda_flags=flags.cuda,
        file_flags={},
        link_flags=flags.link,
        libraries=flags.libraries,
        archs=flags.archs,
    )
    return tree, extension
