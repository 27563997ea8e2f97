"""The binding of a Python module to one Python and one torch."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

from ...project.build_platforms import HOST_PLATFORM
from ...runtime.errors import BuildError
from .toolchain import Toolchain


@dataclass(frozen=True)
class Binding:
    """The Python and torch that a module is compiled for and bound to: their headers decide its bytes.

    Attributes:
        python: the ABI tag, `cp312`; None for libraries that use no Python symbol.
        torch: the full version, `2.13.0+cpu`.
    """

    python: str | None
    torch: str


def torch_release(version: str) -> str:
    """The release that libraries are bound to: `2.13` of `2.13.0+cu130`."""
    return "{0.major}.{0.minor}".format(Version(version))


def bind(toolchain: Toolchain, python: bool) -> Binding:
    """The Binding of what this Toolchain compiles on all of torch's C++ API; for its Python if `python` is set.

    Raises:
        BuildError: headers or libraries are missing; says which, and how to install them.
    """
    _ = toolchain.torch_headers, toolchain.python_headers if python else ()  # they raise if some are missing
    library = f"lib/{HOST_PLATFORM.shared('torch_python')}"
    if python and not (toolchain.torch.root / library).is_file():
        raise BuildError(
            "the installed torch is incomplete",
            required=f"{library}, which a Python module is linked to",
            found=f"not found in {toolchain.torch.root}",
            remedies=[f"pip install --force-reinstall 'torch=={toolchain.torch.version}'"],
        )
    return Binding(toolchain.python_abi if python else None, toolchain.torch.version)
