// The library of 2D Gaussians for CUDA.
#include "cuda_2dgs.h"
#include "2dgs_operators.h"

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { splat::implement_2dgs<splat::Cuda2dgs>(m); }
