"""The schema of `manifest.json`: which values each field may have, and which fields must agree.

A manifest decides what is loaded and may come from anywhere, so nothing in it is taken on trust: every key must be
known, every value of the right kind, and nothing too long. Every import runs this code, so no regular expression is
compiled, and text is checked by methods of str rather than character by character.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .content import digests_of, fingerprint_of
from .files import json_sha256
from .platforms import library_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Kind = Callable[[Any], bool]
    Fields = dict[str, "Kind | Fields"]  # of an object

LONGEST_NAME = 100  # characters of a file's name
LONGEST_TEXT = 4096
LONGEST_LIST = 1000
MOST_LIBRARIES = 100
LARGEST_LIBRARY = (8 << 30) - 1  # bytes
_DIGITS = "0123456789"
_HEX = _DIGITS + "abcdef"
_WORD = _DIGITS + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_NAME = _WORD + ".+-"


class Malformed(ValueError):
    """The manifest is malformed; the message says how."""


def check_manifest(values: Any) -> None:
    """Refuse a manifest's JSON values if they do not follow the schema or contradict each other."""
    _walk(values, _MANIFEST, "")
    plan = values["plan"]
    target = plan["target"]
    if target["cuda"] is not None:
        _walk(target["cuda"], _CUDA_TARGET, "plan.target.cuda.")
    if target["binding"] is not None:
        _walk(target["binding"], _BINDING, "plan.target.binding.")
    for number, extension in enumerate(plan["content"]["extensions"]):
        _walk(extension, _EXTENSION, f"plan.content.extensions[{number}].")
    for name, setting in values["built_with"]["settings"].items():
        _walk(setting, _SETTING, f"built_with.settings.{name}.")
    for number, library in enumerate(values["libraries"]):
        _walk(library, _LIBRARY, f"libraries[{number}].")
    for must_agree in (_identity, _devices, _modules, _taken):
        for agrees, contradiction in must_agree(values, plan):
            if not agrees:
                raise Malformed(contradiction)


def short(value: object) -> str:
    """A value shortened for a message."""
    import reprlib  # needed only for an error

    return reprlib.repr(value)


def _walk(value: Any, fields: Fields, place: str) -> None:
    if type(value) is not dict:
        raise Malformed(f"{place or 'the manifest'} is {short(value)}")
    if value.keys() != fields.keys():
        lacks, unknown = fields.keys() - value.keys(), value.keys() - fields.keys()
        raise Malformed(f"{place}{min(lacks)} is missing" if lacks else f"{place}{short(min(unknown))} is unknown")
    for name, kind in fields.items():
        if isinstance(kind, dict):
            _walk(value[name], kind, f"{place}{name}.")
        elif not kind(value[name]):
            raise Malformed(f"{place}{name} is {short(value[name])}")


# Kinds of values


def _or_none(kind: Kind) -> Kind:
    return lambda value: value is None or kind(value)


def _of_type(*types: type) -> Kind:
    return lambda value: type(value) in types


def _text(value: Any) -> bool:
    return type(value) is str and len(value) <= LONGEST_TEXT and (value.isprintable() or _prints(value))


def _prints(text: str) -> bool:
    """Whether it is safe to print: no control characters except newlines and tabs."""
    return text.replace("\n", " ").replace("\t", " ").isprintable()


def _texts(value: Any) -> bool:
    return type(value) is list and len(value) <= LONGEST_LIST and all(map(_text, value))


def _value(value: Any) -> bool:
    """Whether a value can be an option's."""
    return _text(value) or _texts(value)


def is_digest(value: Any) -> bool:
    """Whether a value is a sha256 in hex."""
    return type(value) is str and len(value) == 64 and not value.strip(_HEX)


def _digests(value: Any) -> bool:
    """Whether a value maps file names to digests."""
    if type(value) is not dict or set(map(type, value.values())) - {str}:
        return False
    if set(map(len, value.values())) - {64} or max(map(len, value), default=0) > LONGEST_TEXT:
        return False
    return not "".join(value.values()).strip(_HEX) and _prints("".join(value))


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


_CONTENT: Fields = {
    "package": _dotted,
    "version": _version,
    "sources": _digests,
    "abi": lambda value: value in ("stable", "torch"),
    "torch_target": _release,
    "extensions": lambda value: type(value) is list and len(value) <= MOST_LIBRARIES,  # of _EXTENSION
    "options": lambda value: type(value) is dict and all(map(_name, value)) and all(map(_value, value.values())),
}
_TOOLS: Fields = {
    "recipe": _digests,
    "cxx": _cxx,
    "toolkit": lambda value: value is None or _toolkit(value),
    "headers": _digests,
    "taken": _digests,
}
_TARGET: Fields = {
    "platform": _name,
    "cuda": _of_type(dict, type(None)),  # _CUDA_TARGET
    "binding": _of_type(dict, type(None)),  # _BINDING
}
_PLAN: Fields = {"schema": _number, "content": _CONTENT, "tools": _TOOLS, "target": _TARGET}
_DIGESTS: Fields = {"content": is_digest, "tools": is_digest, "target": is_digest}
_EXTENSION: Fields = {
    "name": _dotted,
    "kind": lambda value: value in ("module", "operators", "torch-library"),
    "cuda": lambda value: value in ("required", "optional", "none"),
    "by_path": _of_type(bool),
    **dict.fromkeys(("sources", "cuda_sources", "exclude", "include_dirs", "define", "cuda_define"), _texts),
    **dict.fromkeys(("cxx_flags", "cuda_flags", "link_flags", "libraries"), _texts),
    "file_flags": lambda value: type(value) is dict and _texts(list(value)) and all(map(_texts, value.values())),
    "archs": lambda value: value == "" or (_text(value) and _archs(_without_ptx(value))),
}
_CUDA_TARGET: Fields = {"sass": _archs, "ptx": _archs}
_BINDING: Fields = {"python": _or_none(_identifier), "torch": _text}
_BUILT_WITH: Fields = {
    "kernelwheel": _version,
    "torch": _text,
    "torch_cuda": _or_none(_text),
    "cxx": _text,
    "nvcc": _or_none(_text),
    "cccl": _or_none(_text),
    "cmake": _text,
    "ninja": _text,
    "peak_mb": _number,
    "cuda": {"enabled": _of_type(bool), "because": _text},
    "settings": lambda value: type(value) is dict and all(map(_name, value)),  # _SETTING, by option name
}
_SETTING: Fields = {"value": lambda value: value is None or _value(value), "origin": _text}
_REQUIRES: Fields = {
    "torch": lambda value: type(value) is str and _release(value.removesuffix(".*")),
    "platform": _name,
    "libc": lambda value: value == "" or (_text(value) and value[:6] == "glibc " and _release(value[6:])),
    "libstdcxx": lambda value: value == "" or (_text(value) and value[:8] == "GLIBCXX_" and _release(value[8:])),
    "cuda": _or_none(_number),
    "driver": _or_none(_release),
    "driver_for_ptx": _or_none(_release),
    "python": _or_none(_identifier),
}
_LIBRARY: Fields = {
    "file": lambda value: _name(value) and value != "manifest.json",
    "sha256": is_digest,
    "size": lambda value: _number(value) and 0 < value <= LARGEST_LIBRARY,
    "device": lambda value: value in ("cpu", "cuda"),
    "sass": _archs,
    "ptx": _archs,
    "module": _or_none(_dotted),
}
_MANIFEST: Fields = {
    "schema": _number,
    "digest": is_digest,
    "package": _dotted,
    "version": _version,
    "fingerprint": is_digest,
    "sources": is_digest,
    "plan": _PLAN,
    "digests": _DIGESTS,
    "built_with": _BUILT_WITH,
    "requires": _REQUIRES,
    "libraries": lambda value: type(value) is list and 0 < len(value) <= MOST_LIBRARIES,  # of _LIBRARY
}


# What must agree: pairs of whether it does, and the message if it does not


def _identity(values: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """The manifest must match its Plan."""
    content, planned = plan["content"], plan["target"]["platform"]
    yield values["digests"] == digests_of(plan), "the digests do not match the parts of its Plan"
    fingerprint = fingerprint_of(plan["schema"], values["digests"])
    yield values["fingerprint"] == fingerprint, "the fingerprint does not match its Plan"
    yield values["sources"] == json_sha256(content["sources"]), "the digest of the sources does not match its Plan"
    for name in ("package", "version"):
        yield values[name] == content[name], f"{name} is {values[name]}, but {content[name]} in its Plan"
    platform = values["requires"]["platform"]
    yield platform == planned, f"the platform is {platform}, but {planned} in its Plan"
    cuda, toolkit = plan["target"]["cuda"], plan["tools"]["toolkit"]
    yield (cuda is None) == (toolkit is None), "its Plan has CUDA kernels or a toolkit, and not both"


def _taken(values: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """What was taken from a wheel must be among the libraries, for the CPU, with those bytes."""
    there = {library["file"]: library["sha256"] for library in values["libraries"] if library["device"] == "cpu"}
    for file, digest in plan["tools"]["taken"].items():
        yield there.get(file) == digest, f"{short(file)} is not the library that its Plan takes from a wheel"


def _devices(values: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """CUDA libraries must exist exactly if the Plan has a CUDA part, with its device code and their requirements."""
    needs, cuda = values["requires"], plan["target"]["cuda"]
    declared = plan["content"]["extensions"]
    extensions = {library_file(extension["name"]): extension for extension in declared}
    if extensions:
        made = {library["file"] for library in values["libraries"]}
        yield made == extensions.keys(), "its libraries are not the extensions of its Plan"
    for library in values["libraries"]:
        targets = (library["sass"], library["ptx"])
        if library["device"] == "cpu":
            yield targets == ([], []), f"{library['file']} is for the CPU but has device code"
        else:
            planned = _planned(cuda, extensions.get(library["file"])) if cuda else None
            without = library["file"] in extensions  # only an extension may be for CUDA and have no kernels
            yield without or targets != ([], []), f"{library['file']} is for CUDA but has no device code"
            yield targets == planned, f"the device code of {library['file']} does not match its Plan"
    there = any(library["device"] == "cuda" for library in values["libraries"])
    yield there == (cuda is not None), "its Plan has CUDA kernels, but its libraries have none"
    yield there == values["built_with"]["cuda"]["enabled"], "built_with.cuda.enabled does not match its libraries"
    for name in ("driver", "driver_for_ptx"):
        yield there == (needs[name] is not None), f"requires.{name} does not match its libraries"
    bound, major = there and plan["target"]["binding"] is not None, needs["cuda"]
    yield not bound or major is not None, "its Plan has a binding, but requires.cuda is none"
    yield there or major is None, "requires.cuda does not match its libraries"
    if cuda and there:
        releases = (needs["driver"] or "", needs["driver_for_ptx"] or "", plan["tools"]["toolkit"]["version"])
        majors = {release.partition(".")[0] for release in releases} | ({str(major)} if major is not None else set())
        yield len(majors) == 1, f"requires.cuda is {major}, but its releases are {', '.join(releases)}"


def _planned(cuda: Mapping[str, Any], extension: Mapping[str, Any] | None) -> tuple[list[str], list[str]]:
    """The SASS and PTX targets that a library for CUDA must have; see `Plan.targets`."""
    if extension is None:
        return cuda["sass"], cuda["ptx"]
    if not any(source.endswith(".cu") for source in extension["sources"]):
        return [], []
    if not extension["archs"]:
        return cuda["sass"], cuda["ptx"]
    with_ptx = [arch for arch in extension["archs"].split(";") if arch.endswith("+PTX")]
    return _without_ptx(extension["archs"]), [arch.removesuffix("+PTX") for arch in with_ptx]


def _without_ptx(archs: str) -> list[str]:
    return [arch.removesuffix("+PTX") for arch in archs.split(";")]


def _modules(values: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Modules must exist exactly if the Plan is bound to one Python and one torch; all names must be unique."""
    needs, binding, libraries = values["requires"], plan["target"]["binding"], values["libraries"]
    names = [library["file"] for library in libraries]
    modules = [library["module"] for library in libraries if library["module"]]
    yield len(set(names)) == len(names), "two libraries have the same name"
    yield len(set(modules)) == len(modules), "two modules have the same name"
    yield bool(modules) == bool(binding and binding["python"]), "its Plan and its libraries disagree on Python modules"
    python = binding["python"] if binding else None
    yield needs["python"] == python, f"requires.python is {needs['python']}, but {python} in its Plan"
    release = binding["torch"].partition("+")[0].split(".") if binding else []
    torch = ".".join(release[:2]) + ".*" if binding else plan["content"]["torch_target"]
    yield needs["torch"] == torch, f"requires.torch is {needs['torch']}, but {torch} in its Plan"
