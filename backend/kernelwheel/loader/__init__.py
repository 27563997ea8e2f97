"""What a user's process imports: it finds an Artifact that fits, verifies and loads it, or asks for a compile."""

from ..core.errors import BuildError as BuildError
from ..core.errors import IncompatibleArtifactError as IncompatibleArtifactError
from ..core.errors import KernelWheelError as KernelWheelError
from ..core.errors import StoreError as StoreError
from .kernels import Kernels as Kernels
