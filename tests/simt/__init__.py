"""The CUDA kernels' PTX, executed on the CPU: see ptx_translator.py and engine.cpp."""
