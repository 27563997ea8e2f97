"""Asking the compiler, which is kernelwheel in a process of its own."""
