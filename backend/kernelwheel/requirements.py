"""The Python packages that a build or a compile needs besides torch, and the error if one is not installed."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from .runtime.errors import COMPILERS, PUBLISHED, BuildError
from .runtime.machine.platforms import SUPPORTED, platform_name
from .version import __version__

# Each as (import name, name on PyPI). For a compile, at build time or at run time:
TO_COMPILE = (("scikit_build_core", "scikit-build-core"), ("elftools", "pyelftools"), ("packaging", "packaging"))
# For a wheel, an editable wheel or an sdist:
TO_BUILD = (
    ("setuptools", "setuptools"),
    *TO_COMPILE,
    ("wheel", "wheel"),
    ("auditwheel", "auditwheel"),
    *([("torch_abi_audit", "torch-abi-audit")] if sys.version_info >= (3, 11) else []),
    ("cyclonedx", "cyclonedx-python-lib"),
    *([("tomli", "tomli")] if sys.version_info < (3, 11) else []),
)
# For kernels for Windows besides, which pip installs where such a wheel is built:
FOR_WINDOWS = (("ziglang", "ziglang"), ("pefile", "pefile"))
# Of those, the releases that work; the distribution requires the same (backend/pyproject.toml).
RELEASES = {"scikit-build-core": "<2", "packaging": ">=24.2", "ziglang": ">=0.17,<0.18"}


def install(names: Iterable[str]) -> str:
    """The command that installs packages by their names on PyPI."""
    return f"pip install {' '.join(shlex.quote(name + RELEASES.get(name, '')) for name in names)}"


def own_reference(extra: str = "") -> str:
    """What a build requires of kernelwheel: the wheel or the commit that this one was installed from (PEP 610).

    A release that was installed from an index is taken by its name. Otherwise that may be somebody else's there, and if
    the file is not known, it is a path to be filled in.
    """
    installed = metadata.distributions(name="kernelwheel", path=[str(Path(__file__).parents[1])])
    origin: Mapping[str, Any] = next((json.loads(each.read_text("direct_url.json") or "{}") for each in installed), {})
    url, package = origin.get("url", ""), "kernelwheel" + (f"[{extra}]" if extra else "")
    if commit := origin.get("vcs_info"):
        url = f"{commit['vcs']}+{url}@{commit['commit_id']}#subdirectory={origin['subdirectory']}"
    if not url and PUBLISHED:
        return package + COMPILERS
    if not url or "dir_info" in origin:  # of a folder, uv would keep an old build
        url = f"file:///path/to/kernelwheel-{__version__}-py3-none-any.whl"
    return f"{package} @ {url}"


def missing(packages: Sequence[tuple[str, str]]) -> list[str]:
    """The names on PyPI of packages that are not installed."""
    return [name for module, name in packages if importlib.util.find_spec(module) is None]


def require_build_packages() -> None:
    """Raise an error that names each package that a build needs and that is not installed."""
    if names := missing(TO_BUILD):
        raise BuildError(
            "the build requirements are not complete",
            required=", ".join(name + RELEASES.get(name, "") for _, name in TO_BUILD),
            found="\n".join(f"{name} is not installed in {sys.prefix}" for name in names),
            remedies=[
                install(names),
                "or build in isolation, the default (pip: without --no-build-isolation), which installs what "
                "[build-system] of pyproject.toml requires",
            ],
        )


@contextmanager
def imports_checked_later() -> Iterator[None]:
    """End the imports in the body at the first of a package that `require_build_packages` reports.

    The backend's module must be importable without them: front ends show what fails before a hook with a traceback. For
    the same reason it is importable on platforms that every hook refuses, and that lack modules such as fcntl.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if platform_name() in SUPPORTED and (error.name or "").partition(".")[0] not in dict(TO_BUILD):
            raise
