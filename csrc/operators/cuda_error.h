// Errors of the CUDA runtime.
#pragma once

#include <torch/csrc/stable/macros.h>

#include <cuda_runtime_api.h>

namespace splat {

// Raises an error with the text that torch has for it. The CUDA runtime is linked into this library, and keeps the last
// error until it is asked for it: left there, it would be that of the next launch.
inline void check_cuda(cudaError_t status) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  STD_CUDA_CHECK(status);
}

}  // namespace splat
