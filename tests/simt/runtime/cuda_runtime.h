// What the files that nvcc compiles use besides: launching a kernel, which is then executed by engine.cpp.
#pragma once

#include <utility>

#include "cuda_runtime_api.h"

struct dim3 {
  unsigned int x, y, z;
  explicit dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
};

// CUDA's fields in CUDA's order; kernels have other uses for the names of the first two.
struct cudaLaunchConfig_t {
  dim3 grid;
  dim3 block;
  size_t dynamic_bytes;
  cudaStream_t stream;
};

namespace simt {

// Executes the PTX of a kernel on the memory that its operator uses; `arguments` has their addresses.
cudaError_t launch_on_host(const void* kernel, dim3 grid, dim3 block, size_t dynamic_bytes, void** arguments);

}  // namespace simt

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return [&](Parameters... converted) {
    void* addresses[] = {&converted...};
    return simt::launch_on_host(reinterpret_cast<const void*>(kernel), config->grid, config->block,
                                config->dynamic_bytes, addresses);
  }(std::forward<Arguments>(arguments)...);
}
