// The files that nvcc compiles, compiled with -fsanitize=thread instead, so that engine.cpp hears of every access to
// memory. CUB is not among them: runtime.cpp sorts.
#include "simt.h"
// After it, what stands for nvcc.
#include "broken_kernels.h"
#include "cuda/gaussians.cu"
#include "cuda/intersect.cu"
#include "cuda/rasterize.cu"
#include "cuda/rasterize_backward.cu"

#define SIMT_DEFINE(name) void (*const simt_##name)(const float*, float*) = &simt_broken::name;
SIMT_BROKEN_KERNELS(SIMT_DEFINE)
#undef SIMT_DEFINE

// The dynamic shared memory of broken_kernels.h: as much as any launch may ask for.
namespace simt_broken {
__shared__ float dynamic[64];
}
