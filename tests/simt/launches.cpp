// The files that nvcc compiles, for what launches their kernels: the kernels themselves are executed as PTX.
#include "simt.h"
// After it, what stands for nvcc.
#include "cuda/gaussians.cu"
#include "cuda/image_loss.cu"
#include "cuda/launches.cu"
#include "cuda/rasterize_2dgs.cu"
#include "cuda/rasterize_along_rays.cu"
#include "cuda/rasterize_backward.cu"
