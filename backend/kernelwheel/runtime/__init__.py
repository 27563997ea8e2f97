"""The loader: what a user's process imports. It finds an Artifact that fits, verifies and loads it, or has one made.

Every wheel carries it, as `<package>._kernelwheel`. It imports the standard library and torch, and nothing else.
"""

from .artifact.content import MAIN as MAIN
from .errors import BuildError as BuildError
from .errors import IncompatibleArtifactError as IncompatibleArtifactError
from .errors import KernelWheelError as KernelWheelError
from .errors import StoreError as StoreError
from .kernels import Kernels as Kernels
