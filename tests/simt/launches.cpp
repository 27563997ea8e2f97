// The files that nvcc compiles, for what launches their kernels: the kernels themselves are executed as PTX.
#include "simt.h"
// After it, what stands for nvcc.
#include "cuda/gaussians.cu"
#include "cuda/launches.cu"
#include "cuda/rasterize_backward.cu"
#include "cuda/sort.cu"
