"""Which Artifact is used, and how it gets into the process."""

from .kernels import Kernels as Kernels
