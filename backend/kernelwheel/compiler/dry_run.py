"""What would be compiled, and with what: each part is looked for by itself, so that a missing one hides no other."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..runtime.errors import BuildError, KernelWheelError
from .compile_job import CompileJob, read_job
from .tools import INSTALLED, find_tools, require_tools


def dry_run(question: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """What would be compiled for each of `requests`, or why not, and what is found for `machine`; as JSON values."""
    plans = [_plan(read_job(each, environ), environ) for each in question["requests"]]
    machine = read_job(question["machine"], environ) if question["machine"] else None
    return {"plans": plans, "toolchain": _toolchain(machine, environ) if machine else None}


def _plan(job: CompileJob, environ: Mapping[str, str]) -> dict[str, Any]:
    try:
        require_tools()
        from .build_or_reuse import create_plan_for
        from .find_toolchain import toolchain_for

        plan = create_plan_for(job, toolchain_for(job, environ)).plan
    except KernelWheelError as error:
        return {"error": error.to_json()}
    return {"plan": plan.to_json(), "fingerprint": plan.fingerprint}


def _toolchain(job: CompileJob, environ: Mapping[str, str]) -> dict[str, Any]:
    """Programs and packages as text by name, and `candidates`: every place where nvcc may be, with the outcome."""
    tools = find_tools()
    view: dict[str, Any] = {"candidates": [], **{name: found for name, found in tools.items() if found != INSTALLED}}
    if "missing" in tools.values():  # without them, the rest cannot be imported
        return view
    from .cross.target_platform import cross_platform
    from .find_toolchain import describe_compiler, find_compiler, nvcc_limits
    from .toolchain.compiler_environment import without_effect
    from .toolchain.cuda import decide_cuda, look_for_nvcc
    from .toolchain.nvcc import NvccSearch
    from .toolchain.torch_files import find_torch

    settings, taken = job.settings, None
    candidates = []
    try:
        torch = find_torch()
        search = NvccSearch(settings, torch, environ, sys.path, nvcc_limits(job))
        view["torch"] = f"{torch.root}: {torch.version}"
        if torch.cuda and settings.cuda != "off":
            candidates = list(look_for_nvcc(search))
        decision = decide_cuda(search, candidates or None)
        view["cuda"], taken = decision.reason, decision.nvcc
    except BuildError as error:
        view["cuda"] = error.problem
    for each in candidates:
        seen = {"origin": each.origin, "place": each.place, "outcome": each.outcome, "usable": each.nvcc is not None}
        view["candidates"].append({**seen, "taken": taken is not None and each.nvcc is taken})
    try:
        view["cxx"] = "\n".join(describe_compiler(*find_compiler(settings, environ, taken, cross_platform(settings))))
    except BuildError as error:
        view["cxx"] = str(error)
    if notes := "\n".join(without_effect(environ, settings.variable)):
        view["note"] = notes
    return view
