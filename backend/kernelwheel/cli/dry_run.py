"""What would be compiled: asked of the compiler, which compiles nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..runtime import compiler_process
from ..runtime.request import CompileRequest


def preview(
    requests: Sequence[CompileRequest], machine: CompileRequest | None, environ: Mapping[str, str]
) -> dict[str, Any]:
    """What would be compiled for these requests, and with what.

    `plans`, for each request `{"plan": …}` or `{"error": …}`, and `toolchain`, what is found for `machine`.
    """
    question = {"requests": [each.to_json() for each in requests], "machine": machine and machine.to_json()}
    answer: dict[str, Any] = compiler_process.send({"dry-run": question}, lambda line: None, environ)
    return answer
