"""A package of one operator, for the tests of the build backend."""

from pathlib import Path

from ._kernelwheel import Kernels

KERNELS = Kernels("tiny", "1.2.3", Path(__file__).parent / "_native")
KERNELS.load_if_usable()
