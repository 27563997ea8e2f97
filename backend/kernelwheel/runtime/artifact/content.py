"""The content of kernels: what they are compiled from and how, whatever compiles them and whatever they are for.

An Artifact is found by it: its content must be what the package wants now.
"""

from __future__ import annotations

from typing import Any

# Of a package whose kernels are found, compiled and loaded in parts: the one with all that is in no other.
MAIN = "main"
Content = dict[str, Any]  # as JSON, in a Plan and in a manifest


def can_use_cuda(content: Content) -> bool:
    """Whether a build with CUDA differs from one without; only a CMakeLists.txt does not say."""
    return not content["extensions"] or any(each["cuda"] != "none" for each in content["extensions"])


def needs_cuda(content: Content) -> bool:
    """Whether something cannot be built without CUDA."""
    return any(each["cuda"] == "required" for each in content["extensions"])


def needed_for(device: str, content: Content) -> tuple[str, ...]:
    """The device types whose libraries a call needs, in load order; the CPU's defines operators, unless `apart`."""
    return ("cpu", "cuda") if device == "cuda" and content["devices"] == "together" else (device,)


def serves_both(content: Content) -> bool:
    """Whether a library for CUDA has CPU kernels too; otherwise there is one for each."""
    return content["abi"] == "torch" or bool(content["extensions"])


def only(content: Content, part: str) -> Content:
    """The content of one part: without the extensions and the files that are other parts' own; all of it for none."""
    parts = content["parts"]
    if part not in parts or part == part_made(content):
        return content
    others = {file for files in parts.values() for file in files}.difference(parts[part])
    sources = {file: digest for file, digest in content["sources"].items() if file not in others}
    extensions = [each for each in content["extensions"] if part_of(each["name"], content) == part]
    rest = {**content, "sources": sources, "extensions": extensions, "parts": {part: parts[part]}}
    return rest if can_use_cuda(rest) else without_cuda(rest)


def part_made(content: Content) -> str:
    """The one part that a content is of; empty if it has several, or none."""
    return next(iter(content["parts"])) if len(content["parts"]) == 1 else ""


def part_of(extension: str, content: Content) -> str:
    """The part that an extension is in; empty if there are no parts."""
    return extension if extension in content["parts"] else MAIN if content["parts"] else ""


def part_of_library(file: str, content: Content) -> str:
    """The part that a library of a CMakeLists.txt is in, which its name ends in; empty if there are no parts."""
    parts = content["parts"]
    return next((part for part in parts if f"_{part}." in file), MAIN if parts else "")


def without_cuda(content: Content) -> Content:
    """The same without the options for CUDA only: the content of kernels for the CPU alone."""
    from ..settings import Settings  # imported only if needed, to keep a warm start fast

    for_cuda = {name for name, option in Settings.OPTIONS.items() if option.cuda_only}
    return {**content, "options": {name: value for name, value in content["options"].items() if name not in for_cuda}}
