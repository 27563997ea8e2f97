"""The content of kernels: what they are compiled from and how, whatever compiles them and whatever they are for.

An Artifact is found by it: its content must be what the package wants now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..machine.files import json_sha256

PARTS = ("content", "tools", "target")
Content = dict[str, Any]  # as JSON, in a Plan and in a manifest


def digests_of(plan: Mapping[str, Any]) -> dict[str, str]:
    """The digests of a Plan's three parts, from its JSON values."""
    return {part: json_sha256(plan[part]) for part in PARTS}


def fingerprint_of(schema: int, digests: Mapping[str, str]) -> str:
    """The fingerprint of a Plan: the digest of its schema and of its parts' digests."""
    return json_sha256({"schema": schema, **digests})


def can_use_cuda(content: Content) -> bool:
    """Whether a build with CUDA differs from one without; only a CMakeLists.txt does not say."""
    return not content["extensions"] or any(each["cuda"] != "none" for each in content["extensions"])


def needs_cuda(content: Content) -> bool:
    """Whether something cannot be built without CUDA."""
    return any(each["cuda"] == "required" for each in content["extensions"])


def serves_both(content: Content) -> bool:
    """Whether a library for CUDA has CPU kernels too; otherwise there is one for each."""
    return content["abi"] == "torch" or bool(content["extensions"])


def without_cuda(content: Content) -> Content:
    """The same without the options for CUDA only: the content of kernels for the CPU alone."""
    from ..settings import Settings  # imported only if needed, to keep a warm start fast

    for_cuda = {name for name, option in Settings.OPTIONS.items() if option.cuda_only}
    return {**content, "options": {name: value for name, value in content["options"].items() if name not in for_cuda}}
