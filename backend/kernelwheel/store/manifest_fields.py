"""The schema of `manifest.json`: which values each field may have, and which fields must agree.

A manifest decides what is loaded. So none is written that does not follow this, and of a file that comes from anywhere,
nothing is taken on trust: every key must be known, every value of the right kind, and nothing too long.
"""

from __future__ import annotations

from reprlib import repr as short
from typing import TYPE_CHECKING

from ..runtime.artifact.manifest import SCHEMA, is_digest
from ..runtime.machine.files import json_sha256
from ..runtime.machine.host import torch_required
from ..runtime.machine.platforms import library_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    # What a value must be: a test of it; an object with these fields; a list of such; one or None; or, with the key
    # `str`, an object with any names.
    Kind = Callable[[Any], bool] | dict[Any, "Kind"] | list["Kind"] | tuple["Kind"]

PARTS = ("content", "tools", "target")
LONGEST_NAME = 100  # characters of a file's name
LONGEST_TEXT = 4096
LONGEST_LIST = 1000
MOST_LIBRARIES = 100
LARGEST_LIBRARY = (8 << 30) - 1  # bytes
_DIGITS = "0123456789"
_WORD = _DIGITS + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_NAME = _WORD + ".+-"


def check_manifest(values: Any) -> None:
    """Refuse a manifest's JSON values if they do not follow the schema or contradict each other."""
    _check(values, _MANIFEST, "manifest")
    for agrees, contradiction in _agreements(values, values["plan"], values["requires"], values["libraries"]):
        if not agrees:
            raise ValueError(contradiction)


def _check(value: Any, kind: Kind, place: str) -> None:
    if isinstance(kind, tuple):
        if value is not None:
            _check(value, kind[0], place)
    elif not (kind(value) if callable(kind) else type(value) is type(kind)):
        raise ValueError(f"{place} is {short(value)}")
    elif isinstance(kind, list):
        if len(value) > MOST_LIBRARIES:
            raise ValueError(f"{place} is {short(value)}")
        for number, each in enumerate(value):
            _check(each, kind[0], f"{place}[{number}]")
    elif isinstance(kind, dict):
        _check_object(value, kind, place)


def _check_object(value: Any, kinds: dict[Any, Kind], place: str) -> None:
    any_name = kinds.get(str)
    lacks, unknown = kinds.keys() - value.keys(), value.keys() - kinds.keys()
    if any_name is None and (lacks or unknown):
        found = f"{min(lacks)} is missing" if lacks else f"{short(min(unknown))} is unknown"
        raise ValueError(f"{found} in {place}")
    for name, each in value.items():
        if any_name and not _name(name):
            raise ValueError(f"{place} has the name {short(name)}")
        _check(each, any_name or kinds[name], f"{place}.{name}")


# Kinds of values


def _text(value: Any) -> bool:
    """Whether a value is text that is safe to print: no control characters except newlines and tabs."""
    if type(value) is not str or len(value) > LONGEST_TEXT:
        return False
    return value.replace("\n", " ").replace("\t", " ").isprintable()


def _texts(value: Any) -> bool:
    return type(value) is list and len(value) <= LONGEST_LIST and all(map(_text, value))


def _value(value: Any) -> bool:
    """Whether a value can be an option's."""
    return _text(value) or _texts(value)


def _digests(value: Any) -> bool:
    """Whether a value maps file names to digests."""
    return type(value) is dict and all(map(_text, value)) and all(map(is_digest, value.values()))


def _name(value: Any) -> bool:
    """Whether a value is a file name, not a path."""
    return type(value) is str and 0 < len(value) <= LONGEST_NAME and value[0] in _WORD and not value.strip(_NAME)


def _identifier(value: Any) -> bool:
    return type(value) is str and len(value) <= LONGEST_NAME and value.isascii() and value.isidentifier()


def _dotted(value: Any) -> bool:
    """Whether a value is a module's name, `simple_knn._C`."""
    return type(value) is str and len(value) <= LONGEST_NAME and all(map(_identifier, value.split(".")))


def _number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _boolean(value: Any) -> bool:
    return type(value) is bool


def _release(value: Any) -> bool:
    """Whether a value is a release such as `2.10`, in numbers of reasonable length."""
    if type(value) is not str or len(value) > LONGEST_NAME or not value.isascii():
        return False
    parts = value.split(".")
    return len(parts) > 1 and all(map(str.isdecimal, parts)) and max(map(len, parts)) < 7


def _version(value: Any) -> bool:
    """Whether a value can be a package's version, and so a folder's name; PEP 440 spelling is not checked here."""
    return _name(value.replace("!", "") if type(value) is str else None) and value[0] in "v" + _DIGITS


def _archs(value: Any) -> bool:
    """Whether a value is a list such as `["9.0", "12.0f"]`."""
    return type(value) is list and len(value) <= LONGEST_LIST and all(map(_arch, value))


def _arch(value: Any) -> bool:
    if type(value) is not str or len(value) > 8 or not value.isascii():
        return False
    major, _, minor = value.partition(".")
    return major.isdecimal() and minor[:1].isdecimal() and minor[1:] in ("", "a", "f")


def _toolkit(value: Any) -> bool:
    return type(value) is dict and _texts(list(value.values())) and _release(value.get("version"))


def _cxx(value: Any) -> bool:
    return type(value) is dict and _texts(list(value.values())) and {"kind", "version", "target"} <= value.keys()


_EXTENSION: Kind = {
    "name": _dotted,
    "kind": lambda value: value in ("module", "operators", "torch-library"),
    "cuda": lambda value: value in ("required", "optional", "only", "none"),
    **dict.fromkeys(("apart", "by_path", "device_link"), _boolean),
    **dict.fromkeys(("sources", "cuda_sources", "exclude", "include_dirs", "define", "cuda_define"), _texts),
    **dict.fromkeys(("cxx_flags", "cuda_flags", "link_flags", "libraries"), _texts),
    "file_flags": lambda value: type(value) is dict and _texts(list(value)) and all(map(_texts, value.values())),
    "archs": lambda value: value == "" or (_text(value) and _archs(value.replace("+PTX", "").split(";"))),
}
_PLAN: Kind = {
    "schema": lambda value: type(value) is int and value == SCHEMA,
    "content": {
        "package": _dotted,
        "version": _version,
        "sources": _digests,
        "abi": lambda value: value in ("stable", "torch"),
        "torch_target": _release,
        "extensions": [_EXTENSION],
        "dispatched": _texts,
        "parts": {str: _texts},
        "devices": lambda value: value in ("together", "apart"),
        "options": {str: _value},  # the settings that decide the binary, by name
    },
    "tools": {"recipe": _digests, "cxx": _cxx, "toolkit": (_toolkit,), "headers": _digests, "taken": _digests},
    "target": {
        "platform": _name,
        "cuda": ({"sass": _archs, "ptx": _archs},),
        "cpu_kernels": _boolean,  # whether libraries for the CPU were asked for
        "binding": ({"python": (_identifier,), "torch": _text},),
        "cpu": {str: lambda value: value in ("cpu", "flags")},
        "standard": {str: _text},  # the C++ standard of its libraries
    },
}
_BUILT_WITH: Kind = {
    "kernelwheel": _version,
    "torch": _text,  # the release that was compiled with
    "torch_cuda": (_text,),  # the CUDA version that it is for
    "cxx": _text,
    "nvcc": (_text,),
    "cccl": (_text,),
    "cmake": _text,  # the releases that will do
    "ninja": _text,
    "cuda": {"enabled": _boolean, "because": _text},  # whether there are CUDA kernels, and what decided that
    "settings": {str: {"value": (_value,), "origin": _text}},  # the options, see docs/settings.md
}
_REQUIRES: Kind = {
    "torch": _text,
    "platform": _name,
    "libc": lambda value: value == "" or (_text(value) and value[:6] == "glibc " and _release(value[6:])),
    "libstdcxx": lambda value: value == "" or (_text(value) and value[:8] == "GLIBCXX_" and _release(value[8:])),
    "cuda": (_number,),
    "driver": (_release,),
    "driver_for_ptx": (_release,),
    "python": (_identifier,),
}
_LIBRARY: Kind = {
    "file": lambda value: _name(value) and value != "manifest.json",
    "sha256": is_digest,
    "size": lambda value: _number(value) and 0 < value <= LARGEST_LIBRARY,
    "device": lambda value: value in ("cpu", "cuda"),
    "sass": _archs,
    "ptx": _archs,
    "module": (_dotted,),
    "host_code": lambda value: value == "" or is_digest(value),
}
_MANIFEST: Kind = {
    "schema": _number,  # that of this schema
    "digest": is_digest,  # that of the file, with zeros in its place
    "package": _dotted,
    "version": _version,
    "fingerprint": is_digest,
    "sources": is_digest,
    "plan": _PLAN,
    "digests": dict.fromkeys(PARTS, is_digest),
    "built_with": _BUILT_WITH,
    "requires": _REQUIRES,
    "libraries": [_LIBRARY],
}


def _agreements(
    values: Mapping[str, Any], plan: Mapping[str, Any], needs: Mapping[str, Any], libraries: list[Mapping[str, Any]]
) -> Iterator[tuple[bool, str]]:
    """What must agree: pairs of whether it does, and the message if it does not.

    That libraries are what their Plan asks for is for the compiler to check, which made both.
    """
    content, target = plan["content"], plan["target"]
    yield values["digests"] == digests_of(plan), "the digests do not match the parts of its Plan"
    fingerprint = fingerprint_of(plan["schema"], values["digests"])
    yield values["fingerprint"] == fingerprint, "the fingerprint does not match its Plan"
    yield values["sources"] == json_sha256(content["sources"]), "the digest of the sources does not match its Plan"
    binding = target["binding"] or {"python": None}
    torch = torch_required(binding["torch"]) if target["binding"] else content["torch_target"]
    for name, said, planned in (
        ("package", values["package"], content["package"]),
        ("version", values["version"], content["version"]),
        ("requires.platform", needs["platform"], target["platform"]),
        ("requires.python", needs["python"], binding["python"]),
        ("requires.torch", needs["torch"], torch),
    ):
        yield said == planned, f"{name} is {said}, but {planned} in its Plan"

    files = [library["file"] for library in libraries]
    modules = [library["module"] for library in libraries if library["module"]]
    yield bool(files or content["extensions"]), "it has no libraries"
    yield len({*files}) == len(files), "two libraries have the same name"
    yield len({*modules}) == len(modules), "two modules have the same name"
    yield bool(modules) == bool(binding["python"]), "its Plan and its libraries disagree on Python modules"
    built = (each for each in content["extensions"] if target["cuda"] or each["cuda"] != "only")
    extensions = {library_file(each["name"], target["platform"]) for each in built}
    yield not content["extensions"] or extensions == {*files}, "its libraries are not the extensions of its Plan"

    cuda = any(library["device"] == "cuda" for library in libraries)
    for name, there in (("CUDA kernels", target["cuda"]), ("a toolkit", plan["tools"]["toolkit"])):
        yield cuda == (there is not None), f"its Plan and its libraries disagree on {name}"
    for name in ("driver", "driver_for_ptx"):
        yield cuda == (needs[name] is not None), f"requires.{name} does not match its libraries"
    yield cuda or target["cpu_kernels"], "its Plan asks for no kernels"
    yield cuda or needs["cuda"] is None, "requires.cuda does not match its libraries"
    bound = cuda and target["binding"] is not None
    yield not bound or needs["cuda"] is not None, "its Plan has a binding, but requires.cuda is none"


def digests_of(plan: Mapping[str, Any]) -> dict[str, str]:
    """The digests of a Plan's three parts, from its JSON values."""
    return {part: json_sha256(plan[part]) for part in PARTS}


def fingerprint_of(schema: int, digests: Mapping[str, str]) -> str:
    """The fingerprint of a Plan: the digest of its schema and of its parts' digests."""
    return json_sha256({"schema": schema, **digests})
