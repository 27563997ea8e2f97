"""Manifests for tests: whole ones that nobody compiled, and real ones that were changed as their maker could have."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernelwheel.runtime.artifact import manifest as manifests
from kernelwheel.runtime.artifact.manifest import Library, Manifest, Requires
from kernelwheel.runtime.machine.files import json_sha256
from kernelwheel.runtime.machine.host import Host, torch_required
from kernelwheel.store import manifest_file
from kernelwheel.store.manifest_fields import PARTS, digests_of, fingerprint_of

Values = dict[str, Any]

# A library that can be written to a file, and matches it.
BYTES = bytes(range(256)) * 8
LIBRARY = Library("libtiny_cpu.so", hashlib.sha256(BYTES).hexdigest(), len(BYTES), "cpu")
CPU_LIBRARY = Library("libtiny_cpu.so", "0" * 64, 1, "cpu")
CUDA_LIBRARY = Library("libtiny_cuda.so", "a" * 64, 7, "cuda", ("9.0", "12.0f"), ("12.0f",), host_code="d" * 64)
CUDA = {"sass": ["9.0", "12.0f"], "ptx": ["12.0f"]}
TOOLKIT = {"version": "13.2.86", "nvcc": "b" * 64, "cccl": "c" * 64}
PLAN: Values = {
    "schema": 1,
    "content": {
        "package": "tiny",
        "version": "1.2.3",
        "sources": {"CMakeLists.txt": "1" * 64, "math/twice.cuh": "2" * 64},
        "abi": "stable",
        "torch_target": "2.10",
        "extensions": [],
        "dispatched": [],
        "parts": {},
        "devices": "together",
        "options": {
            "cxx-flags": ["-DA=x y"],
            "link-flags": [],
            "cuda-flags": ["-lineinfo"],
            "glibc": "2.28",
            "cxx-standard": "raised",
        },
    },
    "tools": {
        "recipe": {"compiler/cmake_driver.py": "3" * 64},
        "cxx": {"kind": "gcc", "version": "12.2.0", "target": "x86_64-linux-gnu"},
        "toolkit": TOOLKIT,
        "headers": {"torch": "7" * 64},
        "taken": {},
    },
    "target": {
        "platform": "linux-x86_64",
        "cuda": CUDA,
        "cpu_kernels": True,
        "binding": None,
        "cpu": {},
        "standard": {"stable": "c++17"},
    },
}
BUILT_WITH: Values = {
    "kernelwheel": "0.1.0",
    "torch": "2.13.0+cu132",
    "torch_cuda": "13.2",
    "cxx": "gcc 12.2.0",
    "nvcc": "13.2.86",
    "cccl": "3.2.0",
    "cmake": ">=3.24",
    "ninja": ">=1.5",
    "cuda": {"enabled": True, "because": "torch has CUDA"},
    "settings": {
        "cuda": {"value": "auto", "origin": "default"},
        "cxx": {"value": None, "origin": "environment variable CXX"},
        "cxx-flags": {"value": ["-DA=x y"], "origin": "[tool.kernelwheel]"},
    },
}
REQUIRES = Requires("2.10", "linux-x86_64", "glibc 2.34", "GLIBCXX_3.4.30", None, "13.0", "13.2")
# What a Host is compared with, for two generations of GPUs; and a Host that it fits.
CUDA_MANIFEST = Manifest(
    package="tiny",
    version="1.2.3",
    fingerprint="f" * 64,
    sources="5" * 64,
    plan=PLAN,
    digests={},
    built_with={"cuda": {"enabled": True, "because": "torch has CUDA"}},
    requires=REQUIRES,
    libraries=(CPU_LIBRARY, Library("libtiny_cuda.so", "0" * 64, 1, "cuda", ("8.0", "9.0"), ("9.0",))),
)
HOST = Host("linux-x86_64", "glibc 2.36", "GLIBCXX_3.4.30", "2.11.0+cu130", "13.0", "cp312", (13, 2), ((9, 0),))


def sample(*libraries: Library, **planned: Any) -> Manifest:
    """A manifest that agrees with itself: of these libraries (default: one for the CPU, one for CUDA), and of a Plan
    that differs from PLAN in what is `planned`.
    """
    libraries = libraries or (CPU_LIBRARY, CUDA_LIBRARY)
    with_cuda = any(library.device == "cuda" for library in libraries)
    plan = copy.deepcopy(PLAN)
    if not with_cuda:
        without_cuda(plan)
    for name, value in planned.items():
        next(plan[part] for part in PARTS if name in plan[part])[name] = value
    built_with = copy.deepcopy(BUILT_WITH)
    built_with["cuda"]["enabled"] = with_cuda
    requires = REQUIRES if with_cuda else REQUIRES._replace(driver=None, driver_for_ptx=None)
    return Manifest(
        package=plan["content"]["package"],
        version=plan["content"]["version"],
        fingerprint=fingerprint_of(plan["schema"], digests_of(plan)),
        sources=json_sha256(plan["content"]["sources"]),
        plan=plan,
        digests=digests_of(plan),
        built_with=built_with,
        requires=requires,
        libraries=libraries,
    )


def follow_plan(values: Values) -> None:
    """Let what a manifest repeats of its Plan be what the Plan says now."""
    plan = values["plan"]
    content, digests = plan["content"], digests_of(plan)
    values.update(package=content["package"], version=content["version"], sources=json_sha256(content["sources"]))
    values.update(digests=digests, fingerprint=fingerprint_of(plan["schema"], digests))


def without_cuda(plan: Values) -> None:
    """Let a Plan be one without CUDA kernels."""
    plan["target"]["cuda"] = plan["tools"]["toolkit"] = None
    plan["content"]["options"].pop("cuda-flags", None)


def rewrite_manifest(folder: Path, change: Callable[[Values], object], into: Path | None = None) -> Values:
    """Change the manifest in a folder, or a copy of it, as if it had been written like that; returns its values."""
    values: Values = json.loads((folder / manifests.FILE).read_text())
    change(values)
    follow_plan(values)
    ((into or folder) / manifests.FILE).write_bytes(manifest_file.signed(values))
    return values


def with_cuda(values: Values, *libraries: Library, sass: Sequence[str] = ("9.0",)) -> None:
    """Let a manifest of CPU kernels be one of these CUDA libraries too, or of the ones that it has."""
    plan = values["plan"]
    plan["target"]["cuda"], plan["tools"]["toolkit"] = {"sass": list(sass), "ptx": []}, TOOLKIT
    plan["content"]["options"]["cuda-flags"] = []
    values["built_with"]["cuda"]["enabled"] = True
    bound = plan["target"]["binding"] is not None
    values["requires"].update(cuda=13 if bound else None, driver="13.0", driver_for_ptx="13.0")
    values["libraries"] += [library._asdict() for library in libraries]


def bind_modules(values: Values, **binding: str) -> None:
    """Let a manifest of modules be for another `python`, or for another `torch`."""
    bound = values["plan"]["target"]["binding"]
    bound.update(binding)
    values["requires"].update(python=bound["python"], torch=torch_required(bound["torch"]))


def flip(path: Path, at: int | None = None) -> None:
    """Change one bit of a file, in the middle or where it is said."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.write_bytes(data)
