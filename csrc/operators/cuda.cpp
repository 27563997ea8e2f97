// The library for CUDA. What it takes and returns is in operators.h.
#include "cuda_device.h"
#include "operators.h"

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { splat::implement_operators<splat::Cuda>(m); }
