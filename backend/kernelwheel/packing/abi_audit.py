"""The audit of operator libraries against torch's stable ABI, by torch-abi-audit.

A library that uses another symbol of torch, or one that is newer than the ABI target, would load on this machine and
fail with an undefined symbol on another (PyTorch notes, "LibTorch Stable ABI").
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from packaging.version import Version

from ..compiler.binary_inspect import library_at
from ..runtime.artifact.artifact import Artifact
from ..runtime.errors import BuildError

MOST_SYMBOLS = 10


def audit(artifact: Artifact) -> str:
    """Refuse an Artifact whose operators need more of torch than the stable ABI of its target has.

    Returns:
        A line that says what was audited.

    Raises:
        BuildError: names the symbols.
    """
    manifest = artifact.manifest
    bound = {file for file, extension in manifest.extensions.items() if extension["kind"] != "operators"}
    modules_only = manifest.plan["target"]["binding"] and not manifest.extensions
    files = [] if modules_only else [library.file for library in manifest.libraries if library.file not in bound]
    libraries = [artifact.folder / file for file in files]
    if not libraries:
        return "stable ABI: no library claims it"
    if importlib.util.find_spec("torch_abi_audit") is None:
        return "stable ABI: not audited, because torch-abi-audit needs Python 3.11"
    target = str(manifest.content["torch_target"])
    found = [f"{path.name}: {reason}" for path in libraries for reason in _reasons(path, target)]
    if found:
        more = [f"and {len(found) - MOST_SYMBOLS} more"] if len(found) > MOST_SYMBOLS else []
        raise BuildError(
            "a library uses symbols of torch that are outside its stable ABI",
            required=f"symbols of the stable ABI of torch {target}, the package's torch-target",
            found="\n".join([*found[:MOST_SYMBOLS], *more]),
            remedies=[
                "use torch/csrc/stable and torch/headeronly instead of ATen and c10",
                "or raise torch-target in [tool.kernelwheel] of pyproject.toml, if only a newer torch has the symbol",
                'or bind it to one torch: abi = "torch", or kind = "torch-library" for an extension',
            ],
        )
    return f"stable ABI: nothing beyond that of torch {target} is used by {', '.join(path.name for path in libraries)}"


def _reasons(path: Path, target: str) -> list[str]:
    from torch_abi_audit.demangle import demangle_symbol  # not installed with Python 3.10
    from torch_abi_audit.torch_abi import classify_symbols

    verdict = classify_symbols([demangle_symbol(name) for name in sorted(library_at(path).used())])
    newest = Version(verdict.min_torch_version or "0").release[:2]
    newer = verdict.version_defining_symbols if newest > Version(target).release[:2] else ()
    return [
        *(f"{name} is not part of it" for name in verdict.unstable_symbols),
        *(f"{name} is new in torch {verdict.min_torch_version}" for name in newer),
        *(f"{name} is newer than all that torch-abi-audit knows" for name in verdict.unknown_shim_symbols),
    ]
