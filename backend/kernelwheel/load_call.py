"""Kernels that a program compiles as it runs: `load` and `load_inline`, as in torch.utils.cpp_extension, and `prepare`.

What a call describes is an Extension of a package of its own, `kernelwheel.NAME`, without a wheel: found by its content
in the same stores, compiled by the same compiler under the same lock, verified and loaded by the same loader.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

from .cli.cache_build import build
from .load_flags import refusal, translate
from .load_sources import INLINE, Tree, gather, read_sources
from .project.extension import CUDA_SUFFIX, CXX_SUFFIXES, Extension, Kind, to_json
from .project.package import OLDEST_TORCH, make_content
from .runtime import host as hosts
from .runtime.content import Content
from .runtime.errors import BuildError, IncompatibleArtifactError
from .runtime.files import json_sha256
from .runtime.host import Host
from .runtime.installed import InstalledPackage
from .runtime.kernels import Kernels
from .runtime.manifest import FILE
from .runtime.progress import print_line, shown
from .runtime.settings import Origin, Settings
from .runtime.sources import Sources
from .runtime.store_lock import mark

Strings = str | Sequence[str] | None
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
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
# What a process has loaded, by content; the lock is held while one is.
_loaded: dict[str, tuple[ModuleType | None, Path]] = {}
_lock = threading.RLock()


def _renew_lock() -> None:
    """Replace the lock in a forked child, which must not wait for a thread of its parent."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


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


def load(
    name: str,
    sources: Paths,
    extra_cflags: Strings = None,
    extra_cuda_cflags: Strings = None,
    extra_sycl_cflags: Strings = None,
    extra_ldflags: Strings = None,
    extra_include_paths: Paths = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
    *,
    abi: Abi = "torch",
    unique_namespace: bool = False,
    only_compile: bool = False,
) -> Any:
    """Compile C++ and CUDA files, unless a store has what would be made, and load the library.

    The parameters are those of torch.utils.cpp_extension.load; docs/load.md says what differs.

    Args:
        name: of the extension, and of its module.
        sources: C++ and CUDA files.
        extra_cflags: options for the C++ compiler.
        extra_cuda_cflags: options for nvcc; those that choose architectures take the place of TORCH_CUDA_ARCH_LIST.
        extra_sycl_cflags: refused, as is `with_sycl`.
        extra_ldflags: options for the linker.
        extra_include_paths: folders with headers.
        build_directory: a cache folder to use in place of the user's.
        verbose: whether to say what was loaded; a compile is always announced, on standard error.
        with_cuda: whether CUDA's headers and libraries are used; None: if there are CUDA files.
        with_sycl: refused.
        is_python_module: whether the library is a Python module; otherwise it registers operators.
        is_standalone: refused: no executables are made.
        keep_intermediates: has no effect: what the next compile can use is kept in the cache.
        abi: `stable` for operators on torch's stable ABI alone: one library then serves every Python and torch.
        unique_namespace: whether TORCH_EXTENSION_NAME is made unique by the content, so that several versions of one
            library of operators can be registered in a process.
        only_compile: whether to load nothing, see `prepare`.

    Returns:
        The module; the same one for the same content. Without `is_python_module`, the path of the library, or with
        `unique_namespace` the namespace of its operators, `torch.ops.NAME_CONTENT`.

    Raises:
        BuildError: the arguments are not right, or something does not compile.
        IncompatibleArtifactError: what was compiled does not fit this machine.
        StoreError: the cache cannot be used.
    """
    if is_standalone:
        remedy = "build it with CMake and torch's TorchConfig.cmake, or load a library of operators in its place"
        raise refusal(name, "is_standalone", "a library, which a Python process loads", "an executable", remedy)
    _refuse_sycl(name, with_sycl, extra_sycl_cflags)
    flags = (_strings(extra_cflags), _strings(extra_cuda_cflags), _strings(extra_ldflags), _paths(extra_include_paths))
    module = is_python_module and abi == "torch"
    call = Call(name, *flags, build_directory, verbose, with_cuda, module, abi, unique_namespace, only_compile)
    return _load(call, read_sources(_paths(sources), name))


def load_inline(
    name: str,
    cpp_sources: Strings,
    cuda_sources: Strings = None,
    sycl_sources: Strings = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Strings = None,
    extra_cuda_cflags: Strings = None,
    extra_sycl_cflags: Strings = None,
    extra_ldflags: Strings = None,
    extra_include_paths: Paths = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
    *,
    abi: Abi = "torch",
    unique_namespace: bool = False,
    only_compile: bool = False,
) -> Any:
    """The same for sources that are given as text.

    The parameters are those of torch.utils.cpp_extension.load_inline; see `load` for the others.

    Args:
        name: as for `load`.
        cpp_sources: C++ texts, which are one file together, after `#include <torch/extension.h>`.
        cuda_sources: CUDA texts, which are another one, after torch/types.h, cuda.h and cuda_runtime.h.
        sycl_sources: refused.
        functions: the C++ functions that the module gets, or their docstrings by name.
        with_pytorch_error_handling: whether C++ errors of these functions become the exceptions that torch raises.
        use_pch: has no effect: a precompiled header saves time in the second compile of several.
        no_implicit_headers: whether the `#include` lines are left out. They always are for the stable ABI.
    """
    _refuse_sycl(name, with_sycl, sycl_sources or extra_sycl_cflags)
    implicit = not no_implicit_headers and abi == "torch"
    cpp = ["#include <torch/extension.h>"] if implicit else []
    cpp += [*_strings(cpp_sources), *_bindings(name, functions, with_pytorch_error_handling)]
    texts = {f"{INLINE}/main.cpp": "\n".join(cpp).encode()}
    if cuda := _strings(cuda_sources):
        first = [f"#include <{each}>" for each in ("torch/types.h", "cuda.h", "cuda_runtime.h") if implicit]
        texts[f"{INLINE}/cuda.cu"] = "\n".join([*first, *cuda]).encode()
    flags = (_strings(extra_cflags), _strings(extra_cuda_cflags), _strings(extra_ldflags), _paths(extra_include_paths))
    module = is_python_module and abi == "torch"
    call = Call(name, *flags, build_directory, verbose, with_cuda, module, abi, unique_namespace, only_compile)
    return _load(call, texts)


def prepare(name: str, sources: Paths = None, **arguments: Any) -> Path:
    """Compile what `load` or, with `cpp_sources`, `load_inline` would load with the same arguments, and load nothing.

    No GPU is needed: TORCH_CUDA_ARCH_LIST says for which to compile.

    Returns:
        The folder of the entry, for `kernelwheel cache export` or an image.

    Raises:
        BuildError, StoreError: as `load`.
    """
    if sources is None:
        return Path(load_inline(name, **arguments, only_compile=True))
    return Path(load(name, sources, **arguments, only_compile=True))


def _refuse_sycl(name: str, with_sycl: bool | None, given: Any) -> None:
    if with_sycl or given:
        remedy = "use torch.utils.cpp_extension for SYCL"
        raise refusal(name, "SYCL", "sources for the CPU and for CUDA", "sources or options for SYCL", remedy)


def _strings(given: Strings) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def _paths(given: Paths) -> tuple[str, ...]:
    return tuple(os.fspath(each) for each in ((given,) if isinstance(given, (str, os.PathLike)) else given or ()))


def _bindings(name: str, functions: str | Sequence[str] | Mapping[str, str] | None, handled: bool) -> list[str]:
    """The lines that make a module of some functions; none if `functions` is None."""
    if functions is None:
        return []
    names = [functions] if isinstance(functions, str) else list(functions)
    if bad := [each for each in names if not re.fullmatch(r"[A-Za-z_][\w:]*", str(each))]:
        raise refusal(name, "functions", "names of C++ functions, or a dict of them and docstrings", repr(bad[0]))
    docstrings = functions if isinstance(functions, Mapping) else {each: each for each in names}
    wrapped = "torch::wrap_pybind_function({})" if handled else "{}"
    lines = [f'm.def("{each}", {wrapped.format(each)}, {json.dumps(docstrings[each])});' for each in names]
    return ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"]


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

    @property
    def absence(self) -> str:
        """How the content differs from that of the last entry of this name."""
        from .cli.explain import differences

        entries = [entry for store in self.stores() for entry in store.entries()]
        if not entries:
            return "nothing of this name was compiled yet"
        assert self.wanted.content
        last = max(entries, key=lambda entry: (entry.folder / FILE).stat().st_mtime).manifest.content
        changes = "; ".join(map(str, differences(_fields(last), _fields(self.wanted.content))))
        return f"since the last compile: {changes or 'other GPUs, torch or Python'}"

    def read_sources_again(self) -> None:
        """Write the files where the compiler takes them from; called once the store is locked."""
        assert self.source
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


def _fields(content: Content) -> dict[str, Any]:
    """What calls of one name can differ in."""
    return {**content["extensions"][0], **content["options"], "sources": content["sources"]}


def _extension(call: Call, texts: Mapping[str, bytes]) -> tuple[Tree, Extension]:
    """What is compiled."""
    name = call.name
    if not (isinstance(name, str) and name.isidentifier() and name.isascii() and len(name) < 80):
        raise refusal(str(name), "name", "an identifier, of less than 80 letters, digits and _", repr(name))
    if call.abi not in ("torch", "stable"):
        raise refusal(name, "abi", "torch or stable", repr(call.abi))
    cuda_files = [path for path in texts if path.endswith((CUDA_SUFFIX, ".cuh"))]
    cuda = bool(cuda_files) if call.with_cuda is None else call.with_cuda
    if cuda_files and not cuda:
        raise refusal(name, "with_cuda", "True or None, with CUDA files", f"False, with {', '.join(cuda_files)}")
    flags = translate(name, call.cflags, call.cuda_cflags, call.ldflags, call.include_paths, cuda)
    tree = _with_suffixes(gather(texts, flags.include_dirs, flags.defines, name))
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


def _with_suffixes(tree: Tree) -> Tree:
    """Let sources of other suffixes have one that says how they are compiled: `.cuh` by nvcc, all others as C++."""
    known = (*CXX_SUFFIXES, CUDA_SUFFIX)
    renamed = {
        name: name + (CUDA_SUFFIX if name.endswith(".cuh") else CXX_SUFFIXES[0])
        for name in tree.sources
        if not name.endswith(known)
    }
    files = {**tree.files, **{new: tree.files[old] for old, new in renamed.items()}}
    return tree._replace(files=files, sources=tuple(sorted(renamed.get(name, name) for name in tree.sources)))


class Loader(Kernels):
    """The kernels of one call, in this process."""

    installed: Described

    def __init__(self, package: Described) -> None:
        super().__init__(package.package, package.version, package.folder, package.environ)
        del self.constructed[package.package]
        self.installed = package

    @property
    def folder(self) -> Path:
        """The folder of the library that is loaded."""
        assert self._whole_of
        return self._whole_of.folder

    def load(self) -> ModuleType | None:
        """Load the library; the module, if it is one."""
        package, name = self.installed, self.installed.extension.name
        try:
            module = self.module(name) if package.extension.kind == "module" else self.extension(name)
            if package.extension.archs and self._whole_of:
                self._refuse_other_family(name, self._whole_of)
            return module
        except IncompatibleArtifactError as error:
            _require_architectures(package, self.host, error)
            raise
        finally:
            package.remove_sources()


def _load(call: Call, texts: Mapping[str, bytes]) -> Any:
    package = Described(call, texts)
    if call.only_compile:
        return _compile(package)
    key = json_sha256([package.wanted.content, package.settings.archs, package.settings.cache_dir])
    with _lock:
        if key not in _loaded:
            kernels = Loader(package)
            _loaded[key] = kernels.load(), kernels.folder
        library, folder = _loaded[key]
    if call.verbose:
        print_line(f"{package.package}: loaded from {folder}")
    if call.is_python_module:
        return library
    if call.unique_namespace:
        import torch

        return getattr(torch.ops, package.extension.name)
    return str(folder / package.extension.file)


def _compile(package: Described) -> Path:
    """The folder of an entry for a call, from a store or compiled now."""
    cuda, host = package.extension.cuda == "required", hosts.probe()
    if cuda:
        host = hosts.with_listed_gpus(host)
        _require_architectures(package, host)
    try:
        with shown(package.package) as say:
            return build(package, host, cuda, "", say)[0].folder
    finally:
        package.remove_sources()


def _require_architectures(package: Described, host: Host, because: Exception | None = None) -> None:
    """Raise an error if nothing says for which GPUs to compile."""
    if package.needs_cuda and package.untargeted and host.cuda and not host.capabilities:
        raise BuildError(
            f"{package.package} cannot be compiled: nothing says for which GPUs",
            required="TORCH_CUDA_ARCH_LIST, or a GPU that this process sees",
            found="TORCH_CUDA_ARCH_LIST is not set, and torch sees no GPU",
            remedies=["set TORCH_CUDA_ARCH_LIST, to 9.0 for example", "or run it on a machine with a GPU"],
        ) from because
