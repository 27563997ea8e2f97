// The library for CUDA, without the parts that have their own.
#include "cuda_device.h"
#include "rasterization_operators.h"

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { splat::implement_rasterization<splat::Cuda>(m); }
