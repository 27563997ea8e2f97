// The library for CUDA. What it takes and returns is in operators.h.
#include "cuda.h"

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { splat::implement_operators<splat::Cuda>(m); }
