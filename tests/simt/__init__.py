"""The CUDA kernels' own source, executed on the CPU: see simt.h and engine.cpp."""
