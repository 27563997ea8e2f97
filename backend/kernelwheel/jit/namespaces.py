"""Namespaces of operators that a process can have only once: torch ends it when a second library registers one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ..flags.words import directives_of

_Macros = Mapping[bytes, tuple[list[bytes] | None, bytes]]  # parameters, or None, and body
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(([^)]*)\))?(.*)$", re.MULTILINE)
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NESTED = rb"\((?:[^()]|\([^()]*\))*\)"  # parentheses with what is in them
_WHOLE = (b"TORCH_LIBRARY", b"STABLE_TORCH_LIBRARY")
_PARTS = (b"TORCH_LIBRARY_FRAGMENT", b"STABLE_TORCH_LIBRARY_FRAGMENT")


def taken_namespace(texts: Iterable[bytes], flags: Iterable[str], name: str, library: bytes) -> str | None:
    """A namespace that a library would register although this process has it, or the same operators in it.

    Args:
        texts: its sources and headers.
        flags: for compilers.
        name: TORCH_EXTENSION_NAME.
        library: its bytes, which say what of the sources was compiled: they have the namespace as a string.
    """
    text = _COMMENT.sub(b" ", b"\n".join(texts).replace(b"\\\n", b" "))
    if b"TORCH_LIBRARY" not in text:
        return None
    macros: dict[bytes, tuple[list[bytes] | None, bytes]] = {b"TORCH_EXTENSION_NAME": (None, name.encode())}
    for define in _DEFINE.finditer(text + b"\n" + directives_of(flags)):
        parameters = [each.strip() for each in define[2].split(b",")] if define[2] is not None else None
        macros[define[1]] = (parameters, define[3].strip())
    text = _DEFINE.sub(b"", text)

    def named(by: tuple[bytes, ...]) -> Iterator[str]:
        for each in sorted({*_namespaces(text, by, macros)}):
            if b"(" in each:  # macros that join it of parts, with TORCH_EXTENSION_NAME among them
                taken = sorted({space for space, _ in _operators() if name in space})
                yield from (space for space in taken if b"\0%b\0" % space.encode() in library)
            elif each + b"\0" in library:
                yield each.decode()

    whole = (each for each in named(_WHOLE) if _is_registered(each))
    return next(whole, None) or next((each for each in named(_PARTS) if _has_operator(each, library)), None)


def _namespaces(text: bytes, by: tuple[bytes, ...], macros: _Macros) -> Iterator[bytes]:
    """The namespaces that a text registers by these macros of torch, or by its own that use them."""
    places = dict.fromkeys(by, 0)  # macro -> which of its arguments is the namespace
    while further := {
        macro: parameters.index(argument)
        for macro, (parameters, body) in macros.items()
        for argument in _arguments(body, places)
        if macro not in places and parameters and argument in parameters
    }:
        places |= further
    for argument in _arguments(text, places):
        namespace = argument
        for _ in range(len(macros)):
            parameters, body = macros.get(namespace, ([], b""))
            namespace = body if parameters is None and body else namespace
        yield namespace


def _arguments(text: bytes, places: Mapping[bytes, int]) -> Iterator[bytes]:
    for macro, place in places.items():
        for call in re.finditer(rb"\b%b\s*\(((?:[^()]|%b)*)" % (macro, _NESTED), text):
            if len(arguments := re.findall(rb"(?:[^,()]|%b)+" % _NESTED, call[1])) > place:
                yield arguments[place].strip()


def _operators() -> Iterator[tuple[str, str]]:
    """The namespaces and names of this process's operators."""
    import torch

    for each in torch._C._dispatch_get_all_op_names():
        space, _, name = each.partition(".")[0].partition("::")
        yield space, name


def _is_registered(namespace: str) -> bool:
    """Whether a library of this process registers a whole namespace: torch's dispatcher, asked, takes no second one."""
    from torch import library

    try:
        whole = library.Library(namespace, "DEF")
    except RuntimeError:
        return True
    whole._destroy()
    return False


def _has_operator(namespace: str, library: bytes) -> bool:
    """Whether this process has an operator in a namespace whose schema is in a library, or its name, if it has none."""
    ours = (name for space, name in _operators() if space == namespace)
    return any(re.search(rb"[\0:]" + name.encode() + rb"[.(\0]", library) for name in ours)
