"""The library of a call of `load`: what this process has loaded, the caller's package, a store, or a compile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module as import_by_name
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ..flags.options import FOLDERS
from ..flags.words import with_headers
from ..runtime.artifact.artifact import Artifact
from ..runtime.artifact.compatible import Mismatch
from ..runtime.artifact.manifest import read
from ..runtime.decision.carry_out import find
from ..runtime.decision.decision import Request, against
from ..runtime.decision.no_kernels import incompatible
from ..runtime.decision.snapshot import InstalledPackage, Snapshot
from ..runtime.errors import BuildError, IncompatibleArtifactError, command
from ..runtime.kernels import os_errors, refuse_other_family
from ..runtime.loading import load_module
from ..runtime.machine import host as hosts
from ..runtime.machine.files import json_sha256
from ..runtime.machine.fork_safe_locks import ThreadLock
from ..runtime.machine.host import Host
from ..runtime.machine.platforms import library_file, platform_name
from .arguments import LoadArguments
from .package import Description, described, package_of

# What a process has loaded, by content, and the lock of each content: those of others are compiled meanwhile.
_loaded: dict[str, tuple[ModuleType | None, Path]] = {}
_locks: dict[str, ThreadLock] = {}
# What `import NAME` gives after a call, by NAME: the last module, as with torch until it had pybind11 3.
_named: dict[str, ModuleType] = {}
# Held while a library of operators is loaded, so that none registers what another is about to.
_registering = ThreadLock()


class RequestForList(Request):
    """A request for kernels that run on these GPUs, and were made for a list of architectures, word for word."""

    archs: str = ""

    build = True

    def lacking(self, snapshot: Snapshot, artifact: Artifact) -> tuple[Mismatch, ...]:
        """The mismatch of those that were made for another list, or have no CUDA kernels."""
        manifest = artifact.manifest
        made_for = manifest.built_with["settings"].get("archs", {}).get("value") or "none"
        if snapshot.host.cuda is not None and manifest.uses_cuda and made_for == self.archs:
            return ()
        remedy = command(manifest.package, f"cache build --archs '{self.archs}'")
        return (Mismatch("archs", f"CUDA kernels for {self.archs}", f"those for {made_for}", remedy, "cuda"),)


def carry_out(arguments: LoadArguments, texts: Mapping[str, bytes], caller: str) -> Any:
    """What a call returns; `caller` is the module that it is made in."""
    description = described(arguments, texts)
    if arguments.only_compile:
        return prepared(description).folder
    name = description.extension["name"]
    if declared := _declared(description, caller):
        name, folder = declared
        library: ModuleType | None = import_by_name(name)
    else:
        key = json_sha256(description.content)
        with _locks.setdefault(key, ThreadLock()):
            if key not in _loaded:
                _loaded[key] = _loaded_now(description, f"kernelwheel.loaded_{key[:12]}.{name}")
            library, folder = _loaded[key]
    if arguments.verbose:
        from ..runtime import progress  # imported only if needed, to keep a warm start fast

        progress.printer(description.package)(f"{name} is loaded from {folder}")
    if arguments.unique_namespace:
        import torch

        return getattr(torch.ops, description.extension["name"])
    if library and arguments.wants_module and _is_free(arguments.name):
        sys.modules[arguments.name] = _named[arguments.name] = library
    return library if arguments.wants_module else str(folder / library_file(name, platform_name()))


def _is_free(name: str) -> bool:
    """Whether `import NAME` gives what an earlier call made, or nothing, so that nobody's module is hidden."""
    if name in sys.modules:
        return sys.modules[name] is _named.get(name)
    return find_spec(name) is None


def _loaded_now(description: Description, unique: str) -> tuple[ModuleType | None, Path]:
    """Load the library: a module, under a name that no other content has, or operators; its folder too.

    pybind11 gives a second module of one name what the first one is, whatever file it comes from.
    """
    package, name = package_of(description), description.extension["name"]
    host, modules = hosts.probe(), list[ModuleType | None]()

    def load(artifact: Artifact) -> None:
        with _registering:
            _require_own_namespace(description, artifact)
            modules.append(load_module(description.package, name, artifact, unique))

    try:
        with os_errors(package):
            if description.cuda and host.cuda and package.settings.cuda != "off":
                host = hosts.with_listed_gpus(host)
            artifact = _obtained(description, package, host, load)
    except IncompatibleArtifactError as error:
        _require_architectures(description, host, error)
        raise
    return modules[0], artifact.folder


def _obtained(
    description: Description, package: InstalledPackage, host: Host, load: Callable[[Artifact], object]
) -> Artifact:
    """An entry that fits, or one that is compiled now; verified and loaded."""
    settings, of_a_family = description.settings, bool(description.extension["archs"])
    here = Request("cuda" if host.capabilities else "cpu")
    named = bool(description.cuda and settings.archs and settings.jit != "never")
    # An entry for other architectures, which fits here, will not do: first one that was made for the very list that is
    # set now, then what other lists say, and which are of one family, when the list is read.
    first = RequestForList("cuda", archs=settings.archs) if named else here
    if not (named and of_a_family) and (entry := find(package, host, first, load).artifact):
        return entry
    artifact = _compiled(description, package, host, None if named else here)
    if unfit := against(package.read(host), here, artifact):
        because = "these kernels were just compiled here with the current settings"
        if named:
            because = f"TORCH_CUDA_ARCH_LIST or -gencode names {settings.archs}"
        raise incompatible(description.package, here.device, unfit, because)
    refuse_other_family(description.package, host, description.extension["name"], artifact)
    load(artifact)
    return artifact


def _declared(description: Description, caller: str) -> tuple[str, Path] | None:
    """What the caller's package has in its wheel of the same content: where it is imported from, and its folder."""
    outer = caller.split(".")
    for name in (".".join(outer[:count]) for count in range(len(outer), 0, -1)):
        for place in getattr(sys.modules.get(name), "__path__", ()):
            folder = Path(place, "_native")
            content = manifest.content if (manifest := read(folder)) else {"extensions": [], "sources": {}}
            for extension in content["extensions"]:
                if _is_same(description, extension, content["sources"]):
                    return extension["name"], folder
    return None


def _is_same(description: Description, extension: Mapping[str, Any], digests: Mapping[str, str]) -> bool:
    """Whether a package's extension is compiled from the same, wherever its files are; it may have further headers."""
    own, own_digests = description.extension, description.content["sources"]

    def flags(of: Mapping[str, Any]) -> list[Any]:  # but for folders of headers, which count by what is in them
        for_compilers = [
            with_headers(of[field], lambda option, path, _: None if option in FOLDERS else path)
            for field in ("cxx_flags", "cuda_flags")
        ]
        named = {f"-l{library}" for library in of["libraries"]}
        for_linker = [flag for flag in of["link_flags"] if flag not in named]
        others = [
            of[field] for field in ("kind", "archs", "libraries", "define", "cuda_define", "file_flags", "device_link")
        ]
        return [*for_compilers, for_linker, *others]

    def compiled(of: Mapping[str, Any], digests: Mapping[str, str]) -> list[str]:
        return sorted(digests[name] for name in (*of["sources"], *of["cuda_sources"]))

    def files(digests: Mapping[str, str]) -> set[tuple[str, str]]:
        return {(name.rpartition("/")[2], digest) for name, digest in digests.items()}

    return (
        extension["name"].rpartition(".")[2] == own["name"]
        and flags(extension) == flags(own)
        and (extension["cuda"] == "none") == (own["cuda"] == "none")
        and compiled(extension, digests) == compiled(own, own_digests)
        and files(own_digests) <= files(digests)
    )


def prepared(description: Description) -> Artifact:
    """The entry for a call, from a store or compiled now, for the architectures that are named, or else these GPUs."""
    host = hosts.probe()
    if description.cuda:
        host = hosts.with_listed_gpus(host)
        _require_architectures(description, host)
    return _compiled(description, package_of(description), host, None)


def _compiled(description: Description, package: InstalledPackage, host: Host, request: Request | None) -> Artifact:
    """The entry for a request, or for the architectures that are named, from a store or compiled now."""
    # imported only if needed, to keep a warm start fast
    import tempfile

    from ..runtime import progress
    from ..runtime.decision.carry_out import compile_into_store
    from ..runtime.decision.snapshot import Sources
    from ..store.build_ahead import build_request
    from .history import changes, last_entries

    if request is None:
        request = build_request(package, description.cuda, "")
        if entry := find(package, host, request, Artifact.verify).artifact:
            return entry
    say = progress.printer(package.package)
    for last in last_entries(package)[-1:]:
        say(f"since the last compile: {changes(last.manifest.content, description.content)}")
    with tempfile.TemporaryDirectory(prefix="kernelwheel-sources-") as folder:
        for name, text in description.tree.files.items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
        package.source = Sources(description.content, Path(folder), {})
        return compile_into_store(package, host, request, package.settings)[0]


def _require_own_namespace(description: Description, artifact: Artifact) -> None:
    """Raise an error if this process has the operators that the library registers: torch would end it."""
    own, texts = description.extension, description.tree.files.values()
    if not any(b"TORCH_LIBRARY" in text for text in texts):
        return
    from .namespaces import taken_namespace  # imported only if needed, to keep a warm start fast

    library = (artifact.folder / library_file(own["name"], platform_name())).read_bytes()
    if taken := taken_namespace(texts, (*own["cxx_flags"], *own["cuda_flags"]), own["name"], library):
        raise BuildError(
            f"{description.package} cannot be loaded: its operators are in a namespace that this process has",
            required="a namespace that no other library in this process registers",
            found=f"{taken}, which another library registers, maybe an earlier version of this one",
            remedies=[
                "register TORCH_LIBRARY(TORCH_EXTENSION_NAME, m), and pass unique_namespace=True",
                "or load it in a new process",
            ],
        )


def _require_architectures(description: Description, host: Host, because: Exception | None = None) -> None:
    """Raise an error if nothing says for which GPUs to compile."""
    chosen = description.settings.archs or description.settings.cuda == "on"
    if description.cuda and not chosen and host.cuda and not host.capabilities:
        raise BuildError(
            f"{description.package} cannot be compiled: nothing says for which GPUs",
            required="TORCH_CUDA_ARCH_LIST, or a GPU that this process sees",
            found="TORCH_CUDA_ARCH_LIST is not set, and torch sees no GPU",
            remedies=["set TORCH_CUDA_ARCH_LIST, to 9.0 for example", "or run it on a machine with a GPU"],
        ) from because
