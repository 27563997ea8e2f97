#pragma once

#ifdef WITH_CUDA
#include <cuda_runtime.h>

// The squared distance of each of `count` points, three floats each, to the nearest other one.
void distances_cuda(const float* points, int count, float* nearest, cudaStream_t stream);
#endif
