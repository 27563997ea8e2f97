// The library of gaussians along rays for CUDA.
#include "cuda_rays.h"
#include "rays_operators.h"

STABLE_TORCH_LIBRARY_IMPL(splat, CUDA, m) { splat::implement_rays<splat::CudaRays>(m); }
