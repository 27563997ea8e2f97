"""What a call of `load` describes: an extension in a package of its own, which is installed nowhere."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..content import make_content
from ..flags.words import with_headers
from ..runtime.artifact.compatible import Mismatch
from ..runtime.artifact.content import Content
from ..runtime.decision.snapshot import InstalledPackage, Sources
from ..runtime.machine.files import json_sha256
from ..runtime.record import Record
from ..runtime.settings import Origin, Settings
from ..source_language import CUDA_SUFFIX, SOURCES
from ..version import LOADED, OLDEST_TORCH
from .arguments import LoadArguments
from .flags import flags_of_call
from .sources import INLINE, Tree, gather

# What makes a module of sources that only register operators, but include Python's headers.
_EMPTY_MODULE = """#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME"};
PyMODINIT_FUNC PyInit_NAME() { return PyModule_Create(&definition); }
"""


class Description(Record):
    """What a call describes: a package with one extension, and its files."""

    package: str
    environ: Mapping[str, str]
    settings: Settings
    tree: Tree  # the files
    extension: dict[str, Any]  # the fields of project/extension.py's Extension, as JSON values, as in a content
    content: Content

    @property
    def cuda(self) -> bool:
        """Whether it is compiled with CUDA."""
        return bool(self.extension["cuda"] == "required")


def described(arguments: LoadArguments, texts: Mapping[str, bytes]) -> Description:
    """What a call describes; `texts` are its sources, by absolute path.

    Raises:
        SettingsError: the arguments are not right.
    """
    package = f"kernelwheel.{arguments.name}"
    environ = {**os.environ, "VERBOSE": "1"} if arguments.verbose else os.environ  # as CMake reads it
    settings = Settings.resolve(package, {}, environ)
    tree, extension = _extension(arguments, texts)
    if extension["archs"]:
        settings = settings.changed("archs", extension["archs"], Origin("extra_cuda_cflags"))
    if arguments.build_directory:
        folder = str(Path(arguments.build_directory).absolute())
        settings = settings.changed("cache-dir", folder, Origin("build_directory"))
    content = make_content(package, LOADED, _digests(tree), "stable", OLDEST_TORCH, [extension], settings.content())
    return Description(package, environ, settings, tree, extension, content)


def package_of(description: Description) -> InstalledPackage:
    """The package of a Description, as the loader asks about one: it has no wheel, and its sources are in no folder."""
    package = InstalledPackage(description.package, LOADED, Path(INLINE), description.environ)
    package.given, package.settings = True, description.settings
    package.source = Sources(description.content, Path(INLINE), {})
    remedy = "set KERNELWHEEL_JIT to auto, or compile it before: kernelwheel.prepare"
    package.missing = Mismatch("artifact", "an entry with this content", "no store has this content", remedy)
    return package


def _extension(arguments: LoadArguments, texts: Mapping[str, bytes]) -> tuple[Tree, dict[str, Any]]:
    """What is compiled."""
    cuda_files = [path for path in texts if path.endswith(CUDA_SUFFIX)]
    cuda = bool(cuda_files) if arguments.with_cuda is None else arguments.with_cuda
    if cuda_files and not cuda:
        raise arguments.refusal("with_cuda", "True or None, with CUDA files", f"False, with {', '.join(cuda_files)}")
    flags = flags_of_call(arguments, cuda)
    tree = gather(texts, flags, cuda)
    kind = "module" if arguments.wants_module else "operators" if arguments.abi == "stable" else "torch-library"
    if kind == "torch-library" and any(map(_is_of_python, tree.headers)):
        kind = "module"

    def copied(_: str, path: str, __: bool) -> str | None:
        return f"{SOURCES}/{name}" if (name := tree.names.get(path, "")) else None if name is None else path

    cxx, for_nvcc = with_headers(flags.cxx, copied), with_headers(flags.cuda, copied)
    unique = arguments.name
    if arguments.unique_namespace:
        decides = [_digests(tree), tree.include_dirs, cxx, for_nvcc, flags.link, flags.archs, flags.device_link]
        unique += f"_{json_sha256(decides)[:12]}"
    if kind == "module" and not arguments.wants_module and not any(map(_has_module, tree.files.values())):
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
        "device_link": flags.device_link,
        "apart": False,
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
