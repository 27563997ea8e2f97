"""Everything that picks an Artifact and loads it into the process."""

from .kernels import Kernels as Kernels
