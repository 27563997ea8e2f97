"""Versions that are written once: kernelwheel's, for its metadata and the manifests, and the oldest torch."""

__version__ = "0.1.0"
# The first release with the whole of the stable ABI that KernelWheel.cmake relies on.
OLDEST_TORCH = "2.10"
# Of the packages that `load` makes, which differ in their content. No other package can have it.
LOADED = "0-load"
