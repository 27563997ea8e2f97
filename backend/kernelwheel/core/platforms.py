"""The platforms that kernels are built for: what differs between them, with one class per system.

docs/design.md lists what a port to another system needs besides a class here.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import BuildError
from .host import platform_name


@dataclass(frozen=True)
class Linux:
    """Linux with glibc on one kind of CPU.

    Attributes:
        machine: the CPU as in the names of platforms and of wheel tags: `x86_64`.
        elf: what its ELF headers say: class (2: 64 bits), byte order (1: little), machine number.
        cuda_target: nvcc's name of the part of a toolkit for it, a folder in `targets`.
        has_tegra: whether there are Tegra chips with it, whose GPUs run no other GPU's code.
    """

    machine: str
    elf: tuple[int, int, int]
    cuda_target: str
    has_tegra: bool = False

    @property
    def name(self) -> str:
        """The name in Plans, manifests and settings: `linux-x86_64`."""
        return f"linux-{self.machine}"

    @property
    def triple(self) -> str:
        """What compilers call it, and the prefix of the names of cross compilers: `x86_64-linux-gnu`."""
        return f"{self.machine}-linux-gnu"

    @property
    def tag(self) -> str:
        """The tag of a wheel that promises nothing about its glibc: `linux_x86_64`."""
        return f"linux_{self.machine}"

    @property
    def cmake_system(self) -> str:
        """What CMake calls the system (cmake-variables(7), CMAKE_SYSTEM_NAME)."""
        return "Linux"

    def is_target_of(self, compiler: str) -> bool:
        """Whether a compiler's target, such as `aarch64-linux-gnu` or `aarch64-redhat-linux`, is this platform."""
        machine, *rest = compiler.split("-")
        return machine == self.machine and "linux" in rest


Platform = Linux  # a port adds its class
PLATFORMS: dict[str, Platform] = {
    each.name: each
    for each in (
        Linux("x86_64", (2, 1, 62), "x86_64-linux"),
        Linux("aarch64", (2, 1, 183), "sbsa-linux", has_tegra=True),
    )
}
# The builds for another platform that there are: on the first, for the second.
CROSS_BUILDS = (("linux-x86_64", "linux-aarch64"),)


def require_supported() -> Platform:
    """This machine's platform.

    Raises:
        BuildError: kernels cannot be built on it.
    """
    here = PLATFORMS.get(platform_name())
    if here is None:
        raise BuildError(
            f"kernels cannot be built on {platform_name()}",
            required=f"one of {', '.join(PLATFORMS)}",
            found=platform_name(),
            remedies=["build on one of them; docs/design.md of kernelwheel lists what a port needs"],
        )
    return here
